"""The tridiagonal factor against dense matrices, and solutions from a kept one."""

import numpy as np
import pytest
import scipy.linalg
from equations import equation

from zonkey.bpl.sylvester import Status, solve
from zonkey.bpl.symmetric import Tridiagonal

# One panel of the symmetric part has 64 rows.
SIZES = [1, 2, 10, 64, 65, 130]
DTYPES = [np.float64, np.float32]


def dense(factor):
    """Return Q and T as matrices."""
    T = (
        np.diag(factor.diagonal)
        + np.diag(factor.off_diagonal, 1)
        + np.diag(factor.off_diagonal, -1)
    )
    return factor.from_basis(np.eye(len(T), dtype=T.dtype)), T


def unsymmetric(d, dtype):
    return np.random.default_rng(d).standard_normal((d, d)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", SIZES)
def test_the_factor_is_that_of_the_symmetric_part(d, dtype):
    M = unsymmetric(d, dtype)
    S = (M + M.T) / 2
    tol = 20 * np.finfo(dtype).eps * d**0.5
    factor = Tridiagonal.from_matrix(M)
    Q, T = dense(factor)
    assert factor.shape == (d, d)
    assert Q.dtype == T.dtype == dtype
    np.testing.assert_allclose(Q @ T @ Q.T, S, rtol=0, atol=tol)
    np.testing.assert_allclose(Q.T @ Q, np.eye(d), rtol=0, atol=tol)
    C = np.random.default_rng(0).standard_normal((2, 3, d, 4)).astype(dtype)
    np.testing.assert_allclose(factor.to_basis(C), Q.T @ C, rtol=0, atol=tol)
    np.testing.assert_allclose(factor.from_basis(C), Q @ C, rtol=0, atol=tol)
    # So are its eigenvalues and eigenvectors.
    S = S.astype(float)
    expected = np.linalg.eigvalsh(S)
    tol = 20 * np.finfo(dtype).eps * np.abs(expected).max()
    values, vectors = factor.eigh()
    assert values.dtype == vectors.dtype == factor.values.dtype == factor.extremes.dtype == dtype
    for got, wanted in (
        (factor.values, expected),
        (factor.extremes, expected[[0, -1]]),
        (values, expected),
        ((vectors * values) @ vectors.T, S),
    ):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tol)


@pytest.mark.parametrize("d", SIZES)
def test_each_column_has_a_system_of_its_own_shift(d):
    factor = Tridiagonal.from_matrix(unsymmetric(d, np.float64))
    _, T = dense(factor)
    rng = np.random.default_rng(1)
    R, shifts = rng.standard_normal((2, 1, d, 3)), rng.uniform(-1, 1, (4, 3)) + 0.1
    Z = factor.solve_shifted(R, shifts)
    assert Z.shape == (2, 4, d, 3)
    for i, j, column in np.ndindex(2, 4, 3):
        system = T + shifts[j, column] * np.eye(d)
        expected = np.linalg.solve(system, R[i, 0, :, column])
        bound = 1e-13 * np.linalg.cond(system) * np.linalg.norm(expected)
        assert np.linalg.norm(Z[i, j, :, column] - expected) <= bound


OMEGA = {
    "definite": np.linspace(0, 2, 5),
    "indefinite": np.linspace(-6, 3, 5),
    "negative": np.linspace(-60, -50, 5),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("omega", OMEGA.values(), ids=OMEGA)
def test_one_factor_serves_scaled_and_shifted_matrices(omega, dtype, monkeypatch):
    A, B, C = equation(np.linspace(0.5, 4, 30), omega, dtype)
    factor = Tridiagonal.from_matrix(A)
    monkeypatch.setattr(Tridiagonal, "from_matrix", None)  # whatever factorizes from here on fails
    for scale, shift in [(1.0, 0.0), (0.3, 0.07), (np.float64(2.0), np.float64(0.4)), (0, 7.3)]:
        matrix = scale * A.astype(float) + shift * np.eye(30)
        got = solve(factor.rescale(scale=scale, shift=shift), B, C)
        expected = scipy.linalg.solve_sylvester(matrix, B.astype(float), C.astype(float))
        sums = np.add.outer(np.linalg.eigvalsh(matrix), omega)
        gap, largest = np.abs(sums).min(), np.abs(sums).max()
        eps = np.finfo(dtype).eps
        assert got.status is Status.SOLVED
        assert got.value.dtype == dtype
        error = np.linalg.norm(got.value - expected) / np.linalg.norm(expected)
        assert error < 20 * eps * largest / gap
        stats = (got.stats.smallest, got.stats.gap, got.stats.scale)
        np.testing.assert_allclose(
            stats, (sums.min(), gap, largest), rtol=0, atol=40 * eps * largest
        )


def test_a_definite_equation_needs_the_extreme_eigenvalues_only():
    A, B, C = equation(np.linspace(0.5, 4, 30), [0.0, 1.0])
    factor = Tridiagonal.from_matrix(A)
    assert solve(factor, B, C).stats.gap == pytest.approx(0.5)
    assert "values" not in vars(factor)


@pytest.mark.parametrize("layout", ["strided", "fortran", "transposed", "read-only"])
def test_the_matrix_may_have_any_layout_and_stays_as_it_is(layout):
    A, B, C = equation(np.linspace(0.5, 4, 70), np.linspace(0, 2, 3))
    skewed = A + np.triu(A) - np.tril(A)
    M = {
        "strided": np.repeat(np.repeat(skewed, 2, axis=0), 3, axis=1)[::2, ::3],
        "fortran": np.asfortranarray(skewed),
        "transposed": skewed.T,
        "read-only": skewed,
    }[layout]
    M.flags.writeable = False
    before = M.copy()
    got = solve(M, B, C, path="tridiagonal")
    np.testing.assert_array_equal(M, before)
    np.testing.assert_allclose(got.value, scipy.linalg.solve_sylvester(A, B, C), atol=1e-13)


def test_a_negative_scale_is_refused():
    with pytest.raises(ValueError, match=r"`scale` must be at least 0.*got -2\. Factorize"):
        Tridiagonal.from_matrix(np.eye(3)).rescale(scale=-2)


@pytest.mark.parametrize(
    "M", [np.eye(3, dtype=int), np.eye(3, dtype=np.float16), np.ones((2, 3, 3))]
)
def test_what_LAPACK_cannot_reduce_is_refused_in_one_line(M):
    with pytest.raises(ValueError, match=r'one NumPy matrix.*got .*Use path="eigen"') as error:
        Tridiagonal.from_matrix(M)
    assert str(M.dtype) in str(error.value)
    assert "\n" not in str(error.value)
