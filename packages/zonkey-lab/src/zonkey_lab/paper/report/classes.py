"""Tables of single classes: accuracies and confusions."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
from sklearn.metrics import confusion_matrix

from ..records import Record, unpack
from .blocks import TableBlock
from .measures import ABSENT

_N_BEST, _N_CONFUSIONS = 10, 20
_N_CONFUSED = 40  # classes shown of a larger confusion matrix


def find_confused(matrix: np.ndarray) -> np.ndarray:
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
    caption = f"Accuracy by class ({who})"
    return TableBlock(headings, rows, caption, {1, 2, 4, 5}, is_page_only=True)


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
    headings = ["class", "taken for", "samples"]
    return TableBlock(headings, rows, caption, range(2, 3), is_page_only=True)
