"""Rules by which zero-shot records decide claims; each returns None where there are no records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from zonkey.metrics import mean_confidence_interval

from ..experiments import EXPERIMENTS
from ..printed import find_printed
from .blocks import Cell, Rounded, round_text
from .collection import Collection
from .comparisons import Comparison, compare_harmonic_means, compare_predictions
from .fits import START, compare_to_start, moved_text
from .measures import average_seeds
from .tables import compares, split_note

REPRODUCES, FAILS, UNDECIDED = "reproduced", "not reproduced", "undecided"
NOT_JUDGED = "not judged"  # the records cannot show it
UNMOVED = 0.99  # a model with at least this share of predictions equal to BPL0's did not move
BALANCE = 0.5  # least ratio of the smaller to the larger accuracy
PAPERS_STEPS, SETTLED = 5, 0.01
TOLERANCE = 0.01  # a point
_MAP_TOLERANCE = 0.01  # relative change of a ratio of scatters
_FEW = 3  # systems that are named instead of counted
_NOT_BEST = ("sun",)  # where the paper itself claims to be competitive only
_COMPARE = {"zsl": compare_predictions, "hm": compare_harmonic_means}


@dataclass(frozen=True)
class Finding:
    """Verdict of the records on a claim, with evidence, and its gist for the table of claims.

    The verdict is REPRODUCES, FAILS, UNDECIDED or NOT_JUDGED.
    """

    verdict: str
    evidence: Cell
    brief: Cell


def decide(comparison: Comparison, margin: float = 0.0) -> str:
    """Decide whether the first model is better, or not worse by more than a margin."""
    return {1: REPRODUCES, 0: UNDECIDED, -1: FAILS}[comparison.sign(margin)]


def find_difference(comparison: Comparison, text: str, margin: float = 0.0) -> Finding:
    """Return the verdict on the difference of two models; `text` has their figures."""
    return Finding(decide(comparison, margin), *_format_difference(comparison, text))


def _format_difference(comparison: Comparison, text: str) -> tuple[Rounded, Rounded]:
    """Return evidence and gist; Markdown has the figures of models in other tables."""
    found = round_text(comparison.text)
    return Rounded(f"{text}: {found.page}", found.markdown), round_text(comparison.interval)


def refuse(reason: str, evidence: Cell = "") -> Finding:
    """Return that the records cannot show a claim, and why."""
    text = evidence if isinstance(evidence, Rounded) else Rounded(evidence, evidence)
    both = (f"{reason}; {each}" if each else reason for each in (text.page, text.markdown))
    return Finding(NOT_JUDGED, Rounded(*both), reason)


def better_zero_shot(
    collection: Collection, data: str, first: str, second: str, metric: str = "zsl"
) -> Finding | None:
    """Test that a model beats another: accuracy on unseen classes, or harmonic mean."""
    comparison = _compare_runs(collection, data, first, second, metric)
    if comparison is None:
        return None
    return find_difference(comparison, _both_figures(collection, data, first, second, metric))


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
    if share is None:
        return refuse(f"no runs of {START} show whether {second} moved", found.evidence)
    moved = moved_text(runs)
    about = f" (W moved by {moved} %)" if moved else ""
    reason = f"{100 * share:.1f} % of the predictions of {second} equal those of {START}{about}"
    return refuse(reason, found.evidence)


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
    return Finding(verdict, *_format_difference(found, text))


def best_of(
    collection: Collection, data: str, first: str, others: Sequence[str], metric: str = "zsl"
) -> Finding | None:
    """Test that a model beats every one of several systems."""
    if metric == "hm" and data in _NOT_BEST:
        return None
    return decide_best(
        {other: _compare_runs(collection, data, first, other, metric) for other in others}
    )


def decide_best(
    known: dict[str, Comparison | None],
    left_out: Mapping[str, str] = MappingProxyType({}),
    kinds: Sequence[str] = ("better than", "no visible difference to", "worse than"),
) -> Finding | None:
    """Decide whether a model beats all others, from its comparison with each.

    `left_out` holds systems that are not what the claim is about, each with the reason; `kinds`
    says in words what a positive difference is, none, and a negative one.
    """
    found = {
        other: comparison
        for other, comparison in known.items()
        if comparison is not None and other not in left_out
    }
    reasons = "; ".join(f"{other}: {reason}" for other, reason in left_out.items())
    if not found:
        return refuse(reasons) if reasons else None
    signs = {other: comparison.sign() for other, comparison in found.items()}
    verdict = UNDECIDED
    if min(signs.values()) < 0:
        verdict = FAILS
    elif min(signs.values()) > 0 and len(found) == len(known):
        verdict = REPRODUCES
    names = {
        kind: [other for other in signs if signs[other] == sign]
        for sign, kind in zip((1, 0, -1), kinds, strict=True)
    }
    names["not measured:"] = [other for other in known if other not in {*found, *left_out}]
    texts = [f"{kind} {', '.join(others)}" for kind, others in names.items() if others]
    texts += [f"left out, {reasons}"] if reasons else []
    return Finding(verdict, "; ".join(texts), _count(names, len(known)))


def _count(names: dict[str, list[str]], n_known: int) -> str:
    """Return how many systems a model beats, and names if they are few."""
    texts = []
    for kind, others in names.items():
        if others:
            shown = ", ".join(others) if len(others) <= _FEW else str(len(others))
            texts.append(f"{kind} {shown}")
    return f"{', '.join(texts)}{f' of {n_known}' if texts[-1][-1].isdigit() else ''}"


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
    figures = f"acc_s {seen.percent()}, acc_u {unseen.percent()}"
    rest = f"the smaller is {100 * mean:.0f} % of the larger, that of {side} classes"
    return Finding(verdict, f"{figures}: {rest}", f"ratio {100 * mean:.0f} %")


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
    text = ", ".join(f"{model} {value:.3f}" for model, value in values.items())
    ends = (next(iter(values)), START, full)
    brief = ", ".join(f"{model} {values[model]:.2f}" for model in ends if model in values)
    return Finding(verdict, text, brief)


def converges(collection: Collection, data: str, model: str, by: str) -> Finding | None:
    """Test that a fit is settled at the fifth step: W, or the objective, changes no more.

    By W: each later step changes it by less than 1 %. By the objective: no later value differs
    from that at step 5 by 1 % of its fall up to there.
    """
    run = collection.first("convergence", data, model)
    if run is None or len(run["results"]["change"]) < PAPERS_STEPS:
        return None
    if by == "W":
        changes = run["results"]["change"]
        late = max(changes[PAPERS_STEPS - 1 :])
        text = (
            f"relative change at step 5: {changes[PAPERS_STEPS - 1]:.2g}; largest from there "
            f"to step {len(changes)}: {late:.2g}"
        )
        return Finding(
            REPRODUCES if late < SETTLED else FAILS,
            text,
            f"moves by up to {100 * late:.2g} % later",
        )
    start, *later = run["results"]["objective"]
    fifth = later[PAPERS_STEPS - 1]
    fall, move = start - fifth, max(abs(value - fifth) for value in later[PAPERS_STEPS - 1 :])
    share = move / fall if fall > 0 else float("inf")
    whole = abs(start) or 1.0
    text = (
        f"falls by {100 * fall / whole:.3g} % up to step 5 and moves by {100 * move / whole:.2g} % "
        "later"
    )
    brief = f"moves by up to {100 * share:.2g} % of its fall" if fall > 0 else "no fall"
    return Finding(REPRODUCES if share < SETTLED else FAILS, text, brief)


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
        if half_width <= TOLERANCE:
            is_near = abs(value.mean - figure.value / 100) <= TOLERANCE
            verdict = REPRODUCES if is_near else FAILS
    text = f"paper {figure.value:.1f}, measured {value.percent()}"
    return Finding(verdict, f"{text} ({doubt}); {split_note(runs[0])}", value.percent())
