"""Figures from records: means and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, log10

import numpy as np

from zonkey.metrics import mean_confidence_interval

from ..experiments import shots_of
from ..records import Record, unpack

ABSENT = "-"  # a missing figure
MINUS = "\N{MINUS SIGN}"
NOTHING = 1e-11  # a difference due to rounding alone


@dataclass(frozen=True)
class Measurement:
    """A mean with its spread.

    The spread is the standard deviation over seeds or repetitions, or half the 95 % interval over
    trials; None for a single run and for identical repetitions.
    """

    mean: float
    spread: float | None = None

    def percent(self) -> str:
        """Return it as text, in percent."""
        return format_spread(100 * self.mean, None if self.spread is None else 100 * self.spread)


def format_spread(mean: float, spread: float | None) -> str:
    """Return a figure in percent as text."""
    return f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"


def points(difference: float, digits: int = 2) -> str:
    """Return a difference of shares as text, in percentage points.

    A difference that would round to 0 gets as many digits as it needs.
    """
    size = 100 * abs(difference)
    if size < 100 * NOTHING:
        return f"{0:.{digits}f}"
    sign = MINUS if difference < 0 else "+"
    shown = f"{size:.{digits}f}"
    if not float(shown):
        shown = f"{size:.{-floor(log10(size))}f}"
    return f"{sign}{shown}"


def shots_label(run: Record) -> str:
    """Return the name of trials; small data sets give fewer shots than asked for."""
    n_shot, asked = run["results"]["n_shot"], shots_of(run["protocol"])
    return f"{n_shot}-shot" if n_shot == asked else f"{n_shot}-shot ({asked} asked for)"


def accuracies_by_step(run: Record) -> dict[int, float]:
    """Return the accuracy after the steps at which it was measured."""
    accuracies = run["results"]["zsl"]
    steps = run["results"].get("steps", range(len(accuracies)))
    return dict(zip(steps, accuracies, strict=True))


def average_values(values: Sequence[float] | np.ndarray) -> Measurement:
    """Return mean and standard deviation."""
    values = np.asarray(values, dtype=float)
    return Measurement(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None)


def average_seeds(runs: Sequence[Record], metric: str) -> Measurement | None:
    """Return mean and standard deviation over the runs with this metric."""
    values = [run["results"][metric] for run in runs if metric in run["results"]]
    return average_values(values) if values else None


def trial_accuracies(run: Record, name: str = "accuracies") -> np.ndarray:
    """Return the accuracy of every trial."""
    return unpack(run["results"][name])


def average_trials(run: Record, name: str = "accuracies") -> Measurement:
    """Return mean and half-width of its 95 % interval over trials."""
    values = trial_accuracies(run, name)
    if len(values) < 2:
        return Measurement(float(values.mean()))
    mean, half_width = mean_confidence_interval(values)
    return Measurement(mean, half_width)


def repetitions(run: Record, metric: str, n_shot: int) -> np.ndarray | None:
    """Return hit@k of every repetition with `n_shot` shots; None if not measured."""
    if n_shot not in run["results"]["shots"]:
        return None
    column = run["results"]["shots"].index(n_shot)
    return np.asarray(run["results"][metric], dtype=float)[:, column]


def average_repetitions(run: Record, metric: str, n_shot: int) -> Measurement | None:
    """Return mean and standard deviation over repetitions.

    Without shots nothing is drawn at random: identical repetitions have no spread.
    """
    values = repetitions(run, metric, n_shot)
    if values is None:
        return None
    found = average_values(values)
    return found if np.ptp(values) else replace(found, spread=None)
