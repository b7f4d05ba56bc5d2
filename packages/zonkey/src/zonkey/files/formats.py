"""Open tables (csv, tsv, lines of JSON, parquet) as batches of columns."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import DataError
from ..optional import require_package
from .readers import (
    SEPARATORS,
    decode_text,
    is_number,
    is_utf16,
    parquet_files,
    require_existing,
    translate_errors,
)

LINES = ".jsonl"
TEXT_ENDINGS = (*SEPARATORS, LINES)
LOOKED_AT = 100  # rows that show what the columns are
_EMPTY = ("", "nan", "na", "n/a", "null", "none", "<na>")
_BYTES = 1 << 20  # that are parsed at a time; more if a row is longer
_MOST_BYTES = 1 << 30
_INPUT_BYTES = 1 << 24  # of standard input, which cannot be read again with more
_HEAD = 1 << 16  # bytes in which the heading is looked for first
_ROWS = 1 << 14  # of all columns, that are read at a time
_LARGEST_BITS = 1000  # integers of more bits overflow double precision


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a table: Arrow arrays or lists by name of the column.

    `rows` are the numbers of the rows in `file`, as users count them.
    """

    columns: dict[str, Any]
    rows: Sequence[int]
    file: str


class OpenTable(ABC):
    """A table that is being read.

    `names` are those of its columns; `sample` holds the first rows. Meanwhile `done` of `total`
    bytes or rows show the progress.
    """

    names: list[str]
    sample: Batch
    total: int | None = None
    done: int = 0
    heading: bool = False  # whether the first line names the columns
    index: frozenset[str] = frozenset()  # columns that number the rows

    @abstractmethod
    def batches(self, rows: int, columns: Sequence[str], first: int = 0) -> Iterator[Batch]:
        """Yield so many rows of these columns at a time, from some batch on."""

    def close(self) -> None:
        """Close the file."""
        vars(self).pop("_tables", None)

    def __enter__(self) -> OpenTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_table(path: Path, file: BinaryIO | None = None, *, nested: bool = False) -> OpenTable:
    """Open a table, or a folder of parquet files; its errors are those of `path`.

    `file` holds the content if it is not in `path`, such as standard input; it stays open. Columns
    of lists are left out unless `nested`, for texts of classes; then lines of JSON may also be
    names, and may lack keys.
    """
    ending = path.suffix.lower()
    if ending == LINES:
        return _LinesTable(path, file, nested)
    return _CsvTable(path, file) if ending in SEPARATORS else _ParquetTable(path, nested)


def read_cells(table: OpenTable, most: int | None = None) -> list[list[Any]]:
    """Return all cells of a table by columns, or those of its first rows."""
    if most is not None and most <= LOOKED_AT:
        return [cells(table.sample.columns[name])[:most] for name in table.names]
    found: list[list[Any]] = [[] for _ in table.names]
    for batch in table.batches(_ROWS, table.names):
        for part, name in zip(found, table.names, strict=True):
            part += cells(batch.columns[name])
    return found


# Cells


def is_blank(cell: str) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    return cell.strip().lower() in _EMPTY


def is_text_column(cells: Iterable[str]) -> bool:
    """Whether most of the nonempty cells are not numbers."""
    cells = [cell for cell in cells if not is_blank(cell)]
    return sum(not is_number(cell) for cell in cells) > len(cells) / 2


def cells(column: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


def read_numbers(column: Any, *, as_printed: bool = False) -> np.ndarray:
    """Return a column as double precision; a cell that is not a number becomes NaN.

    A 0.1 in single precision is 0.10000000149, and 0.1 if `as_printed`.
    """
    if isinstance(column, list):
        if {*map(type, column)} == {float}:  # as a rule
            return np.array(column)
        return np.array([float(cell) if _is_real(cell) else math.nan for cell in column])
    pa = import_module("pyarrow")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        if as_printed and str(column.type) in ("halffloat", "float"):
            column = column.cast(pa.float32()).cast(pa.string())
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        try:
            return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # spaces, empty cells, text
            pass
    texts = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    return np.array([float(text) if is_number(text) else math.nan for text in texts])


def has_digits(column: Any, n: int) -> bool:
    """Whether a number takes at least so many significant digits to print."""
    pa, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    is_typed = not isinstance(column, list) and pa.types.is_floating(column.type)
    numbers: Any = column if is_typed else pa.array(read_numbers(column))
    texts = numbers.cast(pa.string())
    pattern = rf"[1-9](\.?[0-9]){{{n - 2},}}\.?[1-9]"
    return bool(compute.any(compute.match_substring_regex(texts, pattern)).as_py())


def holds_text(column: Any, *, typed: bool = False) -> bool:
    """Whether most cells are not numbers; one misspelled number does not make a column text.

    Arrow knows the type of a column of a `typed` table; others are of text.
    """
    if isinstance(column, list):
        found = [cell for cell in column if cell is not None and cell == cell]
        return sum(not _is_real(cell) for cell in found) > len(found) / 2
    types = import_module("pyarrow").types
    if types.is_integer(column.type) or types.is_floating(column.type):
        return False
    if typed:
        return not types.is_decimal(column.type)
    if np.isfinite(read_numbers(column)).all():
        return False
    return is_text_column("" if cell is None else str(cell) for cell in column.to_pylist())


def holds_nothing(column: Any) -> bool:
    """Whether all cells are empty."""
    return all(cell is None or is_blank(str(cell)) for cell in cells(column))


def _is_real(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < _LARGEST_BITS
    return type(value) is float


# csv and tsv


class _CsvTable(OpenTable):
    """Rows of text, all of whose cells are read as text first: labels such as 01 stay."""

    heading = True

    def __init__(self, path: Path, file: BinaryIO | None) -> None:
        self._arrow = require_package("pyarrow", f"Reading {path.suffix}")
        self._path, self._file = path, file
        self._wrong: DataError | None = None
        self._separator = SEPARATORS[path.suffix.lower()]
        with translate_errors(path):
            if file is None:
                self.total = path.stat().st_size
                with path.open("rb") as start:
                    head = _read_head(start)
            else:
                head = _read_head(file)
        self.names = self._read_heading(head)
        self._head = head
        self._tables = self._without_blank_end()
        self._held, n = [], 0
        for table in self._tables:
            self._held.append(table)
            n += len(table)
            if n >= LOOKED_AT:
                break
        self.sample = Batch({name: [] for name in self.names}, (), path.name)
        if n:
            self.sample = self._batch(
                self._arrow.concat_tables(self._held).slice(0, LOOKED_AT), self.names, 2
            )

    def _read_heading(self, head: bytes) -> list[str]:
        text = "" if is_utf16(head) else head.decode("utf-8-sig", "replace")
        if not text.strip():
            decode_text(head, self._path)
        with translate_errors(self._path):
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._separator)
            names = [name.strip() for name in next(rows, [])]
        if not names:
            raise DataError(
                f"The first line of {self._path.name} must name the columns; it is blank. "
                "Remove it."
            )
        _check_separator(names, self._path)
        return names

    def batches(self, rows: int, columns: Sequence[str], first: int = 0) -> Iterator[Batch]:
        """Yield so many rows of these columns at a time, from some batch on."""
        number = 2
        for table in self._cut(chain(self._held, self._tables), rows):
            if first:
                first -= 1
            else:
                yield self._batch(table, columns, number)
            number += len(table)

    def _batch(self, table: Any, columns: Sequence[str], number: int) -> Batch:
        place = {name: position for position, name in enumerate(self.names)}
        chosen = {name: table.column(place[name]).combine_chunks() for name in columns}
        return Batch(chosen, range(number, number + len(table)), self._path.name)

    def _cut(self, tables: Iterable[Any], rows: int) -> Iterator[Any]:
        """Yield tables of so many rows; the last one may have fewer."""
        held = None
        for table in tables:
            held = table if held is None else self._arrow.concat_tables([held, table])
            whole = len(held) // rows * rows
            for start in range(0, whole, rows):
                yield held.slice(start, rows)
            held = held.slice(whole)
        if held is not None and len(held):
            yield held

    def _without_blank_end(self) -> Iterator[Any]:
        """Yield tables without rows of empty cells at the end of the file."""
        held = None
        is_heading = not {*b"\n\r"} & {*self._head.strip()}
        for table in () if is_heading else self._read():
            whole = table if held is None else self._arrow.concat_tables([held, table])
            n = len(whole)
            while n and not any(column[n - 1].as_py() for column in whole.columns):
                n -= 1
            held = whole.slice(n) if n < len(whole) else None
            if n:
                yield whole.slice(0, n)

    def _read(self) -> Iterator[Any]:
        """Yield parsed batches; parse again with larger pieces if a piece does not hold a row."""
        size, n_read = _BYTES if self._file is None else _INPUT_BYTES, 0
        while True:
            n = 0
            try:
                for batch in self._parse(size):
                    n += len(batch)
                    if n > n_read:
                        fresh = batch.slice(len(batch) - min(n - n_read, len(batch)))
                        n_read = n
                        yield self._arrow.Table.from_batches([fresh])
                return
            except self._arrow.ArrowInvalid as error:
                if self._wrong is not None:
                    raise self._wrong from None
                can_grow = self._file is None and size < _MOST_BYTES
                if "straddling" not in str(error) or not can_grow:
                    raise self._explain(error, size) from None
                size *= 8

    def _parse(self, size: int) -> Iterator[Any]:
        """Yield batches of rows, parsed in pieces of so many bytes."""
        reader, arrow = import_module("pyarrow.csv"), self._arrow
        places = [*map(str, range(len(self.names)))]
        with ExitStack() as stack:
            if self._file is None:
                source = stack.enter_context(arrow.OSFile(str(self._path)))
            else:
                source = stack.enter_context(arrow.PythonFile(_Rest(self._head, self._file), "r"))
            found = reader.open_csv(
                source,
                read_options=reader.ReadOptions(
                    use_threads=False,  # or else numbers of rows are unknown
                    block_size=size,
                    column_names=places,
                    skip_rows_after_names=1,
                ),
                parse_options=reader.ParseOptions(
                    delimiter=self._separator,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=self._note,
                ),
                convert_options=reader.ConvertOptions(
                    column_types=dict.fromkeys(places, arrow.string()), strings_can_be_null=False
                ),
            )
            for batch in found:
                if self._file is None:
                    self.done = source.tell()
                yield batch
        self.done = self.total or 0

    def _note(self, row: Any) -> str:
        """Remember what is wrong with a row: Arrow would lose an error raised here."""
        self._wrong = DataError(
            f"Rows must have a cell for each of the {len(self.names)} columns; row {row.number} of "
            f"{self._path.name} has {row.actual_columns}. Correct it; text that contains a "
            "separator needs quotes."
        )
        return "error"

    def _explain(self, error: Exception, size: int) -> DataError:
        """Say what is wrong with a file that cannot be parsed."""
        name, text = self._path.name, " ".join(str(error).split())
        if "straddling" in text:
            return DataError(
                f"Rows must be shorter than {size >> 20} MB; {name} has a longer one. Close its "
                "quotes, or save arrays."
            )
        if "UTF8" not in text:
            return DataError(
                f"{name} must be a whole {self._path.suffix} file; it is damaged or cut short "
                f"({text[:80]}). Download or save it again."
            )
        where = "it has other bytes" if self._file else _find_other_bytes(self._path)
        return DataError(f"{name} must be UTF-8 text; {where}. Save the file as UTF-8.")


class _Rest(io.RawIOBase):
    """A stream whose start was read already; to close this does not close the stream."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        super().__init__()
        self._head, self._stream = head, file

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, fewer at the end."""
        if not self._head:
            return self._stream.read(size)
        part, self._head = self._head[:size], self._head[size:]
        return part + self._stream.read(size - len(part))


def _read_head(file: BinaryIO) -> bytes:
    """Return the start of a file, which holds the whole first line."""
    head = file.read(_HEAD)
    while True:
        end = max(head.find(b"\n"), head.find(b"\r"))
        whole = end >= 0 and head.count(b'"', 0, end) % 2 == 0
        more = b"" if whole else file.read(len(head) or 1)
        if not more:
            return head
        head += more


def _find_other_bytes(path: Path) -> str:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"byte 0x{line[error.start]:02x} in line {number} is not"
    return "it has other bytes"


def _check_separator(names: list[str], path: Path) -> None:
    for mark, called, remedy in (
        (";", "semicolons", "Save it with commas, and with points in numbers"),
        ("\t", "tabs", f"Rename it to {path.stem}.tsv"),
        (",", "commas", f"Rename it to {path.stem}.csv"),
    ):
        if len(names) == 1 and mark in names[0]:
            expected = "commas" if SEPARATORS[path.suffix.lower()] == "," else "tabs"
            raise DataError(
                f"The columns of {path.name} must be separated by {expected}; they are separated "
                f"by {called}. {remedy}."
            )


# Lines of JSON


class _LinesTable(OpenTable):
    """Objects with the same keys, one per line."""

    def __init__(self, path: Path, file: BinaryIO | None, are_texts: bool) -> None:
        self._name, self._are_texts = path.name, are_texts
        with translate_errors(path):
            self._raw = path.open("rb") if file is None else file
        self._is_own = file is None
        if file is None:
            self.total = path.stat().st_size
        self._records = self._parse()
        try:
            self._held = list(islice(self._records, LOOKED_AT))
        except DataError:
            self.close()
            raise
        if not self._held:
            self.close()
            raise DataError(f"{path.name} is empty. Check what was saved.")
        first = self._held if are_texts else self._held[:1]
        self.names = [*dict.fromkeys(name for _, record in first for name in record)]
        self.sample = self._batch(self._held, self.names)

    def close(self) -> None:
        """Close the file, unless it is standard input."""
        if self._is_own:
            self._raw.close()

    def batches(self, rows: int, columns: Sequence[str], first: int = 0) -> Iterator[Batch]:
        """Yield so many rows of these columns at a time, from some batch on."""
        known = {*self.names}
        records = chain(self._held, self._records)
        self._held = []
        while part := list(islice(records, rows)):
            for number, record in part:
                if not known >= record.keys():
                    new = next(key for key in record if key not in known)
                    raise DataError(
                        f"Lines of {self._name} must have the keys of the first one; line {number} "
                        f"also has {new!r}. Write the same keys in every line."
                    )
            if first:
                first -= 1
            else:
                yield self._batch(part, columns)

    def _batch(self, part: list[tuple[int, dict[str, Any]]], columns: Sequence[str]) -> Batch:
        found = {name: [record.get(name) for _, record in part] for name in columns}
        return Batch(found, [number for number, _ in part], self._name)

    def _parse(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(self._raw, start=1):
            if number == 1 and is_utf16(line):
                decode_text(line, Path(self._name))
            self.done += len(line)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self._name} must be UTF-8 text; byte 0x{line[error.start]:02x} in line "
                    f"{number} is not. Save the file as UTF-8."
                ) from None
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError):
                record = None
            if self._are_texts and isinstance(record, str):
                record = {"label": record}
            if not isinstance(record, dict):
                example = '"label": "zebra"' if self._are_texts else '"features": [0.5, 1.0]'
                raise DataError(
                    f"Every line of {self._name} must be a JSON object; line {number} is not. "
                    f"Write it as {{{example}}}."
                )
            yield number, record


# Parquet


class _ParquetTable(OpenTable):
    """Rows of a file, or of all files of a folder; no batch spans two groups of rows."""

    def __init__(self, path: Path, nested: bool) -> None:
        require_package("pyarrow", "Reading .parquet")
        self._parquet, types = (import_module(f"pyarrow.{name}") for name in ("parquet", "types"))
        self._paths = [path] if path.is_file() else parquet_files(path)
        self._abouts = []
        for part in self._paths:
            with translate_errors(require_existing(part, (".parquet",))):
                self._abouts.append(self._parquet.read_metadata(part))
        self.total = sum(about.num_rows for about in self._abouts)
        if not self.total:
            raise DataError(f"{self._paths[0].name} has no row. Check what was saved.")
        schema = self._abouts[0].schema.to_arrow_schema()
        self.columns = schema.names
        left_out = {
            name
            for name, kind in zip(schema.names, schema.types, strict=True)
            if types.is_binary(kind)
            or types.is_large_binary(kind)
            or (types.is_nested(kind) and not nested)
        }
        self.names = [name for name in schema.names if name not in left_out]
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        self.index = frozenset(name for name in index if isinstance(name, str))
        # Names must differ, or the meant column is ambiguous.
        with translate_errors(self._paths[0]), self._open(self._paths[0]) as file:
            distinct = len({*schema.names}) == len(schema.names)
            wanted = self.names if distinct else []
            batch = next(file.iter_batches(LOOKED_AT, columns=wanted))
        self.sample = self._batch(batch, wanted, 1, self._paths[0])

    def batches(self, rows: int, columns: Sequence[str], first: int = 0) -> Iterator[Batch]:
        """Yield so many rows of these columns at a time, from some batch on."""
        self.done = 0
        for path, about in zip(self._paths, self._abouts, strict=True):
            self._require_columns(about.schema.to_arrow_schema().names, path)
            number = 1
            with translate_errors(path), self._open(path) as file:
                for group in range(about.num_row_groups):
                    n = about.row_group(group).num_rows
                    n_batches = -(-n // rows)
                    if first >= n_batches:
                        first, self.done, number = first - n_batches, self.done + n, number + n
                        continue
                    self.done, number = self.done + first * rows, number + first * rows
                    found = file.iter_batches(rows, row_groups=[group], columns=list(columns))
                    for batch in islice(found, first, None):
                        self.done += len(batch)
                        yield self._batch(batch, columns, number, path)
                        number += len(batch)
                    first = 0

    def _open(self, path: Path) -> Any:
        # Not buffered ahead, which would hold a whole group of rows, often the whole file.
        return self._parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)

    def _batch(self, batch: Any, columns: Sequence[str], number: int, path: Path) -> Batch:
        found = {name: batch.column(name) for name in columns}
        return Batch(found, range(number, number + len(batch)), path.name)

    def _require_columns(self, names: list[str], path: Path) -> None:
        """Refuse a file of a folder with other columns than the first."""
        different = {*names} ^ {*self.columns}
        if different:
            name = min(different)
            lacks = "lacks" if name in self.columns else "also has"
            raise DataError(
                f"Files of a folder must have the same columns; {path.name} {lacks} {name!r}, "
                f"unlike {self._paths[0].name}. Save both with the same columns."
            )
