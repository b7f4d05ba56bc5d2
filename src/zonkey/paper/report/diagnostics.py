"""Tables of single runs: parameters, steps of Algorithm 1, maps, classes and confusions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ..records import Record, unpack
from .blocks import TableBlock
from .measures import Measurement, accuracies_by_step, over_values
from .tables import features_used

_N_BEST, _N_CONFUSIONS = 10, 20
_N_CONFUSED = 40  # classes shown of a larger confusion matrix


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
            "-",
            found.percent(),
            features_used(selection),
        ]
        for name, profile in sensitivity_profiles(selection).items()
        for value, found in profile.items()
    ]
    headings = ["parameter", "value", "paper", "measured", "features used"]
    caption = "Score (%) on held-out training classes, the other parameters as chosen"
    return TableBlock(headings, rows, caption, range(1, 4))


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
                f"{objective[step]:.6g}" if step < len(objective) else "-",
                f"{changes[step - 1]:.2g}" if 0 < step <= len(changes) else "-",
                f"{100 * accuracies[step]:.1f}" if step in accuracies else "-",
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
        rows.append([model, classes, samples, "-", share, features_used(run)])
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


def extreme_classes(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the best and the worst classes, side by side."""
    sizes = matrix.sum(axis=1)
    tested = np.flatnonzero(sizes)
    accuracy = np.diag(matrix)[tested] / sizes[tested]
    # Ties: by name, so that the table is the same on every machine.
    order = np.argsort(-accuracy, kind="stable")
    best, worst = order[:_N_BEST], order[::-1][: min(_N_BEST, max(0, len(order) - _N_BEST))]
    rows = []
    for i in range(len(best)):
        row: list[str] = []
        for chosen in (best, worst):
            if i < len(chosen):
                j = int(chosen[i])
                row += [names[tested[j]], f"{100 * accuracy[j]:.0f}", str(sizes[tested[j]])]
            else:
                row += ["", "", ""]
        rows.append(row)
    headings = ["best class", "%", "samples", "worst class", "%", "samples"]
    return TableBlock(headings, rows, f"Accuracy by class ({who})", {1, 2, 4, 5})


def all_classes_table(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the accuracy of every class."""
    rows = [
        [name, f"{100 * matrix[j, j] / size:.0f}" if size else "-", str(size)]
        for j, (name, size) in enumerate(zip(names, matrix.sum(axis=1), strict=True))
    ]
    caption = f"Accuracy of all {len(names)} classes ({who})"
    headings = ["class", "%", "samples"]
    return TableBlock(headings, rows, caption, {1, 2}, is_page_only=True, is_folded=True)


def frequent_confusions(names: list[str], matrix: np.ndarray, who: str) -> TableBlock:
    """Return the most frequent confusions."""
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_N_CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            rows.append([names[i], names[j], f"{wrong[i, j]} of {matrix[i].sum()}"])
    caption = f"The most frequent confusions ({who})"
    return TableBlock(["class", "taken for", "samples"], rows, caption, range(2, 3))
