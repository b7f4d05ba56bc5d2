"""Solve A' W + W B = C after a low-rank change of A, without factorizing A' again.

The matrices of Algorithm 1 are A' = s A + c I + F diag(w) F'. A is large, fixed and factorized
once; F (d x r) holds a few synthesized samples. In the eigenbases of A and B the equation splits
into one symmetric system per eigenvalue of B,

    (s lam_i + c + omega_j) z_j + G diag(w) G' z_j = r_j,      G = U'F,

whose diagonal part is trivial to invert. Conjugate gradients with that part as preconditioner see
the spectrum of I + (low rank). They end after a few steps of 4 r d k operations each, instead of
the O(d^3) of a new factorization, which is cheaper if r is large. They need a positive diagonal;
the Woodbury formula (`SharedInverse`), refined by `refine_by_inverse`, does not. Systems are stored
as rows, so that each is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from array_api_compat import device, is_numpy_array

from ..arrays import Array, epsilon, identity_like, namespace
from ..blocks import row_blocks
from .sylvester import (
    Solution,
    Status,
    cheapest_path,
    from_bases,
    near_singular_level,
    path_cost,
    solve,
    spectrum_stats,
    to_bases,
)
from .symmetric import Factor

# The step count that the choice between iteration and a new factorization assumes. Measured on
# CUB: 10 if samples have a ninth of the weight of A, 40 to 60 if nine times as much.
_TYPICAL_STEPS = 20
# Measured costs of a step besides its products (one thread, float64), in multiply-adds at the
# speed of a matrix product: as a factor of d k, and a constant.
_STEP = (200.0, 1e6)
_ROUNDING = 1e3  # rounding errors within which two values are equal
# Measured costs of the Woodbury formula besides its products (one thread, float64), in
# multiply-adds: to form a square of two columns, as a factor of d, and to invert, of r^3.
_SQUARE, _INVERSE = 200.0, 20.0
# Steps after which a new factorization is cheaper.
_MAX_STEPS = 60
_MAX_REFINEMENTS = 5
_LOWEST = 64  # directions of A that decide most questions about its smallest eigenvalue


class UpdatedFactor:
    """The family s A + c I + F diag(w) F' for a fixed A and F.

    `A` (d x d), or its diagonal (d) if it is diagonal, is used if a direct solve is cheaper than
    its eigendecomposition `factor`. F (d x r) has the columns of the update.
    """

    def __init__(self, A: Array, factor: Factor, F: Array) -> None:
        self.A = A
        self.factor = factor
        self.F = F

    def to_dense(self, *, scale: float, shift: float, weights: Array) -> Array:
        """Return s A + c I + F diag(w) F' as a matrix, for weights w >= 0."""
        xp = namespace(self.F)
        H = self.F * xp.sqrt(weights)[None, :]
        low_rank = H @ xp.matrix_transpose(H)  # NumPy computes one half of it
        identity = identity_like(low_rank)
        A = self.A if self.A.ndim == 2 else self.A[:, None] * identity
        return float(scale) * A + low_rank + float(shift) * identity

    def is_iterative(self, k: int) -> bool:
        """Whether conjugate gradients cost less than a factorization of A'."""
        d, r = self.F.shape
        if not is_numpy_array(self.F):
            return is_cheaper_by_iteration(d, r, k)
        step = (2 * r + _STEP[0]) * d * k + _STEP[1]
        direct = r * d**2 / 2 + path_cost(cheapest_path(d, k), d, k)
        return _TYPICAL_STEPS * step < direct

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

        The iteration begins at `start`, if given. Falls back on a direct solve if the iteration
        costs more, does not converge, or the operator may not be positive definite.
        """
        if self.is_iterative(C.shape[1]):
            base = self.factor.rescale(scale=scale, shift=shift)
            solution = self._iterate(base, B, C, weights, start)
            if solution is not None and solution.status is Status.SOLVED:
                return solution
        return solve(self.to_dense(scale=scale, shift=shift, weights=weights), B, C)

    def _iterate(
        self, base: Factor, B: Factor, C: Array, weights: Array, start: Array | None
    ) -> Solution | None:
        stats = spectrum_stats(base, B)
        if stats.smallest <= near_singular_level(base.values, stats.scale):
            return None  # it may be positive by rounding only
        R = to_bases(base, B, C)
        Z = None if start is None else to_bases(base, B, start)
        operator = Operator(base.values[None, :] + B.values[:, None], self._G, weights)
        Z, steps, converged = conjugate_gradients(operator, R, Z, 32 * epsilon(R))
        status = Status.SOLVED if converged else Status.NOT_CONVERGED
        value = from_bases(base, B, namespace(Z).matrix_transpose(Z))
        return Solution(value, status, replace(stats, iterations=steps))

    def is_at_least(self, x: float, *, scale: float, shift: float, weights: Array) -> bool:
        """Whether all eigenvalues of s A + c I + F diag(w) F' are at least x, exactly.

        By the inertia of a bordered matrix, the number of eigenvalues of the sum below x is the
        number of v_i = s lam_i + c below x, minus the number of negative eigenvalues of
        I + H' diag(v - x)^-1 H (r x r), with H = G diag(w)^(1/2). If r is at least d, the sum
        itself is the smaller matrix.
        """
        xp = namespace(self.F)
        d, r = self.F.shape
        distance = float(scale) * self.factor.values + (float(shift) - float(x))
        below = int(xp.sum(xp.astype(distance < 0, xp.int64)))
        if below == 0:
            return True
        if below > r:  # an update of rank r lifts at most r eigenvalues
            return False
        H = self._G * xp.sqrt(weights)[None, :]
        lifted, apart = xp.sum(H * H, axis=1), xp.abs(distance)
        if bool(xp.any(distance + lifted < 0)) or self._is_negative(distance, H):
            return False
        # Dividing by almost zero would lose all other directions to rounding.
        level = _ROUNDING * epsilon(apart) * float(xp.max(apart + lifted))
        if r >= d or float(xp.min(apart)) < level:
            return self._find_least(scale, shift, weights) >= x
        border = xp.matrix_transpose(H) @ (H / distance[:, None])
        values = xp.linalg.eigvalsh(border + identity_like(border))
        return int(xp.sum(xp.astype(values < 0, xp.int64))) >= below

    @staticmethod
    def _is_negative(distance: Array, H: Array) -> bool:
        """Whether diag(distance) + H H' is negative in its lowest directions, a sufficient test.

        The smallest eigenvalue of a sum is at most that of any of its diagonal blocks.
        """
        xp = namespace(H)
        n = min(_LOWEST, H.shape[0])
        few = H[:n, :]
        block = few @ xp.matrix_transpose(few)
        block += distance[:n, None] * identity_like(block)
        return bool(xp.linalg.eigvalsh(block)[0] < 0)

    def _find_least(self, scale: float, shift: float, weights: Array) -> float:
        A = self.to_dense(scale=scale, shift=shift, weights=weights)
        return float(namespace(A).linalg.eigvalsh(A)[0])

    @cached_property
    def _G(self) -> Array:
        return self.factor.to_basis(self.F)


def is_cheaper_by_iteration(d: int, r: int, k: int) -> bool:
    """Whether iteration beats eigh, for an update of rank r of A (d x d) and k columns."""
    # Measured: eigh costs about 20 d^3 operations at the rate of a matrix product.
    return _TYPICAL_STEPS * 4 * r * d * k < 20 * d**3


def is_cheaper_by_inverse(d: int, r: int, k: int) -> bool:
    """Whether `SharedInverse` beats a factorization, for an update of rank r of A (d x d)."""
    squares, inverses = d * r**2 * (k + _SQUARE), _INVERSE * k * r**3
    return squares + inverses < path_cost(cheapest_path(d, k), d, k)


class SharedInverse:
    """Exact inverse of Z -> D * Z + Z G G', of one operator or close to those of many.

    By the Woodbury formula,

        z_j = (r_j - v_j G') / D_j,   v_j = (r_j / D_j) G S_j^-1,   S_j = I + G' diag(D_j)^-1 G.

    D (T, k, d) holds diagonals, one row per system; entries may be negative, but not zero. The
    columns of the update are those of G (T, d, r).
    """

    def __init__(self, D: Array, G: Array) -> None:
        xp = namespace(D)
        T, k, d = D.shape
        r = G.shape[2]
        self.D = D[:, None, :, :]
        self.G = G[:, None, :, :]
        identity = xp.eye(r, dtype=D.dtype, device=device(D))
        parts = []
        for rows in row_blocks(0, T, d * r * r, D):
            # All S_j at once, as one product: entry (a, b) of S_j is sum_i G_ia G_ib / D_ji.
            own = G[rows, :, :]
            squares = xp.reshape(own[:, :, :, None] * own[:, :, None, :], (own.shape[0], d, r * r))
            S = xp.reshape((1 / D[rows, :, :]) @ squares, (own.shape[0], k, r, r))
            parts.append(_inverses(S + identity))
        self._S_inverse = xp.concat(parts)

    def __call__(self, R: Array) -> Array:
        """Return the solution for right-hand sides R of shape (T, E, k, d)."""
        xp = namespace(R)
        Z = R / self.D
        # Systems first, problems last: one product applies S_j to all its right-hand sides.
        V = xp.permute_dims(Z @ self.G, (0, 2, 1, 3)) @ self._S_inverse
        correction = xp.permute_dims(V, (0, 2, 1, 3)) @ xp.matrix_transpose(self.G)
        correction /= self.D
        Z -= correction
        return Z


@dataclass(frozen=True, eq=False)
class Operator:
    """Z -> D * Z + Z G diag(w) G' + Y' diag(e) Y Z, for w >= 0.

    The diagonal D is (..., k, d); G and w are (..., d, r) and (..., r), Y and e (..., q, k) and
    (..., q). Leading axes of any array are further problems. Conjugate gradients need a positive D.
    Each row of Z is a separate system, unless the last term couples them.
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

    def to_single(self) -> Operator:
        """Return the same operator in float32."""
        xp = namespace(self.G)
        given = {name: M for name, M in vars(self).items() if M is not None}
        return Operator(**{name: xp.astype(M, xp.float32) for name, M in given.items()})


def conjugate_gradients(
    operator: Operator,
    R: Array,
    Z: Array | None,
    tol: float,
    precondition: Callable[[Array], Array] | None = None,
    enough: Array | None = None,
) -> tuple[Array, int, bool]:
    """Solve for the right-hand side R, starting at Z; return solution, steps and convergence.

    None starts at 0. The quotient R / D would be closer but unsafe: if the update lifts a tiny
    eigenvalue, R / D is so much larger than the solution that rounding destroys the result.

    `precondition` applies an approximate inverse, by default that of the diagonal. The iteration
    ends if the preconditioned residual is at most `tol` relative to Z, per row, or per problem if
    rows are coupled. A squared error of at most `enough` also ends it.
    """
    xp = namespace(R)
    inner = _inner_product(operator)

    def inverse(M: Array) -> Array:
        return M / operator.diagonal if precondition is None else precondition(M)

    # Scale systems to size 1, so that no square overflows or vanishes.
    size = _sizes(R / operator.diagonal, coupled=operator.e is not None)
    residual = R / size
    found: Array = xp.zeros_like(R) if Z is None else Z / size
    if Z is not None:
        residual -= operator.apply(found)
    least = 0.0 if enough is None else enough / (size * size)

    def is_small(M: Array) -> bool:
        """Whether M, an estimate of the error, is negligible in every system."""
        allowed = tol**2 * inner(found, found) + least
        return bool(xp.all(inner(M, M) <= allowed))

    M = inverse(residual)
    P = M
    rho = inner(residual, M)
    for step in range(_MAX_STEPS):
        if is_small(M):
            return size * found, step, True
        Q = operator.apply(P)
        curvature = inner(P, Q)
        if bool(xp.any(curvature < 0)):  # the operator is indefinite
            return size * found, step, False
        length = _ratio(rho, curvature)
        found = found + length * P
        Q *= length
        residual -= Q
        M = inverse(residual)
        rho, previous = inner(residual, M), rho
        P = M + _ratio(rho, previous) * P
    return size * found, _MAX_STEPS, is_small(M)


def refine_in_single(
    operator: Operator,
    R: Array,
    Z: Array,
    tol: float,
    precondition: Callable[[Array], Array] | None = None,
) -> tuple[Array, int, bool]:
    """Solve by iterative refinement: residuals in the dtype of R, corrections in float32.

    `precondition` takes and returns float32.
    """
    xp = namespace(R)
    single, inner = operator.to_single(), _inner_product(operator)
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


def refine_by_inverse(
    operator: Operator, R: Array, tol: float, inverse: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Solve by iterative refinement with an approximate inverse, also if D has negative entries.

    Returns the solution, and for each problem whether it converged: the last correction is at most
    `tol` relative to Z, and either at most half the one before, or the residual is rounding. A
    small correction alone would not do: where the inverse is too small, corrections are too.
    """
    xp = namespace(R)
    size = _sizes(R, coupled=True)  # so that no square overflows or vanishes
    R = R / size
    Z = inverse(R)
    moved: Array | None = None
    shrinks = xp.ones((*R.shape[:-2], 1, 1), dtype=xp.bool, device=device(R))
    converged = ~shrinks
    for _ in range(_MAX_REFINEMENTS):
        residual = R - operator.apply(Z)
        found = inverse(residual)
        before, moved = moved, _multiply_whole(found, found)
        image = operator.diagonal * Z
        rounding = (32 * epsilon(R)) ** 2 * (_multiply_whole(R, R) + _multiply_whole(image, image))
        settled = _multiply_whole(residual, residual) <= rounding
        if before is not None:
            settled = settled | (4 * moved <= before)
        converged = converged | (shrinks & settled & (moved <= tol**2 * _multiply_whole(Z, Z)))
        Z = xp.where(shrinks, Z + found, Z)
        if before is not None:
            shrinks = shrinks & settled
        shrinks = shrinks & ~converged
        if not bool(xp.any(shrinks)):
            break
    return size * Z, converged[..., 0, 0]


def _reach_of_single(operator: Operator) -> float:
    """Return the relative error that a correction in float32 may have.

    The larger the update relative to the diagonal, the more digits cancel. If almost none are
    left, only a negligible correction counts as converged.
    """
    xp = namespace(operator.G)
    update = xp.sum(operator.G * operator.G * operator.w[..., None, :], axis=(-2, -1))
    growth = float(xp.max(update)) / float(xp.min(operator.diagonal))
    return max(32.0, 4 * growth) * float(xp.finfo(xp.float32).eps)


def _inverses(S: Array) -> Array:
    """Return the inverses of matrices; NaN for all of them if one is singular."""
    xp = namespace(S)
    try:
        return xp.linalg.inv(S)
    except Exception as error:
        if not type(error).__name__.endswith("LinAlgError"):  # each library has its own
            raise
        return xp.full_like(S, xp.nan)


def _inner_product(operator: Operator) -> Callable[[Array, Array], Array]:
    return _multiply_rows if operator.e is None else _multiply_whole


def _multiply_rows(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with the same row of B, as a column."""
    return namespace(A).vecdot(A, B)[..., None]


def _multiply_whole(A: Array, B: Array) -> Array:
    """Return the inner product of each matrix of A with that of B."""
    return namespace(A).sum(_multiply_rows(A, B), axis=-2, keepdims=True)


def _sizes(M: Array, *, coupled: bool) -> Array:
    """Return the largest entry of each system, 1 if all are zero."""
    xp = namespace(M)
    axes = (-2, -1) if coupled else -1
    size = xp.max(xp.abs(M), axis=axes, keepdims=True)
    return xp.where(size > 0, size, xp.ones_like(size))


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 if b is 0: a solved system takes no further step."""
    xp = namespace(a)
    solved = b == 0
    return xp.where(solved, xp.zeros_like(a), a / xp.where(solved, xp.ones_like(b), b))
