"""Probabilities from scores, and the right to say "I do not know"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .nearest_prototype import NearestPrototypeMixin


class ProbabilityMixin(NearestPrototypeMixin):
    """`predict_proba`, and a `predict` that may refuse, for an estimator with scores.

    The estimator has the parameters below, and sets `seen_penalty_` and `temperature_` in `fit`.
    """

    seen_prior: float | None
    temperature: Any
    reject_below: float | None
    reject_label: Any

    seen_penalty_: float
    temperature_: float

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each sample among the candidates.

        With `reject_below`, `reject_label` stands where no class is probable enough.
        """
        if self.reject_below is None:
            return super().predict(X)
        X = self._validated(X)
        best, highest = [], []
        temperature = self._in_use("temperature")
        for scores in self._score_blocks(X):
            best.append(scores.argmax(axis=1))
            highest.append(_softmax(scores, temperature).max(axis=1))
        predicted = self.classes_[np.concatenate(best)]
        return self._refused(predicted, np.concatenate(highest) < self.reject_below)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each candidate, shape (n, n_candidates).

        Softmax of the scores over the temperature, which ``temperature="auto"`` fits to held-out
        classes; the columns are those of `classes_`.
        """
        X = self._validated(X)
        return np.concatenate(list(self._probability_blocks(X)))

    def _probability_blocks(self, X: np.ndarray) -> Iterator[np.ndarray]:
        temperature = self._in_use("temperature")
        for scores in self._score_blocks(X):
            yield _softmax(scores, temperature)

    def _refused(self, predicted: np.ndarray, refused: np.ndarray) -> np.ndarray:
        label = self.reject_label
        is_text = predicted.dtype.kind not in "iufb"
        if label is None:
            label = "unknown" if is_text else -1
        if isinstance(label, str) != is_text or label in self.classes_.tolist():
            raise ValueError(
                "`reject_label` must be a label of the same kind as the candidates, and none of "
                f"them; got {label!r}. Choose another, or None."
            )
        # Wide enough for both: a label of text must not be cut to the length of the others.
        dtype = object if predicted.dtype == object else np.result_type(predicted, np.array(label))
        answer = predicted.astype(dtype)
        answer[refused] = label
        return answer

    def _penalty(self) -> float:
        penalty = self._in_use("seen_penalty")
        if self.seen_prior is None:
            return penalty
        odds = self.seen_prior / (1 - self.seen_prior)
        return penalty - self._in_use("temperature") * float(np.log(odds))

    def _in_use(self, name: str) -> float:
        """Return a number that was given, or the one chosen in `fit`."""
        check_is_fitted(self, f"{name}_")
        given = getattr(self, name)
        return getattr(self, f"{name}_") if isinstance(given, str) else float(given)


def _softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    scores = scores - scores.max(axis=1, keepdims=True)
    scores /= temperature
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
