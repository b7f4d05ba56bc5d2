"""Which figure shows an experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..bench import Experiment
from .blocks import Drawing
from .collection import Collection
from .diagnostics import sensitivity_profiles
from .figures import (
    draw_bars,
    draw_convergence,
    draw_differences,
    draw_ranking,
    draw_runtimes,
    draw_sensitivity,
    draw_shot_curves,
    draw_trade_off,
)
from .figures_classes import draw_maps
from .measures import Measurement, over_seeds
from .on_top import on_top_comparisons
from .runtimes import seconds_by_shots
from .tables import column_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def experiment_drawing(experiment: Experiment, data: str, collection: Collection) -> Drawing | None:
    """Return the figure of an experiment on a data set, where there is something to draw."""
    found = _caption_and_figure(experiment, data, collection)
    if found is None:
        return None
    caption, draw = found
    title = f"{experiment.title}, {data}: {caption}"
    return Drawing(f"{experiment.name}-{data}", title, draw)


def _caption_and_figure(
    experiment: Experiment, data: str, collection: Collection
) -> tuple[str, Callable[[], Figure]] | None:
    runs = {model: found[0] for model, found in collection.of(experiment, data).items()}
    first = next(iter(runs.values()))
    draws = "mean and standard deviation over draws of shots."
    match experiment.name, experiment.protocol:
        case "generalized-zsl", _:
            curves = _trade_offs(runs)
            caption = "a penalty on seen classes trades accuracy on them for that on unseen ones."
            return (caption, lambda: draw_trade_off(curves)) if curves else None
        case "runtime", _:
            found = collection.of(experiment, data)
            times = {model: seconds_by_shots(of_model) for model, of_model in found.items()}
            return "time of a fit alone.", lambda: draw_runtimes(times)
        case "beyond", _:
            found = _accuracies(experiment, data, collection)
            return "accuracy, spread as in the table.", lambda: draw_ranking(found, "accuracy (%)")
        case "on-top", _:
            differences = on_top_comparisons(data, collection)
            caption = f"what each adds to {experiment.subject}, with its 95 % interval."
            label = "difference of accuracy (points)"
            return (caption, lambda: draw_differences(differences, label)) if differences else None
        case "any-shot", _:
            caption = f"K = 0 is zero-shot learning; {draws}"
            return caption, lambda: draw_shot_curves(runs, least=0)
        case _, "all-classes":
            return draws, lambda: draw_shot_curves(runs)
        case _, "zero-shot" | "trials":
            return "spread as in the table.", lambda: _bars(experiment, data, collection)
        case _, "map":
            caption = (
                "t-SNE of test samples of some unseen classes, marked by the class predicted, and "
                "of projected prototypes (crosses)."
            )
            return caption, lambda: draw_maps(runs)
        case _, "convergence":
            return "the paper stops at t = 5.", lambda: draw_convergence(first)
        case _, "selection" if sensitivity_profiles(first):
            caption = "mean and standard deviation over folds, the other parameters as chosen."
            return caption, lambda: draw_sensitivity(first)
    return None


def _trade_offs(runs: dict[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Return seen-unseen curves by model and area, of the runs that have one."""
    found = {model: run["results"] for model, run in runs.items() if "curve" in run["results"]}
    return {
        f"{model} (area {results['ausuc']:.3f})": (
            results["curve"]["unseen"],
            results["curve"]["seen"],
        )
        for model, results in found.items()
    }


def _accuracies(
    experiment: Experiment, data: str, collection: Collection
) -> dict[str, Measurement]:
    found = {
        model: over_seeds(runs, "zsl") for model, runs in collection.of(experiment, data).items()
    }
    return {model: value for model, value in found.items() if value is not None}


def _bars(experiment: Experiment, data: str, collection: Collection) -> Figure:
    (columns,) = column_groups(experiment, data, collection).values()
    models = list(collection.of(experiment, data))
    values = {
        column.label: {model: column.measure(model) for model in models} for column in columns
    }
    if len(values) == 1:
        ((label, found),) = values.items()
        return draw_bars({data: found}, f"{label} (%)")
    return draw_bars(values, "percent")
