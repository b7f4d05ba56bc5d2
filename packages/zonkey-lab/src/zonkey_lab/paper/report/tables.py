"""The tables of the report: printed figures next to measured ones, and single runs."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..printed import PRINTED, Printed, contradiction, find_printed
from ..records import Record
from .blocks import Cell, TableBlock
from .collection import Study
from .comparisons import describe_differences, difference_columns
from .fits import movement_columns
from .heads import HEAD_NOTE, describe_heads
from .measures import (
    ABSENT,
    Measurement,
    accuracies_by_step,
    average_repetitions,
    average_seeds,
    average_trials,
    average_values,
    format_spread,
    shots_label,
)

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
_MINUTES = "minutes"  # the metric that the paper prints
_ENDINGS = {"": "", "_unlabeled": " + unlabeled samples"}  # of results, and of models


@dataclass(frozen=True)
class Column:
    """Figures by model; `printed` is the metric in the paper's table."""

    label: str
    printed: str
    values: Mapping[str, Measurement | None]


def experiment_tables(study: Study) -> list[TableBlock]:
    """Return printed and measured figures, and whether they are comparable.

    Without the paper's columns if it has no such figures; no table if there are no figures at all.
    """
    groups = {
        label: columns
        for label, columns in column_groups(study).items()
        if any(any(column.values.values()) for column in columns)
    }
    tables = [_figures_table(study, label, columns) for label, columns in groups.items()]
    if tables:  # what holds for all follows the last
        remarks = [*tables[-1].remarks, *_explain_columns(study)]
        tables[-1] = replace(tables[-1], remarks=remarks)
    return tables


def _figures_table(study: Study, caption: str, columns: list[Column]) -> TableBlock:
    papers = [find_printed(study.experiment.source, study.data, c.printed) for c in columns]
    heads = describe_heads(study)
    texts: dict[str, Mapping[str, Cell]] = {
        **difference_columns(study, caption),
        **movement_columns(study),
        **({"system": heads} if heads else {}),
    }
    rows, notes = [], {}
    for model in list_models(study, {column.printed for column in columns}):
        figures = [found[model] for found in papers if model in found]
        values = [column.values.get(model) for column in columns]
        if not figures and not any(values):
            continue
        cells = []
        for value, found in zip(values, papers, strict=True):
            if found:
                figure = found.get(model)
                cells.append(format_spread(figure.value, figure.spread) if figure else ABSENT)
            cells.append(value.percent() if value else ABSENT)
        rows.append([model, *cells, *(column.get(model, ABSENT) for column in texts.values())])
        note = explain_figures(study.run if any(values) else None, figures)
        if note:
            notes.setdefault(note, []).append(model)
    headings = ["model"]
    for column, found in zip(columns, papers, strict=True):
        headings += [*([f"{column.label}, paper"] if found else []), column.label]
    numbers = range(1, len(headings))
    return TableBlock([*headings, *texts], rows, caption, numbers, _list_notes(notes))


def _list_notes(notes: Mapping[str, list[str]]) -> list[str]:
    return [f"{note}: {'; '.join(models)}." for note, models in notes.items()]


def _explain_columns(study: Study) -> list[str]:
    """Say what differences and heads are, and which models have no records."""
    differences = any(difference_columns(study, metric) for metric in study.experiment.metrics)
    remarks = [f"{describe_differences(study)}."] if differences else []
    return [*remarks, *([HEAD_NOTE] if describe_heads(study) else []), *_name_missing(study)]


def _name_missing(study: Study) -> list[str]:
    """Name the models of the experiment without records."""
    absent = [model for model in study.experiment.models if model not in study.runs]
    if not absent:
        return []
    command = f"zonkey bench {study.experiment.name} --data {study.data}"
    return [f"Without current records: {'; '.join(absent)}. {command} adds them."]


def column_groups(study: Study) -> dict[str, list[Column]]:
    """Return the columns of each table, by caption: one table, or one per metric."""
    experiment = study.experiment
    if experiment.protocol == "zero-shot":
        return {"": [accuracy_column(study, metric) for metric in experiment.metrics]}
    if experiment.protocol == "trials":
        return {"": [_trials_column(runs) for runs in study.by_protocol.values()]}
    if experiment.protocol == "all-classes":
        least = 0 if experiment.name == "any-shot" else 1
        shots = {K for run in study.firsts.values() for K in run["results"]["shots"] if least <= K}
        return {
            metric: [_shots_column(study, metric, K) for K in sorted(shots)]
            for metric in experiment.metrics
        }
    return {}


def accuracy_column(study: Study, metric: str) -> Column:
    """Return a metric of zero-shot runs over seeds."""
    values = {model: average_seeds(runs, metric) for model, runs in study.runs.items()}
    return Column(LABELS.get(metric, metric), metric, values)


def _trials_column(runs: dict[str, list[Record]]) -> Column:
    label = shots_label(next(iter(runs.values()))[0])
    return Column(label, label, {model: average_trials(found) for model, found in runs.items()})


def _shots_column(study: Study, metric: str, K: int) -> Column:
    values = {model: average_repetitions(runs, metric, K) for model, runs in study.runs.items()}
    return Column(f"K = {K}", f"{metric}, K={K}", values)


def list_models(study: Study, asked: Container[str]) -> list[str]:
    """Return the models of the experiment, then the other systems printed in the paper."""
    others = [
        figure.model
        for figure in PRINTED
        if (figure.source, figure.data) == (study.experiment.source, study.data)
        and figure.metric in asked
    ]
    return list(dict.fromkeys([*study.experiment.models, *others]))


def explain_figures(run: Record | None, found: list[Printed]) -> str:
    """Return whether printed figures are comparable, and where they contradict each other."""
    if not found:
        return ""
    first = found[0]
    notes = [f"as printed, on {first.features} features" if run is None else _note(run, first)]
    if first.source == "gsrl":
        notes.append(contradiction(first.data, first.model))
    return "; ".join(note for note in notes if note)


def compares(run: Record, figure: Printed) -> bool:
    """Whether a printed figure is based on the features of a run."""
    about = run["data"]
    if figure.features == "GoogLeNet":  # as released with SAE, which the paper follows
        is_whole = about.get("published_sizes") == "match" and about["n_features"] == 1024
        return run["data_name"] == "imnet" and is_whole
    of_paper = run["data_name"] in _XLSA17 and figure.features == "ResNet101"
    return of_paper and describe_features(run) == "res101.mat"


def split_note(run: Record) -> str:
    """Return which release of its split a benchmark has, and which one the paper used."""
    about = run["data"]
    if run["data_name"] not in _XLSA17:
        return f"split {about['split']}"
    if about.get("split_version") == "v1":
        return f"split: {_PAPERS_SPLIT}, as the paper's"
    split = about["split"] if "split_version" in about else "of an unknown release"
    return f"split {split}; the paper's is {_PAPERS_SPLIT}"


def describe_features(run: Record) -> str:
    """Return the features of the data set, as it describes them."""
    about = run["data"]
    names = (about.get(key) for key in ("features", "features_file", "backbone_file"))
    return str(next((name for name in names if name), "unknown"))


def _note(run: Record, figure: Printed) -> str:
    split = [split_note(run)] if run["data_name"] in _XLSA17 else []
    if compares(run, figure):
        return "; ".join(["same features", *split])
    other = "other " if figure.features.lower() in describe_features(run).lower() else ""
    return "; ".join([f"not comparable: the paper used {other}{figure.features} features", *split])


def own_tables(study: Study) -> list[TableBlock]:
    """Return the tables of a protocol without one figure per model."""
    match study.experiment.name:
        case "runtime":
            return [runtime_table(study)]
        case "tsne":
            return [map_table(study.firsts)]
        case "sensitivity":
            return [sensitivity_table(run) for run in study.firsts.values()]
        case "convergence":
            return [convergence_table(run) for run in study.firsts.values()]
        case "unlabeled" | "transductive-fsl":
            return [unlabeled_table(study)]
    return []


def seconds_by_shots(run: Record) -> dict[int, float]:
    """Return the seconds of a fit, by number of shots."""
    return dict(zip(run["results"]["shots"], run["results"]["seconds"], strict=True))


def runtime_table(study: Study) -> TableBlock:
    """Return seconds of a fit by model and number of shots, next to the paper's minutes."""
    times = {model: seconds_by_shots(run) for model, run in study.firsts.items()}
    shots = sorted({n_shot for found in times.values() for n_shot in found})
    figures = find_printed(study.experiment.source, study.data, _MINUTES)
    rows, notes = [], {}
    for model in list_models(study, {_MINUTES}):
        measured, figure = times.get(model, {}), figures.get(model)
        if not measured and figure is None:
            continue
        paper = [] if not figures else [f"{figure.value:g} min" if figure else ABSENT]
        cells = [f"{measured[K]:.3g} s" if K in measured else ABSENT for K in shots]
        run = study.firsts[model] if measured else None
        cells += [_megabytes(run, name) for name in ("base_mb", "peak_mb")]
        rows.append([model, *paper, *cells])
        note = explain_figures(run, [figure] if figure else [])
        if note:
            notes.setdefault(note, []).append(model)
    headings = ["model", *(["paper"] if figures else []), *(f"K = {K}" for K in shots)]
    headings += ["stored of base classes", "peak memory"]
    return TableBlock(
        headings,
        rows,
        "Time from base samples and shots to a fitted model of all novel classes, base moments or "
        "training included; median of repeated fits",
        range(1, len(headings)),
        [*_list_notes(notes), *_name_missing(study)],
    )


def _megabytes(run: Record | None, name: str) -> str:
    value = None if run is None else run["results"].get(name)
    return ABSENT if value is None else f"{value:.3g} MB"


def sensitivity_profiles(selection: Record) -> dict[str, dict[Any, Measurement]]:
    """Return the score at every value of every parameter, with the others as chosen."""
    chosen = selection["results"]["chosen"]
    profiles: dict[str, dict[Any, Measurement]] = {}
    for name in sorted(chosen):
        others = {key: value for key, value in chosen.items() if key != name}
        profile = {
            point["parameters"][name]: average_values(point["scores"])
            for point in selection["results"]["points"]
            if {key: point["parameters"][key] for key in others} == others
        }
        if len(profile) > 1:
            profiles[name] = dict(sorted(profile.items()))
    return profiles


def sensitivity_table(selection: Record) -> TableBlock:
    """Return the scores on held-out training classes at every value of every parameter."""
    chosen = selection["results"]["chosen"]
    rows = [
        [
            name,
            f"{value}{' (chosen)' if value == chosen[name] else ''}",
            found.percent(),
        ]
        for name, profile in sensitivity_profiles(selection).items()
        for value, found in profile.items()
    ]
    headings = ["parameter", "value", "score"]
    caption = "Score (%) on held-out training classes, the other parameters as chosen"
    return TableBlock(headings, rows, caption, (1, 2))


def unlabeled_table(study: Study) -> TableBlock:
    """Return figures before and after learning from unlabeled samples, by task."""
    found = pair_figures(study)
    names = list(dict.fromkeys(name for values in found.values() for name in values))
    rows = [
        [task, *(values[name].percent() if name in values else ABSENT for name in names)]
        for task, values in found.items()
    ]
    caption = (
        "Transductive: models also learn from the unlabeled test samples or queries. Not "
        "comparable with other tables"
    )
    headings = ["task", *names]
    return TableBlock(headings, rows, caption, range(1, 1 + len(names)))


def pair_figures(study: Study) -> dict[str, dict[str, Measurement]]:
    """Return the figures without and with unlabeled samples, by task and model.

    Models without an inductive form have figures with unlabeled samples only.
    """
    found: dict[str, dict[str, Measurement]] = {}
    for run in (run for runs in study.runs.values() for run in runs):
        results = run["results"]
        for metric, task in (("zsl", "accuracy, unseen classes"), ("hm", "HM, all classes")):
            for ending, name in _ENDINGS.items():
                if f"{metric}{ending}" in results:
                    value = Measurement(results[f"{metric}{ending}"])
                    found.setdefault(task, {})[f"{run['model']}{name}"] = value
        for name, kind in (("balanced", "balanced"), ("unbalanced", "Dirichlet(2)")):
            if name in results:
                task = f"{results['n_way']}-way {shots_label(run)}, {kind}"
                for ending, more in _ENDINGS.items():
                    value = average_trials([run], f"{name}{ending}")
                    found.setdefault(task, {})[f"{run['model']}{more}"] = value
    return found


def convergence_table(run: Record) -> TableBlock:
    """Return objective, change and accuracy after each step."""
    results = run["results"]
    objective, changes = results["objective"], results["change"]
    accuracies = accuracies_by_step(run)
    rows = []
    for step in sorted({*accuracies} & {*range(len(objective))}):
        rows.append(
            [
                str(step),
                f"{objective[step]:.6g}",
                f"{changes[step - 1]:.2g}" if 0 < step <= len(changes) else ABSENT,
                f"{100 * accuracies[step]:.1f}",
            ]
        )
    caption = f"{run['model']} after each step of Algorithm 1 (the paper: at most 5)"
    headings = ["step", "objective", "change of W", "accuracy"]
    return TableBlock(headings, rows, caption, range(4))


def map_table(runs: Mapping[str, Record]) -> TableBlock:
    """Return accuracy on the mapped samples, compactness and centering of each model."""
    rows = []
    for model, run in runs.items():
        results = run["results"]
        right = np.equal(results["truth"], results["predicted"])
        classes, samples = str(len(results["classes"])), str(len(right))
        numbers = [results.get(name) for name in ("compactness", "centering")]
        texts = [ABSENT if number is None else f"{number:.3f}" for number in numbers]
        share = f"{100 * right.mean():.1f}"
        rows.append([model, classes, samples, share, *texts])
    headings = ["model", "classes", "samples", "correct (%)", "compactness", "centering"]
    caption = (
        "Accuracy on the mapped samples, among the mapped classes; compactness and centering of "
        "their features, the smaller the better"
    )
    return TableBlock(headings, rows, caption, range(1, 6))
