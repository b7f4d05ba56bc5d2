"""Which classes a model gets right, and which it takes for which."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ..bench.records import unpack
from .blocks import Block, Drawing, Table

Record = dict[str, Any]
_N_BEST, _N_CONFUSIONS = 10, 20
_MOST_CLASSES, _N_CONFUSED = 50, 40  # that a matrix can show; that are shown of more


def class_blocks(run: Record, name: str) -> list[Block]:
    """Return best and worst classes, all classes, frequent confusions, and the matrix."""
    from .figures_classes import draw_confusions

    who = f"{run['model']}, seed {run['seed']}"
    names, matrix = confusions(run)
    shown = np.arange(len(names)) if len(names) <= _MOST_CLASSES else most_confused(matrix)
    caption = f"Confusion matrix of {who}: share of the samples of a class, in percent."
    if len(shown) < len(names):
        caption += f" The {len(shown)} of {len(names)} classes that are confused most often."
    return [
        _extremes(names, matrix, who),
        _all(names, matrix, who),
        _frequent(names, matrix, who),
        Drawing(name, caption, lambda: draw_confusions(names, matrix, shown)),
    ]


def most_confused(matrix: np.ndarray) -> np.ndarray:
    """Return the classes that most wrong predictions are of or name, in their own order."""
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-(wrong.sum(axis=0) + wrong.sum(axis=1)), kind="stable")
    return np.sort(order[:_N_CONFUSED])


def confusions(run: Record) -> tuple[list[str], np.ndarray]:
    """Return the names of the test classes, and how often each was taken for each."""
    results = run["results"]
    names = [str(label) for label in results["classes"]]
    truth, predicted = unpack(results["truth"]), unpack(results["predicted"])
    return names, confusion_matrix(truth, predicted, labels=np.arange(len(names)))


def _extremes(names: list[str], matrix: np.ndarray, who: str) -> Table:
    """Return a table of the best and the worst classes, side by side."""
    sizes = matrix.sum(axis=1)
    tested = np.flatnonzero(sizes)
    accuracy = np.diag(matrix)[tested] / sizes[tested]
    # Ties in the order of names, so that two runs give one table.
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
    return Table(headings, rows, f"Accuracy by class ({who})", {1, 2, 4, 5})


def _all(names: list[str], matrix: np.ndarray, who: str) -> Table:
    rows = [
        [name, f"{100 * matrix[j, j] / size:.0f}" if size else "-", str(size)]
        for j, (name, size) in enumerate(zip(names, matrix.sum(axis=1), strict=True))
    ]
    caption = f"Accuracy of all {len(names)} classes ({who})"
    headings = ["class", "%", "samples"]
    return Table(headings, rows, caption, {1, 2}, is_page_only=True, is_folded=True)


def _frequent(names: list[str], matrix: np.ndarray, who: str) -> Table:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_N_CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            rows.append([names[i], names[j], f"{wrong[i, j]} of {matrix[i].sum()}"])
    caption = f"The most frequent confusions ({who})"
    return Table(["class", "taken for", "samples"], rows, caption, range(2, 3))
