"""Learn from samples labeled at inner nodes of a tree: they count for the classes below.

How much a sample counts for each of these classes is their probability for this sample, among them.
The other samples, and prototypes, tell it first; then so do the samples themselves, in a few steps
of expectation maximization.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import is_device_array, to_numpy
from ..constraints import weight_vector
from ..labels import as_labels, format_labels
from ..samples import pick_rows
from ..streaming.accept import as_chunks
from ..tree import Tree
from .state import AnyShotState

_ROUNDS = 3
_MOST = 64  # classes that a sample counts for
_LEAST = 0.05  # of the most probable class; a sample does not count for less probable ones


@dataclass(frozen=True, eq=False)
class InnerLabels:
    """Samples in memory, some of which are labeled at inner nodes."""

    tree: Tree
    X: Any
    labels: np.ndarray
    is_inner: np.ndarray

    def split(self, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of classes and those of inner nodes; without rows that do not count."""
        used = self._weigh(weights) != 0
        used |= not used.any()  # refused later
        return np.flatnonzero(used & ~self.is_inner), np.flatnonzero(used & self.is_inner)

    def select(self, rows: np.ndarray, weights: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return some samples, their labels and weights."""
        return pick_rows(self.X, rows), self.labels[rows], self._weigh(weights)[rows]

    def _weigh(self, weights: Any) -> np.ndarray:
        n = len(self.labels)
        every = np.ones(n) if weights is None else to_numpy(weight_vector(weights))
        if every.shape != (n,):
            raise ValueError(
                f"`sample_weight` must have one entry for each of the {n} samples; got shape "
                f"{every.shape}. Pass one number per sample."
            )
        return every


def find_inner(tree: Tree | None, X: Any, y: Any, *, transfer: Any = False) -> InnerLabels | None:
    """Return samples in memory of which some are labeled at inner nodes, None if none is."""
    if tree is None or y is None or as_chunks(X, None) is not None:
        return None
    labels = to_numpy(y) if is_device_array(y) else as_labels(y)
    if labels.shape != (np.shape(X)[:1]) or (labels.dtype.kind == "U") != (
        tree.nodes.dtype.kind == "U"
    ):
        return None  # refused later
    is_inner = np.isin(labels, tree.inner)
    if not is_inner.any():
        return None
    if transfer:
        raise ValueError(
            "With `transfer`, samples must be labeled by classes without children; got "
            f"{format_labels(np.unique(labels[is_inner]))}. Leave those samples out."
        )
    return InnerLabels(tree, X, labels, is_inner)


def list_below(state: AnyShotState, labels: np.ndarray) -> np.ndarray:
    """Return the labels, of inner nodes those of the known classes below."""
    inner = labels[:0] if state.tree is None else np.intersect1d(labels, state.tree.inner)
    if state.tree is None or not inner.size:
        return labels
    tree = state.tree.restrict(np.union1d(inner, state.evidence.known()))
    below = [tree.leaves_below(node) for node in inner.tolist()]
    return np.unique(np.concatenate([np.setdiff1d(labels, inner), *below]))


def fit_shared(model: Any, found: InnerLabels, weights: Any, validation: Any) -> AnyShotState:
    """Return the state of a model fitted on samples some of which are labeled at inner nodes."""
    leaves, inner = found.split(weights)
    rows = found.select(inner, weights)
    if leaves.size:
        model.fit(*found.select(leaves, weights), validation=validation)
    elif model.space == "joint" and validation is None:
        model.fit(rows[0])  # names tell the classes apart
    else:
        nodes = rows[1].tolist()
        below = {node: found.tree.leaves_below(node) for node in {*nodes}}
        equal = [np.full(len(below[node]), 1 / len(below[node])) for node in nodes]
        model.fit(*_repeat(rows, [below[node] for node in nodes], equal), validation=validation)
        return model.state_
    return _learn_nodes(model, found.tree, *rows)


def learn_shared(model: Any, found: InnerLabels, weights: Any) -> AnyShotState:
    """Return the state of a model after further samples, some of them labeled at inner nodes."""
    leaves, inner = found.split(weights)
    other = copy.copy(model)
    if leaves.size:
        X, y, own = found.select(leaves, weights)
        other.partial_fit(X, y, sample_weight=own)
    return _learn_nodes(other, found.tree, *found.select(inner, weights))


def _learn_nodes(
    start: Any, tree: Tree, X: Any, nodes: np.ndarray, weights: np.ndarray
) -> AnyShotState:
    """Share samples of inner nodes among the classes below them, and learn from the shares."""
    model = start
    for _ in range(_ROUNDS if len(nodes) else 0):
        X_shared, y, own = _repeat((X, nodes, weights), *_share(model, tree, X, nodes))
        model = copy.copy(start)
        model.partial_fit(X_shared, y, sample_weight=own)
    return model.state_


def _share(
    model: Any, tree: Tree, X: Any, nodes: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the classes that each sample counts for, and how much."""
    model = model.with_priors(None)  # those are of samples to classify
    state, n = model.state_, len(nodes)
    labels: list[np.ndarray] = [nodes[:0]] * n
    shares: list[np.ndarray] = [np.ones(0)] * n
    for node in np.unique(nodes).tolist():
        below, rows = tree.leaves_below(node), np.flatnonzero(nodes == node)
        known = np.intersect1d(below, state.evidence.known())
        if known.size:
            with warnings.catch_warnings():  # equal centers share equally
                warnings.filterwarnings("ignore", message="Classes should have different centers")
                among = model.with_candidates(known.tolist())
            P = to_numpy(among.predict_proba(pick_rows(X, rows))).astype(np.float64)
        else:
            known = below
            P = np.full((len(rows), len(below)), 1 / len(below))
        for row, p in zip(rows.tolist(), P, strict=True):
            best = np.sort(np.argsort(-p, kind="stable")[: max(_MOST, np.sum(p == p.max()))])
            best = best[p[best] >= _LEAST * p.max()]
            labels[row], shares[row] = known[best], p[best] / p[best].sum()
    return labels, shares


def _repeat(
    samples: tuple[Any, np.ndarray, np.ndarray],
    labels: list[np.ndarray],
    shares: list[np.ndarray],
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return each sample once per class that it counts for, with its share of the weight."""
    X, _, weights = samples
    rows = np.repeat(np.arange(len(weights)), [len(own) for own in labels])
    return pick_rows(X, rows), np.concatenate(labels), weights[rows] * np.concatenate(shares)
