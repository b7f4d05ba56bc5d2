"""A few raw samples a class, chosen at random and yet the same for any order of the data.

Every sample gets a priority computed from its own values and a seed, and a class keeps the
samples of lowest priority (a bottom-k sketch). The choice is uniform for data that are not
adversarial, exact under merging, and does not depend on chunks, order or arrival, which a
classical reservoir, that draws a number for each arrival, cannot offer.
"""

from __future__ import annotations

import numpy as np

from .priorities import row_priorities

_NO_LIMIT = np.uint64(2**64 - 1)


class Reservoir:
    """Up to `size` samples for each of `n_classes` classes."""

    def __init__(self, n_classes: int, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self._rows: list[np.ndarray | None] = [None] * n_classes
        self._priorities: list[np.ndarray] = [np.empty(0, np.uint64)] * n_classes
        # No sample of a priority below its class's limit has been lost.
        self._limits = np.full(n_classes, _NO_LIMIT)

    def update(self, X: np.ndarray, codes: np.ndarray) -> None:
        """Offer the rows of X, whose classes are `codes`."""
        if not len(X) or not self.size:
            return
        priorities = row_priorities(X, self.seed)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for block in np.split(order, starts[1:]):
            self._offer(int(codes[block[0]]), X, block, priorities[block])

    def _offer(self, j: int, X: np.ndarray, block: np.ndarray, priorities: np.ndarray) -> None:
        if len(block) > self.size:
            # Ties at the boundary survive this cut, for the full order to decide below.
            cut = np.partition(priorities, self.size - 1)[self.size - 1]
            block, priorities = block[priorities <= cut], priorities[priorities <= cut]
        self._keep(j, X[block], priorities)

    def _keep(self, j: int, rows: np.ndarray | None, priorities: np.ndarray) -> None:
        parts = [part for part in (self._rows[j], rows) if part is not None]
        if not parts:
            return
        rows = np.concatenate(parts)
        priorities = np.concatenate([self._priorities[j], priorities])
        # The values break ties of the hash, so that the order of arrival never does.
        best = np.lexsort((rows[:, -1], rows[:, 0], priorities))[: self.size]
        best = best[priorities[best] <= self._limits[j]]
        self._rows[j], self._priorities[j] = rows[best], priorities[best]

    def merge(self, other: Reservoir) -> None:
        """Take in the samples of another reservoir of the same size and seed."""
        np.minimum(self._limits, other._limits, out=self._limits)
        for j, rows in enumerate(other._rows):
            self._keep(j, rows, other._priorities[j])

    def subtract(self, other: Reservoir, emptied: np.ndarray) -> None:
        """Drop the samples that `other` holds, and all samples of the emptied classes.

        A sample of the removed data that is among the lowest here is among the lowest
        there, so that what stays is a (smaller) uniform choice from the remaining data.
        To keep it so, a class that was full accepts, from then on, only priorities up to the
        highest it held: of the remaining samples above it has none.
        """
        np.minimum(self._limits, other._limits, out=self._limits)
        for j, rows in enumerate(self._rows):
            if emptied[j]:
                self._rows[j], self._priorities[j] = None, np.empty(0, np.uint64)
                self._limits[j] = _NO_LIMIT
            elif rows is not None:
                priorities = self._priorities[j]
                if len(rows) == self.size:
                    self._limits[j] = min(self._limits[j], priorities[-1])
                left = _multiset_difference(priorities, other._priorities[j])
                left = left[priorities[left] <= self._limits[j]]
                self._rows[j], self._priorities[j] = rows[left], priorities[left]

    def relabeled(self, n_classes: int, old: np.ndarray, new: np.ndarray) -> Reservoir:
        """Return the same samples with class old[i] renamed new[i]."""
        reservoir = Reservoir(n_classes, self.size, self.seed)
        reservoir._limits[new] = self._limits[old]
        for i, j in zip(old, new, strict=True):
            reservoir._rows[j], reservoir._priorities[j] = self._rows[i], self._priorities[i]
        return reservoir

    def samples(self, j: int, n_features: int) -> np.ndarray:
        """Return the samples kept for class j, in order of priority."""
        rows = self._rows[j]
        return np.empty((0, n_features)) if rows is None else rows

    def to_arrays(self, n_features: int) -> dict[str, np.ndarray]:
        """Return all that is kept as flat arrays, for saving."""
        lengths = np.array([len(p) for p in self._priorities])
        rows = [rows for rows in self._rows if rows is not None]
        return {
            "reserve_rows": np.concatenate(rows) if rows else np.empty((0, n_features)),
            "reserve_priorities": np.concatenate([np.empty(0, np.uint64), *self._priorities]),
            "reserve_lengths": lengths,
            "reserve_limits": self._limits,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], size: int, seed: int) -> Reservoir:
        """Rebuild a reservoir from `to_arrays`."""
        lengths = arrays["reserve_lengths"]
        reservoir = cls(len(lengths), size, seed)
        reservoir._limits = arrays["reserve_limits"]
        ends = np.cumsum(lengths)
        for j, (length, end) in enumerate(zip(lengths, ends, strict=True)):
            if length:
                span = slice(end - length, end)
                reservoir._rows[j] = arrays["reserve_rows"][span]
                reservoir._priorities[j] = arrays["reserve_priorities"][span]
        return reservoir


def _multiset_difference(values: np.ndarray, remove: np.ndarray) -> np.ndarray:
    """Return the positions in `values` left after taking out each of `remove` once."""
    taken, counts = np.unique(remove, return_counts=True)
    budget = dict(zip(taken.tolist(), counts.tolist(), strict=True))
    left = []
    for i, value in enumerate(values.tolist()):
        if budget.get(value, 0):
            budget[value] -= 1
        else:
            left.append(i)
    return np.array(left, dtype=np.intp)
