"""The nearest-neighbour baseline of few-shot learning: no prototypes, no learning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..linalg.distances import squared_distances
from ..metrics import per_class_accuracy
from .nearest_prototype import best_columns
from .validation import check_classes, check_option, check_top


class NearestSupport(ClassifierMixin, BaseEstimator):
    """Give a sample the class of the nearest support sample, or of the nearest class mean.

    Parameters
    ----------
    reference : {"sample", "mean"}, default="sample"
        "sample" is the paper's NN; "mean" compares with the mean of each class.

    Attributes
    ----------
    classes_ : ndarray
    references_ : ndarray of shape (n_references, n_features)
    reference_codes_ : ndarray of shape (n_references,)
        Position in `classes_` of the class of each reference.
    n_features_in_ : int
    """

    def __init__(self, reference: str = "sample") -> None:
        self.reference = reference

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the support set, or the mean of each class."""
        check_option("reference", self.reference, ("sample", "mean"))
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classes(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.reference == "mean":
            X = np.stack([X[codes == j].mean(axis=0) for j in range(len(self.classes_))])
            codes = np.arange(len(self.classes_))
        self.references_, self.reference_codes_ = X, codes
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return minus the squared distance to the nearest reference of each class.

        With two classes it is the difference of the second score and the first.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the nearest reference."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean of the per-class accuracies, as the other estimators do."""
        return per_class_accuracy(y, self.predict(X), sample_weight=sample_weight)

    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return the k classes with the nearest references, nearest first, shape (n, k).

        None: five, or all of them where there are fewer.
        """
        scores = self._scores(X)
        k = check_top(k, len(self.classes_))
        return self.classes_[best_columns(scores, k)]

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        distances = squared_distances(X, self.references_.astype(X.dtype, copy=False))
        of_class = [
            distances[:, self.reference_codes_ == j].min(axis=1) for j in range(len(self.classes_))
        ]
        return -np.stack(of_class, axis=1)
