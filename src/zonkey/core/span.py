"""The few directions that the samples of an episode really have.

Synthesized samples are deviations of the support set around projected prototypes, blurred by a
little noise: there are far fewer directions than samples. With F = X' diag(w)^(1/2) (d x N), and
an orthonormal S (d x s) that spans support set and projected prototypes, the update F F' of A0 is
G G', G = F Q, where Q is an orthonormal basis of F'S (the approximation of Nystrom). What is left
out, F (I - Q Q') F', is of second order in the noise, and measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..linalg.arrays import Array, epsilon, namespace

# Steps of conjugate gradients, of 4 r d k operations each, that a shared inverse saves.
_SAVED_STEPS = 8


class EpisodeSpan:
    """Low-rank forms of the updates of A0 by T x E episodes.

    Parameters
    ----------
    X : array of shape (T, E, N, d)
        Samples of the episodes.
    X_u, centers : arrays of shape (T, N_u, d) and (T, q, d)
        Support sets and projected prototypes, whose span the samples hardly leave.
    """

    def __init__(self, X: Array, X_u: Array, centers: Array) -> None:
        xp = namespace(X)
        self.X = X
        self._known: _Factors | None = None
        around = xp.matrix_transpose(xp.concat([X_u, centers], axis=1))
        # With hardly fewer directions than samples or features there is nothing to gain.
        self.is_short = 2 * around.shape[-1] <= min(X.shape[-2:])
        if self.is_short:
            self._S, _ = xp.linalg.qr(around)
            self._XS = X @ self._S[:, None, :, :]

    def update(self, weights: Array, scale: float, level: float) -> tuple[Array, Array]:
        """Return G (T, E, d, r) and w (T, E, r) with G diag(w) G' = `scale` X' diag(weights) X.

        Up to an error of the norm `level`; where fewer directions would be further off, G is X'.
        """
        xp = namespace(weights)
        if self.is_short:
            known = self._factors(weights)
            if scale * known.left_out <= level:
                return known.G, xp.full_like(known.G[:, :, 0, :], scale)
        return xp.matrix_transpose(self.X), scale * weights

    def common(self, weights: Array) -> Array | None:
        """Return G (T, d, s) of the mean of the episodes, or None where that saves nothing."""
        if not self.is_short:
            return None
        _, E, _, d = self.X.shape
        s = self._S.shape[-1]
        if s + 2 * s * s / d > 4 * _SAVED_STEPS * E:
            return None
        return self._factors(weights).common

    def _factors(self, weights: Array) -> _Factors:
        """Return what is known of these weights; it is kept, since they seldom change."""
        xp = namespace(weights)
        if self._known is None or not _are_close(self._known.weights, weights):
            mT = xp.matrix_transpose
            weighted = weights[..., None] * self._XS
            FFS, core = mT(self.X) @ weighted, mT(self._XS) @ weighted
            root = _inverse_root(core)
            G = FFS @ root
            rest = xp.sqrt(weights)[..., None] * (self.X - (self._XS @ root) @ mT(G))
            common = xp.mean(FFS, axis=1) @ _inverse_root(xp.mean(core, axis=1))
            self._known = _Factors(weights, G, _largest_eigenvalue(rest @ mT(rest)), common)
        return self._known


@dataclass(frozen=True, eq=False)
class _Factors:
    """Low-rank forms for given weights, and the norm of what they leave out."""

    weights: Array
    G: Array
    left_out: float
    common: Array


def _are_close(known: Array, weights: Array) -> bool:
    """Say whether weights differ by no more than the rounding of sums of shares."""
    xp = namespace(weights)
    return bool(xp.all(xp.abs(weights - known) <= 16 * epsilon(weights)))


def _largest_eigenvalue(gram: Array) -> float:
    """Return a bound of the eigenvalues of positive semidefinite matrices: ||M^4||_tr^(1/4)."""
    xp = namespace(gram)
    square = gram @ gram
    return float(xp.max(xp.sum(square * square, axis=(-2, -1)))) ** 0.25


def _inverse_root(core: Array) -> Array:
    """Return M with M M' the inverse of a positive semidefinite matrix, where it is not zero."""
    xp = namespace(core)
    values, vectors = xp.linalg.eigh(core)
    rounding = 10 * core.shape[-1] * epsilon(core) * values[..., -1:]
    kept = values > xp.where(rounding > 0, rounding, xp.zeros_like(rounding))
    roots = xp.astype(kept, values.dtype) / xp.sqrt(xp.where(kept, values, xp.ones_like(values)))
    return vectors * roots[..., None, :]
