"""Predictions, probabilities and explanations of a model, all from its `scorer_`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, namespace, softmax, to_numpy
from ..constraints import check_top, validate_samples
from ..labels import format_labels, format_value, list_distinct, require_same_kind, warn_user
from ..metrics import per_class_accuracy
from ..persistence.model import Learned, save
from ..prototypes import Prototypes
from ..streaming.accept import accept_chunks, as_chunks, drop_names
from ..streaming.reduce import Pass
from ..streaming.sources import Chunk, get_labels
from ..threads import LimitThreadsMixin
from .explain import explain
from .explanation import Explanation
from .scorer import LinearScores, Rejection, Scorer, best_columns, labels_at

_NOT_STORED = "not stored"


class ScoresMixin(LimitThreadsMixin, ClassifierMixin):
    """Predictions from the scores of classes.

    The estimator sets `classes_` in `fit`. It has a `scorer_` of its own, or `_score_blocks`.
    """

    classes_: Array
    get_params: Callable[..., dict[str, Any]]

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        return Scorer(to_numpy(self.classes_), compute=self._score_blocks)

    def _score_blocks(self, form: LinearScores | None, X: Array) -> Iterator[Array]:
        """Yield the scores of all rows of X, given the form of linear scores."""
        raise NotImplementedError

    @accept_chunks
    def predict(self, X: Any) -> Array:
        """Predict the class of each sample among the candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, or `reject_label` if the model rejects the sample. Numeric labels
            are in the array library and on the device of `X`; text labels are always NumPy arrays.
        """
        X = self._validate(X)
        return self.scorer_.predict(X)

    @accept_chunks
    def predict_top(self, X: Any, k: int | None = None) -> Array:
        """Return the `k` best candidates of each sample, best first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        k : int, default=None
            Number of candidates. None: five, or all of them if there are fewer.

        Returns
        -------
        ndarray of shape (n_samples, k)
            Labels in descending order of their scores.
        """
        X = self._validate(X)
        scorer = self.scorer_
        k = check_top(k, len(scorer.labels))
        tops = [best_columns(scores, k) for scores in scorer.finite_blocks(X)]
        return labels_at(scorer.labels, namespace(X).concat(tops))

    @accept_chunks
    def decision_function(self, X: Any) -> Array:
        """Return the score of each candidate.

        With a projection W, the score is ``||x||^2 - ||x - W y||^2``, less the penalty of seen
        classes. ``||x||^2`` is the same for all candidates and keeps the numbers small. Models
        that compare in another way describe it in their class documentation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates) or (n_samples,)
            Scores, columns in the order of `classes_`. With two candidates, the second score
            minus the first, as everywhere in scikit-learn.
        """
        X = self._validate(X)
        scores = namespace(X).concat(list(self.scorer_.finite_blocks(X)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of the per-class accuracies, the usual measure of zero-shot learning.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        y : array-like of shape (n_samples,)
            True labels. None for `Chunks`, which have their own.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples within their class.

        Returns
        -------
        float
            Mean over the classes of `y` of the share of correct predictions.
        """
        chunks, labels = as_chunks(X, y), cast(Any, y)
        if y is None and chunks is not X:
            raise ValueError(
                f"y must hold the true label of each sample of {type(X).__name__}; got None. Pass "
                "score(X, y), or Chunks(X, y)."
            )
        if chunks is None:
            predicted = self.predict(X)
        else:
            empty = ChunkAnswers(partial(_predict_chunk, drop_names(self, chunks)))
            found = chunks.reduce(empty, Pass.SCORE, purpose="score").in_order()
            filled = [one for one in found if len(one["y"])]
            labels, predicted = (
                np.concatenate([one[n] for one in filled]) for n in ("y", "predicted")
            )
        self._check_scored(labels)
        return per_class_accuracy(labels, predicted, sample_weight=sample_weight)

    def save(self, path: Any, **facts: Any) -> None:
        """Write the fitted model to one file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            File to write; `zonkey.load` reads it.
        **facts : dict
            `notes`, `license`, `scores` and `training`: see `zonkey.save`.
        """
        save(self, path, **facts)

    def __zonkey_parameters__(self) -> dict[str, Any]:
        """Return the parameters in forms that a file holds."""
        parameters = self.get_params(deep=False)
        if parameters.get("prototypes") is not None:
            parameters["prototypes"] = Prototypes.coerce(parameters["prototypes"])
        candidates = parameters.get("candidates")
        if candidates is not None and not isinstance(candidates, str):
            parameters["candidates"] = np.asarray(candidates).tolist()
        if parameters.get("base") is not None:
            parameters["base"] = _NOT_STORED  # refused by a later `fit`, unlike None
        return parameters

    def __zonkey_learned__(self) -> Learned:
        return Learned(None, self.classes_, fitted=self.classes_)

    def _check_scored(self, y: Any) -> None:
        """Refuse labels if none is a candidate; warn if some are not, because they score 0."""
        labels, known = list_distinct(y, "y"), self.scorer_.labels
        require_same_kind(y=labels, candidates=known)
        others = np.setdiff1d(labels, known)
        if not others.size:
            return
        remedy = (
            'Use candidates="all" to score seen classes. In cross-validation, use '
            "cv=ClassKFold() of zonkey.model_selection, which holds out whole classes: KFold holds "
            "out samples of seen classes."
        )
        if len(others) == len(labels):
            raise ValueError(
                f"None of the labels to score, {format_labels(labels)}, is a candidate; the "
                f"candidates are {format_labels(known)}. {remedy}"
            )
        warn_user(
            f"Labels to score should be candidates; {len(others)} of {len(labels)} classes are "
            f"not and count as wrong: {format_labels(others)}. {remedy}"
        )

    def _validate(self, X: Any) -> Any:
        check_is_fitted(self, "classes_")
        return validate_samples(self, X, reset=False)


class ChunkAnswers:
    """What a function, which can be pickled, says of each chunk: a `Reduction`."""

    def __init__(self, answer: Callable[[Chunk], dict[str, Any]]) -> None:
        self._answer = answer
        self._found: dict[int, dict[str, Any]] = {}

    def copy_empty(self) -> ChunkAnswers:
        """Return an empty reduction by the same function."""
        return ChunkAnswers(self._answer)

    def update(self, chunk: Chunk) -> None:
        """Answer a chunk."""
        self._found[chunk.number] = self._answer(chunk)

    def merge(self, other: ChunkAnswers) -> None:
        """Take over the answers to other chunks."""
        self._found |= other._found

    def parts(self) -> dict[str, Any]:
        """Return the answers by number, as text."""
        return {str(number): found for number, found in self._found.items()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over stored answers."""
        self._found = {int(number): found for number, found in parts.items()}

    def in_order(self) -> list[dict[str, Any]]:
        """Return the answers in the order of the chunks."""
        return [self._found[number] for number in sorted(self._found)]


def _predict_chunk(model: Any, chunk: Chunk) -> dict[str, np.ndarray]:
    """Return labels and predictions; a chunk may be empty."""
    y = get_labels(chunk)
    return {"y": y, "predicted": to_numpy(model.predict(chunk.X)) if len(y) else y}


class ExplainedMixin(ScoresMixin):
    """Explanations of single answers."""

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Explain the answer for one sample.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features), or path
            The sample, or its picture if the file of the model names the encoder.
        k : int, default=5
            Number of best classes to list; all of them if there are fewer.

        Returns
        -------
        Explanation
            Best classes, and the evidence for the winner and for the runner-up.
        """
        return explain(self, x, k)


class ProbabilityMixin(ExplainedMixin):
    """Probabilities, rejection and uncertainty, of a `scorer_` that has a temperature."""

    state_: Any
    _copy_with: Callable[..., Any]

    def with_rejection(self, below: float | None, label: Any = None) -> Any:
        """Return a fitted copy that rejects other samples.

        Parameters
        ----------
        below : float or None
            `predict` returns `label` if the highest probability is below this number in [0, 1].
            With a tree of classes, it first looks for the deepest node of at least this
            probability. None rejects nothing.
        label : label, default=None
            Label of rejected samples. None: "unknown" for text labels, -1 for numbers.

        Returns
        -------
        AnyShotClassifier
            The copy, with `reject_below` and `reject_label` as given.
        """
        check_is_fitted(self)
        if below is not None and not (isinstance(below, Real) and 0 <= below <= 1):
            raise ValueError(
                f"`below` must be a probability in [0, 1] or None; got {format_value(below)}. Pass "
                "0.5, for example."
            )
        if below is not None:
            Rejection(below, label).check_label(self.scorer_.names)
        return self._copy_with(self.state_, reject_below=below, reject_label=label)

    @accept_chunks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each candidate.

        It is the softmax of the scores divided by the temperature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates)
            Probabilities, columns in the order of `classes_`.
        """
        X = self._validate(X)
        scorer = self.scorer_
        blocks = [softmax(scores / scorer.temperature) for scores in scorer.finite_blocks(X)]
        return namespace(X).concat(blocks)

    @accept_chunks
    def uncertainty(self, X: Any) -> Array:
        """Return how uncertain the prediction of each sample is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entropy of the probabilities, divided by that of equal ones: 0 is certain, 1 a guess.
        """
        X = self._validate(X)
        parts, scorer = [], self.scorer_
        for scores in scorer.finite_blocks(X):
            P, xp = softmax(scores / scorer.temperature), namespace(scores)
            logs = xp.log(xp.where(P > 0, P, xp.ones_like(P)))
            parts.append(-xp.sum(P * logs, axis=1) / (float(np.log(P.shape[1])) or 1.0))
        return namespace(X).concat(parts)
