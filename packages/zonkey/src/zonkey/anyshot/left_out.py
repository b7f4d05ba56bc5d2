"""How confident answers to left-out samples were, and whether right: what a precision needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..arrays import softmax, to_numpy
from ..metrics import PrecisionThreshold
from ..metrics.selective import choose_threshold
from ..persistence.checks import require_number, require_shape
from .outcomes import Scored

_LENGTH = 400  # of the table
_MOST_RATIO = 1.5  # between numbers of candidates under which probabilities are alike
_CLOSE = 0.1  # relative difference of temperatures


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Answers to samples that `fit` left out, by falling confidence.

    A row is one sample, or several of similar confidence: their lowest confidence, what right and
    all answers weigh, and the sum of the squared weights. Probabilities are those at `temperature`
    among `n_classes`. All candidates have samples: the folds of held-out classes have fewer
    candidates than there will be, so that their answers are too often right.
    """

    confidence: np.ndarray
    right: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    temperature: float
    n_classes: int
    n_samples: int

    def __zonkey_validate__(self) -> None:
        for name in ("confidence", "right", "weights", "squares"):
            require_shape(name, getattr(self, name), len(self.confidence))
        for name in ("temperature", "n_classes", "n_samples"):
            require_number(name, getattr(self, name), 0)

    @classmethod
    def read(cls, folds: Iterable[Scored], temperature: float, n: float) -> LeftOut:
        """Return the answers to n distinct samples of some folds."""
        parts, n_classes = [], 0.0
        for scores, codes, weights in folds:
            S = to_numpy(scores).astype(np.float64)
            highest = to_numpy(softmax(S / temperature)).max(axis=1)
            parts.append((highest, weights * (S.argmax(axis=1) == codes), weights))
            n_classes += S.shape[1]
        confidence, right, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        # Samples that were left out several times count once.
        squares = weights**2
        squares = squares * max(1.0, weights.sum() ** 2 / squares.sum() / max(n, 1.0))
        order = np.argsort(-confidence, kind="stable")
        ends = np.unique(np.linspace(0, len(order), _LENGTH + 1).round().astype(int))[1:]
        right, weights, squares = (
            np.diff(np.cumsum(part[order])[ends - 1], prepend=0.0)
            for part in (right, weights, squares)
        )
        return cls(
            confidence[order][ends - 1],
            right,
            weights,
            squares,
            temperature,
            n_classes=round(n_classes / len(parts)),
            n_samples=round(n),
        )

    def explain_mismatch(self, temperature: float, n_classes: int) -> str | None:
        """Say why these answers say nothing of a model; None if they do."""
        most = max(n_classes / self.n_classes, self.n_classes / n_classes)
        if most > _MOST_RATIO:
            return f"`fit` told left-out ones apart among {self.n_classes} classes, not {n_classes}"
        if abs(temperature / self.temperature - 1) > _CLOSE:
            return f"the temperature is {temperature:.3g} now, in `fit` {self.temperature:.3g}"
        return None

    def choose(self, precision: float, certainty: float) -> PrecisionThreshold:
        """Return the lowest confidence of answers with a wanted precision."""
        parts = self.confidence, self.right, self.weights, self.squares
        return choose_threshold(parts, self.n_samples, precision, certainty)
