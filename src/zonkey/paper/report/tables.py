"""The table of an experiment: figures printed in the paper next to measured ones."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from ..printed import PRINTED, Printed, printed
from ..records import Record
from .blocks import TableBlock
from .collection import Study
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
    """Figures by model; `printed` is the metric in the paper's table."""

    label: str
    printed: str
    values: Mapping[str, Measurement | None]


def experiment_table(study: Study) -> TableBlock | None:
    """Return printed and measured figures, features, and whether they are comparable.

    Without columns of the paper if it has no such experiment; None if there are no figures.
    """
    groups = {
        label: columns
        for label, columns in column_groups(study).items()
        if any(any(column.values.values()) for column in columns)
    }
    if not groups:
        return None
    asked = {column.printed for group in groups.values() for column in group}
    rows = []
    for model in models_and_printed(study, asked):
        for label, group in groups.items():
            row = _row(study, model, group)
            if row is not None:
                rows.append([model, *([label] if label else []), *row])
    headings = ["model", *(["K"] if "" not in groups else [])]
    first = len(headings)
    for column in next(iter(groups.values())):
        paper = [f"{column.label}, paper"] if study.experiment.paper else []
        headings += [*paper, f"{column.label}, measured"]
    numbers = range(first, len(headings))
    return TableBlock([*headings, "features used", "note"], rows, numbers=numbers)


def column_groups(study: Study) -> dict[str, list[Column]]:
    """Return the columns of a table, by number of shots (as text) if they depend on it."""
    experiment = study.experiment
    if experiment.protocol == "zero-shot":
        return {"": [accuracy_column(study, metric) for metric in experiment.metrics]}
    if experiment.protocol == "trials":
        return {"": [_trials_column(runs) for runs in study.by_protocol.values()]}
    if experiment.protocol == "all-classes":
        least = 0 if experiment.name == "any-shot" else 1
        shots = {K for run in study.firsts.values() for K in run["results"]["shots"] if least <= K}
        return {
            str(K): [_shots_column(study, metric, K) for metric in experiment.metrics]
            for K in sorted(shots)
        }
    return {}


def accuracy_column(study: Study, metric: str) -> Column:
    """Return a metric of zero-shot runs over seeds."""
    values = {model: over_seeds(runs, metric) for model, runs in study.runs.items()}
    return Column(LABELS.get(metric, metric), metric, values)


def _trials_column(runs: dict[str, list[Record]]) -> Column:
    label = shots_label(next(iter(runs.values()))[0])
    return Column(label, label, {model: over_trials(found[0]) for model, found in runs.items()})


def _shots_column(study: Study, metric: str, K: int) -> Column:
    values = {model: over_repetitions(run, metric, K) for model, run in study.firsts.items()}
    return Column(metric, f"{metric}, K={K}", values)


def models_and_printed(study: Study, asked: Container[str]) -> list[str]:
    """Return the models of the experiment, then the other systems printed in the paper."""
    others = [
        figure.model
        for figure in PRINTED
        if (figure.source, figure.data) == (study.experiment.source, study.data)
        and figure.metric in asked
    ]
    return list(dict.fromkeys([*study.experiment.models, *others]))


def _row(study: Study, model: str, columns: list[Column]) -> list[str] | None:
    """Return figures, features and note; None if the model has no figure."""
    cells: list[str] = []
    found, measured = [], False
    for column in columns:
        figure = printed(study.experiment.source, study.data, column.printed).get(model)
        value = column.values.get(model)
        found += [figure] if figure else []
        measured = measured or value is not None
        if study.experiment.paper:
            cells.append(with_spread(figure.value, figure.spread) if figure else ABSENT)
        cells.append(value.percent() if value else ABSENT)
    if not found and not measured:
        return None
    return [*cells, *features_and_note(study.run if measured else None, found)]


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


def _note(run: Record, figure: Printed) -> str:
    split = [split_note(run)] if run["data_name"] in _XLSA17 else []
    if compares(run, figure):
        return "; ".join(["same features", *split])
    other = "other " if figure.features.lower() in features_used(run).lower() else ""
    return "; ".join([f"not comparable: the paper used {other}{figure.features} features", *split])


def seconds_by_shots(run: Record) -> dict[int, float]:
    """Return the seconds of a fit, by number of shots."""
    return dict(zip(run["results"]["shots"], run["results"]["seconds"], strict=True))


def runtime_table(study: Study) -> TableBlock:
    """Return seconds of a fit by model and number of shots, next to the paper's minutes."""
    times = {model: seconds_by_shots(run) for model, run in study.firsts.items()}
    shots = sorted({n_shot for found in times.values() for n_shot in found})
    figures = printed(study.experiment.source, study.data, _MINUTES)
    rows = []
    for model in models_and_printed(study, {_MINUTES}):
        measured, figure = times.get(model, {}), figures.get(model)
        if not measured and figure is None:
            continue
        paper = ABSENT if figure is None else f"{figure.value:g} min"
        cells = [f"{measured[K]:.3g} s" if K in measured else ABSENT for K in shots]
        run = study.firsts[model] if measured else None
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
