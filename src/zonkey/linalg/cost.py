"""Say which factorization of A solves A W + W B = C soonest, from measured costs.

The unit is a multiply-add at the speed of a matrix product: A @ A costs d^3 for A (d x d).
`benchmarks/sylvester_speed.py` measures, with one thread (OPENBLAS_NUM_THREADS=1, seconds of
the processor; AMD EPYC, NumPy 2.4, SciPy 1.17, float64),

       d     k   eigh / d^3   tridiagonal / d^3   Q'C and Q Z / (2 d^2 k)   systems / (d k)
      64    20         24.4                22.8                       7.7              1303
     128    40         12.0                 6.8                       2.7               793
     256    85          8.5                 3.1                       2.0               669
     512    85          6.2                 1.8                       1.7               578
    1024    85          4.3                 1.3                       1.5               530
    1024  1000          4.4                 1.4                       1.4               562
    2048    85          4.2                 1.4                       1.6               570

What grows toward small d is work at the speed of memory, which for eigh is of order d^2, and
of calls. Diagonalizing B and multiplying by its eigenvectors cost the same on both paths.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import is_numpy_array

from .arrays import Array

# Factors of d^3 and d^2 for eigh, and of d^3 and d for the tridiagonal form.
_EIGH = (4.5, 1000.0)
_TRIDIAGONAL = (1.4, 1e5)
# For each column of C: multiplying by U' and U, or by Q' and Q, as a factor of d^2, and a
# tridiagonal system, as a factor of d and a constant.
_MULTIPLY_U = 2.0
_MULTIPLY_Q = 3.2
_SYSTEM = (500.0, 6e4)


def cheapest_path(d: int, k: int, n_solves: int = 1) -> str:
    """Return the faster way to factorize A (d x d), "eigen" or "tridiagonal".

    Parameters
    ----------
    d, k : int
        The equations have A (d x d) and C (d x k).
    n_solves : int
        How many equations, each with a B and C of its own, the factor of A is to serve.
    """
    columns = n_solves * k
    eigen = _EIGH[0] * d**3 + _EIGH[1] * d**2 + columns * _MULTIPLY_U * d**2
    per_column = _MULTIPLY_Q * d**2 + _SYSTEM[0] * d + _SYSTEM[1]
    tridiagonal = _TRIDIAGONAL[0] * d**3 + _TRIDIAGONAL[1] * d + columns * per_column
    return "eigen" if eigen <= tridiagonal else "tridiagonal"


def cheapest_path_for(A: Array, B: Array, C: Array, n_solves: int) -> str:
    """Return the cheapest path that A, C and B, or the eigenvalues of B, can take."""
    dtypes = {A.dtype, B.dtype, C.dtype}
    if is_numpy_array(A) and A.ndim == 2 and dtypes in ({np.dtype("f4")}, {np.dtype("f8")}):
        return cheapest_path(A.shape[0], C.shape[-1], n_solves)
    return "eigen"
