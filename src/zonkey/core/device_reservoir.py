"""The reservoir for samples on a device: the same choice, without a loop over classes.

All that is kept is in three arrays, sorted by class and then by priority, so that one sort
serves all classes; on a GPU, a step for each of a thousand classes would take longer than all
the other work.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import device

from ..linalg.arrays import Array, namespace, placed_like, positions_like, to_numpy
from .priorities import row_priorities, to_unsigned
from .reservoir import Reservoir

_NO_LIMIT = 2**63 - 1


class DeviceReservoir:
    """Up to `size` samples for each of `n_classes` classes, on the device of `like` (n x d).

    Does what `Reservoir` does, whose comments say why; priorities are those of int64.
    """

    def __init__(self, n_classes: int, size: int, seed: int, like: Array) -> None:
        xp = namespace(like)
        self.size = size
        self.seed = seed
        self._rows: Array = xp.zeros((0, like.shape[1]), dtype=like.dtype, device=device(like))
        self._codes: Array = positions_like(0, like)
        self._priorities: Array = positions_like(0, like)
        self._limits: Array = xp.full(n_classes, _NO_LIMIT, dtype=xp.int64, device=device(like))
        self._bounds = np.zeros(n_classes + 1, np.int64)  # of each class in the three arrays

    def update(self, X: Array, codes: Array) -> None:
        """Offer the rows of X, whose classes are `codes`."""
        if X.shape[0] and self.size:
            self._offer(X, codes, row_priorities(X, self.seed))

    def merge(self, other: DeviceReservoir) -> None:
        """Take in the samples of another reservoir of the same size and seed."""
        xp = namespace(self._rows)
        self._limits = xp.minimum(self._limits, other._limits)
        self._offer(other._rows, other._codes, other._priorities)

    def subtract(self, other: DeviceReservoir, emptied: np.ndarray) -> None:
        """Drop the samples that `other` holds, and all samples of the emptied classes."""
        xp = namespace(self._rows)
        limits = xp.minimum(self._limits, other._limits)
        is_emptied = placed_like(emptied, self._rows)
        full = np.diff(self._bounds) == self.size
        if self._codes.shape[0]:
            last = placed_like(np.maximum(self._bounds[1:] - 1, 0), self._rows)
            highest = xp.take(self._priorities, last, axis=0)
            is_full = placed_like(full, self._rows)
            limits = xp.where(is_full, xp.minimum(limits, highest), limits)
        self._limits = xp.where(is_emptied, xp.full_like(limits, _NO_LIMIT), limits)
        left = _multiset_difference(*_pair_keys(self, other))
        codes = xp.take(self._codes, left, axis=0)
        stays = xp.take(self._priorities, left, axis=0) <= xp.take(self._limits, codes, axis=0)
        self._hold(left[stays & ~xp.take(is_emptied, codes, axis=0)])

    def relabeled(self, n_classes: int, old: np.ndarray, new: np.ndarray) -> DeviceReservoir:
        """Return the same samples with class old[i] renamed new[i]."""
        xp = namespace(self._rows)
        other = DeviceReservoir(n_classes, self.size, self.seed, self._rows)
        source = np.full(n_classes, -1)
        source[new] = old
        limits = xp.take(self._limits, placed_like(np.maximum(source, 0), self._rows), axis=0)
        is_known = placed_like(source >= 0, self._rows)
        other._limits = xp.where(is_known, limits, other._limits)
        names = np.zeros(len(self._bounds) - 1, np.int64)
        names[old] = new
        other._rows, other._priorities = self._rows, self._priorities
        other._codes = xp.take(placed_like(names, self._rows), self._codes, axis=0)
        other._hold(xp.argsort(other._codes, stable=True))
        return other

    def samples(self, j: int, n_features: int) -> Array:  # noqa: ARG002
        """Return the samples kept for class j, in order of priority."""
        return self._rows[int(self._bounds[j]) : int(self._bounds[j + 1]), :]

    def to_numpy(self) -> Reservoir:
        """Return the same samples on the host."""
        arrays = {
            "reserve_rows": to_numpy(self._rows),
            "reserve_priorities": to_unsigned(to_numpy(self._priorities)),
            "reserve_lengths": np.diff(self._bounds),
            "reserve_limits": to_unsigned(to_numpy(self._limits)),
        }
        return Reservoir.from_arrays(arrays, self.size, self.seed)

    def _offer(self, X: Array, codes: Array, priorities: Array) -> None:
        xp = namespace(X)
        # Chosen twice, so that never all the rows of X are copied.
        chosen = self._lowest(codes, priorities, X[:, 0], X[:, -1])
        dtype = xp.result_type(self._rows, X) if self._rows.shape[0] else X.dtype
        rows = (self._rows, xp.take(X, chosen, axis=0))
        self._rows = xp.concat([xp.astype(part, dtype, copy=False) for part in rows])
        self._codes = xp.concat([self._codes, xp.take(codes, chosen, axis=0)])
        self._priorities = xp.concat([self._priorities, xp.take(priorities, chosen, axis=0)])
        ends = self._rows[:, 0], self._rows[:, -1]
        self._hold(self._lowest(self._codes, self._priorities, *ends))

    def _lowest(self, codes: Array, priorities: Array, first: Array, last: Array) -> Array:
        """Return the positions of those to keep, sorted by class and priority."""
        xp = namespace(codes)
        order = xp.argsort(last, stable=True)
        for key in (first, priorities, codes):
            order = xp.take(order, xp.argsort(xp.take(key, order, axis=0), stable=True), axis=0)
        codes, priorities = xp.take(codes, order, axis=0), xp.take(priorities, order, axis=0)
        starts = xp.searchsorted(codes, positions_like(self._limits.shape[0], codes))
        rank = positions_like(codes.shape[0], codes) - xp.take(starts, codes, axis=0)
        within = priorities <= xp.take(self._limits, codes, axis=0)
        return order[(rank < self.size) & within]

    def _hold(self, positions: Array) -> None:
        """Keep only what stands at these positions, which are sorted by class."""
        xp = namespace(self._rows)
        self._rows = xp.take(self._rows, positions, axis=0)
        self._codes = xp.take(self._codes, positions, axis=0)
        self._priorities = xp.take(self._priorities, positions, axis=0)
        classes = positions_like(len(self._bounds), self._codes)
        self._bounds = to_numpy(xp.searchsorted(self._codes, classes))


def _pair_keys(own: DeviceReservoir, other: DeviceReservoir) -> tuple[Array, Array]:
    """Return a number for each sample that is the same for the same class and priority."""
    xp = namespace(own._codes)
    both = xp.concat([own._priorities, other._priorities])
    ranks = xp.unique_inverse(both).inverse_indices
    keys = xp.concat([own._codes, other._codes]) * both.shape[0] + ranks
    n = own._codes.shape[0]
    return keys[:n], keys[n:]


def _multiset_difference(values: Array, remove: Array) -> Array:
    """Return the positions in the sorted `values` left after taking out each of `remove` once."""
    xp = namespace(values)
    remove = xp.sort(remove)
    n_removed = xp.searchsorted(remove, values, side="right") - xp.searchsorted(remove, values)
    positions = positions_like(values.shape[0], values)
    repeat = positions - xp.searchsorted(values, values)
    return positions[repeat >= n_removed]
