"""Class labels as arrays: all text or all numbers, none missing."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np


def as_labels(labels: Any, name: str = "Labels", *, ndim: int = 1) -> np.ndarray:
    """Return labels as an array of strings or of numbers, never of objects.

    Parameters
    ----------
    labels : array-like or set
        List, array, pandas or polars Series; a set where their order has no meaning.
    name : str
        What to call them in an error message.
    ndim : int
        Required number of dimensions.
    """
    if isinstance(labels, Set):
        labels = list(labels)  # NumPy would wrap a set as one single object
    # As objects: NumPy would turn a list of both numbers and strings into strings.
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
    """Refuse to compare text with numbers: "1" never equals 1, and the answer would mislead."""
    given = {name: labels for name, labels in arrays.items() if labels.size}
    kinds = {labels.dtype.kind == "U" for labels in given.values()}
    if len(kinds) > 1:
        examples = ", ".join(f"{name} like {labels.flat[0]!r}" for name, labels in given.items())
        raise ValueError(
            f"Labels must be of one kind to be compared; got {examples}. Convert them to one type."
        )


def listed(labels: np.ndarray, most: int = 5) -> str:
    """Write the first few labels for an error message."""
    shown = ", ".join(repr(label) for label in labels[:most].tolist())
    return shown if len(labels) <= most else f"{shown}, ... ({len(labels)} in all)"


def _without_objects(array: np.ndarray) -> np.ndarray:
    """Give an array of objects the type of its entries where they are all text or all numbers."""
    entries = array.ravel().tolist()
    if all(isinstance(label, str) for label in entries):
        return np.asarray(entries, dtype=str).reshape(array.shape)
    if all(isinstance(label, int | float | np.number | np.bool_) for label in entries):
        return np.asarray(entries).reshape(array.shape)
    return array
