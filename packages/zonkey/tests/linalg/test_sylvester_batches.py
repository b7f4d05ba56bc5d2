"""Batches of Sylvester equations against one equation at a time, in three libraries."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
from equations import equation

from zonkey.bpl.sylvester import Status, solve
from zonkey.bpl.symmetric import Factor, Tridiagonal

D, K = 9, 4


def batch(leading_A, leading_B, leading_C):
    """Return A, B and C with these leading axes, B indefinite now and then."""
    rng = np.random.default_rng(5)

    def stacked(leading, part):
        size = int(np.prod(leading))
        items = [
            equation(rng.uniform(1, 4, D), rng.uniform(-0.9, 2, K), seed=i)[part]
            for i in range(size)
        ]
        return np.reshape(items, (*leading, *items[0].shape))

    return stacked(leading_A, 0), stacked(leading_B, 1), stacked(leading_C, 2)


SHARED = [((), (3,), (3,)), ((), (), (3,)), ((), (3,), ()), ((), (2, 1), (3,)), ((), (1,), (2, 3))]
BATCHES = [*SHARED, ((3,), (3,), (3,)), ((3,), (), ()), ((2, 1), (3,), ()), ((2, 3), (3,), (1,))]


def expected_items(A, B, C):
    leading = np.broadcast_shapes(A.shape[:-2], B.shape[:-2], C.shape[:-2])
    parts = [np.broadcast_to(M, (*leading, *M.shape[-2:])) for M in (A, B, C)]
    values = np.empty(parts[2].shape)
    stats = []
    for index in np.ndindex(leading):
        item = [M[index] for M in parts]
        values[index] = scipy.linalg.solve_sylvester(*item)
        stats.append(solve(*item, path="eigen").stats)
    return values, stats


def check(got, value, stats):
    assert got.status is Status.SOLVED
    assert got.value.shape == value.shape
    np.testing.assert_allclose(np.asarray(got.value), value, rtol=0, atol=1e-12)
    assert got.stats.smallest == pytest.approx(min(s.smallest for s in stats))
    assert got.stats.gap == pytest.approx(min(s.gap for s in stats))
    assert got.stats.scale == pytest.approx(max(s.scale for s in stats))


@pytest.mark.parametrize("leading", BATCHES)
def test_a_batch_is_as_many_equations(leading):
    A, B, C = batch(*leading)
    expected = expected_items(A, B, C)
    check(solve(A, B, C), *expected)
    check(solve(Factor.from_matrix(A), Factor.from_matrix(B), C), *expected)
    if leading in SHARED:
        check(solve(A, B, C, path="tridiagonal"), *expected)
        check(solve(Tridiagonal.from_matrix(A), Factor.from_matrix(B), C), *expected)


def test_a_batch_of_diagonal_B_needs_no_eigenvectors():
    A, _, C = batch((), (), ())
    omega = np.array([[0.5, 1.0, 1.5, 2.0], [-0.5, 0.0, 3.0, 4.0]])
    value, stats = expected_items(A, np.stack([np.diag(row) for row in omega]), C)
    for factor in (Factor.from_matrix(A), Tridiagonal.from_matrix(A)):
        check(solve(factor, Factor(omega, None), C), value, stats)


@pytest.mark.parametrize("path", ["eigen", "tridiagonal"])
def test_the_worst_equation_gives_the_status_and_the_others_their_value(path):
    A, B, C = equation(np.linspace(1, 2, D), np.linspace(0, 1, K))
    identity = np.eye(K)
    near = np.stack([B, B - (1 - 1e-12) * identity])
    assert solve(A, near, C, path=path).status is Status.NEAR_SINGULAR
    mixed = np.stack([B, B - identity, 1e6 * identity])
    got = solve(A, mixed, C, path=path)
    assert got.status is Status.SINGULAR
    for value, matrix in zip(got.value, mixed, strict=True):
        np.testing.assert_allclose(value, solve(A, matrix, C).value, rtol=0, atol=1e-12)
    assert got.stats.smallest == pytest.approx(0, abs=1e-14)
    assert got.stats.scale == pytest.approx(1e6 + 2)


def strict(M):
    return array_api_strict.asarray(M)


def tensor(M):
    return pytest.importorskip("torch").asarray(M)


def test_a_tensor_is_not_reduced_by_LAPACK():
    A, B, C = (tensor(M) for M in equation([1.0, 2.0], [3.0]))
    with pytest.raises(ValueError, match=r"one NumPy matrix.*Tensor, torch\.float64\. Use path"):
        solve(A, B, C, path="tridiagonal")


def test_leading_axes_must_broadcast():
    A, B, C = batch((), (2,), (3,))
    with pytest.raises(ValueError, match=r"got \(\), \(2,\) and \(3,\)\. Give each") as error:
        solve(A, B, C)
    assert "\n" not in str(error.value)
