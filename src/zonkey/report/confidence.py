"""Comparisons of two models on the same samples, trials or shots, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bench.catalog import ZERO_SHOT
from ..bench.records import unpack
from ..metrics import mean_confidence_interval, paired_bootstrap_interval
from .measures import NOTHING, points, repetitions, trial_accuracies

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
    basis : str
        What the interval rests on, where a reader must know.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    basis: str = ""

    def sign(self, margin: float = 0.0) -> int:
        """Say what the interval can tell: 1 where the first is better, -1 where it is worse.

        With a margin: 1 where it is not worse by more than that, -1 where it is.
        """
        if self.low + margin > NOTHING:
            return 1
        return -1 if self.high + margin < -NOTHING else 0

    @property
    def verdict(self) -> str:
        """Which model is better, if the interval can tell."""
        sign = self.sign()
        return f"{self.first if sign > 0 else self.second} is better" if sign else NO_DIFFERENCE

    def text(self, digits: int = 2) -> str:
        """Return the difference and its interval."""
        middle, low, high = (
            points(value, digits) for value in (self.difference, self.low, self.high)
        )
        return f"{middle} [{low}, {high}]"

    def full_text(self, digits: int = 2) -> str:
        """Return the difference, its interval, and what it rests on."""
        return f"{self.text(digits)}{f' {self.basis}' if self.basis else ''}"


def compare_predictions(first: Sequence[Record], second: Sequence[Record]) -> Comparison | None:
    """Return the paired bootstrap of all seeds of two models, where they share data and samples."""
    if not first or not second:
        return None
    runs = [*first, *second]
    truth = _labels(first[0], "truth")
    if len({run["data"]["sha256"] for run in runs}) > 1 or len(truth) < 2:
        return None
    if not all(np.array_equal(truth, _labels(run, "truth")) for run in runs):
        return None
    sides = (np.stack([_labels(run, "predicted") for run in side]) for side in (first, second))
    interval = paired_bootstrap_interval(truth, *sides)
    alone = [
        side[0]["model"]
        for side in (first, second)
        if len(side) == 1 and _is_random(side[0]["model"])
    ]
    basis = f"(a single seed of {' and of '.join(alone)})" if alone else ""
    return Comparison(first[0]["model"], second[0]["model"], *interval, basis)


def _is_random(model: str) -> bool:
    return model in ZERO_SHOT and ZERO_SHOT[model].is_random


def compare_trials(first: Record | None, second: Record | None) -> Comparison | None:
    """Return the interval over trials, which both models share where their seed is the same."""
    if first is None or second is None or not _same_draws(first, second):
        return None
    a, b = trial_accuracies(first), trial_accuracies(second)
    if len(a) != len(b):
        return None
    return _paired(first["model"], second["model"], a - b, f"over {len(a)} trials")


def compare_shots(first: Record | None, second: Record | None, metric: str) -> Comparison | None:
    """Return the interval over repetitions of hit@k, averaged over one shot and more."""
    if first is None or second is None or not _same_draws(first, second):
        return None
    a, b = (_with_shots(run, metric) for run in (first, second))
    if a.shape != b.shape or not a.size:
        return None
    return _paired(first["model"], second["model"], (a - b).mean(axis=1), _over_draws(a))


def compare_numbers_of_shots(run: Record, metric: str, more: int, fewer: int) -> Comparison | None:
    """Return what more shots gain: the interval over repetitions of one model."""
    a, b = repetitions(run, metric, more), repetitions(run, metric, fewer)
    if a is None or b is None:
        return None
    return _paired(f"K = {more}", f"K = {fewer}", a - b, _over_draws(a))


def _over_draws(values: np.ndarray) -> str:
    return f"over {len(values)} draws of shots, queries fixed"


def _paired(first: str, second: str, differences: np.ndarray, basis: str) -> Comparison | None:
    if len(differences) < 2:
        return None
    mean, half_width = mean_confidence_interval(differences)
    return Comparison(first, second, mean, mean - half_width, mean + half_width, basis)


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
