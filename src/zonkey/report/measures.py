"""Figures from records: a mean, and how far single runs lie from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bench.records import unpack
from ..metrics import mean_confidence_interval

Record = dict[str, Any]
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Measurement:
    """A mean with its spread.

    Attributes
    ----------
    mean : float
    spread : float or None
        Standard deviation over seeds or repetitions, or half the 95 % interval over trials; None
        of a single run.
    """

    mean: float
    spread: float | None = None

    @property
    def low(self) -> float:
        """The mean less its spread."""
        return self.mean - (self.spread or 0.0)

    @property
    def high(self) -> float:
        """The mean and its spread."""
        return self.mean + (self.spread or 0.0)

    def percent(self) -> str:
        """Return it as text."""
        return with_spread(100 * self.mean, None if self.spread is None else 100 * self.spread)

    def seconds(self) -> str:
        """Return a time as text."""
        return f"{self.mean:.3g} s"


def with_spread(mean: float, spread: float | None) -> str:
    """Return a figure in percent as text."""
    return f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"


def points(difference: float) -> str:
    """Return a difference of shares as text, in points of a percent."""
    value = round(100 * difference, 2)
    return f"{MINUS if value < 0 else '+' if value > 0 else ''}{abs(value):.2f}"


def over_values(values: Sequence[float] | np.ndarray) -> Measurement:
    """Return mean and standard deviation."""
    values = np.asarray(values, dtype=float)
    return Measurement(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None)


def over_seeds(runs: Sequence[Record], metric: str) -> Measurement | None:
    """Return mean and standard deviation over the runs that have a metric."""
    values = [run["results"][metric] for run in runs if metric in run["results"]]
    return over_values(values) if values else None


def trial_accuracies(run: Record) -> np.ndarray:
    """Return the accuracy of every trial."""
    return unpack(run["results"]["accuracies"])


def over_trials(run: Record) -> Measurement:
    """Return mean and half-width of its 95 % interval over trials."""
    values = trial_accuracies(run)
    if len(values) < 2:
        return Measurement(float(values.mean()))
    mean, half_width = mean_confidence_interval(values)
    return Measurement(mean, half_width)


def repetitions(run: Record, metric: str, n_shot: int) -> np.ndarray | None:
    """Return hit@k of every repetition with so many shots, where it was measured."""
    if n_shot not in run["results"]["shots"]:
        return None
    column = run["results"]["shots"].index(n_shot)
    return np.asarray(run["results"][metric], dtype=float)[:, column]


def over_repetitions(run: Record, metric: str, n_shot: int) -> Measurement | None:
    """Return mean and standard deviation over repetitions."""
    values = repetitions(run, metric, n_shot)
    return None if values is None else over_values(values)
