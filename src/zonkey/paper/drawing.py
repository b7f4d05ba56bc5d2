"""Style of figures, distinguishable without color; the same figure gives the same file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: for color-blind readers. Lines, markers and hatches differ in gray, too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
_SALT = "zonkey"  # makes the identifiers in an SVG the same every time
_DPI = 150


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def line_style(number: int) -> dict[str, Any]:
    """Return color, line and marker of a curve."""
    return {
        "color": COLORS[number % (len(COLORS) - 1)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
    }


def bar_style(number: int) -> dict[str, Any]:
    """Return color and hatch of a bar."""
    return {
        "color": COLORS[number % len(COLORS)],
        "hatch": HATCHES[number % len(HATCHES)],
        "edgecolor": "black",
        "linewidth": 0.6,
    }


def add_grid(axis: Axes, direction: str = "both") -> None:
    """Draw thin lines behind the data."""
    axis.grid(alpha=0.3, axis=direction)  # type: ignore[arg-type]
    axis.set_axisbelow(True)


def plain(text: str) -> str:
    """Return text in which a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def file_bytes(figure: Figure, endings: Sequence[str] = ("png", "svg")) -> dict[str, bytes]:
    """Return the figure as PNG and as SVG, by ending."""
    import matplotlib

    files = {}
    with matplotlib.rc_context({"svg.hashsalt": _SALT}), warnings.catch_warnings():
        # Names of classes may hold characters that the font lacks: a box is drawn instead.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for ending in endings:
            buffer = io.BytesIO()
            metadata = {"Software": None} if ending == "png" else {"Date": None}
            figure.savefig(buffer, format=ending, dpi=_DPI, metadata=metadata)
            files[ending] = buffer.getvalue()
    return files


def draw_hits(
    curves: Mapping[str, tuple[Iterable[int], Mapping[str, ArrayLike], Mapping[str, ArrayLike]]],
    label: str,
) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots.

    `curves` are numbers of shots, shares by metric, and spreads by metric if known, by model.
    """
    figure = new_figure(9, 3.6)
    axes = figure.subplots(1, 2, sharex=True)
    for axis, metric in zip(axes, ("hit@1", "hit@5"), strict=True):
        for i, (model, (shots, shares, spreads)) in enumerate(curves.items()):
            heights = 100 * np.asarray(shares[metric])
            error = 100 * np.asarray(spreads[metric]) if metric in spreads else None
            axis.errorbar(
                list(shots), heights, yerr=error, label=plain(model), capsize=2, **line_style(i)
            )
        axis.set(xlabel=label, ylabel=f"{metric} (%)", ylim=(0, None))
        add_grid(axis)
    axes[0].set_xticks(sorted({n_shot for shots, *_ in curves.values() for n_shot in shots}))
    axes[1].legend(fontsize=8)
    return figure


def draw_trade_off(curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Draw accuracy on seen against unseen classes, for growing penalties on seen classes.

    `curves` are the two accuracies, unseen first, by legend text.
    """
    figure = new_figure(6.5, 4.6)
    axis = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        unseen, seen = (100 * np.asarray(values) for values in curve)
        style = {**line_style(i), "markevery": max(1, len(seen) // 8)}
        axis.plot(unseen, seen, label=plain(label), **style)
    axis.set(xlabel="accuracy on unseen classes (%)", ylabel="accuracy on seen classes (%)")
    axis.legend(fontsize=9)
    add_grid(axis)
    return figure
