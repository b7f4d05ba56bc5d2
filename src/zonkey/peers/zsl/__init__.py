"""Zero-shot systems to compare with."""

from ...estimators.model_forms import allow
from .ale import ALE
from .cada_vae import CADAVAE
from .cmt import CMT
from .cvae import CVAE
from .dem import DEM
from .devise import DeViSE
from .eszsl import ESZSL
from .exemplars import ExemplarRegression
from .f_clswgan import FCLSWGAN
from .latem import LATEM
from .sae import SAE
from .sje import SJE
from .sp_aen import SPAEN
from .tf_vaegan import TFVAEGAN
from .vzsl import VZSL

__all__ = [
    "ALE",
    "CADAVAE",
    "CMT",
    "CVAE",
    "DEM",
    "ESZSL",
    "FCLSWGAN",
    "LATEM",
    "SAE",
    "SJE",
    "SPAEN",
    "TFVAEGAN",
    "VZSL",
    "DeViSE",
    "ExemplarRegression",
]

_TRAINED = ("n_iter_", "loss_curve_", "validation_scores_")
_GENERATIVE = ("weights_", "_samples", "_synthesis", *_TRAINED)

allow(ALE, _TRAINED)
allow(CADAVAE, _GENERATIVE, has_projection=False)
allow(CMT, ("weights_", *_TRAINED), has_projection=False)
allow(CVAE, _GENERATIVE, has_projection=False)
allow(DEM, ("weights_", "_output", *_TRAINED), has_projection=False)
allow(DeViSE, _TRAINED)
allow(ESZSL)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(FCLSWGAN, _GENERATIVE, has_projection=False)
allow(LATEM, ("projections_", *_TRAINED), has_projection=False)
allow(SAE, ("_in_semantic_space",))
allow(SJE, _TRAINED)
allow(SPAEN, ("weights_", *_TRAINED), has_projection=False)
allow(TFVAEGAN, _GENERATIVE, has_projection=False)
allow(VZSL, ("weights_", *_TRAINED), has_projection=False)
