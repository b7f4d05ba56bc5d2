"""Differences between models on the same samples, trials or shots, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zonkey.metrics import paired_bootstrap_interval

from ..experiments import RANDOM
from ..records import Record
from .blocks import Cell, TableBlock, round_text
from .collection import Study
from .fits import predictions
from .measures import (
    ABSENT,
    NOTHING,
    estimate_mean,
    hits_of,
    points,
    repetitions,
    shots_label,
    trial_accuracies,
)

_NORMAL_QUANTILE = 1.96  # of 95 %
_OURS = {"zero-shot": "BPL", "trials": "BPL (SFSP1)", "all-classes": "BPL (SFSP1)"}
_PARTS_OF_FUSION = (("recommended", "shots alone"), ("recommended", "prototype alone"))
_HOW = {
    "zero-shot": (
        "Differences of accuracy in points, averaged over all seeds, with the 95 % interval of a "
        "paired bootstrap that resamples test samples and seeds, with unseen classes fixed"
    ),
    "trials": "Differences in points, with the 95 % interval",
    "all-classes": "Differences in points, averaged over K, with the 95 % interval",
}


@dataclass(frozen=True)
class Comparison:
    """The difference between two models (first minus second) and its 95 % interval, as shares.

    `basis` says what the interval is based on.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    basis: str = ""

    def sign(self, margin: float = 0.0) -> int:
        """Return 1 if the first model is better, -1 if it is worse, 0 if the interval has 0.

        With a margin: 1 if it is not worse by more than the margin, -1 if it is.
        """
        if self.low + margin > NOTHING:
            return 1
        return -1 if self.high + margin < -NOTHING else 0

    def interval(self, digits: int) -> str:
        """Return the difference and its interval."""
        values = (self.difference, self.low, self.high)
        middle, low, high = (points(value, digits) for value in values)
        return f"{middle} [{low}, {high}]"

    def text(self, digits: int) -> str:
        """Return the difference, its interval and its basis."""
        return f"{self.interval(digits)}{f' {self.basis}' if self.basis else ''}"


def compare_predictions(first: Sequence[Record], second: Sequence[Record]) -> Comparison | None:
    """Return the paired bootstrap of all seeds of two models on the same samples."""
    if not first or not second:
        return None
    runs = [*first, *second]
    truth = predictions(first[0], "truth")
    if len({run["data"]["sha256"] for run in runs}) > 1 or len(truth) < 2:
        return None
    if not all(np.array_equal(truth, predictions(run, "truth")) for run in runs):
        return None
    sides = (np.stack([predictions(run) for run in side]) for side in (first, second))
    interval = paired_bootstrap_interval(truth, *sides)
    alone = [
        side[0]["model"]
        for side in (first, second)
        if len(side) == 1 and side[0]["model"] in RANDOM
    ]
    basis = f"(a single seed of {' and of '.join(alone)})" if alone else ""
    return Comparison(first[0]["model"], second[0]["model"], *interval, basis)


def compare_harmonic_means(first: Sequence[Record], second: Sequence[Record]) -> Comparison | None:
    """Return the difference of the harmonic means over seeds with a normal interval.

    Records hold no predictions among all classes, so models are not paired. They share test
    samples, so the interval is too wide rather than too narrow.
    """
    if not first or not second or first[0]["data"]["sha256"] != second[0]["data"]["sha256"]:
        return None
    found = [_harmonic_mean(runs) for runs in (first, second)]
    if None in found:
        return None
    (a, variance_a), (b, variance_b) = (value for value in found if value is not None)
    half_width = _NORMAL_QUANTILE * (variance_a + variance_b) ** 0.5
    basis = "by the numbers of test samples, not paired"
    ends = (a - b - half_width, a - b + half_width)
    return Comparison(first[0]["model"], second[0]["model"], a - b, *ends, basis)


def _harmonic_mean(runs: Sequence[Record]) -> tuple[float, float] | None:
    """Return the mean over seeds and its variance, by samples and by seeds.

    The variance p (1 - p) / n of an accuracy is an upper bound if classes are of one size; else
    n counts less, in the same proportion for seen classes as for unseen ones.
    """
    sizes = runs[0]["data"]["n_samples"]
    known = all({"acc_s", "acc_u", "hm"} <= {*run["results"]} for run in runs)
    if not known or not sizes.get("test_seen"):
        return None
    seen, unseen, means = (
        np.array([run["results"][name] for run in runs]) for name in ("acc_s", "acc_u", "hm")
    )
    _, counts = np.unique(predictions(runs[0], "truth"), return_counts=True)
    worth = len(counts) ** 2 / np.sum(1 / counts) / counts.sum()
    s, u = float(seen.mean()), float(unseen.mean())
    variance = float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0
    if s + u:
        # The derivative of 2 s u / (s + u) by one accuracy is 2 (the other / (s + u))^2.
        for p, other, name in ((s, u, "test_seen"), (u, s, "test_unseen")):
            slope = 2 * (other / (s + u)) ** 2
            variance += slope**2 * p * (1 - p) / (worth * sizes[name])
    return float(means.mean()), variance


def compare_trials(first: Sequence[Record], second: Sequence[Record]) -> Comparison | None:
    """Return the interval over trials that two models share."""
    if not _share_draws(first, second):
        return None
    return _compare_trials(first, second, "model")


def compare_features(first: Sequence[Record], second: Sequence[Record]) -> Comparison | None:
    """Return the difference of one model with two kinds of features, in the same trials."""
    if not _share_sizes(first, second):
        return None
    if first[0]["data"]["split"] != second[0]["data"]["split"]:
        return None
    return _compare_trials(first, second, "data_name")


def _compare_trials(
    first: Sequence[Record], second: Sequence[Record], name: str
) -> Comparison | None:
    a, b = trial_accuracies(first), trial_accuracies(second)
    if a.shape[1] != b.shape[1]:
        return None
    return _compare_pairs(first[0][name], second[0][name], a, b)


def compare_shots(
    first: Sequence[Record], second: Sequence[Record], metric: str, only: int | None = None
) -> Comparison | None:
    """Return the interval over draws of hit@k, averaged over K >= 1, or with `only` K."""
    if not _share_draws(first, second):
        return None
    a, b = (_select_shots(runs, metric, only) for runs in (first, second))
    if a.shape[1:] != b.shape[1:] or not a.size:
        return None
    names = (first[0]["model"], second[0]["model"])
    return _compare_pairs(*names, a.mean(axis=2), b.mean(axis=2))


def compare_gains(
    first: Sequence[Record], second: Sequence[Record], metric: str
) -> Comparison | None:
    """Return by how much the lead of a model is larger with the fewest shots than with the most."""
    if not _share_draws(first, second):
        return None
    a, b = (_select_shots(runs, metric) for runs in (first, second))
    if a.shape[1:] != b.shape[1:] or a.shape[2] < 2:
        return None
    names = (f"lead over {second[0]['model']} with few shots", "with many")
    a_gain, b_gain = (hits[:, :, 0] - hits[:, :, -1] for hits in (a, b))
    return _compare_pairs(*names, a_gain, b_gain)


def compare_numbers_of_shots(
    runs: Sequence[Record], metric: str, more: int, fewer: int
) -> Comparison | None:
    """Return the gain of one model with more shots, with the interval over draws."""
    a, b = repetitions(runs, metric, more), repetitions(runs, metric, fewer)
    if a is None or b is None:
        return None
    gains = a - b
    names = (f"K = {more}", f"K = {fewer}")
    return _compare_pairs(*names, gains, np.zeros_like(gains[:1]))


def _compare_pairs(first: str, second: str, a: np.ndarray, b: np.ndarray) -> Comparison | None:
    if a.shape[1] < 2:
        return None
    mean, half_width = estimate_mean(a, b)
    return Comparison(first, second, mean, mean - half_width, mean + half_width)


def _select_shots(runs: Sequence[Record], metric: str, only: int | None = None) -> np.ndarray:
    """Return hit@k by seed, draw and number of shots, without K = 0, or with `only` K."""
    shots = np.asarray(runs[0]["results"]["shots"])
    return hits_of(runs, metric)[:, :, shots > 0 if only is None else shots == only]


def _share_draws(first: Sequence[Record], second: Sequence[Record]) -> bool:
    """Whether classes, shots and queries are the same."""
    same = _share_sizes(first, second)
    return same and first[0]["data"]["sha256"] == second[0]["data"]["sha256"]


def _share_sizes(first: Sequence[Record], second: Sequence[Record]) -> bool:
    """Whether classes, shots and queries of two data sets with the same labels are the same."""
    if not first or not second:
        return False
    a, b = first[0], second[0]
    sizes = ("n_way", "n_shot", "n_query")
    same = all(a["results"].get(key) == b["results"].get(key) for key in sizes)
    return same and a["seed"] == b["seed"]


def on_top_comparisons(study: Study) -> dict[str, Comparison]:
    """Return what each model adds to the subject of the experiment, by model."""
    subject = study.runs.get(study.experiment.subject, [])
    found = {
        model: compare_predictions(runs, subject)
        for model, runs in study.runs.items()
        if model != study.experiment.subject
    }
    return {model: comparison for model, comparison in found.items() if comparison is not None}


def difference_columns(study: Study, metric: str = "") -> dict[str, dict[str, Cell]]:
    """Return how much the subject differs from every model, by heading and model.

    On the same samples, trials or draws; with all novel classes at once, by one metric.
    """
    experiment = study.experiment
    if experiment.name in ("generalized-zsl", "any-shot") or experiment.protocol not in _OURS:
        return {}
    ours = experiment.subject or _OURS[experiment.protocol]
    if ours not in experiment.models:  # then the baseline, which is the first
        ours = experiment.models[0]
    if experiment.name == "on-top":
        return {f"it minus {ours}": _write_all(on_top_comparisons(study))}
    found: dict[str, dict[str, Cell]] = {}
    for protocol, runs in study.by_protocol.items():
        others = [model for model in experiment.models if model != ours]
        compared = {other: _compare(protocol, runs, ours, other, metric) for other in others}
        known = {other: each for other, each in compared.items() if each is not None}
        if known:
            label = f", {shots_label(runs[ours][0])}" if "trials" in protocol else ""
            found[f"{ours} minus it{label}"] = _write_all(known)
    return found


def describe_differences(study: Study) -> str:
    """Return what the intervals of these differences are."""
    return _HOW[study.experiment.protocol]


def comparison_table(study: Study) -> TableBlock | None:
    """Return what fusion gains over its parts; None if the experiment has no such models."""
    found: dict[str, dict[str, Cell]] = {}
    experiment = study.experiment
    pairs = _PARTS_OF_FUSION if experiment.protocol in ("trials", "all-classes") else ()
    for protocol, runs in study.by_protocol.items():
        for a, b in pairs:
            for metric in experiment.metrics:
                comparison = _compare(protocol, runs, a, b, metric)
                if comparison is not None:
                    label = shots_label(runs[a][0]) if "trials" in protocol else metric
                    found.setdefault(f"{a} - {b}", {})[label] = _write(comparison)
    if not found:
        return None
    labels = list(dict.fromkeys(label for cells in found.values() for label in cells))
    rows = [
        [pair, *(cells.get(label, ABSENT) for label in labels)] for pair, cells in found.items()
    ]
    return TableBlock(["difference", *labels], rows, describe_differences(study))


def _write_all(found: Mapping[str, Comparison]) -> dict[str, Cell]:
    return {model: _write(comparison) for model, comparison in found.items()}


def _write(comparison: Comparison) -> Cell:
    return round_text(comparison.text)


def _compare(
    protocol: str, runs: Mapping[str, list[Record]], first: str, second: str, metric: str
) -> Comparison | None:
    a, b = (runs.get(name, []) for name in (first, second))
    if protocol == "zero-shot":
        return compare_predictions(a, b)
    return compare_shots(a, b, metric) if protocol == "all-classes" else compare_trials(a, b)
