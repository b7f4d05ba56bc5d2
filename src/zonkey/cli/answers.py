"""Answers of a model beside the rows they belong to: csv, tsv, jsonl, parquet and npz files."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.storage import whole_file
from ..datasets.readers import SEPARATORS, required_package
from ..datasets.streams import LINES, cells
from ..estimators.scoring import unwrapped
from .errors import STANDARD_OUTPUT_NAME, naming

Columns = dict[str, Any]  # columns of equal length: lists, NumPy or Arrow arrays
Write = Callable[[Columns], None]

STANDARD_OUTPUT = "-"
_DIGITS = 6  # of probabilities


def answer_names(k: int, *, with_top: bool, with_proba: bool) -> list[str]:
    """Return the names of the columns of answers."""
    numbers = range(1, k + 1)
    top = [f"top_{i}" for i in numbers] if with_top else []
    return ["predicted", *top, *([f"proba_{i}" for i in numbers] if with_proba else [])]


def answers_of(model: Any, X: np.ndarray, names: Sequence[str], k: int) -> Columns:
    """Return these columns of answers to some samples."""
    steps, last = unwrapped(model)
    X = X if steps is None else steps.transform(X)
    found: Columns = {"predicted": last.predict(X)}
    if len(names) == 1:
        return found
    best = np.asarray(last.predict_top(X, k))
    found |= {f"top_{i + 1}": best[:, i] for i in range(k)}
    if "proba_1" in names:
        columns = np.searchsorted(last.classes_, best.ravel()).reshape(best.shape)
        P = np.take_along_axis(last.predict_proba(X), columns, axis=1).astype(np.float64)
        found |= {f"proba_{i + 1}": P[:, i].round(_DIGITS) for i in range(k)}
    return {name: found[name] for name in names}


def writing_answers(target: str, format: str) -> AbstractContextManager[Write]:
    """Return a context that yields a function to write columns with, a block of rows at a time.

    A file appears at the end, whole; standard output is written at once.
    """
    ending = f".{format}" if target == STANDARD_OUTPUT else Path(target).suffix.lower()
    return _written(target, WRITERS[ending])


@contextmanager
def _written(target: str, writer: Callable[[IO[bytes]], Any]) -> Iterator[Write]:
    if target != STANDARD_OUTPUT:
        with whole_file(target) as file, writer(file) as write:
            yield _named(write, target)
        return
    if sys.stdout is None:
        raise ValueError("Standard output must be open; it is closed. Name a file with --output.")
    with writer(sys.stdout.buffer) as write:
        yield _named(write, STANDARD_OUTPUT_NAME)


def _named(write: Write, target: str) -> Write:
    def write_or_tell(columns: Columns) -> None:
        with naming(target):
            write(columns)

    return write_or_tell


@contextmanager
def _separated(file: IO[bytes], separator: str) -> Iterator[Write]:
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
def _lines_of_json(file: IO[bytes]) -> Iterator[Write]:
    def write(columns: Columns) -> None:
        rows = zip(*map(cells, columns.values()), strict=True)
        records = (dict(zip(columns, map(valid, row), strict=True)) for row in rows)
        text = "".join(f"{json.dumps(r, ensure_ascii=False, default=str)}\n" for r in records)
        file.write(text.encode("utf-8", "replace"))

    yield write


@contextmanager
def _parquet(file: IO[bytes]) -> Iterator[Write]:
    arrow = required_package("pyarrow", "Writing .parquet")
    parquet = import_module("pyarrow.parquet")
    opened: list[Any] = []

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
        if not opened:
            opened.append(parquet.ParquetWriter(file, table.schema))
        opened[0].write_table(table)

    yield write
    opened[0].close()


@contextmanager
def _arrays(file: IO[bytes]) -> Iterator[Write]:
    """Write one array per column at the end; meanwhile the answers are kept in memory."""
    kept: dict[str, list[np.ndarray]] = {}

    def write(columns: Columns) -> None:
        for name, column in columns.items():
            is_array = isinstance(column, np.ndarray)
            values = column if is_array else np.array([_text(c) or "" for c in cells(column)])
            kept.setdefault(name, []).append(values)

    yield write
    with zipfile.ZipFile(file, "w") as archive:  # not np.savez, where no array is named "file"
        for name, parts in kept.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.concatenate(parts), allow_pickle=False)


def _plain_cells(column: Any) -> Any:
    """Return the cells of a column for csv, which writes text and numbers itself."""
    return map(_text, column) if isinstance(column, list) else cells(column)


def _text(cell: Any) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, str):  # half a character cannot be written
        return cell if cell.isascii() else cell.encode("utf-8", "replace").decode()
    return json.dumps(cell, ensure_ascii=False, default=str)


def valid(cell: Any) -> Any:
    """Return a cell for JSON, which has no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


WRITERS: dict[str, Callable[[IO[bytes]], Any]] = {
    **{ending: partial(_separated, separator=mark) for ending, mark in SEPARATORS.items()},
    LINES: _lines_of_json,
    ".parquet": _parquet,
    ".npz": _arrays,
}
