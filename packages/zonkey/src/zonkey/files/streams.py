"""Read features in blocks of rows: files larger than memory, and standard input.

Features of a table are the columns that the model was fitted on, if their names are known; else all
columns of numbers but the labels, `split`, `id` and names that end in `_id`. All other columns are
carried along, so that answers can stand beside them.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from ..labels import format_labels
from ..optional import require_package
from ..streaming.sources import rows_per_chunk
from .dataset import DataError, require_one_label_per_row
from .readers import (
    ARRAY_ENDINGS,
    FOLDER,
    SEPARATORS,
    TABLE_ENDINGS,
    check_first_line,
    check_names,
    csv_rows,
    ending_of,
    is_number,
    is_utf16,
    parquet_files,
    position_of,
    require_existing,
    stored_arrays,
    translate_errors,
)
from .tables import (
    FEATURE_KEYS,
    LABEL_COLUMNS,
    as_features,
    is_blank,
    is_no_feature,
    is_text_column,
    label_strings,
    pick_features,
    pick_labels,
    read_labels,
)

LINES = ".jsonl"
STREAM_ENDINGS = (*TABLE_ENDINGS, LINES, FOLDER, *ARRAY_ENDINGS)
STANDARD_INPUT = "-"
TEXT_ENDINGS = (*SEPARATORS, LINES)
_BLOCK = 1 << 22  # numbers that are held at a time
_TEXT_BLOCK = 1 << 20  # of text, which takes a second or so to read
_LOOKED_AT = 20  # rows in which columns of text are looked for

# Number of a row in its file, its features, its other cells
Row = tuple[int, np.ndarray, list[Any]]


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a file.

    `carried` holds the non-feature columns, the labels among them: lists, NumPy or Arrow
    arrays. `labels` are text, "" if missing, and None if they were not asked for.
    """

    X: np.ndarray
    carried: dict[str, Any]
    labels: np.ndarray | None = None


@dataclass(frozen=True)
class Layout:
    """What the columns of a table are; if the features have no names, one cell holds them all."""

    width: int
    features: tuple[str, ...]
    carried: tuple[str, ...]
    label: str | None


@dataclass(eq=False)
class FeatureStream:
    """Rows of a file, a folder of parquet files, or standard input, in blocks.

    No block spans two files, or two row groups of a parquet file. Iterating reads the file;
    meanwhile `done` of `total` bytes or rows tell the progress. From the first block on, `columns`
    are the names of the features, None if they have none, and `unused` those of other columns than
    features, labels and `split`.
    """

    path: str | Path  # "-" is standard input
    format: str = "csv"  # of standard input; files tell it by their ending
    n_features: int | None = None  # the number there must be
    feature_names: Sequence[str] | None = None  # the columns there must be in a table
    with_labels: bool = False
    needs_labels: bool = True  # if not, a file without labels is no error
    labels: str | Path | None = None  # file of the labels, if the features are arrays
    label_column: str | None = None
    features_key: str | None = None
    labels_key: str | None = None
    block: int | None = None  # numbers to hold at a time
    rows: int | None = None  # rows of a block, in place of `block`
    first: int = 0  # number of the first block to yield

    done: int = field(default=0, init=False)
    total: int | None = field(default=None, init=False)
    columns: tuple[str, ...] | None = field(default=None, init=False)
    unused: tuple[str, ...] = field(default=(), init=False)
    _n_lines: int = field(default=0, init=False)

    @property
    def n_read(self) -> int:
        """Number of rows so far, those before the first block included."""
        return self._n_lines or self.done

    def __iter__(self) -> Iterator[Block]:
        self.done, self.total, self.columns, self.unused = 0, None, None, ()
        self._n_lines = 0
        if str(self.path) != STANDARD_INPUT:
            yield from self._file_blocks(require_existing(self.path, STREAM_ENDINGS))
            return
        if sys.stdin is None:
            raise DataError("Standard input must be open; it is closed. Pass a file.")
        path = Path(f"stdin.{self.format}")
        if path.suffix in TEXT_ENDINGS:
            with _name_standard_input(path), translate_errors(path):
                yield from islice(self._text_blocks(sys.stdin.buffer, path), self.first, None)
            return
        with TemporaryDirectory() as folder:  # other formats are not read from front to end
            path = Path(folder) / path
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            with _name_standard_input(path):
                yield from self._file_blocks(require_existing(path, STREAM_ENDINGS))

    def _file_blocks(self, path: Path) -> Iterator[Block]:
        ending = ending_of(path)
        if ending in ARRAY_ENDINGS:
            yield from self._array_blocks(path)
            return
        if self.labels is not None:
            raise DataError(
                f"A table has its labels in a column; {path.name} is a table, and "
                f"{Path(self.labels).name} is a file of labels. Add them as a column `label`."
            )
        if ending in (".parquet", FOLDER):
            yield from self._parquet_blocks([path] if path.is_file() else parquet_files(path))
            return
        with translate_errors(path), path.open("rb") as file:
            self.total = path.stat().st_size
            yield from islice(self._text_blocks(file, path), self.first, None)

    # csv, tsv and lines of JSON

    def _text_blocks(self, file: BinaryIO, path: Path) -> Iterator[Block]:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        n = 0
        try:
            with _translate_decoding(path, lambda: n):
                read = self._json if path.suffix.lower() == LINES else self._csv
                layout, rows = read(text, path)
                self._note(layout)
                for block in self._collect_blocks(rows, layout, path.name):
                    n += len(block.X)
                    self._n_lines = n
                    self.done = n if self.total is None else file.tell()
                    yield block
        finally:
            text.detach()  # or else standard input would be closed
        if not n:
            raise DataError(f"{path.name} has no row below its heading. Check what was saved.")

    def _csv(self, text: io.TextIOBase, path: Path) -> tuple[Layout, Iterator[Row]]:
        lines = csv_rows(text, SEPARATORS[path.suffix.lower()])
        names = [name.strip() for name in next(lines, [])]
        if not names:
            raise DataError(f"{path.name} is empty. Check what was saved.")
        check_first_line(names, path, (*self._label_names, "id", *(self.feature_names or ())))
        first = list(islice(lines, _LOOKED_AT))
        whole = [row for row in first if len(row) == len(names)]
        place = {name: position for position, name in enumerate(names)}
        text_columns = {name for name in names if is_text_column(row[place[name]] for row in whole)}
        blank = {name for name in names if all(is_blank(row[place[name]]) for row in whole)}
        layout = self._layout(names, text_columns.__contains__, path.name, blank if whole else ())
        return layout, _csv_rows(chain(first, lines), names, layout, path.name)

    def _json(self, text: io.TextIOBase, path: Path) -> tuple[Layout, Iterator[Row]]:
        records = _json_records(text, path.name)
        number, first = next(records, (0, None))
        if first is None:
            raise DataError(f"{path.name} is empty. Check what was saved.")
        keys = FEATURE_KEYS if self.features_key is None else (self.features_key,)
        vector = next((key for key in keys if isinstance(first.get(key), list)), None)
        if vector is None:
            layout = self._layout(list(first), lambda key: not _is_real(first[key]), path.name)
        else:
            self._require_width(len(first[vector]), f"`{vector}` in row {number} of {path.name}")
            others = [key for key in first if key != vector]
            label = self._label_of(others, others, path.name)
            layout = Layout(len(first[vector]), (), tuple(others), label)
        return layout, _json_rows(chain([(number, first)], records), layout, vector, path.name)

    def _collect_blocks(self, rows: Iterator[Row], layout: Layout, file: str) -> Iterator[Block]:
        """Yield blocks of rows; all their features must be finite."""
        size = self._n_rows(layout.width, _TEXT_BLOCK)
        while chunk := list(islice(rows, size)):
            X = np.stack([features for _, features, _ in chunk])
            bad = ~np.isfinite(X)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                name = layout.features[column] if layout.features else f"feature {column + 1}"
                raise _bad_cell(chunk[row][0], name, file, str(X[row, column]))
            columns = zip(*(others for *_, others in chunk), strict=True)
            carried = dict(zip(layout.carried, map(list, columns), strict=True))
            yield self._label_block(X, carried, layout)

    def _label_block(self, X: np.ndarray, carried: dict[str, Any], layout: Layout) -> Block:
        if not self.with_labels or layout.label is None:
            return Block(X, carried)
        return Block(X, carried, np.array([_label(cell) for cell in cells(carried[layout.label])]))

    # Parquet

    def _parquet_blocks(self, paths: list[Path]) -> Iterator[Block]:
        require_package("pyarrow", "Reading .parquet")
        parquet = import_module("pyarrow.parquet")
        abouts = []
        for path in paths:
            with translate_errors(require_existing(path, (".parquet",))):
                abouts.append(parquet.read_metadata(path))
        self.total = sum(about.num_rows for about in abouts)
        if not self.total:
            raise DataError(f"{paths[0].name} has no row. Check what was saved.")
        names = abouts[0].schema.to_arrow_schema().names
        layout, skip = None, self.first
        for path, about in zip(paths, abouts, strict=True):
            _require_columns(about.schema.to_arrow_schema().names, names, path, paths[0])
            # Not buffered ahead, which would hold a whole group of rows, often the whole file.
            with (
                translate_errors(path),
                parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file,
            ):
                layout = layout or self._parquet_layout(file, path)
                size, before = self._n_rows(layout.width), self.done
                columns = [*layout.features, *layout.carried]
                for group in range(about.num_row_groups):
                    n = about.row_group(group).num_rows
                    n_blocks = -(-n // size)
                    if skip >= n_blocks:
                        skip, self.done = skip - n_blocks, self.done + n
                        continue
                    batches = file.iter_batches(size, row_groups=[group], columns=columns)
                    self.done += skip * size
                    yield from self._batches(islice(batches, skip, None), layout, path, before)
                    skip = 0

    def _parquet_layout(self, file: Any, path: Path) -> Layout:
        types = import_module("pyarrow").types
        schema = file.schema_arrow
        check_names(schema.names, path, self._label_names)
        kinds = dict(zip(schema.names, schema.types, strict=True))
        numeric = {name for name, kind in kinds.items() if _is_numeric(types, kind)}
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        numeric -= {name for name in index if isinstance(name, str)}
        plain = [name for name in schema.names if not _is_nested(types, kinds[name])]
        layout = self._layout(plain, lambda name: name not in numeric, path.name)
        self._note(layout)
        return layout

    def _batches(
        self, batches: Iterable[Any], layout: Layout, path: Path, before: int
    ) -> Iterator[Block]:
        """Yield blocks of a file before which there were so many rows."""
        types = import_module("pyarrow").types
        for batch in batches:
            kinds = {name: batch.schema.field(name).type for name in layout.features}
            single = all(_is_single(types, kind) for kind in kinds.values())
            X = np.empty((layout.width, len(batch)), np.float32 if single else np.float64)
            for values, (name, kind) in zip(X, kinds.items(), strict=True):
                column = batch.column(name)
                values[:] = (
                    column.to_numpy(zero_copy_only=False)
                    if _is_numeric(types, kind)
                    else [_number(cell) for cell in column.to_pylist()]
                )
                if not np.isfinite(values).all():
                    row = int(np.argmin(np.isfinite(values)))
                    cell = column[row].as_py()
                    raise _bad_cell(self.done - before + row + 1, name, path.name, str(cell))
            self.done += len(batch)
            carried = {name: batch.column(name) for name in layout.carried}
            yield self._label_block(np.ascontiguousarray(X.T), carried, layout)

    # Arrays

    def _array_blocks(self, path: Path) -> Iterator[Block]:
        arrays = stored_arrays(path)
        chosen = pick_features(arrays, self.features_key)
        matrix = as_features(chosen)
        n, d = matrix.shape
        self._require_width(d, matrix.source)
        self.total = n
        y = self._labels_of_arrays(arrays, matrix, path) if self.with_labels else None
        vectors = [a for a in arrays if a is not chosen and a.shape == (n,)]
        carried = {a.name: a.read() for a in vectors if a.dtype.kind in "iufbU"}
        size = self._n_rows(d)
        # Single precision holds whole numbers of 16 bits, which models would make double.
        dtype = matrix.dtype if matrix.dtype.itemsize > 2 else np.dtype(np.float32)
        self.done = min(self.first * size, n)
        for X in chosen.blocks(size, self.done):
            X = np.array(X, dtype=dtype)  # a copy: a memory map would be read twice
            bad = ~np.isfinite(X).all(axis=1)
            if bad.any():
                raise DataError(
                    f"Features must be finite; row {self.done + int(np.argmax(bad))} of "
                    f"{matrix.source} holds NaN or infinity. Drop such rows, or impute them before "
                    "saving."
                )
            rows = slice(self.done, self.done + len(X))
            self.done += len(X)
            others = {name: values[rows] for name, values in carried.items()}
            yield Block(X, others, None if y is None else y[rows])

    def _labels_of_arrays(self, arrays: Any, matrix: Any, path: Path) -> np.ndarray | None:
        found, source = None, Path(self.labels or path).name
        if self.labels is not None:
            found = read_labels(self.labels)
        else:
            found = pick_labels(arrays, len(matrix), self.labels_key)
        if found is None and not self.needs_labels:
            return None
        if found is None:
            raise DataError(
                f"Features need labels; {path.name} holds none. Save them in it as `labels`, or "
                "pass a file of labels."
            )
        labels = label_strings(found, source)
        require_one_label_per_row(matrix, labels, source)
        return labels

    # Which column is what

    def _note(self, layout: Layout) -> None:
        self.columns = layout.features or None
        self.unused = tuple(
            name for name in layout.carried if name != layout.label and name.casefold() != "split"
        )

    def _n_rows(self, n_features: int, block: int = _BLOCK) -> int:
        return self.rows or rows_per_chunk(n_features, self.block or block)

    @property
    def _label_names(self) -> tuple[str, ...]:
        return LABEL_COLUMNS["features"] if self.label_column is None else (self.label_column,)

    def _layout(
        self,
        names: list[str],
        is_text: Callable[[str], bool],
        file: str,
        blank: Collection[str] = (),
    ) -> Layout:
        """Return what the columns are; those of text are no features.

        A blank column is none either, unless the model has that many: a feature needs all cells.
        """
        label = self._label_of(names, [name for name in names if is_text(name)], file)
        if self.feature_names is not None:
            features = list(self.feature_names)
            missing = [name for name in features if name not in set(names)]
            if missing:
                raise DataError(
                    f"{file} must have the {len(features)} columns that the model was fitted on; "
                    f"{format_labels(np.array(missing), 3)} {'are' if len(missing) > 1 else 'is'} "
                    "missing. Name the columns as in training."
                )
        else:
            others = [name for name in names if name != label and not is_no_feature(name)]
            features = [name for name in others if not is_text(name)]
            if len(features) != self.n_features:
                features = [name for name in features if name not in blank]
            self._require_width(len(features), file, features)
        used = set(features)
        carried = tuple(name for name in names if name not in used)
        return Layout(len(features), tuple(features), carried, label)

    def _label_of(self, names: list[str], text: Iterable[str], file: str) -> str | None:
        """Return the column of labels: by its name, else the only column of text."""
        position = position_of(self._label_names, names)
        if position is not None:
            return names[position]
        if not self.with_labels and self.label_column is None:
            return None
        text = [name for name in text if not is_no_feature(name)]
        if self.label_column is None and len(text) == 1:
            return text[0]
        if self.label_column is None and not self.needs_labels:
            return None
        wanted = " or ".join(self._label_names)
        raise DataError(
            f"{file} must have a column of labels, named {wanted}; its columns are "
            f"{format_labels(np.array(names), 8)}. Rename one, or name it with --label-column."
        )

    def _require_width(self, found: int, source: str, columns: Sequence[str] = ()) -> None:
        if not found:
            raise DataError(f"{source} has no column of numbers. Check what was saved.")
        if self.n_features in (None, found):
            return
        names = f" ({format_labels(np.array(columns), 4)})" if columns else ""
        remedy = "Use the encoder of the training samples."
        if columns and found > self.n_features:
            remedy = "Remove non-feature columns, or name them `id` or `label`."
        raise DataError(
            f"{source} must have the {self.n_features} features of the model; it has "
            f"{found}{names}. {remedy}"
        )


def cells(column: Any) -> list[Any]:
    """Return a carried column as a list of Python objects."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


def _csv_rows(
    lines: Iterator[list[str]], names: list[str], layout: Layout, file: str
) -> Iterator[Row]:
    place = {name: position for position, name in enumerate(names)}
    features, others = (_make_picker(part, place) for part in (layout.features, layout.carried))
    blank = None
    for number, line in enumerate(lines, start=2):
        if not line:
            blank = blank or number
            continue
        if len(line) != len(names) or blank:  # blank lines may only end the file
            row, found = (blank, 0) if blank else (number, len(line))
            raise DataError(
                f"Rows must have a cell for each of the {len(names)} columns; row {row} of {file} "
                f"has {found}. Correct it; text that contains a separator needs quotes."
            )
        values = features(line)
        try:
            numbers = np.array(list(map(float, values)))
            valid = "_" not in "".join(values)  # Python reads 1_000 as a number
        except ValueError:
            numbers, valid = np.empty(0), False
        if not valid:
            bad = next(i for i, value in enumerate(values) if not is_number(value))
            raise _bad_cell(number, layout.features[bad], file, values[bad])
        yield number, numbers, list(others(line))


def _make_picker(
    names: Sequence[str], place: dict[str, int]
) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that takes the cells of some columns from a row."""
    wanted = [place[name] for name in names]
    start = wanted[0] if wanted else 0
    if wanted == list(range(start, start + len(wanted))):
        run = slice(start, start + len(wanted))
        return lambda row: row[run]
    return itemgetter(*wanted)


def _json_records(text: io.TextIOBase, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(
                f"Every line of {file} must be a JSON object; line {number} is not. Write it as "
                '{"id": 7, "features": [0.5, 1.0]}.'
            )
        yield number, record


def _json_rows(
    records: Iterable[tuple[int, dict[str, Any]]],
    layout: Layout,
    vector: str | None,
    file: str,
) -> Iterator[Row]:
    known = {*layout.features, *layout.carried, vector}
    for number, record in records:
        if not known >= record.keys():
            new = next(key for key in record if key not in known)
            raise DataError(
                f"Lines of {file} must have the keys of the first one; line {number} also has "
                f"{new!r}. Write the same keys in every line."
            )
        if vector is None:
            values = [record.get(name) for name in layout.features]
        else:
            values = record.get(vector)
            if not isinstance(values, list) or len(values) != layout.width:
                found = len(values) if isinstance(values, list) else "no list"
                raise DataError(
                    f"`{vector}` must be a list of {layout.width} numbers in every line of {file}; "
                    f"line {number} has {found}. Correct it, or remove the line."
                )
        bad: list[int] = []
        if {*map(type, values)} != {float}:  # they are all of one type as a rule
            bad = [i for i, value in enumerate(values) if not _is_real(value)]
        if bad:
            i = bad[0]
            name = layout.features[i] if vector is None else f"{vector}[{i}]"
            raise _bad_cell(number, name, file, "" if values[i] is None else str(values[i]))
        yield number, np.array(values, dtype=float), [record.get(key) for key in layout.carried]


@contextmanager
def _name_standard_input(path: Path) -> Iterator[None]:
    """Name standard input in errors instead of the file that stands for it."""
    try:
        yield
    except DataError as error:
        text = str(error).replace(str(path), "standard input").replace(path.name, "standard input")
        raise DataError(re.sub(r"Rename it to stdin\.(\w+)", r"Pass --format \1", text)) from None


@contextmanager
def _translate_decoding(path: Path, n_rows: Callable[[], int]) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        if not n_rows() and is_utf16(error.object):
            raise DataError(
                f"{path.name} must be UTF-8 text; it is UTF-16. Save the file as UTF-8."
            ) from None
        raise DataError(
            f"{path.name} must be UTF-8 text; byte 0x{error.object[error.start]:02x} after row "
            f"{n_rows()} or later is not. Save the file as UTF-8."
        ) from None


def _bad_cell(row: int, column: str, file: str, cell: str) -> DataError:
    empty = cell.strip().lower() in ("", "nan", "none")
    what = "is empty" if empty else f"must be a finite number; got {cell[:40]!r}"
    remedy = "Fill it in" if empty else "Correct it"
    return DataError(f"Row {row}, column {column!r} of {file} {what}. {remedy}, or remove the row.")


def _label(cell: Any) -> str:
    """Return a label as text: 7.0 is "7", a missing one ""."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    return text if text.strip() else ""


def _is_real(value: Any) -> bool:
    # No number of that many digits is finite in double precision.
    return type(value) is float or (type(value) is int and value.bit_length() < 1000)


def _number(cell: Any) -> float:
    """Return a cell that is no number by its type, such as text, as a number; else NaN."""
    return float(cell) if is_number(str(cell)) else math.nan


def _is_numeric(types: Any, kind: Any) -> bool:
    return types.is_integer(kind) or types.is_floating(kind)


def _is_single(types: Any, kind: Any) -> bool:
    """Whether single precision holds all values of an Arrow type."""
    if types.is_floating(kind):
        return kind.bit_width <= 32
    return types.is_integer(kind) and kind.bit_width <= 16


def _require_columns(names: list[str], expected: list[str], path: Path, first: Path) -> None:
    """Refuse a file of a folder with other columns than the first."""
    different = set(names) ^ set(expected)
    if different:
        name = min(different)
        lacks = "lacks" if name in expected else "also has"
        raise DataError(
            f"Files of a folder must have the same columns; {path.name} {lacks} {name!r}, unlike "
            f"{first.name}. Save both with the same columns."
        )


def _is_nested(types: Any, kind: Any) -> bool:
    """Whether cells of this Arrow type are no single values that can be written as text."""
    return types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind)
