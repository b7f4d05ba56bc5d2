"""Zero-shot systems to compare with."""

from ...estimators.model_forms import allow
from .ale import ALE
from .cmt import CMT
from .dem import DEM
from .devise import DeViSE
from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .latem import LATEM
from .sae import SAE
from .sje import SJE
from .sp_aen import SPAEN
from .vzsl import VZSL

__all__ = [
    "ALE",
    "CMT",
    "DEM",
    "ESZSL",
    "LATEM",
    "SAE",
    "SJE",
    "SPAEN",
    "VZSL",
    "DeViSE",
    "ExemplarRegression",
]

_TRAINED = ("n_iter_", "loss_curve_", "validation_scores_")

allow(ALE, _TRAINED)
allow(CMT, ("weights_", *_TRAINED), has_projection=False)
allow(DEM, ("weights_", "_output", *_TRAINED), has_projection=False)
allow(DeViSE, _TRAINED)
allow(ESZSL)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(LATEM, ("projections_", *_TRAINED), has_projection=False)
allow(SAE, ("_in_semantic_space",))
allow(SJE, _TRAINED)
allow(SPAEN, ("weights_", *_TRAINED), has_projection=False)
allow(VZSL, ("weights_", *_TRAINED), has_projection=False)
