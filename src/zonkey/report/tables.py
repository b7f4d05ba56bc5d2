"""The table of an experiment: what the paper prints beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..bench import PRINTED, Experiment, Printed
from .blocks import Table
from .collection import Collection
from .measures import Measurement, over_repetitions, over_seeds, over_trials, with_spread

Record = dict[str, Any]
ABSENT = "-"
LABELS = {
    "zsl": "accuracy",
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "ausuc": "AUSUC",
    "seconds_a_fit": "time of a fit",
}
_XLSA17 = ("awa1", "cub", "sun")


@dataclass(frozen=True)
class Column:
    """One figure of each model.

    Attributes
    ----------
    label : str
    printed : str
        What the paper's table calls it, as in `bench.printed`.
    measure : callable
        Takes the model.
    """

    label: str
    printed: str
    measure: Callable[[str], Measurement | None]


def experiment_table(experiment: Experiment, data: str, collection: Collection) -> Table | None:
    """Return paper and measured figures, features, and whether the two compare.

    None where the experiment has figures only to look at.
    """
    groups = {
        label: columns
        for label, columns in column_groups(experiment, data, collection).items()
        if any(column.measure(model) for column in columns for model in experiment.models)
    }
    if not groups:
        return None
    used = features_used(next(iter(collection.of(experiment, data).values()))[0])
    columns = next(iter(groups.values()))
    rows = []
    for model in _models(experiment, data, groups):
        for label, group in groups.items():
            row = _row(experiment, data, model, group, used)
            if row is not None:
                rows.append([model, *([label] if label else []), *row])
    headings = ["model", *(["K"] if "" not in groups else [])]
    for column in columns:
        headings += [f"{column.label}, paper", f"{column.label}, measured"]
    numbers = range(len(headings) - 2 * len(columns), len(headings))
    return Table([*headings, "features used", "note"], rows, numbers=numbers)


def column_groups(
    experiment: Experiment, data: str, collection: Collection
) -> dict[str, list[Column]]:
    """Return the columns of a table; by number of shots (as text) where they repeat for each."""
    if experiment.name == "runtime":
        return {"": [_runtime(experiment, data, collection)]}
    if experiment.protocol == "zero-shot":
        return {"": [_over_seeds(metric, data, collection) for metric in experiment.metrics]}
    if experiment.protocol == "trials":
        protocols = collection.protocols(experiment, data)
        return {"": [_over_trials(name, experiment, data, collection) for name in protocols]}
    if experiment.protocol == "all-classes":
        least = 0 if experiment.name == "any-shot" else 1
        shots = sorted(
            {
                n_shot
                for runs in collection.of(experiment, data).values()
                for n_shot in runs[0]["results"]["shots"]
                if n_shot >= least
            }
        )
        return {
            str(n_shot): [
                _over_repetitions(metric, n_shot, data, collection) for metric in experiment.metrics
            ]
            for n_shot in shots
        }
    return {}


def _over_seeds(metric: str, data: str, collection: Collection) -> Column:
    def measure(model: str) -> Measurement | None:
        return over_seeds(collection.runs("zero-shot", data, model), metric)

    return Column(LABELS.get(metric, metric), metric, measure)


def _over_trials(
    protocol: str, experiment: Experiment, data: str, collection: Collection
) -> Column:
    def measure(model: str) -> Measurement | None:
        run = collection.first(protocol, data, model)
        return None if run is None else over_trials(run)

    runs = [collection.first(protocol, data, model) for model in experiment.models]
    # Small data have fewer shots to give than the protocol is named for.
    n_shot = next(run["results"]["n_shot"] for run in runs if run is not None)
    return Column(f"{n_shot}-shot", f"{n_shot}-shot", measure)


def _over_repetitions(metric: str, n_shot: int, data: str, collection: Collection) -> Column:
    def measure(model: str) -> Measurement | None:
        run = collection.first("all-classes", data, model)
        return None if run is None else over_repetitions(run, metric, n_shot)

    return Column(metric, f"{metric}, K={n_shot}", measure)


def _runtime(experiment: Experiment, data: str, collection: Collection) -> Column:
    (metric,) = experiment.metrics

    def measure(model: str) -> Measurement | None:
        return over_seeds(collection.runs("all-classes", data, model), metric)

    return Column(LABELS[metric], "minutes", measure)


def _models(experiment: Experiment, data: str, groups: dict[str, list[Column]]) -> list[str]:
    """Return the models of the experiment, then what else the paper prints for these columns."""
    asked = {column.printed for columns in groups.values() for column in columns}
    others = [
        figure.model
        for figure in PRINTED
        if (figure.source, figure.data) == (experiment.source, data) and figure.metric in asked
    ]
    return list(dict.fromkeys([*experiment.models, *others]))


def _row(
    experiment: Experiment, data: str, model: str, columns: list[Column], used: str
) -> list[str] | None:
    """Return figures, features and note; None where the model has neither kind of figure."""
    cells: list[str] = []
    found, measured = [], False
    for column in columns:
        figure = printed_figure(experiment.source, data, model, column.printed)
        value = column.measure(model)
        found += [figure] if figure else []
        measured = measured or value is not None
        cells += [_printed_text(figure), _measured_text(value, column)]
    if not found and not measured:
        return None
    return [*cells, used if measured else ABSENT, _note(data, used if measured else "", found)]


def printed_figure(source: str, data: str, model: str, metric: str) -> Printed | None:
    """Return a figure of the paper."""
    asked = (source, data, model, metric)
    for figure in PRINTED:
        if source and (figure.source, figure.data, figure.model, figure.metric) == asked:
            return figure
    return None


def compares(data: str, used: str, figure: Printed) -> bool:
    """Say whether the paper's figure stands on the features that were used here."""
    return data in _XLSA17 and used == "res101.mat" and figure.features == "ResNet101"


def features_used(run: Record) -> str:
    """Return what the data set says about its features."""
    about = run["data"]
    names = (about.get(key) for key in ("features", "features_file", "backbone_file"))
    return str(next((name for name in names if name), "not told"))


def _printed_text(figure: Printed | None) -> str:
    if figure is None:
        return ABSENT
    if figure.metric == "minutes":
        return f"{figure.value:g} min"
    return with_spread(figure.value, figure.spread)


def _measured_text(value: Measurement | None, column: Column) -> str:
    if value is None:
        return ABSENT
    return value.seconds() if column.printed == "minutes" else value.percent()


def _note(data: str, used: str, found: list[Printed]) -> str:
    if not found:
        return ""
    features = found[0].features
    if not used:
        return f"as printed, on {features} features"
    if compares(data, used, found[0]):
        return ""
    other = "other " if features.lower() in used.lower() else ""
    return f"not comparable: the paper used {other}{features} features"
