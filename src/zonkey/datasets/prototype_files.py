"""Class prototypes, a vector for each class, from tables, JSON or files of arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.prototypes import Prototypes
from .array_files import ARRAY_ENDINGS, contents, pick_named, stored_arrays
from .errors import DataError
from .feature_files import FEATURE_KEYS, as_features, pick_features
from .files import capped, existing_file, read_text
from .label_files import LABEL_KEYS, label_strings, label_vector
from .sheets import TABLE_ENDINGS
from .tables import examine_table

PROTOTYPE_KEYS = ("prototypes", "matrix", "attributes", "vectors")
_CLASS_KEYS = ("classes", "class_names", "names", *LABEL_KEYS)
_ENDINGS = (*TABLE_ENDINGS, ".json", *(ending for ending in ARRAY_ENDINGS if ending != ".npy"))
_LARGEST = float(np.finfo(np.float64).max)


def read_prototypes(path: str | Path, *, label_column: str | None = None) -> Prototypes:
    """Read class prototypes, a class a row.

    Parameters
    ----------
    path : str or Path
        `.csv`, `.tsv` or `.parquet` with the labels in a column called `label`, `class` or `name`,
        else in the only column of text, else in the first one; `.json` as {label: [numbers]}; or
        `.npz`, `.h5` or `.pt` with a matrix and the labels of its rows. Labels become text, as in
        `Table`.
    label_column : str, default=None
        Column of the labels in a table.
    """
    prototypes, problems = examine_prototypes(path, label_column)
    if prototypes is None or problems:
        raise DataError(problems[0])
    return prototypes


def examine_prototypes(
    path: str | Path, label_column: str | None = None
) -> tuple[Prototypes | None, list[str]]:
    """Read prototypes and list all that is wrong with them.

    Where something is wrong the prototypes that are left may still be compared with other files.
    """
    try:
        path = existing_file(path, _ENDINGS)
        if path.suffix.lower() in TABLE_ENDINGS:
            table, problems = examine_table(path, "prototypes", label_column)
            if table is None:
                return None, problems
            labels, matrix, first_row = table.labels, table.matrix, table.first_row
        elif path.suffix.lower() == ".json":
            labels, matrix, problems = _read_json(path)
            first_row = 1
        else:
            labels, matrix = _read_arrays(path)
            problems, first_row = [], 0
    except DataError as error:
        return None, [str(error)]
    problems += _repeated(labels, path, first_row)
    _, first = np.unique(labels, return_index=True)
    whole = first[np.isfinite(matrix[first]).all(axis=1) & (labels[first] != "")]
    if not problems and len(whole) < len(labels):
        row = first_row + int(np.setdiff1d(np.arange(len(labels)), whole)[0])
        problems = [
            f"Prototypes must be finite; row {row} of {path.name} holds NaN or infinity. Fill it "
            "in, or drop the class."
        ]
    return (Prototypes(labels[whole], matrix[whole]) if len(whole) else None), problems


def _repeated(labels: np.ndarray, path: Path, first_row: int) -> list[str]:
    """Say which classes have more than one row."""
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels.tolist(), start=first_row):
        rows.setdefault(label, []).append(row)
    lines = [
        f"A class must have one prototype; {label!r} has {len(found)} in {path.name}, in rows "
        f"{', '.join(map(str, found[:4]))}. Keep one of them, or their mean."
        for label, found in rows.items()
        if len(found) > 1 and label
    ]
    return capped(lines, "classes with several prototypes")


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    arrays = stored_arrays(path)
    chosen = pick_features(arrays, names=(*PROTOTYPE_KEYS, *FEATURE_KEYS))
    matrix = as_features(chosen, "Prototypes")
    n = len(matrix)
    of_rows = [array for array in arrays if array.shape in ((n,), (n, 1))]
    found = pick_named(of_rows, None, _CLASS_KEYS, "labels_key")
    if found is None and len(of_rows) == 1:
        found = of_rows[0]
    if found is None:
        width = matrix.shape[1]
        turned = any(array.shape in ((width,), (width, 1)) for array in arrays)
        remedy = "The matrix looks transposed: save its .T" if turned else "Save them as `labels`"
        raise DataError(
            f"{path.name} must hold a label for each of the {n} rows of its prototypes; it has "
            f"{contents(arrays)}. {remedy}."
        )
    labels = label_strings(label_vector(found), found.source)
    # Not through `matrix`, which stops at the first NaN.
    return labels, np.asarray(chosen.read(), dtype=matrix.dtype)


def _read_json(path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return labels, vectors, and what is wrong; a vector that cannot be used becomes NaN."""
    try:
        # As pairs: a dict would keep the last of two equal labels without a word.
        pairs = json.loads(read_text(path), object_pairs_hook=list)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path.name} must be JSON; line {error.lineno}, column {error.colno} is not "
            f"({error.msg}). Write it with json.dump."
        ) from None
    except (RecursionError, ValueError) as error:
        what = "lists in lists" if isinstance(error, RecursionError) else "a number of many digits"
        raise DataError(
            f"{path.name} must be a JSON object of vectors of numbers; it has {what}, too many to "
            'read. Write it as {"zebra": [0.0, 1.0], "horse": [1.0, 0.0]}.'
        ) from None
    is_object = isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs)
    if not is_object or not pairs:
        raise DataError(
            f"{path.name} must be a JSON object of vectors; it is something else, or empty. Write "
            'it as {"zebra": [0.0, 1.0], "horse": [1.0, 0.0]}.'
        )
    width = next((len(vector) for _, vector in pairs if isinstance(vector, list)), 1)
    matrix, problems = np.full((len(pairs), width), np.nan), []
    for row, (label, vector) in enumerate(pairs):
        what = _wrong_vector(vector, width)
        if what is None:
            matrix[row] = vector
        else:
            problems.append(
                f"A prototype must be a list of {width} finite numbers, as the first is; {label!r} "
                f"in {path.name} {what}. Correct it, or drop the class."
            )
    labels = label_strings(np.array([label for label, _ in pairs], dtype=str), path.name)
    return labels, matrix, capped(problems, "prototypes that are no such lists")


def _wrong_vector(vector: Any, width: int) -> str | None:
    if not isinstance(vector, list):
        return f"is {str(vector)[:40]!r}"
    for entry in vector:
        if isinstance(entry, list | tuple):  # which may be deep, too deep to be written
            return "holds a list" if isinstance(entry, list) else "is an object"
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            return f"holds {str(entry)[:40]!r}"
        if not -_LARGEST < entry < _LARGEST:
            return f"holds {str(entry)[:40]}"
    return None if len(vector) == width and vector else f"has {len(vector)}"
