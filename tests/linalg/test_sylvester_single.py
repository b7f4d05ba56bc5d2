"""Solutions of float64 from a factorization of float32, against those of float64."""

import numpy as np
import pytest
import scipy.linalg

from zonkey.linalg import Factor, Status, Tridiagonal, mixed, solve

D, K = 60, 7
OMEGA = np.linspace(0, 1, K)
EPS = np.finfo(float).eps
each_path = pytest.mark.parametrize("path", ["eigen", "tridiagonal"])


def few_small(low):
    """Return eigenvalues of which three are small."""
    return np.r_[low * np.array([1.0, 2.0, 3.0]), np.linspace(0.1, 1, D - 3)]


def relative_error(got, expected):
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


def assert_accurate(got, A, B, C):
    """Demand the residual of a backward stable method, and the error that follows from it."""
    residual = np.linalg.norm(A @ got.value + got.value @ B - C, axis=0)
    assert np.all(residual < 20 * EPS * got.stats.scale * np.linalg.norm(got.value))
    expected = scipy.linalg.solve_sylvester(A, B, C)
    assert relative_error(got.value, expected) < 20 * EPS * got.stats.scale / got.stats.gap


@each_path
@pytest.mark.parametrize("low", [0.1, 1e-3, 1e-5, 1e-6, 1e-7, 1e-9])
def test_refinement_reaches_the_accuracy_of_float64(equation, low, path):
    A, B, C = equation(few_small(low), OMEGA)
    got = solve(A, B, C, path=path, precision="single")
    assert got.status is Status.SOLVED
    assert 2 <= got.stats.iterations < mixed.MAX_STEPS
    assert got.value.dtype == np.float64
    # The eigenvalues are those of float32, or, where these tell nothing, a Rayleigh quotient.
    assert got.stats.smallest == got.stats.gap == pytest.approx(low, rel=1.0, abs=1e-6)
    assert low / 2 < got.stats.gap < 3 * low
    assert got.stats.scale == pytest.approx(2, rel=1e-6)
    assert_accurate(got, A, B, C)


@each_path
def test_each_equation_of_a_batch_is_judged_by_its_own_scale(equation, path):
    A, B, C = equation(few_small(1e-6), OMEGA)
    matrices = np.stack([B, B + 1e6 * np.eye(K)])
    got = solve(A, matrices, C, path=path, precision="single")
    assert got.stats.iterations > 0
    assert got.stats.gap == pytest.approx(1e-6, rel=1.0)
    for matrix, value in zip(matrices, got.value, strict=True):
        expected = solve(A, matrix, C)
        bound = 20 * EPS * expected.stats.scale / expected.stats.gap
        assert relative_error(value, expected.value) < bound


@each_path
@pytest.mark.parametrize("shift", [-1.234, -2.543, -9.0])
def test_an_indefinite_operator_is_refined_too(equation, shift, path):
    A, B, C = equation(np.linspace(1, 2, D) ** 2, OMEGA + shift)
    got = solve(A, B, C, path=path, precision="single")
    expected = solve(A, B, C).stats
    assert got.status is Status.SOLVED
    assert got.stats.iterations >= 2
    assert got.stats.gap == pytest.approx(expected.gap, abs=1e-5)
    assert got.stats.smallest == pytest.approx(expected.smallest, abs=1e-5)
    assert_accurate(got, A, B, C)


HARD = {
    "many small eigenvalues": np.logspace(-10, 0, D),
    "near singular": few_small(1e-12),
    "singular": np.r_[0.0, np.linspace(0.1, 1, D - 1)],
    "indefinite by less than float32 sees": few_small(-1e-8),
    "indefinite and too close to singular": np.r_[-0.93, 1e-8, np.linspace(0.1, 1, D - 2)],
    "zero": np.zeros(D),
    "too large for float32": 1e30 * few_small(1e-2),
    "too small for float32": 1e-30 * few_small(1e-2),
}


@each_path
@pytest.mark.parametrize("lam", HARD.values(), ids=HARD)
def test_what_float32_cannot_do_is_solved_in_float64(equation, lam, path):
    A, B, C = equation(lam, OMEGA * np.abs(lam).max())
    got, expected = (solve(A, B, C, path=path, precision=p) for p in ("single", "double"))
    assert got.status is expected.status
    assert got.stats == expected.stats
    np.testing.assert_array_equal(got.value, expected.value)


@each_path
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_size_of_the_right_hand_side_does_not_matter(equation, size, path):
    A, B, C = equation(few_small(1e-4), OMEGA)
    C[:, 2] = 0
    small, usual = (solve(A, B, s * C, path=path, precision="single") for s in (size, 1.0))
    assert small.stats.iterations > 0
    assert relative_error(small.value / size, usual.value) < 1e-11


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 3), (2, 1), (2, 2)])
@each_path
def test_the_smallest_sizes_are_solved(equation, d, k, path):
    A, B, C = equation(np.linspace(0.5, 1, d), np.linspace(0.1, 2, k))
    got = solve(A, B, C, path=path, precision="single")
    assert got.stats.iterations > 0
    np.testing.assert_allclose(got.value, scipy.linalg.solve_sylvester(A, B, C), rtol=1e-13)


def test_only_the_symmetric_part_counts(equation):
    A, B, C = equation(few_small(1e-2), OMEGA)
    got = solve(A + np.triu(A) - np.tril(A), B, C, precision="single")
    assert got.stats.iterations > 0
    assert_accurate(got, A, B, C)


def test_nothing_is_factorized_in_float64(equation, monkeypatch):
    A, B, C = equation(few_small(1e-2), OMEGA)
    seen = []
    reduced, known = Tridiagonal.of, Factor.of(B)
    monkeypatch.setattr(Tridiagonal, "of", lambda M: seen.append(M.dtype) or reduced(M))
    monkeypatch.setattr(Factor, "of", None)
    solve(A, known, C, path="tridiagonal", precision="single")
    assert seen == [np.float32]
    assert solve(A, known, C, path="eigen", precision="single").stats.iterations > 0


@each_path
def test_float32_equations_and_kept_factors_are_solved_as_ever(equation, path):
    A, B, C = equation(few_small(1e-2), OMEGA, np.float32)
    factor = (Factor if path == "eigen" else Tridiagonal).of(A)
    for matrix in (A, factor):
        got, plain = (solve(matrix, B, C, path=path, precision=p) for p in ("single", "double"))
        assert got.stats.iterations == 0
        np.testing.assert_array_equal(got.value, plain.value)


def test_missing_values_are_refused(equation):
    A, B, C = equation(few_small(1e-2), OMEGA)
    A[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"needs finite values; got NaN or infinity\. Remove"):
        solve(A, B, C, precision="single")
