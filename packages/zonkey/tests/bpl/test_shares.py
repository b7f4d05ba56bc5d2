"""Sums of eta and xi in blocks and threads, against loops over matrices of them."""

import tracemalloc

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import LIBRARIES
from reference import assert_sums, eta_and_xi, random_problem
from reference import f as naive_losses

from zonkey import blocks
from zonkey.bpl import assignment
from zonkey.bpl.assignment import Shares, competing_shares

RULES = ["second-best", None, "assigned"]


def in_small_blocks(monkeypatch, *, size=9, n_parts=3):
    """Let blocks be a few rows, parts a few blocks, and hold few weights at a time."""
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(size / 2**12))
    monkeypatch.setattr(blocks, "_MANY", 0)
    monkeypatch.setattr(blocks, "free_threads", lambda: 2)
    monkeypatch.setattr(blocks, "_PARTS", n_parts)
    monkeypatch.setattr(assignment, "_WEIGHTS", 4)


def assert_naive(problem, W, tie_tol, rule):
    arguments = W, problem.X_g, problem.Y_u, problem.targets
    found = competing_shares(*arguments, rule=rule, tie_tol=tie_tol)
    f = naive_losses(W, problem.X_g, problem.Y_u).reshape(-1, len(problem.Y_u))
    for shares, weights in zip(found, eta_and_xi(problem, W, tie_tol, rule), strict=True):
        weights = weights.reshape(f.shape)
        assert_sums(shares, weights, problem.X_g)
        assert shares.loss == pytest.approx(np.sum(weights * f), rel=1e-9, abs=1e-9)
    return found


@all_pairs(
    {
        "rule": RULES,
        "tie_tol": [0.0, 1e-3, 0.3, 50.0],
        "shape": [{"d": 3, "k": 6}, {"d": 6, "k": 3}, {"q": 1}, {"n_g": 1}],
        "size": [1, 9, 2**18],
    }
)
def test_sums_equal_those_of_the_printed_weights(monkeypatch, rule, tie_tol, shape, size):
    in_small_blocks(monkeypatch, size=size)
    problem = random_problem(1, **shape)
    W = np.random.default_rng(1).normal(size=(problem.X.shape[1], problem.Y_u.shape[1])) / 2
    _, xi = assert_naive(problem, W, tie_tol, rule)
    if rule != "second-best":
        assert not xi.of_samples.any()


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    k=st.integers(1, 6),
    q=st.integers(1, 7),
    n_g=st.integers(0, 12),
    tie_tol=st.sampled_from([0.0, 1e-3, 0.5]),
    n_parts=st.integers(1, 4),
)
def test_sums_of_any_shape_in_any_number_of_parts(seed, d, k, q, n_g, tie_tol, n_parts):
    problem = random_problem(seed, d=d, k=k, q=q, n_g=n_g)
    W = np.random.default_rng(seed).normal(size=(d, k))
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_small_blocks(monkeypatch, n_parts=n_parts)
        assert_naive(problem, W, tie_tol, "second-best")


def test_the_projection_of_a_failed_step_gives_no_weight():
    problem = random_problem(3)
    W = np.full((7, 4), np.nan)
    arguments = W, problem.X_g, problem.Y_u, problem.targets
    for shares in competing_shares(*arguments, rule="second-best", tie_tol=0.1):
        assert not shares.of_samples.any()
        assert np.isnan(shares.loss)


@all_pairs({"library": LIBRARIES, "rule": RULES, "shape": [{"d": 3, "k": 6}, {"d": 6, "k": 3}]})
def test_every_library_gives_the_same(monkeypatch, library, rule, shape):
    in_small_blocks(monkeypatch)
    problem = random_problem(4, **shape)
    W = np.random.default_rng(4).normal(size=(shape["d"], shape["k"]))
    arguments = W, problem.X_g, problem.Y_u, problem.targets
    expected = competing_shares(*arguments, rule=rule, tie_tol=0.2)
    found = competing_shares(*map(library, arguments), rule=rule, tie_tol=0.2)
    for got, wanted in zip(found, expected, strict=True):
        for name in ("of_samples", "of_classes", "features"):
            there = library.numpy(getattr(got, name))
            np.testing.assert_allclose(there, getattr(wanted, name), atol=1e-12)
        assert got.loss == pytest.approx(wanted.loss, rel=1e-12)


def test_float32_is_kept(monkeypatch):
    in_small_blocks(monkeypatch)
    problem = random_problem(5)
    W = np.random.default_rng(0).normal(size=(7, 4))
    arrays = (W, problem.X_g, problem.Y_u)
    options = {"rule": "second-best", "tie_tol": 1e-3}
    exact = competing_shares(*arrays, problem.targets, **options)
    single = competing_shares(*(M.astype(np.float32) for M in arrays), problem.targets, **options)
    for got, wanted in zip(single, exact, strict=True):
        for name in ("of_samples", "of_classes", "features"):
            assert getattr(got, name).dtype == np.float32
            np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-4)
        assert got.loss == pytest.approx(wanted.loss, rel=1e-4)


def test_delta_is_eta_less_mu_xi_of_one_problem_or_of_each():
    rng = np.random.default_rng(7)
    X, (f, eta, xi) = rng.normal(size=(2, 3, 6, 4)), rng.random((3, 2, 3, 6, 5))
    mu = rng.random((2, 3))
    sums = Shares.from_weights(eta, X, f), Shares.from_weights(xi, X, f)
    together = sums[0].subtract(sums[1], mu)
    for t, h in np.ndindex(2, 3):
        own = [Shares.from_weights(M[t, h], X[t, h], f[t, h]) for M in (eta, xi)]
        delta = own[0].subtract(own[1], float(mu[t, h]))
        weights = eta[t, h] - mu[t, h] * xi[t, h]
        assert_sums(delta, weights, X[t, h])
        assert delta.loss == pytest.approx(np.sum(weights * f[t, h]))
        for name in ("of_samples", "of_classes", "features"):
            np.testing.assert_allclose(getattr(together, name)[t, h], getattr(delta, name))


def test_memory_grows_with_samples_and_classes_not_with_their_product():
    rng = np.random.default_rng(8)
    X, Y_u, W = rng.normal(size=(6000, 5)), rng.normal(size=(2000, 3)), rng.normal(size=(5, 3))
    tracemalloc.start()
    try:
        competing_shares(W, X, Y_u, np.zeros(6000, int), rule="second-best", tie_tol=1e-3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24e6  # one matrix of losses has 96 MB
