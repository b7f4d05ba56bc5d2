"""Class labels as arrays: all text or all numbers, none missing."""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Set
from numbers import Integral
from typing import Any
from unicodedata import is_normalized, normalize

import numpy as np

from .arrays import Array, is_device_array, namespace, place_like, require_values, to_numpy

_PLAIN = 0x300  # below this code point, no text changes under NFC
_LARGEST = int(np.iinfo(np.int64).max)
_EXACT = 2**53  # up to it, a double holds every whole number
_OURS = "zonkey", "zonkey_lab"  # packages whose calls must not be named in a warning

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def as_labels(labels: Any, name: str = "Labels", *, ndim: int = 1) -> np.ndarray:
    """Return labels as an array of strings or of numbers, never of objects.

    Accepts lists, arrays, tensors, pandas and polars Series, and sets. Text is normalized to the
    Unicode form NFC, so that an accent has one spelling. `name` is used in errors.
    """
    if isinstance(labels, Set):
        labels = list(labels)  # NumPy would wrap a set as one object
    require_values(labels, name)
    if is_device_array(labels):
        labels = to_numpy(labels)
    # As objects: NumPy would turn a mix of numbers and strings into strings.
    array = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    if array.ndim != ndim:
        shape = "one-dimensional" if ndim == 1 else f"{ndim}-dimensional"
        entry = "label for each sample, or a list" if ndim == 1 else "row for each sample"
        raise ValueError(f"{name} must be {shape}; got shape {array.shape}. Pass one {entry}.")
    if array.dtype.kind in "OT":
        array = _convert_objects(array, name)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            f"{name} must not be missing; {int(np.isnan(array).sum())} of {array.size} are NaN. "
            "Drop those rows."
        )
    if array.dtype.kind in "iufb":
        return array
    if array.dtype.kind == "U":
        return _normalize_text(array, name)
    kinds = sorted({type(label).__name__ for label in array.ravel().tolist()})
    remedy = "convert the others to one type, for example with [str(label) for label in labels]"
    if "bytes" in kinds:
        remedy = "decode bytes, for example with [label.decode() for label in labels]"
    raise TypeError(
        f"{name} must be all strings or all numbers; got {', '.join(kinds)}. Drop missing labels "
        f"and {remedy}."
    )


def _convert_objects(array: np.ndarray, name: str) -> np.ndarray:
    """Convert an object array whose entries are all text or all numbers."""
    entries = array.ravel().tolist()
    if all(isinstance(label, str) for label in entries):
        return np.asarray(entries, dtype=str).reshape(array.shape)
    if not all(isinstance(label, int | float | np.number | np.bool_) for label in entries):
        return array
    whole = [int(label) for label in entries if isinstance(label, int | np.integer)]
    largest = max(whole, key=abs, default=0)
    if abs(largest) <= _EXACT:
        return np.asarray(entries).reshape(array.shape)
    # NumPy would turn large integers of both signs, or next to fractions, into floats, which
    # merges some of them.
    for dtype in (np.int64, np.uint64) if len(whole) == len(entries) else ():
        if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
            return np.asarray(whole, dtype=dtype).reshape(array.shape)
    raise ValueError(
        f"{name} must be numbers that one 64-bit type holds exactly; got {format_value(largest)}. "
        "Convert them to text, for example with [str(label) for label in labels]."
    )


def _normalize_text(array: np.ndarray, name: str) -> np.ndarray:
    """Return text in the Unicode form NFC, with a warning if that changes something."""
    codes = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(np.uint32)
    if not codes.size or codes.max() < _PLAIN:
        return array
    texts = array.ravel().tolist()
    changed = {t: normalize("NFC", t) for t in set(texts) if not is_normalized("NFC", t)}
    if not changed:
        return array
    first = min(changed)
    warn_user(
        f"{name} must have one spelling; {len(changed)}, such as {ascii(first)[:60]}, were changed "
        f"to the Unicode form NFC, {ascii(changed[first])[:60]}. Normalize labels with "
        'unicodedata.normalize("NFC", label).'
    )
    return np.asarray([changed.get(t, t) for t in texts], dtype=str).reshape(array.shape)


def normalize_label(label: Any) -> Any:
    """Return a label as `as_labels` spells it."""
    return normalize("NFC", label) if isinstance(label, str) else label


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def require_same_kind(**arrays: np.ndarray) -> None:
    """Refuse to compare text with numbers: "1" never equals 1."""
    given = {name: labels for name, labels in arrays.items() if labels.size}
    kinds = {labels.dtype.kind == "U" for labels in given.values()}
    if len(kinds) > 1:
        examples = ", ".join(
            f"{name} like {format_value(labels.flat[0])}" for name, labels in given.items()
        )
        raise ValueError(
            f"Labels must be of one kind to be compared; got {examples}. Convert them to one type."
        )


def require_label_array(y: Array, name: str = "Labels", *, ndim: int = 1) -> None:
    """Refuse a device array that cannot hold labels."""
    require_values(y, name)
    xp = namespace(y)
    if y.ndim != ndim:
        raise ValueError(
            f"{name} must be {ndim}-dimensional; got shape {tuple(y.shape)}. Pass one per sample."
        )
    if xp.isdtype(y.dtype, "complex floating"):
        raise TypeError(f"{name} must be real numbers; got dtype {y.dtype}. Convert them.")
    if xp.isdtype(y.dtype, "real floating") and bool(xp.any(xp.isnan(y))):
        raise ValueError(f"{name} must not be missing; some are NaN. Drop those rows.")


def list_distinct(y: Any, name: str = "Labels") -> np.ndarray:
    """Return the distinct labels, sorted, as a NumPy array."""
    if not is_device_array(y):
        return np.unique(as_labels(y, name))
    require_label_array(y, name)
    return to_numpy(namespace(y).unique_values(y))


def make_comparable(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays of numbers in one dtype, as the array API requires for comparison."""
    xp = namespace(*arrays)
    exact = all(xp.isdtype(array.dtype, ("bool", "integral")) for array in arrays)
    dtype = xp.int64 if exact else xp.float64
    # Copy: torch warns if it searches a non-contiguous array.
    return tuple(xp.astype(array, dtype, copy=True) for array in arrays)


def join_labels(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the labels of both, sorted, each once."""
    if not own.size or not other.size:
        return np.unique(other if other.size else own)
    require_same_kind(labels=own, others=other)
    if own.dtype.kind != other.dtype.kind:  # NumPy would turn some large integers into floats
        return np.unique(as_labels([*own.tolist(), *other.tolist()]))
    return np.union1d(own, other)


def places_among(known: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the positions of labels in the sorted `known`, which has them all."""
    # NumPy would compare integers of two types as floats.
    return np.searchsorted(known, labels.astype(known.dtype, copy=False))


def place_labels(labels: np.ndarray, like: Array) -> Array:
    """Return numeric labels on the device of `like`, and text unchanged."""
    if labels.dtype.kind == "U" or not is_device_array(like):
        return labels
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) > _LARGEST:
        raise ValueError(
            f"Labels on a device must be at most {_LARGEST}; got {labels.max()}. Number the "
            "classes from 0, or use NumPy arrays."
        )
    # Not every library supports unsigned integers.
    return place_like(labels.astype(np.int64) if labels.dtype.kind == "u" else labels, like)


def positions_among(known: np.ndarray, y: Array) -> Array:
    """Return the position in the sorted NumPy array `known` of each label on a device."""
    require_label_array(y)
    if y.shape[0]:
        require_same_kind(labels=to_numpy(y[:1]), prototypes=known)
    xp = namespace(y)
    on_device, y = make_comparable(place_labels(known, y), y)
    found = xp.searchsorted(on_device, y)
    found = xp.where(found < len(known), found, xp.zeros_like(found))
    missing = xp.take(on_device, found, axis=0) != y
    if bool(xp.any(missing)):
        raise ValueError(
            f"No prototype for the class {format_labels(list_distinct(y[missing]))}; every label "
            f"needs one of the {len(known)} known: {format_labels(known)}. Add the missing rows to "
            "the prototypes or drop those samples."
        )
    return found


def encode_labels(y: Any, like: Array) -> tuple[np.ndarray, Array]:
    """Return the distinct labels, and the position of each label on the device of `like`."""
    if is_device_array(y) and is_device_array(like):
        labels = list_distinct(y)
        return labels, positions_among(labels, place_like(y, like))
    y = to_numpy(y) if is_device_array(y) else y
    labels, codes = np.unique(as_labels(y), return_inverse=True)
    return labels, place_like(codes, like)


def format_labels(labels: np.ndarray, most: int = 5) -> str:
    """Format the first few labels for an error message, long ones cut in the middle."""
    names = ", ".join(format_value(label) for label in labels[:most].tolist())
    return names if len(labels) <= most else f"{names}, ... ({len(labels)} in all)"


def format_value(value: Any) -> str:
    """Format any value for an error message, in one line of bounded length."""
    plain = value.item() if isinstance(value, np.generic) else value
    return " ".join(_short.repr(plain).split())


def check_count(name: str, value: Any, minimum: int) -> int:
    """Return an integer of at least `minimum` as a plain one."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum:
        return int(value)
    raise ValueError(
        f"`{name}` must be an integer of at least {minimum}; got {format_value(value)}. "
        f"Pass {minimum} or a larger whole number."
    )
