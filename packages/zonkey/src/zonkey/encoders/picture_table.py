"""Tables with a row per picture: its path, label, split and further columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from unicodedata import normalize

import numpy as np

from ..errors import DataError
from ..files.columns import LABEL_COLUMNS, check_names
from ..files.formats import open_table, read_cells
from ..files.readers import SEPARATORS, is_number, position_of, translate_errors
from .pictures import is_picture_name

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_PATH_COLUMNS = ("file_name", "file", "path", "image", "filename", "picture")
_SPLIT_COLUMN = ("split",)
# To distinguish a table of pictures from one of features, which may name pictures too: bytes and
# rows that are looked at, and columns of numbers from which they are features.
_LOOKED_AT, _LOOKED_AT_ROWS, _MOST_NUMBERS = 1 << 20, 5, 8


@dataclass(frozen=True)
class Columns:
    """Columns of a table that the user named."""

    label: str | None
    path: str | None

    def require_table(self, table: str | None, source: str) -> None:
        """Refuse names of columns if there is no table."""
        for parameter, name in (("label_column", self.label), ("path_column", self.path)):
            if name is not None and table is None:
                raise DataError(
                    f"`{parameter}` must be None if there is no table of pictures; got {name!r}, "
                    f"and {source} has no metadata.csv. Leave it out."
                )


@dataclass(frozen=True)
class PictureTable:
    """Rows of a table of pictures: paths as written, labels and split if it has such columns."""

    file: str
    paths: list[str]
    labels: np.ndarray | None
    split: np.ndarray | None
    columns: dict[str, list[str]]

    @classmethod
    def parse(cls, text: str, path: Path, wanted: Columns) -> PictureTable:
        """Read the text of a csv or tsv file; the path is for errors."""
        with translate_errors(path), open_table(path, io.BytesIO(text.encode())) as table:
            names, found = table.names, read_cells(table)
            check_names(table, path, _PATH_COLUMNS if wanted.path is None else (wanted.path,))
        if not found[0]:
            raise DataError(f"{path.name} must have a row per picture; it has none. Add one.")
        at = _position(names, wanted.path, _PATH_COLUMNS, "path_column", path.name)
        if at is None:
            usual = ", ".join(_PATH_COLUMNS)
            raise DataError(
                f"{path.name} must have a column of paths, named one of {usual}; it has "
                f"{', '.join(names)[:200]}. Rename one of them to file_name."
            )
        label_names = LABEL_COLUMNS["features"]
        label = _position(names, wanted.label, label_names, "label_column", path.name)
        split = position_of(_SPLIT_COLUMN, names)
        cells = dict(enumerate(found))
        return cls(
            path.name,
            [cell.strip() for cell in cells[at]],
            None if label is None else _as_labels(cells[label]),
            None if split is None else as_split(cells[split], path.name),
            {names[n]: cells[n] for n in cells if n not in (at, label, split)},
        )

    def require_found(self, found: list[str | None]) -> list[str]:
        """Return the files found for each path; refuse the first missing one."""
        missing = [n for n, key in enumerate(found) if key is None]
        if missing:
            row = missing[0]
            more = f" ({len(missing) - 1} other files are missing too)" if missing[1:] else ""
            raise DataError(
                f"{self.file} must name files that exist; {self.paths[row]!r} in row {row + 2} "
                f"does not{more}. Correct the path, relative to the table, or remove the row."
            )
        return [key for key in found if key is not None]


def _position(
    names: list[str], given: str | None, usual: Sequence[str], parameter: str, file: str
) -> int | None:
    if given is None:
        return position_of(usual, names)
    if given not in names:
        raise DataError(
            f"`{parameter}` must name a column of {file}; got {given!r}, and it has "
            f"{', '.join(names)[:200]}. Choose one of those."
        )
    return names.index(given)


def _as_labels(cells: list[str]) -> np.ndarray:
    return np.asarray([normalize("NFC", cell.strip()) for cell in cells])


def as_split(cells: list[str], file: str) -> np.ndarray:
    """Return the marks of a column `split` in one spelling, "" where there is none."""
    marks = [cell.strip().casefold() for cell in cells]
    for row, mark in enumerate(marks, start=2):
        if mark and mark not in SPLITS:
            raise DataError(
                f"The column `split` of {file} must hold train, val or test; got {mark!r} in row "
                f"{row}. Correct it, or rename the column."
            )
    return np.asarray([SPLITS.get(mark, "") for mark in marks])


def lists_pictures(path: Path) -> bool:
    """Whether a csv or tsv file is a table of pictures, by its start; it may be one of features."""
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    lines = start.decode("utf-8-sig", "replace").splitlines()
    if len(start) == _LOOKED_AT:
        lines = lines[:-1]  # cut short
    separator = SEPARATORS[path.suffix.lower()]
    names, *rows = islice(csv.reader(lines, delimiter=separator), _LOOKED_AT_ROWS + 1)
    column = position_of(_PATH_COLUMNS, [name.strip() for name in names])
    rows = [row for row in rows if row]
    if column is None or not rows or not all(is_picture_name(row[column].strip()) for row in rows):
        return False
    known = (*LABEL_COLUMNS["features"], *_SPLIT_COLUMN, "id")
    n_numbers = sum(
        is_number(cell)
        for name, cell in zip(names, rows[0], strict=False)
        if position_of(known, [name.strip()]) is None
    )
    if n_numbers > _MOST_NUMBERS:
        return False
    return not n_numbers or (path.parent / rows[0][column].strip()).is_file()
