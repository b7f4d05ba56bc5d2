"""Tables of the parameters that were chosen, on what, and which of them are at an edge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..records import Record
from .blocks import Block, TableBlock, Text
from .collection import Collection, choices_of

# The runs of each table, by the task on which parameters are chosen.
_TASKS = {
    "Zero-shot learning": ("zero-shot", "unlabeled"),
    "1-shot trials": ("trials-1", "unlabeled-trials-1"),
    "5-shot trials": ("trials-5", "unlabeled-trials-5"),
    "All novel classes": ("all-classes",),
}
_EDGE_NOTE = (
    "At edge: the smallest or the largest value that was tried, where a further one could be "
    "better. At limit: a bound of the parameter."
)


class _Choice(NamedTuple):
    """Parameters of a model, and the record in which they were chosen."""

    model: str
    chosen: dict[str, Any]
    selection: Record | None


def parameter_blocks(collection: Collection, data: str) -> list[Block]:
    """Return, per task, what is at an edge, and on the page the parameters of every model."""
    blocks: list[Block] = []
    for task, protocols in _TASKS.items():
        choices = list(_find_choices(collection, data, protocols))
        free = [choice for choice in choices if choice.chosen]
        if free:
            caption = f"{task}: parameters chosen on {_describe_places(choices)}"
            rows = [[choice.model, _format_chosen(choice)] for choice in free]
            blocks += [
                Text(f"{caption}. {_describe_points(free)} {_describe_edges(free)}"),
                TableBlock(["model", "chosen"], rows, caption, (), _remarks(choices), True),
            ]
    return blocks


def _describe_points(choices: list[_Choice]) -> str:
    """Return how many points were tried, and for which models if they differ."""
    found: dict[str, list[str]] = {}
    for choice in choices:
        found.setdefault(_count_points(choice.selection), []).append(choice.model)
    usual, *others = sorted(found, key=lambda points: -len(found[points]))
    rest = "".join(f", {points} ({'; '.join(found[points])})" for points in others)
    return f"Points tried: {usual}{rest}."


def _describe_edges(choices: list[_Choice]) -> str:
    """Name the models with a value at an edge of what was tried, where a further one exists."""
    found = [(each.model, each.selection["results"]) for each in choices if each.selection]
    if not any("edges" in results for _, results in found):
        return "Edges are not recorded."
    marked = [
        f"{model} ({', '.join(results['edges'])})"
        for model, results in found
        if results.get("edges")
    ]
    text = f"At an edge of what was tried: {len(marked)} of {len(choices)} choices"
    return f"{text}: {'; '.join(marked)}." if marked else f"{text}."


def _find_choices(
    collection: Collection, data: str, protocols: tuple[str, ...]
) -> Iterator[_Choice]:
    known = set()
    for protocol in protocols:
        for model, run in collection.firsts(protocol, data).items():
            if model in known:
                continue
            known.add(model)
            for n_shot, key, chosen in choices_of(run):
                about = {None: "", 0: ", K = 0, as for zero-shot learning"}
                name = f"{model}{about.get(n_shot, f', K = {n_shot}')}"
                yield _Choice(name, chosen, collection.selection_of(key))


def _format_chosen(choice: _Choice) -> str:
    results = {} if choice.selection is None else choice.selection["results"]
    marks = dict.fromkeys(results.get("edges", ()), " (at edge)")
    marks |= dict.fromkeys(results.get("limits", ()), " (at limit)")
    tried = {name for point in results.get("points", ()) for name in point["parameters"]}
    return ", ".join(
        f"{name} {value}{marks.get(name, '')}"
        for name, value in sorted(choice.chosen.items())
        if value is not None or name in tried  # otherwise a default
    )


def _count_points(selection: Record | None) -> str:
    """Return the points of the start grid, and further ones that follow an edge."""
    if selection is None:
        return "not recorded"
    results = selection["results"]
    n_points = len(results["points"])
    if not n_points:
        return "by the model itself"
    n_start = results.get("n_start", n_points)
    text = f"{n_start} + {n_points - n_start}" if n_points > n_start else str(n_points)
    settings = selection["settings"]
    return f"{text} beside those of {settings['start_of']}" if "start_of" in settings else text


def _describe_places(choices: list[_Choice]) -> str:
    found = [choice.selection["settings"] for choice in choices if choice.selection is not None]
    return "; ".join(dict.fromkeys(map(_describe_place, found))) or "classes that are not recorded"


def _describe_place(settings: dict[str, Any]) -> str:
    if "n_folds" in settings:
        return f"{settings['n_folds']} class-wise folds of the training classes"
    if "n_trials" in settings:
        n_trials = settings["n_trials"]
        where = "all validation classes at once"
        return where if n_trials is None else f"{n_trials} trials of validation classes"
    return "validation classes" if settings.get("validation") else "held-out training classes"


def _remarks(choices: list[_Choice]) -> list[str]:
    free = [choice.model for choice in choices if not choice.chosen]
    remarks = [f"Nothing to choose: {', '.join(free)}."] if free else []
    known = [choice.selection["results"] for choice in choices if choice.selection is not None]
    is_marked = any(results.get("edges") or results.get("limits") for results in known)
    return [*remarks, *([_EDGE_NOTE] if is_marked else [])]
