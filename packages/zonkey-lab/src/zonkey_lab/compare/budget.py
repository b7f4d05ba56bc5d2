"""A budget of time for a comparison: estimates, what fits, and a limit for each system.

Estimates are the seconds of a fit on CUB, scaled by the size of the data, times the number of fits,
and corrected by the systems that have run. If the systems need more time than there is, the number
of points to choose from is reduced, equally for all; then the most costly systems are left out.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from sklearn.model_selection import ParameterGrid

from zonkey.files.dataset import Dataset

from ..paper.bench.models import as_dicts
from .systems import System

FEWEST_POINTS = 4
_CALIBRATIONS = 4  # fits that choose the penalty of seen classes
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_FACTOR, _LARGEST_FACTOR = 0.1, 20.0


class OverBudgetError(Exception):
    """A run was ended because the budget was used up."""


def parse_seconds(text: str) -> float:
    """Return the seconds of a text such as "90s", "10m" or "1.5h"."""
    number, unit = text.strip()[:-1], text.strip()[-1:].lower()
    try:
        seconds = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f"`budget` must be a positive time with a unit, s, m or h; got {text!r}. Write 10m, "
            "for example."
        )
    return seconds


@contextmanager
def limit_time(deadline: float | None) -> Iterator[None]:
    """Raise `OverBudgetError` at a time of `time.time`, if the system has such an alarm."""
    has_alarm = hasattr(signal, "setitimer")
    if deadline is None or not has_alarm or threading.current_thread() != threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise OverBudgetError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(deadline - time.time(), 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def estimate_seconds(
    system: System, data: Dataset, *, n_points: int, n_folds: int, n_seeds: int
) -> float:
    """Return about how long choosing parameters and measuring takes on one core."""
    parts = as_dicts(getattr(system.spec, "grid", {}))
    n_runs = (n_seeds if system.is_random else 1) + 1
    if not parts:
        own = 50 if system.name == "recommended" else 1
        return system.seconds_per_fit(data) * (own + n_runs)
    # Points of the grid, and further ones beyond its edges.
    n_tried = 2 * min(len(ParameterGrid(parts)), n_points)
    fits = n_tried * (n_folds - 1) + _CALIBRATIONS + n_runs
    return system.seconds_per_fit(data) * fits


def fit_points(
    systems: Sequence[System],
    datas: Sequence[Dataset],
    *,
    seconds: float,
    n_points: int,
    n_folds: int,
    n_seeds: int,
) -> int:
    """Return the number of points with which all systems fit into the time, or the fewest."""
    while n_points > FEWEST_POINTS:
        options = {"n_points": n_points, "n_folds": n_folds, "n_seeds": n_seeds}
        needed = sum(estimate_seconds(one, data, **options) for one in systems for data in datas)
        if needed <= seconds:
            return n_points
        n_points = max(FEWEST_POINTS, n_points * 2 // 3)
    return n_points


class Clock:
    """The time that is left, and how the estimates do."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        # Of all processes: a task may wait for one.
        self.deadline = None if seconds is None else time.time() + seconds
        self._ratios: dict[bool, list[float]] = {}

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a budget."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    def correct(self, system: System, estimate: float) -> float:
        """Return an estimate times what earlier systems of its kind took longer."""
        known = self._ratios.get(system.uses_torch)
        factor = median(known) if known else 1.0
        return estimate * min(max(factor, _LEAST_FACTOR), _LARGEST_FACTOR)

    def learn(self, system: System, estimate: float, seconds: float) -> None:
        """Note how long a system took."""
        if estimate > 0:
            self._ratios.setdefault(system.uses_torch, []).append(seconds / estimate)

    def has_time_for(self, system: System, estimate: float) -> bool:
        """Whether a system fits into the time that is left."""
        left = self.left
        return left is None or self.correct(system, estimate) <= left
