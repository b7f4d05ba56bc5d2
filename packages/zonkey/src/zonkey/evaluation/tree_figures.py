"""Figures of answers in a tree of classes, as ratios of sums over samples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..inference.nodes import choose_nodes
from ..metrics.tree import find_overlaps
from ..tree import Tree

EDGES = "tree_distance"  # a number of edges, no share
_MOST_LEVELS = 6  # that are listed of a deep tree
TREE_WORDS = {
    "level": "accuracy at level",
    "tree_precision": "hierarchical precision",
    "tree_recall": "hierarchical recall",
    "tree_f1": "hierarchical F1",
    "tree_held": "answered node holds the class",
    EDGES: "distance in the tree (edges)",
}
TREE_MEANINGS = {
    "level": "share of samples whose most probable node at a level of the tree is right; 1 is the "
    "top",
    "tree_precision": "share of the answered nodes, and those above them, that are right",
    "tree_recall": "share of the true classes, and the nodes above them, that are answered",
    "tree_f1": "harmonic mean of hierarchical precision and recall",
    "tree_held": "share of answers, as deep as the model is sure, that are the true class or above "
    "it",
    EDGES: "mean number of edges between answer and true class; 0 is best",
}
TREE_ORDER = ("level@", "tree_precision", "tree_recall", "tree_f1", "tree_held", EDGES)


def list_levels(tree: Tree) -> list[int]:
    """Return levels above the last one, evenly spaced if there are many."""
    n = tree.n_levels - 1
    return np.unique(np.linspace(1, n, min(n, _MOST_LEVELS)).round().astype(int)).tolist()


def find_nodes(tree: Tree, P: np.ndarray, below: float | None) -> np.ndarray:
    """Return the positions of the most probable nodes at the listed levels, and of the answer.

    The answer is the last column; it is -1 for rejected samples. P are probabilities of the leaves.
    """
    found = [choose_nodes(tree, P, level, None)[0] for level in list_levels(tree)]
    answer, refused = (np.asarray(part) for part in choose_nodes(tree, P, None, below))
    return np.stack([*map(np.asarray, found), np.where(refused, -1, answer)], axis=1)


def list_ratios(
    tree: Tree, nodes: np.ndarray, true: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return numerator and denominator of each figure, one entry per sample."""
    once = np.ones(len(true))
    ratios = {}
    for level, own in zip(list_levels(tree), nodes.T, strict=False):
        right = tree.nodes[own] == tree.lift(true, level)
        ratios[f"level@{level}"] = right.astype(float), once
    answer = nodes[:, -1]
    labels = tree.nodes[np.maximum(answer, 0)]
    found = find_overlaps(tree, true, labels)
    given = (answer >= 0).astype(float)
    common, predicted = found.common * given, found.predicted * given
    ratios["tree_precision"] = common, predicted
    ratios["tree_recall"] = common, found.true.astype(float)
    ratios["tree_f1"] = 2 * common, found.true + predicted
    ratios[EDGES] = found.true + predicted - 2 * common, once
    if not np.isin(labels, tree.leaves).all() or not given.all():
        ratios["tree_held"] = (common == predicted) * given, given
    return ratios


def list_nodes(tree: Tree, true: np.ndarray, predicted: np.ndarray) -> list[dict[str, Any]]:
    """Return samples, accuracy and most frequent wrong node of each node with samples."""
    n: Counter[Any] = Counter()
    right: Counter[Any] = Counter()
    wrong: dict[Any, Counter[Any]] = {}
    pairs, counts = np.unique(
        np.stack([tree.positions(part) for part in (true, predicted)], axis=1),
        axis=0,
        return_counts=True,
    )
    for (i, j), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        own, other = (tree.path(tree.nodes[k].item()) for k in (i, j))
        for depth, node in enumerate(own):
            answer = other[min(depth, len(other) - 1)]
            n[node] += count
            if answer == node:
                right[node] += count
            else:
                wrong.setdefault(node, Counter())[answer] += count
    rows = []
    for path in sorted((tree.path(node) for node in n), key=lambda path: [*map(str, path)]):
        node = path[-1]
        most = wrong.get(node, Counter())
        answer = min(most, key=lambda other: (-most[other], str(other))) if most else None
        rows.append(
            {
                "node": node,
                "level": len(path),
                "n": n[node],
                "accuracy": right[node] / n[node],
                "wrong_answer": answer,
                "wrong_count": most[answer],
            }
        )
    return rows
