"""How figures look, and how they become files: told apart without color, alike on every run."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: told apart by color-blind readers; lines, markers and hatches do it in gray.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
_SALT = "zonkey"  # for the identifiers in an SVG, which would else be random
_DPI = 150


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def line_style(number: int) -> dict[str, Any]:
    """Return color, line and marker of a curve."""
    return {
        "color": COLOURS[number % (len(COLOURS) - 1)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
    }


def bar_style(number: int) -> dict[str, Any]:
    """Return color and hatch of a bar."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "hatch": HATCHES[number % len(HATCHES)],
        "edgecolor": "black",
        "linewidth": 0.6,
    }


def add_grid(axis: Axes, direction: str = "both") -> None:
    """Draw thin lines behind the data."""
    axis.grid(alpha=0.3, axis=direction)  # type: ignore[arg-type]
    axis.set_axisbelow(True)


def plain(text: str) -> str:
    """Return text in which a dollar sign is one, and not the start of a formula."""
    return text.replace("$", r"\$")


def file_bytes(figure: Figure) -> dict[str, bytes]:
    """Return the figure as PNG and as SVG, by ending; the same figure gives the same bytes."""
    import matplotlib

    files = {}
    with matplotlib.rc_context({"svg.hashsalt": _SALT}), warnings.catch_warnings():
        # Names of classes may hold signs that the font has not: a box stands for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=_DPI, metadata=metadata)
            files[ending] = buffer.getvalue()
    return files
