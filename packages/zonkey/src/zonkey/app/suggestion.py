"""Write a table of suggested labels, in groups that a person accepts at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..anyshot.remembering import hash_id
from ..encoders.stream import PictureStream
from ..encoders.texts import Texts
from ..errors import DataError, Problem
from ..files.formats import cells
from ..files.streams import Block
from ..inference.scorer import unwrap
from ..labels import check_count, format_value, normalize_label
from ..streaming.priorities import row_priorities
from .accepted import (
    ACCEPT,
    ACCEPT_GROUP,
    GROUP,
    PROBABILITY,
    SAMPLE,
    SUGGESTED,
    TABLE_ENDINGS,
    find_accepted,
    list_labels,
    read_columns,
)
from .inputs import check_samples
from .models import LoadedModel, ignore_missing_names
from .progress import Progress, Step, ignore, watch_blocks
from .sources import Stream
from .targets import check_ending, check_target
from .writing import Columns, Output, open_output, require_free

_NAMES = (SAMPLE, "file", "id")  # columns that name samples, the first one wins
_DIGITS = 4


@dataclass(frozen=True)
class SuggestedTable:
    """What `suggest` has written.

    The file is complete when this is returned.

    Parameters
    ----------
    rows : int
        Number of samples in the table.
    groups : int
        Number of groups in the table.
    left_out : int
        Number of samples of less useful groups.
    known : int
        Number of samples that the model has learned before, which are left out.
    answers : dict of {str: list} or None
        The columns, if no output was given.
    skipped : list of str
        What was wrong with the pictures that could not be read.
    seconds : float
        Time it took.

    See Also
    --------
    suggest : Returns it.

    Examples
    --------
    >>> from zonkey.app import SuggestedTable
    >>> found = SuggestedTable(50, 1, left_out=9, known=0, answers=None, skipped=[], seconds=0.1)
    >>> found.rows, found.groups
    (50, 1)
    """

    rows: int
    groups: int
    left_out: int
    known: int
    answers: dict[str, list[Any]] | None
    skipped: list[str]
    seconds: float


@ignore_missing_names()
def suggest(
    model: str | Path,
    source: str | Path,
    output: Output | None = None,
    *,
    group_size: int = 50,
    groups: int | None = None,
    novelty_above: float = 1.0,
    encoder: str | None = None,
    text_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    features_key: str | None = None,
    format: str = "csv",
    output_format: str | None = None,
    progress: Progress = ignore,
) -> SuggestedTable:
    """Suggest labels in groups of like samples, most useful first, for a person to accept.

    The columns are `sample` (its id: file name, column `id`, or a hash of its content), `group`,
    `suggested` (empty if a sample is unlike all classes), `probability`, then `accept_group` and
    `accept`, which are empty, and the columns of the source that are not features. `learn` reads
    the table when it is filled in. All features are in memory at once.

    Parameters
    ----------
    model : str or Path
        Model file.
    source : str or Path
        Pictures, texts, or a table or arrays of features; "-" is standard input.
    output : str, Path, binary file or None, default=None
        File to write: csv, tsv, jsonl or parquet; None returns the answers instead.
    group_size : int, default=50
        Largest number of samples in a group.
    groups : int, default=None
        Number of groups to write, the most useful ones; None writes all.
    novelty_above : float, default=1.0
        Novelty above which unsure samples are unlike all classes.
    encoder : str, default=None
        Encoder of the samples, by default that of the model.
    text_column : str, default=None
        Column of the texts in a table, by default that of the training if there is one.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    features_key : str, default=None
        Name of the features in a file of several arrays.
    format : str, default="csv"
        Format of standard input.
    output_format : str, default=None
        Format of an output that is an open file; by default `format`.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    SuggestedTable
        What was written.
    """
    started = time.perf_counter()
    check_samples(model, source)
    check_count("group_size", group_size, 1)
    if groups is not None:
        check_count("groups", groups, 1)
    if isinstance(output, str | Path):
        check_ending("output", Path(output), TABLE_ENDINGS, " formats")
        check_target("output", Path(output), model, source)
    loaded = LoadedModel.load(model, encoder=encoder, on_error=on_error, cache=cache)
    loaded.require("suggest", "Suggesting")
    stream = loaded.stream(
        source, format=format, features_key=features_key, text_column=text_column
    )
    carried, X, ids = _read_all(stream, source, progress)
    new = np.flatnonzero(~knows_samples(loaded, ids.keys))
    steps, last = unwrap(loaded.model)
    if not len(new):
        raise Problem(f"{source} must have a sample to label; the model has learned all of them.")
    if isinstance(output, str | Path):
        _require_learned(Path(output), loaded, {ids.names[row] for row in new})
    progress(Step("Grouping", len(new)))
    X = X[new] if steps is None else steps.transform(X[new])
    found = last.suggest(X, group_size=group_size, novelty_above=novelty_above)
    order = found.order[: _count_rows(found.group[found.order], groups)]
    number = found.group[order]
    empty = [""] * len(order)
    columns: Columns = {
        SAMPLE: [ids.names[row] for row in new[order]],
        GROUP: number + 1,
        SUGGESTED: [
            "" if found.is_unlike[group] else label
            for group, label in zip(number, found.answer[order].tolist(), strict=True)
        ],
        PROBABILITY: found.probability[order].astype(np.float64).round(_DIGITS),
        ACCEPT_GROUP: empty,
        ACCEPT: empty,
    }
    carried.pop(SAMPLE, None)
    require_free(carried, columns, source)
    rows = new[order].tolist()
    columns |= {name: [column[row] for row in rows] for name, column in carried.items()}
    kept: dict[str, list[Any]] | None = {} if output is None else None
    with open_output(output, output_format or format, kept) as write:
        write(columns)
    return SuggestedTable(
        rows=len(rows),
        groups=len(np.unique(number)),
        left_out=len(new) - len(rows),
        known=len(ids.keys) - len(new),
        answers=kept,
        skipped=[str(error) for error in getattr(stream, "skipped", ())],
        seconds=time.perf_counter() - started,
    )


def _require_learned(path: Path, loaded: LoadedModel, names: set[str]) -> None:
    """Refuse to write over a table in which samples are accepted that the model has not learned."""
    if not path.exists():
        return
    try:
        columns = read_columns(path)
    except (DataError, OSError):  # no table of suggestions
        return
    accepted = find_accepted(columns, list_labels(loaded.rows()), path)
    lost = [name for name in accepted if name in names]
    if lost:
        raise Problem(
            f"{path.name} must not have accepted rows that were not learned; it has {len(lost)}, "
            f"such as {format_value(lost[0])}. Learn it first, or name another file.",
            option="output",
        )


def _count_rows(numbers: np.ndarray, groups: int | None) -> int:
    """Return how many samples the first groups have."""
    return len(numbers) if groups is None else int(np.searchsorted(numbers, groups))


def _read_all(
    stream: Stream, source: str | Path, progress: Progress
) -> tuple[dict[str, list[Any]], np.ndarray, SampleIds]:
    """Return the carried columns, the features and the ids of all samples."""
    ids, carried, parts = SampleIds(str(source)), {}, []
    with open_output(None, kept=carried) as keep:
        for block in watch_blocks(stream, "Reading", progress):
            ids.add_block(stream, block)
            keep(block.carried)
            parts.append(block.X)
    return carried, np.concatenate(parts), ids


def knows_samples(loaded: LoadedModel, keys: Sequence[str]) -> np.ndarray:
    """Return which samples a model has learned by their keys, but those of removed classes."""
    state = loaded.last.state_
    if state.remembered is None:
        return np.zeros(len(keys), bool)
    hashes = np.array([hash_id(key) for key in keys], dtype=np.uint64)
    return state.remembered.forget(state.hidden).find(hashes)[0]


class SampleIds:
    """Names of samples, and the keys that a model remembers them by.

    The name is that of the file, or the cell of a column `sample`, `file` or `id`; else a hash of
    the text or the features. The key of a named text or row also has this hash: another file may
    use the same names for other samples. Names in a source are unique.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.names: list[str] = []
        self.keys: list[str] = []
        self._key_of: dict[str, str] = {}

    def add(self, columns: Mapping[str, Any], contents: Sequence[str] | None) -> list[str]:
        """Add some samples, and return their names; `contents` are hashes, None for pictures."""
        column = next((columns[name] for name in _NAMES if name in columns), None)
        names = contents if column is None else [_as_name(cell) for cell in cells(column)]
        assert names is not None
        for i, name in enumerate(names):
            content = name if contents is None else contents[i]
            key = name if name == content else f"{name} ({content})"
            if not name:
                raise DataError(
                    f"Samples need an id; row {len(self.names) + 1} of {self.source} has none. "
                    "Fill it in, or remove the column."
                )
            if self._key_of.setdefault(name, key) != key:
                raise DataError(
                    f"Ids of samples must differ; {format_value(name)} is that of several in "
                    f"{self.source}. Number them, or remove the column."
                )
            self.names.append(name)
            self.keys.append(key)
        return list(names)

    def add_block(self, stream: Stream, block: Block) -> list[str]:
        """Add the samples of a block."""
        items = getattr(stream, "items", None)
        if isinstance(items, Texts):
            return self.add(block.carried, [_hash_text(t) for t in block.carried[items.column]])
        if isinstance(stream, PictureStream):
            return self.add(block.carried, None)
        hashes = np.asarray(row_priorities(block.X, 0)).view(np.uint64).tolist()
        return self.add(block.carried, [f"s{value:016x}" for value in hashes])

    def add_items(self, stream: Any) -> list[str]:
        """Add the samples of texts or pictures before they are encoded."""
        items = stream.items
        if isinstance(items, Texts):
            return self.add(items.columns, [_hash_text(text) for text in items])
        return self.add({"file": items.names, **items.columns}, None)


def _hash_text(text: str) -> str:
    """Return a name for a text; a spreadsheet must not take it for a number."""
    return f"s{hash_id(text):016x}"


def _as_name(cell: Any) -> str:
    """Return a cell as the name of a sample: 7.0 is "7", a missing one ""."""
    if cell is None or cell != cell:
        return ""
    whole = isinstance(cell, float) and cell.is_integer()
    return normalize_label(str(int(cell) if whole else cell).strip())
