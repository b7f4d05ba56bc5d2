"""The table of suggested labels that a person fills in: its columns, and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files.formats import open_table, read_cells
from ..files.readers import require_existing, translate_errors
from ..labels import format_value, normalize_label

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
SAMPLE, GROUP, SUGGESTED, PROBABILITY = "sample", "group", "suggested", "probability"
ACCEPT_GROUP, ACCEPT = "accept_group", "accept"
_YES, _NO = ("yes", "y", "x", "1", "true"), ("", "no", "n", "0", "false")
Accepted = dict[str, tuple[str, int]]  # label and row by the name of the sample


def list_labels(rows: list[dict[str, Any]]) -> list[str]:
    """Return classes, and the nodes of a tree above them, as text."""
    return sorted({str(name) for row in rows for name in (row["label"], *row.get("above", ()))})


def read_accepted(path: Path, known: Iterable[str]) -> Accepted:
    """Return the labels of the accepted rows of a table; known labels are never marks."""
    return find_accepted(read_columns(path), known, path)


def find_accepted(columns: dict[str, list[str]], known: Iterable[str], path: Path) -> Accepted:
    """Return the same of the columns of a table."""
    labels = {normalize_label(label) for label in known}
    of_group: dict[str, tuple[str, int]] = {}
    for row, (group, cell) in enumerate(
        zip(columns[GROUP], columns[ACCEPT_GROUP], strict=True), start=2
    ):
        if cell:
            mark, first = of_group.setdefault(group, (cell, row))
            if mark != cell:
                raise DataError(
                    f"A group is accepted in one way; group {group} of {path.name} has {mark!r} in "
                    f"row {first} and {cell!r} in row {row}. Correct one of them."
                )
    found: Accepted = {}
    rows = zip(columns[SAMPLE], columns[GROUP], columns[SUGGESTED], columns[ACCEPT], strict=True)
    for row, (name, group, suggested, cell) in enumerate(rows, start=2):
        mark = cell or of_group.get(group, ("", 0))[0]
        label = _label_of(mark, suggested, labels, f"row {row} of {path.name}")
        if label is None:
            continue
        if not name:
            raise DataError(
                f"Every accepted row needs the id of its sample; {SAMPLE!r} in row {row} of "
                f"{path.name} is empty. Keep that column as it was written."
            )
        other, first = found.setdefault(name, (label, row))
        if other != label:
            raise DataError(
                f"A sample has one label; {format_value(name)} has {other!r} in row {first} of "
                f"{path.name} and {label!r} in row {row}. Correct one of them."
            )
    return found


def _label_of(mark: str, suggested: str, labels: set[str], where: str) -> str | None:
    """Return the label that a mark gives to a sample, None if it is not accepted."""
    if mark in labels:
        return mark
    word = mark.casefold()
    if word in _NO:
        return None
    if word not in _YES:
        return mark
    if not suggested:
        raise DataError(
            f"Only a suggested label can be accepted; {where} is {mark!r}, and suggests none. "
            "Write the label itself."
        )
    return suggested


def read_columns(path: Path) -> dict[str, list[str]]:
    """Return the columns of a table that say what is accepted, as text."""
    path = require_existing(path, TABLE_ENDINGS)
    with translate_errors(path), open_table(path) as table:
        named = dict(zip(table.names, read_cells(table), strict=True))
    needed = [SAMPLE, SUGGESTED, ACCEPT] + [GROUP] * (ACCEPT_GROUP in named)
    missing = [name for name in needed if name not in named]
    if missing:
        raise DataError(
            f"{path.name} must have the columns {', '.join(needed)}; {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Pass a table that zonkey suggest has "
            "written, with its columns, saved with the same separator."
        )
    n = len(named[SAMPLE])
    wanted = (SAMPLE, GROUP, SUGGESTED, ACCEPT_GROUP, ACCEPT)
    return {
        name: [_as_text(cell) for cell in named[name]] if name in named else [""] * n
        for name in wanted
    }


def _as_text(cell: Any) -> str:
    """Return a cell as text: 1.0 is "1", a missing one ""."""
    if cell is None or cell != cell:
        return ""
    whole = isinstance(cell, float) and cell.is_integer()
    return normalize_label(str(int(cell) if whole else cell).strip())
