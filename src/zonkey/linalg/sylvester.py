"""Solve the Sylvester equation A W + W B = C exactly, for symmetric A and B.

With A = U diag(lam) U' and B = V diag(omega) V' the equation is diagonal:

    (U'WV)_ij (lam_i + omega_j) = (U'CV)_ij,

so that two symmetric eigendecompositions replace the two Schur decompositions of
Bartels and Stewart. The decomposition of A is worth keeping: it serves any other
right-hand side, any other B, and any A' = s A + c I.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from array_api_compat import device

from .arrays import Array, epsilon, namespace


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
        "factorise the updated matrix"
    )


@dataclass(frozen=True)
class Stats:
    """What the solver saw on the way.

    Attributes
    ----------
    smallest : float
        min(lam) + min(omega). Positive: W is the unique minimiser of the quadratic
        whose gradient the equation is. Not positive: W is a saddle point of it.
        After a low-rank update it is a lower bound.
    gap : float
        min over i, j of |lam_i + omega_j|, the distance to a singular equation.
    scale : float
        max over i, j of |lam_i + omega_j|.
    iterations : int
        Steps of conjugate gradients; 0 for a direct solve.
    """

    smallest: float
    gap: float
    scale: float
    iterations: int = 0


@dataclass(frozen=True)
class Solution:
    """The value W (d x k), whether to trust it, and what was seen."""

    value: Array
    status: Status
    stats: Stats


@dataclass(frozen=True, eq=False)
class Factor:
    """A symmetric matrix as U diag(values) U', values ascending.

    ``vectors=None`` stands for U = I, so that a zero or identity matrix needs no memory.
    """

    values: Array
    vectors: Array | None

    @classmethod
    def of(cls, M: Array) -> Factor:
        """Diagonalise the symmetric matrix M (only its symmetric part is meaningful)."""
        if M.ndim != 2 or M.shape[0] != M.shape[1]:
            raise ValueError(
                f"A symmetric factor needs a square matrix; got shape {tuple(M.shape)}. "
                "Pass A (d x d) or B (k x k)."
            )
        xp = namespace(M)
        if not bool(xp.all(xp.isfinite(M))):
            raise ValueError(
                "A symmetric factor needs finite values; got NaN or infinity. Remove missing "
                "values from the data, or scale it down where products overflow the dtype."
            )
        values, vectors = xp.linalg.eigh((M + M.T) / 2)
        return cls(values, vectors)

    @classmethod
    def zeros(cls, n: int, like: Array) -> Factor:
        """Return the factor of the n x n zero matrix, with the dtype and device of `like`."""
        return cls(namespace(like).zeros(n, dtype=like.dtype, device=device(like)), None)

    def transformed(self, *, scale: float = 1.0, shift: float = 0.0) -> Factor:
        """Return the factor of ``scale * A + shift * I`` (scale >= 0) at no cost."""
        if scale < 0:
            raise ValueError(
                f"`scale` must be at least 0 to keep the values ascending; got {scale}. "
                "Factorise the negated matrix instead."
            )
        # A NumPy scalar would widen float32; a Python one takes the dtype of the array.
        return Factor(float(scale) * self.values + float(shift), self.vectors)

    def to_basis(self, M: Array) -> Array:
        """Return U'M."""
        return M if self.vectors is None else self.vectors.T @ M

    def from_basis(self, Z: Array) -> Array:
        """Return U Z."""
        return Z if self.vectors is None else self.vectors @ Z


def solve(A: Array | Factor, B: Array | Factor, C: Array) -> Solution:
    """Solve A W + W B = C for symmetric A (d x d), B (k x k) and any C (d x k).

    A and B may be given as matrices or, to re-use a decomposition, as `Factor`.
    Components with lam_i + omega_j = 0 to working precision are set to zero, which
    gives the least-squares solution of least norm, and reported in the status.
    """
    A = A if isinstance(A, Factor) else Factor.of(A)
    B = B if isinstance(B, Factor) else Factor.of(B)
    _check_shapes(A, B, C)
    xp = namespace(C)
    denominators = A.values[:, None] + B.values[None, :]
    stats = spectrum_stats(A, B)
    singular = xp.abs(denominators) <= rounding_level(A, B)
    R = to_bases(A, B, C)
    Z = xp.where(singular, xp.zeros_like(R), R / xp.where(singular, 1.0, denominators))
    return Solution(from_bases(A, B, Z), _status(A, B, stats), stats)


def to_bases(A: Factor, B: Factor, C: Array) -> Array:
    """Return U'CV."""
    return B.to_basis(A.to_basis(C).T).T


def from_bases(A: Factor, B: Factor, Z: Array) -> Array:
    """Return U Z V'."""
    return A.from_basis(B.from_basis(Z.T).T)


def spectrum_stats(A: Factor, B: Factor) -> Stats:
    """Measure how far the operator W -> A W + W B is from singular and from indefinite."""
    xp = namespace(A.values)
    sums = xp.abs(A.values[:, None] + B.values[None, :])
    return Stats(
        smallest=float(A.values[0]) + float(B.values[0]),
        gap=float(xp.min(sums)),
        scale=float(xp.max(sums)),
    )


def rounding_level(A: Factor, B: Factor) -> float:
    """Return the size below which lam_i + omega_j cannot be told from zero."""
    xp = namespace(A.values)
    largest = float(xp.max(xp.abs(A.values))) + float(xp.max(xp.abs(B.values)))
    n = max(A.values.shape[0], B.values.shape[0])
    # Measured errors of eigh stay below this for all n; the textbook bound n eps would
    # discard usable components in float32.
    return 4 * n**0.5 * epsilon(A.values) * largest


def near_singular_level(A: Factor, stats: Stats) -> float:
    """Return the gap at which a quarter of the digits is left, the least worth a solution."""
    return epsilon(A.values) ** 0.75 * stats.scale


def _status(A: Factor, B: Factor, stats: Stats) -> Status:
    if stats.gap <= rounding_level(A, B):
        return Status.SINGULAR
    if stats.gap <= near_singular_level(A, stats):
        return Status.NEAR_SINGULAR
    return Status.SOLVED


def _check_shapes(A: Factor, B: Factor, C: Array) -> None:
    expected = (A.values.shape[0], B.values.shape[0])
    if tuple(C.shape) != expected:
        raise ValueError(
            f"The right-hand side C must have shape {expected} (rows of A, rows of B); "
            f"got {tuple(C.shape)}. Transpose C or swap A and B."
        )
