"""Zero-shot systems to compare with, learned in closed form."""

from ...estimators.model_forms import allow
from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .sae import SAE

__all__ = ["ESZSL", "SAE", "ExemplarRegression"]

allow(ESZSL)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(SAE, ("_in_semantic_space",))
