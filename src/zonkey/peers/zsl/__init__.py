"""Zero-shot peers that are learned in closed form."""

from .eszsl import ESZSL
from .exemplar import ExemplarRegression
from .rpl import RPL
from .sae import SAE

__all__ = ["ESZSL", "RPL", "SAE", "ExemplarRegression"]
