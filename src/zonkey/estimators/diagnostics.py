"""What a fit tells its user: progress when asked, and warnings that name a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning

from ..linalg.sylvester import Status

# From `warnings.warn` up to the line that called `fit`, where that called the caller of these.
_STACK = 4


def print_step(step: int, objective: float, change: float) -> None:
    """Print one line a step of training."""
    print(  # noqa: T201
        f"[zonkey] step {step}: objective {objective:.6g}, relative change of W {change:.2e}"
    )


def warn_of_trouble(
    statuses: Iterable[Status],
    used: Sequence[float] | np.ndarray,
    *,
    beta: float,
    mu: float,
) -> None:
    """Warn of systems that were not well determined, and of steps that the guard changed.

    `used` holds the mu of each step.
    """
    for status in statuses:
        if status is not Status.SOLVED:
            warnings.warn(
                f"The projection is not well determined with beta={beta}: "
                f"{status.value}. A larger `beta` does that.",
                LinAlgWarning,
                stacklevel=_STACK,
            )
            break
    shrunk = [value for value in used if value < mu]
    if shrunk:
        warnings.warn(
            f"`mu` was lowered from {mu} to {min(shrunk):.3g} in {len(shrunk)} of "
            f"{len(used)} steps, where competition would have left less than a quarter of "
            "the curvature of the problem, or none. A smaller `alpha` or `mu` avoids it.",
            ConvergenceWarning,
            stacklevel=_STACK,
        )
