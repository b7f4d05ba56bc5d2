"""Read features, labels and prototypes from your own tables, arrays and JSON files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..labels import as_labels, format_labels, format_value
from ..prototypes import Prototypes
from .dataset import DataError, LazyMatrix, require_one_label_per_row
from .readers import (
    ARRAY_ENDINGS,
    TABLE_ENDINGS,
    Sheet,
    StoredArray,
    contents,
    csv_rows,
    find_exact_limit,
    is_number,
    pick_named,
    position_of,
    read_sheet,
    read_text,
    require_existing,
    stored_arrays,
    translate_errors,
)

FEATURE_KEYS = ("features", "X", "x", "feats", "feat", "embeddings")
PROTOTYPE_KEYS = ("prototypes", "matrix", "attributes", "vectors")
MOST_LISTED = 10  # problems of one kind that are listed; further ones are counted
_LABEL_KEYS = ("labels", "y", "targets", "target", "label")
_CLASS_KEYS = ("classes", "class_names", "names", *_LABEL_KEYS)
_HEADINGS = (*_LABEL_KEYS, "class")
LABEL_COLUMNS = {
    "features": ("label", "class", "y", "target"),
    "prototypes": ("label", "class", "name"),
}
_EMPTY = ("", "nan", "na", "n/a", "null", "none", "<na>")
_LARGEST = float(np.finfo(np.float64).max)

Role = Literal["features", "prototypes"]


def is_no_feature(name: str) -> bool:
    """Whether a column of numbers with this name identifies a row instead of describing it."""
    name = name.casefold()
    return name in ("id", "split") or name.endswith("_id") or name.startswith("__index_level_")


def cap_lines(lines: Sequence[str], kind: str, n: int | None = None) -> list[str]:
    """Keep the first few of n lines, by default all given ones, and count the others."""
    more = (len(lines) if n is None else n) - MOST_LISTED
    return [*lines[:MOST_LISTED], f"There are {more} more {kind}."] if more > 0 else list(lines)


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
            rows = list(csv_rows(labels))
        for number, row in enumerate(rows, start=1):
            if len(row) > 1:
                raise DataError(
                    f"A file of labels must have one column; row {number} of {path.name} has "
                    f"{len(row)}. Keep only the labels, or pass the file as a table of features."
                )
        labels = ["".join(row) for row in rows]
    # A class may be named "y"; a heading occurs once.
    if labels[0].strip().casefold() in _HEADINGS and labels[0] not in labels[1:]:
        labels = labels[1:]
    return np.array(labels, dtype=str)


def pick_labels(
    arrays: Sequence[StoredArray], n_samples: int, key: str | None = None
) -> np.ndarray | None:
    """Return the labels named `key`, else with a usual name, else the only vector, if any."""
    found = pick_named(arrays, key, _LABEL_KEYS, "labels_key")
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


# Tables


@dataclass(frozen=True, eq=False)
class Table:
    """A numeric table with one label per row.

    Labels are text as written in the file; "01" stays "01". `columns` names the columns of the
    matrix, `unused` other ones; `split` holds the column of that name in lower case, and
    `first_row` is the number of the first row of data in the file.
    """

    labels: np.ndarray
    matrix: np.ndarray
    first_row: int
    columns: tuple[str, ...] = ()
    split: np.ndarray | None = None
    unused: tuple[str, ...] = ()


def examine_table(
    path: str | Path, role: Role, label_column: str | None = None
) -> tuple[Table | None, list[str]]:
    """Read a table and list all its problems; a cell that is not a number becomes NaN."""
    label_names = LABEL_COLUMNS[role]
    if label_column is not None:
        # A label column of the features need not exist in the prototypes.
        label_names = (label_column, *(label_names if role == "prototypes" else ()))
    try:
        path = require_existing(path, TABLE_ENDINGS)
        sheet = read_sheet(path, label_names, labels_first=role == "prototypes")
        label = position_of(label_names, sheet.names)
        if label is None:
            label = _find_unnamed_labels(sheet, role, label_column)
    except DataError as error:
        return None, [str(error)]
    split = position_of(("split",), sheet.names) if role == "features" else None
    kept = [column for column in range(len(sheet.names)) if column not in (label, split)]
    unused: list[int] = []
    if role == "features":
        unused = [n for n in kept if is_no_feature(sheet.names[n]) or _is_text(sheet.frame[n])]
        kept = [column for column in kept if column not in unused]
    if not kept or not len(sheet.frame):
        what = "column of numbers next to its labels" if not kept else "row below its heading"
        return None, [f"{sheet.file} has no {what}. Check what was saved."]
    labels, problems = _text_of(sheet, label)
    matrix, wrong = _numbers_of(sheet, kept)
    problems += wrong
    marks = None
    if split is not None:
        marks, wrong = _text_of(sheet, split)
        marks = np.char.lower(np.char.strip(marks))
        problems += wrong
    columns, others = (tuple(sheet.names[n] for n in part) for part in (kept, unused))
    return Table(labels, matrix, sheet.first_row, columns, marks, others), problems


def _find_unnamed_labels(sheet: Sheet, role: Role, label_column: str | None) -> int:
    """Return the position of the labels if no column has a name for them."""
    candidates = [n for n, name in enumerate(sheet.names) if not is_no_feature(name)]
    text = [n for n in candidates if _is_text(sheet.frame[n])]
    if role == "prototypes":
        # A column of text that repeats a value, such as yes or no, is an attribute.
        return text[0] if len(text) == 1 and sheet.frame[text[0]].is_unique else 0
    columns = format_labels(np.array(sheet.names), 8)
    if label_column is not None:
        raise DataError(
            f"`label_column` must name a column of {sheet.file}; got {label_column!r}, and the "
            f"columns are {columns}. Choose one of those."
        )
    if len(text) == 1:
        return text[0]
    found = "no column of text" if not text else f"{len(text)} columns of text"
    raise DataError(
        f"{sheet.file} must have a column of labels, named {' or '.join(LABEL_COLUMNS[role])}; "
        f"its columns are {columns}, with {found}. Rename one, or pass `label_column`."
    )


def _is_text(column: Any) -> bool:
    """Whether most cells are text; one misspelled number does not make a column text."""
    if column.dtype.kind in "iufb":
        return False
    cells = column.tolist()
    if any(isinstance(cell, list | dict | np.ndarray) for cell in cells):  # nested, in parquet
        return False
    return is_text_column(map(str, cells))


def is_blank(cell: str) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    return cell.strip().lower() in _EMPTY


def is_text_column(cells: Iterable[str]) -> bool:
    """Whether most of the cells that are not empty are no numbers."""
    cells = [cell for cell in cells if not is_blank(cell)]
    return sum(not is_number(cell) for cell in cells) > len(cells) / 2


def _text_of(sheet: Sheet, column: int) -> tuple[np.ndarray, list[str]]:
    """Return a column as text, and its problems; an empty cell becomes ""."""
    series = sheet.frame[column]
    missing = series.isna().to_numpy()
    cells = series.tolist()
    if series.dtype.kind == "f":
        cells = series.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
        limit = find_exact_limit(np.dtype(f"f{series.dtype.itemsize}"))
        inexact = np.array([abs(cell) > limit for cell in cells])
        if inexact.any():
            first = cells[int(np.argmax(inexact))]
            what = f"must be exact, which numbers beyond {limit} are not; got {first:.0f}"
            return np.full(len(cells), ""), [_cell_problem(sheet, column, inexact, what)]
        cells = [int(cell) if cell.is_integer() else cell for cell in cells]
    text = np.where(missing, "", np.array(list(map(str, cells)), dtype=str))
    text = as_labels(text, f"Labels of {sheet.file}")
    empty = np.char.strip(text) == ""
    problems = [_cell_problem(sheet, column, empty, "is empty")] if empty.any() else []
    return np.where(empty, "", text), problems


def _numbers_of(sheet: Sheet, columns: list[int]) -> tuple[np.ndarray, list[str]]:
    """Return columns as a matrix, and one line per column that holds other cells than numbers."""
    frame = sheet.frame[columns]
    single = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in frame.dtypes)
    matrix = np.stack([_as_numbers(frame[column]) for column in columns], 1)
    matrix = matrix.astype(np.float32 if single else np.float64, copy=False)
    problems = []
    for position in np.flatnonzero(~np.isfinite(matrix).all(axis=0)):
        bad = ~np.isfinite(matrix[:, position])
        cell = str(frame[columns[position]].iloc[int(np.argmax(bad))])
        empty = cell.strip().lower() in _EMPTY
        what = "is empty" if empty else f"must be a finite number; got {cell[:40]!r}"
        problems.append(_cell_problem(sheet, columns[position], bad, what))
    return matrix, cap_lines(problems, f"columns of {sheet.file} with cells that are not numbers")


def _as_numbers(column: Any) -> np.ndarray:
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    # Not with to_numeric, which takes dates and True for numbers.
    cells = list(map(str, column.tolist()))
    return np.array([float(cell) if is_number(cell) else math.nan for cell in cells])


def _cell_problem(sheet: Sheet, column: int, bad: np.ndarray, what: str) -> str:
    """Return one line about the first bad cell of a column."""
    n = int(bad.sum())
    others = f" (and {n - 1} more in this column)" if n > 1 else ""
    remedy = "Fill it in" if what == "is empty" else "Correct it"
    return (
        f"Row {sheet.first_row + int(np.argmax(bad))}, column {sheet.names[column]!r} of "
        f"{sheet.file} {what}{others}. {remedy}, or remove the row or the column."
    )


# Prototypes


def read_prototypes(path: str | Path, *, label_column: str | None = None) -> Prototypes:
    """Read class prototypes, one class per row.

    Parameters
    ----------
    path : str or Path
        File with a vector per class: `.csv`, `.tsv` or `.parquet` with the labels in a column named
        `label`, `class` or `name`, else in the only column of text, else in the first column;
        `.json` as {label: [numbers]}; or `.npz`, `.h5` or `.pt` with a matrix and the labels of its
        rows.
    label_column : str, default=None
        Column of the labels in a table.

    Returns
    -------
    Prototypes
        The vectors. Labels are text.
    """
    prototypes, _, problems = examine_prototypes(path, label_column)
    if prototypes is None or problems:
        raise DataError(problems[0])
    return prototypes


def examine_prototypes(
    path: str | Path, label_column: str | None = None
) -> tuple[Prototypes | None, tuple[str, ...], list[str]]:
    """Return the usable prototypes of a file, its columns if it is a table, and all problems."""
    endings = (*TABLE_ENDINGS, ".json", *(end for end in ARRAY_ENDINGS if end != ".npy"))
    try:
        path = require_existing(path, endings)
        if path.suffix.lower() in TABLE_ENDINGS:
            table, problems = examine_table(path, "prototypes", label_column)
        elif path.suffix.lower() == ".json":
            table, problems = _read_json(path)
        else:
            table, problems = _read_prototype_arrays(path), []
    except DataError as error:
        return None, (), [str(error)]
    if table is None:
        return None, (), problems
    labels, matrix, first_row = table.labels, table.matrix, table.first_row
    problems += _find_repeated(labels, path, first_row)
    _, first = np.unique(labels, return_index=True)
    whole = first[np.isfinite(matrix[first]).all(axis=1) & (labels[first] != "")]
    if not problems and len(whole) < len(labels):
        row = first_row + int(np.setdiff1d(np.arange(len(labels)), whole)[0])
        problems = [
            f"Prototypes must be finite; row {row} of {path.name} holds NaN or infinity. Fill it "
            "in, or drop the class."
        ]
    distinct = len({*table.columns}) == len(table.columns)
    names = table.columns if distinct and not all(map(is_number, table.columns)) else None
    if not len(whole):
        return None, table.columns, problems
    try:
        prototypes = Prototypes(labels[whole], matrix[whole], names)
    except ValueError as error:  # of an unusual size
        return None, table.columns, [*problems, f"{path.name}: {error}"]
    return prototypes, table.columns, problems


def _find_repeated(labels: np.ndarray, path: Path, first_row: int) -> list[str]:
    """Return one line per class that has several rows."""
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels.tolist(), start=first_row):
        rows.setdefault(label, []).append(row)
    lines = [
        f"A class must have one prototype; {format_value(label)} has {len(found)} in {path.name}, "
        f"in rows {', '.join(map(str, found[:4]))}. Keep one of them, or their mean."
        for label, found in rows.items()
        if len(found) > 1 and label
    ]
    return cap_lines(lines, "classes with several prototypes")


def _read_prototype_arrays(path: Path) -> Table:
    arrays = stored_arrays(path)
    chosen = pick_features(arrays, names=(*PROTOTYPE_KEYS, *FEATURE_KEYS))
    matrix = as_features(chosen, "Prototypes")
    n, width = matrix.shape
    of_rows = [array for array in arrays if array.shape in ((n,), (n, 1))]
    found = pick_named(of_rows, None, _CLASS_KEYS, "labels_key")
    if found is None and len(of_rows) == 1:
        found = of_rows[0]
    if found is None:
        transposed = any(array.shape in ((width,), (width, 1)) for array in arrays)
        remedy = "The matrix looks transposed: save its .T" if transposed else "Save it as `labels`"
        raise DataError(
            f"{path.name} must hold a label for each of the {n} rows of its prototypes; it has "
            f"{contents(arrays)}. {remedy}."
        )
    labels = label_strings(label_vector(found), found.source)
    # Not matrix.values(), which refuses NaN.
    return Table(labels, np.asarray(chosen.read(), dtype=matrix.dtype), first_row=0)


def _read_json(path: Path) -> tuple[Table, list[str]]:
    """Return labels and vectors, and all problems; an unusable vector becomes NaN."""
    text, reason = read_text(path), "it is something else, or empty"
    try:
        # As pairs: a dict would silently keep the last of two equal labels.
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        pairs, reason = None, f"it cannot be read ({str(error)[:80]})"
    if not isinstance(pairs, list) or not all(isinstance(p, tuple) for p in pairs) or not pairs:
        raise DataError(
            f"{path.name} must be a JSON object of vectors; {reason}. Write it as "
            '{"zebra": [0.0, 1.0], "horse": [1.0, 0.0]}.'
        )
    width = next((len(vector) for _, vector in pairs if isinstance(vector, list)), 1)
    matrix, problems = np.full((len(pairs), width), np.nan), []
    for row, (label, vector) in enumerate(pairs):
        what = _vector_problem(vector, width)
        if what is None:
            matrix[row] = vector
        else:
            problems.append(
                f"A prototype must be a list of {width} finite numbers, as the first is; "
                f"{format_value(label)} in {path.name} {what}. Correct it, or drop the class."
            )
    labels = label_strings(np.array([label for label, _ in pairs], dtype=str), path.name)
    return Table(labels, matrix, 1), cap_lines(problems, "prototypes that are not such lists")


def _vector_problem(vector: Any, width: int) -> str | None:
    if not isinstance(vector, list):
        return f"is {str(vector)[:40]!r}"
    for entry in vector:
        if isinstance(entry, list | tuple):  # not printed: it may be nested deeply
            return "holds a list" if isinstance(entry, list) else "is an object"
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            return f"holds {str(entry)[:40]!r}"
        if not -_LARGEST < entry < _LARGEST:
            return f"holds {str(entry)[:40]}"
    return None if len(vector) == width and vector else f"has {len(vector)}"
