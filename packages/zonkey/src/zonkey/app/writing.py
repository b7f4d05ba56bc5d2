"""Write columns in blocks of rows: csv, tsv, jsonl, parquet, npz and npy files."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from ..errors import STREAM_NAME
from ..files.formats import LINES, cells
from ..files.readers import SEPARATORS
from ..optional import require_package
from ..persistence.container import whole_file
from .targets import name_target

# Columns of equal length: lists, NumPy or Arrow arrays. Arrays may be matrices in jsonl, npz and
# npy files, and single values in npz files.
Columns = dict[str, Any]
Write = Callable[[Columns], None]

Output = str | Path | IO[bytes]  # an open file is written at once
_ROW_GROUP = 1 << 22  # cells of a parquet file that are written at a time


def require_free(carried: Iterable[str], names: Iterable[str], source: str | Path) -> None:
    """Refuse columns of a source that have the name of a column to write."""
    taken = sorted({*carried} & {*names})
    if taken:
        raise ValueError(
            f"Columns of the output must differ; {source} has {taken[0]!r} already. Rename that "
            "column."
        )


def vector_columns(X: np.ndarray, ending: str, name: str, letter: str) -> Columns:
    """Return vectors as columns of a file with this ending: one column, or one per dimension.

    Text has enough digits to distinguish numbers of float32.
    """
    if ending in (*SEPARATORS, LINES):
        X = X.astype(str).astype(np.float64)
    if ending in (LINES, ".npz", ".npy"):
        return {name: X}
    return {f"{letter}{i + 1}": column for i, column in enumerate(X.T)}


@contextmanager
def open_output(
    target: Output | None, format: str = "", kept: dict[str, list[Any]] | None = None
) -> Iterator[Write]:
    """Yield a function to write columns with, a block of rows at a time.

    A file appears at the end, whole. An open file is written at once, in the format. Without a
    target, the cells are added to `kept`.
    """
    if target is None:
        yield partial(_keep, {} if kept is None else kept)
        return
    if isinstance(target, str | Path):
        name, ending, file = target, Path(target).suffix.lower(), whole_file(target)
    else:
        name, ending, file = STREAM_NAME, f".{format}", nullcontext(target)
    with file as opened, WRITERS[ending](opened) as write:

        def write_or_tell(columns: Columns) -> None:
            with name_target(name):
                write(columns)

        yield write_or_tell


def _keep(kept: dict[str, list[Any]], columns: Columns) -> None:
    for name, column in columns.items():
        kept.setdefault(name, []).extend(cells(column))


@contextmanager
def _write_separated(file: IO[bytes], separator: str) -> Iterator[Write]:
    text = io.TextIOWrapper(
        file, encoding="utf-8", errors="replace", newline="", write_through=True
    )
    lines = csv.writer(text, delimiter=separator, lineterminator="\n")
    names: list[str] = []

    def write(columns: Columns) -> None:
        if not names:
            names.extend(columns)
            lines.writerow(names)
        lines.writerows(zip(*map(_plain_cells, columns.values()), strict=True))

    try:
        yield write
    finally:
        text.detach()  # or else the file would be closed too early


@contextmanager
def _write_jsonl(file: IO[bytes]) -> Iterator[Write]:
    def write(columns: Columns) -> None:
        rows = zip(*map(cells, columns.values()), strict=True)
        records = (dict(zip(columns, map(drop_nan, row), strict=True)) for row in rows)
        text = "".join(f"{json.dumps(r, ensure_ascii=False, default=str)}\n" for r in records)
        file.write(text.encode("utf-8", "replace"))

    yield write


@contextmanager
def _write_parquet(file: IO[bytes]) -> Iterator[Write]:
    arrow = require_package("pyarrow", "Writing .parquet")
    parquet = import_module("pyarrow.parquet")
    opened: list[Any] = []
    kept: list[Any] = []

    def write_group() -> None:
        if not opened:
            opened.append(parquet.ParquetWriter(file, kept[0].schema))
        opened[0].write_table(arrow.concat_tables(kept))
        kept.clear()

    def write(columns: Columns) -> None:
        # Lists may hold anything, and something else in the next block: text fits everything.
        table = arrow.table(
            {
                name: arrow.array(map(_text, column), arrow.string())
                if isinstance(column, list)
                else (column if hasattr(column, "to_pylist") else arrow.array(column))
                for name, column in columns.items()
            }
        )
        kept.append(table)
        if sum(map(len, kept)) * len(columns) >= _ROW_GROUP:  # small groups are slow to read
            write_group()

    yield write
    if kept:
        write_group()
    opened[0].close()


@contextmanager
def _write_arrays(file: IO[bytes]) -> Iterator[Write]:
    """Write one array per column at the end; meanwhile memory keeps all but matrices."""
    kept: dict[str, list[np.ndarray]] = {}
    matrices: dict[str, _Spool] = {}

    def write(columns: Columns) -> None:
        for name, column in columns.items():
            if _is_matrix(column):
                if name not in matrices:
                    matrices[name] = spools.enter_context(_Spool(file))
                matrices[name].add(column)
                continue
            is_array = isinstance(column, np.ndarray)
            values = column if is_array else np.array([_text(c) or "" for c in cells(column)])
            kept.setdefault(name, []).append(values)

    with ExitStack() as spools:
        yield write
        with zipfile.ZipFile(file, "w") as archive:  # not np.savez, where no array is named "file"
            for name, matrix in matrices.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    matrix.copy_to(member)
            for name, parts in kept.items():
                values = np.concatenate(parts) if parts[0].ndim else parts[0]
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)


@contextmanager
def _write_matrix(file: IO[bytes]) -> Iterator[Write]:
    """Write the only column that is a matrix."""

    def write(columns: Columns) -> None:
        matrix.add(next(column for column in columns.values() if _is_matrix(column)))

    with _Spool(file) as matrix:
        yield write
        matrix.copy_to(file)


def _is_matrix(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.ndim == 2  # a list may hold lists


class _Spool:
    """Rows of a matrix in an unnamed file beside another, until their number is known."""

    def __init__(self, beside: IO[bytes]) -> None:
        self._file = TemporaryFile(dir=Path(beside.name).parent)  # noqa: SIM115
        self._n_rows, self._empty = 0, np.empty((0, 0))

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(rows).data)
        self._n_rows, self._empty = self._n_rows + len(rows), np.empty_like(rows[:0])

    def copy_to(self, target: Any) -> None:
        header = np.lib.format.header_data_from_array_1_0(self._empty)
        shape = (self._n_rows, self._empty.shape[1])
        header |= {"shape": shape, "fortran_order": False}
        np.lib.format.write_array_header_1_0(target, header)
        self._file.seek(0)
        shutil.copyfileobj(self._file, target, 1 << 20)


def _plain_cells(column: Any) -> Any:
    """Return the cells of a column for csv, which writes text and numbers itself."""
    return map(_text, column) if isinstance(column, list) else cells(column)


def _text(cell: Any) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, str):  # a lone surrogate cannot be written
        return cell if cell.isascii() else cell.encode("utf-8", "replace").decode()
    return json.dumps(cell, ensure_ascii=False, default=str)


def drop_nan(cell: Any) -> Any:
    """Return a cell for JSON, which has no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


WRITERS: dict[str, Callable[[IO[bytes]], Any]] = {
    **{ending: partial(_write_separated, separator=mark) for ending, mark in SEPARATORS.items()},
    LINES: _write_jsonl,
    ".parquet": _write_parquet,
    ".npz": _write_arrays,
    ".npy": _write_matrix,
}
