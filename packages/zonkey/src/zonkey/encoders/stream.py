"""Read pictures as features in blocks, in the order of their source."""

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

FILE, LABEL, SPLIT = "file", "label", "split"  # columns that blocks carry


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

    pictures: Pictures = field(init=False)
    done: int = field(default=0, init=False)
    skipped: list[PictureError] = field(default_factory=list, init=False)
    columns: None = field(default=None, init=False)  # features have no names
    unused: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        check_option("on_error", self.on_error, ("raise", "skip"))
        self.pictures = Pictures.of(self.source, label_column=self.label_column)
        if self.with_labels and self.pictures.labels is None:
            raise DataError(
                f"Pictures need labels; those of {self.pictures.source} have none. Put them into "
                "one folder per class, or add a metadata.csv with the columns file_name and label."
            )

    @property
    def total(self) -> int:
        """Number of pictures."""
        return len(self.pictures)

    def __iter__(self) -> Iterator[Block]:
        self.done, self.skipped = 0, []
        encoder = copy.copy(self.encoder)
        encoder.on_error = "raise" if self.on_error == "raise" else "nan"
        waiting: dict[int, np.ndarray | None] = {}  # encoded before earlier pictures; None: skipped
        for found in encoder.blocks(self.pictures):
            waiting.update(zip(found.rows.tolist(), found.X, strict=True))
            waiting.update(dict.fromkeys(found.failed.tolist()))
            self.skipped += found.errors
            first = self.done
            while self.done in waiting:
                self.done += 1
            ready = {i: waiting.pop(i) for i in range(first, self.done)}
            X = {i: row for i, row in ready.items() if row is not None}
            if X:
                yield self._block([*X], np.stack([*X.values()]))
        if len(self.skipped) == self.total:
            raise DataError(
                f"{self.pictures.source} must hold a picture that can be read; none of its "
                f"{self.total} can. The first: {self.skipped[0]}"
            )

    def _block(self, rows: list[int], X: np.ndarray) -> Block:
        given = self.pictures
        carried: dict[str, Any] = {FILE: [given.names[i] for i in rows]}
        for name, cells in given.columns.items():
            carried.setdefault(name, [cells[i] for i in rows])
        for name, values in ((LABEL, given.labels), (SPLIT, given.split)):
            if values is not None:
                carried[name] = values[rows].tolist()
        y = None if given.labels is None or not self.with_labels else given.labels[rows]
        return Block(X, carried, y)
