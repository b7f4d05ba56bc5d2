"""The rules by which records decide claims; each returns None where there are no records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from zonkey.metrics import mean_confidence_interval

from ..experiments import EXPERIMENTS
from ..printed import find_printed
from ..records import Record
from .blocks import Cell, Rounded, round_text
from .collection import Collection
from .comparisons import (
    Comparison,
    compare_features,
    compare_gains,
    compare_harmonic_means,
    compare_numbers_of_shots,
    compare_predictions,
    compare_shots,
    compare_trials,
)
from .fits import START, compare_to_start, moved_text
from .measures import average_seeds, average_trials, points
from .tables import compares, describe_features, split_note

REPRODUCES, FAILS, UNDECIDED = "reproduces", "does not reproduce", "undecided"
UNMOVED = 0.99  # a model with at least this share of predictions equal to BPL0's did not move
BALANCE = 0.5  # least ratio of the smaller to the larger accuracy
_PAPERS_STEPS, _SETTLED = 5, 0.01
_TOLERANCE = 0.01
_TIMING_NOISE = 0.1  # relative difference of two timings that is noise
_MAP_TOLERANCE = 0.01  # relative change of a ratio of scatters
_NOT_BEST = ("sun",)  # where the paper itself claims to be competitive only
PRINTED_SHOTS = "BPL (SFSP1)"  # the model of the paper's few-shot tables
_COMPARE = {"zsl": compare_predictions, "hm": compare_harmonic_means}


@dataclass(frozen=True)
class Finding:
    """Verdict of the records on a claim: REPRODUCES, FAILS or UNDECIDED, with evidence.

    `facts` fill the fields in the text of the claim, such as the number of shots.
    """

    verdict: str
    evidence: Cell
    facts: dict[str, Any] = field(default_factory=dict)


def decide(comparison: Comparison, margin: float = 0.0) -> str:
    """Decide whether the first model is better, or not worse by more than a margin."""
    return {1: REPRODUCES, 0: UNDECIDED, -1: FAILS}[comparison.sign(margin)]


def _make_finding(comparison: Comparison, text: str, margin: float = 0.0, **facts: Any) -> Finding:
    evidence = round_text(lambda digits: f"{text}; difference {comparison.text(digits)}")
    return Finding(decide(comparison, margin), evidence, facts)


def better_zero_shot(
    collection: Collection, data: str, first: str, second: str, metric: str = "zsl"
) -> Finding | None:
    """Test that a model beats another: accuracy on unseen classes, or harmonic mean."""
    comparison = _compare_runs(collection, data, first, second, metric)
    if comparison is None:
        return None
    return _make_finding(comparison, _both_figures(collection, data, first, second, metric))


def _compare_runs(
    collection: Collection, data: str, first: str, second: str, metric: str
) -> Comparison | None:
    runs = [collection.runs("zero-shot", data, model) for model in (first, second)]
    return _COMPARE[metric](*runs)


def _both_figures(
    collection: Collection, data: str, first: str, second: str, metric: str = "zsl"
) -> str:
    texts = []
    for model in (first, second):
        value = average_seeds(collection.runs("zero-shot", data, model), metric)
        texts.append(f"{model} {value.percent()}" if value else model)
    return ", ".join(texts)


def better_where_it_moved(
    collection: Collection, data: str, first: str, second: str
) -> Finding | None:
    """Test that a model beats another that has moved away from the initial projection."""
    found = better_zero_shot(collection, data, first, second)
    if found is None:
        return None
    runs = collection.runs("zero-shot", data, second)
    share = compare_to_start(runs, collection.runs("zero-shot", data, START))
    if share is not None and share < UNMOVED:
        return found
    moved = moved_text(runs)
    about = f" (W moved by {moved} %)" if moved else ""
    reason = (
        f"not judged: there are no runs of {START} to tell whether {second} moved{about}"
        if share is None
        else f"not judged: {100 * share:.1f} % of the predictions of {second} equal those of "
        f"{START}{about}"
    )
    text = found.evidence
    assert not isinstance(text, str)
    return Finding(UNDECIDED, Rounded(f"{reason}; {text.page}", f"{reason}; {text.markdown}"))


def gain_within(
    collection: Collection, data: str, first: str, second: str, least: float, most: float
) -> Finding | None:
    """Test that a gain of accuracy has the size that the paper states."""
    found = _compare_runs(collection, data, first, second, "zsl")
    if found is None:
        return None
    verdict = UNDECIDED
    if found.high < least or found.low > most:
        verdict = FAILS
    elif least <= found.difference <= most and found.sign() > 0:
        verdict = REPRODUCES
    text = _both_figures(collection, data, first, second)
    return Finding(verdict, round_text(lambda digits: f"{text}; difference {found.text(digits)}"))


def best_of(
    collection: Collection, data: str, first: str, others: Sequence[str], metric: str = "zsl"
) -> Finding | None:
    """Test that a model beats every one of several systems."""
    if metric == "hm" and data in _NOT_BEST:
        return None
    known = {other: _compare_runs(collection, data, first, other, metric) for other in others}
    return _decide_best(known)


def _decide_best(known: dict[str, Comparison | None], **facts: Any) -> Finding | None:
    """Decide whether a model beats all others, from its comparison with each."""
    found = {other: comparison for other, comparison in known.items() if comparison is not None}
    if not found:
        return None
    signs = {other: comparison.sign() for other, comparison in found.items()}
    verdict = UNDECIDED
    if min(signs.values()) < 0:
        verdict = FAILS
    elif min(signs.values()) > 0 and len(found) == len(known):
        verdict = REPRODUCES
    kinds = {1: "better than", 0: "no visible difference to", -1: "worse than"}
    texts = [
        f"{kind} {', '.join(other for other in signs if signs[other] == sign)}"
        for sign, kind in kinds.items()
        if sign in signs.values()
    ]
    absent = [other for other in known if other not in found]
    texts += [f"not measured: {', '.join(absent)}"] if absent else []
    return Finding(verdict, "; ".join(texts), facts)


def balanced(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that the smaller of the accuracies on seen and unseen classes is half the larger."""
    runs = collection.runs("zero-shot", data, model)
    sides = [average_seeds(runs, metric) for metric in ("acc_s", "acc_u")]
    seen, unseen = sides
    if seen is None or unseen is None:
        return None
    ratios = [_ratio(run["results"]["acc_s"], run["results"]["acc_u"]) for run in runs]
    verdict = UNDECIDED
    if min(ratios) >= BALANCE:
        verdict = REPRODUCES
    elif max(ratios) < BALANCE:
        verdict = FAILS
    side = "seen" if seen.mean >= unseen.mean else "unseen"
    mean = sum(ratios) / len(ratios)
    return Finding(
        verdict,
        f"acc_s {seen.percent()}, acc_u {unseen.percent()}: the smaller is {100 * mean:.0f} % of "
        f"the larger, that of {side} classes",
    )


def _ratio(a: float, b: float) -> float:
    return min(a, b) / max(a, b) if max(a, b) else 0.0


def tighter(
    collection: Collection, data: str, number: str, fuller: str, full: str
) -> Finding | None:
    """Test that a ratio of scatters in the map falls with every component of the model."""
    steps = ((START, "FPL"), (START, "RPL"), (fuller, START), (full, fuller))
    values = {}
    for model in ("FPL", "RPL", START, fuller, full):
        run = collection.first("map", data, model)
        if run is not None and run["results"].get(number) is not None:
            values[model] = run["results"][number]
    pairs = [(values[a], values[b]) for a, b in steps if {a, b} <= {*values}]
    if full not in values or not pairs:
        return None
    verdict = UNDECIDED
    if any(after > (1 + _MAP_TOLERANCE) * before for after, before in pairs):
        verdict = FAILS
    elif len(pairs) == len(steps) and all(
        after < (1 - _MAP_TOLERANCE) * before for after, before in pairs
    ):
        verdict = REPRODUCES
    texts = [f"{model} {value:.3f}" for model, value in values.items()]
    return Finding(verdict, ", ".join(texts))


def better_in_trials(
    collection: Collection, data: str, first: str, second: str, n_shot: int, margin: float = 0.0
) -> Finding | None:
    """Test that a model beats another, up to a margin, in trials of `n_shot` shots.

    Small data sets give fewer shots, about which the paper claims nothing.
    """
    runs = [collection.first(f"trials-{n_shot}", data, name) for name in (first, second)]
    comparison = compare_trials(*runs)
    if comparison is None or runs[0] is None or runs[0]["results"]["n_shot"] != n_shot:
        return None
    a, b = (average_trials(run) for run in runs if run is not None)
    text = f"{first} {a.percent()}, {second} {b.percent()}"
    return _make_finding(comparison, text, margin, **_sizes(runs[0]))


def best_in_trials(
    collection: Collection, data: str, first: str, others: Sequence[str], n_shot: int
) -> Finding | None:
    """Test that a model beats every one of several systems in trials."""
    run = collection.first(f"trials-{n_shot}", data, first)
    if run is None or run["results"]["n_shot"] != n_shot:
        return None
    known = {
        other: compare_trials(run, collection.first(f"trials-{n_shot}", data, other))
        for other in others
    }
    return _decide_best(known, **_sizes(run))


def _sizes(run: Record) -> dict[str, Any]:
    return {key: run["results"][key] for key in ("n_way", "n_shot")}


def better_features(collection: Collection, data: str, model: str, n_shot: int) -> Finding | None:
    """Test that a model is better with features of a stronger network, in the same trials."""
    runs = [collection.first(f"trials-{n_shot}", name, model) for name in (data, f"{data}-cnn")]
    comparison = compare_features(*runs)
    if comparison is None or runs[0] is None:
        return None
    texts = [f"{describe_features(run)} {average_trials(run).percent()}" for run in runs if run]
    return _make_finding(comparison, "; ".join(texts), **_sizes(runs[0]))


def near_the_printed_trials(
    collection: Collection, data: str, model: str, n_shot: int
) -> Finding | None:
    """Test that accuracy in trials is within a point of the printed figure, on the same network.

    The weights of the network differ, and so do the trials.
    """
    run = collection.first(f"trials-{n_shot}", data, model)
    figure = find_printed("metafsl", data, f"{n_shot}-shot").get(PRINTED_SHOTS)
    if run is None or figure is None:
        return None
    value = average_trials(run)
    gap = abs(value.mean - figure.value / 100)
    verdict = REPRODUCES if gap <= _TOLERANCE else UNDECIDED
    if gap - (value.spread or 0.0) > _TOLERANCE:
        verdict = FAILS
    text = f"paper {figure.value:.1f} ± {figure.spread}, measured {value.percent()}"
    note = f"features: {figure.features} in the paper, {describe_features(run)} here"
    return Finding(verdict, f"{text}; {note}", _sizes(run))


def better_with_shots(
    collection: Collection,
    data: str,
    first: str,
    second: str,
    metric: str = "hit@1",
    margin: float = 0.0,
) -> Finding | None:
    """Test that a model beats another, up to a margin, among all novel classes."""
    a, b = (collection.first("all-classes", data, model) for model in (first, second))
    comparison = compare_shots(a, b, metric)
    if comparison is None:
        return None
    return _make_finding(comparison, f"{metric}, mean over K", margin)


def best_with_shots(
    collection: Collection,
    data: str,
    first: str,
    others: Sequence[str],
    metric: str,
    only: int | None = None,
) -> Finding | None:
    """Test that a model beats every one of several systems among all novel classes.

    For any number of shots per class, or with `only` so many.
    """
    run = collection.first("all-classes", data, first)
    if run is None:
        return None
    known = {
        other: compare_shots(run, collection.first("all-classes", data, other), metric, only)
        for other in others
    }
    return _decide_best(known)


def leads_more_with_few_shots(
    collection: Collection, data: str, first: str, second: str, metric: str
) -> Finding | None:
    """Test that a model leads with few shots, and by more than with many."""
    a, b = (collection.first("all-classes", data, model) for model in (first, second))
    comparison = compare_gains(a, b, metric)
    if a is None or comparison is None:
        return None
    fewest = min(number for number in a["results"]["shots"] if number)
    lead = compare_shots(a, b, metric, only=fewest)
    if lead is None:
        return None
    # Losing by less does not count as leading.
    verdicts = {decide(lead), decide(comparison)}
    verdict = next(each for each in (FAILS, UNDECIDED, REPRODUCES) if each in verdicts)

    def evidence(digits: int) -> str:
        text = f"lead in {metric} with K = {fewest}: {points(lead.difference, digits)}"
        return f"{text}; less that with the most shots: {comparison.text(digits)}"

    return Finding(verdict, round_text(evidence))


def one_shot_helps(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that one shot is better than none."""
    run = collection.first("all-classes", data, model)
    comparison = compare_numbers_of_shots(run, "hit@5", 1, 0) if run else None
    return _make_finding(comparison, "hit@5 from K = 0 to 1") if comparison else None


def grows_with_shots(
    collection: Collection, data: str, model: str, metric: str = "hit@1"
) -> Finding | None:
    """Test that every further shot helps."""
    run = collection.first("all-classes", data, model)
    shots = [] if run is None else [number for number in run["results"]["shots"] if number]
    if run is None or len(shots) < 2:
        return None
    steps = [compare_numbers_of_shots(run, metric, b, a) for a, b in pairwise(shots)]
    whole = compare_numbers_of_shots(run, metric, shots[-1], shots[0])
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
        text = f"{metric} from K = {shots[0]} to {shots[-1]}: {whole.text(digits)}"
        return f"{text}; least step {points(least, digits)}"

    return Finding(verdict, round_text(evidence))


def faster(collection: Collection, data: str, first: str, others: Sequence[str]) -> Finding | None:
    """Test that a model is fitted faster than each of several systems, with the most shots."""
    known = {other: _ratio_of(collection, data, first, other) for other in others}
    found = {other: ratio for other, ratio in known.items() if ratio is not None}
    if not found:
        return None
    verdict = UNDECIDED
    if max(found.values()) > 1 + _TIMING_NOISE:
        verdict = FAILS
    elif max(found.values()) < 1 - _TIMING_NOISE and len(found) == len(known):
        verdict = REPRODUCES
    texts = [f"{ratio:.2g} times the time of {other}" for other, ratio in found.items()]
    absent = [other for other in known if other not in found]
    texts += [f"not measured: {', '.join(absent)}"] if absent else []
    return Finding(verdict, "; ".join(texts))


def _ratio_of(collection: Collection, data: str, first: str, second: str) -> float | None:
    a, b = (collection.first("runtime", data, model) for model in (first, second))
    if a is None or b is None or a["results"]["shots"] != b["results"]["shots"]:
        return None
    return a["results"]["seconds"][-1] / b["results"]["seconds"][-1]


def stores_less(collection: Collection, data: str, first: str, second: str) -> Finding | None:
    """Test that a model needs less of base classes than another."""
    runs = [collection.first("runtime", data, model) for model in (first, second)]
    sizes = [run["results"].get("base_mb") for run in runs if run is not None]
    if len(sizes) < 2 or None in sizes:
        return None
    text = f"{sizes[0] / sizes[1]:.2g} times what {second} stores" if sizes[1] else "nothing stored"
    return Finding(REPRODUCES if sizes[0] < sizes[1] else FAILS, text)


def converges(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that W changes by less than 1 % from the fifth step on."""
    run = collection.first("convergence", data, model)
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


def near_the_printed_figure(
    collection: Collection, data: str, model: str, metric: str, experiment: str
) -> Finding | None:
    """Test that a reading of BPL is within a point of the printed figure, on the same features."""
    runs = collection.runs("zero-shot", data, model)
    figure = find_printed(EXPERIMENTS[experiment].source, data, metric).get("BPL")
    value = average_seeds(runs, metric)
    if figure is None or value is None or not compares(runs[0], figure):
        return None
    verdict, doubt = UNDECIDED, "a single seed"
    if len(runs) > 1:
        values = [run["results"][metric] for run in runs]
        half_width = mean_confidence_interval(values).half_width
        width = f"±{100 * half_width:.2f}"
        doubt = f"95 % interval of the mean over {len(values)} seeds: {width}"
        if half_width <= _TOLERANCE:
            is_near = abs(value.mean - figure.value / 100) <= _TOLERANCE
            verdict = REPRODUCES if is_near else FAILS
    text = f"paper {figure.value:.1f}, measured {value.percent()}"
    return Finding(verdict, f"{text} ({doubt}); {split_note(runs[0])}")
