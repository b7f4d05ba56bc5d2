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

from .arrays import Array, epsilon, identity_like, namespace
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

# Steps after which a new factorisation is the better deal, and the step count that
# the choice between the two assumes.
MAX_STEPS = 60
_TYPICAL_STEPS = 12
# Where no more is asked for than this, float32 steps with float64 residuals are twice as fast.
_SINGLE_TOL = 1e-8
_MAX_REFINEMENTS = 5


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
        self._G: Array | None = None

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
        if self._G is None:
            self._G = self.factor.to_basis(self.F)
        R = to_bases(base, B, C)
        diagonal = base.values[:, None] + B.values[None, :]
        Z = None if start is None else to_bases(base, B, start)
        in_single = tol >= _SINGLE_TOL > epsilon(R) and Z is not None
        iterate = _refine_in_single if in_single else _conjugate_gradients
        tol = max(tol, 32 * epsilon(R))
        Z, steps, converged = iterate(diagonal, self._G, weights, R, Z, tol)
        status = Status.SOLVED if converged else Status.NOT_CONVERGED
        return Solution(from_bases(base, B, Z), status, replace(stats, iterations=steps))


def _conjugate_gradients(
    diagonal: Array, G: Array, weights: Array, R: Array, Z: Array | None, tol: float
) -> tuple[Array, int, bool]:
    """Solve (diag(diagonal_j) + G diag(w) G') z_j = r_j for every column j at once, from Z.

    None begins at 0. The quotient R / diagonal would be nearer, but not safe: where the update
    lifts a tiny eigenvalue it is so much larger than the solution that its rounding would bury
    it.
    """
    xp = namespace(R)

    def apply(P: Array) -> Array:
        Q = G @ (weights[:, None] * (G.T @ P))
        Q += diagonal * P
        return Q

    # Columns of size 1, so that no square below overflows or vanishes.
    size = xp.max(xp.abs(R / diagonal), axis=0)[None, :]
    size = xp.where(size > 0, size, xp.ones_like(size))
    residual = R / size
    if Z is None:
        Z = xp.zeros_like(R)
    else:
        Z = Z / size
        residual -= apply(Z)
    M = residual / diagonal
    P = M
    rho = xp.sum(residual * M, axis=0)
    for step in range(MAX_STEPS):
        if _is_small(M, Z, tol):
            return size * Z, step, True
        Q = apply(P)
        length = _ratio(rho, xp.sum(P * Q, axis=0))[None, :]
        Z = Z + length * P
        Q *= length
        residual -= Q
        M = residual / diagonal
        rho, previous = xp.sum(residual * M, axis=0), rho
        P = M + _ratio(rho, previous)[None, :] * P
    return size * Z, MAX_STEPS, _is_small(M, Z, tol)


def _refine_in_single(
    diagonal: Array, G: Array, weights: Array, R: Array, Z: Array, tol: float
) -> tuple[Array, int, bool]:
    """Do the same by iterative refinement: residuals as precise as R, corrections in float32."""
    xp = namespace(R)
    diagonal_32, G_32, weights_32 = (xp.astype(M, xp.float32) for M in (diagonal, G, weights))
    steps = 0
    for _ in range(_MAX_REFINEMENTS):
        residual = R - diagonal * Z - G @ (weights[:, None] * (G.T @ Z))
        M = residual / diagonal
        if _is_small(M, Z, tol):
            return Z, steps, True
        size = xp.max(xp.abs(M), axis=0)[None, :]
        size = xp.where(size > 0, size, xp.ones_like(size))
        share = _largest_share(M, Z)  # of Z that is still wrong
        inner = max(0.5 * tol / share, 32 * float(xp.finfo(xp.float32).eps))
        scaled = xp.astype(residual / size, xp.float32)
        correction, taken, converged = _conjugate_gradients(
            diagonal_32, G_32, weights_32, scaled, None, inner
        )
        Z = Z + size * xp.astype(correction, R.dtype)
        steps += taken
        if not converged:
            break
        if inner * share <= tol:
            return Z, steps, True
    return Z, steps, False


def _largest_share(M: Array, Z: Array) -> float:
    """Return the largest ||m_j|| / ||z_j||, or 1 where some z_j is still 0."""
    xp = namespace(M)
    sizes = xp.sum(Z * Z, axis=0)
    shares = xp.sum(M * M, axis=0) / xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    known = xp.all(sizes > 0)
    return float(xp.max(shares)) ** 0.5 if bool(known) else 1.0


def _is_small(M: Array, Z: Array, tol: float) -> bool:
    """Say whether M, an estimate of the error of Z, is negligible in every column."""
    xp = namespace(M)
    return bool(xp.all(xp.sum(M * M, axis=0) <= tol**2 * xp.sum(Z * Z, axis=0)))


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0: a column already solved takes no further step."""
    xp = namespace(a)
    solved = b == 0
    return xp.where(solved, xp.zeros_like(a), a / xp.where(solved, xp.ones_like(b), b))
