"""Solve A' W + W B = C after a low-rank change of A, without factorising A' anew.

The matrices of Algorithm 1 are A' = s A + c I + F diag(w) F', where A is large, fixed
and factorised once, and F (d x r) holds a few synthesised samples. In the eigenbases of
A and B the equation splits into one symmetric system per eigenvalue of B,

    (s lam_i + c + omega_j) z_j + G diag(w) G' z_j = r_j,      G = U'F,

whose diagonal part is inverted at no cost. Conjugate gradients with that part as
preconditioner see the spectrum of I + (low rank) and end after a handful of steps,
each of 4 r d k operations instead of the O(d^3) of a new factorisation.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from .arrays import Array, epsilon, identity_like, namespace
from .conjugate import Operator, conjugate_gradients, refine_in_single
from .sylvester import (
    Factor,
    Solution,
    Status,
    from_bases,
    near_singular_level,
    solve,
    spectrum_stats,
    to_bases,
)

# The step count that the choice between iteration and a new factorisation assumes.
_TYPICAL_STEPS = 12
# Where no more is asked for than this, float32 steps with float64 residuals are twice as fast,
# and F often has a far smaller rank.
_SINGLE_TOL = 1e-8


class UpdatedFactor:
    """The family s A + c I + F diag(w) F' for a fixed A and F.

    Parameters
    ----------
    A : array of shape (d, d)
        The matrix that `factor` factorises; used when a direct solve is cheaper.
    factor : Factor
        Its eigendecomposition.
    F : array of shape (d, r)
    """

    def __init__(self, A: Array, factor: Factor, F: Array) -> None:
        self.A = A
        self.factor = factor
        self.F = F
        self._short: tuple[Array, Array, Array, float] | None = None

    def dense(self, *, scale: float, shift: float, weights: Array) -> Array:
        """Return s A + c I + F diag(w) F' as a matrix."""
        low_rank = (self.F * weights[None, :]) @ self.F.T
        return float(scale) * self.A + low_rank + float(shift) * identity_like(self.A)

    def is_iterative(self, k: int) -> bool:
        """Say whether conjugate gradients cost less than an eigendecomposition of A'."""
        d, r = self.F.shape
        # Measured: eigh costs about 20 d^3 operations at the rate of a matrix product.
        return _TYPICAL_STEPS * 4 * r * d * k < 20 * d**3

    def solve(
        self,
        B: Factor,
        C: Array,
        *,
        scale: float,
        shift: float,
        weights: Array,
        start: Array | None = None,
        tol: float = 0.0,
    ) -> Solution:
        """Solve (s A + c I + F diag(w) F') W + W B = C for weights w >= 0 and s > 0.

        The iteration begins at `start`, where one is known, and ends when the relative error
        is about `tol`, or rounding, whichever is larger.

        Falls back on a direct solve where the iteration costs more, where it does not
        converge, or where the operator is not known to be positive definite.
        """
        if self.is_iterative(C.shape[1]):
            base = self.factor.transformed(scale=scale, shift=shift)
            solution = self._iterate(base, B, C, weights, start, tol)
            if solution is not None and solution.status is Status.SOLVED:
                return solution
        return solve(self.dense(scale=scale, shift=shift, weights=weights), B, C)

    def _iterate(
        self,
        base: Factor,
        B: Factor,
        C: Array,
        weights: Array,
        start: Array | None,
        tol: float,
    ) -> Solution | None:
        stats = spectrum_stats(base, B)
        if stats.smallest <= near_singular_level(base, stats):
            return None  # rounding alone could have made it positive
        R = to_bases(base, B, C)
        Z = None if start is None else to_bases(base, B, start)
        diagonal = base.values[:, None] + B.values[None, :]
        if tol >= _SINGLE_TOL > epsilon(R) and Z is not None:
            G, w = self._shortened(weights, 0.5 * tol * stats.smallest)
            Z, steps, converged = refine_in_single(Operator(diagonal, G, w), R, Z, 0.5 * tol)
        else:
            operator = Operator(diagonal, self._G, weights)
            Z, steps, converged = conjugate_gradients(operator, R, Z, max(tol, 32 * epsilon(R)))
        status = Status.SOLVED if converged else Status.NOT_CONVERGED
        return Solution(from_bases(base, B, Z), status, replace(stats, iterations=steps))

    @cached_property
    def _G(self) -> Array:
        return self.factor.to_basis(self.F)

    def _shortened(self, weights: Array, level: float) -> tuple[Array, Array]:
        """Return G and w of least rank for which G diag(w) G' is off by at most `level`.

        An error E of the operator changes W by at most ||E|| over the smallest eigenvalue,
        relatively. Samples that differ by little more than noise leave few directions. What was
        found for proportional weights is used again.
        """
        xp = namespace(weights)
        if self._short is not None:
            known, G, sizes, left_out = self._short
            largest = float(xp.max(known))
            ratio = float(xp.max(weights)) / largest
            off = float(xp.max(xp.abs(weights - ratio * known)))
            if off <= 4 * epsilon(known) * ratio * largest and ratio * left_out <= level:
                return G, ratio * sizes
        scaled = self._G * xp.sqrt(weights)[None, :]
        gram = scaled.T @ scaled
        if level <= weights.shape[0] * epsilon(gram) * float(xp.linalg.trace(gram)):
            return self._G, weights  # rounding would decide what to leave out
        spectrum, vectors = xp.linalg.eigh(gram)
        first = int(xp.sum(xp.astype(spectrum <= level, xp.int64)))
        sizes = spectrum[first:]
        G = (scaled @ vectors[:, first:]) / xp.sqrt(sizes)[None, :]
        left_out = max(float(spectrum[first - 1]), 0.0) if first else 0.0
        if sizes.shape[0]:
            self._short = weights, G, sizes, left_out
        return G, sizes
