"""Texts of classes, from names as typed, mappings, tables and files."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from ..errors import DataError
from ..files.columns import LABEL_COLUMNS, PARENT, check_names, is_no_feature
from ..files.formats import is_blank, is_text_column, open_table, read_cells
from ..files.readers import (
    TABLE_ENDINGS,
    position_of,
    read_text,
    require_existing,
    translate_errors,
)
from ..labels import as_labels, format_value, warn_user

TEXT_ENDINGS = (".txt", *TABLE_ENDINGS, ".json", ".jsonl")
_LABELS = LABEL_COLUMNS["prototypes"]
_NAMES = ("name", "class_name")  # of a class, in a table whose labels are in another column
_HEADINGS = (*_LABELS, "labels", "classes", "names")  # of a file with a single column
_LOOK = 100  # rows that distinguish texts from numbers
# "001." or "1)" before a name, and "001_"; not "3-toed sloth".
_NUMBER = re.compile(r"(?:\d+[.)]|0\d*[_\- ])[\s_]*(?=.*[^\W\d_])")
_LAST_LATIN = "\u024f"  # of the blocks of Latin letters
_SPACES = re.compile(r"[\s_\-]+")
_DESCRIPTION = re.compile(r"\s*(?:\t\s*|:(?:\s+|$))")

Pairs = list[tuple[str, list[str]]]  # a label and its texts; a label may occur several times
Parents = list[str] | None  # of each pair, "" for none


@dataclass(frozen=True, eq=False)
class ClassTexts:
    """Labels of classes in sorted order, and the texts that describe each of them.

    Labels that differ only in case, spaces, hyphens or underscores were refused.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Labels, text.
    texts : list of list of str
        At least one text per label.
    parents : dict of {str: str}, default=None
        The node above each class in a tree, "" at the top; None without a tree.

    See Also
    --------
    class_texts : Reads them from names, mappings, tables and files.

    Examples
    --------
    >>> from zonkey.encoders.class_texts import class_texts
    >>> found = class_texts("zebra, T-shirt")
    >>> found.labels.tolist(), found.texts
    (['T-shirt', 'zebra'], [['T shirt'], ['zebra']])
    """

    labels: np.ndarray
    texts: list[list[str]]
    parents: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class _Columns:
    """A table of cells of any type; `first_row` is the number of the first row in `source`."""

    names: list[str]
    cells: list[list[Any]]
    source: str
    first_row: int

    def find(self, wanted: str, parameter: str) -> int:
        found = position_of([wanted], self.names)
        if found is None:
            raise DataError(
                f"`{parameter}` must name a column of {self.source}; got {wanted!r}, and the "
                f"columns are {', '.join(self.names)}. Choose one of those."
            )
        return found


def class_texts(
    source: Any, *, text_columns: Sequence[str] | str | None = None, label_column: str | None = None
) -> ClassTexts:
    """Return the texts of classes.

    A class without a text is described by its name: its label with spaces instead of underscores
    and hyphens, and without a leading number such as "001.". In a table the texts of a class are
    its name, and its name with each description, as in "zebra: a striped horse". On the emoji, the
    mean of both vectors is better than either.

    Parameters
    ----------
    source : str, list, mapping, DataFrame, Path or ClassTexts
        Names with commas between them, a list of names, a mapping of labels to a text or a list of
        texts, a table, or a file: `.txt` with a name per line, or `name: description`; `.csv`,
        `.tsv`, `.parquet` or `.jsonl` with a column `label`, `class` or `name` and columns of text,
        where several rows of a class are several texts; `.json` like a mapping. A text that ends
        like a file is taken for its path. A column `parent` of a table makes a tree of the classes.
    text_columns : str or list of str, default=None
        Columns of a table that describe the class. By default all columns of text.
    label_column : str, default=None
        Column of the labels in a table.

    Returns
    -------
    ClassTexts
        Labels in sorted order with their texts.
    """
    if isinstance(source, ClassTexts):
        return source
    if isinstance(text_columns, str):
        text_columns = [text_columns]
    if isinstance(source, str) and Path(source).suffix.lower() not in TEXT_ENDINGS:
        return _collect_texts(_pair_names(split_names(source)), None, "The names")
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _collect_texts(*_read_pairs(path, text_columns, label_column), path.name)
    if isinstance(source, Mapping):
        return _collect_texts(_pair_mapping(source.items(), "The mapping"), None, "The mapping")
    if hasattr(source, "columns"):
        table = _read_frame(source, label_column)
        return _collect_texts(*_pair_rows(table, text_columns, label_column), table.source)
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise TypeError(
            "Classes must be a list of names, a mapping {label: text}, a table or a file; got "
            f"{format_value(source)}. Pass the names, for example."
        )
    return _collect_texts(_pair_names(list(source)), None, "The list of names")


def split_names(text: str) -> list[str]:
    """Return the names in a text, which commas or line ends separate; quotes may hold commas."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    names = [cell.strip() for row in rows for cell in row if cell.strip()]
    if not names:
        raise DataError(
            f"Classes must be names with commas between them; got {format_value(text)}. Write, for "
            'example, "cat, dog, truck".'
        )
    return names


def has_texts(path: str | Path) -> bool:
    """Whether a file of classes holds names or texts instead of vectors, by its start.

    Files that cannot be read have no texts.
    """
    try:
        path = require_existing(path, TEXT_ENDINGS)
        ending = path.suffix.lower()
        if ending == ".txt":
            return True
        if ending == ".json":
            return any(_is_texts(value) for _, value in islice(_json_pairs(path), _LOOK))
        table = _file_table(path, None, _LOOK)
        return not _number_columns(table, _label_position(table, None))
    except (DataError, ImportError):
        return False


def has_column(path: str | Path, name: str) -> bool:
    """Whether a file of classes is a table with this column; not if it cannot be read."""
    path = Path(path)
    try:
        is_table = path.suffix.lower() in (*TABLE_ENDINGS, ".jsonl")
        return is_table and position_of([name], _file_table(path, name, _LOOK).names) is not None
    except (DataError, ImportError):
        return False


# Sources


def _pair_names(names: list[Any]) -> Pairs:
    """Return names with themselves as texts; a repeated one is refused."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise DataError(
                f"Names of classes must be nonempty text; number {number} (counted from 0) is "
                f"{format_value(name)}. Correct or drop it."
            )
        if name.strip() in seen:
            raise DataError(
                f"Names of classes must differ; {format_value(name)} is number "
                f"{seen[name.strip()]} and {number} (counted from 0). Drop one."
            )
        seen[name.strip()] = number
    return [(name, []) for name in seen]


def _pair_mapping(items: Iterable[tuple[Any, Any]], source: str) -> Pairs:
    pairs: Pairs = []
    for label, value in items:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Sequence | np.ndarray) or not _is_texts(list(texts)):
            raise DataError(
                f"{source} must give each class a text or a list of texts; that of "
                f"{format_value(label)} is {format_value(value)}. Correct it, or drop the class."
            )
        pairs.append((_label_text(label, "A label"), [str(text) for text in texts]))
    return pairs


def _read_pairs(
    path: Path, text_columns: Sequence[str] | None, label_column: str | None
) -> tuple[Pairs, Parents]:
    path = require_existing(path, TEXT_ENDINGS)
    ending = path.suffix.lower()
    if ending == ".json":
        return _pair_mapping(_json_pairs(path), path.name), None
    if ending != ".txt":
        return _pair_rows(_file_table(path, label_column), text_columns, label_column)
    pairs: Pairs = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            label, *rest = _DESCRIPTION.split(line.strip(), maxsplit=1)
            label = _label_text(label, f"The label in line {number} of {path.name}")
            pairs.append((label, _compose_texts(speak_label(label), rest)))
    return pairs, None


def _pair_rows(
    table: _Columns, text_columns: Sequence[str] | None, label_column: str | None
) -> tuple[Pairs, Parents]:
    """Return a label and a text per row, and parents if there is a column of them."""
    label = _label_position(table, label_column)
    if text_columns is None:
        numbers = _number_columns(table, label)
        if numbers:
            raise DataError(
                f"{table.source} must hold texts; {numbers[0]!r} is a column of numbers. Pass "
                "`text_columns` to use only texts, or read it as prototypes."
            )
        texts = _text_columns(table, label)
    else:
        texts = [table.find(name, "text_columns") for name in text_columns]
    name = position_of(_NAMES, table.names)
    name = None if name == label else name
    texts = [column for column in texts if column != name]
    pairs: Pairs = []
    for row, cell in enumerate(table.cells[label]):
        where = f"The label in row {table.first_row + row} of {table.source}"
        value = _label_text(cell, where)
        called = "" if name is None else _cell(table.cells[name][row])
        parts = [table.cells[column][row] for column in texts]
        pairs.append((value, _row_texts(called or speak_label(value), parts)))
    above = position_of([PARENT], table.names)
    if above is None or above == label:
        return pairs, None
    return pairs, [_parent_text(cell) for cell in table.cells[above]]


def _row_texts(name: str, parts: list[Any]) -> list[str]:
    """Return the texts of a row: its cells in one text, and each entry of a cell with a list."""
    plain, every = [], []
    for part in parts:
        if isinstance(part, list | np.ndarray):
            every += [_cell(text) for text in part]
        else:
            plain.append(_cell(part))
    every.insert(0, ", ".join(filter(None, plain)))
    return _compose_texts(name, every)


def _read_frame(frame: Any, label_column: str | None) -> _Columns:
    """Return the columns of a DataFrame of pandas or polars."""
    names = [str(name) for name in frame.columns]
    if hasattr(frame, "get_columns"):
        return _Columns(names, [c.to_list() for c in frame.get_columns()], "The table", 0)
    cells = [frame.iloc[:, n].tolist() for n in range(len(names))]
    wanted = _LABELS if label_column is None else (label_column,)
    if position_of(wanted, names) is None and frame.index.dtype.kind not in "iu":
        names, cells = ["label", *names], [frame.index.tolist(), *cells]
    return _Columns(names, cells, "The table", 0)


def _file_table(path: Path, label_column: str | None, most: int | None = None) -> _Columns:
    """Return the columns of a table in a file, or of its first rows."""
    wanted = _LABELS if label_column is None else (label_column, *_LABELS)
    with translate_errors(path), open_table(path, nested=True) as table:
        names, first_row = table.names, 2 if table.heading else 1
        known = position_of((*wanted, *_HEADINGS), names) is not None
        cells = read_cells(table, most)
        if len(names) == 1 and not known and table.heading:  # names of classes, no heading
            return _Columns(["label"], [[name for name in names + cells[0] if name]], path.name, 1)
        check_names(table, path, wanted, labels_first=True)
    if not table.heading:
        # A text index of pandas holds the labels; numbers only count the rows.
        order = [*sorted(range(len(names)), key=lambda n: names[n] not in table.index)]
        is_index = [name.startswith("__index") for name in names]
        kept = [n for n in order if not is_index[n] or any(isinstance(c, str) for c in cells[n])]
        names = ["index" if is_index[n] else names[n] for n in kept]
        return _Columns(names, [cells[n] for n in kept], path.name, first_row)
    if not known and most is None:
        raise DataError(
            f"The first line of {path.name} must name its columns, one of them "
            f"{', '.join(_LABELS)}; got {', '.join(names)[:80]}. Rename the column of labels, or "
            "pass `label_column`."
        )
    return _Columns(names, cells, path.name, first_row)


def _json_pairs(path: Path) -> Iterable[tuple[Any, Any]]:
    text, found = read_text(path), None
    with suppress(ValueError, RecursionError):
        # As pairs: a dict would silently keep the last of two equal labels.
        found = json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs))
    if isinstance(found, list) and _is_texts(found):
        return [(name, speak_label(name)) for name in found]
    if not isinstance(found, tuple) or not found[1]:
        raise DataError(
            f"{path.name} must be a JSON object of texts; it is something else, empty or damaged. "
            'Write it as {"zebra": "a striped horse", "horse": ["a horse", "a pony"]}.'
        )
    return found[1]


# Columns and cells


def _label_position(table: _Columns, label_column: str | None) -> int:
    if not table.names:
        raise DataError(f"{table.source} has no column. Check what was saved.")
    if label_column is not None:
        return table.find(label_column, "label_column")
    found = position_of(_HEADINGS, table.names)
    if found is not None:
        return found
    text = _text_columns(table, None)
    return text[0] if len(text) == 1 else 0


def _text_columns(table: _Columns, label: int | None) -> list[int]:
    return [n for n in _find_descriptions(table, label) if _holds_text(table.cells[n])]


def _number_columns(table: _Columns, label: int) -> list[str]:
    filled = [n for n in _find_descriptions(table, label) if any(map(_cell, table.cells[n]))]
    return [table.names[n] for n in filled if not _holds_text(table.cells[n])]


def _find_descriptions(table: _Columns, label: int | None) -> list[int]:
    """Return the columns that may describe a class."""
    usable = [
        n
        for n, name in enumerate(table.names)
        if name and not is_no_feature(name) and name.casefold() != PARENT
    ]
    return [n for n in usable if n != label]


def _holds_text(cells: list[Any]) -> bool:
    if any(isinstance(cell, list | np.ndarray) for cell in cells):
        return any(_is_texts(cell) for cell in cells if isinstance(cell, list | np.ndarray))
    return is_text_column(_cell(cell) for cell in cells)


def _is_texts(value: Any) -> bool:
    """Whether a value is a text, or a nonempty list of texts."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | np.ndarray) or not len(values):
        return False
    return all(isinstance(text, str) and text.strip() for text in values)


def _cell(cell: Any) -> str:
    """Return a cell as text; a missing one is empty."""
    text = " ".join(str(cell).split())
    return "" if is_blank(text) else text


def _parent_text(cell: Any) -> str:
    """Return the label of a parent; a missing one is empty."""
    return _label_text(cell, "A parent") if _cell(cell) else ""


def _label_text(label: Any, where: str) -> str:
    """Return a label as text; 7 and 7.0 become "7"."""
    if isinstance(label, float | np.floating) and float(label).is_integer():
        label = int(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return str(label)
    if not isinstance(label, str) or not label.strip():
        raise DataError(f"{where} must be nonempty text; got {format_value(label)}. Fill it in.")
    return label.strip()


# Names


def speak_label(label: str) -> str:
    """Return a label as a name in a text: "001.Black_footed" becomes "Black footed"."""
    return _SPACES.sub(" ", _NUMBER.sub("", label.strip(), count=1)).strip() or label.strip()


def _compose_texts(name: str, descriptions: Iterable[str]) -> list[str]:
    """Return a name, and descriptions that begin with it unless they contain it.

    A code is not a name, and returned only if there is no description.
    """
    found = [text for text in descriptions if text]
    if is_code(name):
        return found or [name]
    return [
        name,
        *(text if fold_name(name) in fold_name(text) else f"{name}: {text}" for text in found),
    ]


def is_code(label: str) -> bool:
    """Whether a label is a number or a code such as n02391049, which has no meaning in a text."""
    letters = re.findall(r"[^\W\d_]+", label)
    return not letters or (max(map(len, letters)) == 1 and bool(re.search(r"\d", label)))


def fold_name(label: str) -> str:
    """Return a key that is equal for names that differ only in spelling."""
    return _SPACES.sub(" ", normalize("NFKC", label).casefold()).strip()


def warn_of_scripts(classes: ClassTexts) -> None:
    """Warn if most classes are described in letters of which an English encoder knows little."""
    foreign = [
        label
        for label, texts in zip(classes.labels.tolist(), classes.texts, strict=True)
        if _is_foreign("".join(texts))
    ]
    if 2 * len(foreign) > len(classes):
        warn_user(
            f"Names should be English for the embedded text encoder; {len(foreign)} of "
            f"{len(classes)} are in another script, such as {format_value(foreign[0])}. Translate "
            "them, or choose multilingual-minilm."
        )


def _is_foreign(text: str) -> bool:
    """Whether fewer than half of the letters are Latin."""
    is_latin = [c <= _LAST_LATIN for c in normalize("NFC", text) if c.isalpha()]
    return 2 * sum(is_latin) < len(is_latin)


def _collect_texts(pairs: Pairs, parents: Parents, source: str) -> ClassTexts:
    """Collect the texts of each label, and refuse labels that are the same class."""
    if not pairs:
        raise DataError(f"{source} must name at least one class; it names none. Add some.")
    labels = as_labels([label for label, _ in pairs]).tolist()
    texts: dict[str, dict[str, None]] = {}
    first: dict[str, str] = {}
    for label, (_, found) in zip(labels, pairs, strict=True):
        other = first.setdefault(fold_name(label), label)
        if other != label:
            raise DataError(
                f"Classes must have different names; {format_value(other)} and "
                f"{format_value(label)} are the same class after case, spaces, hyphens and "
                "underscores are set aside. Rename or drop one."
            )
        texts.setdefault(label, {}).update(dict.fromkeys(found or [speak_label(label)]))
    _warn_of_equal_texts(texts)
    order = sorted(texts)
    above = None if parents is None else _collect_parents(labels, parents, first, source)
    return ClassTexts(np.array(order, dtype=str), [list(texts[label]) for label in order], above)


def _collect_parents(
    labels: list[str], parents: list[str], spelled: Mapping[str, str], source: str
) -> dict[str, str]:
    """Return the parent of each class, spelled as its own row or at first; "" at the top."""
    found: dict[str, str] = {}
    spelled = {**spelled}
    for label, given in zip(labels, parents, strict=True):
        parent = spelled.setdefault(fold_name(given), given) if given else given
        if parent and found.get(label, parent) not in ("", parent):
            raise DataError(
                f"A class must have one parent; {format_value(label)} has "
                f"{format_value(found[label])} and {format_value(parent)} in {source}. Keep one."
            )
        found[label] = found.get(label) or parent
    return found


def _warn_of_equal_texts(texts: Mapping[str, Iterable[str]]) -> None:
    first: dict[tuple[str, ...], str] = {}
    for label, found in texts.items():
        other = first.setdefault(tuple(sorted(map(fold_name, found))), label)
        if other != label:
            warn_user(
                f"Texts of different classes should differ; those of {format_value(other)} and "
                f"{format_value(label)} are equal. Describe one in more detail, or merge them."
            )
            return
