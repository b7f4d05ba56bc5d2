"""Metrics of answers in a tree of classes, which count nearly right answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..labels import require_same_kind
from ..tree import Tree
from .accuracy import check_same_length, require_filled


class HierarchicalScores(NamedTuple):
    """Precision, recall and F1 of sets of nodes, as `hierarchical_scores` returns them."""

    precision: float
    recall: float
    f1: float


class Overlaps(NamedTuple):
    """Levels of the true node, of the answer and of their lowest common node, for each sample."""

    true: np.ndarray
    predicted: np.ndarray
    common: np.ndarray


def find_overlaps(tree: Tree, true: Any, predicted: Any) -> Overlaps:
    """Return the levels of pairs of nodes; an answer that is no node is at level 0."""
    is_node = np.isin(predicted, tree.nodes)
    own, found, common = np.zeros((3, len(true)), np.intp)
    own[:] = tree.depths[tree.positions(true)]
    found[is_node] = tree.depths[tree.positions(predicted[is_node])]
    common[is_node] = tree.common_depth(true[is_node], predicted[is_node])
    return Overlaps(own, found, common)


def level_accuracy(y_true: ArrayLike, y_pred: ArrayLike, tree: Any) -> np.ndarray:
    """Return the share of correct answers at each level of a tree.

    An answer is correct at a level if the node there is that of the true class. Above the level,
    classes stand for themselves; an inner node is no answer below its level.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True nodes.
    y_pred : array-like of shape (n_samples,)
        Predicted nodes; other labels are rejected samples.
    tree : Tree or mapping
        The tree, ``{label: parent}``.

    Returns
    -------
    ndarray of shape (n_levels,)
        Shares between 0 and 1; the first is that of the top.

    Examples
    --------
    >>> from zonkey.metrics import level_accuracy
    >>> tree = {"cat": "animal", "dog": "animal", "oak": "plant"}
    >>> level_accuracy(["cat", "cat", "oak", "oak"], ["cat", "dog", "cat", "plant"], tree).tolist()
    [0.75, 0.25]
    """
    tree, true, predicted = _check(y_true, y_pred, tree)
    found = find_overlaps(tree, true, predicted)
    levels = np.arange(1, tree.n_levels + 1)[:, None]
    return (found.common >= np.minimum(found.true, levels)).mean(axis=1)


def hierarchical_scores(y_true: ArrayLike, y_pred: ArrayLike, tree: Any) -> HierarchicalScores:
    """Return hierarchical precision, recall and F1.

    Each answer and each true class is the set of its node and the nodes above it. Precision is the
    share of predicted nodes that are true, recall that of true nodes that are predicted, over all
    samples, and F1 their harmonic mean.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True nodes.
    y_pred : array-like of shape (n_samples,)
        Predicted nodes, inner ones too; other labels are rejected samples, which predict no node.
    tree : Tree or mapping
        The tree, ``{label: parent}``.

    Returns
    -------
    HierarchicalScores
        Named tuple of `precision`, `recall` and `f1`. Precision is NaN without a predicted node.

    References
    ----------
    Kiritchenko, S., Matwin, S., Nock, R. & Famili, A. F. Learning and evaluation in the presence of
    class hierarchies. Canadian AI, 2006.

    Examples
    --------
    >>> from zonkey.metrics import hierarchical_scores
    >>> tree = {"cat": "animal", "dog": "animal", "oak": "plant"}
    >>> hierarchical_scores(["cat", "oak"], ["dog", "plant"], tree).recall
    0.5
    """
    found = find_overlaps(*_check(y_true, y_pred, tree))
    common, n, m = (int(part.sum()) for part in (found.common, found.predicted, found.true))
    precision = common / n if n else float("nan")
    return HierarchicalScores(precision, common / m, 2 * common / (n + m))


def tree_distance(y_true: ArrayLike, y_pred: ArrayLike, tree: Any) -> float:
    """Return the mean number of edges between true and predicted nodes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True nodes.
    y_pred : array-like of shape (n_samples,)
        Predicted nodes; other labels are rejected samples, which count as the root.
    tree : Tree or mapping
        The tree, ``{label: parent}``.

    Returns
    -------
    float
        0 if all answers are correct.

    Examples
    --------
    >>> from zonkey.metrics import tree_distance
    >>> tree_distance(["cat", "cat"], ["dog", "cat"], {"cat": "animal", "dog": "animal"})
    1.0
    """
    found = find_overlaps(*_check(y_true, y_pred, tree))
    return float((found.true + found.predicted - 2 * found.common).mean())


def _check(y_true: Any, y_pred: Any, tree: Any) -> tuple[Tree, np.ndarray, np.ndarray]:
    tree = Tree(tree)
    true, predicted = require_filled(y_true, "y_true"), require_filled(y_pred, "y_pred")
    require_same_kind(y_true=true, y_pred=predicted)
    check_same_length(true, predicted, "y_pred")
    tree.positions(true)  # refuses unknown ones
    return tree, true, predicted
