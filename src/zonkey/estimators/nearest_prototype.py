"""Prediction by the nearest projected prototype (Eq. abplclass), for every estimator with a W."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..core.labels import distinct, listed, placed_labels
from ..core.prototypes import Prototypes
from ..linalg.arrays import (
    Array,
    dtype_like,
    is_device_array,
    namespace,
    placed_like,
    positions_like,
    to_numpy,
)
from ..metrics import per_class_accuracy
from ..preprocessing.validation import validate_samples
from .known_labels import KnownLabels
from .linear_scores import LinearScores
from .validation import check_top

# Scores held in memory at a time while predicting; large enough for full-speed products.
_BLOCK_SCORES = 2**24
_FEW = 16  # best classes asked for up to which they are found one by one


class NearestPrototypeMixin(ClassifierMixin):
    """Everything an estimator can do once `projection_`, W (d x k), is known.

    The estimator has the three parameters below, calls `_set_known` in `fit`, and may say by
    `_linear_scores` how it compares; by default it takes the nearest W y.
    """

    prototypes: Any
    candidates: Any
    seen_penalty: Any

    projection_: Array
    prototypes_: Prototypes
    seen_classes_: Array
    unseen_classes_: Array
    classes_: Array
    _labels: KnownLabels

    def predict(self, X: Any) -> Array:
        """Return the class of each sample among the candidates.

        Labels that are numbers come in the array library, and on the device, of X; text is always
        an array of NumPy.
        """
        return self._best(self._validated(X))

    def _best(self, X: Array) -> Array:
        """Return the class of each sample of X, which has been checked."""
        xp = namespace(X)
        return self._labels.at(
            xp.concat([xp.argmax(scores, axis=1) for scores in self._score_blocks(X)])
        )

    def predict_top(self, X: Any, k: int | None = None) -> Array:
        """Return the k best candidates of each sample, best first, shape (n, k).

        None: five, or all of them where there are fewer.
        """
        X = self._validated(X)
        k = check_top(k, len(self._labels.candidates))
        tops = [best_columns(scores, k) for scores in self._score_blocks(X)]
        return self._labels.at(namespace(X).concat(tops))

    def decision_function(self, X: Any) -> Array:
        """Return ||x||^2 - ||x - W y||^2 for each candidate, less the penalty of seen classes.

        The nearer, the higher; ||x||^2 is the same for all candidates and keeps the numbers small.
        Shape (n, n_candidates), columns in the order of `classes_`. With two candidates it is,
        as everywhere in scikit-learn, the difference of the second score and the first, shape
        (n,). Models that compare elsewhere, or otherwise, say so in their own description.
        """
        X = self._validated(X)
        scores = namespace(X).concat(list(self._score_blocks(X)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean of the per-class accuracies, the usual measure of zero-shot learning."""
        predicted, labels, known = self.predict(X), distinct(y, "y"), self._labels.candidates
        if labels.size and not np.isin(labels, known).any():
            raise ValueError(
                f"None of the labels to score, {listed(labels)}, is a candidate; the "
                f'candidates are {listed(known)}. Use candidates="all" to score seen '
                "classes, and cv=ClassKFold() where classes are to be held out."
            )
        return per_class_accuracy(y, predicted, sample_weight=sample_weight)

    def project(self, prototypes: Any) -> Array:
        """Take prototypes to the feature space: W y for each row, shape (m, d).

        Accepts what the parameter `prototypes` accepts (rows come in sorted order of the
        labels), or a plain matrix (m x k).
        """
        check_is_fitted(self, "prototypes_")
        if Prototypes.is_labeled(prototypes):
            prototypes = Prototypes.coerce(prototypes)
        else:
            rows = np.atleast_2d(to_numpy(prototypes))
            prototypes = Prototypes(np.arange(len(rows)), rows)
        self._require_dimensions(prototypes.n_dimensions)
        W = self.projection_
        return self._placed_coordinates(prototypes, W.dtype) @ W.T

    def embed(self, X: Any) -> Array:
        """Take features to the semantic space: W'x for each row, shape (n, k)."""
        X = self._validated(X)
        return X @ namespace(X).astype(placed_like(self.projection_, X), X.dtype, copy=False)

    def with_classes(self, prototypes: Any) -> Self:
        """Return a fitted copy that also knows these unseen classes; nothing is learned anew.

        With ``candidates="unseen"`` or "all" the new classes are candidates at once; a list of
        candidates is extended by them.
        """
        check_is_fitted(self, "prototypes_")
        if self.prototypes is None:
            raise ValueError(
                "Adding classes needs a semantic space; this model was fitted with "
                "prototypes=None, where every class has an axis of its own. Fit with prototypes."
            )
        new = Prototypes.coerce(prototypes)
        self._require_dimensions(new.n_dimensions)
        known = self.prototypes_.extended(new)
        candidates = self.candidates
        if not isinstance(candidates, str):
            candidates = [*candidates, *new.labels.tolist()]
        return self._copy_knowing(known, prototypes=known, candidates=candidates)

    def with_candidates(self, candidates: Any) -> Self:
        """Return a fitted copy that chooses from other candidates; nothing is learned anew.

        A penalty and a temperature that were chosen in `fit` stay as they are; the temperature
        was chosen for the candidates of that fit.
        """
        check_is_fitted(self, "prototypes_")
        return self._copy_knowing(self.prototypes_, candidates=candidates)

    def _copy_knowing(self, known: Prototypes, **parameters: Any) -> Self:
        other = copy.copy(self)
        vars(other).update(parameters)
        other._set_known(known, self._labels.seen, like=self.classes_)
        return other

    def _set_known(self, prototypes: Prototypes, seen: np.ndarray, like: Any = None) -> None:
        """Set the fitted attributes that say which classes there are and which are candidates.

        Labels that are numbers are put in the place of `like`, such as the training samples.
        """
        classes = self._candidate_labels(prototypes, seen)
        self._labels = KnownLabels(classes, seen)
        self.prototypes_ = prototypes
        self.seen_classes_ = placed_labels(seen, like)
        self.unseen_classes_ = placed_labels(np.setdiff1d(prototypes.labels, seen), like)
        self.classes_ = placed_labels(classes, like)

    def _candidate_labels(self, prototypes: Prototypes, seen: np.ndarray) -> np.ndarray:
        """Return the labels that the parameter `candidates` stands for."""
        if np.ndim(self.candidates) and len(self.candidates):
            return prototypes.subset(self.candidates).labels
        if isinstance(self.candidates, str) and self.candidates == "all":
            return prototypes.labels
        if not (isinstance(self.candidates, str) and self.candidates == "unseen"):
            raise ValueError(
                '`candidates` must be "unseen", "all" or a list of at least one label; '
                f"got {self.candidates!r}. A single label goes into a list."
            )
        unseen = np.setdiff1d(prototypes.labels, seen)
        if unseen.size:
            return unseen
        if self.prototypes is None:
            return seen
        raise ValueError(
            'candidates="unseen" needs a class that has a prototype and no sample; all '
            f"{len(seen)} classes have samples. Add prototypes of unseen classes, "
            'or use candidates="all".'
        )

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        """Return the semantic vectors y that W is applied to, one a row."""
        return prototypes.matrix

    def _placed_coordinates(self, prototypes: Prototypes, dtype: Any) -> Array:
        """Return the same in a dtype of the library that the model was fitted in, and there."""
        W, Y = self.projection_, self._coordinates(prototypes)
        return namespace(W).astype(placed_like(Y, W), dtype, copy=False)

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        """Return how samples of this dtype are compared with these classes, where the model is."""
        W = namespace(self.projection_).astype(self.projection_, dtype, copy=False)
        return LinearScores.of_distances(self._placed_coordinates(known, dtype) @ W.T)

    def _penalty(self) -> float:
        """Return what is subtracted from the scores of seen classes."""
        return self.seen_penalty

    def _score_blocks(self, X: Array) -> Iterator[Array]:
        """Yield scores of consecutive rows of X, so that memory stays bounded."""
        known = self.prototypes_.subset(self._labels.candidates)
        dtype = dtype_like(X.dtype, self.projection_)
        form = self._linear_scores(known, dtype).at_place_of(X)
        is_seen = placed_like(self._labels.is_seen, X)
        constants = form.constants + float(self._penalty()) * namespace(X).astype(is_seen, X.dtype)
        doubled = namespace(X).matrix_transpose(2 * form.centers)
        rows = max(1, _BLOCK_SCORES // max(form.centers.shape[0], X.shape[1]))
        for start in range(0, X.shape[0], rows):
            block = X[start : min(start + rows, X.shape[0]), :]
            block = block if form.M is None else block @ form.M
            # Without ||x||^2, which is the same for all candidates: with it, the digits that
            # tell them apart would be lost in float32.
            scores = block @ doubled
            scores -= constants
            yield scores

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self, "prototypes_")
        return validate_samples(self, X, reset=False)

    def _require_dimensions(self, k: int) -> None:
        if k != self.prototypes_.n_dimensions:
            raise ValueError(
                f"Prototypes must have the {self.prototypes_.n_dimensions} dimensions of the "
                f"training prototypes; got {k}. Use vectors of the same semantic space."
            )


def best_columns(scores: Array, k: int) -> Array:
    """Return the columns of the k largest scores of each row, largest first.

    Equal scores come in the order of the columns, as for `argmax`; where they are the last to
    be taken, which `argpartition` leaves to chance, the first columns win.
    """
    on_device = is_device_array(scores)
    one_by_one = _device_one_by_one if on_device else _one_by_one
    few = one_by_one(scores, k) if k <= _FEW else None
    if few is not None:
        return few
    if on_device:
        return namespace(scores).argsort(-scores, axis=1, stable=True)[:, :k]
    last = np.partition(scores, -k, axis=1)[:, [-k]]
    above, tied = scores > last, scores == last
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (tied & (tied.cumsum(axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(-1, k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def _one_by_one(scores: np.ndarray, k: int) -> np.ndarray | None:
    """Return the same by k passes for the largest, faster than one that sorts out the k largest.

    None where a score of -inf would be among them, which stands for taken here.
    """
    left = scores.copy()
    best = np.empty((len(scores), k), np.intp)
    for i in range(k):
        best[:, i] = left.argmax(axis=1)
        if np.isneginf(np.take_along_axis(left, best[:, [i]], axis=1)).any():
            return None
        np.put_along_axis(left, best[:, [i]], -np.inf, axis=1)
    return best


def _device_one_by_one(scores: Array, k: int) -> Array | None:
    xp = namespace(scores)
    columns = positions_like(scores.shape[1], scores)[None, :]
    taken = xp.full_like(scores, -xp.inf)
    best = [xp.argmax(scores, axis=1)[:, None]]
    for _ in range(k - 1):
        scores = xp.where(columns == best[-1], taken, scores)
        best.append(xp.argmax(scores, axis=1)[:, None])
    # The last of them is the lowest of all.
    return None if bool(xp.any(xp.max(scores, axis=1) == -xp.inf)) else xp.concat(best, axis=1)
