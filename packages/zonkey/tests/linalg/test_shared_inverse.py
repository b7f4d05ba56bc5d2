"""The shared inverse against a dense solve for every row of every problem."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.arrays import to_numpy
from zonkey.bpl.lowrank import SharedInverse, _inverses
from zonkey.config import config_context


def drawn(seed, T, E, k, d, r):
    rng = np.random.default_rng(seed)
    D, G = rng.uniform(0.5, 3, size=(T, k, d)), rng.normal(size=(T, d, r))
    return D, G, rng.normal(size=(T, E, k, d))


def by_rows(D, G, R):
    Z = np.empty_like(R)
    for t, h, j in np.ndindex(*R.shape[:3]):
        matrix = np.diag(D[t, j]) + sum(np.outer(g, g) for g in G[t].T)
        Z[t, h, j] = np.linalg.solve(matrix, R[t, h, j])
    return Z


@given(
    seed=st.integers(0, 2**32 - 1),
    T=st.integers(1, 3),
    E=st.integers(1, 3),
    k=st.integers(1, 4),
    d=st.integers(1, 9),
    r=st.integers(1, 12),
    repeated=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_every_row_is_solved_as_if_alone(seed, T, E, k, d, r, repeated):
    D, G, R = drawn(seed, T, E, k, d, r)
    if repeated:
        G = np.concatenate([G, G, 0 * G], axis=2)
    before, inverse = R.copy(), SharedInverse(D, G)
    for some in (R, R[:, :1]):  # of any number of problems
        np.testing.assert_allclose(inverse(some), by_rows(D, G, some), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(R, before)


@pytest.mark.parametrize("G", [np.zeros((1, 6, 3)), np.zeros((1, 6, 0))], ids=["zero", "none"])
def test_nothing_but_the_diagonal_is_a_quotient(G):
    D, _, R = drawn(2, 1, 2, 3, 6, 1)
    np.testing.assert_array_equal(SharedInverse(D, G)(R), R / D[:, None])


@pytest.mark.parametrize("to", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_singular_problem_has_no_numbers(to):
    D, G, R = drawn(6, 2, 1, 1, 2, 1)
    D[0], G[0] = [[-1.0, 2.0]], [[1.0], [0.0]]  # 1 + G' D^-1 G = 0
    with config_context(working_memory=1e-9):  # each problem is a block of its own
        found = to_numpy(SharedInverse(to(D), to(G))(to(R)))
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1:], by_rows(D[1:], G[1:], R[1:]), rtol=0, atol=1e-12)


def test_other_errors_are_not_hidden():
    with pytest.raises(RuntimeError, match="square"):
        _inverses(torch.ones(2, 3))


def test_float32_is_kept_and_close():
    D, G, R = drawn(4, 2, 3, 3, 20, 5)
    signed = D * np.where(np.arange(20) % 3, 1, -1)  # diagonals may be negative
    expected = by_rows(signed, G, R)
    np.testing.assert_allclose(SharedInverse(signed, G)(R), expected, rtol=0, atol=1e-10)
    got = SharedInverse(D.astype(np.float32), G.astype(np.float32))(R.astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, by_rows(D, G, R), rtol=0, atol=1e-5)
