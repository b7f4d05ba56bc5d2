"""Conjugate gradients for many systems that are diagonal but for the same low-rank part."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import Array, namespace

# Steps after which a new factorisation is the better deal.
MAX_STEPS = 60
_MAX_REFINEMENTS = 5


@dataclass(frozen=True, eq=False)
class Operator:
    """Z -> diagonal * Z + G diag(w) G'Z for positive `diagonal` (d x k), G (d x r) and w >= 0.

    Each column of Z is a system of its own.
    """

    diagonal: Array
    G: Array
    w: Array

    def apply(self, Z: Array) -> Array:
        """Return the image of Z."""
        image = self.G @ (self.w[:, None] * (self.G.T @ Z))
        image += self.diagonal * Z
        return image

    def in_single(self) -> Operator:
        """Return the same operator in float32."""
        xp = namespace(self.G)
        parts = (self.diagonal, self.G, self.w)
        return Operator(*(xp.astype(M, xp.float32) for M in parts))


def conjugate_gradients(
    operator: Operator, R: Array, Z: Array | None, tol: float
) -> tuple[Array, int, bool]:
    """Solve for the right-hand side R from Z; return solution, steps and convergence.

    None begins at 0. The quotient R / diagonal would be nearer, but not safe: where the update
    lifts a tiny eigenvalue it is so much larger than the solution that its rounding would bury
    it.
    """
    xp = namespace(R)
    diagonal = operator.diagonal
    # Columns of size 1, so that no square below overflows or vanishes.
    size = _sizes(R / diagonal)
    residual = R / size
    if Z is None:
        Z = xp.zeros_like(R)
    else:
        Z = Z / size
        residual -= operator.apply(Z)
    M = residual / diagonal
    P = M
    rho = xp.sum(residual * M, axis=0)
    for step in range(MAX_STEPS):
        if _is_small(M, Z, tol):
            return size * Z, step, True
        Q = operator.apply(P)
        length = _ratio(rho, xp.sum(P * Q, axis=0))[None, :]
        Z = Z + length * P
        Q *= length
        residual -= Q
        M = residual / diagonal
        rho, previous = xp.sum(residual * M, axis=0), rho
        P = M + _ratio(rho, previous)[None, :] * P
    return size * Z, MAX_STEPS, _is_small(M, Z, tol)


def refine_in_single(operator: Operator, R: Array, Z: Array, tol: float) -> tuple[Array, int, bool]:
    """Do the same by iterative refinement: residuals as precise as R, corrections in float32."""
    xp = namespace(R)
    single = operator.in_single()
    steps = 0
    for _ in range(_MAX_REFINEMENTS):
        residual = R - operator.apply(Z)
        M = residual / operator.diagonal
        share = _largest_share(M, Z)  # of Z that is still wrong
        if share <= tol:
            return Z, steps, True
        size = _sizes(M)
        inner = max(0.5 * tol / share, 32 * float(xp.finfo(xp.float32).eps))
        scaled = xp.astype(residual / size, xp.float32)
        correction, taken, converged = conjugate_gradients(single, scaled, None, inner)
        Z = Z + size * xp.astype(correction, R.dtype)
        steps += taken
        if not converged:
            break
        if inner * share <= tol:
            return Z, steps, True
    return Z, steps, False


def _sizes(M: Array) -> Array:
    """Return the largest entry of each column, 1 for a column of zeros, as a row."""
    xp = namespace(M)
    size = xp.max(xp.abs(M), axis=0)[None, :]
    return xp.where(size > 0, size, xp.ones_like(size))


def _largest_share(M: Array, Z: Array) -> float:
    """Return the largest ||m_j|| / ||z_j||; that of a column which is still 0 counts as 1."""
    xp = namespace(M)
    errors, sizes = xp.sum(M * M, axis=0), xp.sum(Z * Z, axis=0)
    shares = errors / xp.where(sizes > 0, sizes, xp.where(errors > 0, errors, xp.ones_like(errors)))
    return float(xp.max(shares)) ** 0.5


def _is_small(M: Array, Z: Array, tol: float) -> bool:
    """Say whether M, an estimate of the error of Z, is negligible in every column."""
    xp = namespace(M)
    return bool(xp.all(xp.sum(M * M, axis=0) <= tol**2 * xp.sum(Z * Z, axis=0)))


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0: a column already solved takes no further step."""
    xp = namespace(a)
    solved = b == 0
    return xp.where(solved, xp.zeros_like(a), a / xp.where(solved, xp.ones_like(b), b))
