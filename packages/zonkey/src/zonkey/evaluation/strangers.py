"""How well a model tells samples of classes that it does not know from those of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..config import rows_per_block
from ..inference.predict import ScoresMixin
from .answers import Subject, take_rows

DETECTED = 0.95  # share of strangers above the threshold of the false rejections
_NEARLY = 1 - 1e-12  # rounding must not ask for one stranger more


@dataclass(frozen=True, eq=False)
class Strangeness:
    """What a model says of samples whose class it may not know; one entry per sample.

    `novelty` is how unlike all classes a sample is: that of the model, or 1 less the highest
    probability for models of other libraries; None if the model has neither. `rejected` is None if
    the model rejects no sample.
    """

    novelty: np.ndarray | None
    rejected: np.ndarray | None

    @classmethod
    def of(cls, subject: Subject, X: Any, n: int) -> Strangeness:
        """Return what a model says of n samples, in blocks."""
        rows, parts = rows_per_block(32 * len(subject.labels)), []
        for start in range(0, max(1, n), rows):
            block = take_rows(X, np.arange(start, min(start + rows, n)))
            if n and subject.preprocessing is not None:
                block = subject.preprocessing.transform(block)
            parts.append(cls._of_block(subject, block) if n else cls(None, None))
        return cls.join(parts)

    @classmethod
    def _of_block(cls, subject: Subject, X: Any) -> Strangeness:
        model, is_own = subject.model, isinstance(subject.model, ScoresMixin)
        novelty = rejected = None
        if hasattr(model, "novelty"):
            novelty = to_numpy(model.novelty(X)).astype(np.float64)
        elif not is_own and hasattr(model, "predict_proba"):
            novelty = 1 - to_numpy(model.predict_proba(X)).max(axis=1).astype(np.float64)
        if subject.reject_below is not None:
            rejected = to_numpy(model.predict_proba(X)).max(axis=1) < subject.reject_below
        return cls(novelty, rejected)

    @classmethod
    def join(cls, parts: Sequence[Strangeness]) -> Strangeness:
        """Return what the model says of the samples of all parts; those of empty ones are None."""
        found = {}
        for name in (field.name for field in fields(cls)):
            arrays = [getattr(part, name) for part in parts]
            filled = [array for array in arrays if array is not None]
            found[name] = np.concatenate(filled) if filled else None
        return cls(**found)

    def figures(self, is_stranger: np.ndarray) -> StrangerFigures:
        """Return figures of the strangers among the samples, which come last in the counts."""
        if not is_stranger.any():
            return StrangerFigures(None, None, is_stranger)
        order = np.argsort(is_stranger, kind="stable")
        parts = (None if part is None else part[order] for part in (self.novelty, self.rejected))
        return StrangerFigures(*parts, is_stranger=is_stranger[order])


class StrangerFigures:
    """Figures of strangers as functions of the sample counts."""

    def __init__(
        self, novelty: np.ndarray | None, rejected: np.ndarray | None, is_stranger: np.ndarray
    ) -> None:
        self._is_stranger, self._ratios = is_stranger, {}
        if rejected is not None:
            self._ratios["rejected_strangers"] = is_stranger & rejected, is_stranger
        self._order = None
        if novelty is not None:
            self._order = np.argsort(-novelty, kind="stable")
            _, self._starts = np.unique(-novelty[self._order], return_index=True)

    def values(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return the figures for each row of counts; NaN where none of their samples counts."""
        found = {
            name: divide(counts @ inside, counts @ whole)
            for name, (inside, whole) in self._ratios.items()
        }
        if self._order is None:
            return found
        # Sums over samples of equal novelty, the most novel first.
        known, strange = (
            np.add.reduceat(counts[:, self._order] * mask[self._order], self._starts, axis=1)
            for mask in (~self._is_stranger, self._is_stranger)
        )
        above, n, m = strange.cumsum(axis=1), known.sum(axis=1), strange.sum(axis=1)
        found["auroc_novelty"] = divide(np.sum(known * (above - strange / 2), axis=1), n * m)
        enough = above >= DETECTED * m[:, None] * _NEARLY
        falsely = known.cumsum(axis=1)[np.arange(len(n)), enough.argmax(axis=1)]
        found["false_rejections"] = divide(falsely, n * (m > 0))
        return found

    def sizes(self) -> dict[str, int]:
        """Return the number of samples that each figure is based on."""
        sizes = dict.fromkeys(self._ratios, int(self._is_stranger.sum()))
        if self._order is not None:
            sizes |= dict.fromkeys(("auroc_novelty", "false_rejections"), len(self._is_stranger))
        return sizes


def divide(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Return the ratios, NaN where a denominator is 0."""
    return np.divide(
        numerators,
        denominators,
        out=np.full(len(numerators), np.nan),
        where=denominators > 0,
    )
