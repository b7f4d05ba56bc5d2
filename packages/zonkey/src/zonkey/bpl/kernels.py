"""Kernels between prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from array_api_compat import device

from ..arrays import Array, epsilon, namespace, place_like, squared_distances, squared_norm

KERNELS: tuple[str, ...] = ("linear", "rbf", "poly", "arccos", "precomputed")

_ROUNDING = 10  # values within this many rounding errors of zero are zero
_ROWS_OF_MEDIAN = 2000
_DIAGONAL_ROWS = 256  # at a time


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


@dataclass(frozen=True, eq=False)
class PrototypeKernel:
    """A kernel of `kernel_matrix` whose `gamma` is relative to the scale of given prototypes."""

    kind: str
    gamma: float

    @classmethod
    def from_vectors(cls, Y: Array, kind: str, gamma: float) -> PrototypeKernel:
        """Scale a relative `gamma`, so that 1 suits any semantic space.

        It is divided by the median squared distance between the rows of Y for "rbf", and by their
        mean squared length for "poly".
        """
        unit = 1.0
        if kind == "rbf":
            unit = median_squared_distance(Y)
        elif kind == "poly":
            unit = squared_norm(Y) / max(1, Y.shape[0]) or 1.0
        return cls(kind, float(gamma) / unit)

    def compare(self, Y: Array, Z: Array, columns: np.ndarray) -> Array:
        """Return k(y, z) for all rows of Y and Z.

        `columns` are the positions of the classes of Z among all classes: if the kernel is
        precomputed, the rows of Y hold its values with all classes.
        """
        if self.kind == "precomputed":
            return namespace(Y).take(Y, place_like(columns, Y), axis=1)
        return kernel_matrix(self.kind, Y, Z, gamma=self.gamma)

    def mean_of_own(self, Y: Array, columns: np.ndarray) -> float:
        """Return the mean of k(y, y) over the rows of Y, whose classes have these positions."""
        n, total = Y.shape[0], 0.0
        for start in range(0, n, _DIAGONAL_ROWS):
            rows = Y[start : min(start + _DIAGONAL_ROWS, n), :]
            own = self.compare(rows, rows, columns[start : start + _DIAGONAL_ROWS])
            total += float(namespace(Y).linalg.trace(own))
        return total / n


def median_squared_distance(Y: Array) -> float:
    """Return the median of ||y_i - y_j||^2 over pairs of different rows of Y.

    Distances that are zero to rounding are left out: equal prototypes carry no information about
    the width. If none is left, the result is 1. At most 2,000 evenly spaced rows are used, so that
    memory stays bounded.
    """
    xp = namespace(Y)
    n = Y.shape[0]
    if n > _ROWS_OF_MEDIAN:
        rows = [i * n // _ROWS_OF_MEDIAN for i in range(_ROWS_OF_MEDIAN)]
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
