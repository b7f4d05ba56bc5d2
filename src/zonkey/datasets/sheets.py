"""A table as it stands in a file (csv, tsv, parquet), with columns and rows that fit together."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DataError
from .files import needed, read_text, readable

TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_LONG_RUN = 8  # columns from which 0, 1, 2, ... are names for sure, and no data


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table as it was read.

    Attributes
    ----------
    frame : pandas.DataFrame
        Its columns are called 0, 1, ...
    names : list of str
        What the file calls them.
    file : str
    first_row : int
        What the file calls its first row of data: 2 below a heading, else 1.
    """

    frame: Any
    names: list[str]
    file: str
    first_row: int


def read_sheet(path: Path, label_names: Sequence[str], *, labels_first: bool) -> Sheet:
    """Read a table of a known ending.

    Parameters
    ----------
    path : Path
    label_names : sequence of str
        Names that the column of labels may have.
    labels_first : bool
        Whether the labels are in the first column, or in the index of a DataFrame, where no column
        has such a name.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, label_names, labels_first)
    return _read_csv(path, label_names, labels_first)


def column_names(path: Path) -> list[str]:
    """Return what a table calls its columns, without reading the rest of a parquet file."""
    if path.suffix.lower() == ".parquet":
        parquet = needed("pyarrow.parquet", "data", ".parquet")
        with readable(path):
            return list(map(str, parquet.read_schema(path).names))
    return _first_line(read_text(path), _SEPARATORS[path.suffix.lower()], path)


def position_of(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    """Return where the first of the wanted names is; the case of letters decides among several."""
    lower = [name.casefold() for name in names]
    for name in wanted:
        if name in names:
            return list(names).index(name)
        if name.casefold() in lower:
            return lower.index(name.casefold())
    return None


def is_number(text: str) -> bool:
    """Say whether the text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python reads as a digit separator


def _read_parquet(path: Path, label_names: Sequence[str], labels_first: bool) -> Sheet:
    pandas = needed("pandas", "data", path.suffix)
    needed("pyarrow", "data", ".parquet")
    with readable(path):
        frame = pandas.read_parquet(path, engine="pyarrow")
    if position_of(label_names, [str(name) for name in frame.columns]) is None:
        frame = _with_labels_of_index(frame, label_names, labels_first)
    names = [str(name) for name in frame.columns]
    _check_names(names, path, label_names, labels_first)
    return Sheet(frame.set_axis(range(len(names)), axis=1), names, path.name, 1)


def _with_labels_of_index(frame: Any, label_names: Sequence[str], labels_first: bool) -> Any:
    """Make the index a column where it holds the labels; row numbers are dropped."""
    name = frame.index.name
    is_called_so = name is not None and (
        labels_first or position_of(label_names, [str(name)]) is not None
    )
    return frame.reset_index() if is_called_so or frame.index.dtype.kind == "O" else frame


def _read_csv(path: Path, label_names: Sequence[str], labels_first: bool) -> Sheet:
    pandas = needed("pandas", "data", path.suffix)
    text = read_text(path).rstrip("\n")
    separator = _SEPARATORS[path.suffix.lower()]
    names = _first_line(text, separator, path)
    _check_separator(names, path)
    _check_names(names, path, label_names, labels_first)
    _check_heading(names, path, label_names)
    _check_widths(text, len(names), separator, path)
    # Labels such as "01" look like numbers. Where no column is called so, the first may be theirs.
    as_text = [position_of(label_names, names) or 0, position_of(("split",), names)]
    with readable(path):
        frame = pandas.read_csv(
            io.StringIO(text),
            sep=separator,
            header=0,
            names=range(len(names)),
            index_col=False,
            dtype={column: str for column in as_text if column is not None},
            keep_default_na=False,  # a class may be called "NA"
            na_values=[""],
            low_memory=False,
            **_exact_numbers(pandas),
        )
    return Sheet(frame, names, path.name, 2)


def _first_line(text: str, separator: str, path: Path) -> list[str]:
    with readable(path):
        header = next(csv.reader(io.StringIO(text), delimiter=separator))
    return [name.strip() for name in header] or [""]


def _exact_numbers(pandas: Any) -> dict[str, str]:
    """Ask for the number nearest to what is written, which pandas 3.1 gives by itself."""
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


def _check_separator(names: list[str], path: Path) -> None:
    if len(names) > 1:
        return
    for mark, called, remedy in (
        (";", "semicolons", "Save it with commas, and with points in numbers"),
        ("\t", "tabs", f"Rename it to {path.stem}.tsv"),
        (",", "commas", f"Rename it to {path.stem}.csv"),
    ):
        if mark in names[0]:
            expected = "commas" if path.suffix.lower() == ".csv" else "tabs"
            raise DataError(
                f"The columns of {path.name} must be separated by {expected}; they are by "
                f"{called}. {remedy}."
            )


def _check_names(
    names: list[str], path: Path, label_names: Sequence[str], labels_first: bool
) -> None:
    seen: dict[str, int] = {}
    # The column of labels may go without a name, as pandas writes an index.
    unnamed = 1 if labels_first and position_of(label_names, names) is None else None
    for number, name in enumerate(names, start=1):
        if not name and number != unnamed:
            raise DataError(
                f"Columns must have names; column {number} of {path.name} has none. If it numbers "
                "the rows, save without it (index=False in pandas)."
            )
        if name in seen:
            raise DataError(
                f"Columns must have different names; {name!r} is column {seen[name]} and {number} "
                f"of {path.name}. Rename one, or add a first line of names if there is none."
            )
        seen[name] = number


def _check_heading(names: list[str], path: Path, label_names: Sequence[str]) -> None:
    """Refuse a first line that is one of data, which would be lost as a heading."""
    numbers = [name for name in names if is_number(name)]
    others = [name for name in names if not is_number(name) and name.casefold() != "split"]
    # Beside a known name the columns may be called by anything, such as their wavelength.
    if not numbers or len(others) > 1 or position_of(label_names, names) is not None:
        return
    # pandas calls columns 0, 1, 2 where they have no name; and so may start a row: horse,1,2,3.
    counting = any(
        numbers == [str(number + start) for number in range(len(numbers))] for start in (0, 1)
    )
    if counting and (others in ([], [""]) or len(numbers) >= _LONG_RUN):
        return
    raise DataError(
        f"The first line of {path.name} must name the columns; it holds numbers such as "
        f"{numbers[0]}. Add a heading such as label,f1,f2; if it is one, call the column of labels "
        "`label`."
    )


def _check_widths(text: str, width: int, separator: str, path: Path) -> None:
    """Refuse rows of another length than the first, which pandas would fill or cut."""
    lines = io.StringIO(text)
    if '"' in text:
        with readable(path):
            widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
    else:
        widths = [line.count(separator) + 1 for line in lines]
    odd = [row for row, found in enumerate(widths, start=1) if found != width]
    if odd:
        others = f" ({len(odd) - 1} other rows are wrong too)" if len(odd) > 1 else ""
        raise DataError(
            f"Rows must have a cell for each of the {width} columns; row {odd[0]} of {path.name} "
            f"has {widths[odd[0] - 1]}{others}. Correct it; text with a separator in it needs "
            "quotes around it."
        )
