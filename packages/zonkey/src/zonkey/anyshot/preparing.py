"""Preprocess samples in several ways, each learned from some of them: for held-out choices."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..arrays import Array, namespace, place_like, take_rows
from ..preprocessing import FeatureNormalizer
from ..preprocessing.whitener import whitening_scales, within_class_directions
from ..threads import multiply
from .sources import weight_options


class Preparing:
    """Preprocessing that is learned from some rows of X and applied to all.

    One power is learned once for all shrinkages. `codes` and `weights` are those of `rows`.
    """

    def __init__(
        self, X: Array, rows: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int
    ) -> None:
        self.X = X
        self._rows = rows
        self._codes = codes
        self._weights = weights
        self._n_classes = n_classes
        self._directions: dict[float, tuple[Array, Array]] = {}

    def apply(self, transformer: Any) -> Array:
        """Return all rows after a clone of a transformer; None changes nothing."""
        if transformer is None:
            return self.X
        transformer, labels = clone(transformer), place_like(self._codes, self.X)
        options = weight_options(transformer, self._place_weights(self.X.dtype))
        return transformer.fit(self._take(self.X), labels, **options).transform(self.X)

    def whiten(self, power: float, shrinkage: float) -> Array:
        """Return all rows after power, centering and whitening, each of unit length.

        Whitened rows are in the coordinates of the whitened directions, which keeps distances.
        """
        if power not in self._directions:
            self._directions[power] = self._learn_directions(power)
        values, turned = self._directions[power]
        scales = namespace(turned).astype(whitening_scales(values, shrinkage), turned.dtype)
        return FeatureNormalizer().fit(turned[:1, :]).transform(turned * scales[None, :])

    def _learn_directions(self, power: float) -> tuple[Array, Array]:
        """Return variances of the directions within classes, and all rows in these directions."""
        normalizer, xp = FeatureNormalizer(power=power, center=True), namespace(self.X)
        normalizer.fit(self._take(self.X), sample_weight=self._place_weights(self.X.dtype))
        X = xp.astype(normalizer.transform(self.X), xp.float32, copy=False)
        n, d = X.shape
        if n < d:  # all rows lie in a space of n dimensions
            X = multiply(X, xp.linalg.qr(X.T)[0])
        weights = self._place_weights(xp.float32)
        codes = place_like(self._codes, X)
        values, vectors = within_class_directions(self._take(X), codes, self._n_classes, weights)
        values = values * (d / X.shape[1])  # relative to the mean over all features
        return values, multiply(X, xp.astype(vectors, X.dtype))

    def _take(self, X: Array) -> Array:
        return take_rows(X, self._rows)

    def _place_weights(self, dtype: Any) -> Array:
        weights = place_like(self._weights.astype(np.float32), self.X)
        return namespace(self.X).astype(weights, dtype)
