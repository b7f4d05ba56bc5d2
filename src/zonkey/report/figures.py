"""Bars and curves: models against each other, against shots, steps and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .confidence import Comparison
from .diagnostics import sensitivity_profiles
from .drawing import add_grid, bar_style, line_style, new_figure, plain
from .measures import Measurement, accuracies_by_step, over_repetitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
_PAPERS_STEPS = 5


def draw_bars(values: Mapping[str, Mapping[str, Measurement | None]], label: str) -> Figure:
    """Draw a bar a model, by group (a metric, a number of shots), with spread where there is one.

    Parameters
    ----------
    values : dict of group to dict of model to Measurement
    label : str
        Of the vertical axis.
    """
    models = list(dict.fromkeys(model for group in values.values() for model in group))
    figure = new_figure(max(4.5, 1.1 * len(models) * len(values) ** 0.5 + 2), 3.6)
    axis = figure.subplots()
    width = 0.8 / len(models)
    for i, model in enumerate(models):
        places, heights, spreads = [], [], []
        for j, group in enumerate(values.values()):
            value = group.get(model)
            if value is not None:
                places.append(j + (i - (len(models) - 1) / 2) * width)
                heights.append(100 * value.mean)
                spreads.append(100 * (value.spread or 0.0))
        error = spreads if any(spreads) else None
        style = {"width": 0.92 * width, "label": plain(model), "capsize": 3}
        bars = axis.bar(places, heights, yerr=error, **style, **bar_style(i))
        axis.bar_label(bars, fmt=_number, fontsize=8, padding=2)
    axis.set_xticks(range(len(values)), [plain(group) for group in values])
    axis.set(ylabel=label, xlim=(-0.6, len(values) - 0.4))
    axis.margins(y=0.12)
    add_grid(axis, "y")
    figure.legend(loc="outside right upper", fontsize=9)
    return figure


def draw_ranking(values: Mapping[str, Measurement], label: str) -> Figure:
    """Draw a bar a model with its name beside it, for more models than a legend can tell apart."""
    figure, axis = _rows_of(list(values), label)
    spreads = [100 * (value.spread or 0.0) for value in values.values()]
    bars = axis.barh(
        range(len(values)),
        [100 * value.mean for value in values.values()],
        xerr=spreads if any(spreads) else None,
        capsize=3,
        **bar_style(0),
    )
    axis.bar_label(bars, fmt=_number, fontsize=8, padding=3)
    axis.margins(x=0.1)
    return figure


def draw_differences(differences: Mapping[str, Comparison], label: str) -> Figure:
    """Draw the difference of each model to another one with its interval, and a line at none."""
    figure, axis = _rows_of(list(differences), label)
    for row, found in enumerate(differences.values()):
        middle, low, high = (100 * end for end in (found.difference, found.low, found.high))
        axis.plot([low, high], [row, row], color="black", linewidth=1.2)
        axis.plot([middle], [row], **{**line_style(0), "linestyle": "none"})
    axis.axvline(0, color="0.4", linestyle=":", linewidth=1)
    axis.margins(x=0.1)
    return figure


def _rows_of(names: list[str], label: str) -> tuple[Figure, Axes]:
    """Return axes with a row a name, the first on top."""
    figure = new_figure(7.5, 1.0 + 0.32 * len(names))
    axis = figure.subplots()
    axis.set_yticks(range(len(names)), [plain(name) for name in names])
    axis.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
    add_grid(axis, "x")
    return figure, axis


def draw_shot_curves(runs: Mapping[str, Record], least: int = 1) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots, with the spread over repetitions."""
    figure = new_figure(9, 3.6)
    axes = figure.subplots(1, 2, sharex=True)
    numbers: set[int] = set()
    for axis, metric in zip(axes, ("hit@1", "hit@5"), strict=True):
        for i, (model, run) in enumerate(runs.items()):
            shots = [n_shot for n_shot in run["results"]["shots"] if n_shot >= least]
            found = [over_repetitions(run, metric, n_shot) for n_shot in shots]
            values = [value for value in found if value is not None]
            numbers.update(shots)
            axis.errorbar(
                shots,
                [100 * value.mean for value in values],
                yerr=[100 * (value.spread or 0.0) for value in values],
                label=plain(model),
                capsize=2,
                **line_style(i),
            )
        axis.set(xlabel="labeled samples a class (K)", ylabel=f"{metric} (%)", ylim=(0, None))
        add_grid(axis)
    axes[0].set_xticks(sorted(numbers))
    axes[1].legend(fontsize=8)
    return figure


def draw_runtimes(times: Mapping[str, Mapping[int, float]]) -> Figure:
    """Draw seconds of a fit against the number of shots."""
    figure = new_figure(5.5, 3.6)
    axis = figure.subplots()
    for i, (model, found) in enumerate(times.items()):
        axis.plot(list(found), list(found.values()), label=plain(model), **line_style(i))
    axis.set(xlabel="labeled samples a class (K)", ylabel="seconds a fit", ylim=(0, None))
    axis.set_xticks(sorted({n_shot for found in times.values() for n_shot in found}))
    axis.legend(fontsize=9)
    add_grid(axis)
    return figure


def draw_trade_off(curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Draw accuracy on seen against that on unseen classes, as the penalty on seen ones grows.

    `curves` are the two accuracies, unseen first, by the text that the legend has for them.
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


def draw_convergence(run: Record) -> Figure:
    """Draw objective, change of W and accuracy after each step; a line at the paper's five."""
    results, accuracies = run["results"], accuracies_by_step(run)
    percents = {step: 100 * accuracy for step, accuracy in accuracies.items()}
    series = (
        ("objective", dict(enumerate(results["objective"])), "linear"),
        ("relative change of W", dict(enumerate(results["change"], start=1)), "log"),
        ("accuracy on unseen classes (%)", percents, "linear"),
    )
    figure = new_figure(10, 3.3)
    for i, (axis, values) in enumerate(zip(figure.subplots(1, 3), series, strict=True)):
        label, heights, scale = values
        axis.plot(list(heights), list(heights.values()), **line_style(i))
        positive = min(heights.values(), default=0) > 0
        axis.set(xlabel="step t", ylabel=label, yscale=scale if positive else "linear")
        axis.axvline(_PAPERS_STEPS, color="0.4", linestyle=":", linewidth=1)
        axis.text(_PAPERS_STEPS, 0.98, " t = 5", transform=axis.get_xaxis_transform(), va="top")
        if axis.get_yscale() == "linear":
            axis.ticklabel_format(axis="y", useOffset=False)
        add_grid(axis)
    return figure


def draw_sensitivity(selection: Record) -> Figure:
    """Draw the score on held-out classes against each parameter, the others as chosen."""
    profiles = sensitivity_profiles(selection)
    figure = new_figure(max(4.0, 3.2 * len(profiles)), 3.3)
    axes = np.atleast_1d(np.asarray(figure.subplots(1, len(profiles), sharey=True)))
    for i, (axis, (name, profile)) in enumerate(zip(axes, profiles.items(), strict=True)):
        values = [float(value) for value in profile]
        heights = [100 * found.mean for found in profile.values()]
        spreads = [100 * (found.spread or 0.0) for found in profile.values()]
        axis.errorbar(values, heights, yerr=spreads, capsize=3, **line_style(i))
        chosen = float(selection["results"]["chosen"][name])
        axis.axvline(chosen, color="0.4", linestyle=":", linewidth=1)
        axis.set(xlabel=plain(f"{name} (chosen: {chosen:g})"))
        axis.margins(x=0.15)
        if values[0] > 0 and values[-1] / values[0] > 30:
            axis.set_xscale("log")
        add_grid(axis)
    axes[0].set(ylabel="score on held-out\ntraining classes (%)")
    return figure


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
