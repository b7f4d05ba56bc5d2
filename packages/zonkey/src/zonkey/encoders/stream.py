"""Read pictures and texts as features in blocks, in the order of their source."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DataError
from ..files.streams import Block
from ..parameters import check_option
from .collection import Pictures
from .image_encoder import ImageEncoder
from .pictures import PictureError
from .text_encoder import TextEncoder
from .texts import Texts

FILE, LABEL, SPLIT = "file", "label", "split"  # columns that blocks carry
_BATCHES = 8  # of texts in a block: those of about the same length are encoded together


@dataclass(eq=False)
class PictureStream:
    """Pictures of a source, encoded in blocks; the interface is that of `FeatureStream`.

    The pictures are listed at once, and encoded by iterating. Meanwhile `done` of `total` pictures
    report progress, and `skipped` holds the errors of those that could not be read. Memory does
    not depend on the number of pictures, except for their names.
    """

    source: Any  # anything that `Pictures.of` takes
    encoder: ImageEncoder
    with_labels: bool = False
    label_column: str | None = None
    on_error: str = "raise"  # or "skip"

    items: Pictures = field(init=False)
    done: int = field(default=0, init=False)
    skipped: list[PictureError] = field(default_factory=list, init=False)
    columns: None = field(default=None, init=False)  # features have no names
    unused: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        check_option("on_error", self.on_error, ("raise", "skip"))
        self.items = Pictures.of(self.source, label_column=self.label_column)
        if self.with_labels and self.items.labels is None:
            raise DataError(
                f"Pictures need labels; those of {self.items.source} have none. Put them into "
                "one folder per class, or add a metadata.csv with the columns file_name and label."
            )

    @property
    def total(self) -> int:
        """Number of pictures."""
        return len(self.items)

    def __iter__(self) -> Iterator[Block]:
        self.done, self.skipped = 0, []
        encoder = copy.copy(self.encoder)
        encoder.on_error = "raise" if self.on_error == "raise" else "nan"
        waiting: dict[int, np.ndarray | None] = {}  # encoded before earlier pictures; None: skipped
        for found in encoder.blocks(self.items):
            waiting.update(zip(found.rows.tolist(), found.X, strict=True))
            waiting.update(dict.fromkeys(found.failed.tolist()))
            self.skipped += found.errors
            first = self.done
            while self.done in waiting:
                self.done += 1
            ready = {i: waiting.pop(i) for i in range(first, self.done)}
            X = {i: row for i, row in ready.items() if row is not None}
            if X:
                carried = {FILE: [self.items.names[i] for i in X]}
                values = np.stack([*X.values()])
                yield _make_block(self.items, [*X], values, carried, LABEL, self.with_labels)
        if len(self.skipped) == self.total:
            raise DataError(
                f"{self.items.source} must hold a picture that can be read; none of its "
                f"{self.total} can. The first: {self.skipped[0]}"
            )


@dataclass(eq=False)
class TextStream:
    """Texts of a source, encoded in blocks; the interface is that of `FeatureStream`.

    The texts are read at once, and encoded by iterating. Meanwhile `done` of `total` texts report
    progress, `skipped` says which are blank, and `n_split` counts those that were too long.
    """

    source: Any  # anything that `Texts.of` takes
    encoder: TextEncoder
    with_labels: bool = False
    label_column: str | None = None
    text_column: str | None = None
    on_error: str = "raise"  # or "skip"
    format: str = "csv"  # of standard input

    items: Texts = field(init=False)
    done: int = field(default=0, init=False)
    skipped: list[str] = field(default_factory=list, init=False)
    n_split: int = field(default=0, init=False)
    columns: None = field(default=None, init=False)
    unused: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        check_option("on_error", self.on_error, ("raise", "skip"))
        self.items = Texts.of(
            self.source,
            text_column=self.text_column,
            label_column=self.label_column,
            with_labels=self.with_labels,
            format=self.format,
        )
        self._rows = [row for row, text in enumerate(self.items) if text.strip()]
        if not self._rows:
            raise DataError(f"{self.items.source} must hold a text; all are blank. Fill some in.")
        if len(self._rows) < len(self.items) and self.on_error == "raise":
            raise DataError(
                f"{self._tell_blank()[0]} Fill it in, drop it, or pass `on_error` skip.",
                option="on_error",
            )

    @property
    def total(self) -> int:
        """Number of texts."""
        return len(self.items)

    def _tell_blank(self) -> list[str]:
        blank = [n for n, text in zip(self.items.numbers, self.items, strict=True) if not text]
        column, source = self.items.column, self.items.source
        return [f"Texts must not be blank; {column!r} in row {n} of {source} is." for n in blank]

    def __iter__(self) -> Iterator[Block]:
        self.done, self.n_split, self.skipped = 0, 0, self._tell_blank()
        size = _BATCHES * int(self.encoder.batch_size)
        for start in range(0, len(self._rows), size):
            rows = self._rows[start : start + size]
            texts = [self.items[row] for row in rows]
            X, is_split = self.encoder.encode_texts(texts)
            self.n_split += int(is_split.sum())
            self.done = self.total if start + size >= len(self._rows) else rows[-1] + 1
            label = self.items.label_column or LABEL
            yield _make_block(
                self.items, rows, X, {self.items.column: texts}, label, self.with_labels
            )


def _make_block(
    given: Any, rows: list[int], X: np.ndarray, first: dict[str, Any], label: str, labeled: bool
) -> Block:
    """Return features of some samples with the columns that they carry, the `first` ones first."""
    carried = dict(first)
    for name, cells in given.columns.items():
        carried.setdefault(name, [cells[i] for i in rows])
    for name, values in ((label, given.labels), (SPLIT, given.split)):
        if values is not None:
            carried[name] = values[rows].tolist()
    y = None if given.labels is None or not labeled else given.labels[rows]
    return Block(X, carried, y)
