"""Reduce a symmetric NumPy matrix to tridiagonal form, at a fraction of the cost of its eigenbasis.

A = Q T Q' with T tridiagonal costs a third of A = U diag(lam) U', for Q stays a product of
reflectors that is never formed. Any shifted system (s A + c I) x = b then costs O(d^2) for Q
and O(d) for T, which is all that A W + W B = C asks for once B is diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from array_api_compat import is_numpy_array
from scipy.linalg import eigh_tridiagonal, eigvalsh_tridiagonal, solve_triangular
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

from .arrays import Array, namespace
from .checks import check_scale, check_symmetric

# Rows whose transpose fits the cache: 2.4 times as fast as M + M.T at d = 2048.
_PANEL = 64
# Reflectors applied at a time: fewer are slower to apply, more are slower to join.
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric matrix as Q T Q', with T tridiagonal and Q a product of reflectors.

    Attributes
    ----------
    diagonal, off_diagonal : arrays of shape (d,) and (d - 1,)
        T.
    extremes : array of shape (2,)
        The smallest and the largest eigenvalue.
    blocks : tuple of pairs (V, S)
        Q is the product of all I - V S V', where V has the last rows only that are not 0.
    """

    diagonal: Array
    off_diagonal: Array
    extremes: Array
    blocks: tuple[tuple[Array, Array], ...]

    @classmethod
    def of(cls, M: Array) -> Tridiagonal:
        """Reduce the symmetric matrix M (only its symmetric part is meaningful)."""
        check_symmetric(M)
        if not is_numpy_array(M) or M.ndim != 2 or M.dtype not in (np.float32, np.float64):
            raise ValueError(
                "The tridiagonal path needs one NumPy matrix of float32 or float64; got "
                f'{M.ndim} axes of {type(M).__name__}, {M.dtype}. Use path="eigen".'
            )
        sytrd, lwork = get_lapack_funcs(("sytrd", "sytrd_lwork"), (M,))
        work = int(lwork(M.shape[0], lower=1)[0].real)
        reduced, diagonal, off_diagonal, tau, _ = sytrd(
            _lower_half(M), lower=1, lwork=work, overwrite_a=1
        )
        ends = (_eigenvalue(diagonal, off_diagonal, i) for i in (0, len(diagonal) - 1))
        extremes = np.array([*ends], dtype=M.dtype)
        return cls(diagonal, off_diagonal, extremes, _blocks(reduced[1:, :-1], tau))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return 2 * self.diagonal.shape

    @cached_property
    def values(self) -> Array:
        """All eigenvalues, ascending; few equations need more than the extremes."""
        if len(self.diagonal) == 1:
            return self.diagonal
        # The values alone lose digits in float32: 85 rounding units at d = 2048.
        wide = (M.astype(np.float64) for M in (self.diagonal, self.off_diagonal))
        return np.asarray(eigvalsh_tridiagonal(*wide), dtype=self.diagonal.dtype)

    def transformed(self, *, scale: float = 1.0, shift: float = 0.0) -> Tridiagonal:
        """Return the factor of ``scale * A + shift * I`` (scale >= 0) at no cost."""
        check_scale(scale)
        scale, shift = float(scale), float(shift)
        return Tridiagonal(
            scale * self.diagonal + shift,
            scale * self.off_diagonal,
            scale * self.extremes + shift,
            self.blocks,
        )

    def to_basis(self, M: Array) -> Array:
        """Return Q'M for M (..., d, k)."""
        return self._multiplied(M, ((V, transposed(S)) for V, S in self.blocks))

    def from_basis(self, Z: Array) -> Array:
        """Return Q Z for Z (..., d, k)."""
        return self._multiplied(Z, reversed(self.blocks))

    def shifted_solve(self, R: Array, shifts: Array) -> Array:
        """Solve (T + shifts_j I) z_j = r_j for each column of R (..., d, k), shifts (..., k)."""
        # One call a column: a single one for all of them, blocks on one long diagonal, was
        # up to twice as slow, and elimination row by row for all columns up to seven times.
        (gtsv,) = get_lapack_funcs(("gtsv",), (self.diagonal,))
        shape = np.broadcast_shapes(R.shape[:-2], shifts.shape[:-1])
        rows = np.broadcast_to(np.matrix_transpose(R), (*shape, R.shape[-1], len(self.diagonal)))
        Z = np.array(rows, dtype=self.diagonal.dtype, order="C")
        moved = np.broadcast_to(shifts.astype(Z.dtype), Z.shape[:-1])
        for z, shift in zip(Z.reshape(-1, len(self.diagonal)), moved.reshape(-1), strict=True):
            if len(self.diagonal) == 1:
                z /= self.diagonal + shift
            else:
                z[:] = gtsv(self.off_diagonal, self.diagonal + shift, self.off_diagonal, z)[3]
        return np.matrix_transpose(Z)

    def eigh(self) -> tuple[Array, Array]:
        """Return the eigenvalues of A, ascending, and its eigenvectors."""
        if len(self.diagonal) == 1:
            return self.diagonal, np.ones_like(self.diagonal)[:, None]
        values, vectors = eigh_tridiagonal(self.diagonal, self.off_diagonal)
        return values, self.from_basis(vectors)

    def _multiplied(self, M: Array, blocks: Iterable[tuple[Array, Array]]) -> Array:
        """Return M (..., d, k) multiplied by one block after the other."""
        columns = np.moveaxis(M, -2, 0)
        moved = np.array(columns, dtype=self.diagonal.dtype, order="C")
        flat = moved.reshape(len(moved), -1)
        for V, S in blocks:
            rows = flat[-len(V) :]
            rows -= product(V, product(S, product(V.T, rows)))
        return np.moveaxis(moved, 0, -2)


def product(X: Array, Y: Array) -> Array:
    """Return X @ Y, of two matrices by the BLAS of SciPy.

    NumPy may bring a BLAS of its own, and idle threads of one hold up those of the other:
    beside LAPACK's, its products took up to four times as long.
    """
    if X.ndim != 2 or Y.ndim != 2:
        return X @ Y
    (gemm,) = get_blas_funcs(("gemm",), (X, Y))
    # X @ Y in C order is Y'X' in Fortran order, for which none of them is copied.
    (a, turn_a), (b, turn_b) = ((M.T, 0) if M.flags.c_contiguous else (M, 1) for M in (Y, X))
    return gemm(1.0, a, b, trans_a=turn_a, trans_b=turn_b).T


def eigh(M: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of the symmetric M, of a NumPy matrix by SciPy.

    Beside `product` it saves time for the same reason. In float32 it does, too: NumPy would
    compute in float64.
    """
    check_symmetric(M)
    M = symmetric_part(M)
    if is_numpy_array(M) and M.ndim == 2:
        values, vectors = scipy.linalg.eigh(M, driver="evd", check_finite=False)
    else:
        values, vectors = namespace(M).linalg.eigh(M)
    return values, vectors


def transposed(M: Array) -> Array:
    """Return M with its last two axes exchanged."""
    return namespace(M).matrix_transpose(M)


def symmetric_part(M: Array) -> Array:
    """Return (M + M') / 2."""
    return (M + transposed(M)) / 2


def _blocks(reflectors: Array, tau: Array) -> tuple[tuple[Array, Array], ...]:
    """Join the reflectors that LAPACK left below the diagonal, I - tau_i v_i v_i' each."""
    blocks = []
    for start in range(0, len(tau), _BLOCK):
        columns = slice(start, start + _BLOCK)
        V = np.tril(reflectors[start:, columns], -1)
        np.fill_diagonal(V, 1)
        scales = tau[columns]
        joint = scales[:, None] * product(V.T, V)  # of which the part above the diagonal counts
        S = solve_triangular(joint, np.diag(scales), unit_diagonal=True)
        blocks.append((V, S))
    return tuple(blocks)


def _lower_half(M: Array) -> Array:
    """Return the symmetric part of M in Fortran order; above the diagonal stands anything."""
    # In C order the upper half is computed, and what LAPACK reads is the transpose.
    half = np.empty_like(M, order="C")
    for start in range(0, M.shape[0], _PANEL):
        rows = slice(start, start + _PANEL)
        half[rows, start:] = (M[rows, start:] + M[start:, rows].copy().T) / 2
    return half.T


def _eigenvalue(diagonal: Array, off_diagonal: Array, i: int) -> Array:
    if len(diagonal) == 1:
        return diagonal[0]
    return eigvalsh_tridiagonal(diagonal, off_diagonal, select="i", select_range=(i, i))[0]
