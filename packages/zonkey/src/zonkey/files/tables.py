"""Read features and labels that are arrays in files."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..labels import as_labels, format_value
from .columns import FEATURE_KEYS
from .dataset import LazyMatrix, require_one_label_per_row
from .readers import (
    StoredArray,
    contents,
    find_exact_limit,
    pick_named,
    read_text,
    require_existing,
    stored_arrays,
    translate_errors,
)

LABEL_KEYS = ("labels", "y", "targets", "target", "label")
_HEADINGS = (*LABEL_KEYS, "class")

# Features


def read_features(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
) -> tuple[LazyMatrix, np.ndarray | None]:
    """Open a file of feature arrays; the features are read on first use.

    Parameters
    ----------
    path : str or Path
        File in the format `.npz`, `.npy` (memory-mapped), `.h5`, `.hdf5`, `.pt` or `.pth` (tensors
        only: no code of the file is run), or a zarr store, `.zarr` or `.zarr.zip`. float16 becomes
        float32.
    labels : str or Path, default=None
        File of the labels, if they are not in `path`: `.npy`, `.txt` (one per line) or `.csv` (one
        column; a first line such as `label` is a heading).
    features_key : str, default=None
        Name of the features in the file. By default a usual name such as `features` or `X`, else
        the only matrix.
    labels_key : str, default=None
        Name of the labels in the file. By default a usual name such as `labels` or `y`, else the
        only vector.

    Returns
    -------
    features : LazyMatrix
        The features, one sample per row.
    labels : ndarray of shape (n_samples,) or None
        Numbers or text, as stored. None if the file holds no labels.
    """
    require_one_source(labels, labels_key)
    arrays = stored_arrays(path)
    features = as_features(pick_features(arrays, features_key))
    n = len(features)
    found = pick_labels(arrays, n, labels_key) if labels is None else read_labels(labels)
    if found is not None:
        require_one_label_per_row(features, found, Path(labels or path).name)
    return features, found


def require_one_source(labels: str | Path | None, labels_key: str | None) -> None:
    """Refuse labels from two places."""
    if labels is not None and labels_key is not None:
        raise DataError(
            f"`labels_key` must be None if the labels have a file of their own; got "
            f"{labels_key!r} and {Path(labels).name}. Pass only one of them."
        )


def pick_features(
    arrays: Sequence[StoredArray], key: str | None = None, names: Sequence[str] = FEATURE_KEYS
) -> StoredArray:
    """Return the array named `key`, else one with a usual name, else the only matrix."""
    found = pick_named(arrays, key, names, "features_key")
    if found is not None:
        return found
    matrices = [array for array in arrays if len(array.shape) == 2 and array.dtype.kind != "U"]
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) == 1:
        return arrays[0]  # `as_features` says what is wrong with it
    raise DataError(
        f"{arrays[0].path.name} must say which array holds the {names[0]}; it has "
        f"{contents(arrays)}. Name one of them `{names[0]}`."
    )


def as_features(array: StoredArray, called: str = "Features") -> LazyMatrix:
    """Return an array as features; its values stay unread."""
    if array.dtype.kind not in "fiu":
        kinds = {"O": "Python objects", "c": "complex numbers", "U": "text", "S": "text"}
        kind = kinds.get(array.dtype.kind, str(array.dtype))
        remedy = "np.abs(X)" if array.dtype.kind == "c" else "np.asarray(X, dtype=np.float32)"
        raise DataError(
            f"{called} must be real numbers; {array.source} holds {kind}. Save {remedy}."
        )
    if len(array.shape) != 2:
        one = "X.reshape(-1, 1)" if len(array.shape) < 2 else "X.reshape(len(X), -1)"
        raise DataError(
            f"{called} must be a matrix, one vector per row; {array.source} has shape "
            f"{array.shape}. Save {one}."
        )
    if 0 in array.shape:
        raise DataError(
            f"{called} must have at least one row and one column; {array.source} has shape "
            f"{array.shape}. Check what was saved."
        )
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        dtype = np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)

    def read() -> np.ndarray:
        values = array.read()
        return values if values.dtype == dtype else values.astype(dtype)

    return LazyMatrix((array.shape[0], array.shape[1]), dtype, read, array.source)


# Labels


def read_labels(path: str | Path) -> np.ndarray:
    """Read labels from a file of their own: `.npy`, `.txt` or `.csv`."""
    path = require_existing(path, (".npy", ".txt", ".csv"))
    if path.suffix.lower() == ".npy":
        return label_vector(stored_arrays(path)[0])
    labels = read_text(path).rstrip("\n").split("\n")
    if path.suffix.lower() == ".csv":
        with translate_errors(path):
            rows = list(csv.reader(labels))
        for number, row in enumerate(rows, start=1):
            if len(row) > 1:
                raise DataError(
                    f"A file of labels must have one column; row {number} of {path.name} has "
                    f"{len(row)}. Keep only the labels, or pass the file as a table of features."
                )
        labels = ["".join(row) for row in rows]
    # A class may be named "y"; a heading occurs only once.
    if labels[0].strip().casefold() in _HEADINGS and labels[0] not in labels[1:]:
        labels = labels[1:]
    return np.array(labels, dtype=str)


def pick_labels(
    arrays: Sequence[StoredArray], n_samples: int, key: str | None = None
) -> np.ndarray | None:
    """Return the labels named `key`, else with a usual name, else the only vector, if any."""
    found = pick_named(arrays, key, LABEL_KEYS, "labels_key")
    if found is not None:
        return label_vector(found)
    vectors = [array for array in arrays if len(array.shape) == 1]
    if len(vectors) > 1:
        vectors = [array for array in vectors if array.shape[0] == n_samples]
    if len(vectors) > 1:
        raise DataError(
            f"{arrays[0].path.name} must say which array holds the labels; it could be any of "
            f"{contents(vectors)}. Name one `labels`, or pass `labels_key`."
        )
    return label_vector(vectors[0]) if vectors else None


def labels_as_text(
    arrays: Sequence[StoredArray],
    features: LazyMatrix | None,
    path: Path,
    labels: str | Path | None = None,
    key: str | None = None,
    *,
    is_needed: bool = True,
) -> np.ndarray | None:
    """Return the labels of arrays of features, one per row: of their own file, or of `path`."""
    found, source = None, Path(labels or path).name
    if labels is not None:
        found = read_labels(labels)
    elif features is not None:
        found = pick_labels(arrays, len(features), key)
        if found is None and is_needed:
            raise DataError(
                f"Features need labels; {path.name} holds none. Save them in it as `labels`, or "
                "pass a file of labels."
            )
    if found is None:
        return None
    text = label_strings(found, source)
    if features is not None:
        require_one_label_per_row(features, text, source)
    return text


def label_vector(array: StoredArray) -> np.ndarray:
    """Return the values of a label array: a vector of text or of numbers."""
    if array.dtype.kind not in "iufbUS":
        kind = "Python objects" if array.dtype.kind == "O" else array.dtype
        raise DataError(
            f"Labels must be text or numbers; {array.source} holds {kind}. Save "
            "np.asarray(labels, dtype=str)."
        )
    if max(array.shape, default=0) != math.prod(array.shape):
        raise DataError(
            f"Labels must be one per sample; {array.source} has shape {array.shape}. Save "
            "labels.argmax(axis=1) for one-hot rows."
        )
    labels = np.asarray(array.read()).ravel()
    _require_valid_text(labels, array.source)
    return labels


def label_strings(labels: np.ndarray, source: str) -> np.ndarray:
    """Return labels as text, so that labels of two files compare in any format.

    Whole numbers lose their type, not their digits: 7 and 7.0 become "7"; the text "07" stays "07".
    """
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.floor(labels))
        if not whole.all():
            row = int(np.argmin(whole))
            raise DataError(
                f"Labels must be text or whole numbers; {source} has {labels[row]} at position "
                f"{row}. Drop that sample, or give it a class."
            )
        limit = find_exact_limit(labels.dtype)
        if (np.abs(labels) > limit).any():
            row = int(np.argmax(np.abs(labels) > limit))
            raise DataError(
                f"Labels must be exact; {source} has {labels[row]:.0f} at position {row}, and "
                f"{labels.dtype} is exact only up to {limit}. Save them as text or as int64."
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"Labels must be UTF-8 text; {source} has the bytes {format_value(error.object)}. "
                "Save them as text."
            ) from None
    _require_valid_text(labels, source)
    text = as_labels(labels.astype(str), f"Labels of {source}")
    blank = np.char.strip(text) == ""
    if blank.any():
        raise DataError(
            f"Labels must not be empty; {source} has {int(blank.sum())}, the first at position "
            f"{int(np.argmax(blank))} (counted from 0). Fill them in, or drop those samples."
        )
    return text


def _require_valid_text(labels: np.ndarray, source: str) -> None:
    """Refuse text with invalid characters, which a damaged file may hold."""
    for position in range(len(labels) if labels.dtype.kind == "U" else 0):
        try:
            str(labels[position]).encode()
        except (ValueError, SystemError):  # NumPy lets Python report the latter
            raise DataError(
                f"Labels must be text; {source} has invalid characters at position {position} "
                "(counted from 0). It is damaged: save it again."
            ) from None
