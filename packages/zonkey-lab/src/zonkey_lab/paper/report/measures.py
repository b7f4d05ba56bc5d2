"""Figures from records: means and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, hypot, log10

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

    The spread is the standard deviation over seeds or draws, or half the 95 % interval over
    trials; None for a single run and for identical draws.
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


def trial_accuracies(runs: Sequence[Record], name: str = "accuracies") -> np.ndarray:
    """Return the accuracy of every trial, one row per seed of the training."""
    found = [unpack(run["results"][name]) for run in runs]
    return np.stack([values for values in found if len(values) == len(found[0])])


def estimate_mean(first: np.ndarray, second: np.ndarray | None = None) -> tuple[float, float]:
    """Return a mean, or the difference of two, and the half-width of its 95 % interval.

    Rows are seeds of the training, columns trials or draws that both share. The interval is
    Student's over the columns of means over seeds; with several seeds, Student's intervals over
    the means of the seeds are added in quadrature.
    """
    sides = [first] if second is None else [first, second]
    columns = first.mean(axis=0) - (0.0 if second is None else second.mean(axis=0))
    mean, half_width = mean_confidence_interval(columns)
    seeds = [side.mean(axis=1) for side in sides if len(side) > 1]
    return mean, hypot(half_width, *(mean_confidence_interval(each).half_width for each in seeds))


def average_trials(runs: Sequence[Record], name: str = "accuracies") -> Measurement:
    """Return mean and half-width of its 95 % interval over trials, and seeds of the training."""
    values = trial_accuracies(runs, name)
    return (
        Measurement(float(values.mean()))
        if values.shape[1] < 2
        else Measurement(*estimate_mean(values))
    )


def repetitions(runs: Sequence[Record], metric: str, n_shot: int) -> np.ndarray | None:
    """Return hit@k with `n_shot` shots, by seed and draw; None if not measured."""
    if not runs or n_shot not in runs[0]["results"]["shots"]:
        return None
    column = runs[0]["results"]["shots"].index(n_shot)
    return hits_of(runs, metric)[:, :, column]


def hits_of(runs: Sequence[Record], metric: str) -> np.ndarray:
    """Return hit@k by seed of the training, draw of shots and number of shots."""
    found = [np.asarray(run["results"][metric], dtype=float) for run in runs]
    return np.stack([hits for hits in found if hits.shape == found[0].shape])


def average_repetitions(runs: Sequence[Record], metric: str, n_shot: int) -> Measurement | None:
    """Return mean and standard deviation over draws of shots, of means over seeds.

    Without shots nothing is drawn at random: identical draws have no spread.
    """
    values = repetitions(runs, metric, n_shot)
    if values is None:
        return None
    values = values.mean(axis=0)
    found = average_values(values)
    return found if np.ptp(values) else replace(found, spread=None)
