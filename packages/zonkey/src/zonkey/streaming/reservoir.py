"""Reservoir: a few raw samples per class, chosen at random but independently of their order.

Every sample gets a priority, a hash of its values and a seed. A class keeps the samples of lowest
priority (a bottom-k sketch). The choice is uniform for data that is not adversarial, exact under
merging, and invariant to sample order, chunking and array library. A classical reservoir, which
draws a random number per arrival, is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import device

from ..arrays import Array, namespace, place_like, positions_like, to_numpy
from ..blocks import run_in_parts

_NO_LIMIT = 2**63 - 1
# Values are rounded to this share of the largest value of their row. Of the 52 fraction bits of
# the largest value itself, the last ones are dropped.
_STEPS = 2.0**24
_ROUNDED_BITS = 20
_HALF_ROUNDED_BITS = 2**19
_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_SMALLEST_NORMAL = 2.0**-1022
_SIGN = np.uint64(2**63)  # order of uint64 <-> order of int64
# Pages with a smaller share of used rows are written anew, up to so many numbers at a time. Pages
# of fewer numbers are joined.
_LEAST_USED, _PAGE, _MOST_WRITTEN = 0.75, 2**21, 2**24
# Adding it rounds a value of at most 1 to multiples of 1 / _STEPS, half to even, and leaves their
# number in the last bits.
_ROUNDING = 1.5 * 2.0**52 / _STEPS
_ROUNDING_BITS = np.float64(_ROUNDING).view(np.uint64)
# Values hashed at a time: those that fit into the cache of a core, and enough to keep an
# accelerator busy.
_BLOCK = 2**17
_DEVICE_BLOCK = 2**20
_ACCELERATOR_BLOCK = 2**24


class Reservoir:
    """Up to `size` samples for each of `n_classes` classes, on the device of `like`.

    Samples, classes and priorities, sorted by class and then by priority, hold everything: one sort
    serves all classes. On a GPU a loop over a thousand classes would take longer than all other
    work.
    """

    def __init__(self, n_classes: int, size: int, seed: int, like: Array) -> None:
        xp = namespace(like)
        self.size = size
        self.seed = seed
        none = xp.zeros((0, like.shape[1]), dtype=like.dtype, device=device(like))
        self._rows = _PagedRows.from_array(none)
        self._codes: Any = positions_like(0, like)
        self._priorities: Any = positions_like(0, like)
        # No sample with a priority below the limit of its class has been lost.
        self._limits: Any = xp.full(n_classes, _NO_LIMIT, dtype=xp.int64, device=device(like))
        self._bounds = np.zeros(n_classes + 1, np.int64)  # of each class in the arrays

    def update(self, X: Array, codes: Array) -> None:
        """Offer the rows of X, whose classes are `codes`."""
        if not X.shape[0] or not self.size:
            return
        xp, priorities = namespace(X), row_priorities(X, self.seed)
        # A full class rejects most rows at once. The rest is chosen twice, so that the rows of X
        # are never all copied.
        is_near = priorities <= xp.take(self._held_limits(), codes, axis=0)
        near = positions_like(X.shape[0], X)[is_near]
        parts = (xp.take(M, near, axis=0) for M in (codes, priorities, X[:, 0], X[:, -1]))
        chosen = xp.take(near, self._find_lowest(*parts), axis=0)
        codes, priorities = (xp.take(M, chosen, axis=0) for M in (codes, priorities))
        self._add(_PagedRows.from_array(xp.take(X, chosen, axis=0)), codes, priorities)

    def merge(self, other: Reservoir) -> None:
        """Add the samples of a reservoir of the same size and seed."""
        self._limits = namespace(self._limits).minimum(self._limits, other._limits)
        self._add(other._rows, other._codes, other._priorities)

    def subtract(self, other: Reservoir, emptied: np.ndarray) -> None:
        """Drop the samples that `other` holds, and all samples of the emptied classes.

        A removed sample that is among the lowest here is among the lowest there, so the rest is
        a (smaller) uniform choice from the remaining data. A class that was full then accepts
        only priorities up to the highest it held, because it has lost the samples above.
        """
        xp = namespace(self._limits)
        limits = xp.minimum(self._held_limits(), other._limits)
        is_emptied = place_like(emptied, self._limits)
        self._limits = xp.where(is_emptied, xp.full_like(limits, _NO_LIMIT), limits)
        left = _multiset_difference(*_pair_keys(self, other))
        codes = xp.take(self._codes, left, axis=0)
        stays = xp.take(self._priorities, left, axis=0) <= xp.take(self._limits, codes, axis=0)
        self._hold(left[stays & ~xp.take(is_emptied, codes, axis=0)])

    def relabel(self, n_classes: int, old: np.ndarray, new: np.ndarray) -> Reservoir:
        """Return the same samples with class old[i] renamed new[i]."""
        xp = namespace(self._limits)
        other = Reservoir(n_classes, self.size, self.seed, self._rows.pages[0])
        source = np.full(n_classes, -1)
        source[new] = old
        limits = xp.take(self._limits, place_like(np.maximum(source, 0), self._limits), axis=0)
        is_known = place_like(source >= 0, self._limits)
        other._limits = xp.where(is_known, limits, other._limits)
        names = np.zeros(len(self._bounds) - 1, np.int64)
        names[old] = new
        other._rows, other._priorities = self._rows, self._priorities
        other._codes = xp.take(place_like(names, self._limits), self._codes, axis=0)
        other._hold(xp.argsort(other._codes, stable=True))
        return other

    def samples(self, j: int) -> Array:
        """Return the samples kept for class j, in order of priority."""
        return self._to_array()[int(self._bounds[j]) : int(self._bounds[j + 1]), :]

    def to_numpy(self) -> Reservoir:
        """Return the same samples in host memory."""
        return Reservoir.from_arrays(self.to_arrays(), self.size, self.seed)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as flat NumPy arrays, for saving."""
        return {
            "reserve_rows": to_numpy(self._to_array()),
            "reserve_priorities": to_numpy(self._priorities).view(np.uint64) ^ _SIGN,
            "reserve_lengths": np.diff(self._bounds),
            "reserve_limits": to_numpy(self._limits).view(np.uint64) ^ _SIGN,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], size: int, seed: int) -> Reservoir:
        """Rebuild a reservoir from `to_arrays`."""
        lengths = arrays["reserve_lengths"]
        reservoir = cls(len(lengths), size, seed, arrays["reserve_rows"])
        reservoir._rows = _PagedRows.from_array(arrays["reserve_rows"])
        reservoir._codes = np.repeat(np.arange(len(lengths)), lengths)
        for name in ("priorities", "limits"):
            unsigned = arrays[f"reserve_{name}"]
            setattr(reservoir, f"_{name}", (unsigned ^ _SIGN).view(np.int64))
        reservoir._bounds = np.concatenate([[0], np.cumsum(lengths)])
        return reservoir

    def _to_array(self) -> Array:
        """Return all samples as one array, which stands for them from then on."""
        whole = self._rows.whole()
        self._rows = _PagedRows.from_array(whole)
        return whole

    def _held_limits(self) -> Array:
        """Return the limit of each class, or the highest priority it holds if it is full."""
        full = np.diff(self._bounds) == self.size
        if not self._codes.shape[0] or not full.any():
            return self._limits
        xp = namespace(self._limits)
        last = place_like(np.maximum(self._bounds[1:] - 1, 0), self._limits)
        highest = xp.take(self._priorities, last, axis=0)
        is_full = place_like(full, self._limits)
        return xp.where(is_full, xp.minimum(self._limits, highest), self._limits)

    def _add(self, rows: _PagedRows, codes: Array, priorities: Array) -> None:
        xp = namespace(codes)
        self._rows = self._rows.join(rows)
        self._codes = xp.concat([self._codes, codes])
        self._priorities = xp.concat([self._priorities, priorities])
        self._hold(self._find_lowest(self._codes, self._priorities, *self._rows.ends()))

    def _find_lowest(self, codes: Array, priorities: Array, first: Array, last: Array) -> Array:
        """Return the positions to keep, sorted by class and priority.

        Values break ties of the hash, so that the order of arrival never does.
        """
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
        """Keep only these positions, which are sorted by class."""
        xp = namespace(self._codes)
        self._rows = self._rows.kept(positions)
        self._codes = xp.take(self._codes, positions, axis=0)
        self._priorities = xp.take(self._priorities, positions, axis=0)
        classes = positions_like(len(self._bounds), self._codes)
        self._bounds = to_numpy(xp.searchsorted(self._codes, classes))


@dataclass(frozen=True, eq=False)
class _PagedRows:
    """Rows in some order, in pages that are never changed, so that copies share them.

    Replacing a few rows copies a few rows. One array would be copied as a whole, which takes longer
    than the products of a chunk if a thousand classes keep their samples. `slots` are the places of
    the rows in the pages, counted through all of them; on a device they are 0, 1, 2, ...
    """

    pages: list[Any]
    slots: np.ndarray

    @classmethod
    def from_array(cls, rows: Array) -> _PagedRows:
        """Return the rows of an array."""
        return cls([rows], np.arange(rows.shape[0]))

    def ends(self) -> tuple[Array, Array]:
        """Return the first and the last value of each row."""
        xp = namespace(*self.pages)
        first, last = (xp.concat([page[:, i] for page in self.pages]) for i in (0, -1))
        if not isinstance(first, np.ndarray):
            return first, last
        return first[self.slots], last[self.slots]

    def join(self, other: _PagedRows) -> _PagedRows:
        """Return these rows and then others."""
        xp = namespace(*self.pages)
        used = [part for part in (self, other) if len(part.slots)] or [other]
        dtype = xp.result_type(*(part.pages[0] for part in used))
        pages = [page for part in used for page in part.pages]
        n = sum(page.shape[0] for page in used[0].pages)
        slots = [part.slots + i * n for i, part in enumerate(used)]
        return _PagedRows([xp.astype(p, dtype, copy=False) for p in pages], np.concatenate(slots))

    def kept(self, positions: Array) -> _PagedRows:
        """Return the rows at some positions; pages that are mostly unused are written anew.

        On a device, which copies fast and must not wait for the host, there is one page.
        """
        if not isinstance(self.pages[0], np.ndarray):
            xp = namespace(*self.pages)
            return _PagedRows.from_array(xp.take(xp.concat(self.pages), positions, axis=0))
        return self._kept(np.asarray(positions))

    def _kept(self, positions: np.ndarray) -> _PagedRows:
        slots = self.slots[positions]
        is_used = np.zeros(sum(page.shape[0] for page in self.pages), bool)
        is_used[slots] = True
        pages, start, places = [self.pages[0][:0, :]], 0, np.empty(len(is_used), np.int64)
        n = written = 0  # rows in the new pages; numbers written
        for page in self.pages:
            size = len(page)
            used = np.flatnonzero(is_used[start : start + size])
            # Not many at a time, which would all be in memory twice.
            if not len(used) or (len(used) < _LEAST_USED * size and written < _MOST_WRITTEN):
                page = page[used]
                written += page.size
                places[start + used] = n + np.arange(len(used))
            else:
                places[start : start + size] = n + np.arange(size)
            start, n = start + size, n + len(page)
            if (len(pages[-1]) + len(page)) * page.shape[1] <= _PAGE:
                pages[-1] = np.concatenate([pages[-1], page])
            else:
                pages.append(page)
        return _PagedRows([page for page in pages if len(page)] or pages[:1], places[slots])

    def whole(self) -> Array:
        """Return the rows as one array."""
        first = self.pages[0]
        if len(self.pages) == 1 and np.array_equal(self.slots, np.arange(first.shape[0])):
            return first
        rows = np.empty((len(self.slots), first.shape[1]), first.dtype)
        start = 0
        for page in self.pages:
            here = np.flatnonzero((self.slots >= start) & (self.slots < start + len(page)))
            rows[here] = page[self.slots[here] - start]
            start += len(page)
        return rows


def _pair_keys(own: Reservoir, other: Reservoir) -> tuple[Array, Array]:
    """Return a number per sample that identifies its class and priority."""
    xp = namespace(own._codes)
    both = xp.concat([own._priorities, other._priorities])
    ranks = xp.unique_inverse(both).inverse_indices
    keys = xp.concat([own._codes, other._codes]) * both.shape[0] + ranks
    n = own._codes.shape[0]
    return keys[:n], keys[n:]


def _multiset_difference(values: Array, remove: Array) -> Array:
    """Return the positions in the sorted `values` left after removing each of `remove` once."""
    xp = namespace(values)
    remove = xp.sort(remove)
    n_removed = xp.searchsorted(remove, values, side="right") - xp.searchsorted(remove, values)
    positions = positions_like(values.shape[0], values)
    repeat = positions - xp.searchsorted(values, values)
    return positions[repeat >= n_removed]


def row_priorities(X: Array, seed: int) -> Array:
    """Hash each row of X to an int64: the sum over columns of the mixed bits of its values.

    Values are rounded to 24 bits below the largest value of their row, and that one to 32 bits.
    So neither the dtype nor the last bits, which depend on the machine, change the hash.
    """
    keys = np.random.default_rng(seed).integers(2**64, size=X.shape[1] + 1, dtype=np.uint64)
    if not isinstance(X, np.ndarray):
        return _device_priorities(X, keys)
    n, d = X.shape
    sums = np.concatenate(run_in_parts(partial(_row_sums, X, keys), n, d, X))
    return (_mix(sums) ^ _SIGN).view(np.int64)


def _row_sums(X: np.ndarray, keys: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the sums of mixed bits of some rows.

    A few rows at a time stay in the cache, where all steps are done in place.
    """
    d = X.shape[1]
    sums = np.empty(stop - start, np.uint64)
    values = np.empty((min(len(sums), max(1, _BLOCK // max(1, d))), d))
    shifted = np.empty(values.shape, np.uint64)
    for first in range(0, len(sums), max(1, len(values))):
        rows = X[start + first : min(start + first + len(values), stop)]
        v, spare = values[: len(rows)], shifted[: len(rows)]
        np.copyto(v, rows)
        largest = np.abs(np.maximum(v.max(axis=1), -v.min(axis=1)))  # not -0.0
        v /= np.where(largest > 0, largest, 1)[:, None]
        v += _ROUNDING
        steps = v.view(np.uint64)
        steps -= _ROUNDING_BITS
        steps ^= keys[:-1]
        _mix_in_place(steps, spare)
        size = (largest.view(np.uint64) + np.uint64(_HALF_ROUNDED_BITS)) >> np.uint64(_ROUNDED_BITS)
        sums[first : first + len(rows)] = np.add.reduce(steps, axis=1) + _mix(size ^ keys[-1])
    return sums


def _device_priorities(X: Array, keys: np.ndarray) -> Array:
    """Compute the same hash with int64, because not every library has unsigned integers."""
    xp = namespace(X)
    of_values = place_like(keys[:-1].view(np.int64), X)
    of_size = place_like(keys[-1:].view(np.int64), X)
    n, d = X.shape
    block = max(1, (_DEVICE_BLOCK if str(device(X)) == "cpu" else _ACCELERATOR_BLOCK) // d)
    sums = []
    for start in range(0, n, block):
        rows = xp.astype(X[start : min(start + block, n), :], xp.float64, copy=False)
        largest = xp.max(xp.abs(rows), axis=1)
        scale = xp.where(largest > 0, largest, xp.ones_like(largest))
        steps = xp.astype(xp.round(rows / scale[:, None] * _STEPS), xp.int64)
        size = (_bits_of(largest) + _HALF_ROUNDED_BITS) >> _ROUNDED_BITS
        mixed = xp.sum(_mix_signed(steps ^ of_values), axis=1)
        sums.append(mixed + _mix_signed(size ^ of_size))
    return _mix_signed(xp.concat(sums)) ^ -(2**63)


def _mix(h: np.ndarray) -> np.ndarray:
    """Spread every input bit over all output bits (finalizer of SplitMix64)."""
    h = h.copy()
    _mix_in_place(h, np.empty_like(h))
    return h


def _mix_in_place(h: np.ndarray, spare: np.ndarray) -> None:
    for shift, factor in _MIXERS:
        h ^= np.right_shift(h, np.uint64(shift), out=spare)
        h *= np.uint64(factor)
    h ^= np.right_shift(h, np.uint64(_LAST_SHIFT), out=spare)


def _mix_signed(h: Any) -> Any:
    for shift, factor in _MIXERS:
        h = (h ^ _shift(h, shift)) * (factor - 2**64)
    return h ^ _shift(h, _LAST_SHIFT)


def _shift(h: Any, shift: int) -> Array:
    # A signed shift repeats the sign bit; the mask makes it an unsigned shift.
    return (h >> shift) & (2 ** (64 - shift) - 1)


def _bits_of(values: Any) -> Array:
    """Return the bits of nonnegative float64 numbers as int64."""
    xp = namespace(values)
    if hasattr(values, "view"):
        return values.view(xp.int64)
    # The standard cannot reinterpret memory: scale the number into [1, 2) by powers of two, which
    # is exact, and count them.
    fraction = values
    exponent = xp.astype(xp.zeros_like(values), xp.int64)
    for power in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        for is_off, sign in ((fraction >= 2.0**power, 1), (fraction < 2.0 ** (1 - power), -1)):
            fraction = xp.where(is_off, fraction * 2.0 ** (-sign * power), fraction)
            exponent = exponent + sign * power * xp.astype(is_off, xp.int64)
    bits = (exponent + 1023) * 2**52 + xp.astype((fraction - 1) * 2.0**52, xp.int64)
    is_normal = values >= _SMALLEST_NORMAL
    steps = xp.where(is_normal, xp.zeros_like(values), values) * 2.0**537 * 2.0**537
    return xp.where(is_normal, bits, xp.astype(steps, xp.int64))
