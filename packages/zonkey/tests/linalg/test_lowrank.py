"""Low-rank updates against a fresh solve of the dense matrix."""

import tracemalloc

import array_api_strict
import numpy as np
import pytest
from all_pairs import all_pairs
from equations import orthogonal, symmetric
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.bpl import lowrank
from zonkey.bpl.lowrank import UpdatedFactor
from zonkey.bpl.sylvester import Status, solve
from zonkey.bpl.symmetric import Factor

DTYPES = [np.float64, np.float32]


class Iterative(UpdatedFactor):
    """Conjugate gradients at any size: small problems would always be solved directly."""

    def is_iterative(self, k):  # noqa: ARG002 (the signature of the parent)
        return True


def drawn(d=9, k=3, r=4, *, lam=(1.0, 3.0), omega=(0.0, 2.0), seed=0, dtype=np.float64):
    """Return A, B, C, F, w with uniform spectra of A and B."""
    rng = np.random.default_rng(seed)
    A = symmetric(rng, rng.uniform(*lam, d))
    B = symmetric(rng, rng.uniform(*omega, k))
    C, F = rng.standard_normal((d, k)), rng.standard_normal((d, r))
    w = rng.uniform(0.2, 2, r)
    return tuple(M.astype(dtype) for M in (A, B, C, F, w))


def both(A, B, C, F, w, *, scale=1.0, shift=0.0, kind=Iterative):
    """Return the solution by the update and the one by the dense matrix."""
    terms = {"scale": scale, "shift": shift, "weights": w}
    family = kind(A, Factor.from_matrix(A), F)
    return family.solve(Factor.from_matrix(B), C, **terms), solve(family.to_dense(**terms), B, C)


def relative_error(got, expected):
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 10),
    k=st.integers(1, 4),
    scale=st.floats(0.05, 10),
    shift=st.floats(0, 5),
    weights=st.lists(st.just(0.0) | st.floats(0.001, 10), max_size=20),
    indefinite=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_the_update_equals_a_fresh_solve(seed, d, k, scale, shift, weights, indefinite):
    # The smallest sum of eigenvalues stays at or above scale / 4 when B is indefinite.
    omega = (-0.75 * scale - shift, -0.1 * scale) if indefinite else (0.0, 2.0)
    A, B, C, F, _ = drawn(d, k, len(weights), omega=omega, seed=seed)
    family = UpdatedFactor(A, Factor.from_matrix(A), F)
    dense = family.to_dense(scale=scale, shift=shift, weights=np.array(weights))
    low_rank = sum((w * np.outer(f, f) for w, f in zip(weights, F.T, strict=True)), 0 * A)
    np.testing.assert_allclose(dense, scale * A + low_rank + shift * np.eye(d), atol=1e-12)
    got, expected = both(A, B, C, F, np.array(weights), scale=scale, shift=shift)
    assert got.status is expected.status is Status.SOLVED
    assert relative_error(got.value, expected.value) < 1e-11
    assert got.stats.iterations > 0, "the direct solve stood in"
    assert 0 < got.stats.smallest <= expected.stats.smallest * (1 + 1e-12) + 1e-12
    assert got.stats.smallest == pytest.approx(
        scale * np.linalg.eigvalsh(A)[0] + shift + np.linalg.eigvalsh(B)[0], abs=1e-11
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "k", "r"), [(300, 6, 0), (300, 1, 1), (300, 6, 5), (300, 1, 20)])
def test_by_default_the_cheap_updates_are_iterative(d, k, r, dtype):
    A, B, C, F, w = drawn(d, k, r, omega=(-0.5, 2), seed=1, dtype=dtype)
    terms = {"scale": np.float64(0.9), "shift": np.float64(0.1)}  # which do not widen float32
    got, expected = both(A, B, C, F, w, **terms, kind=UpdatedFactor)
    assert 1 <= got.stats.iterations <= r + 4
    assert got.value.dtype == expected.value.dtype == dtype
    assert relative_error(got.value, expected.value) < 500 * np.finfo(dtype).eps


@all_pairs({"dtype": DTYPES, "ridge": [1e-2, 1e-4, 1e-8, 1e-12], "overlap": [0.0, 1.0]})
def test_eigenvalues_that_the_update_lifts_cost_no_digits(ridge, overlap, dtype):
    """A is all but singular where F acts, so that A alone would give a huge W there."""
    rng = np.random.default_rng(2)
    U = orthogonal(rng, 30)
    A = (U * np.r_[np.zeros(3), np.linspace(1, 2, 27)]) @ U.T
    F = 3 * U[:, :3] + overlap * rng.standard_normal((30, 3)) / 10
    A, F, C = (M.astype(dtype) for M in (A, F, rng.standard_normal((30, 2))))
    B, w = np.zeros((2, 2), dtype=dtype), np.ones(3, dtype=dtype)
    got, expected = both(A, B, C, F, w, shift=ridge)
    assert got.status is expected.status is Status.SOLVED
    assert relative_error(got.value, expected.value) < 500 * np.finfo(dtype).eps


@pytest.mark.parametrize("ridge", [1e-18, 1e-14])
def test_a_singular_sum_is_reported_although_rounding_made_it_positive(ridge):
    A = np.diag([0.0, 0.0, 1.0, 2.0, 3.0])
    F = np.array([[0.0, 1.0, 1.0, 0.0, 0.0]]).T  # leaves the first coordinate alone
    got, expected = both(A, np.zeros((1, 1)), np.ones((5, 1)), F, np.ones(1), shift=ridge)
    assert got.status is expected.status
    assert got.status in (Status.SINGULAR, Status.NEAR_SINGULAR)
    np.testing.assert_array_equal(got.value, expected.value)


def test_no_new_factorization_and_one_change_of_basis_of_F(monkeypatch):
    A, B, C, F, w = drawn()
    factor_of_A, factor_of_B = Factor.from_matrix(A), Factor.from_matrix(B)
    family = Iterative(A, factor_of_A, F)
    expected = [solve(family.to_dense(scale=s, shift=0.1, weights=w), B, C) for s in (0.5, 2.0)]
    monkeypatch.setattr(Factor, "from_matrix", None)
    moved = []
    to_basis = Factor.to_basis
    monkeypatch.setattr(Factor, "to_basis", lambda self, M: moved.append(M) or to_basis(self, M))
    for s, fresh in zip((0.5, 2.0), expected, strict=True):
        got = family.solve(factor_of_B, C, scale=s, shift=0.1, weights=w)
        assert relative_error(got.value, fresh.value) < 1e-12
    assert sum(M is F for M in moved) == 1


# Where conjugate gradients are not to be had


def refuse(*args):
    raise AssertionError("conjugate gradients were called")


@pytest.mark.parametrize(
    ("d", "r", "k", "iterative", "xp"),
    [
        # A direct solve takes as long as 10, 42, 17, 29, 15 and 230 steps, on one core.
        (60, 40, 3, False, np),
        (500, 20, 100, True, np),
        (500, 150, 100, False, np),
        (1280, 300, 150, True, np),
        (1280, 750, 150, False, np),
        (2048, 150, 85, True, np),
        # Other arrays count the operations of an eigendecomposition: 20 steps of 4 r d k operations
        # against 20 d^3.
        (10, 24, 1, True, array_api_strict),
        (10, 25, 1, False, array_api_strict),
        (10, 5, 5, False, array_api_strict),
        (1, 0, 9, True, array_api_strict),
    ],
)
def test_the_cheaper_way_is_chosen(d, r, k, iterative, xp):
    A, F = xp.ones(d), xp.ones((d, r))
    assert UpdatedFactor(A, Factor(A, None), F).is_iterative(k) is iterative


def test_the_direct_solve_stands_in_where_it_is_cheaper(monkeypatch):
    monkeypatch.setattr(lowrank, "conjugate_gradients", refuse)
    got, expected = both(*drawn(6, 3, 12), scale=0.9, shift=0.1, kind=UpdatedFactor)
    np.testing.assert_array_equal(got.value, expected.value)
    assert got.stats == expected.stats


@pytest.mark.parametrize("lowest", [-2.5, 0.0])
def test_the_direct_solve_stands_in_where_the_sum_may_be_indefinite(monkeypatch, lowest):
    monkeypatch.setattr(lowrank, "conjugate_gradients", refuse)
    A, _, C, _, w = drawn(4, 2, 4)
    A, B = np.diag([0.0, 1.0, 2.0, 3.0]), np.diag([lowest, 1.0])
    # With F = 4 I the sum is definite, but A and B alone do not show it.
    got, expected = both(A, B, C, 4 * np.eye(4), 1 + w)
    assert got.status is Status.SOLVED
    assert got.stats.smallest > 0
    assert got.stats == expected.stats
    np.testing.assert_array_equal(got.value, expected.value)


def test_the_direct_solve_stands_in_where_the_iteration_does_not_converge(monkeypatch):
    A, B, C, F, w = problem = drawn(30, 3, 8)
    steps = both(*problem)[0].stats.iterations
    assert steps > 3
    monkeypatch.setattr(lowrank, "_MAX_STEPS", steps)
    assert both(*problem)[0].stats.iterations == steps
    monkeypatch.setattr(lowrank, "_MAX_STEPS", steps - 1)
    got, expected = both(*problem)
    assert got.status is Status.SOLVED
    assert (got.stats, got.stats.iterations) == (expected.stats, 0)
    np.testing.assert_array_equal(got.value, expected.value)
    family = UpdatedFactor(A, Factor.from_matrix(A), F)
    cut = family._iterate(Factor.from_matrix(A), Factor.from_matrix(B), C, w, None)
    assert (cut.status, cut.stats.iterations) == (Status.NOT_CONVERGED, steps - 1)


def test_a_good_start_saves_steps():
    A, B, C, F, w = drawn(60, 3, 40)
    family, B = Iterative(A, Factor.from_matrix(A), F), Factor.from_matrix(B)
    terms = {"scale": 1.0, "shift": 0.1, "weights": w}
    exact = family.solve(B, C, **terms)
    near = exact.value * (1 + 1e-9 * np.random.default_rng(0).normal(size=C.shape))
    warm = family.solve(B, C, **terms, start=near)
    assert 0 < warm.stats.iterations < exact.stats.iterations
    np.testing.assert_allclose(warm.value, exact.value, rtol=1e-11, atol=1e-13)
    nothing = family.solve(B, C, **terms, start=np.zeros_like(C))
    np.testing.assert_array_equal(nothing.value, exact.value)


# Steps, zero columns, sizes of the right-hand side, dtype


# A given by its diagonal


# Whether all eigenvalues are at least x, by the inertia of a small matrix


def levels(values, lam, rng):
    """Return numbers around all the eigenvalues of a sum, and of what was added to."""
    size = np.abs(values).max()
    near = [v + sign * gap * size for v in values for gap in (1e-11, 1e-6) for sign in (1, -1)]
    same = [v + gap * size for v in lam for gap in (0.0, 1e-16, -1e-16, 1e-15, -1e-14, 1e-10)]
    ends = [-1e3, lam[0] - 1, values[-1] + 1, 1e6]
    return [*near, *same, *ends, *rng.uniform(lam[0] - 1, values[-1] + 1, 10)]


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 8),
    weights=st.lists(st.just(0.0) | st.floats(0.001, 10), max_size=10),
    digits=st.integers(0, 3),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
    kind=st.sampled_from(["diagonal", "dense"]),
)
@settings(deadline=None, max_examples=100)
def test_the_smallest_eigenvalue_is_compared_exactly(seed, d, weights, digits, size, kind):
    rng = np.random.default_rng(seed)
    values = np.sort(np.round(rng.uniform(-1, 3, d), digits))  # the fewer digits the more alike
    A = values if kind == "diagonal" else symmetric(rng, values)
    factor = Factor(values, None) if kind == "diagonal" else Factor.from_matrix(A)
    terms = {"scale": rng.uniform(0.1, 2), "shift": rng.uniform(0, 1), "weights": np.array(weights)}
    family = UpdatedFactor(A, factor, size * rng.standard_normal((d, len(weights))))
    expected = np.linalg.eigvalsh(family.to_dense(**terms))
    for x in levels(expected, terms["scale"] * values + terms["shift"], rng):
        if abs(x - expected[0]) > 1e-12 * np.abs(expected).max():
            got = family.is_at_least(float(x), **terms)
            assert got is bool(expected[0] >= x), (x, expected[0])


def test_a_wide_update_needs_no_matrix_of_its_rank():
    rng = np.random.default_rng(0)
    values, r = np.array([-1.0, 2.0, 3.0]), 20_000
    family = UpdatedFactor(values, Factor(values, None), rng.standard_normal((3, r)))
    terms = {"scale": 0.5, "shift": 0.1, "weights": rng.uniform(0, 1e-4, r)}
    least = np.linalg.eigvalsh(family.to_dense(**terms))[0]
    assert least > -0.4  # the update counts
    tracemalloc.start()
    try:
        assert family.is_at_least(least - 1e-9, **terms)
        assert not family.is_at_least(least + 1e-9, **terms)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8e6
