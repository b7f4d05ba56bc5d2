"""Decide the role of each column of a table: feature, label, split, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import DataError
from ..labels import format_labels
from .formats import OpenTable, cells, has_digits, holds_nothing, holds_text, read_numbers
from .readers import is_number, position_of

LABEL_COLUMNS = {
    "features": ("label", "class", "y", "target"),
    "prototypes": ("label", "class", "name"),
}
PARENT = "parent"  # column of the node above each class in a tree
FEATURE_KEYS = ("features", "X", "x", "feats", "feat", "embeddings")
_DIGITS = 8, 10  # of single precision from the first number on, and below the second
_LONG_RUN = 8  # number of columns 0, 1, 2, ... from which the line is a heading, not data

Role = Literal["features", "prototypes"]


@dataclass(eq=False, kw_only=True)
class Wanted:
    """What the user or the model says about the columns."""

    role: Role = "features"
    with_labels: bool = False  # if not, columns of text are not looked at
    needs_labels: bool = True  # if not, a file without labels is not an error
    label_column: str | None = None
    feature_columns: Sequence[str] | None = None  # names or patterns; by default those of numbers
    id_columns: Sequence[str] = ()  # names or patterns of columns that are not features
    feature_names: Sequence[str] | None = None  # of a model: the columns there must be in a table
    n_features: int | None = None  # of a model: the number there must be
    features_key: str | None = None  # in lines of JSON, the key of the features

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the column of labels, the first one wins."""
        usual = LABEL_COLUMNS[self.role]
        if self.label_column is None:
            return usual
        # A label column of the features need not exist in the prototypes.
        return (self.label_column, *(usual if self.role == "prototypes" else ()))


@dataclass(frozen=True)
class Layout:
    """The roles of the columns of a table. Without names of features, `vector` holds them all."""

    width: int
    features: tuple[str, ...]
    carried: tuple[str, ...]
    label: str | None
    dtype: np.dtype[Any]
    vector: str | None = None

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that are neither features nor labels nor the split."""
        return tuple(n for n in self.carried if n != self.label and n.casefold() != "split")


def is_no_feature(name: str) -> bool:
    """Whether a column of numbers with this name identifies a row instead of describing it."""
    name = name.casefold()
    return name in ("id", "split") or name.endswith("_id") or name.startswith("__index_level_")


def is_parent(name: str, text: Sequence[str]) -> bool:
    """Whether a column of prototypes holds parents; one of numbers is an attribute."""
    return name.casefold() == PARENT and name in text


def choose_layout(table: OpenTable, path: Path, wanted: Wanted) -> Layout:
    """Return the roles of the columns, by their names and the first rows."""
    names, file = table.names, path.name
    is_sample = wanted.role == "features"
    known = (*wanted.label_names, *(("id",) if is_sample else ()), *(wanted.feature_names or ()))
    check_names(table, path, known, labels_first=not is_sample)
    if not len(table.sample.rows):
        raise DataError(f"{file} has no row below its heading. Check what was saved.")
    sample = table.sample.columns
    vector = _find_vector(sample, wanted)
    if vector is not None:
        others = [name for name in names if name != vector]
        width = len(sample[vector][0])
        row = f"`{vector}` in row {table.sample.rows[0]} of {file}"
        require_width(width, row, wanted)
        label = _find_labels(others, others, sample, file, wanted)
        rows = [row for row in sample[vector] if isinstance(row, list)]
        return Layout(width, (), tuple(others), label, _choose_dtype(rows, wanted), vector)
    text = [
        n
        for n in names
        if holds_text(sample[n], typed=not table.heading)
        or (n in table.index and not n.startswith("__index_level_"))
    ]
    others = names if is_sample else [name for name in names if not is_parent(name, text)]
    label = _find_labels(others, [n for n in text if n in others], sample, file, wanted)
    others = [name for name in others if name != label]
    features = _find_features(table, others, text, wanted, file)
    carried = tuple(name for name in names if name not in {*features})
    dtype = _choose_dtype([sample[name] for name in features], wanted)
    return Layout(len(features), tuple(features), carried, label, dtype)


def _choose_dtype(columns: Sequence[Any], wanted: Wanted) -> np.dtype[Any]:
    """Return single precision if the numbers have its 8 or 9 digits, else double precision.

    Text has no type, so the type follows the numbers, and is the same in all kinds of tables.
    Prototypes are few: double precision.
    """
    short, long = _DIGITS
    is_double = wanted.role == "prototypes" or any(has_digits(column, long) for column in columns)
    is_single = not is_double and any(has_digits(column, short) for column in columns)
    return np.dtype(np.float32 if is_single else np.float64)


def _find_vector(sample: dict[str, Any], wanted: Wanted) -> str | None:
    """Return the key whose values are lists of all features, in lines of JSON."""
    keys = FEATURE_KEYS if wanted.features_key is None else (wanted.features_key,)
    for key in keys:
        column = sample.get(key)
        if isinstance(column, list) and isinstance(column[0], list):
            return key
    return None


def _find_features(
    table: OpenTable, names: list[str], text: list[str], wanted: Wanted, file: str
) -> list[str]:
    """Return the columns of features: those of the model, those named, or all of numbers."""
    if wanted.feature_names is not None:
        features = list(wanted.feature_names)
        missing = [name for name in features if name not in {*table.names}]
        if missing:
            raise DataError(
                f"{file} must have the {len(features)} columns that the model was fitted on; "
                f"{format_labels(np.array(missing), 3)} {'are' if len(missing) > 1 else 'is'} "
                "missing. Name the columns as in training."
            )
        return features
    _require_columns("id_columns", wanted.id_columns, table.names, file)
    names = [name for name in names if not _matches(name, wanted.id_columns)]
    if wanted.feature_columns is not None:
        _require_columns("feature_columns", wanted.feature_columns, names, file)
        return [name for name in names if _matches(name, wanted.feature_columns)]
    sample = table.sample.columns
    names = [name for name in names if not _counts_rows(name, sample[name])]
    if wanted.role == "prototypes":
        features = [name for name in names if name not in table.index]
    else:
        usual = [name for name in names if not is_no_feature(name) and name not in table.index]
        features = [name for name in usual if name not in {*text}]
        if len(features) != wanted.n_features:  # a feature needs all cells
            features = [name for name in features if not holds_nothing(sample[name])]
    require_width(len(features), file, wanted, features)
    return features


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _require_columns(parameter: str, patterns: Sequence[str], names: list[str], file: str) -> None:
    """Refuse names and patterns of columns that fit no column."""
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            raise DataError(
                f"`{parameter}` must name columns of {file}; got {pattern!r}, and the columns are "
                f"{format_labels(np.array(names), 8)}. Choose some of those, or a pattern such as "
                "f*.",
                option=parameter,
            )


def _counts_rows(name: str, column: Any) -> bool:
    """Whether a column only numbers the rows, as an index that was saved."""
    if name.casefold() not in ("", "index") and not name.casefold().startswith("unnamed"):
        return False
    values = read_numbers(column)
    if not len(values):
        return True
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def _find_labels(
    names: list[str], text: list[str], sample: dict[str, Any], file: str, wanted: Wanted
) -> str | None:
    """Return the column of labels: by its name, else the only column of text."""
    position = position_of(wanted.label_names, names)
    if position is not None:
        return names[position]
    if wanted.role == "prototypes":
        known = _find_label_texts(text, sample, wanted)
        # A column of text that repeats a value, such as yes or no, is an attribute.
        if len(known) == 1 and len({*cells(sample[known[0]])}) == len(sample[known[0]]):
            return known[0]
        return names[0]
    if not wanted.with_labels and wanted.label_column is None:
        return None
    text = _find_label_texts(text, sample, wanted)
    if wanted.label_column is None and len(text) == 1:
        return text[0]
    if wanted.label_column is None and not wanted.needs_labels:
        return None
    columns = format_labels(np.array(names), 8)
    if wanted.label_column is not None:
        raise DataError(
            f"`label_column` must name a column of {file}; got {wanted.label_column!r}, and the "
            f"columns are {columns}. Choose one of those."
        )
    found = "no column of text" if not text else f"{len(text)} columns of text"
    raise DataError(
        f"{file} must have a column of labels, named {' or '.join(wanted.label_names)}; its "
        f"columns are {columns}, with {found}. Rename one, or pass `label_column`."
    )


def _find_label_texts(text: list[str], sample: dict[str, Any], wanted: Wanted) -> list[str]:
    """Return the columns of text that may hold labels: not true and false, unless named so."""
    text = [name for name in text if not is_no_feature(name) or name.startswith("__index")]
    text = [name for name in text if not _matches(name, wanted.id_columns)]
    return [n for n in text if not {str(c).lower() for c in cells(sample[n])} <= {"true", "false"}]


def require_width(found: int, source: str, wanted: Wanted, columns: Sequence[str] = ()) -> None:
    """Refuse features of another number than those of the model."""
    if not found:
        raise DataError(
            f"{source} has no column of numbers next to its labels. Check what was saved; of "
            "texts, pass the column as `text_column`.",
            option="text_column",
        )
    if wanted.n_features in (None, found):
        return
    names = f" ({format_labels(np.array(columns), 4)})" if columns else ""
    remedy = "Use the encoder of the training samples."
    if columns and found > wanted.n_features:
        remedy = "Remove non-feature columns, or name them `id` or `label`."
    raise DataError(
        f"{source} must have the {wanted.n_features} features of the model; it has "
        f"{found}{names}. {remedy}"
    )


# The first line


def check_names(
    table: OpenTable, path: Path, known: Sequence[str], *, labels_first: bool = False
) -> None:
    """Refuse data in the first line, columns without a name, and duplicate names.

    Next to a `known` name, the others may be numbers. The column of labels may have no name if
    `labels_first`, as pandas writes an index; so may one that numbers the rows.
    """
    seen: dict[str, int] = {}
    for number, name in enumerate(table.names, start=1):
        if name in seen:
            raise DataError(
                f"Columns must have different names; {name!r} is column {seen[name]} and {number} "
                f"of {path.name}. Rename one, or add a first line of names if there is none."
            )
        seen[name] = number
    labels_first = labels_first and position_of(known, table.names) is None
    is_index = seen.get("") == 1 and labels_first
    if "" in seen and not is_index and not _counts_rows("", table.sample.columns[""]):
        raise DataError(
            f"Columns must have names; column {seen['']} of {path.name} has none. If it numbers "
            "the rows, save without it (index=False in pandas)."
        )
    if table.heading:
        _check_heading(table.names, path, known)


def _check_heading(names: list[str], path: Path, known: Sequence[str]) -> None:
    """Refuse a first line of data, which would be lost as a heading."""
    numbers = [name for name in names if is_number(name)]
    others = [name for name in names if not is_number(name) and name.casefold() != "split"]
    # Next to a known name the columns may have any name, such as a wavelength.
    if not numbers or len(others) > 1 or position_of(known, names) is not None:
        return
    # pandas names columns 0, 1, 2 by default; but a row of data may look the same: horse,1,2,3.
    counting = any(
        numbers == [str(number + start) for number in range(len(numbers))] for start in (0, 1)
    )
    if counting and (others in ([], [""]) or len(numbers) >= _LONG_RUN):
        return
    raise DataError(
        f"The first line of {path.name} must name the columns; it holds numbers such as "
        f"{numbers[0]}. Add a heading such as label,f1,f2; if it is one, name the column of labels "
        "`label`."
    )
