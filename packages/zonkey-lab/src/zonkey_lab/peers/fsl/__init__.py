"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

from zonkey.persistence.forms import allow_few_shot

from .base import BaseSamples
from .bd_cspn import BDCSPN
from .distribution_calibration import DistributionCalibration
from .gda import GaussianDiscriminant
from .laplacian_shot import LaplacianShot
from .lp_plus_plus import LPPlusPlus
from .lsl import LSL
from .maml import MAML
from .map_ssvm import MAPSSVM
from .matching import MatchingNetwork
from .meta_lstm import MetaLearnerLSTM
from .ppa import PPA
from .prototypical import PrototypicalNetwork
from .pt_map import PTMAP
from .relation import RelationNetwork
from .simple_shot import SimpleShot
from .snail import SNAIL
from .tim import TIM
from .tip_adapter import TipAdapter

__all__ = [
    "BDCSPN",
    "LSL",
    "MAML",
    "MAPSSVM",
    "PPA",
    "PTMAP",
    "SNAIL",
    "TIM",
    "BaseSamples",
    "DistributionCalibration",
    "GaussianDiscriminant",
    "LPPlusPlus",
    "LaplacianShot",
    "MatchingNetwork",
    "MetaLearnerLSTM",
    "PrototypicalNetwork",
    "RelationNetwork",
    "SimpleShot",
    "TipAdapter",
]

_META = ("weights_", "_center", "n_iter_", "loss_curve_", "validation_scores_")

allow_few_shot(BDCSPN, ("centers_", "_start"))
allow_few_shot(DistributionCalibration, ("coef_", "intercept_", "_power"))
allow_few_shot(GaussianDiscriminant, ("coef_", "intercept_", "shrinkage_", "_center"))
allow_few_shot(LaplacianShot, ("centers_", "_others", "_start"))
allow_few_shot(LPPlusPlus, ("coef_", "alpha_", "loss_", "_center"))
allow_few_shot(LSL, ("coef_", "intercept_", "_center", "n_iter_", "loss_curve_"))
allow_few_shot(MAML, (*_META, "head_"))
allow_few_shot(MAPSSVM, (*_META, "coef_"))
allow_few_shot(MatchingNetwork, (*_META, "support_", "_starts", "_n_reads"))
allow_few_shot(MetaLearnerLSTM, (*_META, "coef_"))
allow_few_shot(PPA, (*_META, "coef_"))
allow_few_shot(PrototypicalNetwork, (*_META, "centers_"))
allow_few_shot(PTMAP, ("centers_", "offsets_", "_transform", "_start"))
allow_few_shot(RelationNetwork, (*_META, "centers_"))
allow_few_shot(SimpleShot, ("centers_", "_steps"))
allow_few_shot(SNAIL, (*_META, "memory_"))
allow_few_shot(TIM, ("weights_", "_start"))
allow_few_shot(TipAdapter, ("keys_", "texts_", "_cache"))
