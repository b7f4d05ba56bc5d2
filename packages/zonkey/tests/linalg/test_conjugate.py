"""Conjugate gradients against dense Kronecker systems: coupled rows, batches, float32 steps."""

from dataclasses import replace

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.bpl import lowrank
from zonkey.bpl.lowrank import (
    Operator,
    SharedInverse,
    conjugate_gradients,
    refine_by_inverse,
    refine_in_single,
)


def drawn(seed=0, *, batch=(), k=3, d=8, r=4, q=None):
    """Return an operator, coupled where there are q classes, and a right-hand side."""
    rng = np.random.default_rng(seed)
    D, w = rng.uniform(1, 4, size=(*batch, k, d)), rng.uniform(0, 2, size=(*batch, r))
    G, R = rng.normal(size=(*batch, d, r)), rng.normal(size=(*batch, k, d))
    coupling = ()
    if q is not None:
        # Of either sign, and small enough for D to keep the sum definite.
        coupling = rng.normal(size=(*batch, q, k)), rng.uniform(-0.05, 0.2, size=(*batch, q))
    return Operator(D, G, w, *coupling), R


def dense(operator):
    """Return the matrix, kd x kd, of an operator without further axes, entry by entry."""
    k, d = operator.diagonal.shape
    M = np.zeros((k, d, k, d))
    for a in range(k):
        for i in range(d):
            M[a, i, a, i] += operator.diagonal[a, i]
            for j in range(d):
                M[a, i, a, j] += sum(
                    operator.w[s] * operator.G[i, s] * operator.G[j, s]
                    for s in range(len(operator.w))
                )
            if operator.e is not None:
                for b in range(k):
                    M[a, i, b, i] += sum(
                        operator.e[c] * operator.Y[c, a] * operator.Y[c, b]
                        for c in range(len(operator.e))
                    )
    return M.reshape(k * d, k * d)


def part(operator, position):
    """Return one problem of a batch."""
    names = ("diagonal", "G", "w", "Y", "e")
    parts = (getattr(operator, name) for name in names)
    return Operator(*(None if M is None else M[position] for M in parts))


def exact(operator, R):
    """Solve every problem of a batch densely."""
    Z = np.empty_like(R)
    for position in np.ndindex(*R.shape[:-2]):
        one, own = part(operator, position), R[position]
        Z[position] = np.linalg.solve(dense(one), own.reshape(-1)).reshape(own.shape)
    return Z


def errors(got, expected, coupled):
    axes = (-2, -1) if coupled else -1
    return np.sqrt(np.sum((got - expected) ** 2, axis=axes) / np.sum(expected**2, axis=axes))


both_couplings = pytest.mark.parametrize("q", [None, 1, 5])


@all_pairs({"q": [None, 1, 5], "batch": [(), (2,), (2, 3)], "tol": [1e-13, 1e-6]})
def test_the_solution_is_that_of_the_dense_system(q, batch, tol):
    operator, R = drawn(2, batch=batch, q=q)
    expected = exact(operator, R)
    Z, steps, converged = conjugate_gradients(operator, R, None, tol)
    assert converged
    assert 0 < steps < 40
    # The error is told by the residual over the diagonal, between 1 and 4, of a sum below 40.
    assert errors(Z, expected, q is not None).max() < 10 * tol
    assert conjugate_gradients(operator, R, expected, max(tol, 1e-12))[1] == 0


def test_the_right_preconditioner_leaves_one_step():
    operator, R = drawn(4, batch=(2, 3), k=2, d=20, r=9)
    D = operator.diagonal[:, 0]
    G = operator.G[:, 0] * np.sqrt(operator.w[:, 0])[:, None, :]
    same = Operator(D[:, None], G[:, None], np.ones((2, 1, 9)))
    inverse = SharedInverse(D, G)
    assert conjugate_gradients(same, R, None, 1e-12, inverse)[1:] == (1, True)
    assert conjugate_gradients(same, R, None, 1e-12)[1] > 1
    # A neighbor serves too, in a few steps more.
    near = Operator(D[:, None], G[:, None] * 1.01, np.ones((2, 1, 9)))
    Z, steps, converged = conjugate_gradients(near, R, None, 1e-12, inverse)
    spread = Operator(*(np.repeat(M, 3, axis=1) for M in (near.diagonal, near.G, near.w)))
    assert converged
    assert 1 < steps < conjugate_gradients(near, R, None, 1e-12)[1]
    assert errors(Z, exact(spread, R), False).max() < 1e-11


@both_couplings
def test_an_error_that_is_enough_ends_the_iteration(q):
    operator, R = drawn(5, d=20, r=12, q=q)
    expected = exact(operator, R)
    shape = (1, 1) if q is not None else (3, 1)
    enough = np.full(shape, 1e-3**2)
    Z, steps, converged = conjugate_gradients(operator, R, None, 1e-14, enough=enough)
    assert converged
    assert 0 < steps < conjugate_gradients(operator, R, None, 1e-14)[1]
    assert 1e-8 < np.abs(Z - expected).max() < 1e-2
    assert conjugate_gradients(operator, R, None, 1e-14, enough=enough * 1e12)[1] == 0


@pytest.mark.parametrize("sign", [-1, 1])
@both_couplings
def test_the_size_of_a_problem_does_not_matter(q, sign):
    operator, R = drawn(6, batch=(2,), q=q)
    for solver, exponent in ((conjugate_gradients, 250), (refine_in_single, 120)):
        sizes = 10.0 ** np.array([sign * exponent, 0])[:, None, None]
        plain, scaled = (solver(operator, by * R, np.zeros_like(R), 1e-12)[0] for by in (1, sizes))
        np.testing.assert_allclose(scaled / sizes, plain, rtol=0, atol=1e-11)


@given(
    seed=st.integers(0, 2**32 - 1),
    tol=st.sampled_from([1e-13, 1e-9, 1e-7, 1e-3]),
    q=st.none() | st.integers(1, 6),
    far=st.integers(-8, 2),
)
@settings(deadline=None, max_examples=40)
def test_steps_in_single_precision_reach_the_tolerance_asked_for(seed, tol, q, far):
    operator, R = drawn(seed, batch=(2,), q=q)
    expected = exact(operator, R)
    start = expected * (1 + 10.0**far * np.random.default_rng(seed).normal(size=R.shape))
    Z, _, converged = refine_in_single(operator, R, start, tol)
    assert converged
    assert Z.dtype == np.float64
    assert errors(Z, expected, q is not None).max() < 10 * tol


@both_couplings
def test_single_steps_take_a_single_preconditioner(q):
    operator, R = drawn(7, batch=(2, 1), q=q)
    dtypes = set()

    def inverse(M):
        dtypes.add(M.dtype)
        return M / operator.diagonal.astype(np.float32)

    Z, _, converged = refine_in_single(operator, R, np.ones_like(R), 1e-11, inverse)
    assert converged
    assert dtypes == {np.dtype(np.float32)}
    assert errors(Z, exact(operator, R), q is not None).max() < 1e-10


def test_rows_of_zero_stay_zero_and_disturb_no_other():
    operator, R = drawn(8)
    R[1] = 0
    for solver in (conjugate_gradients, refine_in_single):
        Z, _, converged = solver(operator, R, np.zeros_like(R), 1e-12)
        assert converged
        np.testing.assert_array_equal(Z[1], 0)
        np.testing.assert_allclose(Z, exact(operator, R), rtol=0, atol=1e-11)
        Z, steps, converged = solver(operator, 0 * R, np.zeros_like(R), 1e-12)
        assert (steps, converged, Z.any()) == (0, True, False)


@pytest.mark.parametrize("limit", ["_MAX_STEPS", "_MAX_REFINEMENTS"])
def test_what_was_cut_short_says_so(monkeypatch, limit):
    operator, R = drawn(9, d=20, r=12)
    monkeypatch.setattr(lowrank, limit, 1)
    assert not refine_in_single(operator, R, np.ones_like(R), 1e-12)[2]
    # A tolerance of float32 needs one refinement only.
    assert refine_in_single(operator, R, np.ones_like(R), 1e-3)[2] is (limit != "_MAX_STEPS")


@both_couplings
@pytest.mark.parametrize(("smallest", "size"), [(1e-8, 0.1), (1e-4, 10.0), (1e-2, 1.0)])
def test_what_single_precision_cannot_do_is_not_called_done(smallest, size, q):
    """The diagonal spans many decades, and the update is large beside its smallest entries."""
    rng = np.random.default_rng(8)
    operator, R = drawn(8, d=20, r=12, q=q)
    D = 10.0 ** rng.uniform(np.log10(smallest), 0, size=operator.diagonal.shape)
    operator = replace(operator, diagonal=D, G=size * operator.G)
    if q is not None:
        operator = replace(operator, e=np.abs(operator.e))
    expected = exact(operator, R)
    start = expected * (1 + 0.01 * rng.normal(size=R.shape))
    Z, _, converged = refine_in_single(operator, R, start, 2.5e-7)
    assert not converged or errors(Z, expected, q is not None).max() < 1e-5


def indefinite(seed, batch=(2, 3), k=2, d=10, r=3):
    """Return an operator of which some diagonals are negative, a right-hand side and columns."""
    operator, R = drawn(seed, batch=batch, k=k, d=d, r=r)
    signs = np.sign(np.random.default_rng(seed).normal(size=operator.diagonal.shape) + 0.7)
    operator = replace(operator, diagonal=signs * operator.diagonal)
    return operator, R, operator.G * np.sqrt(operator.w)[..., None, :]


def flat_inverse(D, G):
    """Return the inverse of each problem of a batch of any shape."""
    inverse = SharedInverse(D.reshape(-1, *D.shape[-2:]), G.reshape(-1, *G.shape[-2:]))
    return lambda M: inverse(M.reshape(-1, 1, *M.shape[-2:])).reshape(M.shape)


@pytest.mark.parametrize("near", [0.0, 1e-5, -1e-5])
@pytest.mark.parametrize("seed", range(5))
def test_an_inverse_nearby_solves_indefinite_operators(seed, near):
    operator, R, F = indefinite(seed)
    expected = exact(operator, R)
    problems = (dense(part(operator, position)) for position in np.ndindex(2, 3))
    assert min(np.linalg.eigvalsh(M)[0] for M in problems) < 0
    Z, converged = refine_by_inverse(
        operator, R, 1e-12, flat_inverse(operator.diagonal, (1 + near) * F)
    )
    assert converged.shape == (2, 3)
    assert converged.all()
    assert errors(Z, expected, True).max() < 1e-11


def test_refinement_tells_which_problems_it_did_not_solve():
    operator, R, F = indefinite(1)
    F[0, 1] *= 3  # far from the inverse of this problem
    Z, converged = refine_by_inverse(operator, R, 1e-12, flat_inverse(operator.diagonal, F))
    assert converged.tolist() == [[True, False, True], [True, True, True]]
    assert errors(Z, exact(operator, R), True)[converged].max() < 1e-11


def test_small_corrections_that_do_not_shrink_are_not_trusted():
    # The inverse knows a direction as -1 that is 1e-6: its corrections are small, the error is not.
    D = np.ones((1, 1, 4))
    D[..., 0], D[..., 1] = 1e-6, 1e-8
    inverted = 1 / D
    inverted[..., 0] = -1.0
    operator = Operator(D, np.zeros((1, 4, 1)), np.zeros((1, 1)))
    Z, converged = refine_by_inverse(operator, np.ones((1, 1, 4)), 5e-7, lambda M: inverted * M)
    assert abs(Z[0, 0, 0] - 1e6) > 1e5
    assert not converged.any()
    _, converged = refine_by_inverse(operator, np.ones((1, 1, 4)), 1e-12, lambda M: np.nan * M)
    assert not converged.any()


@all_pairs({"dtype": [np.float32, np.float64], "size": [1e-18, 1.0, 1e18]})
def test_corrections_that_grow_end_the_refinement_without_overflow(dtype, size):
    D = np.full((2, 1, 3), 1.0, dtype)
    inverted = np.ones((2, 1, 3), dtype)
    inverted[1] = 1e4
    operator = Operator(D, np.zeros((2, 3, 1), dtype), np.zeros((2, 1), dtype))
    R = np.full((2, 1, 3), size, dtype)
    Z, converged = refine_by_inverse(operator, R, 1e-5, lambda M: inverted * M)
    assert Z.dtype == dtype
    assert converged.tolist() == [True, False]
    np.testing.assert_allclose(Z[0], R[0])


def test_conjugate_gradients_end_at_negative_curvature():
    operator, R, _ = indefinite(2)
    inverted = 1 / np.abs(operator.diagonal)
    _, steps, converged = conjugate_gradients(operator, R, None, 1e-12, lambda M: inverted * M)
    assert (steps, converged) == (1, False)
