"""The nearest-neighbor baseline of few-shot learning: no prototypes, no learning."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import Array, counts_by_code, namespace, place_like, sums_by_code, to_numpy
from ..constraints import AnyLibraryMixin, check_classes, validate_labeled
from ..inference.predict import ScoresMixin
from ..inference.scorer import NearestReferences, Scorer
from ..labels import encode_labels, place_labels
from ..parameters import Constraint, Options, check_parameters
from ..persistence.checks import require_labels, require_shape, require_that
from ..persistence.model import Learned


class NearestSupport(AnyLibraryMixin, ScoresMixin, BaseEstimator):
    """Nearest-neighbor baseline of few-shot learning, without prototypes.

    A sample is assigned to the class of the nearest support sample, or of the nearest class mean.
    Scores are minus the squared distances to the nearest reference of each class.

    Parameters
    ----------
    reference : {"sample", "mean"}, default="sample"
        "sample" is the paper's NN; "mean" compares with the mean of each class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in sorted order.
    references_ : ndarray of shape (n_references, n_features)
        Support samples or class means.
    reference_codes_ : ndarray of shape (n_references,)
        Position in `classes_` of the class of each reference.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    FewShotClassifier : Uses prototypes and base classes too.
    sklearn.neighbors.NearestCentroid : The nearest class mean in scikit-learn.

    Examples
    --------
    >>> from zonkey import NearestSupport
    >>> model = NearestSupport("mean").fit([[0, 0], [0, 2], [3, 1]], ["cat", "cat", "owl"])
    >>> model.predict([[1, 1], [2, 1]])
    array(['cat', 'owl'], dtype='<U3')
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {"reference": Options("sample", "mean")}
    n_features_in_: int
    __zonkey_fields__ = ("classes_", "references_", "reference_codes_")

    def __init__(self, reference: str = "sample") -> None:
        self.reference = reference

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the support set, or the mean of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Support samples.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        NearestSupport
            The fitted estimator.
        """
        check_parameters(self)
        X, y = validate_labeled(self, X, y)
        check_classes(y)
        labels, codes = encode_labels(y, X)
        if self.reference == "mean":
            X = _class_means(X, codes, len(labels))
            codes = place_like(np.arange(len(labels)), X)
        self.classes_ = place_labels(labels, X)
        self.references_, self.reference_codes_ = X, codes
        return self

    def __zonkey_validate__(self) -> None:
        require_labels("classes_", self.classes_)
        n, n_classes = self.references_.shape[0], self.classes_.shape[0]
        require_shape("references_", self.references_, None, self.n_features_in_)
        require_shape("reference_codes_", self.reference_codes_, n, kinds="i")
        codes = np.unique(to_numpy(self.reference_codes_))
        fits = np.array_equal(codes, np.arange(n_classes))
        require_that(fits, "Every class needs a reference.")

    def __zonkey_learned__(self) -> Learned:
        return Learned(self.references_, self.classes_, fitted=self.references_)

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        labels = to_numpy(self.classes_)
        return Scorer(
            labels, NearestReferences(self.references_, self.reference_codes_, len(labels))
        )


def _class_means(X: Array, codes: Array, n_classes: int) -> Array:
    xp = namespace(X)
    sums = sums_by_code(xp.astype(X, xp.float64), codes, n_classes)
    counts = place_like(counts_by_code(codes, n_classes).astype(np.float64), X)
    return xp.astype(sums / counts[:, None], X.dtype)
