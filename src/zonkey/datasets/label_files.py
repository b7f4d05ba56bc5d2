"""Labels of samples, from a file of their own or from among the arrays of another."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .array_files import StoredArray, contents, pick_named, stored_arrays
from .errors import DataError
from .files import existing_file, largest_exact, read_text, readable

LABEL_KEYS = ("labels", "y", "targets", "target", "label")
_LAST_CHARACTER = 0x10FFFF
_HEADINGS = (*LABEL_KEYS, "class")


def read_labels(path: str | Path) -> np.ndarray:
    """Read labels from a file of their own: `.npy`, `.txt` or `.csv`."""
    path = existing_file(path, (".npy", ".txt", ".csv"))
    if path.suffix.lower() == ".npy":
        return label_vector(stored_arrays(path)[0])
    lines = read_text(path).rstrip("\n").split("\n")
    labels = _only_column(path, lines) if path.suffix.lower() == ".csv" else lines
    # A class may be called "y"; a heading comes once.
    if labels[0].strip().casefold() in _HEADINGS and labels[0] not in labels[1:]:
        labels = labels[1:]
    return np.array(labels, dtype=str)


def pick_labels(
    arrays: Sequence[StoredArray], n_samples: int, key: str | None = None
) -> np.ndarray | None:
    """Return the labels of this key, else of a usual name, else the only vector, if any."""
    found = pick_named(arrays, key, LABEL_KEYS, "labels_key")
    if found is not None:
        return label_vector(found)
    vectors = [array for array in arrays if len(array.shape) == 1]
    if len(vectors) > 1:
        vectors = [array for array in vectors if array.shape[0] == n_samples]
    if len(vectors) > 1:
        raise DataError(
            f"{arrays[0].file} must say which array holds the labels; it could be any of "
            f"{contents(vectors)}. Call one `labels`, or pass `labels_key`."
        )
    return label_vector(vectors[0]) if vectors else None


def label_vector(array: StoredArray) -> np.ndarray:
    """Return the values of labels: a vector of text or of numbers."""
    if array.dtype.kind not in "iufbUS":
        raise DataError(
            f"Labels must be text or numbers; {array.source} holds "
            f"{'Python objects' if array.dtype.kind == 'O' else array.dtype}. Save "
            "np.asarray(labels, dtype=str)."
        )
    if max(array.shape, default=0) != math.prod(array.shape):
        raise DataError(
            f"Labels must be one a sample; {array.source} has shape {array.shape}. Save "
            "labels.argmax(axis=1) for one-hot rows."
        )
    labels = np.asarray(array.read()).ravel()
    if labels.dtype.kind == "U":
        _require_characters(labels, array.source)
    return labels


def label_strings(labels: np.ndarray, source: str) -> np.ndarray:
    """Return labels as text, which is what labels from files always are.

    Whole numbers lose their type, not their digits: 7 and 7.0 become "7", while the text "07" stays
    "07". So labels of two files compare whatever each format stores.
    """
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.floor(labels))
        if not whole.all():
            row = int(np.argmin(whole))
            raise DataError(
                f"Labels must be text or whole numbers; {source} has {labels[row]} at position "
                f"{row}. Drop that sample, or give it a class."
            )
        limit = largest_exact(labels.dtype)
        if (np.abs(labels) > limit).any():
            row = int(np.argmax(np.abs(labels) > limit))
            raise DataError(
                f"Labels must be exact; {source} has {labels[row]:.0f} at position {row}, and "
                f"{labels.dtype} is exact up to {limit} only. Save them as text or as int64."
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    elif labels.dtype.kind == "U":
        _require_characters(labels, source)
    text = labels.astype(str)
    blank = np.char.strip(text) == ""
    if blank.any():
        raise DataError(
            f"Labels must not be empty; {source} has {int(blank.sum())}, the first at position "
            f"{int(np.argmax(blank))} (counted from 0). Fill them in, or drop those samples."
        )
    return text


def _require_characters(labels: np.ndarray, source: str) -> None:
    """Refuse text that Python cannot hold, or cannot print: a damaged file has such."""
    if not labels.dtype.itemsize or not labels.size:
        return
    native = np.ascontiguousarray(labels.astype(labels.dtype.newbyteorder("=")))
    codes = native.view(np.uint32).reshape(len(labels), -1)
    bad = ((codes > _LAST_CHARACTER) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any(axis=1)
    if bad.any():
        raise DataError(
            f"Labels must be text; {source} has characters that do not exist at position "
            f"{int(np.argmax(bad))} (counted from 0). It is damaged: save it again."
        )


def _only_column(path: Path, lines: list[str]) -> list[str]:
    with readable(path):
        rows = list(csv.reader(lines))
    for number, row in enumerate(rows, start=1):
        if len(row) > 1:
            raise DataError(
                f"A file of labels must have one column; row {number} of {path.name} has "
                f"{len(row)}. Keep the labels alone, or pass the file as a table of features."
            )
    return [row[0] if row else "" for row in rows]
