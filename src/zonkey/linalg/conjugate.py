"""Conjugate gradients for many systems that are diagonal but for the same low-rank part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .arrays import Array, namespace

# Steps after which a new factorization is the better deal.
MAX_STEPS = 60
_MAX_REFINEMENTS = 5


@dataclass(frozen=True, eq=False)
class Operator:
    """Z -> D * Z + Z G diag(w) G' + Y' diag(e) Y Z, for positive D (k x d) and w >= 0.

    The rows of Z are systems of their own, in memory as well as in meaning; the last term, where
    there is one, couples them. Further axes in front, of any of the arrays, are further problems.

    Attributes
    ----------
    diagonal : array of shape (..., k, d)
    G, w : arrays of shape (..., d, r) and (..., r)
    Y, e : arrays of shape (..., q, k) and (..., q), default=None
    """

    diagonal: Array
    G: Array
    w: Array
    Y: Array | None = None
    e: Array | None = None

    def apply(self, Z: Array) -> Array:
        """Return the image of Z."""
        xp = namespace(Z)
        image = ((Z @ self.G) * self.w[..., None, :]) @ xp.matrix_transpose(self.G)
        image += self.diagonal * Z
        if self.Y is not None and self.e is not None:
            image += xp.matrix_transpose(self.Y) @ (self.e[..., None] * (self.Y @ Z))
        return image

    def in_single(self) -> Operator:
        """Return the same operator in float32."""
        xp = namespace(self.G)
        parts = (self.diagonal, self.G, self.w, self.Y, self.e)
        return Operator(*(None if M is None else xp.astype(M, xp.float32) for M in parts))


def conjugate_gradients(
    operator: Operator,
    R: Array,
    Z: Array | None,
    tol: float,
    precondition: Callable[[Array], Array] | None = None,
    enough: Array | None = None,
) -> tuple[Array, int, bool]:
    """Solve for the right-hand side R from Z; return solution, steps and convergence.

    None begins at 0. The quotient R / D would be nearer, but not safe: where the update lifts a
    tiny eigenvalue it is so much larger than the solution that its rounding would bury it.

    `precondition` applies an approximate inverse, by default that of the diagonal. The relative
    error, as it tells, is at most `tol` in the end: of every row, or of the whole where rows are
    coupled. A squared error of `enough`, of every system, is small enough in any case.
    """
    xp = namespace(R)
    inner = _inner_product(operator)

    def inverse(M: Array) -> Array:
        return M / operator.diagonal if precondition is None else precondition(M)

    # Systems of size 1, so that no square below overflows or vanishes.
    size = _sizes(R / operator.diagonal, coupled=operator.e is not None)
    residual = R / size
    if Z is None:
        Z = xp.zeros_like(R)
    else:
        Z = Z / size
        residual -= operator.apply(Z)
    least = 0.0 if enough is None else enough / (size * size)

    def is_small(M: Array, Z: Array) -> bool:
        """Say whether M, an estimate of the error of Z, is negligible in every system."""
        allowed = tol**2 * inner(Z, Z) + least
        return bool(xp.all(inner(M, M) <= allowed))

    M = inverse(residual)
    P = M
    rho = inner(residual, M)
    for step in range(MAX_STEPS):
        if is_small(M, Z):
            return size * Z, step, True
        Q = operator.apply(P)
        length = ratio(rho, inner(P, Q))
        Z = Z + length * P
        Q *= length
        residual -= Q
        M = inverse(residual)
        rho, previous = inner(residual, M), rho
        P = M + ratio(rho, previous) * P
    return size * Z, MAX_STEPS, is_small(M, Z)


def refine_in_single(
    operator: Operator,
    R: Array,
    Z: Array,
    tol: float,
    precondition: Callable[[Array], Array] | None = None,
) -> tuple[Array, int, bool]:
    """Do the same by iterative refinement: residuals as precise as R, corrections in float32.

    `precondition` takes and returns float32.
    """
    xp = namespace(R)
    single, inner = operator.in_single(), _inner_product(operator)
    finest = _reach_of_single(operator)
    steps = 0
    for _ in range(_MAX_REFINEMENTS):
        residual = R - operator.apply(Z)
        size = _sizes(residual, coupled=operator.e is not None)
        allowed = tol**2 * inner(Z, Z) / (size * size)
        found, taken, converged = conjugate_gradients(
            single,
            xp.astype(residual / size, xp.float32),
            None,
            32 * float(xp.finfo(xp.float32).eps),
            precondition,
            xp.astype(allowed, xp.float32),
        )
        found = xp.astype(found, R.dtype)
        Z = Z + size * found
        steps += taken
        if not converged:
            break
        if bool(xp.all(finest**2 * inner(found, found) <= tol**2 * inner(Z, Z) / (size * size))):
            return Z, steps, True
    return Z, steps, False


def _reach_of_single(operator: Operator) -> float:
    """Return the share of a correction that float32 may get wrong.

    The larger the update is beside the diagonal, the more digits cancel in applying it and its
    inverse; where hardly any is left, a correction proves itself only by being negligible.
    """
    xp = namespace(operator.G)
    update = xp.sum(operator.G * operator.G * operator.w[..., None, :], axis=(-2, -1))
    growth = float(xp.max(update)) / float(xp.min(operator.diagonal))
    return max(32.0, 4 * growth) * float(xp.finfo(xp.float32).eps)


def _inner_product(operator: Operator) -> Callable[[Array, Array], Array]:
    return _by_row if operator.e is None else _as_a_whole


def _by_row(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with the same row of B, as a column."""
    return namespace(A).vecdot(A, B)[..., None]


def _as_a_whole(A: Array, B: Array) -> Array:
    """Return the inner product of each matrix of A with that of B."""
    return namespace(A).sum(_by_row(A, B), axis=-2, keepdims=True)


def _sizes(M: Array, *, coupled: bool) -> Array:
    """Return the largest entry of each system, 1 where there are only zeros."""
    xp = namespace(M)
    axes = (-2, -1) if coupled else -1
    size = xp.max(xp.abs(M), axis=axes, keepdims=True)
    return xp.where(size > 0, size, xp.ones_like(size))


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0: a system already solved takes no further step."""
    xp = namespace(a)
    solved = b == 0
    return xp.where(solved, xp.zeros_like(a), a / xp.where(solved, xp.ones_like(b), b))
