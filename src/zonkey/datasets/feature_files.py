"""Feature matrices, with their labels, from files of arrays (npz, npy, h5, pt)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .array_files import StoredArray, contents, pick_named, stored_arrays
from .errors import DataError
from .label_files import pick_labels, read_labels
from .lazy import LazyMatrix

FEATURE_KEYS = ("features", "X", "x", "feats", "feat", "embeddings")


def read_features(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
) -> tuple[LazyMatrix, np.ndarray | None]:
    """Open a feature file; the features are read when they are first used.

    Parameters
    ----------
    path : str or Path
        `.npz`, `.npy` (memory-mapped), `.pt` or `.pth` (tensors only: nothing in the file is
        executed), `.h5` or `.hdf5`. float16 becomes float32.
    labels : str or Path, default=None
        File of the labels where they are not in `path`: `.npy`, `.txt` (one a line) or `.csv`
        (one column; a first line such as `label` is a heading).
    features_key, labels_key : str, default=None
        Names of the arrays in the file. Without them: one of the usual names such as `features`,
        `X`, `labels` or `y`, else the only matrix and the only vector.

    Returns
    -------
    features : LazyMatrix
    labels : ndarray of shape (n,) or None
        As stored: numbers or text. None where the file holds none.

    Raises
    ------
    DataError
        In one line: what is wrong with the file, and how to mend it.
    """
    require_one_source(labels, labels_key)
    arrays = stored_arrays(path)
    features = as_features(pick_features(arrays, features_key))
    if labels is not None:
        found = read_labels(labels)
    else:
        found = pick_labels(arrays, len(features), labels_key)
    if found is not None:
        require_equally_many(features, found, Path(labels or path).name)
    return features, found


def require_one_source(labels: str | Path | None, labels_key: str | None) -> None:
    """Refuse labels from two places."""
    if labels is not None and labels_key is not None:
        raise DataError(
            f"`labels_key` must be None where the labels have a file of their own; got "
            f"{labels_key!r} and {Path(labels).name}. Leave one of them out."
        )


def pick_features(
    arrays: Sequence[StoredArray], key: str | None = None, names: Sequence[str] = FEATURE_KEYS
) -> StoredArray:
    """Return the array of this key, else of a usual name, else the only matrix."""
    found = pick_named(arrays, key, names, "features_key")
    if found is not None:
        return found
    matrices = [array for array in arrays if len(array.shape) == 2 and array.dtype.kind != "U"]
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) == 1:
        return arrays[0]  # the only one: what is wrong with it can be said precisely
    raise DataError(
        f"{arrays[0].file} must say which array holds the {names[0]}; it has {contents(arrays)}. "
        f"Call one of them `{names[0]}`."
    )


def as_features(array: StoredArray, called: str = "Features") -> LazyMatrix:
    """Refuse what cannot be features by shape and type; the values stay unread."""
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
            f"{called} must be a matrix, one vector a row; {array.source} has shape "
            f"{array.shape}. Save {one}."
        )
    if 0 in array.shape:
        raise DataError(
            f"{called} must have at least one row and one column; {array.source} has shape "
            f"{array.shape}. Check what was saved."
        )
    wanted = _working_type(array.dtype)

    def read() -> np.ndarray:
        values = array.read()
        return values if values.dtype == wanted else values.astype(wanted)

    return LazyMatrix((array.shape[0], array.shape[1]), wanted, read, array.source)


def require_equally_many(features: LazyMatrix, labels: np.ndarray, name: str) -> None:
    """Refuse labels that do not belong to these rows."""
    n, d = features.shape
    if len(labels) == n:
        return
    remedy = "Check that both come from the same run."
    if len(labels) == d:
        remedy = "The features look transposed: save X.T, so that samples are rows."
    elif len(labels) == n + 1:
        remedy = "If the first label is a heading, call it `label`."
    raise DataError(
        f"Features and labels must be equally many; {features.source} has {n} rows and {d} "
        f"columns, and there are {len(labels)} labels in {name}. {remedy}"
    )


def _working_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to compute in: none that is slow or coarse, in this machine's byte order."""
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    return dtype.newbyteorder("=")
