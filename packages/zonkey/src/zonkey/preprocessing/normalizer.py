"""Power, centering and unit length of features, as one transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import Array, namespace, place_like
from ..constraints import chunks_of, validate_samples
from ..parameters import Constraint, Flag, Interval, Options, check_parameters
from ..persistence.checks import require_shape
from ..samples import sample_blocks
from ..streaming.accept import accept_chunks
from ..streaming.reduce import Pass
from ..streaming.sources import Chunk
from .chunk_transformer import ChunkTransformerMixin


class FeatureNormalizer(ChunkTransformerMixin, BaseEstimator):
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
    n_features_in_: int
    _power: float | None
    _norm: str | None
    _learned: ClassVar[str] = "mean_"
    __zonkey_fields__ = ("mean_", "_power", "_norm")

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "power": Interval(0, open_below=True, also=(None,)),
        "center": Flag(),
        "norm": Options("l2", None),
    }

    def __init__(
        self, power: float | None = None, center: bool = False, norm: str | None = "l2"
    ) -> None:
        self.power = power
        self.center = center
        self.norm = norm

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FeatureNormalizer:  # noqa: ARG002
        """Learn the mean of the training samples, if `center` is True.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training features. Chunks are read once, and only to learn a mean.
        y : None
            Ignored; present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the mean. None weights all equally. Not for chunks, except
            for a memory map.

        Returns
        -------
        FeatureNormalizer
            The fitted transformer itself.
        """
        check_parameters(self)
        chunks = chunks_of(X, in_memory=sample_weight is not None)
        if chunks is not None:
            return self._fit_chunks(chunks, sample_weight)
        return self._fit_array(validate_samples(self, X), None, None, sample_weight)

    def _list_passes(self) -> tuple[Pass, ...]:
        return (Pass.MEAN,) if self.center else ()

    def _start_sums(self, before: Any, labels: Any) -> PowerSums:  # noqa: ARG002
        return PowerSums(self.power)

    def _learn(self, statistics: PowerSums | None) -> None:
        self._power, self._norm = self.power, self.norm
        self.mean_ = None if statistics is None else statistics.mean()

    @accept_chunks
    def _transform(self, X: Any) -> Array:
        X = raise_power(validate_samples(self, X, copy=True, reset=False), self._power)
        if self.mean_ is not None:
            X -= namespace(X).astype(place_like(self.mean_, X), X.dtype)
        return X if self._norm is None else _to_unit_rows(X)

    def __zonkey_validate__(self) -> None:
        if self.mean_ is not None:
            require_shape("mean_", self.mean_, self.n_features_in_)


def fitted_steps(
    normalizer: FeatureNormalizer,
) -> tuple[float | None, Array | None, str | None]:
    """Return power, mean and norm that a fitted normalizer applies.

    Parameters that `set_params` changed since do not mix with the mean.
    """
    return normalizer._power, normalizer.mean_, normalizer._norm


class PowerSums:
    """Sum of samples after a power, in float64: a `Reduction`."""

    def __init__(self, power: float | None) -> None:
        self.power = power
        self.total = 0.0  # number of samples, or sum of their weights
        self.sums: Any = 0.0

    def copy_empty(self) -> PowerSums:
        """Return an empty one of the same power."""
        return PowerSums(self.power)

    def update(self, chunk: Chunk) -> None:
        """Add the samples of a chunk."""
        self.add(chunk.X)

    def add(self, X: Array, codes: Any = None, weights: Array | None = None) -> None:  # noqa: ARG002
        """Add samples, times their weights; their classes do not matter."""
        xp = namespace(X)
        self.total += float(X.shape[0] if weights is None else xp.sum(weights, dtype=xp.float64))
        for rows in sample_blocks(X):
            values = raise_power(X[rows, :], self.power)
            values = values if weights is None else values * weights[rows][:, None]
            # float32 sums over many samples lose digits.
            self.sums = self.sums + xp.sum(values, axis=0, dtype=xp.float64)

    def merge(self, other: PowerSums) -> None:
        """Add the sums of other samples."""
        self.total += other.total
        self.sums = self.sums + other.sums

    def parts(self) -> dict[str, Any]:
        """Return the sum and the number of samples."""
        return {"total": self.total, "sums": self.sums}

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over sums."""
        vars(self).update(parts)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.sums.shape[0]

    def mean(self) -> Array:
        """Return the mean after the power."""
        return self.sums / self.total


def raise_power(X: Array, power: float | None) -> Array:
    """Return sign(x) abs(x)^power of each value."""
    if power is None:
        return X
    xp, sizes = namespace(X), namespace(X).abs(X)
    # A NumPy float64 scalar as exponent would turn float32 into float64. Roots are several times
    # faster than powers.
    values = xp.sqrt(sizes) if power == 0.5 else sizes ** float(power)
    return xp.copysign(values, X)


def _to_unit_rows(X: Array) -> Array:
    """Scale the rows of X to length 1 in place; rows of zeros stay zero."""
    xp = namespace(X)
    # Division by the largest entry first prevents under- and overflow of squares.
    for order in (np.inf, 2):
        size = xp.linalg.vector_norm(X, axis=1, keepdims=True, ord=order)
        X /= xp.where(size > 0, size, xp.ones_like(size))
    return X
