"""Style of figures, distinguishable without color; the same figure gives the same file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    """Return color and hatch of a bar, another combination for each."""
    return {
        "color": COLORS[number % len(COLORS)],
        "hatch": HATCHES[(number + number // len(COLORS)) % len(HATCHES)],
        "edgecolor": "black",
        "linewidth": 0.6,
    }


def add_grid(axis: Axes, direction: str = "both") -> None:
    """Draw thin lines behind the data."""
    axis.grid(alpha=0.3, axis=direction)  # type: ignore[arg-type]
    axis.set_axisbelow(True)


def escape_dollars(text: str) -> str:
    """Return text in which a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def escape_controls(text: str) -> str:
    """Return text in which control characters and lone surrogates are escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def shorten_name(name: str, longest: int = 28) -> str:
    """Return the name of a class, escaped, and cut if it is longer than `longest` characters."""
    ending = "\N{HORIZONTAL ELLIPSIS}"
    return escape_controls(name if len(name) <= longest else f"{name[: longest - 1]}{ending}")


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
