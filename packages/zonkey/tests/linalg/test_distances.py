"""Squared distances and nearest rows against loops over coordinates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.arrays import find_nearest, squared_distances


def naive_squared_distances(X, Z):
    return [
        [sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) for z in Z.tolist()]
        for x in X.tolist()
    ]


def naive_nearest(X, Z, k):
    """Order by distance; `sorted` keeps the order of equal keys."""
    return [
        sorted(range(len(row)), key=row.__getitem__)[:k] for row in naive_squared_distances(X, Z)
    ]


def drawn(seed, n, m, d, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 3 - 1
    return X.astype(dtype), rng.standard_normal((m, d)).astype(dtype)


sizes = st.integers(1, 8)
seeds = st.integers(0, 2**32 - 1)


@given(seeds, sizes, sizes, sizes)
@settings(deadline=None, max_examples=25)
def test_distances_are_those_of_the_loops(seed, n, m, d):
    X, Z = drawn(seed, n, m, d)
    got = squared_distances(X, Z)
    assert got.shape == (n, m)
    np.testing.assert_allclose(got, naive_squared_distances(X, Z), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_dtype_is_kept_and_its_precision_reached(dtype):
    X, Z = drawn(0, 7, 9, 30, dtype)
    got = squared_distances(X, Z)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, naive_squared_distances(X, Z), rtol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_rounding_pushes_below_zero_is_clipped(dtype):
    X, _ = drawn(0, 40, 1, 7, dtype)
    X = X + dtype(1e6)
    gram = np.sum(X * X, axis=1)
    unclipped = gram[:, None] + gram[None, :] - 2 * (X @ X.T)
    assert unclipped.min() < 0, "the data no longer provokes what the test is about"
    got = squared_distances(X, X)
    assert got.min() == 0
    np.testing.assert_array_equal(got, np.where(unclipped < 0, 0, unclipped))
    assert np.diag(got).max() <= 100 * np.finfo(dtype).eps * gram.max()


def test_a_missing_value_is_not_a_distance_of_zero():
    X = np.array([[0.0, 0.0], [1.0, np.nan]])
    Z = np.array([[np.nan, 5.0], [3.0, 4.0]])
    got = squared_distances(X, Z)
    np.testing.assert_array_equal(got, [[np.nan, 25.0], [np.nan, np.nan]])
    assert find_nearest(X, Z, 1)[0, 0] == 1


@given(seeds, sizes, st.integers(1, 15), st.integers(1, 3), st.integers(1, 15))
@settings(deadline=None, max_examples=25)
def test_nearest_rows_come_in_order_and_ties_in_their_own(seed, n, m, d, k):
    rng = np.random.default_rng(seed)
    # A few small integers: distances are exact and most of them tied.
    X = rng.integers(-1, 2, (n, d)).astype(float)
    Z = rng.integers(-1, 2, (m, d)).astype(float)
    got = find_nearest(X, Z, k)
    assert got.shape == (n, min(k, m))
    assert got.tolist() == naive_nearest(X, Z, k)


def test_no_rows_and_no_neighbors():
    X, Z = drawn(6, 3, 4, 2)
    assert find_nearest(X, Z, 0).shape == (3, 0)
    assert squared_distances(X[:0], Z).shape == (0, 4)
    assert find_nearest(X[:0], Z, 2).shape == (0, 2)
    assert find_nearest(X, Z[:0], 2).shape == (3, 0)
