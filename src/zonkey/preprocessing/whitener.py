"""Within-class whitening: let every direction vary equally inside a class."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..core.labels import encoded
from ..core.samples import class_sums
from ..linalg.arrays import (
    Array,
    counts_by_code,
    epsilon,
    identity_like,
    namespace,
    placed_like,
)
from ..validation import validate_labeled, validate_samples

__all__ = ["WithinClassWhitener"]


class WithinClassWhitener(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiply by (S_w + shrinkage * m I)^(-1/2), S_w being the pooled within-class covariance.

    Directions in which samples of one class differ (pose, light, background) are scaled down, so
    that distances tell classes apart. What is learned from seen classes serves unseen ones too: how
    samples of a class vary depends little on the class.

    Parameters
    ----------
    shrinkage : float, default=4.0
        At least 0: how far the covariance is drawn toward a multiple of the identity, in units of
        m, the mean of its eigenvalues. 0 whitens fully, which needs more samples than dimensions;
        a large value leaves the features as they are, but for their scale.

    Attributes
    ----------
    whitening_ : ndarray of shape (n_features, n_features)
        The symmetric matrix that rows are multiplied by, in float64. Its scale is such that a
        covariance of nothing but its mean eigenvalue would leave lengths as they are.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, -3.0], [0.0, 3.0], [1.0, -3.0], [1.0, 3.0]])  # the second is noise
    >>> whitener = WithinClassWhitener(shrinkage=0.1).fit(X, ["a", "a", "b", "b"])
    >>> np.round(np.diag(whitener.whitening_), 2).tolist()
    [3.32, 0.72]
    """

    def __init__(self, shrinkage: float = 4.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any) -> WithinClassWhitener:
        """Learn how samples vary inside their classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class of each sample.
        """
        self._check_parameters()
        X, y = validate_labeled(self, X, y)
        xp = namespace(X)
        labels, codes = encoded(y, X)
        X = xp.astype(X, xp.float64, copy=False)
        counts = placed_like(counts_by_code(codes, len(labels)).astype(np.float64), X)
        means = class_sums(X, codes, len(labels)) / counts[:, None]
        deviations = X - xp.take(means, codes, axis=0)
        values, vectors = xp.linalg.eigh(deviations.T @ deviations / X.shape[0])
        mean = float(xp.mean(values))
        # One sample a class, or copies of it: nothing is known of how classes vary.
        if mean <= epsilon(X) * float(xp.mean(X * X)):
            self.whitening_ = identity_like(vectors)
            return self
        # Rounding leaves eigenvalues of zero slightly negative.
        shrinkage = float(self.shrinkage)
        level = xp.maximum(values, xp.zeros_like(values)) / mean + shrinkage
        least = xp.full_like(values, epsilon(X) * values.shape[0])
        scales = xp.sqrt((1 + shrinkage) / xp.maximum(level, least))
        self.whitening_ = (vectors * scales[None, :]) @ vectors.T
        return self

    def transform(self, X: Any) -> Array:
        """Return the whitened features, in the float type, and in the place, of X."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False)
        return X @ namespace(X).astype(placed_like(self.whitening_, X), X.dtype)

    def _check_parameters(self) -> None:
        shrinkage = self.shrinkage
        is_number = isinstance(shrinkage, Real) and not isinstance(shrinkage, bool)
        if not (is_number and 0 <= shrinkage < np.inf):
            raise ValueError(
                f"shrinkage must be a finite number of at least 0, got {shrinkage!r}. Use for "
                "instance 4.0, or choose it on validation classes."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = True
        return tags
