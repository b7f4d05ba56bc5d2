"""Symmetric matrices with known spectra, and Sylvester equations made of them."""

import numpy as np


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def symmetric(rng, values):
    """Return a symmetric matrix with these eigenvalues."""
    U = orthogonal(rng, len(values))
    M = (U * values) @ U.T
    return (M + M.T) / 2


def equation(lam, omega, dtype=np.float64, seed=0):
    """Return A, B and C, with the eigenvalues lam of A and omega of B."""
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((len(lam), len(omega)))
    return tuple(M.astype(dtype) for M in (symmetric(rng, lam), symmetric(rng, omega), C))
