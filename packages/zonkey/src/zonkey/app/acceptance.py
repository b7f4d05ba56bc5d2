"""Which answers of a model are accepted: by a probability, or by a wanted precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders.class_texts import fold_name
from ..errors import Problem
from ..inference.scorer import unwrap
from .inputs import check_sources
from .models import LoadedModel, read_rows, require_labeled
from .progress import Progress
from .sources import Stream

_BOTH = ("precision", "reject_below")


@dataclass(frozen=True)
class Acceptance:
    """A threshold, or a wanted precision and labeled samples that show it; or nothing."""

    reject_below: float | None = None
    precision: float | None = None
    held_out: str | Path | None = None

    def __post_init__(self) -> None:
        check_sources(held_out=self.held_out)
        if self.precision is None and self.held_out is not None:
            remedy = "Pass both, or leave it out."
            options = "held_out", "precision"
            raise Problem("`held_out`", "shows a `precision`", "got none", remedy, option=options)
        if self.precision is not None and self.reject_below is not None:
            what = f"got {self.precision} and {self.reject_below}"
            rule = "takes the place of `reject_below`"
            raise Problem("`precision`", rule, what, "Leave one out.", option=_BOTH)
        if self.precision is not None and not 0 < self.precision < 1:
            rule, what = "must be between 0 and 1", f"got {self.precision}"
            raise Problem("`precision`", rule, what, "Pass 0.95.", option="precision")

    def limit(self, loaded: LoadedModel, progress: Progress, **options: Any) -> LoadedModel:
        """Return a model that rejects other answers; `options` are those of a stream."""
        if self.precision is None:
            return loaded.reject(self.reject_below)
        loaded.require("with_precision", "`precision`", option="precision")
        X = y = None
        if self.held_out is not None:
            stream = loaded.stream(self.held_out, with_labels=True, **options)
            X, y = _read(stream, self.held_out, progress)
            steps, y = unwrap(loaded.model)[0], loaded.convert_labels(y)
            X = X if steps is None else steps.transform(X)
        return loaded.replace_last(self._choose(loaded.last, X, y))

    def limit_named(self, model: Any, stream: Stream | None, progress: Progress) -> Any:
        """Return a model of names that rejects other answers, by held-out samples."""
        if self.precision is None:
            return model if self.reject_below is None else model.with_rejection(self.reject_below)
        if self.held_out is None or stream is None:
            return self._choose(model, None, None)
        X, y = _read(stream, self.held_out, progress)
        spelled = {fold_name(label): label for label in model.classes_.tolist()}
        return self._choose(model, X, np.array([spelled.get(fold_name(n), n) for n in y.tolist()]))

    def _choose(self, model: Any, X: Any, y: Any) -> Any:
        try:
            return model.with_precision(self.precision, X, y)
        except ValueError as error:
            raise Problem(str(error), option=("held_out", "precision")) from None


def refuse_with_bins(bins: Any, **given: float | None) -> None:
    """Refuse what is told of classes, where bins of classes are the answers."""
    for name, value in given.items():
        if bins is not None and value is not None:
            both, rule = ("bins", name), "must be left out with `bins`"
            raise Problem(f"`{name}`", rule, "got both", "Choose one.", option=both)


def _read(stream: Stream, source: str | Path, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    read = read_rows(stream, "Reading held-out samples", progress, labeled=True)
    return read.matrix, require_labeled(read.labels, source)
