"""Numbers with a label a row, from tables (csv, tsv, parquet)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .errors import DataError
from .files import capped, existing_file, largest_exact
from .sheets import TABLE_ENDINGS, Sheet, is_number, position_of, read_sheet

_LABEL_COLUMNS = {
    "features": ("label", "class", "y", "target"),
    "prototypes": ("label", "class", "name"),
}
_EMPTY = ("", "nan", "na", "n/a", "null", "none", "<na>")
_MOST_NAMED = 8  # columns that an error message names

Role = Literal["features", "prototypes"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table of numbers with a label a row.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Text as it stands in the file, so that "01" stays "01"; whole numbers of a parquet file as
        text. Never numbers: labels of two files then compare, whatever each format stores.
    matrix : ndarray of shape (n, d)
    columns : tuple of str
        Names of the columns of `matrix`.
    split : ndarray of shape (n,) or None
        The column `split`, in lower case, where there is one.
    first_row : int
        What the file calls its first row of data: 2 below a heading, else 1.
    """

    labels: np.ndarray
    matrix: np.ndarray
    columns: tuple[str, ...]
    split: np.ndarray | None
    first_row: int


def read_table(path: str | Path, *, label_column: str | None = None) -> Table:
    """Read samples from `.csv`, `.tsv` or `.parquet`.

    Parameters
    ----------
    path : str or Path
        The first line of a text file names the columns.
    label_column : str, default=None
        Column of the labels. Without it: `label`, `class`, `y` or `target`, else the only column
        of text. All other columns but `split` must be numbers.

    Raises
    ------
    DataError
        In one line: the first thing that is wrong, with row and column as in the file.
    """
    table, problems = examine_table(path, "features", label_column)
    if table is None or problems:
        raise DataError(problems[0])
    return table


def examine_table(
    path: str | Path, role: Role, label_column: str | None = None
) -> tuple[Table | None, list[str]]:
    """Read a table and list all that is wrong with it; a cell without a number becomes NaN."""
    try:
        path = existing_file(path, TABLE_ENDINGS)
        label_names = _label_names(role, label_column)
        sheet = read_sheet(path, label_names, labels_first=role == "prototypes")
        label = position_of(label_names, sheet.names)
        if label is None:
            label = _unnamed_labels(sheet, role, label_column)
    except DataError as error:
        return None, [str(error)]
    split = position_of(("split",), sheet.names) if role == "features" else None
    kept = [column for column in range(len(sheet.names)) if column not in (label, split)]
    if not kept or not len(sheet.frame):
        what = "column of numbers beside its labels" if not kept else "row below its heading"
        return None, [f"{sheet.file} has no {what}. Check what was saved."]
    labels, problems = _text_of(sheet, label)
    matrix, wrong = _numbers_of(sheet, kept)
    problems += wrong
    marks = None
    if split is not None:
        marks, wrong = _text_of(sheet, split)
        marks = np.char.lower(np.char.strip(marks))
        problems += wrong
    columns = tuple(sheet.names[column] for column in kept)
    return Table(labels, matrix, columns, marks, sheet.first_row), problems


def _label_names(role: Role, label_column: str | None) -> tuple[str, ...]:
    if label_column is None:
        return _LABEL_COLUMNS[role]
    # A column named for the features need not exist in the prototypes.
    return (label_column,) if role == "features" else (label_column, *_LABEL_COLUMNS[role])


def _unnamed_labels(sheet: Sheet, role: Role, label_column: str | None) -> int:
    """Return the position of the labels where no column has a name for them."""
    split = position_of(("split",), sheet.names)
    text = [n for n in range(len(sheet.names)) if n != split and _is_text(sheet.frame[n])]
    if role == "prototypes":
        # Text that comes twice, such as yes and no, is an attribute and no label.
        return text[0] if len(text) == 1 and sheet.frame[text[0]].is_unique else 0
    columns = ", ".join(repr(name) for name in sheet.names[:_MOST_NAMED])
    if len(sheet.names) > _MOST_NAMED:
        columns += f" and {len(sheet.names) - _MOST_NAMED} more"
    if label_column is not None:
        raise DataError(
            f"`label_column` must name a column of {sheet.file}; got {label_column!r}, and there "
            f"is {columns}. Choose one of those."
        )
    if len(text) == 1:
        return text[0]
    called = ", ".join(_LABEL_COLUMNS[role])
    found = "no column of text" if not text else f"{len(text)} columns of text"
    raise DataError(
        f"{sheet.file} must have a column of labels, called one of {called}; there is {columns}, "
        f"with {found}. Rename one, or pass `label_column`."
    )


def _is_text(column: Any) -> bool:
    """Say whether most cells are text; a column with one misspelled number is not."""
    if column.dtype.kind in "iufb":
        return False
    cells = [cell for cell in map(str, column.tolist()) if cell.strip().lower() not in _EMPTY]
    return sum(not is_number(cell) for cell in cells) > len(cells) / 2


def _text_of(sheet: Sheet, column: int) -> tuple[np.ndarray, list[str]]:
    """Return a column as text, and what is wrong with it; an empty cell becomes ""."""
    series = sheet.frame[column]
    missing = series.isna().to_numpy()
    cells = series.tolist()
    if series.dtype.kind == "f":
        cells = series.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
        limit = largest_exact(np.dtype(f"f{series.dtype.itemsize}"))
        inexact = [row for row, cell in enumerate(cells) if abs(cell) > limit]
        if inexact:
            row = inexact[0]
            what = f"must be exact, which numbers beyond {limit} are not; got {cells[row]:.0f}"
            found = _cell(sheet, sheet.first_row + row, column, what, len(inexact))
            return np.full(len(cells), ""), [found]
        cells = [int(cell) if cell.is_integer() else cell for cell in cells]
    text = np.where(missing, "", np.array(list(map(str, cells)), dtype=str))
    empty = np.char.strip(text) == ""
    if not empty.any():
        return text, []
    row = sheet.first_row + int(np.argmax(empty))
    return np.where(empty, "", text), [_cell(sheet, row, column, "is empty", int(empty.sum()))]


def _numbers_of(sheet: Sheet, columns: list[int]) -> tuple[np.ndarray, list[str]]:
    """Return columns as a matrix, and a line for each that holds something else than numbers."""
    frame = sheet.frame[columns]
    types = frame.dtypes.tolist()
    single = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in types)
    wanted = np.dtype(np.float32 if single else np.float64)
    if all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in types):
        matrix = np.ascontiguousarray(frame.to_numpy(dtype=wanted))
    else:
        matrix = np.stack([_as_numbers(frame[column]) for column in columns], 1).astype(wanted)
    problems = []
    for position in np.flatnonzero(~np.isfinite(matrix).all(axis=0)):
        bad = ~np.isfinite(matrix[:, position])
        first = int(np.argmax(bad))
        cell = str(frame[columns[position]].iloc[first])
        what = f"must be a finite number; got {cell[:40]!r}"
        if cell.strip().lower() in _EMPTY:
            what = "is empty"
        row = sheet.first_row + first
        problems.append(_cell(sheet, row, columns[position], what, int(bad.sum())))
    return matrix, capped(problems, f"columns of {sheet.file} with cells that are no numbers")


def _as_numbers(column: Any) -> np.ndarray:
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    # Not with to_numeric, which takes dates and True for numbers.
    cells = list(map(str, column.tolist()))
    return np.array([float(cell) if is_number(cell) else math.nan for cell in cells])


def _cell(sheet: Sheet, row: int, column: int, what: str, n: int) -> str:
    others = f" (and {n - 1} more in this column)" if n > 1 else ""
    remedy = "Fill it in" if what == "is empty" else "Correct it"
    return (
        f"Row {row}, column {sheet.names[column]!r} of {sheet.file} {what}{others}. {remedy}, or "
        "remove the row or the column."
    )
