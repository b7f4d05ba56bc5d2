"""Which classes a model gets right, and which it takes for which."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ..bench.records import unpack
from .blocks import Block, Drawing, Table

Record = dict[str, Any]
_N_BEST, _N_CONFUSIONS, _MOST_CLASSES = 10, 20, 50


def class_blocks(run: Record, name: str) -> list[Block]:
    """Return best and worst classes, frequent confusions, and the matrix where it can be read."""
    who = f"{run['model']}, seed {run['seed']}"
    names, matrix = confusions(run)
    blocks: list[Block] = [_extremes(names, matrix, who), _frequent(names, matrix, who)]
    if len(names) <= _MOST_CLASSES:
        from .figures_classes import draw_confusions

        caption = f"Confusion matrix of {who}: share of the samples of a class, in percent."
        blocks.append(Drawing(name, caption, lambda: draw_confusions(names, matrix)))
    return blocks


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
    return Table(headings, rows, f"Accuracy by class ({who})", range(1, 3))


def _frequent(names: list[str], matrix: np.ndarray, who: str) -> Table:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_N_CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            rows.append([names[i], names[j], f"{wrong[i, j]} of {matrix[i].sum()}"])
    caption = f"The most frequent confusions ({who})"
    return Table(["class", "taken for", "samples"], rows, caption, range(2, 3))
