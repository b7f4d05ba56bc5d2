"""Answers at the nodes of a tree: at a level, or as deep as a model is sure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, sum_columns, take_rows
from ..tree import Tree


def choose_nodes(
    tree: Tree, P: Array, level: int | None, below: float | None
) -> tuple[Array, Array]:
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
    Q = sum_columns(P, tree.membership[above])
    # Depths differ by 1, so that half a probability only decides between equal ones.
    depths = xp.astype(place_like(tree.depths[above], P), P.dtype)
    order = xp.where(below <= Q, depths[None, :] + Q / 2, xp.zeros_like(Q))
    found = take_rows(place_like(above, P), xp.argmax(order, axis=1))
    return xp.where(refused, found, rows), refused & (xp.max(order, axis=1) == 0)


def find_above(tree: Tree, level: int | None) -> np.ndarray:
    """Return the positions of inner nodes above a level; None for all."""
    inner = tree.positions(tree.inner) if len(tree.inner) else np.arange(0)
    return inner if level is None else inner[tree.depths[inner] < level]


def list_paths(tree: Tree, labels: np.ndarray) -> np.ndarray:
    """Return the path to each label as a tuple; that of a label outside the tree is empty."""
    nodes, distinct = {*tree.nodes.tolist()}, np.unique(labels).tolist()
    found: Any = {label: tree.path(label) if label in nodes else () for label in distinct}
    paths = np.empty(len(labels), object)
    paths[:] = [found[label] for label in labels.tolist()]
    return paths
