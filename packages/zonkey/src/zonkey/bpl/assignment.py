"""Losses f_ij of giving sample i to class j, and the weights eta and xi that follow from them.

The competition linearizes two minima over the classes. Their gradients, eta and xi (N_g x q), are
sparse: a sample has weight at its best and its second best class only, and at ties with them.
Algorithm 1 needs only sums of them over samples and over classes. `competing_shares`
computes f block by block and returns the sums, so that memory grows with N_g and with q, not with
their product. `compete` returns whole matrices, for many small problems at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from array_api_compat import device
from scipy import sparse

from ..arrays import Array, epsilon, namespace, one_hot, positions_like, sums_by_code
from ..blocks import ON_ACCELERATOR, row_blocks, run_in_parts
from ..config import rows_per_block

# "second-best" is the paper's model; None drops the push from the second best (mu = 0);
# "assigned" trusts the class that each sample was made for.
Rule: TypeAlias = Literal["second-best", "assigned"] | None

# Weights held before they are summed. A sample has one weight, unless classes tie: then it may
# have q.
_WEIGHTS = 2**20


@dataclass(frozen=True, eq=False)
class Shares:
    """Sums of the weights eta, xi or delta (..., N, q) of N samples for q classes.

    `of_samples` (..., N) sums over the classes, `of_classes` (..., q) over the samples; `features`
    (..., q, d) are weighted sums of the samples. `loss` is the weighted sum of all losses f_ij; NaN
    if they were not given.
    """

    of_samples: Array
    of_classes: Array
    features: Array
    loss: float = float("nan")

    @classmethod
    def from_weights(cls, weights: Array, X: Array, f: Array | None = None) -> Shares:
        """Sum weights (..., N, q) of the samples X (..., N, d) with losses f (..., N, q)."""
        xp = namespace(weights)
        loss = float("nan") if f is None else float(xp.sum(weights * f))
        features = xp.matrix_transpose(weights) @ X
        return cls(xp.sum(weights, axis=-1), xp.sum(weights, axis=-2), features, loss)

    @classmethod
    def stack(cls, shares: Sequence[Shares], shape: tuple[int, ...]) -> Shares:
        """Join the sums of single problems into those of problems of a shape."""
        xp = namespace(shares[0].features)

        def join(arrays: list[Array]) -> Array:
            return xp.reshape(xp.stack(arrays), (*shape, *arrays[0].shape))

        return cls(
            join([own.of_samples for own in shares]),
            join([own.of_classes for own in shares]),
            join([own.features for own in shares]),
        )

    def subtract(self, other: Shares, mu: Any) -> Shares:
        """Return delta = eta - mu xi; `mu` is a number, or an array (...) of one per problem."""
        single = isinstance(mu, float)
        of_rows, of_matrices = (mu, mu) if single else (mu[..., None], mu[..., None, None])
        return Shares(
            self.of_samples - of_rows * other.of_samples,
            self.of_classes - of_rows * other.of_classes,
            self.features - of_matrices * other.features,
            self.loss - mu * other.loss if single else float("nan"),
        )


def competing_shares(
    W: Array, X: Array, Y_u: Array, targets: Array, *, rule: Rule, tie_tol: float
) -> tuple[Shares, Shares]:
    """Return eta and xi of the samples X (N_g x d), made for the classes `targets`, at W (d x k).

    They equal `Shares.of` the matrices that `losses` and `compete` return, to rounding.
    """
    xp = namespace(W)
    losses_of, q = RelativeLosses(W, Y_u), Y_u.shape[0]
    of_samples = xp.zeros_like(X[:, 0])

    def part(start: int, stop: int) -> tuple[_Sums, _Sums]:
        eta, xi = _Sums(X, q), _Sums(X, q)
        for rows in row_blocks(start, stop, losses_of.width, X):
            of_samples[rows] = losses_of.sizes(X[rows, :])
            if rule == "assigned":
                continue
            f: Any = losses_of(X[rows, :])
            taken = _find_smallest(f, of_samples[rows], tie_tol)
            eta.add(rows.start, taken)
            if rule is not None:
                f[taken] = float("inf")
                xi.add(rows.start, _find_smallest(f, of_samples[rows], tie_tol))
        return eta, xi

    def sum_parts(parts: Iterable[_Sums]) -> Shares:
        sums: Any = [sum(own) for own in zip(*(part.sums() for part in parts), strict=True)]
        loss = xp.sum(sums[0] * of_samples) + xp.sum(sums[1] * losses_of.constants)
        loss = float(loss - 4 * xp.sum(sums[2] * losses_of.centers))
        return Shares(*sums, loss=loss)

    kept = 2 * q * X.shape[1]
    etas, xis = zip(*run_in_parts(part, X.shape[0], losses_of.width, X, kept=kept), strict=True)
    if rule == "assigned":
        etas[0].hold(positions_like(X.shape[0], X), targets)
    return sum_parts(etas), sum_parts(xis)


class RelativeLosses:
    """f_ij of blocks of samples, less ||x||^2 + ||W'x||^2, which is the same for all classes.

    x'W y is computed in the smaller of the two spaces.
    """

    def __init__(self, W: Array, Y_u: Array) -> None:
        mT = namespace(W).matrix_transpose
        self._W = W
        self.centers = Y_u @ mT(W)  # q x d
        self.constants = _squared_rows(Y_u) + _squared_rows(self.centers)
        self.in_semantics = W.shape[1] < W.shape[0]
        self._factors = -4 * mT(Y_u if self.in_semantics else self.centers)
        self.width = max(Y_u.shape)  # numbers that a sample needs

    def __call__(self, X: Array) -> Array:
        """Return the losses of some samples, of shape (n, q)."""
        f = (X @ self._W if self.in_semantics else X) @ self._factors
        f += self.constants
        return f

    def sizes(self, X: Array) -> Array:
        """Return ||x||^2 + ||W'x||^2, the part of f that `blocks` leaves out."""
        return _squared_rows(X) + _squared_rows(X @ self._W)


class _Sums:
    """Sums of the weights of some samples in X (N x d) for q classes, gathered in blocks."""

    def __init__(self, X: Array, q: int) -> None:
        xp = namespace(X)
        self._X = X
        shapes = (X.shape[0], q, (q, X.shape[1]))
        self._sums = [xp.zeros(shape, dtype=X.dtype, device=device(X)) for shape in shapes]
        self._held: list[tuple[Array, Array]] = []
        self._n_held = 0
        # Their samples are copied on a device only.
        self._most = rows_per_block(8 * X.shape[1] / ON_ACCELERATOR, at_most=_WEIGHTS)

    def add(self, start: int, taken: Array) -> None:
        """Split the weight of each sample, from `start` on, among the classes it takes (n x q)."""
        xp = namespace(taken)
        q = taken.shape[1]
        # One axis: NumPy finds positions along two axes ten times as slowly.
        (places,) = xp.nonzero(xp.reshape(taken, (-1,)))
        rows = places // q
        self.hold(rows + start, places - rows * q)

    def hold(self, rows: Array, classes: Array) -> None:
        """Add samples and the classes that they take, in ascending order of the samples."""
        self._held.append((rows, classes))
        self._n_held += rows.shape[0]
        if self._n_held >= self._most:
            self.sums()

    def sums(self) -> list[Array]:
        """Return the sums over classes (N), over samples (q), and of the samples (q x d)."""
        if self._held:
            xp = namespace(self._X)
            rows, classes = (xp.concat(parts) for parts in zip(*self._held, strict=True))
            new = _sums_of_shares(self._X, rows, classes, self._sums[1].shape[0])
            self._sums = [old + own for old, own in zip(self._sums, new, strict=True)]
            self._held, self._n_held = [], 0
        return self._sums


def _sums_of_shares(X: Array, rows: Array, classes: Array, q: int) -> tuple[Array, Array, Array]:
    """Return the sums of the shares per row of X, per class, and of the rows of X per class."""
    xp, n = namespace(X), X.shape[0]
    ends = xp.searchsorted(rows, positions_like(n + 1, rows))
    numbers = xp.astype(ends[1:] - ends[:-1], X.dtype)
    shares = 1 / xp.take(numbers, rows, axis=0)
    if isinstance(X, np.ndarray):
        matrix = sparse.csr_array((shares, (classes, rows)), shape=(q, n))
        return matrix.sum(axis=0), matrix.sum(axis=1), matrix @ X
    weighted = xp.take(X, rows, axis=0) * shares[:, None]
    of_samples, of_classes = sums_by_code(shares, rows, n), sums_by_code(shares, classes, q)
    return of_samples, of_classes, sums_by_code(weighted, classes, q)


def _find_smallest(f: Array, of_samples: Array, tie_tol: float) -> Array:
    """Return the mask of the smallest entries of each row of f + of_samples, with near-ties.

    The printed ratio (f - min) / min < eps, multiplied out, survives min = 0. The minimum always
    belongs to the set. Rows without a finite entry have none.
    """
    xp = namespace(f)
    least = xp.min(f, axis=1)
    total = least + of_samples
    total = xp.where(total < 0, xp.zeros_like(total), total)  # by rounding only
    tied = (1 + tie_tol) * total - of_samples
    rounding = epsilon(f) * xp.abs(least) + float(xp.finfo(f.dtype).smallest_normal)
    return f < xp.maximum(tied, least + rounding)[:, None]


def losses(
    W: Array, X_g: Array, Y_u: Array, of_X: Array | None = None, of_XW: Array | None = None
) -> Array:
    """Return f_ij = ||W'x_i - y_j||^2 + ||x_i - W y_j||^2, shape (..., N_g, q).

    In Gram form, ||W'x||^2 + ||y||^2 + ||x||^2 + ||W y||^2 - 4 x'W y, clipped at zero.
    `of_X` and `of_XW` are ||x_i||^2 and ||W'x_i||^2, if known; with the latter nothing is clipped.
    """
    xp = namespace(W)
    centers = Y_u @ xp.matrix_transpose(W)  # q x d
    squares = _squared_rows(X_g) if of_X is None else of_X
    projected = _squared_rows(X_g @ W) if of_XW is None else of_XW
    of_samples = projected + squares
    of_classes = _squared_rows(Y_u) + _squared_rows(centers)
    products = X_g @ xp.matrix_transpose(centers)
    f = of_samples[..., :, None] + of_classes[..., None, :] - 4 * products
    if of_XW is not None:  # it may be rounded: clipping could make different classes equal
        return f
    # Not `f > 0`: NaN would become 0, the best loss.
    return xp.where(f < 0, xp.zeros_like(f), f)


def compete(f: Array, targets: Array, rule: Rule, tie_tol: float) -> tuple[Array, Array]:
    """Return eta and xi of samples with losses f (..., N_g, q), made for the classes `targets`."""
    xp = namespace(f)
    if rule == "assigned":
        eta = xp.broadcast_to(one_hot(targets, f.shape[-1], like=f), f.shape)
        return eta, xp.zeros_like(f)
    eta, taken = find_best(f, tie_tol)
    return eta, xp.zeros_like(f) if rule is None else find_second_best(f, taken, tie_tol)


def find_best(f: Array, tie_tol: float) -> tuple[Array, Array]:
    """Return eta, the gradient of min_j f_ij, and the mask of j(i), the tied best classes.

    Eq. 3 (subgrad0), relaxed to ties within `tie_tol`: Eq. 16 (subgrad01).
    """
    return _share(f, namespace(f).ones_like(f, dtype=namespace(f).bool), tie_tol)


def find_second_best(f: Array, taken: Array, tie_tol: float) -> Array:
    """Return xi, the gradient of the minimum over classes outside j(i).

    Eq. 4 (subgrad1), relaxed to ties within `tie_tol`: Eq. 17 (subgrad11). If j(i) holds every
    class there is no second best, and the row is zero.
    """
    xi, _ = _share(f, namespace(f).logical_not(taken), tie_tol)
    return xi


def _share(f: Array, allowed: Array, tie_tol: float) -> tuple[Array, Array]:
    """Split a weight of one among the smallest allowed entries of each row."""
    xp = namespace(f)
    infinite = xp.full_like(f, float("inf"))
    smallest = xp.min(xp.where(allowed, f, infinite), axis=-1, keepdims=True)
    # The printed ratio (f - min) / min < eps, multiplied out, survives min = 0. The minimum
    # always belongs to the set.
    finite = xp.where(allowed, smallest, xp.zeros_like(f))
    tied = allowed & ((f - finite < tie_tol * finite) | (f == finite))
    share = xp.astype(tied, f.dtype)
    number = xp.sum(share, axis=-1, keepdims=True)
    return share / xp.where(number > 0, number, xp.ones_like(number)), tied


def _squared_rows(M: Array) -> Array:
    """Return the squared length of each row."""
    return namespace(M).sum(M * M, axis=-1)
