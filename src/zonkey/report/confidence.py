"""Comparisons of two models on the same samples, trials or shots, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bench.records import unpack
from ..metrics import mean_confidence_interval, paired_bootstrap_interval
from .measures import points, repetitions, trial_accuracies

Record = dict[str, Any]
NO_DIFFERENCE = "no visible difference"


@dataclass(frozen=True)
class Comparison:
    """The difference of two models, and its 95 % interval, as shares.

    Attributes
    ----------
    first, second : str
        Models; the difference is that of the first less the second.
    difference, low, high : float
    """

    first: str
    second: str
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Which model is better, if the interval can tell."""
        if self.low <= 0 <= self.high:
            return NO_DIFFERENCE
        return f"{self.first if self.low > 0 else self.second} is better"

    @property
    def text(self) -> str:
        """The difference and its interval."""
        return f"{points(self.difference)} [{points(self.low)}, {points(self.high)}]"


def compare_predictions(first: Record | None, second: Record | None) -> Comparison | None:
    """Return the paired bootstrap of two zero-shot runs, where they predict the same samples."""
    if first is None or second is None:
        return None
    truth, other_truth = _labels(first, "truth"), _labels(second, "truth")
    if not np.array_equal(truth, other_truth):
        return None
    interval = paired_bootstrap_interval(
        truth, _labels(first, "predicted"), _labels(second, "predicted")
    )
    return Comparison(first["model"], second["model"], *interval)


def compare_trials(first: Record | None, second: Record | None) -> Comparison | None:
    """Return the interval over trials, which both models share where their seed is the same."""
    if first is None or second is None or not _same_draws(first, second):
        return None
    a, b = trial_accuracies(first), trial_accuracies(second)
    return _paired(first["model"], second["model"], a - b) if len(a) == len(b) else None


def compare_shots(first: Record | None, second: Record | None, metric: str) -> Comparison | None:
    """Return the interval over repetitions of hit@k, averaged over one shot and more."""
    if first is None or second is None or not _same_draws(first, second):
        return None
    a, b = (_with_shots(run, metric) for run in (first, second))
    if a.shape != b.shape or not a.size:
        return None
    return _paired(first["model"], second["model"], (a - b).mean(axis=1))


def compare_numbers_of_shots(run: Record, metric: str, more: int, fewer: int) -> Comparison | None:
    """Return what more shots gain: the interval over repetitions of one model."""
    a, b = repetitions(run, metric, more), repetitions(run, metric, fewer)
    return None if a is None or b is None else _paired(f"K = {more}", f"K = {fewer}", a - b)


def _paired(first: str, second: str, differences: np.ndarray) -> Comparison | None:
    if len(differences) < 2:
        return None
    mean, half_width = mean_confidence_interval(differences)
    return Comparison(first, second, mean, mean - half_width, mean + half_width)


def _labels(run: Record, key: str) -> np.ndarray:
    return np.asarray(run["results"]["classes"])[unpack(run["results"][key])]


def _with_shots(run: Record, metric: str) -> np.ndarray:
    """Return hit@k by repetition and number of shots, zero-shot learning left out."""
    shots = np.asarray(run["results"]["shots"])
    return np.asarray(run["results"][metric], dtype=float)[:, shots > 0]


def _same_draws(first: Record, second: Record) -> bool:
    """Say whether classes, shots and queries were the same ones."""
    if first["data"]["sha256"] != second["data"]["sha256"] or first["seed"] != second["seed"]:
        return False
    sizes = ("n_way", "n_shot", "n_query")
    return all(first["results"].get(key) == second["results"].get(key) for key in sizes)
