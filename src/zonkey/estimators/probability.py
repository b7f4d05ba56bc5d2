"""Probabilities from scores, and the right to say "I do not know"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..linalg.arrays import Array, dtype_like, is_device_array, namespace, to_numpy
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

    def predict(self, X: Any) -> Array:
        """Return the class of each sample among the candidates.

        With `reject_below`, `reject_label` stands where no class is probable enough. Labels that
        are numbers come in the array library, and on the device, of X; text is always an array
        of NumPy.
        """
        if self.reject_below is None:
            return super().predict(X)
        X = self._validated(X)
        xp = namespace(X)
        best, highest = [], []
        temperature = self._in_use("temperature")
        for scores in self._score_blocks(X):
            best.append(xp.argmax(scores, axis=1))
            highest.append(xp.max(_softmax(scores, temperature), axis=1))
        predicted = self._labels.at(xp.concat(best))
        return self._refused(predicted, xp.concat(highest) < self.reject_below)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each candidate, shape (n, n_candidates).

        Softmax of the scores over the temperature, which ``temperature="auto"`` fits to held-out
        classes; the columns are those of `classes_`.
        """
        X = self._validated(X)
        return namespace(X).concat(list(self._probability_blocks(X)))

    def _probability_blocks(self, X: Array) -> Iterator[Array]:
        temperature = self._in_use("temperature")
        for scores in self._score_blocks(X):
            yield _softmax(scores, temperature)

    def _refused(self, predicted: Array, refused: Array) -> Array:
        label, known = self.reject_label, self._labels.candidates
        is_text = known.dtype.kind not in "iufb"
        if label is None:
            label = "unknown" if is_text else -1
        if isinstance(label, str) != is_text or label in known.tolist():
            raise ValueError(
                "`reject_label` must be a label of the same kind as the candidates, and none of "
                f"them; got {label!r}. Choose another, or None."
            )
        # Wide enough for both: a label of text must not be cut to the length of the others.
        dtype = object if known.dtype == object else np.result_type(known, np.array(label))
        if is_device_array(predicted):
            xp = namespace(predicted)
            answer = xp.astype(predicted, dtype_like(dtype, predicted), copy=False)
            return xp.where(refused, xp.full_like(answer, label), answer)
        answer = predicted.astype(dtype)
        answer[to_numpy(refused)] = label
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


def _softmax(scores: Array, temperature: float) -> Array:
    xp = namespace(scores)
    scores = scores - xp.max(scores, axis=1, keepdims=True)
    scores /= temperature
    scores = xp.exp(scores)
    scores /= xp.sum(scores, axis=1, keepdims=True)
    return scores
