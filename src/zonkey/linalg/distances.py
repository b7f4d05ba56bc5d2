"""Squared Euclidean distances between the rows of two matrices, and nearest rows."""

from __future__ import annotations

from .arrays import Array, namespace


def squared_distances(X: Array, Z: Array) -> Array:
    """Return ||x_i - z_j||^2 for all rows of X (n x d) and Z (m x d), as n x m.

    The Gram form ||x||^2 + ||z||^2 - 2 x'z costs one matrix product; what rounding
    pushes below zero is clipped, so that a square root or a ratio is always safe.
    """
    xp = namespace(X, Z)
    xx = xp.sum(X * X, axis=1)
    zz = xp.sum(Z * Z, axis=1)
    D = xx[:, None] + zz[None, :] - 2 * (X @ Z.T)
    return xp.where(D < 0, xp.zeros_like(D), D)  # keeps NaN, which "D > 0" would make 0


def nearest(X: Array, Z: Array, k: int) -> Array:
    """Return, for each row of X, the positions of its k nearest rows of Z, nearest first.

    Rows of Z at the same computed distance come in their own order; all rows of Z are
    returned where k exceeds their number.
    """
    xp = namespace(X, Z)
    order = xp.argsort(squared_distances(X, Z), axis=1, stable=True)
    return order[:, : min(k, Z.shape[0])]  # the standard leaves longer slices undefined
