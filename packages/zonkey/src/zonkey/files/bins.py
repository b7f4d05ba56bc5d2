"""Read bins: a table with a class and a bin in each row."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError
from ..labels import format_value
from .columns import LABEL_COLUMNS
from .formats import LINES, is_blank, open_table, read_cells
from .readers import TABLE_ENDINGS, position_of, require_existing, translate_errors

_BINS = ("bin", "bins", "group")


def read_bins(path: str | Path) -> dict[str, list[str]]:
    """Read bins of classes.

    Parameters
    ----------
    path : str or Path
        `.csv`, `.tsv`, `.parquet` or `.jsonl` with a class (`class`, `label` or `name`) and a `bin`
        in each row. A class may have several rows.

    Returns
    -------
    dict of {str: list of str}
        The classes of each bin.
    """
    path = require_existing(path, (*TABLE_ENDINGS, LINES))
    with translate_errors(path), open_table(path) as table:
        names = table.names
        found = (
            position_of(("class", *LABEL_COLUMNS["prototypes"]), names),
            position_of(_BINS, names),
        )
        if None in found:
            raise DataError(
                f"{path.name} must have the columns `class` and `bin`; its columns are "
                f"{', '.join(names)[:80]}. Rename them."
            )
        columns = read_cells(table)
    bins: dict[str, list[str]] = {}
    labels, groups = (columns[i] for i in found if i is not None)
    for number, pair in enumerate(zip(labels, groups, strict=True), start=1):
        label, name = (_text(cell) for cell in pair)
        if is_blank(label) or is_blank(name):
            raise DataError(
                f"Each row of {path.name} must have a class and a bin; row {number} below the "
                f"heading has {format_value(label)} and {format_value(name)}. Fill it in."
            )
        bins.setdefault(name, []).append(label)
    return bins


def _text(cell: object) -> str:
    """Return a cell as text: 7.0 is "7"."""
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if is_whole and isinstance(cell, float) else cell).strip()
