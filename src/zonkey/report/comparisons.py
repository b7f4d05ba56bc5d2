"""The table of comparisons of an experiment: differences on the same samples, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..bench import Experiment
from .blocks import Table, rounded
from .collection import Collection
from .confidence import (
    Comparison,
    compare_numbers_of_shots,
    compare_predictions,
    compare_shots,
    compare_trials,
)
from .measures import shots_label
from .on_top import on_top_comparisons, verdict_of

_OURS = {"zero-shot": "BPL", "trials": "BPL (SFSP1)", "all-classes": "BPL (SFSP1)"}
_STEPS_OF_ABLATION = (("BPL1", "BPL0"), ("BPL0", "RPL"), ("BPL0", "FPL"))
_PARTS_OF_FUSION = (("recommended", "shots alone"), ("recommended", "prototype alone"))
_HOW = {
    "zero-shot": (
        "Differences of accuracy in points, averaged over all seeds, with the 95 % interval of a "
        "paired bootstrap: unseen classes are held fixed, their test samples and the seeds are "
        "redrawn"
    ),
    "trials": "Differences in points, with the 95 % interval over trials that the models share",
    "all-classes": (
        "Differences in points, averaged over K, with the 95 % interval over draws of shots that "
        "the models share; queries are held fixed"
    ),
    "any-shot": (
        "What one more shot adds in points, with the 95 % interval over draws of shots; queries "
        "are held fixed"
    ),
}


def comparison_table(experiment: Experiment, data: str, collection: Collection) -> Table | None:
    """Return differences on the same samples, trials or shots; None where nothing pairs."""
    tell = verdict_of if experiment.name == "on-top" else _better
    rows = [
        [label, f"{found.first} - {found.second}", rounded(found.full_text), tell(found)]
        for label, found in _comparisons(experiment, data, collection)
        if found is not None
    ]
    if not rows:
        return None
    how = _HOW[experiment.name if experiment.name in _HOW else experiment.protocol]
    headings = ["of", "models", "difference [95 % interval]", "verdict"]
    return Table(headings, rows, how)


def _comparisons(
    experiment: Experiment, data: str, collection: Collection
) -> Iterator[tuple[str, Comparison | None]]:
    if experiment.name == "generalized-zsl" or experiment.protocol not in _OURS:
        return
    ours = experiment.subject or _OURS[experiment.protocol]
    if experiment.name == "on-top":
        yield from (("accuracy", found) for found in on_top_comparisons(data, collection).values())
        return
    if experiment.name == "any-shot":
        yield from _more_shots(experiment, data, collection)
        return
    pairs = [(ours, model) for model in experiment.models if model != ours]
    if experiment.name == "ablation":
        pairs += _STEPS_OF_ABLATION
    pairs += [pair for pair in _PARTS_OF_FUSION if {*pair} <= {*experiment.models}]
    for protocol in collection.protocols(experiment, data):
        for names in pairs:
            if protocol == "zero-shot":
                runs = (collection.runs(protocol, data, name) for name in names)
                yield "accuracy", compare_predictions(*runs)
                continue
            first, second = (collection.first(protocol, data, name) for name in names)
            if protocol == "all-classes":
                for metric in experiment.metrics:
                    yield metric, compare_shots(first, second, metric)
            elif first is not None:
                yield shots_label(first), compare_trials(first, second)


def _better(comparison: Comparison) -> str:
    return comparison.verdict


def _more_shots(
    experiment: Experiment, data: str, collection: Collection
) -> Iterator[tuple[str, Comparison | None]]:
    for model, runs in collection.of(experiment, data).items():
        shots = runs[0]["results"]["shots"]
        for fewer, more in pairwise(shots):
            label = f"{model}, hit@1"
            yield label, compare_numbers_of_shots(runs[0], "hit@1", more, fewer)
