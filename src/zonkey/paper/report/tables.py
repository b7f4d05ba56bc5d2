"""The tables of the report: printed figures next to measured ones, single runs, classes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ..printed import PRINTED, Printed, printed
from ..records import Record, unpack
from .blocks import TableBlock
from .collection import Study
from .measures import (
    Measurement,
    accuracies_by_step,
    over_repetitions,
    over_seeds,
    over_trials,
    over_values,
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
_N_BEST, _N_CONFUSIONS = 10, 20
_WITH_UNLABELED = ("recommended", "recommended + unlabeled samples")
_ENDINGS = ("", "_unlabeled")  # of the results
_N_CONFUSED = 40  # classes shown of a larger confusion matrix


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


def own_tables(study: Study) -> list[TableBlock]:
    """Return the tables of a protocol without one figure per model."""
    match study.experiment.protocol:
        case "runtime":
            return [runtime_table(study)]
        case "map":
            return [map_table(study.firsts)]
        case "selection":
            return [sensitivity_table(run) for run in study.firsts.values()]
        case "convergence":
            return [convergence_table(run) for run in study.firsts.values()]
        case "unlabeled":
            return [unlabeled_table(study)]
    return []


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


def sensitivity_profiles(selection: Record) -> dict[str, dict[Any, Measurement]]:
    """Return the score at every value of every parameter, with the others as chosen."""
    chosen = selection["results"]["chosen"]
    profiles: dict[str, dict[Any, Measurement]] = {}
    for name in sorted(chosen):
        others = {key: value for key, value in chosen.items() if key != name}
        profile = {
            point["parameters"][name]: over_values(point["scores"])
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
            ABSENT,
            found.percent(),
            features_used(selection),
        ]
        for name, profile in sensitivity_profiles(selection).items()
        for value, found in profile.items()
    ]
    headings = ["parameter", "value", "paper", "measured", "features used"]
    caption = "Score (%) on held-out training classes, the other parameters as chosen"
    return TableBlock(headings, rows, caption, range(1, 4))


def unlabeled_table(study: Study) -> TableBlock:
    """Return figures before and after learning from unlabeled samples, by task."""
    rows = [
        [task, *(value.percent() for value in found.values()), features_used(study.run)]
        for task, found in before_and_after(study).items()
    ]
    headings = ["task", *_WITH_UNLABELED, "features used"]
    caption = (
        "Transductive: the model also learns from the unlabeled test samples or queries. Not "
        "comparable with other tables"
    )
    return TableBlock(headings, rows, caption, range(1, 3))


def before_and_after(study: Study) -> dict[str, dict[str, Measurement]]:
    """Return the figures without and with unlabeled samples, by task."""
    found = {}
    for run in (run for runs in study.runs.values() for run in runs):
        results = run["results"]
        for metric, task in (("zsl", "accuracy, unseen classes"), ("hm", "HM, all classes")):
            if metric in results:
                found[task] = [Measurement(results[f"{metric}{end}"]) for end in _ENDINGS]
        for name, kind in (("balanced", "balanced"), ("unbalanced", "Dirichlet(2)")):
            if name in results:
                task = f"{results['n_way']}-way {shots_label(run)}, {kind}"
                found[task] = [over_trials(run, f"{name}{end}") for end in _ENDINGS]
    return {task: dict(zip(_WITH_UNLABELED, both, strict=True)) for task, both in found.items()}


def convergence_table(run: Record) -> TableBlock:
    """Return objective, change and accuracy after each step."""
    results = run["results"]
    objective, changes = results["objective"], results["change"]
    accuracies = accuracies_by_step(run)
    rows = []
    for step in range(max(len(objective), max(accuracies, default=0) + 1)):
        rows.append(
            [
                str(step),
                f"{objective[step]:.6g}" if step < len(objective) else ABSENT,
                f"{changes[step - 1]:.2g}" if 0 < step <= len(changes) else ABSENT,
                f"{100 * accuracies[step]:.1f}" if step in accuracies else ABSENT,
                features_used(run),
            ]
        )
    caption = "After each step of Algorithm 1 (the paper: at most 5)"
    headings = ["step", "objective", "change of W", "accuracy, measured", "features used"]
    return TableBlock(headings, rows, caption, range(4))


def map_table(runs: Mapping[str, Record]) -> TableBlock:
    """Return the share of mapped samples that each model classifies correctly."""
    rows = []
    for model, run in runs.items():
        results = run["results"]
        right = np.equal(results["truth"], results["predicted"])
        classes, samples = str(len(results["classes"])), str(len(right))
        share = f"{100 * right.mean():.1f}"
        rows.append([model, classes, samples, ABSENT, share, features_used(run)])
    headings = ["model", "classes", "samples", "paper", "correct (%), measured", "features used"]
    caption = "Accuracy on the mapped samples, among the mapped classes"
    return TableBlock(headings, rows, caption, range(1, 5))


def most_confused(matrix: np.ndarray) -> np.ndarray:
    """Return the classes with most wrong predictions, as truth or as prediction, in order."""
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-(wrong.sum(axis=0) + wrong.sum(axis=1)), kind="stable")
    return np.sort(order[:_N_CONFUSED])


def confusions(run: Record) -> tuple[list[str], np.ndarray]:
    """Return the names of the test classes and the confusion matrix."""
    results = run["results"]
    names = [str(label) for label in results["classes"]]
    truth, predicted = unpack(results["truth"]), unpack(results["predicted"])
    return names, confusion_matrix(truth, predicted, labels=np.arange(len(names)))


def class_tables(names: list[str], matrix: np.ndarray, who: str) -> list[TableBlock]:
    """Return best and worst classes, all classes, and frequent confusions."""
    tables = (_extreme_classes, _all_classes, _frequent_confusions)
    return [table(names, matrix, who) for table in tables]


def _extreme_classes(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the best and the worst classes, side by side."""
    sizes = matrix.sum(axis=1)
    tested = np.flatnonzero(sizes)
    accuracy = np.diag(matrix)[tested] / sizes[tested]
    # Ties: by name, so that the table is the same on every machine.
    order = np.argsort(-accuracy, kind="stable")
    best, worst = order[:_N_BEST], order[::-1][: min(_N_BEST, max(0, len(order) - _N_BEST))]
    cells = [
        [names[label], f"{100 * share:.0f}", str(sizes[label])]
        for label, share in zip(tested, accuracy, strict=True)
    ]
    pairs = zip_longest(best, worst)  # there may be fewer worst classes
    rows = [[*cells[i], *(["", "", ""] if j is None else cells[j])] for i, j in pairs]
    headings = ["best class", "%", "samples", "worst class", "%", "samples"]
    return TableBlock(headings, rows, f"Accuracy by class ({who})", {1, 2, 4, 5})


def _all_classes(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the accuracy of every class."""
    rows = [
        [name, f"{100 * matrix[j, j] / size:.0f}" if size else ABSENT, str(size)]
        for j, (name, size) in enumerate(zip(names, matrix.sum(axis=1), strict=True))
    ]
    caption = f"Accuracy of all {len(names)} classes ({who})"
    headings = ["class", "%", "samples"]
    return TableBlock(headings, rows, caption, {1, 2}, is_page_only=True, is_folded=True)


def _frequent_confusions(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the most frequent confusions."""
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_N_CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            rows.append([names[i], names[j], f"{wrong[i, j]} of {matrix[i].sum()}"])
    caption = f"The most frequent confusions ({who})"
    return TableBlock(["class", "taken for", "samples"], rows, caption, range(2, 3))
