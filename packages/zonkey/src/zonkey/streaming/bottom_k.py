"""BottomK: a few raw samples of each class, those of lowest priority (a bottom-k sketch)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like

NO_LIMIT = 2**63 - 1
_COPIED = 256  # rows at a time, through a copy of them


class BottomK:
    """Up to sizes[j] samples of each class j, in the library and on the device of the samples.

    Classes, priorities and ties are on the host, sorted by class and then by priority, so that one
    sort serves all classes. The samples may fill most of the memory, so they are never copied as a
    whole unless a copy shares them. Columns of ties, the last of which counts most, break ties of
    the priority, so that the order of arrival never does.
    """

    def __init__(self, sizes: np.ndarray, n_ties: int) -> None:
        self.sizes = sizes
        # For each class, no sample with a priority below its limit has been lost.
        self.limits = np.full(len(sizes), NO_LIMIT)
        self.codes = self.priorities = np.zeros(0, np.int64)
        self.ties = np.zeros((0, n_ties))
        # Sample i is row _slots[i] of the store, so that few rows move when some are replaced.
        self._slots = np.zeros(0, np.int64)
        self._store: Any = None
        self._is_shared = False

    def offer(self, X: Array, codes: np.ndarray, priorities: np.ndarray, ties: np.ndarray) -> None:
        """Offer the samples in X; keep those of lowest priority."""
        self._take_up(X, np.arange(len(codes)), codes, priorities, ties)

    def merge(self, other: BottomK) -> None:
        """Keep the samples of lowest priority of both; `other` has the same sizes."""
        self.limits = np.minimum(self.limits, other.limits)
        X, rows = other._store, other._slots
        if X is not None:
            self._take_up(X, rows, other.codes, other.priorities, other.ties)

    def subtract(self, other: BottomK, emptied: np.ndarray) -> None:
        """Drop the samples that `other` holds, and all samples of the emptied classes.

        A removed sample that is among the lowest here is among the lowest there, so the rest is
        a (smaller) uniform choice from the remaining data. A class that was full then accepts
        only priorities up to the highest it held, because it has lost the samples above.
        """
        limits = np.minimum(self._held_limits(), other.limits)
        self.limits = np.where(emptied, NO_LIMIT, limits)
        left = _subtract_multiset(*_pair_keys(self, other))
        codes = self.codes[left]
        stays = (self.priorities[left] <= self.limits[codes]) & ~emptied[codes]
        self._hold(left[stays])

    def relabel(self, new: np.ndarray, sizes: np.ndarray) -> None:
        """Rename class j to new[j], -1 if it has no samples; sizes are those of all new classes.

        Where a class may keep fewer samples than before, the next samples taken up drop some.
        """
        limits = np.full(len(sizes), NO_LIMIT)
        limits[new[new >= 0]] = self.limits[new >= 0]
        self.limits, self.sizes, self.codes = limits, sizes, new[self.codes]
        self._hold(np.argsort(self.codes, kind="stable"))

    def copy(self) -> BottomK:
        """Return an independent copy; the samples are shared until either changes."""
        other = BottomK(self.sizes, self.ties.shape[1])
        self._is_shared = True
        vars(other).update(vars(self))
        return other

    def samples_of(self, j: int) -> Array:
        """Return a copy of the samples of class j, in order of priority."""
        start, stop = np.searchsorted(self.codes, [j, j + 1])
        xp, slots = namespace(self._store), self._slots[start:stop]
        return xp.take(self._store, place_like(slots, self._store), axis=0)

    def samples(self) -> Any:
        """Return the samples in their order, which are not copied: the next change may alter them.

        None if no sample was ever offered.
        """
        if isinstance(self._store, np.ndarray):
            if self._is_shared:
                self._own()
            free = _list_others(len(self._store), self._slots)
            _permute(self._store, np.concatenate([self._slots, free]))
            if len(free):
                self._resize(len(self._slots))
            self._slots = np.arange(len(self._slots))
        elif self._store is not None:
            if not np.array_equal(self._slots, np.arange(self._store.shape[0])):
                self._write(self._slots, self._store, self._slots[:0])
            self._slots = np.arange(len(self._slots))
        return self._store

    def parts(self) -> dict[str, Any]:
        """Return everything but the sizes; the samples are not copied."""
        names = ("limits", "codes", "priorities", "ties")
        return {"samples": self.samples(), **{name: getattr(self, name) for name in names}}

    def restore(self, parts: dict[str, Any]) -> None:
        """Restore the stored state."""
        vars(self).update({name: parts[name] for name in parts if name != "samples"})
        self._store, self._slots = parts["samples"], np.arange(len(self.codes))

    def _take_up(
        self,
        X: Array,
        rows: np.ndarray,
        codes: np.ndarray,
        priorities: np.ndarray,
        ties: np.ndarray,
    ) -> None:
        """Offer some rows of X; keep the samples of lowest priority."""
        near = np.flatnonzero(priorities <= self._held_limits()[codes])  # few, after the start
        n = len(self.codes)
        codes = np.concatenate([self.codes, codes[near]])
        priorities = np.concatenate([self.priorities, priorities[near]])
        ties = np.concatenate([self.ties, ties[near]]) if n else ties[near]
        chosen = find_lowest(codes, priorities, self.sizes, ties)
        chosen = chosen[priorities[chosen] <= self.limits[codes[chosen]]]
        is_new, slots = chosen >= n, np.empty(len(chosen), np.int64)
        kept, sources = self._slots[chosen[~is_new]], rows[near[chosen[is_new] - n]]
        slots[~is_new], slots[is_new] = self._write(kept, X, sources)
        self.codes, self.priorities = codes[chosen], priorities[chosen]
        self.ties, self._slots = ties[chosen], slots

    def _held_limits(self) -> np.ndarray:
        """Return the limit of each class, or the highest priority it may keep if it is full."""
        bounds = np.searchsorted(self.codes, np.arange(len(self.sizes) + 1))
        starts, ends = bounds[:-1], bounds[1:]
        full = (ends - starts >= self.sizes) & (self.sizes > 0)
        limits = np.where(self.sizes > 0, self.limits, -NO_LIMIT - 1)
        last = (starts + self.sizes - 1)[full]
        limits[full] = np.minimum(limits[full], self.priorities[last])
        return limits

    def _hold(self, chosen: np.ndarray) -> None:
        """Keep only these samples, which are sorted by class and priority."""
        self.codes, self.priorities = self.codes[chosen], self.priorities[chosen]
        self.ties, self._slots = self.ties[chosen], self._slots[chosen]

    def _write(
        self, kept: np.ndarray, X: Array, sources: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add rows of X to those slots of the store that are kept; return both places then."""
        n, n_new = len(kept), len(sources)
        if not isinstance(X, np.ndarray):
            # A device copies fast, and its library may not write to parts of arrays.
            xp = namespace(X)
            used = [] if self._store is None else [(self._store, kept)]
            parts = [
                xp.take(M, place_like(places, M), axis=0) for M, places in [*used, (X, sources)]
            ]
            dtype = xp.result_type(*parts)
            self._store = xp.concat([xp.astype(part, dtype, copy=False) for part in parts])
            return np.arange(n), np.arange(n, n + n_new)
        if self._store is None:
            self._store = np.empty((0, X.shape[1]), X.dtype)
        if self._is_shared and n_new:
            self._own(kept)
            kept = np.arange(n)
        if X.dtype.itemsize > self._store.dtype.itemsize and n_new:
            self._store = self._store.astype(X.dtype)
        if n + n_new > len(self._store):
            self._resize(n + n_new)
        free = _list_others(len(self._store), kept)[:n_new]
        for start in range(0, n_new, _COPIED):
            few = slice(start, start + _COPIED)
            self._store[free[few]] = X[sources[few]]
        return kept, free

    def _own(self, kept: np.ndarray | None = None) -> None:
        """Copy what is kept of a store that is shared."""
        kept = self._slots if kept is None else kept
        self._store, self._is_shared = self._store[kept], False
        self._slots = np.arange(len(kept))

    def _resize(self, n: int) -> None:
        """Resize the store to n rows in place: the system moves pages, not their content."""
        if not self._store.flags.owndata or self._is_shared:
            self._store, self._is_shared = self._store.copy(), False
        self._store.resize((n, self._store.shape[1]), refcheck=False)


def ranks_within(codes: np.ndarray) -> np.ndarray:
    """Return the place of each sample within its class; samples are sorted by class."""
    return np.arange(len(codes)) - np.searchsorted(codes, codes)


def find_lowest(
    codes: np.ndarray, priorities: np.ndarray, sizes: np.ndarray, ties: np.ndarray
) -> np.ndarray:
    """Return the positions of the samples of lowest priority, sorted by class and priority.

    Class j has sizes[j] of them. Columns of ties, the last of which counts most, break ties.
    """
    order = np.lexsort((*ties.T, priorities, codes))
    codes = codes[order]
    return order[ranks_within(codes) < sizes[codes]]


def _pair_keys(own: BottomK, other: BottomK) -> tuple[np.ndarray, np.ndarray]:
    """Return a number per sample that identifies its class and priority."""
    both = np.concatenate([own.priorities, other.priorities])
    ranks = np.unique(both, return_inverse=True)[1]
    keys = np.concatenate([own.codes, other.codes]) * len(both) + ranks
    return keys[: len(own.codes)], keys[len(own.codes) :]


def _subtract_multiset(values: np.ndarray, remove: np.ndarray) -> np.ndarray:
    """Return the positions in the sorted `values` left after removing each of `remove` once."""
    remove = np.sort(remove)
    n_removed = np.searchsorted(remove, values, "right") - np.searchsorted(remove, values)
    return np.flatnonzero(ranks_within(values) >= n_removed)


def _list_others(n: int, some: np.ndarray) -> np.ndarray:
    """Return the numbers from 0 to n - 1 that are not among some, sorted."""
    is_other = np.ones(n, bool)
    is_other[some] = False
    return np.flatnonzero(is_other)


def _permute(X: np.ndarray, order: np.ndarray) -> None:
    """Replace X by X[order] in place, one cycle after the other."""
    left = (order != np.arange(len(order))).tolist()
    sources = order.tolist()
    for start in np.flatnonzero(left).tolist():
        if not left[start]:
            continue
        first, i = X[start].copy(), start
        while sources[i] != start:
            X[i] = X[sources[i]]
            left[i], i = False, sources[i]
        X[i], left[i] = first, False
