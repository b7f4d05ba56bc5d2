"""Figures of several models as text and tables, shared by evaluations of classes and of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..optional import require_package
from .measures import Measured
from .tree_figures import EDGES


def make_frame(rows: Sequence[Any], columns: list[str]) -> Any:
    """Return a DataFrame."""
    pandas = require_package("pandas", "A table of an evaluation")
    return pandas.DataFrame(rows, columns=columns)


def list_figures(models: Sequence[Measured]) -> Any:
    """Return a DataFrame of all figures of all models, one per row."""
    rows = [
        [model.name, name, value, *model.intervals[name], model.sizes[name]]
        for model in models
        for name, value in model.scores.items()
    ]
    return make_frame(rows, ["model", "measure", "value", "low", "high", "n"])


def describe_model(model: Measured) -> dict[str, Any]:
    """Return the figures of a model, ready for JSON."""
    return {
        "model": model.name,
        "scores": dict(model.scores),
        "intervals": {name: list(ends) for name, ends in model.intervals.items()},
        "n": dict(model.sizes),
        "notes": list(model.notes),
    }


def format_figure(model: Measured, name: str) -> tuple[str, str]:
    """Return a figure and its interval, in percent; a dash if the model has none."""
    if name not in model.scores:
        return "-", ""
    low, high = model.intervals[name]
    if name.startswith(EDGES):
        return f"{model.scores[name]:.2f}", f"[{low:.2f}, {high:.2f}]"
    return f"{100 * model.scores[name]:.1f}", f"[{100 * low:.1f}, {100 * high:.1f}]"


def lay_out(
    title: str, models: Sequence[Measured], titles: Mapping[str, str], confidence: float
) -> str:
    """Return figures as a plain-text table with a title, then notes; `titles` are by measure."""
    header = [f"percent, {100 * confidence:g} % interval", *(model.name for model in models)]
    rows = [
        [text, *(" ".join(format_figure(model, name)).strip() for model in models)]
        for name, text in titles.items()
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
    notes = [f"{model.name}: {note}" for model in models for note in model.notes]
    return "\n".join([title, "", *lines, *([""] if notes else []), *notes])
