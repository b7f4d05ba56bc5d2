"""Factorizations of a symmetric matrix: its eigenbasis, or the cheaper tridiagonal form.

A = U diag(lam) U' serves every use. A = Q T Q' with T tridiagonal costs a third of it, because Q
stays a product of reflectors that is never formed. Any shifted system (s A + c I) x = b then costs
O(d^2) for Q and O(d) for T.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from array_api_compat import device, is_numpy_array
from scipy.linalg import eigh_tridiagonal, eigvalsh_tridiagonal, solve_triangular
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

from ..arrays import Array, namespace

# Rows whose transpose fits the cache: 2.4 times as fast as M + M.T at d = 2048.
_PANEL = 64
_SWEPT = 512  # rows that are eliminated together
# Reflectors joined into one product: fewer are slower to apply, more are slower to join.
_JOINED = 64


@dataclass(frozen=True, eq=False)
class Factor:
    """Eigendecomposition U diag(values) U' of a symmetric matrix, or of a batch of them.

    `values` (..., d) ascend, `vectors` (..., d, d) has eigenvectors as columns. ``vectors=None``
    means U = I, so that a zero or diagonal matrix needs no memory.
    """

    values: Array
    vectors: Array | None

    @classmethod
    def from_matrix(cls, M: Array) -> Factor:
        """Diagonalize M (..., d, d), of which only the symmetric part is used."""
        check_symmetric(M)
        return cls(*namespace(M).linalg.eigh(symmetric_part(M)))

    @classmethod
    def zeros(cls, n: int, like: Array) -> Factor:
        """Return the factor of a zero matrix (n x n), with the dtype and device of `like`."""
        return cls(namespace(like).zeros(n, dtype=like.dtype, device=device(like)), None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return *self.values.shape, self.values.shape[-1]

    def rescale(self, *, scale: float = 1.0, shift: float = 0.0) -> Factor:
        """Return the factor of ``scale * A + shift * I`` (scale >= 0) at no cost."""
        _check_scale(scale)
        # A NumPy scalar would widen float32; a Python float takes the dtype of the array.
        return Factor(float(scale) * self.values + float(shift), self.vectors)

    def to_basis(self, M: Array) -> Array:
        """Return U'M for M (..., d, k)."""
        return M if self.vectors is None else transpose(self.vectors) @ M

    def from_basis(self, Z: Array) -> Array:
        """Return U Z for Z (..., d, k)."""
        return Z if self.vectors is None else self.vectors @ Z


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric NumPy matrix as Q T Q', T tridiagonal and Q a product of reflectors.

    T has `diagonal` (d) and `off_diagonal` (d - 1); `extremes` are the smallest and the largest
    eigenvalue. Q is the product of all I - V S V' of the `blocks`; V stores only its last, nonzero
    rows.
    """

    diagonal: np.ndarray
    off_diagonal: np.ndarray
    extremes: np.ndarray
    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def from_matrix(cls, M: Array) -> Tridiagonal:
        """Reduce the symmetric matrix M; only its symmetric part is used."""
        check_symmetric(M)
        if not isinstance(M, np.ndarray) or M.ndim != 2 or M.dtype not in (np.float32, np.float64):
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
        """Shape of the matrix."""
        return 2 * self.diagonal.shape

    @cached_property
    def values(self) -> np.ndarray:
        """All eigenvalues in ascending order; most equations need only the extremes."""
        if len(self.diagonal) == 1:
            return self.diagonal
        # In float32 the values lose digits: 85 rounding units at d = 2048.
        diagonal, off_diagonal = (M.astype(float) for M in (self.diagonal, self.off_diagonal))
        return np.asarray(eigvalsh_tridiagonal(diagonal, off_diagonal), self.diagonal.dtype)

    def rescale(self, *, scale: float = 1.0, shift: float = 0.0) -> Tridiagonal:
        """Return the factor of ``scale * A + shift * I`` (scale >= 0) at no cost."""
        _check_scale(scale)
        scale, shift = float(scale), float(shift)
        return Tridiagonal(
            scale * self.diagonal + shift,
            scale * self.off_diagonal,
            scale * self.extremes + shift,
            self.blocks,
        )

    def to_basis(self, M: np.ndarray) -> np.ndarray:
        """Return Q'M for M (..., d, k)."""
        return self._multiply(M, ((V, S.T) for V, S in self.blocks))

    def from_basis(self, Z: np.ndarray) -> np.ndarray:
        """Return Q Z for Z (..., d, k)."""
        return self._multiply(Z, reversed(self.blocks))

    def solve_shifted(self, R: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """Solve (T + shifts_j I) z_j = r_j for each column of R (..., d, k), shifts (..., k)."""
        # One call per column: a single call for all of them was up to twice as slow, and
        # elimination row by row for all columns up to seven times.
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

    def eigh(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues of A in ascending order, and its eigenvectors."""
        if len(self.diagonal) == 1:
            return self.diagonal, np.ones_like(self.diagonal)[:, None]
        values, vectors = eigh_tridiagonal(self.diagonal, self.off_diagonal)
        return values, self.from_basis(vectors)

    def _multiply(
        self, M: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Return M (..., d, k) multiplied by one block after the other."""
        moved = np.array(np.moveaxis(M, -2, 0), dtype=self.diagonal.dtype, order="C")
        flat = moved.reshape(len(moved), -1)
        for V, S in blocks:
            rows = flat[-len(V) :]
            rows -= product(V, product(S, product(V.T, rows)))
        return np.moveaxis(moved, 0, -2)


def product(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return X @ Y; two matrices are multiplied by the BLAS of SciPy.

    NumPy may ship its own BLAS. Idle threads of one library slow down the other: NumPy products
    between LAPACK calls took up to four times as long.
    """
    if X.ndim != 2 or Y.ndim != 2:
        return X @ Y
    (gemm,) = get_blas_funcs(("gemm",), (X, Y))
    # X @ Y in C order is Y'X' in Fortran order, which copies neither.
    (a, turn_a), (b, turn_b) = ((M.T, 0) if M.flags.c_contiguous else (M, 1) for M in (Y, X))
    return gemm(1.0, a, b, trans_a=turn_a, trans_b=turn_b).T


def eigh(M: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of the symmetric M; SciPy handles a NumPy matrix.

    See `product` for the reason. NumPy would also compute float32 input in float64.
    """
    check_symmetric(M)
    M = symmetric_part(M)
    if is_numpy_array(M) and M.ndim == 2:
        values, vectors = scipy.linalg.eigh(M, driver="evd", check_finite=False)
    else:
        values, vectors = namespace(M).linalg.eigh(M)
    return values, vectors


def symmetric_inverse(M: np.ndarray) -> np.ndarray:
    """Return the inverse of a symmetric positive definite matrix, in its memory.

    Gauss-Jordan elimination by blocks, on the upper half: nearly all of it are products. LAPACK
    needs further matrices of this size, and OpenBLAS crashes in its Cholesky decomposition of
    17,000 rows. Blocks are not exchanged, which loses digits of other matrices: if M is not
    positive definite, it is left as it was, and LinAlgError is raised.
    """
    n = len(M)
    kept = [
        M[start : start + _SWEPT, start : start + _SWEPT].copy() for start in range(0, n, _SWEPT)
    ]
    for start in range(0, n, _SWEPT):
        stop = min(start + _SWEPT, n)
        own = slice(start, stop)
        square = np.triu(M[own, own])
        square += np.triu(square, 1).T
        try:
            np.linalg.cholesky(square)
        except np.linalg.LinAlgError:
            _restore(M, kept)
            raise
        P = np.linalg.inv(square)
        C = np.concatenate([M[:start, own], np.zeros_like(P), M[own, stop:].T])
        T = C @ P
        for first in range(0, n, _SWEPT):
            rows = slice(first, first + _SWEPT)
            M[rows, first:] -= T[rows] @ C[first:].T
        M[:start, own], M[own, stop:], M[own, own] = T[:start], T[stop:].T, -P
    np.negative(M, out=M)
    return _mirror(M)


def _restore(M: np.ndarray, squares: list[np.ndarray]) -> None:
    """Undo the elimination, which left the part below the diagonal blocks unchanged."""
    for i, square in enumerate(squares):
        start = i * _SWEPT
        rows, rest = slice(start, start + _SWEPT), slice(start + _SWEPT, None)
        M[rows, rows] = square
        M[rows, rest] = M[rest, rows].T


def _mirror(M: np.ndarray) -> np.ndarray:
    """Copy the upper half of M to the lower half."""
    for start in range(0, len(M), _PANEL):
        rows, rest = slice(start, start + _PANEL), slice(start + _PANEL, None)
        square = np.triu(M[rows, rows])
        M[rows, rows] = square + np.triu(square, 1).T
        M[rest, rows] = M[rows, rest].T
    return M


def transpose(M: Array) -> Array:
    """Return M with its last two axes exchanged."""
    return namespace(M).matrix_transpose(M)


def symmetric_part(M: Array) -> Array:
    """Return (M + M') / 2."""
    return (M + transpose(M)) / 2


def check_symmetric(M: Array) -> None:
    """Raise if M is not a finite square matrix, or a batch of them."""
    if M.ndim < 2 or M.shape[-1] != M.shape[-2]:
        raise ValueError(
            f"A symmetric factor needs a square matrix; got shape {tuple(M.shape)}. "
            "Pass A (d x d) or B (k x k)."
        )
    xp = namespace(M)
    if not bool(xp.all(xp.isfinite(M))):
        raise ValueError(
            "A symmetric factor needs finite values; got NaN or infinity. Remove missing "
            "values from the data, or scale it down if products overflow the dtype."
        )


def _check_scale(scale: float) -> None:
    if scale < 0:
        raise ValueError(
            f"`scale` must be at least 0 to keep the values ascending; got {scale}. "
            "Factorize the negated matrix instead."
        )


def _blocks(reflectors: np.ndarray, tau: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Join the reflectors I - tau_i v_i v_i' that LAPACK leaves below the diagonal."""
    blocks = []
    for start in range(0, len(tau), _JOINED):
        columns = slice(start, start + _JOINED)
        V = np.tril(reflectors[start:, columns], -1)
        np.fill_diagonal(V, 1)
        scales = tau[columns]
        joint = scales[:, None] * product(V.T, V)  # only the part above the diagonal counts
        S = solve_triangular(joint, np.diag(scales), unit_diagonal=True)
        blocks.append((V, S))
    return tuple(blocks)


def _lower_half(M: np.ndarray) -> np.ndarray:
    """Return the lower half of the symmetric part of M in Fortran order."""
    # In C order the upper half is computed; LAPACK reads the transpose.
    half = np.empty_like(M, order="C")
    for start in range(0, M.shape[0], _PANEL):
        rows = slice(start, start + _PANEL)
        half[rows, start:] = (M[rows, start:] + M[start:, rows].copy().T) / 2
    return half.T


def _eigenvalue(diagonal: np.ndarray, off_diagonal: np.ndarray, i: int) -> float:
    if len(diagonal) == 1:
        return diagonal[0]
    values = eigvalsh_tridiagonal(diagonal, off_diagonal, select="i", select_range=(i, i))
    return np.asarray(values)[0]
