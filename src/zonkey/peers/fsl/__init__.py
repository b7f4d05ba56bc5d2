"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

from ...estimators.model_forms import allow_few_shot
from .base import BaseSamples
from .distribution_calibration import DistributionCalibration
from .gda import GaussianDiscriminant
from .lp_plus_plus import LPPlusPlus
from .simple_shot import SimpleShot
from .tip_adapter import TipAdapter

__all__ = [
    "BaseSamples",
    "DistributionCalibration",
    "GaussianDiscriminant",
    "LPPlusPlus",
    "SimpleShot",
    "TipAdapter",
]

_META = ("weights_", "_center", "n_iter_", "loss_curve_", "validation_scores_")

allow_few_shot(DistributionCalibration, ("coef_", "intercept_", "_power"))
allow_few_shot(GaussianDiscriminant, ("coef_", "intercept_", "shrinkage_", "_center"))
allow_few_shot(LPPlusPlus, ("coef_", "alpha_", "loss_", "_center"))
allow_few_shot(SimpleShot, ("centers_", "_steps"))
allow_few_shot(TipAdapter, ("keys_", "texts_", "_cache"))
