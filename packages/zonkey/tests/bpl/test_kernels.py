"""Kernels against loops over the printed formulas, and against scikit-learn where it has them."""

import math
from statistics import median

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from zonkey.bpl.kernels import KERNELS, kernel_matrix, median_squared_distance

COMPUTED = ["linear", "rbf", "poly", "arccos"]
OPTIONS = {"gamma": 0.3, "degree": 2, "coef0": 0.7}


def dot(y, z):
    return math.fsum(a * b for a, b in zip(y, z, strict=True))


def arccos(y, z):
    lengths = math.sqrt(dot(y, y)) * math.sqrt(dot(z, z))
    if lengths == 0:
        return 0.0
    t = math.acos(max(-1.0, min(1.0, dot(y, z) / lengths)))
    return lengths * (math.sin(t) + (math.pi - t) * math.cos(t)) / math.pi


def naive(kind, Y, Z, *, gamma, degree, coef0):
    """Return the printed formulas, one pair of rows at a time."""
    formulas = {
        "linear": dot,
        "rbf": lambda y, z: math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(y, z, strict=True))),
        "poly": lambda y, z: (gamma * dot(y, z) + coef0) ** degree,
        "arccos": arccos,
    }
    return [[formulas[kind](y, z) for z in Z.tolist()] for y in Y.tolist()]


def drawn(seed, n=7, m=5, k=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(m, k)).astype(dtype)


def assert_close(got, expected, tolerance=1e-13):
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(COMPUTED),
    n=st.integers(1, 6),
    m=st.integers(1, 6),
    k=st.integers(1, 6),
    gamma=st.floats(0.01, 3.0),
    degree=st.integers(1, 4),
    coef0=st.floats(-1.0, 2.0),
)
def test_any_shape_gives_the_formulas_and_a_kernel(seed, kind, n, m, k, gamma, degree, coef0):
    Y, Z = drawn(seed, n, m, k)
    options = {"gamma": gamma, "degree": degree, "coef0": coef0}
    both = np.vstack([Y, Z, Y[:1], 0 * Y[:1]])
    K = kernel_matrix(kind, both, both, **options)
    assert_close(K, naive(kind, both, both, **options), 1e-12)
    if coef0 >= 0:
        values = np.linalg.eigvalsh(K)
        assert values[0] >= -1e-13 * values[-1]
    for part, expected in (((Y, Z), K[:n, n : n + m]), ((Z, Y), K[n : n + m, :n])):
        got = kernel_matrix(kind, *part, **options)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * np.abs(K).max())
    # The dtype is kept, whatever that of the parameters.
    options = {name: np.float64(value) for name, value in options.items()}
    single = kernel_matrix(kind, Y.astype(np.float32), Z.astype(np.float32), **options)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, K[:n, n : n + m], rtol=0, atol=1e-4 * np.abs(K).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arccos_of_vectors_in_line_stays_in_its_domain(dtype):
    Y, _ = drawn(3, n=200, k=7, dtype=dtype)
    units = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    assert (np.abs(units @ units.T) > 1).any(), "the data no longer provokes what the test is about"
    lengths = np.sum(Y.astype(np.float64) ** 2, axis=1)
    same = np.diag(kernel_matrix("arccos", Y, Y))
    opposite = np.diag(kernel_matrix("arccos", Y, -Y))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(same, lengths, rtol=10 * eps)
    assert (np.abs(opposite) <= 10 * eps * lengths).all()


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_arccos_of_very_short_and_very_long_vectors(scale):
    Y, Z = drawn(4)
    assert_close(kernel_matrix("arccos", scale * Y, Z), scale * kernel_matrix("arccos", Y, Z))


@pytest.mark.parametrize("kind", COMPUTED)
def test_a_missing_value_stays_missing(kind):
    Y, Z = drawn(5)
    Y[2, 1] = np.nan
    got = kernel_matrix(kind, Y, Z)
    assert np.isnan(got[2]).all()
    assert np.isfinite(np.delete(got, 2, axis=0)).all()


def test_precomputed_values_are_returned_as_they_are():
    Y, Z = drawn(7)
    K = kernel_matrix("rbf", Y, Z)
    assert kernel_matrix("precomputed", K, Z) is K


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), k=st.integers(1, 3))
def test_median_is_that_of_the_pairs_that_differ(seed, n, k):
    # A few small integers: many rows are equal, and the others far apart.
    Y = np.random.default_rng(seed).integers(-1, 3, (n, k)).astype(float)
    pairs = [sum((Y[i] - Y[j]) ** 2) for i in range(n) for j in range(i)]
    expected = float(median([d for d in pairs if d > 0] or [1.0]))
    assert median_squared_distance(Y) == pytest.approx(expected, rel=1e-13)
    assert type(median_squared_distance(Y)) is float


@pytest.mark.parametrize("Y", [np.ones((1, 3)), np.ones((4, 3)), np.zeros((3, 2)), np.ones((0, 2))])
def test_without_rows_that_differ_the_median_is_one(Y):
    assert median_squared_distance(Y) == 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "move"), [(3, 0.0), (7, 1e3), (500, 0.0), (500, 30.0)])
def test_copies_of_rows_do_not_count_though_rounding_sets_them_apart(dtype, k, move):
    Y, _ = drawn(10, k=k)
    Y = (Y + move).astype(dtype)
    tolerance = 20 * float(np.finfo(dtype).eps)
    for distinct in (1, 2, 5):
        pairs = pdist(Y[:distinct].astype(np.float64)) ** 2
        expected = float(np.median(pairs)) if distinct > 1 else 1.0
        copies = np.tile(Y[:distinct], (40, 1))
        assert median_squared_distance(copies) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("n", [2000, 2001, 4999])
def test_of_many_rows_two_thousand_evenly_spaced_ones_count(n):
    taken = [i * n // 2000 for i in range(2000)] if n > 2000 else list(range(n))
    Y = np.full((n, 2), 1e6)
    Y[taken] = np.random.default_rng(n).normal(size=(len(taken), 2))
    assert median_squared_distance(Y) == pytest.approx(np.median(pdist(Y[taken]) ** 2), rel=1e-12)


@pytest.mark.parametrize(("dtype", "device"), [("float64", "CPU_DEVICE"), ("float32", "device1")])
def test_the_standard_is_enough(dtype, device):
    Y, Z = drawn(11, dtype=dtype)
    Y[0] = 0
    there = strict.Device(device)
    at = [strict.asarray(M, device=there) for M in (Y, Z)]
    for kind in COMPUTED:
        got = kernel_matrix(kind, *at, **OPTIONS)
        assert got.device == there
        got = np.asarray(got.to_device(strict.Device("CPU_DEVICE")))
        assert got.dtype == dtype
        assert_close(got, kernel_matrix(kind, Y, Z, **OPTIONS), 10 * np.finfo(dtype).eps)
    assert kernel_matrix("precomputed", *at) is at[0]
    assert median_squared_distance(at[0]) == pytest.approx(median_squared_distance(Y), rel=1e-5)
    many = np.repeat(Y, 300, axis=0)
    got = median_squared_distance(strict.asarray(many, device=there))
    assert got == pytest.approx(median_squared_distance(many), rel=1e-5)


def test_an_unknown_kernel_is_refused_in_one_line():
    assert (*COMPUTED, "precomputed") == KERNELS
    with pytest.raises(
        ValueError, match=r"must be one of linear, rbf, poly.*got 'cosine'"
    ) as error:
        kernel_matrix("cosine", *drawn(9))
    assert "\n" not in str(error.value)
