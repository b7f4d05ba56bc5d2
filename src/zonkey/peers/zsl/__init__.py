"""Zero-shot systems to compare with."""

from ...estimators.model_forms import allow
from .ale import ALE
from .devise import DeViSE
from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .latem import LATEM
from .sae import SAE
from .sje import SJE

__all__ = ["ALE", "ESZSL", "LATEM", "SAE", "SJE", "DeViSE", "ExemplarRegression"]

_TRAINED = ("n_iter_", "loss_curve_", "validation_scores_")

allow(ALE, _TRAINED)
allow(DeViSE, _TRAINED)
allow(ESZSL)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(LATEM, ("projections_", *_TRAINED), has_projection=False)
allow(SAE, ("_in_semantic_space",))
allow(SJE, _TRAINED)
