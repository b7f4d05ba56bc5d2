"""Equations with known spectra, for the tests of every path of the Sylvester solver."""

import numpy as np
import pytest


def symmetric_of(rng, values):
    U = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    M = (U * values) @ U.T
    return (M + M.T) / 2


@pytest.fixture
def equation():
    """Return a function that makes A, B and C with eigenvalues lam and omega of A and B."""

    def made(lam, omega, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        C = rng.standard_normal((len(lam), len(omega)))
        return tuple(M.astype(dtype) for M in (symmetric_of(rng, lam), symmetric_of(rng, omega), C))

    return made
