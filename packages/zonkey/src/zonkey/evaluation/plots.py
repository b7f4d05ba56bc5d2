"""Figures of an evaluation: trade-off curve, calibration, accuracy by class, confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.drawing import (
    COLORS,
    LINES,
    MARKERS,
    add_grid,
    escape_dollars,
    new_figure,
    shorten_name,
)
from ..metrics import RiskCoverageCurve, SeenUnseenCurve
from ..metrics.generalized import harmonic_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KIND_COLORS = {"unseen": COLORS[0], "seen": COLORS[1], "all": COLORS[2]}
_DIM = "0.45"
_MOST_BARS = 40  # classes that are all shown by name
_N_EXTREME = 12  # classes shown by name at each end if there are more
_SAME_HM = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def draw_curve(
    curves: Mapping[str, SeenUnseenCurve], points: Mapping[str, tuple[float, float]]
) -> Figure:
    """Draw accuracy on seen against unseen classes for all penalties.

    `points` are acc_u and acc_s of every model at its own penalty; models without a curve have only
    a point.
    """
    figure = new_figure(7, 5)
    axis = figure.subplots()
    tops = [curve.seen.max() for curve in curves.values()] + [s for _, s in points.values()]
    ends = [curve.unseen.max() for curve in curves.values()] + [u for u, _ in points.values()]
    top, end = (min(1.0, 1.08 * max([*values, 0.01])) for values in (tops, ends))
    _draw_same_hm(axis, end, top)
    for i, (name, (unseen, seen)) in enumerate(points.items()):
        color = COLORS[i % len(COLORS)]
        label = f"{name}: HM {_percent(harmonic_mean(seen, unseen))}"
        if name in curves:
            curve = curves[name]
            axis.plot(
                100 * curve.unseen,
                100 * curve.seen,
                color=color,
                linestyle=LINES[i % len(LINES)],
                linewidth=2 if i == 0 else 1.4,
                zorder=10 - i,
            )
            label += f", AUSUC {_percent(curve.area)}"
        axis.plot(
            100 * unseen,
            100 * seen,
            linestyle="",
            marker=MARKERS[i % len(MARKERS)],
            color=color,
            markeredgecolor="white",
            markersize=9,
            zorder=20 - i,
            clip_on=False,
            label=escape_dollars(label),
        )
    axis.set(
        xlabel="acc_u: accuracy on unseen classes (%)",
        ylabel="acc_s: accuracy on seen classes (%)",
        xlim=(0, 100 * end),
        ylim=(0, 100 * top),
    )
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    _strip_frame(axis)
    return figure


def _draw_same_hm(axis: Axes, end: float, top: float) -> None:
    """Draw thin lines of equal harmonic mean."""
    unseen = np.linspace(1e-3, end, 400)
    for level in _SAME_HM:
        with np.errstate(divide="ignore"):
            seen = level * unseen / (2 * unseen - level)
        inside = (2 * unseen > level) & (seen <= top)
        if not inside.any():
            continue
        axis.plot(100 * unseen[inside], 100 * seen[inside], color="0.87", linewidth=0.8, zorder=0)
        at = np.flatnonzero(inside)[-1]
        axis.annotate(
            f"HM {100 * level:.0f}",
            (100 * unseen[at], 100 * seen[at]),
            color="0.6",
            fontsize=7,
            ha="right",
            va="bottom",
        )


def draw_calibration(bins: Mapping[str, Mapping[str, Sequence[float | None]]]) -> Figure:
    """Draw the share of correct answers against stated probability, and how often each is stated.

    `bins` have `low`, `high`, `count`, `confidence` and `accuracy`, and `error`, by set of
    candidates.
    """
    figure = new_figure(max(4.4, 3.7 * len(bins)), 4.6)
    axes = figure.subplots(
        2, len(bins), sharex=True, squeeze=False, gridspec_kw={"height_ratios": [3, 1]}
    )
    for column, (name, found) in enumerate(bins.items()):
        upper, lower = axes[:, column]
        low, high = (100 * np.array(found[end], float) for end in ("low", "high"))
        counts = np.array(found["count"], float)
        filled = counts > 0
        accuracy, stated = (
            100 * np.array([0 if value is None else value for value in found[key]])
            for key in ("accuracy", "confidence")
        )
        color = KIND_COLORS[name]
        upper.plot([0, 100], [0, 100], color="0.6", linestyle="--", linewidth=1)
        # The fainter, the fewer samples.
        weights = np.sqrt(counts[filled] / counts.max())
        shades = [(color, 0.05 + 0.35 * weight) for weight in weights]
        upper.bar(low[filled], accuracy[filled], (high - low)[filled], align="edge", color=shades)
        dots = {"s": 8 + 72 * weights, "color": color, "zorder": 3, "clip_on": False}
        upper.scatter(stated[filled], accuracy[filled], **dots)
        error = _percent(float(np.asarray(found["error"])))
        upper.set_title(f"among {name}: ECE {error} %", fontsize=10)
        upper.set(xlim=(0, 100), ylim=(0, 100))
        lower.bar(
            low, 100 * counts / counts.sum(), high - low, align="edge", color=color, alpha=0.6
        )
        lower.set(xlabel="stated probability (%)")
        _strip_frame(upper)
        _strip_frame(lower)
    axes[0, 0].set_ylabel("correct answers (%)")
    axes[1, 0].set_ylabel("samples (%)")
    return figure


def draw_risk(curves: Mapping[str, RiskCoverageCurve]) -> Figure:
    """Draw the share of wrong answers against the share of samples that are answered."""
    figure = new_figure(7, 4.2)
    axis = figure.subplots()
    for i, (name, curve) in enumerate(curves.items()):
        # The area is that of steps which end at the points.
        axis.step(
            100 * np.concatenate([[0.0], curve.coverage]),
            100 * np.concatenate([curve.risk[:1], curve.risk]),
            where="pre",
            color=COLORS[i % len(COLORS)],
            linestyle=LINES[i % len(LINES)],
            linewidth=2 if i == 0 else 1.4,
            zorder=10 - i,
            label=escape_dollars(f"{name}: AURC {_percent(curve.area)}"),
        )
    axis.set(xlabel="answered samples (%)", ylabel="wrong answers (%)", xlim=(0, 100))
    axis.set_ylim(bottom=0)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    _strip_frame(axis)
    return figure


def draw_classes(rows: Sequence[Mapping[str, Any]], column: str, label: str) -> Figure:
    """Draw the accuracy of each class, best first.

    Many classes are drawn as a curve per kind, and only the best and the worst have names.
    """
    # Ties: classes with more samples first, as their accuracy is more certain.
    rows = sorted(rows, key=lambda row: (-row[column], -row["n"], row["name"]))
    if len(rows) <= _MOST_BARS:
        figure = new_figure(7, 1.2 + 0.24 * len(rows))
        axis = figure.subplots()
        _draw_bars(axis, rows, column)
        axis.set(xlabel=f"{label} (%)")
        _kind_legend(figure, rows)
        return figure
    worst = sorted(rows, key=lambda row: (row[column], -row["n"], row["name"]))
    figure = new_figure(9.5, 7)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.25, 1])
    curve = figure.add_subplot(grid[:, 0])
    for kind in ("unseen", "seen"):
        values = [100 * row[column] for row in rows if row["kind"] == kind]
        if values:
            share = 100 * (np.arange(len(values)) + 0.5) / len(values)
            mean = float(np.mean(values))
            curve.fill_between(share, values, step="mid", color=KIND_COLORS[kind], alpha=0.15)
            curve.step(share, values, where="mid", color=KIND_COLORS[kind], linewidth=1.8)
            curve.axhline(mean, color=KIND_COLORS[kind], linestyle=":", linewidth=1.2)
            curve.plot(
                [],
                [],
                color=KIND_COLORS[kind],
                label=f"{len(values)} {kind} classes, mean {mean:.1f} %",
            )
    curve.set(xlabel="classes, best first (%)", ylabel=f"{label} (%)", xlim=(0, 100), ylim=(0, 100))
    curve.legend(fontsize=9)
    _strip_frame(curve)
    for place, (title, some) in enumerate(
        (("best classes", rows[:_N_EXTREME]), ("worst classes", worst[:_N_EXTREME]))
    ):
        axis = figure.add_subplot(grid[place, 1])
        _draw_bars(axis, some, column)
        axis.set_title(title, fontsize=10)
    return figure


def _draw_bars(axis: Axes, rows: Sequence[Mapping[str, Any]], column: str) -> None:
    """Draw a bar with name and number of samples per class, first on top."""
    values = [100 * row[column] for row in rows]
    texts = [f"{v:.0f}  (n = {row['n']})" for v, row in zip(values, rows, strict=True)]
    names = [shorten_name(row["name"]) for row in rows]
    _draw_shares(axis, values, names, texts, [KIND_COLORS[row["kind"]] for row in rows])


def _draw_shares(
    axis: Axes, values: Sequence[float], names: Sequence[str], texts: Sequence[str], colors: Any
) -> None:
    """Draw a bar in percent with a name and a text each, first on top."""
    places = list(range(len(values)))
    axis.barh(places, values, color=colors, alpha=0.75, height=0.7)
    for place, value, text in zip(places, values, texts, strict=True):
        axis.text(value + 1, place, text, va="center", fontsize=7, color=_DIM)
    axis.set_yticks(places, [escape_dollars(name) for name in names], fontsize=8)
    axis.set(xlim=(0, 118), ylim=(len(values) - 0.4, -0.6))
    axis.set_xticks([0, 25, 50, 75, 100])
    _strip_frame(axis, "x")
    axis.tick_params(axis="y", length=0)


def _kind_legend(figure: Figure, rows: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib.patches import Patch

    kinds = [kind for kind in ("unseen", "seen") if any(row["kind"] == kind for row in rows)]
    if len(kinds) > 1:
        patches = [Patch(color=KIND_COLORS[kind], alpha=0.75, label=kind) for kind in kinds]
        figure.legend(
            handles=patches, fontsize=8, loc="outside lower center", ncols=2, frameon=False
        )


def draw_confusions(pairs: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the most frequent pairs of true and predicted class as bars of their share."""
    figure = new_figure(8, 1.3 + 0.27 * max(1, len(pairs)))
    axis, arrow = figure.subplots(), "\N{RIGHTWARDS ARROW}"
    names = [
        " ".join([shorten_name(p["true"]), arrow, shorten_name(p["predicted"])]) for p in pairs
    ]
    texts = [f"{pair['count']} of {pair['n']}" for pair in pairs]
    _draw_shares(axis, [100 * pair["share"] for pair in pairs], names, texts, COLORS[1])
    axis.set(xlabel="share of the samples of the true class (%)")
    return figure


def draw_matrix(shares: np.ndarray, names: Sequence[str]) -> Figure:
    """Draw the confusion matrix of a few classes: the share of answers, one true class per row."""
    size = 2.6 + 0.36 * len(names)
    figure = new_figure(size + 0.8, size)
    axis = figure.subplots()
    image = axis.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
    for i, j in zip(*np.nonzero(shares >= 0.005), strict=True):
        color = "white" if shares[i, j] > 0.6 else "0.2"
        text = f"{100 * shares[i, j]:.0f}"
        axis.text(j, i, text, ha="center", va="center", fontsize=7, color=color)
    labels = [escape_dollars(shorten_name(name)) for name in names]
    places = np.arange(len(names))
    axis.set_xticks(places, labels, rotation=60, ha="right", fontsize=8, rotation_mode="anchor")
    axis.set_yticks(places, labels, fontsize=8)
    axis.set(xlabel="predicted", ylabel="true")
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    bar = figure.colorbar(image, ax=axis, shrink=0.7, label="% of the true class")
    bar.outline.set_visible(False)  # type: ignore[operator]
    return figure


def _strip_frame(axis: Axes, direction: str = "both") -> None:
    """Draw a grid; remove the frame above and to the right."""
    add_grid(axis, direction)
    axis.spines[["top", "right"]].set_visible(False)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
