"""The figure of every experiment: bars, curves, maps and confusion matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zonkey.display.charts import draw_hits, draw_trade_off
from zonkey.display.drawing import (
    COLORS,
    MARKERS,
    add_grid,
    bar_style,
    escape_dollars,
    line_style,
    new_figure,
    shorten_name,
)

from ..records import Record
from .blocks import Drawing
from .collection import Study
from .comparisons import Comparison, on_top_comparisons
from .measures import Measurement, accuracies_by_step, average_repetitions
from .tables import (
    LABELS,
    accuracy_column,
    column_groups,
    pair_figures,
    seconds_by_shots,
    sensitivity_profiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Runs = TypeVar("_Runs")
_PAPERS_STEPS = 5
_MOST_IN_A_ROW = 3
_FEW_CLASSES, _MOST_NAMED = 20, 60  # of a map: with large marks; with names
_MOST_BARS, _MOST_CURVES = 8, 8  # that hatch or line can distinguish
_MAIN = (
    "BPL (SFSP1)", "BPL (SFSP1), unscaled", "BPL (SFSP2)", "BPL (novel)", "NN", "LSL", "PPA",
    "recommended",
)  # fmt: skip


def experiment_drawing(study: Study) -> Drawing | None:
    """Return the figure of an experiment on a data set; None if there is nothing to draw."""
    found = _caption_and_figure(study)
    if found is None:
        return None
    caption, draw = found
    name, title = study.experiment.name, study.experiment.title
    return Drawing(f"{name}-{study.data}", f"{title}, {study.data}: {caption}", draw)


def _caption_and_figure(study: Study) -> tuple[str, Callable[[], Figure]] | None:
    runs = study.firsts
    draws = "mean and standard deviation over draws of shots."
    match study.experiment.name, study.experiment.protocol:
        case "generalized-zsl", _:
            curves = _trade_offs(runs)
            caption = "a penalty on seen classes trades accuracy on them for that on unseen ones."
            if len(curves) < sum("curve" in run["results"] for run in runs.values()):
                caption += f" BPL, and the {len(curves) - 1} other models of largest area."
            return (caption, lambda: draw_trade_off(curves)) if curves else None
        case "runtime", _:
            shown = _main_curves(runs)
            rest = _tell_left_out(shown, runs)
            return f"time from base samples to a fitted model.{rest}", lambda: draw_runtimes(shown)
        case "beyond", _:
            values = accuracy_column(study, "zsl").values
            found = {model: value for model, value in values.items() if value is not None}
            return "accuracy, spread as in the table.", lambda: draw_ranking(found, "accuracy (%)")
        case "on-top", _:
            differences = on_top_comparisons(study)
            caption = f"what each adds to {study.experiment.subject}, with its 95 % interval."
            label = "difference of accuracy (points)"
            return (caption, lambda: draw_differences(differences, label)) if differences else None
        case "unlabeled" | "transductive-fsl", _:
            values = pair_figures(study)
            return "transductive; spread as in the table.", lambda: draw_bars(values, "percent")
        case "any-shot", _:
            caption = f"K = 0 is zero-shot learning; {draws}"
            return caption, lambda: draw_shot_curves(study.runs, least=0)
        case _, "all-classes":
            every = _main_curves(study.runs)
            return f"{draws}{_tell_left_out(every, runs)}", lambda: draw_shot_curves(every)
        case _, "trials" if len(runs) > _MOST_BARS:
            return "spread as in the table.", lambda: _rankings(study)
        case _, "zero-shot" if len(runs) > _MOST_BARS:
            metric = "hit@5" if study.data == "imnet" else "zsl"
            values = accuracy_column(study, metric).values
            found = {model: value for model, value in values.items() if value is not None}
            label = f"{LABELS.get(metric, metric)} (%)"
            return "spread as in the table.", lambda: draw_ranking(found, label)
        case _, "zero-shot" | "trials":
            return "spread as in the table.", lambda: _bars(study)
        case _, "map":
            return _map_caption(study.run), lambda: draw_maps(runs)
        case _, "convergence":
            return "the paper stops at t = 5.", lambda: draw_convergence(runs)
        case "sensitivity", _ if sensitivity_profiles(study.run):
            caption = "mean and standard deviation over folds, the other parameters as chosen."
            return caption, lambda: draw_sensitivity(study.run)
    return None


def _trade_offs(runs: Mapping[str, Record]) -> dict[str, tuple[list[float], list[float]]]:
    """Return seen-unseen curves by model and area: of BPL, and of the largest area if many."""
    found = {model: run["results"] for model, run in runs.items() if "curve" in run["results"]}
    ranked = sorted(found, key=lambda model: (model != "BPL", -found[model]["ausuc"]))
    return {
        f"{model} (area {results['ausuc']:.3f})": (
            results["curve"]["unseen"],
            results["curve"]["seen"],
        )
        for model, results in found.items()
        if model in ranked[:_MOST_CURVES]
    }


def _main_curves(runs: Mapping[str, _Runs]) -> Mapping[str, _Runs]:
    """Return the runs to draw if there are many: those of the paper's tables, then the others."""
    ranked = sorted(runs, key=lambda model: model not in _MAIN)
    return {model: run for model, run in runs.items() if model in ranked[:_MOST_CURVES]}


def _tell_left_out(shown: Mapping[str, Any], runs: Mapping[str, Any]) -> str:
    return " The table lists the other models." if len(shown) < len(runs) else ""


def _map_caption(run: Record) -> str:
    shown, n_unseen = len(run["results"]["classes"]), run["data"]["n_unseen"]
    which = f"all {shown}" if shown == n_unseen else f"{shown} of {n_unseen}"
    caption = (
        f"t-SNE of test samples of {which} unseen classes, marked by the class predicted, and of "
        "projected prototypes (crosses). FPL predicts in the semantic space: its prototypes need "
        "not lie near samples."
    )
    return caption if shown <= _MOST_NAMED else f"{caption} Marks repeat after 96 classes."


def _bars(study: Study) -> Figure:
    (columns,) = column_groups(study).values()
    if len(columns) == 1:
        return draw_bars({study.data: columns[0].values}, f"{columns[0].label} (%)")
    return draw_bars({column.label: column.values for column in columns}, "percent")


def draw_bars(values: Mapping[str, Mapping[str, Measurement | None]], label: str) -> Figure:
    """Draw one bar per model in every group (a metric, a number of shots), with its spread."""
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
        style = {"width": 0.92 * width, "label": escape_dollars(model), "capsize": 3}
        bars = axis.bar(places, heights, yerr=error, **style, **bar_style(i))
        axis.bar_label(bars, fmt=_number, fontsize=8, padding=2)
    axis.set_xticks(range(len(values)), [escape_dollars(group) for group in values])
    axis.set(ylabel=label, xlim=(-0.6, len(values) - 0.4))
    axis.margins(y=0.12)
    add_grid(axis, "y")
    figure.legend(loc="outside right upper", fontsize=9)
    return figure


def _rankings(study: Study) -> Figure:
    """Draw one panel per column, models in the same rows."""
    (columns,) = column_groups(study).values()
    models = list(study.runs)
    figure = new_figure(3.4 * len(columns) + 2.2, 1.0 + 0.32 * len(models))
    for axis, column in zip(
        figure.subplots(1, len(columns), sharey=True, squeeze=False)[0], columns, strict=True
    ):
        _as_rows(axis, models, f"{column.label} (%)")
        found = [(row, column.values.get(model)) for row, model in enumerate(models)]
        _bars_of({row: value for row, value in found if value is not None}, axis)
    return figure


def draw_ranking(values: Mapping[str, Measurement], label: str) -> Figure:
    """Draw one bar per model with its name next to it, for many models."""
    figure, axis = _rows_of(list(values), label)
    _bars_of(dict(enumerate(values.values())), axis)
    return figure


def _bars_of(values: Mapping[int, Measurement], axis: Axes) -> None:
    """Draw one bar in each of these rows."""
    spreads = [100 * (value.spread or 0.0) for value in values.values()]
    bars = axis.barh(
        list(values),
        [100 * value.mean for value in values.values()],
        xerr=spreads if any(spreads) else None,
        capsize=3,
        **bar_style(0),
    )
    axis.bar_label(bars, fmt=_number, fontsize=8, padding=3)
    axis.margins(x=0.2)  # room for the labels


def draw_differences(differences: Mapping[str, Comparison], label: str) -> Figure:
    """Draw the difference of every model to another one with its interval, and a line at 0."""
    figure, axis = _rows_of(list(differences), label)
    for row, found in enumerate(differences.values()):
        middle, low, high = (100 * end for end in (found.difference, found.low, found.high))
        axis.plot([low, high], [row, row], color="black", linewidth=1.2)
        axis.plot([middle], [row], **{**line_style(0), "linestyle": "none"})
    axis.axvline(0, color="0.4", linestyle=":", linewidth=1)
    axis.margins(x=0.1)
    return figure


def _rows_of(names: list[str], label: str) -> tuple[Figure, Axes]:
    """Return axes with one row per name, the first on top."""
    figure = new_figure(7.5, 1.0 + 0.32 * len(names))
    axis = figure.subplots()
    _as_rows(axis, names, label)
    return figure, axis


def _as_rows(axis: Axes, names: list[str], label: str) -> None:
    axis.set_yticks(range(len(names)), [escape_dollars(name) for name in names])
    axis.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
    add_grid(axis, "x")


def draw_shot_curves(runs: Mapping[str, Sequence[Record]], least: int = 1) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots, with the spread over repetitions."""
    curves = {}
    for model, seeds in runs.items():
        shots = [n_shot for n_shot in seeds[0]["results"]["shots"] if n_shot >= least]
        means, spreads = {}, {}
        for metric in ("hit@1", "hit@5"):
            found = [average_repetitions(seeds, metric, n_shot) for n_shot in shots]
            means[metric] = [value.mean for value in found if value]
            spreads[metric] = [value.spread or 0.0 for value in found if value]
        curves[model] = (shots, means, spreads)
    return draw_hits(curves, "labeled samples per class (K)")


def draw_runtimes(runs: Mapping[str, Record]) -> Figure:
    """Draw seconds of a fit against the number of shots."""
    figure = new_figure(7.5, 3.6)
    axis = figure.subplots()
    times = {model: seconds_by_shots(run) for model, run in runs.items()}
    for i, (model, found) in enumerate(times.items()):
        axis.plot(list(found), list(found.values()), label=escape_dollars(model), **line_style(i))
    axis.set(xlabel="labeled samples per class (K)", ylabel="seconds per fit", ylim=(0, None))
    axis.set_xticks(sorted({n_shot for found in times.values() for n_shot in found}))
    figure.legend(loc="outside right upper", fontsize=9)
    add_grid(axis)
    return figure


def draw_convergence(runs: Mapping[str, Record]) -> Figure:
    """Draw objective, change of W and accuracy after each step; a line at the paper's step 5."""
    figure = new_figure(10, 3.3)
    axes = figure.subplots(1, 3)
    for i, (model, run) in enumerate(runs.items()):
        results, accuracies = run["results"], accuracies_by_step(run)
        series = (
            dict(enumerate(results["objective"])),
            dict(enumerate(results["change"], start=1)),
            {step: 100 * accuracy for step, accuracy in accuracies.items()},
        )
        for axis, heights in zip(axes, series, strict=True):
            axis.plot(
                list(heights), list(heights.values()), label=escape_dollars(model), **line_style(i)
            )
    labels = ("objective", "relative change of W", "accuracy on unseen classes (%)")
    changes = [change for run in runs.values() for change in run["results"]["change"]]
    if min(changes, default=0) > 0:
        axes[1].set_yscale("log")
    for axis, label in zip(axes, labels, strict=True):
        axis.set(xlabel="step t", ylabel=label)
        axis.axvline(_PAPERS_STEPS, color="0.4", linestyle=":", linewidth=1)
        axis.text(_PAPERS_STEPS, 0.98, " t = 5", transform=axis.get_xaxis_transform(), va="top")
        if axis.get_yscale() == "linear":
            axis.ticklabel_format(axis="y", useOffset=False)
        add_grid(axis)
    if len(runs) > 1:
        axes[0].legend(fontsize=9)
    return figure


def draw_sensitivity(selection: Record) -> Figure:
    """Draw the score on held-out classes against every parameter, the others as chosen."""
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
        axis.set(xlabel=escape_dollars(f"{name} (chosen: {chosen:g})"))
        axis.margins(x=0.15)
        if values[0] > 0 and values[-1] / values[0] > 30:
            axis.set_xscale("log")
        add_grid(axis)
    axes[0].set(ylabel="score on held-out\ntraining classes (%)")
    return figure


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def draw_maps(runs: Mapping[str, Record]) -> Figure:
    """Draw one panel per model: samples by predicted class, projected prototypes as crosses."""
    from matplotlib.lines import Line2D

    classes = [str(name) for name in next(iter(runs.values()))["results"]["classes"]]
    is_crowded = len(classes) > _FEW_CLASSES
    n_columns = min(_MOST_IN_A_ROW, len(runs))
    n_rows = -(-len(runs) // n_columns)
    side = 5.2 if is_crowded else 3.6
    names = classes if len(classes) <= _MOST_NAMED else []
    n_names = 6 if is_crowded else 4  # in a row of the legend
    height = side * n_rows + 0.4 + 0.15 * (len(names) // n_names)
    figure = new_figure(side * n_columns, height)
    panels = np.atleast_1d(np.asarray(figure.subplots(n_rows, n_columns))).ravel()
    for axis, (model, run) in zip(panels, runs.items(), strict=False):
        _draw_map(axis, run["results"])
        right = np.mean(np.equal(run["results"]["truth"], run["results"]["predicted"]))
        axis.set_title(escape_dollars(f"{model} ({100 * right:.0f} % correct)"), fontsize=10)
    for axis in panels[len(runs) :]:
        axis.set_axis_off()
    handles = [
        Line2D(
            [], [], linestyle="", label=escape_dollars(f"{j + 1} {shorten_name(name)}"), **_mark(j)
        )
        for j, name in enumerate(names)
    ]
    cross = {"marker": "x", "color": "black", "markersize": 7, "markeredgewidth": 1.5}
    handles.append(Line2D([], [], linestyle="", label="projected prototype", **cross))
    size = 7 if is_crowded else 8
    figure.legend(handles=handles, loc="outside lower center", ncols=n_names, fontsize=size)
    return figure


def _draw_map(axis: Axes, results: dict[str, Any]) -> None:
    samples, predicted = np.asarray(results["samples"]), np.asarray(results["predicted"])
    n_classes = len(results["classes"])
    is_crowded = n_classes > _FEW_CLASSES
    for j in range(n_classes):
        chosen = samples[predicted == j]
        style = {**_mark(j), "markersize": 2.5 if is_crowded else 3.5, "alpha": 0.7}
        # As a bitmap, thousands of samples do not swell the SVG file.
        axis.plot(chosen[:, 0], chosen[:, 1], linestyle="", rasterized=is_crowded, **style)
    scale = 1.0 if not is_crowded else 0.55 if n_classes <= _MOST_NAMED else 0.35
    for j, (left, bottom) in enumerate(results["prototypes"]):
        # White below black, the color of the class inside: visible on any background.
        for color, length, width in (("white", 11, 5), ("black", 10, 3.2), (_color(j), 8, 1.2)):
            mark: dict[str, Any] = {"marker": "x", "color": color, "markersize": scale * length}
            axis.plot(left, bottom, **mark, markeredgewidth=scale * width)
        if n_classes <= _MOST_NAMED:
            place = {"xytext": (6 * scale, 3 * scale), "textcoords": "offset points", "zorder": 5}
            size = 6 if is_crowded else 8
            axis.annotate(str(j + 1), (left, bottom), **place, fontsize=size, fontweight="bold")
    axis.set(xticks=[], yticks=[])


def _mark(number: int) -> dict[str, Any]:
    """Return color and marker of a class; unique for the first dozens of classes."""
    marker = MARKERS[number % len(MARKERS)]
    edge = {"markeredgecolor": "black", "markeredgewidth": 0.3}
    return {"marker": marker, "color": _color(number), "markersize": 6, **edge}


def _color(number: int) -> str:
    return COLORS[(number + number // len(MARKERS)) % len(COLORS)]


def draw_confusions(names: list[str], matrix: np.ndarray, shown: np.ndarray) -> Figure:
    """Draw some classes of a confusion matrix, each row as shares of the whole class."""
    sizes = np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    shares = (100 * matrix / sizes)[np.ix_(shown, shown)]
    names = [names[j] for j in shown]
    side = max(4.0, 0.17 * len(names) + 2.2)
    figure = new_figure(side + 0.6, side)
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Grays", vmin=0, vmax=100)
    size = 9 if len(names) <= 15 else 6
    labels = [escape_dollars(shorten_name(name)) for name in names]
    axis.set_xticks(range(len(names)), labels, rotation=90, fontsize=size)
    axis.set_yticks(range(len(names)), labels, fontsize=size)
    axis.set(xlabel="predicted class", ylabel="true class")
    if len(names) <= 15:
        for i, j in np.argwhere(np.round(shares) > 0):
            ink = "white" if shares[i, j] > 55 else "black"
            axis.text(j, i, f"{shares[i, j]:.0f}", ha="center", va="center", color=ink, fontsize=7)
    figure.colorbar(image, ax=axis, label="share of the class (%)", shrink=0.6)
    return figure
