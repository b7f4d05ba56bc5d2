"""Power, centering and unit length of features, as one transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..linalg.arrays import Array, namespace, placed_like
from ..validation import check_interval, checked_weights, validate_samples


class FeatureNormalizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Signed power, then centering, then unit length of each row.

    Each step is optional; their order is fixed.

    Parameters
    ----------
    power : float, default=None
        Replace x by sign(x) abs(x)^power, with a power above 0. 0.5 shortens the long tail of
        rectified features. None: keep the values.
    center : bool, default=False
        Whether to subtract the mean of the training samples, taken after the power.
    norm : {"l2", None}, default="l2"
        "l2": scale each row to Euclidean length 1; rows of zeros stay zero. None: keep lengths.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        Mean that is subtracted, in float64. None with `center=False`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, if `X` has names that are all strings.

    See Also
    --------
    WithinClassWhitener : Scales down directions that vary within classes.
    sklearn.preprocessing.Normalizer : Unit length only.

    Notes
    -----
    scikit-learn offers the last two steps as `StandardScaler(with_std=False)` and `Normalizer`.
    As one step with three parameters, a search can switch each part on and off, and the order is
    always right. Tiny and huge rows reach length 1 too, while `Normalizer` leaves rows shorter
    than about 1e-6 (float32) or 2e-15 (float64) unscaled.

    float32 and float64 are kept, other types become float64. The input is never changed. Torch
    tensors and other array API arrays keep their library and device.

    Examples
    --------
    >>> from zonkey.preprocessing import FeatureNormalizer
    >>> FeatureNormalizer(power=0.5).fit_transform([[9.0, -16.0]])
    array([[ 0.6, -0.8]])
    """

    mean_: Array | None

    def __init__(
        self, power: float | None = None, center: bool = False, norm: str | None = "l2"
    ) -> None:
        self.power = power
        self.center = center
        self.norm = norm

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
    ) -> FeatureNormalizer:
        """Learn the mean of the training samples, if `center` is True.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training features.
        y : None
            Ignored; present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the mean. None weights all equally.

        Returns
        -------
        FeatureNormalizer
            The fitted transformer itself.
        """
        self._check_parameters()
        X = validate_samples(self, X)
        # Later `set_params` must not mix with the mean.
        self._power, self._norm = self.power, self.norm
        self.mean_ = None
        weights = checked_weights(sample_weight, X)
        if self.center:
            xp = namespace(X)
            powered, total = self._powered(X), float(X.shape[0])
            if weights is not None:
                powered, total = powered * weights[:, None], float(xp.sum(weights))
            # float32 sums over many samples lose digits.
            self.mean_ = xp.sum(powered, axis=0, dtype=xp.float64) / total
        return self

    def transform(self, X: Any) -> Array:
        """Apply the three steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            New array of the same float type.
        """
        check_is_fitted(self)
        X = self._powered(validate_samples(self, X, copy=True, reset=False))
        if self.mean_ is not None:
            X -= namespace(X).astype(placed_like(self.mean_, X), X.dtype)
        return X if self._norm is None else _to_unit_rows(X)

    def _powered(self, X: Array) -> Array:
        if self._power is None:
            return X
        xp, sizes = namespace(X), namespace(X).abs(X)
        # A NumPy float64 scalar as exponent would turn float32 into float64. Roots are several
        # times faster than powers.
        powered = xp.sqrt(sizes) if self._power == 0.5 else sizes ** float(self._power)
        return xp.copysign(powered, X)

    def _check_parameters(self) -> None:
        if self.power is not None:
            check_interval("power", self.power, 0, open_below=True)
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(
                f"`center` must be True or False; got {self.center!r}. Pass one of these."
            )
        if self.norm is not None and self.norm != "l2":
            raise ValueError(
                f"`norm` must be 'l2' or None; got {self.norm!r}. "
                "For other norms put sklearn.preprocessing.Normalizer after norm=None."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _to_unit_rows(X: Array) -> Array:
    """Scale the rows of X to length 1 in place; rows of zeros stay zero."""
    xp = namespace(X)
    # Division by the largest entry first prevents under- and overflow of squares.
    for order in (np.inf, 2):
        size = xp.linalg.vector_norm(X, axis=1, keepdims=True, ord=order)
        X /= xp.where(size > 0, size, xp.ones_like(size))
    return X
