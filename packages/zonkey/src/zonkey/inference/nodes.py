"""Answers at the nodes of a tree: at a level, or as deep as a model is sure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import (
    Array,
    is_device_array,
    namespace,
    place_like,
    sum_columns,
    take_rows,
    to_numpy,
)
from ..tree import Tree


def choose_nodes(tree: Tree, P: Array, level: int | None, below: float | None) -> tuple[Any, Any]:
    """Return the position among the nodes of each answer, and whether no node is probable enough.

    The answer is the most probable leaf, or node at a level. If its probability is less than
    `below`, it is the deepest node above that level whose probability is not; of several, the most
    probable one. P are the probabilities of the leaves.
    """
    xp = namespace(P)
    cut = tree.positions(tree.leaves if level is None else tree.at_level(level))
    Q = P if level is None else sum_columns(P, tree.membership[cut])
    rows, highest = take_rows(place_like(cut, P), xp.argmax(Q, axis=1)), xp.max(Q, axis=1)
    refused = highest < (0.0 if below is None else below)
    above = find_above(tree, level)
    if below is None or not above.size:
        return rows, refused
    if is_device_array(P):
        found, is_sure = _find_deepest(tree, P, above, below)
        return xp.where(refused & is_sure, found, rows), refused & ~is_sure
    left = np.flatnonzero(to_numpy(refused))  # sums of many nodes take longer than all else
    found, is_sure = _find_deepest(tree, to_numpy(P)[left], above, below)
    rows, refused = to_numpy(rows), to_numpy(refused)
    rows[left], refused[left] = np.where(is_sure, found, rows[left]), ~to_numpy(is_sure)
    return rows, refused


def _find_deepest(tree: Tree, P: Array, above: np.ndarray, below: float) -> tuple[Any, Any]:
    """Return the deepest of some nodes that is probable enough, and whether any is."""
    xp = namespace(P)
    Q = sum_columns(P, tree.membership[above])
    # Depths differ by 1, so that half a probability only decides between equal ones.
    depths = xp.astype(place_like(tree.depths[above], P), P.dtype)
    order = xp.where(below <= Q, depths[None, :] + Q / 2, xp.zeros_like(Q))
    found = take_rows(place_like(above, P), xp.argmax(order, axis=1))
    return found, xp.max(order, axis=1) > 0


def list_answers(tree: Tree, P: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return thresholds, and how many right and how many answers each adds to the accepted ones.

    The lower the threshold, the deeper the answer, which then takes the place of a node above: that
    one is counted off. So sums from the highest threshold on tell what is accepted. An answer is
    right if it is the true class or above it; those to samples of no leaf are wrong.
    """
    known = np.isin(true, tree.leaves)
    sure, ones = P.max(axis=1), np.ones(len(true))
    added = [(sure, tree.leaves[P.argmax(axis=1)] == true, ones)]
    above = find_above(tree, None)
    for level in np.unique(tree.depths[above])[::-1].tolist():
        rows = above[tree.depths[above] == level]
        Q = to_numpy(sum_columns(P, tree.membership[rows]))
        highest, best = Q.max(axis=1), tree.nodes[rows[Q.argmax(axis=1)]]
        right = np.zeros(len(true))
        right[known] = best[known] == tree.lift(true[known], level)
        first = highest > sure
        added.append((highest[first], right[first], ones[first]))
        added.append((sure[first], -right[first], -ones[first]))
        sure = np.maximum(sure, highest)
    thresholds, right, n = (np.concatenate(part) for part in zip(*added, strict=True))
    return thresholds.astype(np.float64), right, n


def find_above(tree: Tree, level: int | None) -> np.ndarray:
    """Return the positions of inner nodes above a level; None for all."""
    inner = tree.positions(tree.inner) if len(tree.inner) else np.arange(0)
    return inner if level is None else inner[tree.depths[inner] < level]


def list_paths(tree: Tree, labels: np.ndarray) -> np.ndarray:
    """Return the path to each label as a tuple; that of a label outside the tree is empty."""
    nodes, distinct = {*tree.nodes.tolist()}, np.unique(labels).tolist()
    found: Any = {label: tree.path(label) if label in nodes else () for label in distinct}
    paths = np.empty(len(labels), object)
    for i, label in enumerate(labels.tolist()):  # NumPy would spread paths of one length
        paths[i] = found[label]
    return paths
