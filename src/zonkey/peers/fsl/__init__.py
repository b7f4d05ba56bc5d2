"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

from ...estimators.model_forms import allow_few_shot
from .base import BaseSamples
from .bd_cspn import BDCSPN
from .laplacian_shot import LaplacianShot
from .pt_map import PTMAP
from .simple_shot import SimpleShot
from .tim import TIM

__all__ = [
    "BDCSPN",
    "PTMAP",
    "TIM",
    "BaseSamples",
    "LaplacianShot",
    "SimpleShot",
]

_META = ("weights_", "_center", "n_iter_", "loss_curve_", "validation_scores_")

allow_few_shot(BDCSPN, ("centers_", "_start"))
allow_few_shot(LaplacianShot, ("centers_", "_others", "_start"))
allow_few_shot(PTMAP, ("centers_", "offsets_", "_transform", "_start"))
allow_few_shot(SimpleShot, ("centers_", "_steps"))
allow_few_shot(TIM, ("weights_", "_start"))
