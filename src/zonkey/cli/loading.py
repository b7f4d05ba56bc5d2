"""What the commands of models share: a loaded model, its features in a file, progress."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from ..core.labels import listed
from ..datasets.streams import Block, FeatureStream, cells
from ..estimators.model_file import load, model_info
from ..estimators.scoring import unwrapped

if TYPE_CHECKING:
    from ..encoders.stream import PictureStream

FEATURE_NAMES = "feature_names"  # entry of the training facts of a model file


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of a file."""

    model: Any  # a classifier, or a pipeline that ends with one
    info: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> LoadedModel:
        """Load a model file."""
        return cls(load(path), model_info(path))

    @property
    def last(self) -> Any:
        """The classifier."""
        return unwrapped(self.model)[1]

    def with_last(self, last: Any) -> LoadedModel:
        """Return the same with another classifier."""
        if last is self.last:
            return self
        if self.last is self.model:
            return LoadedModel(last, self.info)
        other = copy.copy(self.model)
        other.steps = [*self.model.steps[:-1], (self.model.steps[-1][0], last)]
        return LoadedModel(other, self.info)

    def choosing_from(self, candidates: list[str] | None) -> LoadedModel:
        """Return the same with other candidates: "unseen", "all" or labels."""
        if not candidates:
            return self
        named = len(candidates) == 1 and candidates[0] in ("unseen", "all")
        self.require("with_candidates", "Choosing candidates")
        wanted = candidates[0] if named else self.labels_like(np.array(candidates)).tolist()
        return self.with_last(self.last.with_candidates(wanted))

    def require(self, method: str, purpose: str) -> None:
        """Refuse a model that cannot do something."""
        if not hasattr(self.last, method):
            raise ValueError(
                f"{purpose} needs the recommended model; {type(self.last).__name__} has no "
                f"`{method}`. Fit one with zonkey fit, without --preset."
            )

    def stream(self, features: str, **options: Any) -> FeatureStream:
        """Return the features of the model in a file."""
        # The first of a model that was fitted on a DataFrame, the second of `zonkey fit`.
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            names = self.info.get("training", {}).get(FEATURE_NAMES)
        return FeatureStream(
            features,
            n_features=self.info["summary"]["n_features"],
            feature_names=None if names is None else list(names),
            **options,
        )

    def labels_like(self, labels: np.ndarray) -> np.ndarray:
        """Return labels of a file, which are text, as the model has them."""
        known = np.asarray(self.last.classes_)
        if known.dtype.kind == "U":
            return labels
        try:
            return labels.astype(known.dtype)
        except ValueError:
            raise ValueError(
                f"Labels must be numbers, as those of the model are; got {listed(labels, 3)}. Use "
                "the labels of the training."
            ) from None


def read_rows(
    stream: FeatureStream | PictureStream, doing: str, *, labeled: bool = False
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return all features of a file, their labels and the column `split`, None if absent.

    With `labeled`, rows without a label are left out.
    """
    parts, labels, marks = [], [], []
    for block in watched(stream, doing):
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


def watched(stream: FeatureStream | PictureStream, doing: str) -> Iterator[Block]:
    """Yield the blocks of a file; a bar on stderr shows the progress and the time left."""
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
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=None, rows=0)
        rows = 0
        for block in stream:
            yield block  # first used, then done
            rows += len(block.X)
            progress.update(task, total=stream.total, completed=stream.done, rows=rows)


@contextmanager
def working(doing: str) -> Iterator[Any]:
    """Show on stderr what is being done, and for how long; the function changes the text."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task(doing, total=None)
        yield lambda text: p.update(task, description=text)
