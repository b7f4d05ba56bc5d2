"""Figures of single classes: maps of samples and prototypes, and confusion matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .drawing import COLOURS, MARKERS, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
_MOST_IN_A_ROW = 3
_LONGEST_NAME = 28


def draw_maps(runs: Mapping[str, Record]) -> Figure:
    """Draw a panel a model: samples by predicted class, projected prototypes as crosses."""
    from matplotlib.lines import Line2D

    n_columns = min(_MOST_IN_A_ROW, len(runs))
    n_rows = -(-len(runs) // n_columns)
    figure = new_figure(3.6 * n_columns, 3.5 * n_rows + 0.9)
    panels = np.atleast_1d(np.asarray(figure.subplots(n_rows, n_columns))).ravel()
    classes: list[str] = []
    for axis, (model, run) in zip(panels, runs.items(), strict=False):
        _draw_map(axis, run["results"])
        right = np.mean(np.equal(run["results"]["truth"], run["results"]["predicted"]))
        axis.set_title(plain(f"{model} ({100 * right:.0f} % right)"), fontsize=10)
        classes = classes or [str(name) for name in run["results"]["classes"]]
    for axis in panels[len(runs) :]:
        axis.set_axis_off()
    handles = [
        Line2D([], [], linestyle="", label=plain(f"{j + 1} {_short(name)}"), **_mark(j))
        for j, name in enumerate(classes)
    ]
    cross = {"marker": "x", "color": "black", "markersize": 7, "markeredgewidth": 1.5}
    handles.append(Line2D([], [], linestyle="", label="projected prototype", **cross))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _draw_map(axis: Axes, results: dict[str, Any]) -> None:
    samples, predicted = np.asarray(results["samples"]), np.asarray(results["predicted"])
    for j in range(len(results["classes"])):
        chosen = samples[predicted == j]
        style = {**_mark(j), "markersize": 3.5, "alpha": 0.7}
        axis.plot(chosen[:, 0], chosen[:, 1], linestyle="", **style)
    for j, (left, bottom) in enumerate(results["prototypes"]):
        # White below black and the class's color within: seen on any ground.
        axis.plot(left, bottom, "x", color="white", markersize=11, markeredgewidth=5)
        axis.plot(left, bottom, "x", color="black", markersize=10, markeredgewidth=3.2)
        axis.plot(left, bottom, "x", color=_color(j), markersize=8, markeredgewidth=1.2)
        place = {"xytext": (6, 3), "textcoords": "offset points", "zorder": 5}
        axis.annotate(str(j + 1), (left, bottom), **place, fontsize=8, fontweight="bold")
    axis.set(xticks=[], yticks=[])


def _mark(number: int) -> dict[str, Any]:
    """Return color and marker of a class: no two of the first dozens share both."""
    marker = MARKERS[number % len(MARKERS)]
    edge = {"markeredgecolor": "black", "markeredgewidth": 0.3}
    return {"marker": marker, "color": _color(number), "markersize": 6, **edge}


def _color(number: int) -> str:
    return COLOURS[(number + number // len(MARKERS)) % len(COLOURS)]


def draw_confusions(names: list[str], matrix: np.ndarray, shown: np.ndarray) -> Figure:
    """Draw a confusion matrix, or some classes of it, each row as shares of its whole class."""
    sizes = np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    shares = (100 * matrix / sizes)[np.ix_(shown, shown)]
    names = [names[j] for j in shown]
    side = max(4.0, 0.17 * len(names) + 2.2)
    figure = new_figure(side + 0.6, side)
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Grays", vmin=0, vmax=100)
    size = 9 if len(names) <= 15 else 6
    labels = [plain(_short(name)) for name in names]
    axis.set_xticks(range(len(names)), labels, rotation=90, fontsize=size)
    axis.set_yticks(range(len(names)), labels, fontsize=size)
    axis.set(xlabel="predicted class", ylabel="true class")
    if len(names) <= 15:
        for i, j in np.argwhere(np.round(shares) > 0):
            ink = "white" if shares[i, j] > 55 else "black"
            axis.text(j, i, f"{shares[i, j]:.0f}", ha="center", va="center", color=ink, fontsize=7)
    figure.colorbar(image, ax=axis, label="share of the class (%)", shrink=0.6)
    return figure


def _short(name: str) -> str:
    return (
        name
        if len(name) <= _LONGEST_NAME
        else f"{name[: _LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    )
