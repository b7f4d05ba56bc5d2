"""Sylvester solutions against a known W, SciPy, and the Kronecker system."""

import dataclasses

import numpy as np
import pytest
import scipy.linalg
from all_pairs import all_pairs
from equations import symmetric
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.bpl.sylvester import Status, solve
from zonkey.bpl.symmetric import Factor

D, K = 12, 5
DTYPES = [np.float64, np.float32]
each_path = pytest.mark.parametrize("path", ["eigen", "tridiagonal"])

DEFINITE = ["random", "ill-conditioned", "rank-deficient A", "rank-deficient B", "indefinite B"]
CASES = [*DEFINITE, "indefinite sum", "negative definite"]


def spectra(case, ridge, rng):
    """Return lam and omega; `ridge` makes an ill-conditioned problem solvable in its dtype."""
    uniform = rng.uniform
    return {
        "random": (uniform(0.5, 3, D), uniform(0.5, 3, K)),
        "ill-conditioned": (np.logspace(-10, 0, D) + ridge, np.logspace(-10, 0, K) + ridge),
        "rank-deficient A": (np.r_[np.zeros(7), uniform(1, 3, D - 7)], uniform(0.5, 2, K)),
        "rank-deficient B": (uniform(0.5, 2, D), np.r_[np.zeros(K - 1), 3.0]),
        "indefinite B": (uniform(1, 3, D), np.linspace(-0.8, 2, K)),
        "indefinite sum": (uniform(1, 3, D), np.r_[uniform(-9, -5, K - 2), 1.0, 2.0]),
        "negative definite": (uniform(-3, -1, D), uniform(-3, 0, K)),
    }[case]


def known_problem(case, dtype, seed=0):
    """Return A, B, C of the dtype and the W of float64 that they were made from."""
    rng = np.random.default_rng(seed)
    lam, omega = spectra(case, float(np.finfo(dtype).eps) ** 0.5, rng)
    A = symmetric(rng, lam).astype(dtype)
    B = symmetric(rng, omega).astype(dtype)
    W = rng.standard_normal((len(lam), len(omega)))
    C = A.astype(float) @ W + W @ B.astype(float)
    return A, B, C.astype(dtype), W


def kronecker(A, B):
    """Return the matrix of W -> A W + W B on vectors of stacked columns."""
    return np.kron(np.eye(len(B)), A) + np.kron(B, np.eye(len(A)))


def naive_solve(A, B, C, rcond=None):
    """Return the least-squares solution of least norm, and the rank, of the big system."""
    w, _, rank, _ = np.linalg.lstsq(kronecker(A, B), C.T.reshape(-1), rcond=rcond)
    return w.reshape(C.T.shape).T, rank


def relative_error(got, expected):
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


sizes = st.integers(1, 7)
seeds = st.integers(0, 2**32 - 1)


def drawn_problem(seed, d, k):
    """Return a well-conditioned A, B, C, with B indefinite for about half of the seeds."""
    rng = np.random.default_rng(seed)
    A = symmetric(rng, rng.uniform(1, 4, d))
    B = symmetric(rng, rng.uniform(-0.5, 2, k))
    return A, B, rng.standard_normal((d, k)), rng


@each_path
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_known_solution_is_found_to_the_precision_of_the_dtype(case, dtype, path):
    A, B, C, W = known_problem(case, dtype)
    got = solve(A, B, C, path=path)
    assert got.status is Status.SOLVED
    assert got.value.dtype == dtype
    eps = np.finfo(dtype).eps
    spectra = (np.linalg.eigvalsh(M.astype(float)) for M in (A, B))
    sums = np.add.outer(*spectra)
    expected = sums.min(), np.abs(sums).min(), np.abs(sums).max()
    stats = got.stats.smallest, got.stats.gap, got.stats.scale
    np.testing.assert_allclose(stats, expected, rtol=0, atol=40 * eps * expected[2])
    assert got.stats.iterations == 0
    is_minimum = np.linalg.eigvalsh(kronecker(A, B))[0] > 0
    assert (got.stats.smallest > 0) == is_minimum == (case in DEFINITE)
    for expected in (W, scipy.linalg.solve_sylvester(A, B, C)):
        assert relative_error(got.value, expected) < 20 * eps * got.stats.scale / got.stats.gap
    # However bad the condition, the residual is that of a backward stable method.
    A, B, C, W = (M.astype(float) for M in (A, B, C, got.value))
    size = (np.linalg.norm(A, 2) + np.linalg.norm(B, 2)) * np.linalg.norm(W)
    assert np.linalg.norm(A @ W + W @ B - C) < 20 * eps * size


@each_path
@given(seeds, sizes, sizes)
@settings(deadline=None, max_examples=25)
def test_the_kronecker_system_agrees(path, seed, d, k):
    A, B, C, _ = drawn_problem(seed, d, k)
    expected, rank = naive_solve(A, B, C)
    assert rank == d * k
    got = solve(A, B, C, path=path).value
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@given(seeds, st.floats(0.1, 20), st.floats(0.5, 20))
@settings(deadline=None, max_examples=25)
def test_a_transformed_factor_is_the_factor_of_the_transformed_matrix(seed, scale, shift):
    A, B, C, _ = drawn_problem(seed, 6, 3)
    factor = Factor.from_matrix(A).rescale(scale=scale, shift=shift)
    solution, fresh = solve(factor, B, C), solve(scale * A + shift * np.eye(6), B, C)
    np.testing.assert_allclose(solution.value, fresh.value, rtol=0, atol=1e-12)
    twice = factor.rescale(scale=2, shift=1).rescale(scale=0.5, shift=-0.25)
    np.testing.assert_allclose(twice.values, factor.values + 0.25, rtol=1e-12)
    assert dataclasses.astuple(solution.stats) == pytest.approx(dataclasses.astuple(fresh.stats))


@each_path
def test_only_the_symmetric_part_of_a_matrix_counts(path):
    A, B, C, _ = known_problem("random", np.float64)
    skewed = solve(A + np.triu(A) - np.tril(A), B, C, path=path)
    np.testing.assert_allclose(skewed.value, solve(A, B, C, path=path).value, atol=1e-13)


@each_path
@all_pairs({"dtype": DTYPES, "consistent": [True, False], "seed": range(4)})
def test_a_singular_equation_gets_the_least_squares_solution_of_least_norm(
    seed, consistent, dtype, path
):
    rng = np.random.default_rng(seed)
    A = symmetric(rng, np.array([-1.0, 0.5, 2.0, 2.0, 3.0])).astype(dtype)
    B = symmetric(rng, np.array([-2.0, 0.7, 1.0])).astype(dtype)  # three vanishing sums
    C = rng.standard_normal((5, 3)).astype(dtype)
    if consistent:
        C = A @ C + C @ B
    solution = solve(A, B, C, path=path)
    expected, rank = naive_solve(*(M.astype(float) for M in (A, B, C)), 1e3 * np.finfo(dtype).eps)
    assert rank == 12
    assert solution.status is Status.SINGULAR
    assert relative_error(solution.value, expected) < 200 * np.finfo(dtype).eps


@each_path
@all_pairs({"n": [1, 2, 5, 20, 60], "dtype": DTYPES})
def test_canceling_spectra_are_found_singular_at_any_size(n, dtype, path):
    rng = np.random.default_rng(n)
    A = symmetric(rng, rng.uniform(0.5, 2, n)).astype(dtype)
    solution = solve(A, -A, rng.standard_normal((n, n)).astype(dtype), path=path)
    assert solution.status is Status.SINGULAR
    assert np.all(np.isfinite(solution.value))
    zero = solve(0 * A, 0 * A, A, path=path)
    assert zero.status is Status.SINGULAR
    np.testing.assert_array_equal(zero.value, 0 * A)


@each_path
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_near_singular_lies_between_rounding_and_three_quarters_of_the_digits(dtype, sign, path):
    eps = float(np.finfo(dtype).eps)
    lam, omega, scale = np.array([1.0, 1.5, 3.0]), np.array([-1.0, 0.5]), 3.5
    rounding, near = 4 * 3**0.5 * eps * (3.0 + 1.0), eps**0.75 * scale
    C = np.ones((3, 2), dtype=dtype)

    def at(gap):
        shifted = (lam + np.array([sign * gap, 0, 0])).astype(dtype)
        return solve(np.diag(shifted), np.diag(omega.astype(dtype)), C, path=path)

    assert at(0.9 * rounding).status is Status.SINGULAR
    assert at(0.9 * rounding).value[0, 0] == 0
    between = at(1.1 * rounding)
    assert between.status is Status.NEAR_SINGULAR
    assert between.value[0, 0] == pytest.approx(1 / (sign * between.stats.gap))
    assert at(0.9 * near).status is Status.NEAR_SINGULAR
    assert at(1.1 * near).status is Status.SOLVED


@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3), (2, 2, 3)])
def test_a_factor_needs_a_square_matrix(shape):
    with pytest.raises(ValueError, match=r"square matrix; got shape \(.*Pass A") as error:
        Factor.from_matrix(np.ones(shape))
    assert str(shape) in str(error.value)


@each_path
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_factor_needs_finite_values(value, path):
    A, B, C, _ = known_problem("random", np.float64)
    A[1, 2] = A[2, 1] = value
    with pytest.raises(ValueError, match=r"needs finite values; got NaN or infinity\. Remove"):
        solve(A, B, C, path=path)


@pytest.mark.parametrize("shape", [(K, D), (D, K + 1), (D + 1, K), (D,), (D, K, 1)])
def test_the_right_hand_side_must_fit(shape):
    A, B, _, _ = known_problem("random", np.float64)
    with pytest.raises(ValueError, match=r"must have shape \(12, 5\).*got.*Transpose") as error:
        solve(A, B, np.ones(shape))
    assert str(shape) in str(error.value)


def test_a_negative_scale_would_reverse_the_order_of_the_values():
    with pytest.raises(ValueError, match=r"`scale` must be at least 0.*got -0\.5\. Factorize"):
        Factor.from_matrix(np.eye(2)).rescale(scale=-0.5)
