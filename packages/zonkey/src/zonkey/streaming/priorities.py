"""Priorities of samples: a hash of their values, by which a few of them are chosen at random.

Choosing the samples of lowest priority is uniform for data that is not adversarial, exact under
merging, and invariant to sample order, chunking and array library. A classical reservoir draws a
random number per arrival and is not invariant.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, positions_like
from ..blocks import run_in_parts
from ..samples import sample_blocks

# Values are rounded to this share of the largest value of their row. Of the 52 fraction bits of
# the largest value itself, the last ones are dropped.
_STEPS = 2.0**24
_ROUNDED_BITS = 20
_HALF_ROUNDED_BITS = 2**19
_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_SMALLEST_NORMAL = 2.0**-1022
SIGN = np.uint64(2**63)  # order of uint64 <-> order of int64
# Adding it rounds a value of at most 1 to multiples of 1 / _STEPS, half to even, and leaves their
# number in the last bits.
_ROUNDING = 1.5 * 2.0**52 / _STEPS
_ROUNDING_BITS = np.float64(_ROUNDING).view(np.uint64)
_CACHED = 2**17  # numbers that stay in the cache of a core during all steps of the hash


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
    return (_mix(sums) ^ SIGN).view(np.int64)


def _row_sums(X: np.ndarray, keys: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the sums of mixed bits of some rows.

    A few rows at a time stay in the cache, where all steps are done in place.
    """
    d = X.shape[1]
    sums = np.empty(stop - start, np.uint64)
    values = np.empty((min(len(sums), max(1, _CACHED // max(1, d))), d))
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
    sums = [positions_like(0, X)]
    for block in sample_blocks(X, copies=6):
        rows = xp.astype(X[block, :], xp.float64, copy=False)
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
