"""Zero-shot systems to compare with, learned in closed form or by training."""

from ...estimators.model_forms import allow
from .conse import ConSE
from .dap import DAP
from .dipl import DIPL
from .eszsl import ESZSL
from .exem import EXEM
from .exemplars import ExemplarRegression
from .sae import SAE
from .sse import SSE
from .sync import SynC

__all__ = ["DAP", "DIPL", "ESZSL", "EXEM", "SAE", "SSE", "ConSE", "ExemplarRegression", "SynC"]

_CLASSIFIERS = ("classifiers_", "intercepts_")

allow(ConSE, (*_CLASSIFIERS, "_seen_matrix", "_n_top"), has_projection=False)
allow(DAP, (*_CLASSIFIERS, "_thresholds", "_shares"), has_projection=False)
allow(DIPL, ("n_iter_", "objective_", "converged_", "is_transductive_", "_in_semantic_space"))
allow(ESZSL)
allow(
    EXEM,
    ("components_", "mean_", "scales_", "_kernel", "_seen_matrix", "_weights", "_offsets"),
    has_projection=False,
)
allow(ExemplarRegression, ("_kernel", "_seen_matrix", "_inverse"))
allow(SAE, ("_in_semantic_space",))
allow(SSE, ("weights_", "bounds_", "n_iter_", "_seen_matrix", "_spread"), has_projection=False)
allow(SynC, (*_CLASSIFIERS, "_seen_matrix", "_inverse", "_unit"), has_projection=False)
