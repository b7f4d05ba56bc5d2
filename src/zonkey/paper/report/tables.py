"""The table of an experiment: figures printed in the paper next to measured ones."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..experiments import Experiment
from ..printed import PRINTED, Printed, printed
from ..records import Record
from .blocks import TableBlock
from .collection import Collection
from .measures import (
    Measurement,
    over_repetitions,
    over_seeds,
    over_trials,
    shots_label,
    with_spread,
)

ABSENT = "-"
LABELS = {
    "zsl": "accuracy",
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "hm_calibrated": "HM, calibrated",
    "ausuc": "AUSUC",
}
_XLSA17 = ("awa1", "cub", "sun")
_PAPERS_SPLIT = "the first release (PS v1, 2017)"
_ELSEWHERE = "Timings are on the page: they differ between runs."
_MINUTES = "minutes"  # the metric that the paper prints


@dataclass(frozen=True)
class Column:
    """One figure per model; `printed` is the metric in the paper's table."""

    label: str
    printed: str
    measure: Callable[[str], Measurement | None]


def experiment_table(
    experiment: Experiment, data: str, collection: Collection
) -> TableBlock | None:
    """Return printed and measured figures, features, and whether they are comparable.

    Without columns of the paper if it has no such experiment; None if there are no figures.
    """
    groups = {
        label: columns
        for label, columns in column_groups(experiment, data, collection).items()
        if any(column.measure(model) for column in columns for model in experiment.models)
    }
    if not groups:
        return None
    run = next(iter(collection.of(experiment, data).values()))[0]
    columns = next(iter(groups.values()))
    rows = []
    asked = {column.printed for group in groups.values() for column in group}
    for model in models_and_printed(experiment, data, asked):
        for label, group in groups.items():
            row = _row(experiment, model, group, run)
            if row is not None:
                rows.append([model, *([label] if label else []), *row])
    headings = ["model", *(["K"] if "" not in groups else [])]
    first = len(headings)
    for column in columns:
        paper = [f"{column.label}, paper"] if experiment.paper else []
        headings += [*paper, f"{column.label}, measured"]
    numbers = range(first, len(headings))
    return TableBlock([*headings, "features used", "note"], rows, numbers=numbers)


def column_groups(
    experiment: Experiment, data: str, collection: Collection
) -> dict[str, list[Column]]:
    """Return the columns of a table, by number of shots (as text) if they depend on it."""

    def of_first(
        protocol: str, label: str, metric: str, measure: Callable[[Record], Measurement | None]
    ) -> Column:
        def measured(model: str) -> Measurement | None:
            run = collection.first(protocol, data, model)
            return None if run is None else measure(run)

        return Column(label, metric, measured)

    def of_all(metric: str) -> Column:
        def measured(model: str) -> Measurement | None:
            return over_seeds(collection.runs("zero-shot", data, model), metric)

        return Column(LABELS.get(metric, metric), metric, measured)

    found = collection.of(experiment, data)
    if experiment.protocol == "zero-shot":
        return {"": [of_all(metric) for metric in experiment.metrics]}
    if experiment.protocol == "trials":
        runs = [run for of_model in reversed(found.values()) for run in of_model]
        labels = {run["protocol"]: shots_label(run) for run in runs}  # of the first model
        return {
            "": [of_first(key, label, label, over_trials) for key, label in sorted(labels.items())]
        }
    if experiment.protocol == "all-classes":
        least = 0 if experiment.name == "any-shot" else 1
        shots = {K for runs in found.values() for K in runs[0]["results"]["shots"] if least <= K}
        return {
            str(K): [
                of_first(
                    "all-classes",
                    metric,
                    f"{metric}, K={K}",
                    partial(over_repetitions, metric=metric, n_shot=K),
                )
                for metric in experiment.metrics
            ]
            for K in sorted(shots)
        }
    return {}


def models_and_printed(experiment: Experiment, data: str, asked: Container[str]) -> list[str]:
    """Return the models of the experiment, then the other systems printed in the paper."""
    others = [
        figure.model
        for figure in PRINTED
        if (figure.source, figure.data) == (experiment.source, data) and figure.metric in asked
    ]
    return list(dict.fromkeys([*experiment.models, *others]))


def _row(
    experiment: Experiment, model: str, columns: list[Column], run: Record
) -> list[str] | None:
    """Return figures, features and note; None if the model has no figure."""
    cells: list[str] = []
    found, measured = [], False
    for column in columns:
        figure = printed(experiment.source, run["data_name"], column.printed).get(model)
        # A system of the paper may have the name of a model of another experiment.
        value = column.measure(model) if model in experiment.models else None
        found += [figure] if figure else []
        measured = measured or value is not None
        cells += [_printed_text(figure)] if experiment.paper else []
        cells += [ABSENT if value is None else value.percent()]
    if not found and not measured:
        return None
    return [*cells, *features_and_note(run if measured else None, found)]


def features_and_note(run: Record | None, found: list[Printed]) -> list[str]:
    """Return the features of a row, and whether its printed figures are comparable."""
    if run is None:
        return [ABSENT, f"as printed, on {found[0].features} features" if found else ""]
    return [features_used(run), _note(run, found[0]) if found else ""]


def compares(run: Record, figure: Printed) -> bool:
    """Whether a printed figure is based on the features of a run."""
    of_paper = run["data_name"] in _XLSA17 and figure.features == "ResNet101"
    return of_paper and features_used(run) == "res101.mat"


def split_note(run: Record) -> str:
    """Return which release of its split a benchmark has, and which one the paper used."""
    about = run["data"]
    if about.get("split_version") == "v1":
        return f"split: {_PAPERS_SPLIT}, as the paper's"
    split = about["split"] if "split_version" in about else "of an unknown release"
    return f"split {split}; the paper's is {_PAPERS_SPLIT}"


def features_used(run: Record) -> str:
    """Return the features of the data set, as it describes them."""
    about = run["data"]
    names = (about.get(key) for key in ("features", "features_file", "backbone_file"))
    return str(next((name for name in names if name), "unknown"))


def _printed_text(figure: Printed | None) -> str:
    return ABSENT if figure is None else with_spread(figure.value, figure.spread)


def _note(run: Record, figure: Printed) -> str:
    split = [split_note(run)] if run["data_name"] in _XLSA17 else []
    if compares(run, figure):
        return "; ".join(["same features", *split])
    other = "other " if figure.features.lower() in features_used(run).lower() else ""
    return "; ".join([f"not comparable: the paper used {other}{figure.features} features", *split])


def seconds_by_shots(runs: list[Record]) -> dict[int, float]:
    """Return the mean seconds of a fit, by number of shots."""
    found: dict[int, list[float]] = {}
    for run in runs:
        results = run["results"]
        for n_shot, seconds in zip(results["shots"], results["seconds"], strict=True):
            found.setdefault(n_shot, []).append(seconds)
    return {n_shot: float(np.mean(values)) for n_shot, values in sorted(found.items())}


def runtime_table(experiment: Experiment, data: str, collection: Collection) -> TableBlock:
    """Return seconds of a fit by model and number of shots, next to the paper's minutes."""
    runs = collection.of(experiment, data)
    times = {model: seconds_by_shots(found) for model, found in runs.items()}
    shots = sorted({n_shot for found in times.values() for n_shot in found})
    figures = printed(experiment.source, data, _MINUTES)
    rows = []
    for model in models_and_printed(experiment, data, {_MINUTES}):
        measured, figure = times.get(model, {}), figures.get(model)
        if not measured and figure is None:
            continue
        paper = ABSENT if figure is None else f"{figure.value:g} min"
        cells = [f"{measured[K]:.3g} s" if K in measured else ABSENT for K in shots]
        run = runs[model][0] if measured else None
        about = features_and_note(run, [figure] if figure else [])
        rows.append([model, paper, *cells, *about])
    headings = ["model", "paper", *(f"K = {K}, measured" for K in shots)]
    return TableBlock(
        [*headings, "features used", "note"],
        rows,
        "Time of a fit alone, on the machine named below",
        range(1, len(headings)),
        is_page_only=True,
        in_markdown=_ELSEWHERE,
    )
