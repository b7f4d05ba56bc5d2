"""The choice between the paths of the Sylvester solver."""

import numpy as np
import pytest
from equations import equation

from zonkey.bpl.sylvester import cheapest_path, solve
from zonkey.bpl.symmetric import Factor, Tridiagonal


@pytest.mark.parametrize(
    ("path", "sizes"),
    [
        ("tridiagonal", [(512, 85), (1024, 85), (2048, 85), (2048, 312), (2048, 1)]),
        ("eigen", [(1, 1), (5, 3), (20, 20), (10, 5000), (100, 10_000)]),
    ],
)
def test_one_equation_takes_the_tridiagonal_path_if_A_is_large(path, sizes):
    assert {cheapest_path(d, k) for d, k in sizes} == {path}


@pytest.mark.parametrize(("d", "k"), [(512, 85), (2048, 85), (1024, 1000), (4096, 1)])
def test_a_factor_used_often_enough_is_an_eigenbasis(d, k):
    paths = [cheapest_path(d, k, n_solves) for n_solves in (1, 2, 5, 10, 100, 10**3, 10**6)]
    assert paths[-1] == "eigen"
    assert paths == sorted(paths, reverse=True)  # tridiagonal, then eigen for good


def test_as_many_solves_as_columns_cost_the_same():
    for n in (1, 3, 10, 30, 100):
        assert cheapest_path(1000, 12, n_solves=n) == cheapest_path(1000, 12 * n)


@pytest.fixture
def taken(monkeypatch):
    """Record which factorizations of a 300 x 300 matrix are made."""
    seen = []
    for cls in (Factor, Tridiagonal):

        def recorded(M, of=cls.from_matrix, name=cls.__name__):
            if M.shape[-1] == 300:
                seen.append(name)
            return of(M)

        monkeypatch.setattr(cls, "from_matrix", recorded)
    return seen


def test_auto_takes_the_cheapest_path(taken):
    A, B, C = equation(np.linspace(1, 2, 300), np.linspace(0, 1, 5))
    assert cheapest_path(300, 5) == "tridiagonal"
    np.testing.assert_array_equal(solve(A, B, C).value, solve(A, B, C, path="tridiagonal").value)
    assert taken == ["Tridiagonal", "Tridiagonal"]
    assert cheapest_path(300, 5, n_solves=2000) == "eigen"
    solve(A, B, np.broadcast_to(C, (2000, 300, 5)))
    assert taken[2:] == ["Factor"]


@pytest.mark.parametrize("which", ["mixed dtypes", "integers", "tensors", "batch of A"])
def test_auto_leaves_to_the_eigen_path_what_LAPACK_cannot_reduce(taken, which):
    A, B, C = equation(np.linspace(1, 2, 300), np.linspace(0, 1, 5))
    if which == "mixed dtypes":
        A = A.astype(np.float32)
    elif which == "integers":
        A = np.diag(np.arange(1, 301))
    elif which == "tensors":
        torch = pytest.importorskip("torch")
        A, B, C = (torch.asarray(M) for M in (A, B, C))
    else:
        A = A[None]
    got = solve(A, B, C)
    assert taken == ["Factor"]
    residual = A @ got.value + got.value @ B - C
    assert float(abs(residual).max()) < (1e-5 if which == "mixed dtypes" else 1e-12)


def test_an_unknown_path_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match="`path` must be one of auto, eigen, tridiagonal; got 'half'"
    ):
        solve(*equation([1.0], [1.0]), path="half")
