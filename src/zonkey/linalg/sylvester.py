"""Solve the Sylvester equation A W + W B = C exactly, for symmetric A and B.

With A = U diag(lam) U' and B = V diag(omega) V' the equation is diagonal:

    (U'WV)_ij (lam_i + omega_j) = (U'CV)_ij,

so that two symmetric eigendecompositions replace the two Schur decompositions of
Bartels and Stewart. With B diagonal alone it is one system for each omega_j,

    (A + omega_j I) (WV)_j = (CV)_j,

for which a tridiagonal form of A does, at a fraction of the cost. Either factorization is
worth keeping: it serves any other right-hand side, any other B, and any A' = s A + c I.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from array_api_compat import device

from .arrays import Array, epsilon, namespace
from .checks import check_choice, check_scale, check_symmetric, checked_batch
from .cost import cheapest_path_for
from .mixed import fits_single, refined_solve
from .tridiagonal import Tridiagonal, eigh, product, symmetric_part, transposed

# A solution is worth having while this power of the rounding unit is left of the scale.
_KEPT = 0.75


class Status(Enum):
    """How far a solution can be trusted; the value says cause and remedy."""

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
    """What the solver saw on the way; of a batch, the extremes over all its equations.

    Attributes
    ----------
    smallest : float
        min(lam) + min(omega). Positive: W is the unique minimizer of the quadratic
        whose gradient the equation is. Not positive: W is a saddle point of it.
        After a low-rank update it is a lower bound.
    gap : float
        min over i, j of |lam_i + omega_j|, the distance to a singular equation.
    scale : float
        max over i, j of |lam_i + omega_j|.
    iterations : int
        Steps of conjugate gradients or refinement; 0 for a direct solve.
    """

    smallest: float
    gap: float
    scale: float
    iterations: int = 0


@dataclass(frozen=True)
class Solution:
    """The value W (..., d, k), whether to trust it, and what was seen.

    Of a batch, the status is that of the worst equation.
    """

    value: Array
    status: Status
    stats: Stats


@dataclass(frozen=True, eq=False)
class Factor:
    """A symmetric matrix as U diag(values) U', values ascending, or a batch of them.

    ``vectors=None`` stands for U = I, so that a zero or identity matrix needs no memory.
    """

    values: Array
    vectors: Array | None

    @classmethod
    def of(cls, M: Array) -> Factor:
        """Diagonalize the symmetric matrix M (only its symmetric part is meaningful)."""
        check_symmetric(M)
        return cls(*namespace(M).linalg.eigh(symmetric_part(M)))

    @classmethod
    def zeros(cls, n: int, like: Array) -> Factor:
        """Return the factor of the n x n zero matrix, with the dtype and device of `like`."""
        return cls(namespace(like).zeros(n, dtype=like.dtype, device=device(like)), None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return *self.values.shape, self.values.shape[-1]

    def transformed(self, *, scale: float = 1.0, shift: float = 0.0) -> Factor:
        """Return the factor of ``scale * A + shift * I`` (scale >= 0) at no cost."""
        check_scale(scale)
        # A NumPy scalar would widen float32; a Python one takes the dtype of the array.
        return Factor(float(scale) * self.values + float(shift), self.vectors)

    def to_basis(self, M: Array) -> Array:
        """Return U'M."""
        return M if self.vectors is None else transposed(self.vectors) @ M

    def from_basis(self, Z: Array) -> Array:
        """Return U Z."""
        return Z if self.vectors is None else self.vectors @ Z

    def shifted_solve(self, R: Array, shifts: Array) -> Array:
        """Solve (diag(values) + shifts_j I) z_j = r_j for each column of R."""
        return R / (self.values[..., :, None] + shifts[..., None, :])


def solve(
    A: Array | Factor | Tridiagonal,
    B: Array | Factor,
    C: Array,
    *,
    path: str = "auto",
    precision: str = "double",
) -> Solution:
    """Solve A W + W B = C for symmetric A (d x d), B (k x k) and any C (d x k).

    A and B may be given as matrices or, to re-use a decomposition, as factors. Leading axes
    of each stand for a batch of equations and broadcast; a `Tridiagonal` is a single A.

    Where lam_i + omega_j = 0 to working precision for some i and j, the value is the
    least-squares solution of least norm, and the status says so.

    Parameters
    ----------
    path : {"auto", "eigen", "tridiagonal"}
        How to factorize a matrix A. "auto" takes what `cheapest_path` says for a NumPy
        matrix, and "eigen" for any other array.
    precision : {"double", "single"}
        "single" factorizes a float64 matrix A in float32 and refines the solution to the
        accuracy of float64, or solves in float64 where that fails. The eigenvalues of A
        in the stats are then those of float32.
    """
    check_choice("path", path, ("auto", "eigen", "tridiagonal"))
    check_choice("precision", precision, ("double", "single"))
    batch = checked_batch(A, B, C)
    if isinstance(A, Factor | Tridiagonal):
        path = "eigen" if isinstance(A, Factor) else "tridiagonal"
        precision = "double"
    elif path == "auto":
        values = B.values if isinstance(B, Factor) else B
        path = cheapest_path_for(A, values, C, prod(batch))
    if not isinstance(B, Factor):
        B = Factor(*eigh(B)) if path == "tridiagonal" else Factor.of(B)
    if precision == "single" and C.dtype == namespace(C).float64:
        solution = _solve_in_single(A, B, C, path, batch)
        if solution is not None:
            return solution
    if path == "tridiagonal":
        return _solve_tridiagonal(A if isinstance(A, Tridiagonal) else Tridiagonal.of(A), B, C)
    A = A if isinstance(A, Factor) else Factor.of(A)
    status, stats = _measured(A, B)
    return Solution(from_bases(A, B, _quotient(A, B, to_bases(A, B, C))), status, stats)


def _solve_tridiagonal(A: Tridiagonal, B: Factor, C: Array) -> Solution:
    status, stats = _measured(A, B)
    if status is Status.SINGULAR:  # only an eigenbasis shows what to leave out
        return solve(Factor(*A.eigh()), B, C)
    R = C if B.vectors is None else product(C, B.vectors)
    W = A.from_basis(A.shifted_solve(A.to_basis(R), B.values))
    value = W if B.vectors is None else product(W, transposed(B.vectors))
    return Solution(value, status, stats)


def to_bases(A: Factor | Tridiagonal, B: Factor, C: Array) -> Array:
    """Return U'CV."""
    return transposed(B.to_basis(transposed(A.to_basis(C))))


def from_bases(A: Factor | Tridiagonal, B: Factor, Z: Array) -> Array:
    """Return U Z V'."""
    return A.from_basis(transposed(B.from_basis(transposed(Z))))


def spectrum_stats(A: Factor | Tridiagonal, B: Factor) -> Stats:
    """Measure how far the operator W -> A W + W B is from singular and from indefinite."""
    return _stats(*_extremes(A, B))


def rounding_level(A: Factor | Tridiagonal, B: Factor) -> Array:
    """Return the size below which lam_i + omega_j cannot be told from zero, for each item."""
    xp = namespace(B.values)
    lam, omega = _eigenvalues(A, B), B.values
    largest = xp.max(xp.abs(lam), axis=-1) + xp.max(xp.abs(omega), axis=-1)
    # Measured errors of eigh stay below this for all n; the textbook bound n eps would
    # discard usable components in float32.
    return 4 * max(A.shape[-1], B.shape[-1]) ** 0.5 * epsilon(lam) * largest


def near_singular_level(A: Factor, stats: Stats) -> float:
    """Return the gap at which a quarter of the digits is left, the least worth a solution."""
    return epsilon(A.values) ** _KEPT * stats.scale


def _quotient(A: Factor, B: Factor, R: Array) -> Array:
    """Return R_ij / (lam_i + omega_j), and 0 where that cannot be told from a division by 0."""
    xp = namespace(R)
    denominators = A.values[..., :, None] + B.values[..., None, :]
    singular = xp.abs(denominators) <= rounding_level(A, B)[..., None, None]
    return xp.where(singular, xp.zeros_like(R), R / xp.where(singular, 1.0, denominators))


def _eigenvalues(A: Factor | Tridiagonal, B: Factor) -> Array:
    """Return those eigenvalues of A among which are the extremes of |lam_i + omega_j|."""
    if isinstance(A, Tridiagonal) and float(A.extremes[0]) + B.values.min() > 0:
        return A.extremes
    return A.values


def _extremes(A: Factor | Tridiagonal, B: Factor) -> tuple[Array, Array, Array]:
    """Return min(lam) + min(omega), min |lam_i + omega_j| and max |lam_i + omega_j|."""
    xp = namespace(B.values)
    lam = _eigenvalues(A, B)
    sums = xp.abs(lam[..., :, None] + B.values[..., None, :])
    smallest = lam[..., 0] + B.values[..., 0]
    return smallest, xp.min(sums, axis=(-2, -1)), xp.max(sums, axis=(-2, -1))


def _stats(smallest: Array, gap: Array, scale: Array, iterations: int = 0) -> Stats:
    xp = namespace(gap)
    return Stats(float(xp.min(smallest)), float(xp.min(gap)), float(xp.max(scale)), iterations)


def _measured(A: Factor | Tridiagonal, B: Factor) -> tuple[Status, Stats]:
    """Return how far a solution can be trusted, and why."""
    smallest, gap, scale = _extremes(A, B)
    xp = namespace(gap)
    stats = _stats(smallest, gap, scale)
    if bool(xp.any(gap <= rounding_level(A, B))):
        return Status.SINGULAR, stats
    if bool(xp.any(gap <= epsilon(B.values) ** _KEPT * scale)):
        return Status.NEAR_SINGULAR, stats
    return Status.SOLVED, stats


def _solve_in_single(
    A: Array, B: Factor, C: Array, path: str, batch: tuple[int, ...]
) -> Solution | None:
    """Solve from a float32 factorization of A; None where that does not lead to SOLVED."""
    xp = namespace(C)
    check_symmetric(A)
    A = symmetric_part(A)
    if not fits_single(A):
        return None
    narrow = xp.astype(A, xp.float32)
    factor = Tridiagonal.of(narrow) if path == "tridiagonal" else Factor(*eigh(narrow))
    smallest, gap, scale = _extremes(factor, B)
    omega = xp.broadcast_to(B.values, (*batch, B.shape[-1]))
    R = transposed(B.to_basis(transposed(xp.broadcast_to(C, (*batch, *C.shape[-2:])))))
    refined = refined_solve(A, factor, omega, R, smallest=smallest, gap=gap, scale=scale)
    if refined is None or bool(xp.any(refined.gap <= epsilon(C) ** _KEPT * scale)):
        return None
    stats = _stats(refined.smallest, refined.gap, scale, refined.steps)
    value = transposed(B.from_basis(transposed(refined.value)))
    return Solution(value, Status.SOLVED, stats)
