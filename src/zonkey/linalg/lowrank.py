"""Solve A' W + W B = C after a low-rank change of A, without factorizing A' anew.

The matrices of Algorithm 1 are A' = s A + c I + F diag(w) F', where A is large, fixed
and factorized once, and F (d x r) holds a few synthesized samples. In the eigenbases of
A and B the equation splits into one symmetric system per eigenvalue of B,

    (s lam_i + c + omega_j) z_j + G diag(w) G' z_j = r_j,      G = U'F,

whose diagonal part is inverted at no cost. Conjugate gradients with that part as
preconditioner see the spectrum of I + (low rank) and end after a handful of steps,
each of 4 r d k operations instead of the O(d^3) of a new factorization.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from .arrays import Array, epsilon, identity_like, namespace
from .conjugate import Operator, conjugate_gradients
from .sylvester import (
    Factor,
    Solution,
    Status,
    from_bases,
    near_singular_level,
    solve,
    spectrum_stats,
)

# The step count that the choice between iteration and a new factorization assumes.
_TYPICAL_STEPS = 12
_ROUNDING = 1e3  # rounding errors within which two values cannot be told apart


class UpdatedFactor:
    """The family s A + c I + F diag(w) F' for a fixed A and F.

    Parameters
    ----------
    A : array of shape (d, d) or (d,)
        The matrix that `factor` factorizes, or its diagonal where there is nothing else; used
        when a direct solve is cheaper.
    factor : Factor
        Its eigendecomposition.
    F : array of shape (d, r)
    """

    def __init__(self, A: Array, factor: Factor, F: Array) -> None:
        self.A = A
        self.factor = factor
        self.F = F

    def dense(self, *, scale: float, shift: float, weights: Array) -> Array:
        """Return s A + c I + F diag(w) F' as a matrix."""
        xp = namespace(self.F)
        low_rank = (self.F * weights[None, :]) @ xp.matrix_transpose(self.F)
        identity = identity_like(low_rank)
        A = self.A if self.A.ndim == 2 else self.A[:, None] * identity
        return float(scale) * A + low_rank + float(shift) * identity

    def is_iterative(self, k: int) -> bool:
        """Say whether conjugate gradients cost less than an eigendecomposition of A'."""
        d, r = self.F.shape
        return is_cheaper_by_iteration(d, r, k)

    def solve(
        self,
        B: Factor,
        C: Array,
        *,
        scale: float,
        shift: float,
        weights: Array,
        start: Array | None = None,
    ) -> Solution:
        """Solve (s A + c I + F diag(w) F') W + W B = C for weights w >= 0 and s > 0.

        The iteration begins at `start`, where one is known.

        Falls back on a direct solve where the iteration costs more, where it does not
        converge, or where the operator is not known to be positive definite.
        """
        if self.is_iterative(C.shape[1]):
            base = self.factor.transformed(scale=scale, shift=shift)
            solution = self._iterate(base, B, C, weights, start)
            if solution is not None and solution.status is Status.SOLVED:
                return solution
        return solve(self.dense(scale=scale, shift=shift, weights=weights), B, C)

    def _iterate(
        self, base: Factor, B: Factor, C: Array, weights: Array, start: Array | None
    ) -> Solution | None:
        stats = spectrum_stats(base, B)
        if stats.smallest <= near_singular_level(base, stats):
            return None  # rounding alone could have made it positive
        R = _rows(base, B, C)
        Z = None if start is None else _rows(base, B, start)
        operator = Operator(base.values[None, :] + B.values[:, None], self._G, weights)
        Z, steps, converged = conjugate_gradients(operator, R, Z, 32 * epsilon(R))
        status = Status.SOLVED if converged else Status.NOT_CONVERGED
        value = from_bases(base, B, namespace(Z).matrix_transpose(Z))
        return Solution(value, status, replace(stats, iterations=steps))

    def is_at_least(self, x: float, *, scale: float, shift: float, weights: Array) -> bool:
        """Say whether no eigenvalue of s A + c I + F diag(w) F' is below x, exactly.

        By the inertia of a bordered matrix, as many eigenvalues of the sum are below x as values
        v_i = s lam_i + c are, less the negative eigenvalues of I + H' diag(v - x)^-1 H, r x r,
        with H = G diag(w)^(1/2).
        """
        xp = namespace(self.F)
        distance = float(scale) * self.factor.values + (float(shift) - float(x))
        below = int(xp.sum(xp.astype(distance < 0, xp.int64)))
        if below == 0:
            return True
        if below > self.F.shape[1]:  # an update of rank r lifts r eigenvalues at most
            return False
        H = self._G * xp.sqrt(weights)[None, :]
        lifted, apart = xp.sum(H * H, axis=1), xp.abs(distance)
        if bool(xp.any(distance + lifted < 0)):
            return False  # no eigenvalue is above the smallest diagonal entry
        if float(xp.min(apart)) < _ROUNDING * epsilon(apart) * float(xp.max(apart + lifted)):
            # Divided by next to nothing, one direction would bury the others in its rounding.
            A = self.dense(scale=scale, shift=shift, weights=weights)
            return float(xp.linalg.eigvalsh(A)[0]) >= x
        border = xp.matrix_transpose(H) @ (H / distance[:, None])
        values = xp.linalg.eigvalsh(border + identity_like(border))
        return int(xp.sum(xp.astype(values < 0, xp.int64))) >= below

    @cached_property
    def _G(self) -> Array:
        return self.factor.to_basis(self.F)


def is_cheaper_by_iteration(d: int, r: int, k: int) -> bool:
    """Say so of an update of rank r, d x d, in an equation with k columns."""
    # Measured: eigh costs about 20 d^3 operations at the rate of a matrix product.
    return _TYPICAL_STEPS * 4 * r * d * k < 20 * d**3


def _rows(A: Factor, B: Factor, C: Array) -> Array:
    """Return V'C'U: each system is a row, in one piece, so that inner products cost a fifth."""
    return B.to_basis(namespace(C).matrix_transpose(A.to_basis(C)))
