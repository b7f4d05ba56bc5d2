"""Solve the Sylvester equation A W + W B = C exactly, for symmetric A and B.

With A = U diag(lam) U' and B = V diag(omega) V' the equation is diagonal:

    (U'WV)_ij (lam_i + omega_j) = (U'CV)_ij.

Two symmetric eigendecompositions replace the two Schur decompositions of Bartels and Stewart.
If only B is diagonalized, there is one system per omega_j,

    (A + omega_j I) (WV)_j = (CV)_j,

and the cheaper tridiagonal form of A is enough. Both factorizations are worth keeping: they serve
any other right-hand side, any other B, and any A' = s A + c I.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from ..arrays import Array, epsilon, namespace
from .symmetric import Factor, Tridiagonal, eigh, product, transpose

# A solution is worth having while this power of the rounding unit is left of the scale.
_KEPT = 0.75
# Measured costs (benchmarks/sylvester_speed.py, one thread, float64), in multiply-adds at the
# speed of a matrix product. Factors of d^3 and d^2 for eigh, of d^3 and d for the tridiagonal form:
_EIGH = (4.5, 1000.0)
_TRIDIAGONAL = (1.4, 1e5)
# Per column of C: products with U' and U, or with Q' and Q, as a factor of d^2; a tridiagonal
# system, as a factor of d and a constant.
_MULTIPLY_U = 2.0
_MULTIPLY_Q = 3.2
_SYSTEM = (500.0, 6e4)


class Status(Enum):
    """How far a solution can be trusted; the value of each member names cause and remedy."""

    SOLVED = "solved to the precision of the dtype"
    NEAR_SINGULAR = (
        "some eigenvalue of A is nearly the negative of one of B, so that most digits are "
        "lost: add a larger multiple of the identity to A or B"
    )
    SINGULAR = (
        "some eigenvalue of A is the negative of one of B to working precision; the value is "
        "the least-squares solution of least norm: add a multiple of the identity to A or B"
    )
    NOT_CONVERGED = (
        "the iteration ended before the residual was small: allow more iterations or "
        "factorize the updated matrix"
    )


@dataclass(frozen=True)
class Stats:
    """Spectrum of the operator W -> A W + W B; for a batch, the extremes over all equations.

    `smallest` is min(lam) + min(omega). If positive, W is the unique minimizer of the quadratic
    whose gradient the equation is; otherwise W is a saddle point. After a low-rank update it is a
    lower bound. `gap` is min |lam_i + omega_j|, the distance to a singular equation, and `scale`
    the maximum. `iterations` are steps of conjugate gradients; 0 for a direct solve.
    """

    smallest: float
    gap: float
    scale: float
    iterations: int = 0


@dataclass(frozen=True)
class Solution:
    """Solution W (..., d, k) of an equation; for a batch, the status is that of the worst."""

    value: Array
    status: Status
    stats: Stats


def solve(
    A: Array | Factor | Tridiagonal, B: Array | Factor, C: Array, *, path: str = "auto"
) -> Solution:
    """Solve A W + W B = C for symmetric A (..., d, d), B (..., k, k), and C (..., d, k).

    A and B may be given by their factorizations. Leading axes are a batch of equations and
    broadcast. If lam_i + omega_j = 0 to working precision for some i and j, the value is the
    least-squares solution of least norm, and the status says so.

    `path`, "eigen" or "tridiagonal", is how to factorize a matrix A; "auto" chooses by measured
    costs for a NumPy matrix, and "eigen" for every other array.
    """
    choices = ("auto", "eigen", "tridiagonal")
    if path not in choices:
        raise ValueError(f"`path` must be one of {', '.join(choices)}; got {path!r}.")
    batch = _check_batch(A, B, C)
    if isinstance(A, Factor | Tridiagonal):
        path = "eigen" if isinstance(A, Factor) else "tridiagonal"
    elif path == "auto":
        values = B.values if isinstance(B, Factor) else B
        path = _cheapest_path_for(A, values, C, prod(batch))
    if not isinstance(B, Factor):
        B = Factor(*eigh(B)) if path == "tridiagonal" else Factor.from_matrix(B)
    if not isinstance(A, Factor | Tridiagonal):
        A = Tridiagonal.from_matrix(A) if path == "tridiagonal" else Factor.from_matrix(A)
    if isinstance(A, Tridiagonal):
        return _solve_tridiagonal(A, B, C)
    status, stats = _judge_solution(A, B)
    Z = _quotient(A, B, transpose(to_bases(A, B, C)))
    return Solution(from_bases(A, B, Z), status, stats)


def cheapest_path(d: int, k: int, n_solves: int = 1) -> str:
    """Return the faster way to factorize A (d x d), "eigen" or "tridiagonal".

    The factor serves `n_solves` equations, each with its own B and C (d x k).
    """
    return min(("eigen", "tridiagonal"), key=lambda path: path_cost(path, d, n_solves * k))


def path_cost(path: str, d: int, columns: int) -> float:
    """Return the cost of a factor of A (d x d) that serves this many columns, in multiply-adds."""
    if path == "eigen":
        return _EIGH[0] * d**3 + _EIGH[1] * d**2 + columns * _MULTIPLY_U * d**2
    per_column = _MULTIPLY_Q * d**2 + _SYSTEM[0] * d + _SYSTEM[1]
    return _TRIDIAGONAL[0] * d**3 + _TRIDIAGONAL[1] * d + columns * per_column


def to_bases(A: Factor, B: Factor, C: Array) -> Array:
    """Return V'C'U: each system is a contiguous row, so that inner products cost a fifth."""
    return B.to_basis(transpose(A.to_basis(C)))


def from_bases(A: Factor, B: Factor, Z: Array) -> Array:
    """Return U Z V'."""
    return A.from_basis(transpose(B.from_basis(transpose(Z))))


def spectrum_stats(A: Factor | Tridiagonal, B: Factor) -> Stats:
    """Measure how far the operator W -> A W + W B is from singular and from indefinite."""
    return _stats(*_extremes(A, B))


def near_singular_level(values: Array, scale: Any) -> Any:
    """Return the gap that leaves a quarter of the digits, the least worth a solution.

    `scale` is the largest of the numbers, in the dtype of `values`.
    """
    return epsilon(values) ** _KEPT * scale


def rounding_level(A: Factor | Tridiagonal, B: Factor) -> Array:
    """Return the threshold below which lam_i + omega_j counts as zero, per equation."""
    xp = namespace(B.values)
    lam, omega = _eigenvalues(A, B), B.values
    largest = xp.max(xp.abs(lam), axis=-1) + xp.max(xp.abs(omega), axis=-1)
    # Measured errors of eigh stay below this for all n; the textbook bound n eps would
    # discard usable components in float32.
    return 4 * max(A.shape[-1], B.shape[-1]) ** 0.5 * epsilon(lam) * largest


def _solve_tridiagonal(A: Tridiagonal, B: Factor, C: Array) -> Solution:
    status, stats = _judge_solution(A, B)
    if status is Status.SINGULAR:  # only an eigenbasis shows which components to leave out
        return solve(Factor(*A.eigh()), B, C)
    R, omega = np.asarray(C), np.asarray(B.values)
    V = None if B.vectors is None else np.asarray(B.vectors)
    W = A.from_basis(A.solve_shifted(A.to_basis(R if V is None else product(R, V)), omega))
    return Solution(W if V is None else product(W, np.matrix_transpose(V)), status, stats)


def _quotient(A: Factor, B: Factor, R: Array) -> Array:
    """Return R_ij / (lam_i + omega_j), and 0 if the denominator is zero to rounding."""
    xp = namespace(R)
    denominators = A.values[..., :, None] + B.values[..., None, :]
    singular = xp.abs(denominators) <= rounding_level(A, B)[..., None, None]
    return xp.where(singular, xp.zeros_like(R), R / xp.where(singular, 1.0, denominators))


def _eigenvalues(A: Factor | Tridiagonal, B: Factor) -> Array:
    """Return eigenvalues of A that include the extremes of |lam_i + omega_j|."""
    if isinstance(A, Tridiagonal) and A.extremes[0] + float(namespace(B.values).min(B.values)) > 0:
        return A.extremes
    return A.values


def _extremes(A: Factor | Tridiagonal, B: Factor) -> tuple[Array, Array, Array]:
    """Return min(lam) + min(omega), min |lam_i + omega_j| and max |lam_i + omega_j|."""
    xp = namespace(B.values)
    lam = _eigenvalues(A, B)
    sums = xp.abs(lam[..., :, None] + B.values[..., None, :])
    smallest = lam[..., 0] + B.values[..., 0]
    return smallest, xp.min(sums, axis=(-2, -1)), xp.max(sums, axis=(-2, -1))


def _stats(smallest: Array, gap: Array, scale: Array) -> Stats:
    xp = namespace(gap)
    return Stats(float(xp.min(smallest)), float(xp.min(gap)), float(xp.max(scale)))


def _judge_solution(A: Factor | Tridiagonal, B: Factor) -> tuple[Status, Stats]:
    """Return how far a solution can be trusted, and why."""
    smallest, gap, scale = _extremes(A, B)
    xp = namespace(gap)
    stats = _stats(smallest, gap, scale)
    if bool(xp.any(gap <= rounding_level(A, B))):
        return Status.SINGULAR, stats
    if bool(xp.any(gap <= near_singular_level(B.values, scale))):
        return Status.NEAR_SINGULAR, stats
    return Status.SOLVED, stats


def _cheapest_path_for(A: Array, B: Array, C: Array, n_solves: int) -> str:
    """Return the cheapest path for these arrays; B may be given by its eigenvalues."""
    dtypes = {A.dtype, B.dtype, C.dtype}
    if is_numpy_array(A) and A.ndim == 2 and dtypes in ({np.dtype("f4")}, {np.dtype("f8")}):
        return cheapest_path(A.shape[0], C.shape[-1], n_solves)
    return "eigen"


def _check_batch(A: Array | Factor | Tridiagonal, B: Array | Factor, C: Array) -> tuple[int, ...]:
    """Return the broadcast leading axes of A, B and C; raise if shapes do not fit."""
    expected = (A.shape[-1], B.shape[-1])
    if tuple(C.shape[-2:]) != expected:
        raise ValueError(
            f"The right-hand side C must have shape {expected} (rows of A, rows of B); "
            f"got {tuple(C.shape)}. Transpose C or swap A and B."
        )
    leading = tuple(tuple(M.shape[:-2]) for M in (A, B, C))
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        raise ValueError(
            "The leading axes of A, B and C must agree or be 1; got {}, {} and {}. "
            "Give each the shape of the batch, or none.".format(*leading)
        ) from None
