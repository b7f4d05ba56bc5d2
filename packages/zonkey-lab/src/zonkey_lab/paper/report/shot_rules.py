"""Rules by which few-shot records decide claims; each returns None where there are no records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..printed import find_printed
from ..records import Record
from .blocks import round_text
from .collection import Collection
from .comparisons import (
    compare_features,
    compare_gains,
    compare_numbers_of_shots,
    compare_shots,
    compare_trials,
)
from .heads import untrained_text
from .measures import average_trials, points
from .rules import (
    FAILS,
    REPRODUCES,
    TOLERANCE,
    UNDECIDED,
    Finding,
    decide,
    decide_best,
    find_difference,
    refuse,
)
from .tables import describe_features

PRINTED_SHOTS = "BPL (SFSP1)"  # the model of the paper's few-shot tables
NEAREST = "NN"
_N_WAY = 5
_TIMING_NOISE = 0.1  # relative difference of two timings that is noise
_LEAST_SECONDS = 0.001  # records round to it
_OWN_NETWORKS = ("four convolutional blocks", "simple CNN", "WRN")  # trained on base classes only


def _runs(collection: Collection, data: str, model: str, n_shot: int) -> list[Record]:
    """Return trials of the size that the paper speaks of; small data sets give fewer shots."""
    runs = collection.runs(f"trials-{n_shot}", data, model)
    sizes = (_N_WAY, n_shot)
    return [run for run in runs if (run["results"]["n_way"], run["results"]["n_shot"]) == sizes]


def better_in_trials(
    collection: Collection, data: str, first: str, second: str, n_shot: int, margin: float = 0.0
) -> Finding | None:
    """Test that a model beats another, up to a margin, in trials of `n_shot` shots."""
    a, b = (_runs(collection, data, name, n_shot) for name in (first, second))
    comparison = compare_trials(a, b)
    if comparison is None:
        return None
    text = f"{first} {average_trials(a).percent()}, {second} {average_trials(b).percent()}"
    return find_difference(comparison, text, margin)


def best_in_trials(
    collection: Collection, data: str, first: str, others: Sequence[str], n_shot: int
) -> Finding | None:
    """Test that a model beats every one of several systems in trials; untrained ones are none."""
    runs = _runs(collection, data, first, n_shot)
    found = {other: _runs(collection, data, other, n_shot) for other in others} if runs else {}
    known = {other: compare_trials(runs, each) for other, each in found.items()}
    return decide_best(known, _find_untrained(found))


def _find_untrained(runs: dict[str, list[Record]], only: int | None = None) -> dict[str, str]:
    """Return the systems whose training was stopped before the first step."""
    texts = {name: untrained_text(found, only) for name, found in runs.items()}
    return {name: text for name, text in texts.items() if text}


def nearest_neighbor_is_weak(
    collection: Collection, data: str, others: Sequence[str], n_shot: int
) -> Finding | None:
    """Test that every other system beats nearest neighbor, on features of base classes only."""
    runs = _runs(collection, data, NEAREST, n_shot)
    found = {other: _runs(collection, data, other, n_shot) for other in others} if runs else {}
    known = {other: compare_trials(each, runs) for other, each in found.items()}
    if not any(known.values()):
        return None
    features = describe_features(runs[0])
    if not any(name.lower() in features.lower() for name in _OWN_NETWORKS):
        return refuse("the features are not those of a network trained on the base classes")
    kinds = ("worse than", "no visible difference to", "better than")
    return decide_best(known, _find_untrained(found), kinds)


def better_features(collection: Collection, data: str, model: str, n_shot: int) -> Finding | None:
    """Test that a model is better with features of a stronger network, in the same trials.

    The features are the stronger ones if nearest neighbor, which learns nothing else, is better
    with them.
    """
    names = (data, f"{data}-cnn")
    runs = [_runs(collection, name, model, n_shot) for name in names]
    comparison = compare_features(*runs)
    if comparison is None:
        return None
    text = "; ".join(
        f"{describe_features(found[0])} {average_trials(found).percent()}" for found in runs
    )
    found = find_difference(comparison, text)
    premise = compare_features(*(_runs(collection, name, NEAREST, n_shot) for name in names))
    if premise is None:
        return refuse("no trials of NN show which features are stronger", found.evidence)
    if premise.sign() <= 0:
        return refuse("premise not met: NN is not better with these features", found.evidence)
    return found


def near_the_printed_trials(
    collection: Collection, data: str, model: str, n_shot: int
) -> Finding | None:
    """Test that accuracy in trials is within a point of the printed figure, on the same network.

    The weights of the network differ, and so do the trials.
    """
    runs = _runs(collection, data, model, n_shot)
    figure = find_printed("metafsl", data, f"{n_shot}-shot").get(PRINTED_SHOTS)
    if not runs or figure is None:
        return None
    value = average_trials(runs)
    gap = abs(value.mean - figure.value / 100)
    verdict = REPRODUCES if gap <= TOLERANCE else UNDECIDED
    if gap - (value.spread or 0.0) > TOLERANCE:
        verdict = FAILS
    text = f"paper {figure.value:.1f} ± {figure.spread}, measured {value.percent()}"
    note = f"features: {figure.features} in the paper, {describe_features(runs[0])} here"
    return Finding(verdict, f"{text}; {note}", value.percent())


def better_with_shots(
    collection: Collection, data: str, first: str, second: str, metric: str, margin: float = 0.0
) -> Finding | None:
    """Test that a model beats another, up to a margin, among all novel classes."""
    a, b = (collection.runs("all-classes", data, model) for model in (first, second))
    comparison = compare_shots(a, b, metric)
    return None if comparison is None else find_difference(comparison, "mean over K", margin)


def best_with_shots(
    collection: Collection,
    data: str,
    first: str,
    others: Sequence[str],
    metric: str,
    only: int | None = None,
) -> Finding | None:
    """Test that a model beats every one of several systems among all novel classes.

    For any number of shots per class, or with `only` so many. Untrained systems do not count.
    """
    runs = collection.runs("all-classes", data, first)
    found = {other: collection.runs("all-classes", data, other) for other in others} if runs else {}
    known = {other: compare_shots(runs, each, metric, only) for other, each in found.items()}
    return decide_best(known, _find_untrained(found, only))


def leads_more_with_few_shots(
    collection: Collection, data: str, first: str, second: str, metric: str
) -> Finding | None:
    """Test that a model leads with few shots, and by more than with many."""
    a, b = (collection.runs("all-classes", data, model) for model in (first, second))
    comparison = compare_gains(a, b, metric)
    if comparison is None:
        return None
    fewest = min(number for number in a[0]["results"]["shots"] if number)
    lead = compare_shots(a, b, metric, only=fewest)
    if lead is None:
        return None
    # Losing by less does not count as leading.
    verdicts = {decide(lead), decide(comparison)}
    verdict = next(each for each in (FAILS, UNDECIDED, REPRODUCES) if each in verdicts)

    def evidence(digits: int) -> str:
        text = f"lead with K = {fewest}: {points(lead.difference, digits)}"
        return f"{text}; less that with the most shots: {comparison.interval(digits)}"

    return Finding(verdict, round_text(evidence), round_text(lead.interval))


def one_shot_helps(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that one shot is better than none."""
    runs = collection.runs("all-classes", data, model)
    comparison = compare_numbers_of_shots(runs, "hit@5", 1, 0)
    return find_difference(comparison, "hit@5 from K = 0 to 1") if comparison else None


def grows_with_shots(collection: Collection, data: str, model: str, metric: str) -> Finding | None:
    """Test that every further shot helps."""
    runs = collection.runs("all-classes", data, model)
    shots = [number for number in runs[0]["results"]["shots"] if number] if runs else []
    if len(shots) < 2:
        return None
    steps = [compare_numbers_of_shots(runs, metric, b, a) for a, b in pairwise(shots)]
    whole = compare_numbers_of_shots(runs, metric, shots[-1], shots[0])
    found = [step for step in steps if step is not None]
    if whole is None or len(found) < len(steps):
        return None
    verdict = decide(whole)
    least = min(step.difference for step in found)
    if verdict == REPRODUCES and least <= 0:
        verdict = UNDECIDED
    if any(decide(step) == FAILS for step in found):
        verdict = FAILS

    def evidence(digits: int) -> str:
        text = f"from K = {shots[0]} to {shots[-1]}: {whole.interval(digits)}"
        return f"{text}; least step {points(least, digits)}"

    return Finding(verdict, round_text(evidence), round_text(whole.interval))


def faster(collection: Collection, data: str, first: str, others: Sequence[str]) -> Finding | None:
    """Test that a model is fitted faster than each of several systems, with the most shots."""
    if collection.first("runtime", data, first) is None:
        return None
    known = {other: _ratio_of(collection, data, first, other) for other in others}
    found = {other: ratio for other, ratio in known.items() if ratio is not None}
    absent = [other for other in known if other not in found]
    if absent:
        return refuse(f"not timed: {'; '.join(absent)}")
    verdict = UNDECIDED
    if max(found.values()) > 1 + _TIMING_NOISE:
        verdict = FAILS
    elif max(found.values()) < 1 - _TIMING_NOISE:
        verdict = REPRODUCES
    text = "; ".join(f"{ratio:.2g} times the time of {other}" for other, ratio in found.items())
    return Finding(verdict, text, text)


def _ratio_of(collection: Collection, data: str, first: str, second: str) -> float | None:
    a, b = (collection.first("runtime", data, model) for model in (first, second))
    if a is None or b is None or a["results"]["shots"] != b["results"]["shots"]:
        return None
    first_seconds, second_seconds = (
        max(run["results"]["seconds"][-1], _LEAST_SECONDS) for run in (a, b)
    )
    return first_seconds / second_seconds


def stores_less(collection: Collection, data: str, first: str, second: str) -> Finding | None:
    """Test that a model needs less of base classes than another."""
    runs = [collection.first("runtime", data, model) for model in (first, second)]
    sizes = [run["results"].get("base_mb") for run in runs if run is not None]
    if len(sizes) < 2 or None in sizes:
        return None
    text = f"{sizes[0] / sizes[1]:.2g} times what {second} stores" if sizes[1] else "nothing stored"
    return Finding(REPRODUCES if sizes[0] < sizes[1] else FAILS, text, text)
