"""Class labels as arrays: all text or all numbers, none missing."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from ..linalg.arrays import Array, is_device_array, namespace, placed_like, to_numpy


def as_labels(labels: Any, name: str = "Labels", *, ndim: int = 1) -> np.ndarray:
    """Return labels as an array of strings or of numbers, never of objects.

    Accepts lists, arrays, pandas and polars Series, and sets. `name` is used in errors.
    """
    if isinstance(labels, Set):
        labels = list(labels)  # NumPy would wrap a set as one object
    # As objects: NumPy would turn a mix of numbers and strings into strings.
    array = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    if array.ndim != ndim:
        shape = "one-dimensional" if ndim == 1 else f"{ndim}-dimensional"
        entry = "label for each entry" if ndim == 1 else "row for each sample"
        raise ValueError(f"{name} must be {shape}; got shape {array.shape}. Pass one {entry}.")
    if array.dtype.kind in "OT":
        array = _without_objects(array)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            f"{name} must not be missing; {int(np.isnan(array).sum())} of {array.size} are NaN. "
            "Drop those rows."
        )
    if array.dtype.kind in "iufbU":
        return array
    kinds = sorted({type(label).__name__ for label in array.ravel().tolist()})
    raise TypeError(
        f"{name} must be all strings or all numbers; got {', '.join(kinds)}. Drop missing labels "
        "and convert the others to one type, for example with [str(label) for label in labels]."
    )


def require_same_kind(**arrays: np.ndarray) -> None:
    """Refuse to compare text with numbers: "1" never equals 1."""
    given = {name: labels for name, labels in arrays.items() if labels.size}
    kinds = {labels.dtype.kind == "U" for labels in given.values()}
    if len(kinds) > 1:
        examples = ", ".join(f"{name} like {labels.flat[0]!r}" for name, labels in given.items())
        raise ValueError(
            f"Labels must be of one kind to be compared; got {examples}. Convert them to one type."
        )


def require_label_array(y: Array, name: str = "Labels", *, ndim: int = 1) -> None:
    """Refuse a device array that cannot hold labels."""
    xp = namespace(y)
    if y.ndim != ndim:
        raise ValueError(
            f"{name} must be {ndim}-dimensional; got shape {tuple(y.shape)}. Pass one per sample."
        )
    if xp.isdtype(y.dtype, "complex floating"):
        raise TypeError(f"{name} must be real numbers; got dtype {y.dtype}. Convert them.")
    if xp.isdtype(y.dtype, "real floating") and bool(xp.any(xp.isnan(y))):
        raise ValueError(f"{name} must not be missing; some are NaN. Drop those rows.")


def distinct(y: Any, name: str = "Labels") -> np.ndarray:
    """Return the distinct labels, sorted, as a NumPy array."""
    if not is_device_array(y):
        return np.unique(as_labels(y, name))
    require_label_array(y, name)
    return to_numpy(namespace(y).unique_values(y))


def comparable(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays of numbers in one dtype, as the array API requires for comparison."""
    xp = namespace(*arrays)
    exact = all(xp.isdtype(array.dtype, ("bool", "integral")) for array in arrays)
    dtype = xp.int64 if exact else xp.float64
    # Copy: torch warns if it searches a non-contiguous array.
    return tuple(xp.astype(array, dtype, copy=True) for array in arrays)


def placed_labels(labels: np.ndarray, like: Array) -> Array:
    """Return numeric labels on the device of `like`, and text unchanged."""
    if labels.dtype.kind == "U" or not is_device_array(like):
        return labels
    # Not every library supports unsigned integers.
    return placed_like(labels.astype(np.int64) if labels.dtype.kind == "u" else labels, like)


def positions_among(known: np.ndarray, y: Array) -> Array:
    """Return the position in the sorted NumPy array `known` of each label on a device."""
    require_label_array(y)
    if y.shape[0]:
        require_same_kind(labels=to_numpy(y[:1]), prototypes=known)
    xp = namespace(y)
    on_device, y = comparable(placed_labels(known, y), y)
    found = xp.searchsorted(on_device, y)
    found = xp.where(found < len(known), found, xp.zeros_like(found))
    missing = xp.take(on_device, found, axis=0) != y
    if bool(xp.any(missing)):
        raise ValueError(
            f"No prototype for the class {listed(distinct(y[missing]))}; every label needs one of "
            f"the {len(known)} known: {listed(known)}. Add the missing rows to the prototypes or "
            "drop those samples."
        )
    return found


def encoded(y: Any, like: Array) -> tuple[np.ndarray, Array]:
    """Return the distinct labels, and the position of each label on the device of `like`."""
    if is_device_array(y) and is_device_array(like):
        labels = distinct(y)
        return labels, positions_among(labels, placed_like(y, like))
    y = to_numpy(y) if is_device_array(y) else y
    labels, codes = np.unique(as_labels(y), return_inverse=True)
    return labels, placed_like(codes, like)


def listed(labels: np.ndarray, most: int = 5) -> str:
    """Format the first few labels for an error message."""
    shown = ", ".join(repr(label) for label in labels[:most].tolist())
    return shown if len(labels) <= most else f"{shown}, ... ({len(labels)} in all)"


def _without_objects(array: np.ndarray) -> np.ndarray:
    """Convert an object array whose entries are all text or all numbers."""
    entries = array.ravel().tolist()
    if all(isinstance(label, str) for label in entries):
        return np.asarray(entries, dtype=str).reshape(array.shape)
    if all(isinstance(label, int | float | np.number | np.bool_) for label in entries):
        return np.asarray(entries).reshape(array.shape)
    return array
