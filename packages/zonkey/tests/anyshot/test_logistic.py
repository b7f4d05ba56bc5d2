"""Pulled logistic regression against loops over the printed objective, and scikit-learn."""

import numpy as np
import pytest
from libraries import in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from zonkey import config_context
from zonkey.anyshot.logistic import fit_pulled

SIZES = [(40, 6, 4), (9, 15, 3), (30, 5, 2), (7, 7, 1)]


def drawn(n=40, d=6, k=4, seed=0, dtype=np.float64):
    """Return samples, codes, weights, pulling weights and intercepts."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    means = rng.normal(size=(k, d))
    X = means[codes] + 1.5 * rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights = rng.uniform(0.5, 2, n)
    start, intercepts = 5 * means + rng.normal(size=(k, d)), rng.normal(size=k)
    arrays = (X, weights / weights.sum(), start, intercepts)
    X, weights, start, intercepts = (M.astype(dtype) for M in arrays)
    return X, codes, weights, start, intercepts


def naive_objective(W, b, X, codes, weights, start, intercepts, strength):
    total = 0.0
    for x, y, weight in zip(X, codes, weights, strict=True):
        scores = [
            sum(v * w for v, w in zip(x, row, strict=True)) + c for row, c in zip(W, b, strict=True)
        ]
        total += weight * (np.log(sum(np.exp(s) for s in scores)) - scores[y])
    pull = sum((v - w) ** 2 for v, w in zip(np.ravel(W), np.ravel(start), strict=True))
    return total + strength * (pull + 10 * sum((b - intercepts) ** 2))


def slopes(W, b, *problem, step=1e-5):
    """Return the derivatives of the naive objective by all weights and intercepts."""
    flat, found = np.concatenate([W.ravel(), b]), []
    for i in range(len(flat)):
        values = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[i] += sign * step
            values.append(
                naive_objective(moved[: W.size].reshape(W.shape), moved[W.size :], *problem)
            )
        found.append((values[0] - values[1]) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("strength", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("size", SIZES)
def test_the_solution_minimizes_the_objective(size, strength):
    problem = *drawn(*size), strength
    W, b = fit_pulled(*problem)
    at_start = np.abs(slopes(problem[3], problem[4], *problem)).max()
    assert np.abs(slopes(W, b, *problem)).max() <= 3e-3 * at_start + 1e-9
    found, rng = naive_objective(W, b, *problem), np.random.default_rng(1)
    for scale in (1e-3, 1e-1, 1.0):
        other = W + scale * rng.normal(size=W.shape), b + scale * rng.normal(size=b.shape)
        assert naive_objective(*other, *problem) >= found * (1 - 1e-6)


@pytest.mark.parametrize("length", [1e-3, 20.0])
def test_the_length_of_samples_does_not_matter(length):
    X, *rest = drawn(seed=4)
    problem = length * X, *rest, 1e-3
    W, b = fit_pulled(*problem)
    at_start = np.abs(slopes(problem[3], problem[4], *problem)).max()
    assert np.abs(slopes(W, b, *problem)).max() <= 3e-3 * at_start


@pytest.mark.parametrize("n", [60, 12])
def test_the_solution_is_that_of_scikit_learn(n):
    X, codes, weights, start, intercepts = drawn(n, 20, 5, seed=2)
    strength = 3e-3
    # A constant feature stands for the intercept, with the same pull as b.
    joined = np.hstack([X, np.full((n, 1), 10**-0.5)])
    model = LogisticRegression(C=1 / (2 * strength), fit_intercept=False, tol=1e-10, max_iter=2000)
    model.fit(joined, codes, sample_weight=weights)
    W, b = fit_pulled(X, codes, weights, 0 * start, 0 * intercepts, strength)
    assert_allclose(W, model.coef_[:, :-1], atol=2e-3 * np.abs(W).max())
    assert_allclose(b, model.coef_[:, -1] * 10**-0.5, atol=2e-3 * np.abs(b).max())


@pytest.mark.parametrize(("strength", "error"), [(np.inf, 0), (1e9, 1e-8)])
def test_a_strong_pull_returns_its_weights(strength, error):
    problem = drawn()
    W, b = fit_pulled(*problem, strength)
    assert_allclose(W, problem[3], rtol=0, atol=error)
    assert_allclose(b, problem[4], rtol=0, atol=error)


@pytest.mark.parametrize("seed", range(3))
def test_a_guess_changes_nothing(seed):
    problem = *drawn(seed=seed), 2e-3
    W, b = fit_pulled(*problem)
    rng = np.random.default_rng(seed)
    guess = W + rng.normal(size=W.shape), b + rng.normal(size=b.shape)
    for found, expected in zip(fit_pulled(*problem, guess=guess), (W, b), strict=True):
        assert_allclose(found, expected, atol=5e-3)
    for found, expected in zip(fit_pulled(*problem, guess=(W, b)), (W, b), strict=True):
        assert_allclose(found, expected, atol=5e-3)
    for found, expected in zip(fit_pulled(*problem), (W, b), strict=True):
        assert_array_equal(found, expected)


def test_a_guess_at_the_solution_costs_no_step():
    problem = *drawn(), 2e-3
    solution = fit_pulled(*problem)
    at_once = fit_pulled(*problem, guess=solution, most_steps=1)
    assert_allclose(at_once[0], solution[0], atol=5e-3)
    none = fit_pulled(*problem, most_steps=0)
    assert_array_equal(none[0], problem[3])


def test_samples_without_weight_are_absent():
    X, codes, weights, start, intercepts = drawn()
    kept = np.arange(len(X)) % 3 > 0
    weights = weights * kept / weights[kept].sum()
    pull = (start, intercepts, 1e-3)
    expected = fit_pulled(X[kept], codes[kept], weights[kept], *pull)
    found = fit_pulled(X, codes, weights, *pull)
    assert_allclose(found[0], expected[0], rtol=1e-8)
    assert_allclose(found[1], expected[1], rtol=1e-8)


@pytest.mark.parametrize("k", [4, 30])
def test_blocks_change_nothing(k):
    problem = *drawn(60, 6, k), 1e-3
    expected = fit_pulled(*problem)
    with config_context(working_memory=0.01):
        found = fit_pulled(*problem)
    assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-7)
    assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-7)


def test_all_parts_of_a_large_problem_count():
    rng = np.random.default_rng(3)
    X, k = rng.normal(size=(40_000, 3)), 30
    codes = rng.integers(k, size=len(X))
    weights = rng.uniform(size=len(X))
    pull = 2 * rng.normal(size=(k, 3)), np.zeros(k), 1e-2
    W, b = fit_pulled(X, codes, weights / weights.sum(), *pull)
    scores = X @ W.T + b
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    residuals = np.exp(scores) - (codes[:, None] == np.arange(k))
    residuals *= (weights / weights.sum())[:, None]
    gradient = residuals.T @ X + 2 * pull[2] * (W - pull[0])
    assert np.abs(gradient).max() < 1e-4


@pytest.mark.parametrize("strength", [1e-2, 1e-5, 1e-9])
def test_single_precision_gives_the_same_probabilities(strength):
    problem = drawn(50, 12, 5)
    single = [M if M is problem[1] else M.astype(np.float32) for M in problem]
    W, b = fit_pulled(*problem, strength)
    found = fit_pulled(*single, strength)
    mixed = fit_pulled(single[0], *problem[1:], strength)
    assert found[0].dtype == found[1].dtype == np.float32
    assert mixed[0].dtype == mixed[1].dtype == np.float64
    expected = proba(problem[0], W, b)
    assert_allclose(proba(problem[0], *found), expected, atol=1e-3)
    assert_allclose(proba(problem[0], *mixed), expected, atol=1e-3)


def proba(X, W, b):
    scores = np.exp(X @ W.T + b)
    return scores / scores.sum(axis=1, keepdims=True)


def test_scores_that_overflow_are_compared():
    X, codes, weights, start, intercepts = drawn(dtype=np.float32)
    W, b = fit_pulled(X, codes, weights, 1e4 * start, intercepts, 1e-9)
    assert np.isfinite(W).all()
    assert np.isfinite(b).all()


@in_every_library
@pytest.mark.parametrize("on_host", [True, False])
def test_libraries_agree(library, on_host):
    X, codes, weights, start, intercepts = drawn(30, 8, 3)
    expected = fit_pulled(X, codes, weights, start, intercepts, 1e-3)
    place = np.asarray if on_host else library
    arrays = library(X), place(codes), place(weights), library(start), library(intercepts)
    found = fit_pulled(*arrays, 1e-3, guess=(library(start + 0.1), library(intercepts)))
    for got, value in zip(found, expected, strict=True):
        assert_allclose(library.numpy(got), value, atol=5e-3)
    unchanged = fit_pulled(*arrays, np.inf)
    assert_array_equal(library.numpy(unchanged[0]), start)

    single = [library(M) for M in drawn(dtype=np.float32)]
    assert fit_pulled(*single, 1e-3)[0].dtype == library.xp.float32
