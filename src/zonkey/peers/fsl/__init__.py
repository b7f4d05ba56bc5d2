"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

from ...estimators.model_forms import allow_few_shot
from .base import BaseSamples
from .lsl import LSL
from .maml import MAML
from .map_ssvm import MAPSSVM
from .matching import MatchingNetwork
from .meta_lstm import MetaLearnerLSTM
from .ppa import PPA
from .prototypical import PrototypicalNetwork
from .relation import RelationNetwork
from .simple_shot import SimpleShot
from .snail import SNAIL

__all__ = [
    "LSL",
    "MAML",
    "MAPSSVM",
    "PPA",
    "SNAIL",
    "BaseSamples",
    "MatchingNetwork",
    "MetaLearnerLSTM",
    "PrototypicalNetwork",
    "RelationNetwork",
    "SimpleShot",
]

_META = ("weights_", "_center", "n_iter_", "loss_curve_", "validation_scores_")

allow_few_shot(LSL, ("coef_", "intercept_", "_center", "n_iter_", "loss_curve_"))
allow_few_shot(MAML, (*_META, "head_"))
allow_few_shot(MAPSSVM, (*_META, "coef_"))
allow_few_shot(MatchingNetwork, (*_META, "support_", "_starts", "_n_reads"))
allow_few_shot(MetaLearnerLSTM, (*_META, "coef_"))
allow_few_shot(PPA, (*_META, "coef_"))
allow_few_shot(PrototypicalNetwork, (*_META, "centers_"))
allow_few_shot(RelationNetwork, (*_META, "centers_"))
allow_few_shot(SimpleShot, ("centers_", "_steps"))
allow_few_shot(SNAIL, (*_META, "memory_"))
