"""Read class prototypes from tables, arrays and JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..labels import as_labels, format_value
from ..prototypes import Prototypes
from .columns import FEATURE_KEYS, PARENT
from .formats import LINES, TEXT_ENDINGS, cells, is_blank
from .readers import (
    ARRAY_ENDINGS,
    TABLE_ENDINGS,
    contents,
    ending_of,
    is_number,
    parquet_files,
    pick_named,
    read_text,
    require_existing,
    require_room,
    stored_arrays,
)
from .streams import Block, FeatureStream
from .tables import LABEL_KEYS, as_features, label_strings, label_vector, pick_features

PROTOTYPE_KEYS = ("prototypes", "matrix", "attributes", "vectors")
MOST_LISTED = 10  # problems of one kind that are listed; further ones are counted
_PARENT_KEYS = (PARENT, "parents")
_CLASS_KEYS = ("classes", "class_names", "names", *LABEL_KEYS)
_LARGEST = float(np.finfo(np.float64).max)


def cap_lines(lines: Sequence[str], kind: str, n: int | None = None) -> list[str]:
    """Keep the first few of n lines; the last line counts the others."""
    more = (len(lines) if n is None else n) - MOST_LISTED
    return [*lines[:MOST_LISTED], f"There are {more} more {kind}."] if more > 0 else list(lines)


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of a source: features, labels, the column `split` and names, as far as it has them.

    `columns` names the features of a table, `unused` its other columns; `first_row` is the number
    of the first row in the file. `parents` are the nodes above classes, "" at the top.
    """

    matrix: Any = None  # an array, where a cell that is not a number is NaN, or a LazyMatrix
    labels: np.ndarray | None = None
    marks: np.ndarray | None = None
    names: tuple[str, ...] = ()
    first_row: int = 0
    columns: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    parents: np.ndarray | None = None

    @classmethod
    def of(cls, blocks: Iterable[Block], *, labeled: bool = False) -> Samples:
        """Join blocks of rows. With `labeled`, those without a label are left out."""
        parts, labels, marks = [], [], []
        names: list[str] = []
        for block in blocks:
            kept = np.full(len(block.X), True)
            if block.labels is not None:
                kept = block.labels != "" if labeled else kept
                labels.append(block.labels[kept])
            if block.split is not None:
                marks.append(block.split[kept])
            parts.append(block.X[kept])
            names += compress(block.names or (), kept)
        X, y, split = (np.concatenate(part) if part else None for part in (parts, labels, marks))
        return cls(X, y, split, tuple(names))


def read_rows(stream: FeatureStream, problems: list[str] | None = None) -> Samples | None:
    """Read all rows of a table with labels; None if it cannot be used.

    With a list of `problems`, all of them are added to it; else the first one is raised.
    """
    path = Path(stream.path)
    stream = replace(stream, with_labels=True, every_label=True)
    try:
        if problems is not None:
            stream.bad_cells = {}
        blocks = []
        for block in stream:
            if not blocks and stream.total and ending_of(path) not in TEXT_ENDINGS:
                files = parquet_files(path) if path.is_dir() else [path]
                n_stored = sum(file.stat().st_size for file in files)
                require_room(path.name, 8 * stream.total * block.X.shape[1], n_stored)
            blocks.append(block)
    except DataError as error:
        if problems is None:
            raise
        problems.append(str(error))
        return None
    found = Samples.of(blocks)
    labels = as_labels(found.labels, f"Labels of {path.name}")
    if problems is not None and stream.bad_cells:
        lines = []
        for error, n in stream.bad_cells.values():
            more = f" (and {n - 1} more in this column). " if n > 1 else ". "
            lines.append(more.join(str(error).rsplit(". ", 1)))
        problems += cap_lines(lines, f"columns of {path.name} with cells that are not numbers")
    above = [name for name in stream.unused if name.casefold() == PARENT]
    parents = None
    if above and stream.role == "prototypes":
        parents = [cell for block in blocks for cell in cells(block.carried[above[0]])]
        parents = np.array(["" if is_blank(str(cell)) else str(cell).strip() for cell in parents])
    return replace(
        found,
        parents=parents,
        labels=np.where(np.char.strip(labels) == "", "", labels),
        first_row=blocks[0].rows[0],
        columns=stream.columns or (),
        unused=stream.unused,
    )


def read_prototypes(path: str | Path, *, label_column: str | None = None) -> Prototypes:
    """Read class prototypes, one class per row.

    Parameters
    ----------
    path : str or Path
        File with a vector per class: `.csv`, `.tsv` or `.parquet` with the labels in a column named
        `label`, `class` or `name`, else in the only column of text, else in the first column;
        `.json` as {label: [numbers]}; or `.npz`, `.h5` or `.pt` with a matrix and the labels of its
        rows. A column of text named `parent`, or an array `parents`, makes a tree of the classes.
    label_column : str, default=None
        Column of the labels in a table.

    Returns
    -------
    Prototypes
        The vectors. Labels are text. A parent without a row has the mean of its children.
    """
    return require_prototypes(path, label_column)[0]


def require_prototypes(
    path: str | Path, label_column: str | None = None
) -> tuple[Prototypes, tuple[str, ...]]:
    """Return the prototypes of a file and the columns of a table; raise its first problem."""
    prototypes, columns, problems = examine_prototypes(path, label_column)
    if prototypes is None or problems:
        raise DataError(problems[0])
    return prototypes, columns


def examine_prototypes(
    path: str | Path, label_column: str | None = None
) -> tuple[Prototypes | None, tuple[str, ...], list[str]]:
    """Return the usable prototypes of a file, its columns if it is a table, and all problems."""
    endings = (*TABLE_ENDINGS, LINES, ".json", *(end for end in ARRAY_ENDINGS if end != ".npy"))
    try:
        path = require_existing(path, endings)
        if path.suffix.lower() in (*TABLE_ENDINGS, LINES):
            stream = FeatureStream(path, role="prototypes", label_column=label_column)
            problems: list[str] = []
            table = read_rows(stream, problems)
        elif path.suffix.lower() == ".json":
            table, problems = _read_json(path)
        else:
            table, problems = _read_prototype_arrays(path), []
    except DataError as error:
        return None, (), [str(error)]
    if table is None:
        return None, (), problems
    labels, matrix, first_row = table.labels, table.matrix, table.first_row
    assert labels is not None
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
    parents = None
    if table.parents is not None and not problems:
        parents = dict(zip(labels.tolist(), table.parents.tolist(), strict=True))
    try:
        prototypes = Prototypes(labels[whole], matrix[whole], names, parents).at_nodes()
    except ValueError as error:  # of an unusual size, or no tree
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


def _read_prototype_arrays(path: Path) -> Samples:
    arrays = stored_arrays(path)
    chosen = pick_features(arrays, names=(*PROTOTYPE_KEYS, *FEATURE_KEYS))
    matrix = as_features(chosen, "Prototypes")
    n, width = matrix.shape
    of_rows = [array for array in arrays if array.shape in ((n,), (n, 1))]
    found = pick_named(of_rows, None, _CLASS_KEYS, "labels_key")
    others = [array for array in of_rows if array.name not in _PARENT_KEYS]
    if found is None and len(others) == 1:
        found = others[0]
    if found is None:
        transposed = any(array.shape in ((width,), (width, 1)) for array in arrays)
        remedy = "The matrix looks transposed: save its .T" if transposed else "Save it as `labels`"
        raise DataError(
            f"{path.name} must hold a label for each of the {n} rows of its prototypes; it has "
            f"{contents(arrays)}. {remedy}."
        )
    labels = label_strings(label_vector(found), found.source)
    above = next((a for a in of_rows if a.name in _PARENT_KEYS and a.dtype.kind == "U"), None)
    parents = None if above is None else np.char.strip(above.read().ravel())
    # Not matrix.values(), which refuses NaN.
    return Samples(np.asarray(chosen.read(), dtype=matrix.dtype), labels, parents=parents)


def _read_json(path: Path) -> tuple[Samples, list[str]]:
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
    problems = cap_lines(problems, "prototypes that are not such lists")
    return Samples(matrix, labels, first_row=1), problems


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
