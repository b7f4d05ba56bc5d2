"""A 64-bit hash of each row of a matrix: the same bits in every array library, on any device."""

from __future__ import annotations

import numpy as np
from array_api_compat import device, is_numpy_array

from ..linalg.arrays import Array, namespace, placed_like

# Values count in steps of this share of the largest of their row; of the 52 fraction bits of
# the largest itself, these last ones do not count.
_STEPS = 2.0**24
_ROUNDED_BITS = 20
_HALF_ROUNDED_BITS = 2**19
_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_SMALLEST_NORMAL = 2.0**-1022
# Values hashed at a time: near the cache of a processor, and enough to keep an accelerator busy.
_BLOCK = 2**20
_ACCELERATOR_BLOCK = 2**24


def row_priorities(X: Array, seed: int) -> Array:
    """Hash each row of X to 64 bits: the sum over columns of the mixed bits of its values.

    Values are rounded to 24 bits below the largest of their row, and that one to 32 bits: not
    the dtype decides, nor the last bits, in which two computations of the same row may differ.

    Returns
    -------
    array of shape (n,)
        uint64 for NumPy. Other libraries do not all have unsigned numbers: they get int64,
        which is less by 2^63, so that the order is the same.
    """
    keys = np.random.default_rng(seed).integers(2**64, size=X.shape[1] + 1, dtype=np.uint64)
    if not is_numpy_array(X):
        return _device_priorities(X, keys)
    sums = np.empty(len(X), np.uint64)
    block = max(1, _BLOCK // max(1, X.shape[1]))
    for start in range(0, len(X), block):
        rows = np.asarray(X[start : start + block], np.float64)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        steps = np.rint(rows / np.where(largest > 0, largest, 1) * _STEPS).astype(np.int64)
        size = (largest.view(np.uint64) + np.uint64(_HALF_ROUNDED_BITS)) >> np.uint64(_ROUNDED_BITS)
        bits = np.concatenate([steps.view(np.uint64), size], axis=1)
        sums[start : start + block] = _mix(bits ^ keys).sum(axis=1, dtype=np.uint64)
    return _mix(sums)


def to_unsigned(priorities: np.ndarray) -> np.ndarray:
    """Return int64 priorities, as other libraries have them, as those of NumPy."""
    return priorities.view(np.uint64) ^ np.uint64(2**63)


def _device_priorities(X: Array, keys: np.ndarray) -> Array:
    """Return the same with int64 numbers, whose products and sums wrap around alike."""
    xp = namespace(X)
    of_values = placed_like(keys[:-1].view(np.int64), X)
    of_size = placed_like(keys[-1:].view(np.int64), X)
    n, d = X.shape
    block = max(1, (_BLOCK if str(device(X)) == "cpu" else _ACCELERATOR_BLOCK) // d)
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
    """Spread every input bit over all output bits (the finalizer of SplitMix64)."""
    for shift, factor in _MIXERS:
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    return h ^ (h >> np.uint64(_LAST_SHIFT))


def _mix_signed(h: Array) -> Array:
    for shift, factor in _MIXERS:
        h = (h ^ _shifted(h, shift)) * (factor - 2**64)
    return h ^ _shifted(h, _LAST_SHIFT)


def _shifted(h: Array, shift: int) -> Array:
    # A signed shift repeats the sign; an unsigned one, which is wanted, brings in zeros.
    return (h >> shift) & (2 ** (64 - shift) - 1)


def _bits_of(values: Array) -> Array:
    """Return the bits of float64 numbers of at least 0 as int64."""
    xp = namespace(values)
    if hasattr(values, "view"):
        return values.view(xp.int64)
    # The standard has no other view of the same memory: bring the number into [1, 2), exactly,
    # by powers of two, and count them.
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
