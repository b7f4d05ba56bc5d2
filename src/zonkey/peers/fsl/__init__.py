"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

from ...estimators.model_forms import allow_few_shot
from .base import BaseSamples
from .lsl import LSL
from .map_ssvm import MAPSSVM
from .ppa import PPA
from .simple_shot import SimpleShot

__all__ = [
    "LSL",
    "MAPSSVM",
    "PPA",
    "BaseSamples",
    "SimpleShot",
]

_META = ("weights_", "_center", "n_iter_", "loss_curve_", "validation_scores_")

allow_few_shot(LSL, ("coef_", "intercept_", "_center", "n_iter_", "loss_curve_"))
allow_few_shot(MAPSSVM, (*_META, "coef_"))
allow_few_shot(PPA, (*_META, "coef_"))
allow_few_shot(SimpleShot, ("centers_", "_steps"))
