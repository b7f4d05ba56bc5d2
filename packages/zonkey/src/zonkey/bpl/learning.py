"""Base class of the zero-shot and few-shot classifiers: ranges of parameters, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..constraints import AnyLibraryMixin
from ..inference.projection import NearestPrototypeMixin
from ..labels import format_labels, warn_user
from ..parameters import Constraint, Count, Flag, Interval, Options
from .frame import BaseClasses
from .sylvester import Status


class ProjectionLearner(AnyLibraryMixin, NearestPrototypeMixin, BaseEstimator):
    """Base class of the zero-shot and the few-shot classifier."""

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "scaling": Options("squared-norm", None),
        "rho": Interval(0, 1),
        "alpha": Interval(0, 1, open_above=True),
        "mu": Interval(0, 1, open_above=True),
        "beta": Interval(0),
        "tie_tol": Interval(0),
        "tol": Interval(0),
        "n_neighbors": Count(1),
        "n_synthetic": Count(1),
        "max_iter": Count(1, also=(None,)),
        "guard": Flag("Use True, which keeps the projection bounded."),
    }

    competition: str | None
    mu: float
    random_state: Any

    def _mu(self) -> float:
        """Return the weight of the push, which only "second-best" has."""
        return self.mu if self.competition == "second-best" else 0.0


def draw_seed(random_state: Any) -> int:
    """Return an integer that a random state determines."""
    return check_random_state(random_state).randint(2**31 - 1)


def require_samples(base: BaseClasses, remedy: str) -> None:
    """Reject seen classes without a raw sample to perturb."""
    labels = base.prototypes.labels
    kept = [base.moments.samples_of(label).shape[0] for label in labels.tolist()]
    empty = labels[[n == 0 for n in kept]]
    if empty.size:
        raise ValueError(
            "Synthesis needs a raw sample of every seen class; the moments keep none of "
            f"{format_labels(empty)} (n_reserve={base.moments.n_reserve}). Gather them again with "
            f"a larger `n_reserve`, or use {remedy}."
        )


def warn_of_trouble(
    statuses: set[Status],
    used: Sequence[float] | np.ndarray,
    n_indefinite: int,
    *,
    beta: float,
    mu: float,
) -> None:
    """Warn of indefinite or ill-conditioned systems, and of steps with a smaller mu.

    `used` is mu per step; indefinite are `n_indefinite` of these steps.
    """
    if n_indefinite:  # other trouble follows from it
        warn_user(
            f"The equation was indefinite in {n_indefinite} of {len(used)} steps with mu={mu}: "
            "their projections minimize nothing. Decrease `alpha` or `mu`, or use guard=True.",
            ConvergenceWarning,
        )
        return
    # In the order of the enum: that of a set differs from run to run.
    trouble = next((s for s in Status if s in statuses and s is not Status.SOLVED), None)
    if trouble is not None:
        warn_user(
            f"The projection is not well determined with beta={beta}: {trouble.value}. "
            "Increase `beta`.",
            LinAlgWarning,
        )
    shrunk = [value for value in used if value < mu]
    if shrunk:
        warn_user(
            f"`mu` was lowered from {mu} to {min(shrunk):.3g} in {len(shrunk)} of "
            f"{len(used)} steps, because competition would have left less than a "
            "twentieth of the curvature of the problem. Decrease `alpha` or `mu`.",
            ConvergenceWarning,
        )
