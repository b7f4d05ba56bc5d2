"""Zero-shot systems to compare with: those of the paper's tables, and two that came after."""

from zonkey.persistence.forms import allow

from .ale import ALE
from .cada_vae import CADAVAE
from .cmt import CMT
from .conse import ConSE
from .cvae import CVAE
from .dap import DAP
from .dem import DEM
from .devise import DeViSE
from .dipl import DIPL
from .eszsl import ESZSL
from .exem import EXEM
from .exemplars import ExemplarRegression
from .f_clswgan import FCLSWGAN
from .latem import LATEM
from .sae import SAE
from .sje import SJE
from .sp_aen import SPAEN
from .sse import SSE
from .sync import SynC
from .tf_vaegan import TFVAEGAN
from .vzsl import VZSL

__all__ = [
    "ALE",
    "CADAVAE",
    "CMT",
    "CVAE",
    "DAP",
    "DEM",
    "DIPL",
    "ESZSL",
    "EXEM",
    "FCLSWGAN",
    "LATEM",
    "SAE",
    "SJE",
    "SPAEN",
    "SSE",
    "TFVAEGAN",
    "VZSL",
    "ConSE",
    "DeViSE",
    "ExemplarRegression",
    "SynC",
]

_TRAINED = ("n_iter_", "loss_curve_", "validation_scores_")
_CLASSIFIERS = ("classifiers_", "intercepts_")
_NETWORKS = ("weights_", *_TRAINED)
_GENERATIVE = (*_NETWORKS, "_samples", "_synthesis")

allow(ALE, _TRAINED)
allow(CADAVAE, _GENERATIVE, has_projection=False)
allow(CMT, _NETWORKS, has_projection=False)
allow(CVAE, _GENERATIVE, has_projection=False)
allow(ConSE, (*_CLASSIFIERS, "_seen_matrix", "_n_top"), has_projection=False)
allow(DAP, (*_CLASSIFIERS, "_thresholds", "_shares"), has_projection=False)
allow(DEM, ("weights_", "_output", *_TRAINED), has_projection=False)
allow(
    DIPL,
    (
        "n_iter_",
        "objective_",
        "mu_",
        "n_indefinite_",
        "moved_",
        "changes_",
        "converged_",
        "is_transductive_",
        "_in_semantic_space",
    ),
)
allow(DeViSE, _TRAINED)
allow(ESZSL)
allow(
    EXEM,
    ("components_", "mean_", "scales_", "_kernel", "_seen_matrix", "_weights", "_offsets"),
    has_projection=False,
)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(FCLSWGAN, _GENERATIVE, has_projection=False)
allow(LATEM, ("projections_", *_TRAINED), has_projection=False)
allow(SAE, ("_in_semantic_space",))
allow(SJE, _TRAINED)
allow(SPAEN, _NETWORKS, has_projection=False)
allow(SSE, ("weights_", "bounds_", "n_iter_", "_seen_matrix", "_spread"), has_projection=False)
allow(SynC, (*_CLASSIFIERS, "_seen_matrix", "_inverse", "_unit"), has_projection=False)
allow(TFVAEGAN, _GENERATIVE, has_projection=False)
allow(VZSL, _NETWORKS, has_projection=False)
