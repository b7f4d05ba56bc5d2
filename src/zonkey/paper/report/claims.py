"""The claims of the paper, and the rules by which records decide them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...metrics import mean_confidence_interval
from ..experiments import EXPERIMENTS
from ..printed import printed
from .blocks import Cell, rounded
from .collection import Collection
from .comparisons import (
    Comparison,
    compare_numbers_of_shots,
    compare_predictions,
    compare_shots,
    compare_trials,
)
from .measures import over_seeds, over_trials, points
from .tables import compares, split_note

REPRODUCES, FAILS, UNDECIDED = "reproduces", "does not reproduce", "undecided"
RULES = (
    "Rules decide every verdict from the records.",
    "Better: a model is better than another if the 95 % interval of their paired difference lies "
    "above 0, and worse if it lies below 0; otherwise the claim is undecided. Without shots, the "
    "difference is averaged over all seeds, and the interval is a bootstrap that resamples test "
    "samples and seeds, with unseen classes fixed. In trials, it is Student's interval over "
    "trials. With all novel classes at once, it is Student's interval over draws of shots, "
    "averaged over K, with queries fixed.",
    "Not worse, to a margin: reproduced if the interval lies above the negative margin, not "
    "reproduced if it lies below, otherwise undecided.",
    "More shots: reproduced if the interval from the fewest to the most shots lies above 0 and "
    "every step gains on average; not reproduced if the interval of the whole or of any step lies "
    "below 0; otherwise undecided.",
    "Printed figure, on the paper's features only: reproduced if the mean over seeds is within 1 "
    "point of it; undecided if the 95 % interval of that mean is wider than 1 point to either "
    "side, or if there is only one seed.",
    "Convergence: reproduced if W changes by less than 1 % at step 5 and at every later step.",
)
_PAPERS_STEPS, _SETTLED = 5, 0.01
_TOLERANCE = 0.01
_OURS = "BPL (SFSP1)"
_MARGIN = 0.005  # the paper's own two figures differ by a fifth of this


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


def _found(comparison: Comparison, text: str, margin: float = 0.0, **facts: Any) -> Finding:
    evidence = rounded(lambda digits: f"{text}; difference {comparison.text(digits)}")
    return Finding(decide(comparison, margin), evidence, facts)


def better_zero_shot(collection: Collection, data: str, first: str, second: str) -> Finding | None:
    """Test that a model beats another on unseen classes."""
    runs = [collection.runs("zero-shot", data, model) for model in (first, second)]
    comparison = compare_predictions(*runs)
    a, b = (over_seeds(found, "zsl") for found in runs)
    if comparison is None or a is None or b is None:
        return None
    return _found(comparison, f"{first} {a.percent()}, {second} {b.percent()}")


def better_in_trials(
    collection: Collection, data: str, first: str, second: str, n_shot: int
) -> Finding | None:
    """Test that a model beats another in trials of `n_shot` shots.

    Small data sets give fewer shots, about which the paper claims nothing.
    """
    runs = [collection.first(f"trials-{n_shot}", data, name) for name in (first, second)]
    comparison = compare_trials(*runs)
    if comparison is None or runs[0] is None or runs[0]["results"]["n_shot"] != n_shot:
        return None
    a, b = (over_trials(run) for run in runs if run is not None)
    facts = {key: runs[0]["results"][key] for key in ("n_way", "n_shot")}
    return _found(comparison, f"{first} {a.percent()}, {second} {b.percent()}", **facts)


def better_with_shots(
    collection: Collection, data: str, first: str, second: str, margin: float = 0.0
) -> Finding | None:
    """Test that a model beats another, up to a margin, among all novel classes."""
    a, b = (collection.first("all-classes", data, model) for model in (first, second))
    comparison = compare_shots(a, b, "hit@1")
    return _found(comparison, "hit@1, mean over K", margin=margin) if comparison else None


def one_shot_helps(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that one shot is better than none."""
    run = collection.first("all-classes", data, model)
    comparison = compare_numbers_of_shots(run, "hit@5", 1, 0) if run else None
    return _found(comparison, "hit@5 from K = 0 to 1") if comparison else None


def grows_with_shots(collection: Collection, data: str, model: str) -> Finding | None:
    """Test that every further shot helps."""
    run = collection.first("all-classes", data, model)
    shots = [] if run is None else [number for number in run["results"]["shots"] if number]
    if run is None or len(shots) < 2:
        return None
    steps = [compare_numbers_of_shots(run, "hit@1", b, a) for a, b in pairwise(shots)]
    whole = compare_numbers_of_shots(run, "hit@1", shots[-1], shots[0])
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
        text = f"hit@1 from K = {shots[0]} to {shots[-1]}: {whole.text(digits)}"
        return f"{text}; least step {points(least, digits)}"

    return Finding(verdict, rounded(evidence))


def converges(collection: Collection, data: str) -> Finding | None:
    """Test that W changes by less than 1 % from the fifth step on."""
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


def near_the_printed_figure(
    collection: Collection, data: str, metric: str, experiment: str
) -> Finding | None:
    """Test that BPL is within a point of its printed figure, on the same features."""
    runs = collection.runs("zero-shot", data, "BPL")
    figure = printed(EXPERIMENTS[experiment].source, data, metric).get("BPL")
    value = over_seeds(runs, metric)
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


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, its table or figure, and the rule that decides it.

    The text has fields in braces for `Finding.facts`. The rule takes a collection, a data set and
    `arguments`; it returns None if there are no records.
    """

    text: str
    source: str
    rule: Callable[..., Finding | None]
    arguments: tuple[Any, ...] = ()


_COMP, _SHOTS = "Fig. comp", "Fig. metafsl1"
CLAIMS: tuple[Claim, ...] = (
    Claim("Competition contributes: BPL is better than BPL1", _COMP,
          better_zero_shot, ("BPL", "BPL1")),
    Claim("Synthesis contributes: BPL1 is better than BPL0", _COMP,
          better_zero_shot, ("BPL1", "BPL0")),
    Claim("Both directions contribute: BPL0 is better than RPL", _COMP,
          better_zero_shot, ("BPL0", "RPL")),
    Claim("Both directions contribute: BPL0 is better than FPL", _COMP,
          better_zero_shot, ("BPL0", "FPL")),
    Claim("All components together: BPL is better than BPL0", _COMP,
          better_zero_shot, ("BPL", "BPL0")),
    Claim("Competition is better than no handling of ambiguity", "Table gradopt",
          better_zero_shot, ("BPL", "without ambiguity handling")),
    Claim("Competition is better than minimum entropy", "Table gradopt",
          better_zero_shot, ("BPL", "minimum entropy")),
    Claim("Accuracy of BPL, to a point", "Table pzsl",
          near_the_printed_figure, ("zsl", "pure-zsl")),
    Claim("Harmonic mean of BPL, to a point", "Table gsrl",
          near_the_printed_figure, ("hm", "generalized-zsl")),
    Claim("Synthesis from shots (SFSP1) is not worse than from base samples (SFSP2), to half a "
          "point", "Table datagen", better_with_shots, (_OURS, "BPL (SFSP2)", _MARGIN)),
    Claim("BPL is better than nearest neighbor, all novel classes at once", _SHOTS,
          better_with_shots, (_OURS, "NN")),
    Claim("Base classes help: BPL is better than BPL (novel), all novel classes at once", _SHOTS,
          better_with_shots, (_OURS, "BPL (novel)")),
    Claim("More shots give better results", _SHOTS, grows_with_shots, (_OURS,)),
    Claim("One shot is better than none", _SHOTS, one_shot_helps, (_OURS,)),
    *(
        Claim(f"BPL is better than {name} in {{n_way}}-way trials, {{n_shot}}-shot",
              "Table metafsl", better_in_trials, (_OURS, model, n_shot))
        for n_shot in (1, 5)
        for model, name in (("NN", "nearest neighbor"), ("BPL (novel)", "BPL (novel)"))
    ),
    Claim("Algorithm 1 converges within 5 steps (W changes by less than 1 %)", "Algorithm 1",
          converges),
)  # fmt: skip
