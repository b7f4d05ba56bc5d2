"""Prototypes in the span that the seen classes have in the feature space of a kernel.

With K_s = k(Y_s, Y_s) = V diag(w) V' the coordinates of any prototype y in that span are

    phi(y) = diag(w)^(-1/2) V' k(Y_s, y),        phi(y)'phi(z) = k(y, z) for any y and seen z.

A projection is learned from seen prototypes alone, so that W is zero outside their span: all that
holds for y holds for phi(y), and learning with phi(y) is learning with the kernel, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..linalg.arrays import Array, epsilon, namespace, squared_norm
from ..linalg.kernels import kernel_matrix, median_squared_distance

_ROUNDING = 10  # eigenvalues within so many rounding errors of zero are zero
_TOLERANCE = 1e-6  # what a kernel computed elsewhere, in float32 say, may be off by


@dataclass(frozen=True, eq=False)
class Lift:
    """The seen classes' span in the feature space of a kernel, and the way into it.

    Attributes
    ----------
    kind : str
        Kernel, as `kernel_matrix` knows it.
    seen : array
        Y_s (p x k), or K_s (p x p) where the kernel is precomputed.
    basis : array
        V diag(w)^(-1/2) (p x r), the eigenvalues ascending.
    gamma, degree, coef0 : float
        Parameters of the kernel; gamma is the one that its formula takes.
    """

    kind: str
    seen: Array
    basis: Array
    gamma: float
    degree: float
    coef0: float

    @classmethod
    def of(
        cls, Y_s: Array, kind: str, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0
    ) -> Lift:
        """Find the span of the seen prototypes Y_s (p x k); K_s (p x p) where precomputed.

        Parameters
        ----------
        Y_s : array
            One prototype, or row of K_s, for each seen class.
        kind : str
            Kernel, as `kernel_matrix` knows it.
        gamma : float
            Relative: over the median squared distance between the rows of Y_s for "rbf", and
            over their mean squared length for "poly", so that 1 suits any semantic space.
        degree, coef0 : float
            As `kernel_matrix` takes them.
        """
        gamma = float(gamma) / _unit_of_gamma(Y_s, kind)
        K_s = kernel_matrix(kind, Y_s, Y_s, gamma=gamma, degree=degree, coef0=coef0)
        return cls(kind, Y_s, _basis(K_s), gamma, degree, coef0)

    @property
    def rank(self) -> int:
        """Number r of dimensions, at most that of seen classes."""
        return self.basis.shape[1]

    def transform(self, Y: Array) -> Array:
        """Return phi(y) for each row of Y (m x k), as m x r.

        Where the kernel is precomputed the rows are k(y, seen) (m x p).
        """
        if Y.ndim != 2 or Y.shape[1] != self.seen.shape[1]:
            raise ValueError(
                f"What is lifted must have {self.seen.shape[1]} columns, as the seen classes had; "
                f"got shape {tuple(Y.shape)}. Pass one row for each class, a prototype or, where "
                "the kernel is precomputed, its values with the seen classes."
            )
        terms = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return kernel_matrix(self.kind, Y, self.seen, **terms) @ self.basis


def _unit_of_gamma(Y_s: Array, kind: str) -> float:
    """Return the squared length by which a relative gamma is divided."""
    if kind == "rbf":
        return median_squared_distance(Y_s)
    if kind == "poly":
        return squared_norm(Y_s) / max(1, Y_s.shape[0]) or 1.0
    return 1.0


def _basis(K_s: Array) -> Array:
    """Return V diag(w)^(-1/2) of K_s, without the eigenvalues that cannot be told from zero.

    Of nothing but zeros one arbitrary direction is kept, so that no dimension is ever 0.
    """
    _check_shape_and_values(K_s)
    xp = namespace(K_s)
    rounding = _ROUNDING * K_s.shape[0] ** 0.5 * epsilon(K_s)
    tolerance = max(_TOLERANCE, rounding)
    _check_symmetric(K_s, tolerance)
    values, vectors = xp.linalg.eigh((K_s + K_s.T) / 2)
    smallest, largest = float(values[0]), float(values[-1])
    if smallest < -tolerance * largest:
        raise ValueError(
            "The kernel between seen classes must have no negative eigenvalue; got "
            f"{smallest:.3g} beside {largest:.3g}. Choose a positive semi-definite kernel."
        )
    # Below zero there is nothing but error, and as much of it above.
    level = max(rounding * largest, -smallest)
    kept = max(1, int(xp.sum(xp.astype(values > level, xp.int64))))
    values, vectors = values[-kept:], vectors[:, -kept:]
    return vectors / xp.sqrt(xp.where(values > 0, values, xp.ones_like(values)))


def _check_shape_and_values(K_s: Array) -> None:
    if K_s.ndim != 2 or K_s.shape[0] != K_s.shape[1] or K_s.shape[0] == 0:
        raise ValueError(
            "The kernel between seen classes must be a square matrix of at least one row; got "
            f"shape {tuple(K_s.shape)}. Pass one row and one column for each seen class."
        )
    xp = namespace(K_s)
    if not bool(xp.all(xp.isfinite(K_s))):
        raise ValueError(
            "The kernel between seen classes must be finite; got NaN or infinity. Remove missing "
            "values from the prototypes, or scale them down where powers overflow the dtype."
        )


def _check_symmetric(K_s: Array, tolerance: float) -> None:
    xp = namespace(K_s)
    difference = float(xp.max(xp.abs(K_s - K_s.T)))
    if difference > tolerance * float(xp.max(xp.abs(K_s))):
        raise ValueError(
            "The kernel between seen classes must be symmetric; got entries that differ from "
            f"their mirror image by up to {difference:.3g}. Pass k(Y_s, Y_s), or the mean of the "
            "matrix and its transpose."
        )
