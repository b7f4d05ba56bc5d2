"""Inverses of symmetric matrices, positive definite or not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from zonkey.linalg.symmetric import symmetric_inverse


@pytest.mark.parametrize("n", [1, 5, 64, 65, 150])
@pytest.mark.parametrize("shift", [3.0, 0.0, -0.5])
def test_the_inverse_is_symmetric_and_that_of_the_matrix(n, shift, monkeypatch):
    monkeypatch.setattr("zonkey.linalg.symmetric._SWEPT", 40)
    A = np.random.default_rng(n).normal(size=(n, n)) / np.sqrt(n)
    M = A @ A.T + shift * np.eye(n) if shift > 0 else A + A.T + shift * np.eye(n)
    found = symmetric_inverse(M.copy())
    assert_array_equal(found, found.T)
    assert_allclose(found @ M, np.eye(n), atol=1e-9)
