"""Within-class whitening: equal variance of all directions within classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import Array, epsilon, identity_like, namespace, place_like, sums_by_code
from ..constraints import check_classes, chunks_of, validate_labeled, validate_samples
from ..labels import encode_labels
from ..parameters import Constraint, Interval, check_parameters
from ..persistence.checks import require_shape
from ..streaming.accept import accept_chunks
from ..streaming.reduce import ClassSums, Pass
from ..threads import multiply
from .chunk_transformer import ChunkTransformerMixin


class WithinClassWhitener(ChunkTransformerMixin, BaseEstimator):
    """Whiten features by their pooled within-class covariance.

    Samples are multiplied by (S_w + shrinkage * m I)^(-1/2), with the pooled within-class
    covariance S_w and the mean m of its eigenvalues. Directions in which samples of one class
    differ (pose, light, background) are scaled down. Within-class variation depends little on the
    class, so the matrix learned from seen classes serves unseen ones too.

    Parameters
    ----------
    shrinkage : float, default=4.0
        Nonnegative weight of the identity, in units of m. 0 whitens fully, which needs more
        samples than dimensions; a large value changes little but the scale.

    Attributes
    ----------
    whitening_ : ndarray of shape (n_features, n_features)
        Symmetric matrix that rows are multiplied by, in float64. Scaled so that a covariance m I
        gives the identity.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, if `X` has names that are all strings.

    See Also
    --------
    FeatureNormalizer : Power, centering and unit length.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : Classifier with the same covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.preprocessing import WithinClassWhitener
    >>> X = np.array([[0.0, -3.0], [0.0, 3.0], [1.0, -3.0], [1.0, 3.0]])  # the second is noise
    >>> whitener = WithinClassWhitener(shrinkage=0.1).fit(X, ["a", "a", "b", "b"])
    >>> np.round(np.diag(whitener.whitening_), 2).tolist()
    [3.32, 0.72]
    """

    whitening_: Array
    n_features_in_: int
    _learned: ClassVar[str] = "whitening_"
    __zonkey_fields__ = ("whitening_",)

    __constraints__: ClassVar[dict[str, Constraint]] = {"shrinkage": Interval(0)}

    def __init__(self, shrinkage: float = 4.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> WithinClassWhitener:
        """Learn the within-class covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training features. Chunks are read twice: for the means of classes, then for the
            deviations from them.
        y : array-like of shape (n_samples,)
            Labels. None for `Chunks`, which have their own.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. None weights all equally. Not for chunks, except for a memory
            map.

        Returns
        -------
        WithinClassWhitener
            The fitted transformer.
        """
        check_parameters(self)
        chunks = chunks_of(X, y, in_memory=sample_weight is not None)
        if chunks is not None:
            return self._fit_chunks(chunks, sample_weight)
        X, y = validate_labeled(self, X, y)
        labels, codes = encode_labels(y, X)
        return self._fit_array(X, codes, labels, sample_weight)

    def _list_passes(self) -> tuple[Pass, ...]:
        return Pass.CLASS_MEANS, Pass.SCATTER

    def _start_sums(self, before: ClassSums | None, labels: np.ndarray | None) -> ClassSums:
        if before is None:
            return ClassSums(labels)
        check_classes(before.labels)
        return ClassSums(labels, scatter=True, shift=(before.labels, before.means()))

    def _learn(self, statistics: ClassSums) -> None:
        covariance = statistics.covariance()
        size = float(statistics.squares.sum() / statistics.counts.sum()) / covariance.shape[0]
        values, vectors = _directions(covariance, epsilon(covariance) * size)
        scales = whitening_scales(values, self.shrinkage)
        self.whitening_ = multiply(vectors * scales[None, :], vectors.T)

    @accept_chunks
    def _transform(self, X: Any) -> Array:
        X = validate_samples(self, X, reset=False)
        return multiply(X, namespace(X).astype(place_like(self.whitening_, X), X.dtype, copy=False))

    def __zonkey_validate__(self) -> None:
        n = self.n_features_in_
        require_shape("whitening_", self.whitening_, n, n)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def within_class_directions(
    X: Array, codes: Array, n_classes: int, weights: Array | None = None
) -> tuple[Array, Array]:
    """Return eigenvalues, in float64, and eigenvectors of the within-class covariance.

    Eigenvalues are relative to their mean; they are all zero if no class varies.
    """
    xp = namespace(X)
    ones = xp.ones_like(X[:, 0]) if weights is None else weights
    counts = sums_by_code(ones[:, None], codes, n_classes)
    filled = xp.where(counts > 0, counts, xp.ones_like(counts))
    means = xp.astype(sums_by_code(X, codes, n_classes, ones) / filled, X.dtype)
    deviations = X - xp.take(means, codes, axis=0)
    if weights is not None:
        deviations *= xp.sqrt(weights)[:, None]
    total = float(xp.sum(counts))
    covariance = xp.astype(multiply(deviations.T, deviations), xp.float64) / total
    return _directions(covariance, epsilon(X) * float(xp.mean(X * X)))


def _directions(covariance: Array, least: float) -> tuple[Array, Array]:
    """Return eigenvalues relative to their mean, zero if it is not above `least`, and vectors."""
    xp = namespace(covariance)
    values, vectors = xp.linalg.eigh(covariance)
    mean = float(xp.mean(values))
    # With one distinct sample per class there is no within-class variation to learn.
    if mean <= least:
        return xp.zeros_like(values), identity_like(vectors)
    # Rounding makes zero eigenvalues slightly negative.
    return xp.where(values > 0, values, xp.zeros_like(values)) / mean, vectors


def whitening_scales(values: Array, shrinkage: float) -> Array:
    """Return the factor of each direction; all are 1 if no class varies."""
    xp = namespace(values)
    if not float(xp.max(values)) > 0:
        return xp.ones_like(values)
    shrinkage = float(shrinkage)
    least = xp.full_like(values, epsilon(values) * values.shape[0])
    return xp.sqrt((1 + shrinkage) / xp.maximum(values + shrinkage, least))
