"""A tree above class labels: paths, levels, distances, and probabilities that add up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .arrays import Array, sum_columns
from .labels import as_labels, format_labels, format_value, require_same_kind

_WHAT = "Nodes of a tree"


class Tree:
    """Nodes with at most one parent each; several of them may be at the top.

    The nodes without children are its leaves: the classes that a model chooses from. Nodes at the
    top are at level 1. They have no common node above them, but count as one apart from it in
    distances. Immutable: methods that change something return a new object.

    Parameters
    ----------
    parents : mapping or Tree
        The parent of each node, ``{label: parent}``; None for nodes at the top, which may also be
        left out if they are a parent. Labels are all strings or all numbers.

    See Also
    --------
    Prototypes : Takes such a mapping as its parameter `parents`.
    AnyShotClassifier : Predicts nodes at a level, paths, and as deep as it is sure.

    Examples
    --------
    >>> from zonkey import Tree
    >>> tree = Tree({"zebra": "horse", "pony": "horse", "horse": "animal", "oak": None})
    >>> tree.leaves.tolist(), tree.path("zebra"), tree.distance(["zebra"], ["oak"]).tolist()
    (['oak', 'pony', 'zebra'], ('animal', 'horse', 'zebra'), [4])
    """

    def __init__(self, parents: Any) -> None:
        if isinstance(parents, Tree):
            self._nodes, self._up = parents._nodes, parents._up
            return
        if not isinstance(parents, Mapping) or not parents:
            raise TypeError(
                "A tree must be a nonempty mapping {label: parent}, with None for nodes at the "
                f"top; got {format_value(parents)}. Pass dict(zip(labels, parents)), for example."
            )
        keys, above = [*parents], [None if is_missing(p) else p for p in parents.values()]
        named = [parent for parent in above if parent is not None]
        every = as_labels([*keys, *named], _WHAT)
        children, named = every[: len(keys)], every[len(keys) :]
        self._nodes = np.unique(every)
        rows = np.searchsorted(self._nodes, children)
        repeated = np.flatnonzero(np.bincount(rows) > 1)
        if repeated.size:
            raise ValueError(
                "A node of a tree must have one parent; "
                f"{format_labels(self._nodes[repeated])} came more than once. Keep one."
            )
        self._up = np.full(len(self._nodes), -1)
        has_parent = np.array([parent is not None for parent in above])
        self._up[rows[has_parent]] = np.searchsorted(self._nodes, named)
        self._freeze()

    def _freeze(self) -> None:
        _refuse_cycles(self._nodes, self._up)
        self._nodes.flags.writeable = False
        self._up.flags.writeable = False

    @classmethod
    def _from_rows(cls, nodes: np.ndarray, up: np.ndarray) -> Tree:
        """Return the tree of sorted nodes, and positions of their parents, -1 at the top."""
        tree = cls.__new__(cls)
        tree._nodes, tree._up = nodes.copy(), up.copy()
        tree._freeze()
        return tree

    def __zonkey_parts__(self) -> dict[str, Any]:
        return {"nodes": self._nodes, "up": self._up}

    @classmethod
    def __zonkey_make__(cls, parts: dict[str, Any]) -> Tree:
        nodes, up = as_labels(parts["nodes"], _WHAT), np.asarray(parts["up"], np.intp)
        inside = up.shape == nodes.shape and ((up >= -1) & (up < len(nodes))).all()
        if not inside or (nodes[1:] <= nodes[:-1]).any():
            raise ValueError("The nodes of a tree are damaged.")
        return cls._from_rows(nodes, up)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree._from_rows, (self._nodes, self._up)

    # Nodes.

    @property
    def nodes(self) -> np.ndarray:
        """Labels of all nodes, sorted."""
        return self._nodes

    @cached_property
    def leaves(self) -> np.ndarray:
        """Labels of the nodes without children, sorted."""
        return self._nodes[self._leaf_rows]

    @cached_property
    def inner(self) -> np.ndarray:
        """Labels of the nodes with children, sorted."""
        return np.setdiff1d(self._nodes, self.leaves)

    @cached_property
    def depths(self) -> np.ndarray:
        """Level of each node, in the order of `nodes`; 1 is the top."""
        return (self._lineage >= 0).sum(axis=1)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self._lineage.shape[1]

    @property
    def parents(self) -> dict[Any, Any]:
        """The parent of each node, None at the top."""
        above = [None if i < 0 else self._nodes[i].item() for i in self._up]
        return dict(zip(self._nodes.tolist(), above, strict=True))

    def positions(self, labels: Any) -> np.ndarray:
        """Return the positions of labels among the nodes; refuse unknown ones.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Nodes.

        Returns
        -------
        ndarray of shape (n,)
            Positions in `nodes`.
        """
        labels = as_labels(labels)
        require_same_kind(labels=labels, nodes=self._nodes)
        rows = np.minimum(np.searchsorted(self._nodes, labels), len(self._nodes) - 1)
        unknown = labels[self._nodes[rows] != labels]
        if unknown.size:
            raise ValueError(
                f"A node must be in the tree; got {format_labels(np.unique(unknown))}, and it has "
                f"{format_labels(self._nodes)}. Correct the label."
            )
        return rows

    def path(self, node: Any) -> tuple[Any, ...]:
        """Return the nodes from the top to a node.

        Parameters
        ----------
        node : label
            A node.

        Returns
        -------
        tuple of labels
            The path, which ends with the node.
        """
        above = self._lineage[self.positions([node])[0]]
        return tuple(self._nodes[above[above >= 0]].tolist())

    def children(self, node: Any = None) -> np.ndarray:
        """Return the children of a node, or the nodes at the top.

        Parameters
        ----------
        node : label, default=None
            A node; None for the top.

        Returns
        -------
        ndarray
            Labels, sorted.
        """
        row = -1 if node is None else self.positions([node])[0]
        return self._nodes[self._up == row]

    def leaves_below(self, node: Any) -> np.ndarray:
        """Return the leaves below a node; a leaf has only itself.

        Parameters
        ----------
        node : label
            A node.

        Returns
        -------
        ndarray
            Labels, sorted.
        """
        return self.leaves[self.membership[[self.positions([node])[0]]].indices]

    def at_level(self, level: int) -> np.ndarray:
        """Return the nodes at a level, and the leaves above it, which stand for themselves.

        Parameters
        ----------
        level : int
            Level from 1; beyond the last, all leaves.

        Returns
        -------
        ndarray
            Labels, sorted.
        """
        return self._nodes[np.unique(self._rows_at(self._leaf_rows, level))]

    def lift(self, labels: Any, level: int) -> np.ndarray:
        """Return the node at a level above each label, which stands for itself if above it.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Nodes.
        level : int
            Level from 1.

        Returns
        -------
        ndarray of shape (n,)
            Labels of nodes.
        """
        return self._nodes[self._rows_at(self.positions(labels), level)]

    # Pairs of nodes.

    def common_depth(self, a: Any, b: Any) -> np.ndarray:
        """Return the level of the lowest common node of pairs, 0 if only the root is above both.

        Parameters
        ----------
        a, b : array-like of shape (n,)
            Nodes.

        Returns
        -------
        ndarray of int of shape (n,)
            Levels.
        """
        first, second = (self._lineage[self.positions(labels)] for labels in (a, b))
        return ((first == second) & (first >= 0)).sum(axis=1)

    def lowest_common(self, a: Any, b: Any) -> Any:
        """Return the lowest node above both, or None.

        Parameters
        ----------
        a, b : label
            Nodes; a node is above itself.

        Returns
        -------
        label or None
            The lowest common node.
        """
        depth = int(self.common_depth([a], [b])[0])
        return self.path(a)[depth - 1] if depth else None

    def distance(self, a: Any, b: Any) -> np.ndarray:
        """Return the number of edges between pairs of nodes.

        Parameters
        ----------
        a, b : array-like of shape (n,)
            Nodes.

        Returns
        -------
        ndarray of int of shape (n,)
            Distances.
        """
        own, other = (self.depths[self.positions(labels)] for labels in (a, b))
        return own + other - 2 * self.common_depth(a, b)

    # Probabilities.

    @cached_property
    def membership(self) -> sparse.csr_array:
        """Which leaves are below each node: 1 per pair, shape (n_nodes, n_leaves)."""
        above = self._lineage[self._leaf_rows]
        leaf, level = np.nonzero(above >= 0)
        shape = len(self._nodes), len(self._leaf_rows)
        found = sparse.csr_array((np.ones(len(leaf)), (above[leaf, level], leaf)), shape=shape)
        found.sort_indices()
        return found

    def sum_leaves(self, P: Array, level: int | None = None) -> Any:
        """Return the probabilities of nodes, which are sums over the leaves below.

        Parameters
        ----------
        P : array of shape (n_samples, n_leaves)
            Probabilities of `leaves`, of any array library.
        level : int, default=None
            Return those of `at_level(level)`; None for all `nodes`.

        Returns
        -------
        array of shape (n_samples, n_nodes)
            Sums.
        """
        rows = slice(None) if level is None else self.positions(self.at_level(level))
        return sum_columns(P, self.membership[rows])

    # Other trees.

    def restrict(self, labels: Any) -> Tree:
        """Return the tree of some nodes and of the nodes above them.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels; those that the tree does not have are at the top.

        Returns
        -------
        Tree
            The smaller tree.
        """
        labels = np.unique(as_labels(labels))
        require_same_kind(labels=labels, nodes=self._nodes)
        known = labels[np.isin(labels, self._nodes)]
        rows = np.unique(self._lineage[self.positions(known)]) if known.size else np.arange(0)
        rows = rows[rows >= 0]
        nodes = np.union1d(self._nodes[rows], labels) if rows.size else labels
        up = np.full(len(nodes), -1)
        above = self._up[rows]
        places = np.searchsorted(nodes, self._nodes[rows])
        up[places[above >= 0]] = np.searchsorted(nodes, self._nodes[above[above >= 0]])
        return Tree._from_rows(nodes, up)

    def extend(self, other: Tree) -> Tree:
        """Return a tree that also has the nodes of another one.

        Parameters
        ----------
        other : Tree
            Further nodes. Those in both must have the same parent, or be at the top of one.

        Returns
        -------
        Tree
            The larger tree.
        """
        require_same_kind(nodes=self._nodes, others=other._nodes)
        joined = self.parents
        for node, parent in other.parents.items():
            known = joined.get(node)
            if known is not None and parent not in (None, known):
                raise ValueError(
                    f"A node of a tree must have one parent; that of {format_value(node)} is "
                    f"{format_value(known)}, and now {format_value(parent)}. Keep one."
                )
            joined[node] = parent if known is None else known
        return Tree(joined)

    def __len__(self) -> int:
        return len(self._nodes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        same = np.array_equal(self._nodes, other._nodes)
        return same and np.array_equal(self._up, other._up)

    __hash__ = None  # type: ignore[assignment]  # compared by value, like arrays

    def __repr__(self) -> str:
        counts = f"{len(self.leaves)} leaves, {len(self) - len(self.leaves)} inner nodes"
        return f"Tree({counts}, {self.n_levels} levels)"

    @cached_property
    def _leaf_rows(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self._nodes)), self._up)

    @cached_property
    def _lineage(self) -> np.ndarray:
        """Position of the node at each level above each node, then -1: (n_nodes, n_levels)."""
        steps, row = [], np.arange(len(self._nodes))
        while (row >= 0).any():
            steps.append(row)
            row = np.where(row >= 0, self._up[row], -1)
        upward = np.stack(steps, axis=1)  # from the node to the top
        depths = (upward >= 0).sum(axis=1)
        columns = depths[:, None] - 1 - np.arange(len(steps))[None, :]
        found = np.take_along_axis(upward, np.maximum(columns, 0), axis=1)
        return np.where(columns >= 0, found, -1)

    def _rows_at(self, rows: np.ndarray, level: int) -> np.ndarray:
        if isinstance(level, bool) or not isinstance(level, int | np.integer) or level < 1:
            raise ValueError(
                f"`level` must be a whole number from 1, the top; got {format_value(level)}. The "
                f"tree has {self.n_levels} levels."
            )
        return self._lineage[rows, np.minimum(self.depths[rows], level) - 1]


def is_missing(parent: Any) -> bool:
    """Whether a table has no parent in a place: None, NaN or blank."""
    if isinstance(parent, str):
        return not parent.strip()
    return parent is None or bool(parent != parent)


def _refuse_cycles(nodes: np.ndarray, up: np.ndarray) -> None:
    above = up
    for _ in range(len(up).bit_length()):  # 1, 2, 4, ... steps up
        above = np.where(above >= 0, above[above], -1)
    inside = np.flatnonzero(above >= 0)
    if not inside.size:
        return
    row, cycle = int(above[inside[0]]), []
    while row not in cycle:
        cycle.append(row)
        row = int(up[row])
    names = " -> ".join(format_value(nodes[i]) for i in [*cycle[:4], row])
    raise ValueError(
        f"A node of a tree must not be above itself; got {names}{' ...' * (len(cycle) > 4)} from "
        "node to parent. Correct one of these parents."
    )
