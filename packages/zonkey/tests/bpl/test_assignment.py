"""f, eta and xi against loops over samples and classes, with every kind of tie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import eta_and_xi, random_problem, subgrad0, subgrad01, subgrad1, subgrad11
from reference import f as naive_losses

from zonkey.bpl import assignment

# Few distinct values, zero among them: ties, near-ties and exact zeros are the rule.
CROWDED = hnp.arrays(
    float,
    st.tuples(st.integers(1, 8), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 1e-12, 1.0, 1.0005, 1.001, 1.05, 2.0, 1e6]),
)
TOLERANCES = st.sampled_from([0.0, 1e-3, 0.0011, 0.1, 3.0])


def shares(f, tie_tol):
    eta, taken = assignment.find_best(f, tie_tol)
    return eta, taken, assignment.find_second_best(f, taken, tie_tol)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 8),
    k=st.integers(1, 5),
    q=st.integers(1, 5),
    n_g=st.integers(1, 10),
)
def test_losses_equal_the_printed_sum_of_two_squared_norms(seed, d, k, q, n_g):
    problem = random_problem(seed, d=d, k=k, q=q, n_g=n_g)
    W = np.random.default_rng(seed + 1).normal(size=(d, k))
    f = assignment.losses(W, problem.X_g, problem.Y_u)
    expected = naive_losses(W, problem.X_g, problem.Y_u)
    assert f.shape == (n_g, q)
    np.testing.assert_allclose(f, expected, rtol=1e-9, atol=1e-12)


def test_losses_are_never_negative_where_they_vanish():
    rng = np.random.default_rng(2)
    W = np.linalg.qr(rng.normal(size=(9, 4)))[0]  # W'W = I: f is zero for x = W y
    Y_u = rng.normal(size=(50, 4))
    f = assignment.losses(W, Y_u @ W.T, Y_u)
    assert (f >= 0).all()
    np.testing.assert_allclose(np.diag(f), 0.0, atol=1e-13)
    np.testing.assert_array_equal(f.argmin(axis=1), np.arange(50))


@settings(deadline=None, max_examples=100)
@given(f=CROWDED, tie_tol=TOLERANCES)
def test_eta_and_xi_equal_the_relaxed_subgradients(f, tie_tol):
    eta, taken, xi = shares(f, tie_tol)
    np.testing.assert_allclose(eta, [subgrad01(f_i, tie_tol) for f_i in f], rtol=1e-15)
    np.testing.assert_allclose(xi, [subgrad11(f_i, tie_tol) for f_i in f], rtol=1e-15)
    np.testing.assert_array_equal(eta > 0, taken)
    if tie_tol == 0:
        np.testing.assert_allclose(eta, [subgrad0(f_i) for f_i in f], rtol=1e-15)
        np.testing.assert_allclose(xi, [subgrad1(f_i) for f_i in f], rtol=1e-15)


def test_the_tolerance_is_relative_and_strict():
    f = np.array([[4.0, 5.0, 100.0]])  # (5 - 4) / 4 is exactly 0.25
    np.testing.assert_array_equal(shares(f, 0.25)[0], [[1, 0, 0]])
    np.testing.assert_array_equal(shares(f, 0.2501)[0], [[0.5, 0.5, 0]])
    np.testing.assert_array_equal(shares(f * 1e-9, 0.2501)[0], [[0.5, 0.5, 0]])


@pytest.mark.parametrize("known", ["nothing", "samples", "both"])
def test_losses_of_a_batch_are_those_of_its_members(known):
    rng = np.random.default_rng(5)
    # Tasks have prototypes of their own, and every episode its own projection and samples.
    W, X_g = rng.normal(size=(2, 3, 6, 4)), rng.normal(size=(2, 3, 7, 6))
    Y_u = rng.normal(size=(2, 1, 5, 4))
    of_X = None if known == "nothing" else np.sum(X_g**2, axis=-1)
    of_XW = np.sum((X_g @ W) ** 2, axis=-1) if known == "both" else None
    f = assignment.losses(W, X_g, Y_u, of_X, of_XW)
    assert f.shape == (2, 3, 7, 5)
    for t, h in np.ndindex(2, 3):
        expected = naive_losses(W[t, h], X_g[t, h], Y_u[t, 0])
        np.testing.assert_allclose(f[t, h], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rule", ["second-best", None, "assigned"])
@pytest.mark.parametrize("tie_tol", [0.0, 0.3])
def test_competing_in_a_batch_is_competing_apart(rule, tie_tol):
    problems = [random_problem(seed, n_g=9) for seed in (7, 8, 9)]
    W = np.random.default_rng(0).normal(size=(7, 4))
    f = np.array([naive_losses(W, p.X_g, p.Y_u) for p in problems])
    f = np.stack([f, f[:, ::-1]])  # two orders of the samples
    # Targets may be shared by a whole axis.
    for targets in (problems[0].targets, np.broadcast_to(problems[0].targets, f.shape[:-1])):
        eta, xi = assignment.compete(f, targets, rule, tie_tol)
        assert eta.shape == xi.shape == f.shape
        for h, problem in enumerate(problems):
            expected = eta_and_xi(problem, W, tie_tol, rule)
            np.testing.assert_array_equal(eta[0, h], expected[0])
            np.testing.assert_array_equal(xi[0, h], expected[1])
            if rule != "assigned":
                np.testing.assert_array_equal(eta[1, h], expected[0][::-1])
                np.testing.assert_array_equal(xi[1, h], expected[1][::-1])
