"""Texts as samples: lines of a file, a column of a table, or a list."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from ..errors import DataError
from ..files.columns import FEATURE_KEYS, LABEL_COLUMNS, check_names, is_no_feature
from ..files.formats import LINES, OpenTable, holds_text, open_table, read_cells
from ..files.readers import (
    TABLE_ENDINGS,
    position_of,
    read_text,
    require_existing,
    translate_errors,
)
from ..files.streams import STANDARD_INPUT
from ..labels import format_labels, format_value
from .picture_table import as_split

LINES_OF_TEXT = ".txt"
TEXT_FILES = (LINES_OF_TEXT, *TABLE_ENDINGS, LINES)
TEXT = "text"  # column of the texts in blocks if the source has no name for it
_USUAL = (TEXT, "texts", "sentence")
_MOST_NUMBERS = 8  # columns of numbers from which a table is one of features


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Sequence[str]):
    """An ordered collection of texts, such as the rows of a table; made with `Texts.of`."""

    texts: list[str]  # "" where one is missing, as in labels and split
    source: str
    column: str = TEXT
    labels: np.ndarray | None = None  # None if the source has none
    label_column: str | None = None
    split: np.ndarray | None = None  # "train", "val" or "test" for each text
    columns: dict[str, list[Any]] = field(default_factory=dict)  # further ones of the table
    numbers: Sequence[int] = range(0)  # as users count rows or lines
    is_table: bool = False

    @classmethod
    def of(
        cls,
        source: Any,
        *,
        text_column: str | None = None,
        label_column: str | None = None,
        with_labels: bool = False,
        format: str = "csv",
    ) -> Texts:
        """List the texts of a source, and encode none.

        The source is a file of lines (`.txt`, blank ones are left out), a table (`.csv`, `.tsv`,
        `.jsonl`, `.parquet`) with a row per text, "-" for a table in a `format` on standard input,
        or texts themselves. Texts are in `text_column`, by default `text`, `texts` or `sentence`,
        else the only column of text that holds no labels. Labels are in `label_column`, by default
        `label`, `class`, `y` or `target`, and if they are needed (`with_labels`), they may also be
        in the only other column of text.
        """
        if isinstance(source, Texts):
            return source
        if not isinstance(source, str | os.PathLike):
            found = as_texts(source)
            return cls(found, f"{len(found)} texts", numbers=range(len(found)))
        wanted = _Wanted(text_column, label_column, with_labels)
        if str(source) == STANDARD_INPUT:
            path = Path(f"stdin.{format}")
            with open_table(path, sys.stdin.buffer) as table:
                return _read_table(table, path, wanted)
        path = require_existing(Path(source), TEXT_FILES)
        if path.suffix.lower() == LINES_OF_TEXT:
            return _read_lines(path, wanted)
        with translate_errors(path), open_table(path) as table:
            return _read_table(table, path, wanted)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: Any) -> Any:
        return self.texts[i]

    def __repr__(self) -> str:
        return f"Texts({len(self)} of {self.source})"

    @property
    def names(self) -> list[str]:
        """Names of the texts in messages: where they are."""
        return [f"row {number}" for number in self.numbers]

    def subset(self, rows: Any) -> Texts:
        """Return the texts at these positions, in their order."""
        return replace(
            self,
            texts=[self.texts[row] for row in rows],
            labels=None if self.labels is None else self.labels[rows],
            split=None if self.split is None else self.split[rows],
            columns={name: [cells[row] for row in rows] for name, cells in self.columns.items()},
            numbers=[self.numbers[row] for row in rows],
        )


def is_texts(source: Any, text_column: str | None = None, label_column: str | None = None) -> bool:
    """Whether a path given to a command means texts to encode, without reading them all.

    True for a file of lines, and for a table with few or no numbers and one column of text that
    holds no labels, or one of the usual name.
    """
    if not isinstance(source, str | os.PathLike):
        return False
    path = Path(source)
    ending = path.suffix.lower()
    if ending not in TEXT_FILES or not path.is_file():
        return False
    if ending == LINES_OF_TEXT:
        return True
    try:
        with open_table(path) as table:
            return _find_text(table, _Wanted(text_column, label_column)) is not None
    except (DataError, ImportError, OSError):  # the reader of features says what is wrong
        return False


def as_texts(X: Any) -> list[str]:
    """Return texts as a list; anything else than text is named with its row.

    A path is that of a file of texts.
    """
    if isinstance(X, os.PathLike) or (isinstance(X, str) and Path(X).suffix.lower() in TEXT_FILES):
        X = Texts.of(X)
    if isinstance(X, Texts):
        X = X.texts
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise TypeError(f"Texts must be a list of str; got {format_value(X)}. Put it into a list.")
    values = X if isinstance(X, list | tuple) else np.asarray(X, dtype=object)
    if isinstance(values, np.ndarray):
        if values.ndim != 1 and values.shape[1:] != (1,):
            raise ValueError(
                f"Texts must be one column; got shape {values.shape}. Pass a list of str, or "
                "choose a column."
            )
        values = values.ravel()
    texts = list(values)
    if not texts:
        raise ValueError("Texts must be at least one; got an empty list. Pass some.")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Texts must be str; row {row} is {format_value(text)}. Fill it in, or drop the "
                "row."
            )
        if not text.strip():
            raise ValueError(
                f"Texts must not be blank; row {row} is {format_value(text)}. Fill it in, or drop "
                "the row."
            )
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ValueError(
                f"Texts must be valid Unicode; row {row} is {format_value(text)}. Decode it again."
            )
    return [str(text) for text in texts]


@dataclass(frozen=True)
class _Wanted:
    """What the user says about the columns."""

    text: str | None = None
    label: str | None = None
    needs_labels: bool = False


def _find_text(table: OpenTable, wanted: _Wanted) -> str | None:
    """Return the column of texts; None if the table is one of features, or it is unclear."""
    names, sample = table.names, table.sample.columns
    if wanted.text in names:
        return wanted.text
    if len({*names}) < len(names):  # `check_names` says so
        return None
    if any(isinstance(sample[n][0], list) for n in FEATURE_KEYS if sample.get(n)):
        return None
    usual = LABEL_COLUMNS["features"] if wanted.label is None else (wanted.label,)
    label = position_of(usual, names)
    others = [name for name in names if label is None or name != names[label]]
    others = [name for name in others if not is_no_feature(name)]
    text = [name for name in others if holds_text(sample[name], typed=not table.heading)]
    n_numbers = len([name for name in others if name and name not in text])
    named = position_of(_USUAL, text)
    if named is not None:
        return text[named] if n_numbers <= _MOST_NUMBERS else None
    return text[0] if len(text) == 1 and not n_numbers else None


def _find_label(table: OpenTable, text: str, wanted: _Wanted, file: str) -> str | None:
    """Return the column of labels; None if there is none and none is needed."""
    names = [name for name in table.names if name != text]
    usual = LABEL_COLUMNS["features"] if wanted.label is None else (wanted.label,)
    found = position_of(usual, names)
    if found is not None:
        return names[found]
    columns = format_labels(np.array(table.names), 8)
    if wanted.label is not None and wanted.needs_labels:
        raise DataError(
            f"`label_column` must name a column of {file}; got {wanted.label!r}, and the columns "
            f"are {columns}. Choose one of those.",
            option="label_column",
        )
    if not wanted.needs_labels:
        return None
    sample = table.sample.columns
    others = [name for name in names if not is_no_feature(name) and holds_text(sample[name])]
    if len(others) == 1:
        return others[0]
    raise DataError(
        f"{file} must have a column of labels, named {' or '.join(usual)}; its columns are "
        f"{columns}. Rename one, or pass `label_column`.",
        option="label_column",
    )


def _read_table(table: OpenTable, path: Path, wanted: _Wanted) -> Texts:
    names, file = table.names, path.name
    check_names(table, path, (*_USUAL, *LABEL_COLUMNS["features"], *filter(None, [wanted.text])))
    text = _find_text(table, wanted)
    if text is None or (wanted.text is not None and text != wanted.text):
        got = "" if wanted.text is None else f"got {wanted.text!r}, and "
        raise DataError(
            f"`text_column` must name the column of texts of {file}; {got}the columns are "
            f"{format_labels(np.array(names), 8)}. Choose one of those.",
            option="text_column",
        )
    label = _find_label(table, text, wanted, file)
    cells = dict(zip(names, read_cells(table), strict=True))
    texts = [_as_text(cell) for cell in cells.pop(text)]
    if not texts:
        raise DataError(f"{file} must have a row per text; it has none. Check what was saved.")
    labels = None
    if label is not None:
        labels = np.array([normalize("NFC", _as_text(cell)) for cell in cells.pop(label)])
    at = position_of(("split",), [*cells])
    split = None
    if at is not None:
        split = as_split([_as_text(cell) for cell in cells.pop([*cells][at])], file)
    first = 2 if table.heading else 1
    numbers = range(first, first + len(texts))
    source = "standard input" if path.stem == "stdin" and not path.exists() else str(path)
    return Texts(texts, source, text, labels, label, split, cells, numbers, is_table=True)


def _as_text(cell: Any) -> str:
    """Return a cell as text; a missing one is empty, and 7.0 is "7"."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _read_lines(path: Path, wanted: _Wanted) -> Texts:
    """Return the lines of a file that are not blank."""
    for option, value in (("text_column", wanted.text), ("label_column", wanted.label)):
        if value is not None:
            raise DataError(
                f"`{option}` names a column of a table; got {value!r}, and {path.name} holds lines "
                "of text. Leave it out.",
                option=option,
            )
    if wanted.needs_labels:
        raise DataError(
            f"Texts need labels; the lines of {path.name} have none. Write a table with the "
            "columns text and label."
        )
    lines = [(n, line.strip()) for n, line in enumerate(read_text(path).split("\n"), start=1)]
    lines = [(n, line) for n, line in lines if line]
    return Texts([line for _, line in lines], str(path), numbers=[n for n, _ in lines])
