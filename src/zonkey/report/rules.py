"""The rules by which records decide on a claim of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..bench import EXPERIMENTS
from .collection import Collection
from .confidence import (
    Comparison,
    compare_numbers_of_shots,
    compare_predictions,
    compare_shots,
    compare_trials,
)
from .measures import Measurement, over_seeds, over_trials, points
from .tables import compares, features_used, printed_figure

REPRODUCES, FAILS, UNDECIDED = "reproduces", "does not reproduce", "undecided"
_PAPERS_STEPS, _SETTLED = 5, 0.01
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Finding:
    """What records say about a claim.

    Attributes
    ----------
    verdict : str
        REPRODUCES, FAILS or UNDECIDED.
    evidence : str
    """

    verdict: str
    evidence: str


Test = Callable[[Collection, str], Finding | None]


def decide(comparison: Comparison, first: Measurement, second: Measurement) -> str:
    """Decide whether the first model is better: interval and spreads must agree."""
    if comparison.low > 0 and first.low > second.high:
        return REPRODUCES
    if comparison.high < 0 and first.high < second.low:
        return FAILS
    return UNDECIDED


def better_zero_shot(first: str, second: str) -> Test:
    """Return the test that a model beats another on unseen classes."""

    def test(collection: Collection, data: str) -> Finding | None:
        runs = [collection.runs("zero-shot", data, model) for model in (first, second)]
        if not all(runs):
            return None
        comparison = compare_predictions(runs[0][0], runs[1][0])
        a, b = (over_seeds(found, "zsl") for found in runs)
        if comparison is None or a is None or b is None:
            return None
        return Finding(
            decide(comparison, a, b),
            f"{first} {a.percent()}, {second} {b.percent()}; difference {comparison.text}",
        )

    return test


def better_in_trials(first: str, second: str, protocol: str) -> Test:
    """Return the test that a model beats another in small trials."""

    def test(collection: Collection, data: str) -> Finding | None:
        runs = [collection.first(protocol, data, model) for model in (first, second)]
        comparison = compare_trials(*runs)
        if comparison is None:
            return None
        a, b = (over_trials(run) for run in runs if run is not None)
        # Small data give fewer shots than asked for.
        (n_shot,) = {run["results"]["n_shot"] for run in runs if run is not None}
        text = f"{first} {a.percent()}, {second} {b.percent()}; difference {comparison.text}"
        return Finding(_by_interval(comparison), f"{n_shot}-shot: {text}")

    return test


def better_with_shots(first: str, second: str, margin: float = 0.0) -> Test:
    """Return the test that a model beats another among all novel classes.

    With a margin it may also be worse, by no more than that.
    """

    def test(collection: Collection, data: str) -> Finding | None:
        a, b = (collection.first("all-classes", data, model) for model in (first, second))
        comparison = compare_shots(a, b, "hit@1")
        if comparison is None:
            return None
        verdict = _by_interval(comparison)
        if margin and comparison.low >= -margin:
            verdict = REPRODUCES
        return Finding(verdict, f"hit@1, mean over K: difference {comparison.text}")

    return test


def _by_interval(comparison: Comparison) -> str:
    if comparison.low > 0:
        return REPRODUCES
    return FAILS if comparison.high < 0 else UNDECIDED


def grows_with_shots(model: str) -> Test:
    """Return the test that every further shot helps."""

    def test(collection: Collection, data: str) -> Finding | None:
        run = collection.first("all-classes", data, model)
        shots = [] if run is None else [number for number in run["results"]["shots"] if number]
        if run is None or len(shots) < 2:
            return None
        steps = [
            compare_numbers_of_shots(run, "hit@1", more, fewer) for fewer, more in pairwise(shots)
        ]
        whole = compare_numbers_of_shots(run, "hit@1", shots[-1], shots[0])
        found = [step for step in steps if step is not None]
        if whole is None or len(found) < len(steps):
            return None
        verdict = _by_interval(whole)
        least = min(step.difference for step in found)
        if verdict == REPRODUCES and least <= 0:
            verdict = UNDECIDED
        if any(step.high < 0 for step in found):
            verdict = FAILS
        text = f"hit@1 from K = {shots[0]} to {shots[-1]}: {whole.text}"
        return Finding(verdict, f"{text}; least step {points(least)}")

    return test


def one_shot_helps(model: str) -> Test:
    """Return the test that one shot is better than none."""

    def test(collection: Collection, data: str) -> Finding | None:
        run = collection.first("all-classes", data, model)
        comparison = None if run is None else compare_numbers_of_shots(run, "hit@5", 1, 0)
        if comparison is None:
            return None
        return Finding(_by_interval(comparison), f"hit@5 from K = 0 to 1: {comparison.text}")

    return test


def converges(collection: Collection, data: str) -> Finding | None:
    """Test that W has settled at the fifth step, and stays so."""
    run = collection.first("convergence", data, "BPL")
    if run is None or len(run["results"]["change"]) < _PAPERS_STEPS:
        return None
    changes = run["results"]["change"]
    late = max(changes[_PAPERS_STEPS - 1 :])
    objective = run["results"]["objective"]
    start, fifth, end = (objective[step] for step in (0, _PAPERS_STEPS, -1))
    before, after = (start - fifth) / abs(start), abs(end - fifth) / abs(start)
    return Finding(
        REPRODUCES if late < _SETTLED else FAILS,
        f"relative change of W at step 5: {changes[_PAPERS_STEPS - 1]:.2g}; largest from there to "
        f"step {len(changes)}: {late:.2g}; the objective falls by {100 * before:.3g} % up to "
        f"step 5 and moves by {100 * after:.3g} % later",
    )


def near_the_printed_figure(metric: str, experiment: str) -> Test:
    """Return the test that BPL comes near its figure in the paper, on the paper's features."""

    def test(collection: Collection, data: str) -> Finding | None:
        runs = collection.runs("zero-shot", data, "BPL")
        figure = printed_figure(EXPERIMENTS[experiment].source, data, "BPL", metric)
        value = over_seeds(runs, metric)
        if figure is None or value is None or not compares(data, features_used(runs[0]), figure):
            return None
        near = abs(value.mean - figure.value / 100) <= max(_TOLERANCE, 2 * (value.spread or 0))
        text = f"paper {figure.value:.1f}, measured {value.percent()}"
        return Finding(REPRODUCES if near else FAILS, text)

    return test
