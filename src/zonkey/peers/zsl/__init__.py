"""Zero-shot systems to compare with, learned in closed form."""

from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .sae import SAE

__all__ = ["ESZSL", "SAE", "ExemplarRegression"]
