"""Solve A W + W diag(omega) = R in float64 from a factorization of A in float32.

The factorization is a preconditioner. Where the operator is positive definite it serves
conjugate gradients, which converge also where its error is larger than the smallest
eigenvalues; elsewhere it serves iterative refinement, which needs it to be smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .arrays import Array, epsilon, namespace
from .conjugate import ratio

# Steps after which a factorization in float64 is the better deal.
MAX_STEPS = 40
# Rounding units of float32, of the scale, below which an eigenvalue is not to be relied on:
# the factorizations were off by up to 12.
_BLUR = 32
# Rounding units of the scale that the residual of a direct solution stays below.
_ATTAINABLE = 16
# Largest entries of A between which float32 neither overflows nor loses the small ones.
_RANGE = (1e-15, 1e15)


@dataclass(frozen=True)
class Refined:
    """W (..., d, k), the steps taken, and min(lam) + min(omega) and the gap as seen by then."""

    value: Array
    steps: int
    smallest: Array
    gap: Array


def fits_single(A: Array) -> bool:
    """Say whether float32 can hold A."""
    xp = namespace(A)
    return _RANGE[0] < float(xp.max(xp.abs(A))) < _RANGE[1]


def refined_solve(
    A: Array, factor: Array, omega: Array, R: Array, *, smallest: Array, gap: Array, scale: Array
) -> Refined | None:
    """Solve to the accuracy of a direct solution, or return None where that fails.

    Parameters
    ----------
    A : array of shape (..., d, d)
        The matrix in float64.
    factor : Factor or Tridiagonal
        Its factorization in float32.
    omega, R : arrays of shapes (..., k) and (..., d, k), with the same leading axes
    smallest, gap, scale : arrays
        The extremes of lam_i + omega_j for each item of the batch, as seen in float32.
    """
    xp = namespace(R)
    blur = _BLUR * float(xp.finfo(xp.float32).eps) * scale
    definite = bool(xp.all(smallest > -blur))
    if not definite and bool(xp.any(gap <= blur)):
        return None
    hidden = definite and bool(xp.any(smallest <= blur))
    k = R.shape[-1]
    # Columns of size 1, so that neither float32 nor a square overflows or vanishes.
    size = xp.max(xp.abs(R), axis=-2, keepdims=True)
    size = xp.where(size > 0, size, xp.ones_like(size))
    R = R / size
    if hidden:
        R, omega = _with_probe(factor, R, omega)
    shifts = _lifted(omega, smallest, blur / 4) if definite else omega
    result = _iterate(A, omega, R, _preconditioner(factor, shifts), conjugate=definite)
    if result is None or not _is_rounding(A, omega, R, result[0], scale):
        return None
    W, steps = result
    if hidden:
        y = W[..., k]
        seen = xp.sum(R[..., k] * y, axis=-1) / xp.sum(y * y, axis=-1)
        smallest = xp.where(smallest <= blur, seen, smallest)
    return Refined(size * W[..., :k], steps, smallest, smallest if definite else gap)


def _with_probe(factor: Array, R: Array, omega: Array) -> tuple[Array, Array]:
    """Append a right-hand side of all eigenvectors to the equations of the smallest omega.

    One solution with it is a step of inverse iteration, whose Rayleigh quotient is the
    smallest eigenvalue where that is so small that it matters.
    """
    xp = namespace(R)
    ones = xp.astype(xp.ones_like(R[..., :1]), xp.float32)
    probe = xp.astype(factor.from_basis(ones), R.dtype)
    lowest = xp.min(omega, axis=-1, keepdims=True)
    return xp.concat([R, probe], axis=-1), xp.concat([omega, lowest], axis=-1)


def _lifted(omega: Array, smallest: Array, least: Array) -> Array:
    """Return omega, raised where min(lam) + omega_j is below `least`.

    Whatever float32 made of the smallest eigenvalue, the preconditioner is to be definite. The
    less it is raised, the fewer steps are needed.
    """
    xp = namespace(omega)
    lowest = smallest[..., None] + (omega - xp.min(omega, axis=-1, keepdims=True))
    missing = least[..., None] - lowest
    return omega + xp.where(missing > 0, missing, xp.zeros_like(missing))


def _preconditioner(factor: Array, shifts: Array) -> Callable[[Array], Array]:
    """Return the function that solves with the float32 factorization."""
    xp = namespace(shifts)
    shifts = xp.astype(shifts, xp.float32)

    def solved(R: Array) -> Array:
        Z = factor.shifted_solve(factor.to_basis(xp.astype(R, xp.float32)), shifts)
        return xp.astype(factor.from_basis(Z), R.dtype)

    return solved


def _iterate(
    A: Array, omega: Array, R: Array, precondition: Callable[[Array], Array], *, conjugate: bool
) -> tuple[Array, int] | None:
    """Return W and the steps taken: conjugate gradients for each column, or refinement."""
    xp = namespace(R)
    tol = 4 * epsilon(R)
    W, residual = xp.zeros_like(R), R
    M = precondition(residual)
    P, rho = M, _dot(residual, M)
    for step in range(MAX_STEPS):
        if bool(xp.all(_dot(M, M) <= tol**2 * _dot(W, W))):
            return W, step
        Q = _apply(A, omega, P)
        length = xp.ones_like(rho)
        if conjugate:
            curvature = _dot(P, Q)
            if bool(xp.any(curvature < 0)):
                return None
            length = ratio(rho, curvature)
        W = W + length * P
        residual = residual - length * Q
        M = precondition(residual)
        rho, previous = _dot(residual, M), rho
        P = M + ratio(rho, previous) * P if conjugate else M
    return None


def _is_rounding(A: Array, omega: Array, R: Array, W: Array, scale: Array) -> bool:
    """Say whether the residual, computed anew, is no more than rounding makes it."""
    xp = namespace(R)
    residual = R - _apply(A, omega, W)
    level = _ATTAINABLE * epsilon(R) * scale[..., None, None]
    return bool(xp.all(_dot(residual, residual) <= level**2 * _dot(W, W)))


def _apply(A: Array, omega: Array, W: Array) -> Array:
    return A @ W + omega[..., None, :] * W


def _dot(P: Array, Q: Array) -> Array:
    """Return the inner products of the columns, as rows."""
    return namespace(P).sum(P * Q, axis=-2, keepdims=True)
