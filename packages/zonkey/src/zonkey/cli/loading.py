"""What the commands of models share: a loaded model, its samples in a source, progress."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..encoders.pictures import PictureError
from ..encoders.stream import PictureStream
from ..files.streams import Block, cells
from ..inference.scorer import unwrap
from ..labels import format_labels, warn_user
from ..persistence.model import load_for_features, model_info
from .encoding import Encoders, Stream

FEATURE_NAMES = "feature_names"  # entry of the training facts of a model file


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of a file."""

    model: Any  # a classifier, or a pipeline that ends with one
    info: dict[str, Any]
    encoders: Encoders

    @classmethod
    def load(cls, path: Path, **options: Any) -> LoadedModel:
        """Load a model file; the options are those of `Encoders`."""
        model, info = load_for_features(path), model_info(path)
        facts = dict(info.get("training", {}))
        return cls(model, info, Encoders(path.name, facts, **options))

    @property
    def last(self) -> Any:
        """The classifier."""
        return unwrap(self.model)[1]

    def replace_last(self, last: Any) -> LoadedModel:
        """Return the same with another classifier."""
        if last is self.last:
            return self
        if self.last is self.model:
            return replace(self, model=last)
        other = copy.copy(self.model)
        other.steps = [*self.model.steps[:-1], (self.model.steps[-1][0], last)]
        return replace(self, model=other)

    def choose_from(self, candidates: list[str] | None) -> LoadedModel:
        """Return the same with other candidates: "unseen", "all" or labels."""
        if not candidates:
            return self
        named = len(candidates) == 1 and candidates[0] in ("unseen", "all")
        self.require("with_candidates", "Choosing candidates")
        wanted = candidates[0] if named else self.convert_labels(np.array(candidates)).tolist()
        return self.replace_last(self.last.with_candidates(wanted))

    def require(self, method: str, purpose: str) -> None:
        """Refuse a model that cannot do something."""
        if not hasattr(self.last, method):
            raise ValueError(
                f"{purpose} needs the recommended model; {type(self.last).__name__} has no "
                f"`{method}`. Fit one with zonkey fit, without --preset."
            )

    def stream(self, source: str, **options: Any) -> Stream:
        """Return the samples of a source, with the features of the model."""
        # The first of a model that was fitted on a DataFrame, the second of `zonkey fit`.
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            names = self.info.get("training", {}).get(FEATURE_NAMES)
        return self.encoders.stream(
            source,
            n_features=self.info["summary"]["n_features"],
            feature_names=None if names is None else list(names),
            **options,
        )

    def convert_labels(self, labels: np.ndarray) -> np.ndarray:
        """Return labels of a file, which are text, as the model has them."""
        known = np.asarray(self.last.classes_)
        if known.dtype.kind == "U":
            return labels
        try:
            return labels.astype(known.dtype)
        except ValueError:
            raise ValueError(
                "Labels must be numbers, as those of the model are; got "
                f"{format_labels(labels, 3)}. Use the labels of the training."
            ) from None


def read_rows(
    stream: Stream, doing: str, *, labeled: bool = False
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return all features of a source, their labels and the column `split`, None if absent.

    With `labeled`, rows without a label are left out.
    """
    parts, labels, marks = [], [], []
    for block in watch_blocks(stream, doing):
        rows = np.full(len(block.X), True)
        if labeled and block.labels is not None:
            rows = block.labels != ""
            labels.append(block.labels[rows])
        split = next((n for n in block.carried if n.casefold() == "split"), None)
        if split is not None:
            found = np.array([str(c).strip().lower() for c in cells(block.carried[split])])
            marks.append(found[rows])
        parts.append(block.X[rows])
    X, y, split = (np.concatenate(part) if part else None for part in (parts, labels, marks))
    assert X is not None
    return X, y, split


def row_of(stream: Stream, row: int, source: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the features of one row, and its other cells."""
    n, first = stream.total or 0, 0
    if isinstance(stream, PictureStream) and row < n:  # others need not be encoded
        stream, first = replace(stream, source=stream.pictures.subset([row])), row
    for block in stream:
        if row < first + len(block.X):
            carried = {name: cells(c)[row - first] for name, c in block.carried.items()}
            return block.X[row - first], carried
        first += len(block.X)
    raise ValueError(
        f"--row must be below the {first} rows of {source}; got {row}. Rows are counted from 0."
    )


def watch_blocks(stream: Stream, doing: str) -> Iterator[Block]:
    """Yield the blocks of a source; a bar on stderr shows the progress and the time left."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        _report_encoding(stream),
    ):
        task = progress.add_task(doing, total=stream.total, rows=0)
        rows = 0
        for block in stream:
            yield block  # first used, then done
            rows += len(block.X)
            progress.update(task, total=stream.total, completed=stream.done, rows=rows)


@contextmanager
def _report_encoding(stream: Stream) -> Iterator[None]:
    """Tell what happened to pictures that cannot be read, and to features if interrupted."""
    if not isinstance(stream, PictureStream):
        yield
        return
    try:
        yield
    except PictureError as error:
        raise PictureError(f"{error} Or pass --on-error skip.") from None
    except KeyboardInterrupt:
        if not stream.encoder.cache:
            raise
        raise KeyboardInterrupt(
            "features so far are kept in the cache; run the same command again"
        ) from None
    if stream.skipped:
        n = len(stream.skipped)
        warn_user(
            f"Pictures should be readable; {n} of {stream.total} {'is' if n == 1 else 'are'} not "
            f"and {'was' if n == 1 else 'were'} skipped. The first: {stream.skipped[0]}"
        )


@contextmanager
def show_work(doing: str) -> Iterator[Any]:
    """Show on stderr what is being done, and for how long; the function changes the text."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task(doing, total=None)
        yield lambda text: p.update(task, description=text)
