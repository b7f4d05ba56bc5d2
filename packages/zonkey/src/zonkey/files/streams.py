"""Read features in blocks of rows: files of any size, and standard input.

`columns.py` says which columns of a table are features. All other columns are kept, so that answers
can be written beside them.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from ..config import rows_per_block
from ..errors import DataError, reword
from ..streaming.sources import rows_per_chunk
from .columns import Layout, Wanted, choose_layout, require_width
from .dataset import require_finite
from .formats import LINES, TEXT_ENDINGS, Batch, cells, is_blank, open_table, read_numbers
from .readers import (
    ARRAY_ENDINGS,
    FOLDER,
    TABLE_ENDINGS,
    ending_of,
    find_exact_limit,
    require_existing,
    stored_arrays,
    translate_errors,
)
from .tables import as_features, labels_as_text, pick_features

STREAM_ENDINGS = (*TABLE_ENDINGS, LINES, FOLDER, *ARRAY_ENDINGS)
STANDARD_INPUT = "-"
_TEXT_NUMBERS = 1 << 20  # held at a time: reading them from text takes a second or so
_NUMBER = 2 * 8  # bytes of a number that is held: in a column, and in the matrix


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a file.

    `carried` holds the non-feature columns, the labels among them: lists, NumPy or Arrow
    arrays. `labels` are text, "" if missing, and None if they were not asked for.
    """

    X: np.ndarray
    carried: dict[str, Any]
    labels: np.ndarray | None = None
    rows: Sequence[int] = ()  # row numbers in the file, as users count them

    @property
    def names(self) -> list[str] | None:
        """Names of the rows: the column `file`, else `id`; None without either."""
        column = next((self.carried[name] for name in ("file", "id") if name in self.carried), None)
        return None if column is None else [str(cell) for cell in cells(column)]

    @property
    def split(self) -> np.ndarray | None:
        """The column `split` in lower case, None if absent."""
        name = next((name for name in self.carried if name.casefold() == "split"), None)
        if name is None:
            return None
        marks = [str(cell).strip().lower() for cell in cells(self.carried[name])]
        return np.array(marks, dtype=str)


def find_wrong_mark(marks: np.ndarray, file: str, first_row: int) -> str | None:
    """Return what is wrong with the marks of a column `split`; rows count from some number."""
    wrong = ~np.isin(marks, ("train", "val", "test"))
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    return (
        f"The column `split` must say train, val or test; row {first_row + row} of {file} says "
        f"{str(marks[row])!r}. Correct it, and check the rows after it."
    )


@dataclass(eq=False)
class FeatureStream(Wanted):
    """Rows of a file, a folder of parquet files, or standard input, in blocks.

    No block spans two files, or two row groups of a parquet file. Iterating reads the file;
    meanwhile `done` of `total` bytes or rows show the progress. From the first block on, `columns`
    are the names of the features, None if they have none, and `unused` those of other columns than
    features, labels and `split`.
    """

    path: str | Path  # "-" is standard input
    format: str = "csv"  # of standard input; of files, their ending says it
    every_label: bool = False  # if so, a row without a label is an error
    labels: str | Path | None = None  # file of the labels, if the features are arrays
    labels_key: str | None = None
    block: int | None = None  # numbers to hold at a time
    rows: int | None = None  # rows of a block, in place of `block`
    first: int = 0  # number of the first block to yield
    # The first bad cell of each column and how many there are, if noted; else the first is an error
    bad_cells: dict[str, tuple[DataError, int]] | None = None
    with_features: bool = True  # if not, only what stands beside them is read

    done: int = field(default=0, init=False)
    total: int | None = field(default=None, init=False)
    n_read: int = field(default=0, init=False)  # rows, those before the first block included
    columns: tuple[str, ...] | None = field(default=None, init=False)
    unused: tuple[str, ...] = field(default=(), init=False)

    def __iter__(self) -> Iterator[Block]:
        self.done, self.total, self.columns, self.unused = 0, None, None, ()
        self.n_read = 0
        if str(self.path) != STANDARD_INPUT:
            yield from self._file_blocks(require_existing(self.path, STREAM_ENDINGS))
            return
        if sys.stdin is None:
            raise DataError("Standard input must be open; it is closed. Pass a file.")
        path = Path(f"stdin.{self.format}")
        if path.suffix in TEXT_ENDINGS:
            with _name_standard_input(path):
                yield from self._table_blocks(path, sys.stdin.buffer)
            return
        with TemporaryDirectory() as folder:  # other formats are not read from front to end
            path = Path(folder) / path
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            with _name_standard_input(path):
                yield from self._file_blocks(require_existing(path, STREAM_ENDINGS))

    def _file_blocks(self, path: Path) -> Iterator[Block]:
        if ending_of(path) in ARRAY_ENDINGS:
            yield from self._array_blocks(path)
            return
        for problem in wrong_options(path, self):
            raise DataError(problem)
        yield from self._table_blocks(path)

    # Tables

    def _table_blocks(self, path: Path, file: BinaryIO | None = None) -> Iterator[Block]:
        with translate_errors(path), open_table(path, file) as table:
            layout = choose_layout(table, path, self)
            self.columns, self.unused = layout.features or None, layout.unused
            self.total = table.total
            is_text = path.suffix.lower() in TEXT_ENDINGS
            rows = self._n_rows(layout.width, is_text)
            if not self.with_features:
                layout = replace(layout, width=0, features=(), vector=None)
            chosen = (*layout.features, *layout.carried, *filter(None, [layout.vector]))
            self.n_read = self.first * rows
            for batch in table.batches(rows, chosen, self.first):
                self.n_read = self.n_read + len(batch.rows) if is_text else table.done
                self.done = self.n_read if table.total is None else table.done
                yield self._block(batch, layout)

    def _block(self, batch: Batch, layout: Layout) -> Block:
        if layout.vector is None:
            X = np.empty((layout.width, len(batch.rows)), layout.dtype)
            as_printed = layout.dtype == np.float64
            with np.errstate(over="ignore"):  # reported as a bad cell
                for values, name in zip(X, layout.features, strict=True):
                    values[:] = read_numbers(batch.columns[name], as_printed=as_printed)
            X = np.ascontiguousarray(X.T)
        else:
            X = _stack_vectors(batch, layout.vector, layout)
        labels = None
        if self.with_labels and layout.label is not None:
            labels = _as_text(batch.columns[layout.label], layout.label, batch)
        self._refuse_cells(batch, layout, ~np.isfinite(X), labels)
        carried = {name: batch.columns[name] for name in layout.carried}
        return Block(X, carried, labels, batch.rows)

    def _refuse_cells(
        self, batch: Batch, layout: Layout, bad: np.ndarray, labels: np.ndarray | None
    ) -> None:
        """Raise an error about the first bad cell by rows, or note the first of each column."""
        names = [*(layout.features or (f"{layout.vector}[{i}]" for i in range(layout.width)))]
        if self.every_label and labels is not None:
            bad = np.column_stack([labels == "", bad])
            names.insert(0, str(layout.label))

        def error_at(row: int, column: int) -> DataError:
            entry = column - len(names) + layout.width  # negative: the label
            is_vector = layout.vector is not None and entry >= 0
            found = batch.columns[str(layout.vector) if is_vector else names[column]][row]
            cell = found[entry] if is_vector else getattr(found, "as_py", lambda: found)()
            return _bad_cell(batch.rows[row], names[column], batch.file, cell)

        if not bad.any():
            return
        if self.bad_cells is None:
            raise error_at(*np.argwhere(bad)[0])
        for column in np.flatnonzero(bad.any(axis=0)):
            rows = np.flatnonzero(bad[:, column])
            first, n = self.bad_cells.get(names[column], (None, 0))
            first = first or error_at(int(rows[0]), int(column))
            self.bad_cells[names[column]] = first, n + len(rows)

    # Arrays

    def _array_blocks(self, path: Path) -> Iterator[Block]:
        arrays = stored_arrays(path)
        chosen = pick_features(arrays, self.features_key)
        matrix = as_features(chosen)
        n, d = matrix.shape
        require_width(d, matrix.source, self)
        self.total = n
        y = None
        if self.with_labels:
            given = self.labels, self.labels_key
            y = labels_as_text(arrays, matrix, path, *given, is_needed=self.needs_labels)
        vectors = [a for a in arrays if a is not chosen and a.shape == (n,)]
        carried = {a.name: a.read() for a in vectors if a.dtype.kind in "iufbU"}
        size = self._n_rows(d)
        # Single precision holds whole numbers of 16 bits, which models would make double.
        dtype = matrix.dtype if matrix.dtype.itemsize > 2 else np.dtype(np.float32)
        self.done = self.n_read = min(self.first * size, n)
        without = (np.empty((min(size, n - at), 0)) for at in range(self.done, n, size))
        for X in chosen.blocks(size, self.done) if self.with_features else without:
            X = np.array(X, dtype=dtype)  # a copy: a memory map would be read twice
            require_finite(X, matrix.source, self.done)
            rows = slice(self.done, self.done + len(X))
            self.done += len(X)
            self.n_read = self.done
            others = {name: values[rows] for name, values in carried.items()}
            yield Block(X, others, None if y is None else y[rows])

    def _n_rows(self, n_features: int, is_text: bool = False) -> int:
        numbers = self.block or (_TEXT_NUMBERS if is_text else rows_per_block(_NUMBER))
        return self.rows or rows_per_chunk(n_features, numbers)


def wrong_options(path: Path, stream: FeatureStream) -> list[str]:
    """Return what is wrong with options of arrays that are given for a table."""
    problems = []
    if stream.labels is not None:
        problems.append(
            f"A table has its labels in a column; {path.name} is a table, and "
            f"{Path(stream.labels).name} is a file of labels. Add them to the table as a column "
            "`label`."
        )
    keys = {"labels_key": stream.labels_key}
    if ending_of(path) != LINES:
        keys = {"features_key": stream.features_key, **keys}
    problems += [
        f"`{parameter}` must be None for a table; got {key!r}, and {path.name} is a table. Name "
        "the column of labels with `label_column`."
        for parameter, key in keys.items()
        if key is not None
    ]
    return problems


def _stack_vectors(batch: Batch, key: str, layout: Layout) -> np.ndarray:
    """Return lists of features, in lines of JSON, as a matrix."""
    width = layout.width
    X = np.empty((len(batch.rows), width), layout.dtype)
    for row, (number, values) in enumerate(zip(batch.rows, batch.columns[key], strict=True)):
        if not isinstance(values, list) or len(values) != width:
            found = len(values) if isinstance(values, list) else "no list"
            raise DataError(
                f"`{key}` must be a list of {width} numbers in every line of {batch.file}; line "
                f"{number} has {found}. Correct it, or remove the line."
            )
        X[row] = read_numbers(values)
    return X


def _bad_cell(row: int, column: str, file: str, cell: Any) -> DataError:
    text = "" if cell is None else str(cell)
    what = "is empty" if is_blank(text) else f"must be a finite number; got {text[:40]!r}"
    remedy = "Fill it in" if is_blank(text) else "Correct it"
    return DataError(
        f"Row {row}, column {column!r} of {file} {what}. {remedy}, or remove the row or the column."
    )


def _as_text(column: Any, name: str, batch: Batch) -> np.ndarray:
    """Return labels as text: 7.0 is "7", a missing one ""."""
    kind: Any = getattr(column, "type", None)  # of Arrow
    width = kind.bit_width if str(kind) in ("halffloat", "float", "double") else 64
    limit = find_exact_limit(np.dtype(f"f{width // 8}"))
    labels = []
    for row, cell in zip(batch.rows, cells(column), strict=True):
        text = "" if cell is None else str(cell)
        if isinstance(cell, float):
            if abs(cell) > limit:
                raise DataError(
                    f"Row {row}, column {name!r} of {batch.file} must be exact, which numbers "
                    f"beyond {limit} are not; got {cell:.0f}. Save labels as text."
                )
            text = "" if math.isnan(cell) else str(int(cell)) if cell.is_integer() else text
        labels.append(text if text.strip() else "")
    return np.array(labels, dtype=str)


def _name_standard_input(path: Path) -> AbstractContextManager[None]:
    """Name standard input in errors instead of its temporary file."""
    words = {"Rename it to stdin.": "Pass --format "}
    words |= dict.fromkeys((str(path), path.name), "standard input")
    return reword(DataError, words)
