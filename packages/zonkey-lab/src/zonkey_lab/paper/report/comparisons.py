"""Differences between models on the same samples, trials or shots, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zonkey.metrics import mean_confidence_interval, paired_bootstrap_interval

from ..experiments import RANDOM
from ..records import Record
from .blocks import Block, Cell, TableBlock, Text, round_text
from .collection import Collection, Study
from .fits import predictions
from .measures import NOTHING, points, repetitions, shots_label, trial_accuracies

NO_DIFFERENCE = "no visible difference"
HELPS, NO_HELP, UNCLEAR = "helps", "does not help", "undecided"
_NORMAL_QUANTILE = 1.96  # of 95 %
_WORTHWHILE = 0.005  # half a point: a smaller gain does not justify synthesis
_RULE = Text(
    "Helps: the interval of the paired difference lies above 0. Does not help: it excludes a gain "
    "of half a point. Otherwise the records do not decide.",
    is_dim=True,
)
_OURS = {"zero-shot": "BPL", "trials": "BPL (SFSP1)", "all-classes": "BPL (SFSP1)"}
_STEPS_OF_ABLATION = (("BPL1", "BPL0"), ("BPL0", "RPL"), ("BPL0", "FPL"))
_PARTS_OF_FUSION = (("recommended", "shots alone"), ("recommended", "prototype alone"))
_HOW = {
    "zero-shot": (
        "Differences of accuracy in points, averaged over all seeds, with the 95 % interval of a "
        "paired bootstrap that resamples test samples and seeds, with unseen classes fixed"
    ),
    "trials": "Differences in points, with the 95 % interval over trials that the models share",
    "all-classes": (
        "Differences in points, averaged over K, with the 95 % interval over draws of shots that "
        "the models share"
    ),
    "any-shot": "Gain by one more shot in points, with the 95 % interval over draws of shots",
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

    @property
    def verdict(self) -> str:
        """Which model is better, if the interval decides."""
        sign = self.sign()
        return f"{self.first if sign > 0 else self.second} is better" if sign else NO_DIFFERENCE

    def text(self, digits: int) -> str:
        """Return the difference, its interval and its basis."""
        values = (self.difference, self.low, self.high)
        middle, low, high = (points(value, digits) for value in values)
        return f"{middle} [{low}, {high}]{f' {self.basis}' if self.basis else ''}"


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


def compare_trials(first: Record | None, second: Record | None) -> Comparison | None:
    """Return the interval over trials that two models share."""
    if first is None or second is None or not _share_draws(first, second):
        return None
    a, b = trial_accuracies(first), trial_accuracies(second)
    if len(a) != len(b):
        return None
    return _compare_pairs(first["model"], second["model"], a - b, f"over {len(a)} trials")


def compare_shots(
    first: Record | None, second: Record | None, metric: str, only: int | None = None
) -> Comparison | None:
    """Return the interval over repetitions of hit@k, averaged over K >= 1, or with `only` K."""
    if first is None or second is None or not _share_draws(first, second):
        return None
    a, b = (_select_shots(run, metric, only) for run in (first, second))
    if a.shape != b.shape or not a.size:
        return None
    return _compare_pairs(
        first["model"], second["model"], (a - b).mean(axis=1), _describe_draws(first)
    )


def compare_gains(first: Record | None, second: Record | None, metric: str) -> Comparison | None:
    """Return by how much the lead of a model is larger with the fewest shots than with the most."""
    if first is None or second is None or not _share_draws(first, second):
        return None
    a, b = (_select_shots(run, metric) for run in (first, second))
    if a.shape != b.shape or a.shape[1] < 2:
        return None
    leads = a - b
    names = (f"lead over {second['model']} with few shots", "with many")
    return _compare_pairs(*names, leads[:, 0] - leads[:, -1], _describe_draws(first))


def compare_features(first: Record | None, second: Record | None) -> Comparison | None:
    """Return the difference of one model with two kinds of features, in the same trials."""
    if first is None or second is None or not _share_sizes(first, second):
        return None
    a, b = trial_accuracies(first), trial_accuracies(second)
    if len(a) != len(b) or first["data"]["split"] != second["data"]["split"]:
        return None
    return _compare_pairs(first["data_name"], second["data_name"], a - b, f"over {len(a)} trials")


def compare_numbers_of_shots(run: Record, metric: str, more: int, fewer: int) -> Comparison | None:
    """Return the gain of one model with more shots, with the interval over repetitions."""
    a, b = repetitions(run, metric, more), repetitions(run, metric, fewer)
    if a is None or b is None:
        return None
    return _compare_pairs(f"K = {more}", f"K = {fewer}", a - b, _describe_draws(run))


def _describe_draws(run: Record) -> str:
    """Return what an interval over repetitions is based on."""
    is_fixed = run["results"].get("queries_fixed")
    kinds = {None: "", True: ", queries fixed", False: ", all other samples are queries"}
    return f"over {len(run['results']['hit@1'])} draws of shots{kinds[is_fixed]}"


def _compare_pairs(
    first: str, second: str, differences: np.ndarray, basis: str
) -> Comparison | None:
    if len(differences) < 2:
        return None
    mean, half_width = mean_confidence_interval(differences)
    return Comparison(first, second, mean, mean - half_width, mean + half_width, basis)


def _select_shots(run: Record, metric: str, only: int | None = None) -> np.ndarray:
    """Return hit@k by repetition and number of shots, without K = 0, or with `only` K."""
    shots = np.asarray(run["results"]["shots"])
    wanted = shots > 0 if only is None else shots == only
    return np.asarray(run["results"][metric], dtype=float)[:, wanted]


def _share_draws(first: Record, second: Record) -> bool:
    """Whether classes, shots and queries are the same."""
    return first["data"]["sha256"] == second["data"]["sha256"] and _share_sizes(first, second)


def _share_sizes(first: Record, second: Record) -> bool:
    """Whether classes, shots and queries of two data sets with the same labels are the same."""
    sizes = ("n_way", "n_shot", "n_query")
    same = all(first["results"].get(key) == second["results"].get(key) for key in sizes)
    return same and first["seed"] == second["seed"]


def verdict_of(comparison: Comparison) -> str:
    """Return whether the first model improves on the second, if the interval decides."""
    if comparison.sign() > 0:
        return HELPS
    return NO_HELP if comparison.sign(-_WORTHWHILE) < 0 else UNCLEAR


def on_top_comparisons(study: Study) -> dict[str, Comparison]:
    """Return what each model adds to the subject of the experiment, by model."""
    subject = study.runs.get(study.experiment.subject, [])
    found = {
        model: compare_predictions(runs, subject)
        for model, runs in study.runs.items()
        if model != study.experiment.subject
    }
    return {model: comparison for model, comparison in found.items() if comparison is not None}


def on_top_blocks(study: Study) -> list[Block]:
    """Return one sentence about all models, and the rule behind it."""
    verdicts = [_phrase(*item) for item in on_top_comparisons(study).items()]
    if not verdicts:
        return []
    text = "Synthesis and competition on recommended features, with the ridge chosen without them: "
    return [Text(f"{text}{'; '.join(verdicts)}."), _RULE]


def on_top_summary(collection: Collection, data: str) -> Cell | None:
    """Return verdicts and differences for the summary."""
    found = on_top_comparisons(collection.study("on-top", data))

    def write(digits: int) -> str:
        return "; ".join(
            f"{_phrase(model, comparison)} ({comparison.text(digits)})"
            for model, comparison in found.items()
        )

    return round_text(write) if found else None


def _phrase(model: str, comparison: Comparison) -> str:
    verdict = verdict_of(comparison)
    return f"{model} {'is undecided' if verdict == UNCLEAR else verdict}"


def comparison_table(study: Study) -> TableBlock | None:
    """Return differences on the same samples, trials or shots; None if nothing can be paired."""
    name, protocol = study.experiment.name, study.experiment.protocol
    rows = [
        [
            label,
            f"{found.first} - {found.second}",
            round_text(found.text),
            verdict_of(found) if name == "on-top" else found.verdict,
        ]
        for label, found in _comparisons(study)
        if found is not None
    ]
    if not rows:
        return None
    headings = ["of", "models", "difference [95 % interval]", "verdict"]
    return TableBlock(headings, rows, _HOW[name if name in _HOW else protocol])


def _comparisons(study: Study) -> Iterator[tuple[str, Comparison | None]]:
    experiment = study.experiment
    if experiment.name == "generalized-zsl" or experiment.protocol not in _OURS:
        return
    if experiment.name == "on-top":
        yield from (("accuracy", found) for found in on_top_comparisons(study).values())
        return
    if experiment.name == "any-shot":
        for model, run in study.firsts.items():
            for fewer, more in pairwise(run["results"]["shots"]):
                yield f"{model}, hit@1", compare_numbers_of_shots(run, "hit@1", more, fewer)
        return
    ours = experiment.subject or _OURS[experiment.protocol]
    pairs = [(ours, model) for model in experiment.models if model != ours]
    if experiment.name == "ablation":
        pairs += _STEPS_OF_ABLATION
    pairs += [pair for pair in _PARTS_OF_FUSION if {*pair} <= {*experiment.models}]
    for protocol, found in study.by_protocol.items():
        for a, b in pairs:
            if a not in found or b not in found:
                continue
            if protocol == "zero-shot":
                yield "accuracy", compare_predictions(found[a], found[b])
            elif protocol == "all-classes":
                for metric in experiment.metrics:
                    yield metric, compare_shots(found[a][0], found[b][0], metric)
            else:
                yield shots_label(found[a][0]), compare_trials(found[a][0], found[b][0])
