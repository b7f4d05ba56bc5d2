"""Inverses of symmetric matrices: positive definite ones, and no others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from zonkey.bpl.symmetric import symmetric_inverse

SIZES = pytest.mark.parametrize("n", [1, 5, 64, 65, 150])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("zonkey.bpl.symmetric._SWEPT", 40)


def drawn(n):
    return np.random.default_rng(n).normal(size=(n, n)) / np.sqrt(n)


@SIZES
@pytest.mark.parametrize("shift", [3.0, 0.02])
def test_the_inverse_is_symmetric_and_that_of_the_matrix(n, shift):
    A = drawn(n)
    M = A @ A.T + shift * np.eye(n)
    found = symmetric_inverse(M.copy())
    assert_array_equal(found, found.T)
    assert_allclose(found @ M, np.eye(n), atol=1e-11)


@SIZES
def test_an_indefinite_matrix_is_refused_and_left_as_it_was(n):
    A = drawn(n)
    M = A @ A.T + 0.1 * np.eye(n)
    M[-1, -1] -= 20.0  # only the last block tells
    given = M.copy()
    with pytest.raises(np.linalg.LinAlgError):
        symmetric_inverse(given)
    assert_array_equal(given, M)
