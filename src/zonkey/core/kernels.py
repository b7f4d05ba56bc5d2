"""Kernels between prototypes, and exact coordinates of prototypes in the space of a kernel.

With K_s = k(Y_s, Y_s) = V diag(w) V' the coordinates of any prototype y in the span of the seen
classes are

    phi(y) = diag(w)^(-1/2) V' k(Y_s, y),        phi(y)'phi(z) = k(y, z) for any y and seen z.

A projection is learned from seen prototypes only, so W is zero outside their span. Learning with
phi(y) in place of y is therefore learning with the kernel, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

from array_api_compat import device

from ..linalg.arrays import Array, epsilon, namespace, squared_distances, squared_norm

KERNELS: tuple[str, ...] = ("linear", "rbf", "poly", "arccos", "precomputed")

_ROUNDING = 10  # values within this many rounding errors of zero are zero
_TOLERANCE = 1e-6  # error of a kernel computed elsewhere, for example in float32
_MOST_ROWS = 2000


def kernel_matrix(
    kind: str, Y: Array, Z: Array, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0
) -> Array:
    """Return k(y_i, z_j) for all rows of Y (n x k) and Z (m x k), as n x m.

    Parameters
    ----------
    kind : str
        "linear"
            y'z.
        "rbf"
            exp(-gamma ||y - z||^2).
        "poly"
            (gamma y'z + coef0)^degree.
        "arccos"
            ||y|| ||z|| (sin t + (pi - t) cos t) / pi with t the angle between y and z: the
            arc-cosine kernel of order 1 of Cho and Saul. Zero if y or z is zero.
        "precomputed"
            Y holds the values and is returned unchanged.
    Y, Z : array
        Rows to compare, of one library, dtype and device.
    gamma, degree, coef0 : float
        Parameters of the formulas; kernels without them ignore them.
    """
    # A NumPy scalar would widen float32; a Python float takes the dtype of the array.
    gamma, degree, coef0 = float(gamma), float(degree), float(coef0)
    if kind == "linear":
        return Y @ Z.T
    if kind == "rbf":
        return namespace(Y, Z).exp(-gamma * squared_distances(Y, Z))
    if kind == "poly":
        return (gamma * (Y @ Z.T) + coef0) ** degree
    if kind == "arccos":
        return _arc_cosine(Y, Z)
    if kind == "precomputed":
        return Y
    raise ValueError(
        f"The kernel must be one of {', '.join(KERNELS)}; got {kind!r}. "
        'Pass the values of any other kernel as "precomputed".'
    )


def median_squared_distance(Y: Array) -> float:
    """Return the median of ||y_i - y_j||^2 over pairs of different rows of Y.

    Distances that are zero to rounding are left out: classes that share a prototype say nothing
    about the width. If none is left, the result is 1. At most 2,000 evenly spaced rows are used,
    so that memory stays bounded.
    """
    xp = namespace(Y)
    n = Y.shape[0]
    if n > _MOST_ROWS:
        rows = [i * n // _MOST_ROWS for i in range(_MOST_ROWS)]
        Y = xp.take(Y, xp.asarray(rows, device=device(Y)), axis=0)
    # The rounding error of the Gram form grows with the length of rows; centering minimizes it.
    Y = Y - xp.sum(Y, axis=0) / max(1, Y.shape[0])
    lengths = xp.sum(Y * Y, axis=1)
    error = _ROUNDING * Y.shape[1] ** 0.5 * epsilon(Y) * (lengths[:, None] + lengths[None, :])
    D = xp.triu(squared_distances(Y, Y), k=1)
    kept = xp.sort(D[(D - error) > 0])
    m = kept.shape[0]
    if m == 0:
        return 1.0
    return (float(kept[(m - 1) // 2]) + float(kept[m // 2])) / 2


def _arc_cosine(Y: Array, Z: Array) -> Array:
    xp = namespace(Y, Z)
    of_Y, units_of_Y = _lengths_and_units(Y)
    of_Z, units_of_Z = _lengths_and_units(Z)
    cosines = xp.clip(units_of_Y @ units_of_Z.T, -1.0, 1.0)
    sines = xp.sqrt((1 - cosines) * (1 + cosines))
    # acos(-cos t) is pi - t.
    return of_Y * of_Z.T * (sines + xp.acos(-cosines) * cosines) / pi


def _lengths_and_units(Y: Array) -> tuple[Array, Array]:
    """Return the lengths of the rows (n x 1), and the rows scaled to length 1 (or 0)."""
    xp = namespace(Y)
    lengths = xp.sqrt(xp.sum(Y * Y, axis=1, keepdims=True))
    return lengths, Y / xp.where(lengths == 0, xp.ones_like(lengths), lengths)


@dataclass(frozen=True, eq=False)
class Lift:
    """Map from prototypes to coordinates in the span of the seen classes under a kernel.

    Attributes
    ----------
    kind : str
        Kernel of `kernel_matrix`.
    seen : array
        Y_s (p x k), or K_s (p x p) if the kernel is precomputed.
    basis : array
        V diag(w)^(-1/2) (p x r), eigenvalues in ascending order.
    gamma, degree, coef0 : float
        Parameters of the kernel; gamma as in its formula.
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
        """Find the span of the seen prototypes Y_s (p x k), or K_s (p x p) if precomputed.

        `gamma` is relative: divided by the median squared distance between the rows of Y_s for
        "rbf", and by their mean squared length for "poly", so that 1 suits any semantic space.
        """
        gamma = float(gamma) / _unit_of_gamma(Y_s, kind)
        K_s = kernel_matrix(kind, Y_s, Y_s, gamma=gamma, degree=degree, coef0=coef0)
        return cls(kind, Y_s, _basis(K_s), gamma, degree, coef0)

    @property
    def rank(self) -> int:
        """Number r of dimensions, at most the number of seen classes."""
        return self.basis.shape[1]

    def transform(self, Y: Array) -> Array:
        """Return phi(y) for each row of Y (m x k), as m x r.

        If the kernel is precomputed, the rows are k(y, seen) (m x p).
        """
        if Y.ndim != 2 or Y.shape[1] != self.seen.shape[1]:
            raise ValueError(
                f"Prototypes must have the {self.seen.shape[1]} columns of the seen classes; got "
                f"shape {tuple(Y.shape)}. Pass one row per class: a prototype or, if the kernel "
                "is precomputed, its values with the seen classes."
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
    """Return V diag(w)^(-1/2) of K_s, without eigenvalues that are zero to rounding.

    If all are zero, one arbitrary direction is kept, so that no dimension is ever 0.
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
    # Negative eigenvalues are pure error; positive ones have the same error.
    level = max(rounding * largest, -smallest)
    kept = max(1, int(xp.sum(xp.astype(values > level, xp.int64))))
    values, vectors = values[-kept:], vectors[:, -kept:]
    return vectors / xp.sqrt(xp.where(values > 0, values, xp.ones_like(values)))


def _check_shape_and_values(K_s: Array) -> None:
    if K_s.ndim != 2 or K_s.shape[0] != K_s.shape[1] or K_s.shape[0] == 0:
        raise ValueError(
            "The kernel between seen classes must be a square matrix of at least one row; got "
            f"shape {tuple(K_s.shape)}. Pass one row and one column per seen class."
        )
    xp = namespace(K_s)
    if not bool(xp.all(xp.isfinite(K_s))):
        raise ValueError(
            "The kernel between seen classes must be finite; got NaN or infinity. Remove missing "
            "values from the prototypes, or scale them down if powers overflow the dtype."
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
