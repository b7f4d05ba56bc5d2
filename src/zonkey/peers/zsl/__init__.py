"""Zero-shot systems to compare with."""

from ...estimators.model_forms import allow
from .cmt import CMT
from .dem import DEM
from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .sae import SAE
from .sp_aen import SPAEN
from .vzsl import VZSL

__all__ = ["CMT", "DEM", "ESZSL", "SAE", "SPAEN", "VZSL", "ExemplarRegression"]

_TRAINED = ("n_iter_", "loss_curve_", "validation_scores_")

allow(CMT, ("weights_", *_TRAINED), has_projection=False)
allow(DEM, ("weights_", "_output", *_TRAINED), has_projection=False)
allow(ESZSL)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(SAE, ("_in_semantic_space",))
allow(SPAEN, ("weights_", *_TRAINED), has_projection=False)
allow(VZSL, ("weights_", *_TRAINED), has_projection=False)
