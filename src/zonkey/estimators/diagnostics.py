"""What a fit tells its user: progress when asked, and warnings that name a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning

from ..core.competition import Step
from ..linalg.sylvester import Solution, Status

# From `warnings.warn` up to the line that called `fit`, where that called the caller of these.
_STACK = 4


def print_step(step: int, objective: float, change: float) -> None:
    """Print one line a step of training."""
    print(  # noqa: T201
        f"[zonkey] step {step}: objective {objective:.6g}, relative change of W {change:.2e}"
    )


def warn_of_trouble(
    initial: Solution, steps: Sequence[Step], *, beta: float, mu: float, deeper: int = 0
) -> None:
    """Warn of systems that were not well determined, and of steps that the guard changed.

    `deeper` counts further calls between `fit` and here, so that the user's own line is named.
    """
    refined = [step.solution for step in steps if step.solution is not None]
    for solution in (initial, *refined):
        if solution.status is not Status.SOLVED:
            warnings.warn(
                f"The projection is not well determined with beta={beta}: "
                f"{solution.status.value}. A larger `beta` does that.",
                LinAlgWarning,
                stacklevel=_STACK + deeper,
            )
            break
    shrunk = [step.mu for step in steps if step.mu < mu]
    if shrunk:
        warnings.warn(
            f"`mu` was lowered from {mu} to {min(shrunk):.3g} in {len(shrunk)} of "
            f"{len(steps)} steps, where competition would have left less than a quarter of "
            "the curvature of the problem, or none. A smaller `alpha` or `mu` avoids it.",
            ConvergenceWarning,
            stacklevel=_STACK + deeper,
        )
