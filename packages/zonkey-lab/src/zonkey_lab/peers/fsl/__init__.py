"""Few-shot systems to compare with: those of the paper's tables, and some that came after."""

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
