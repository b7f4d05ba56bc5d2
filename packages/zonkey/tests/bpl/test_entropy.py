"""Eq. 23 (entropyobj) against loops, its gradient against differences, and descent along it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    entropyobj,
    finite_differences,
    over_one_plus_gamma,
    random_problem,
)

from zonkey import blocks
from zonkey.bpl.entropy import EntropyObjective, minimize_entropy
from zonkey.bpl.projection import bidirectional_projection

WEIGHTS = [(0.1, 0.01), (0.6, 0.01), (0.95, 3.0), (0.3, 0.0)]


def objective_of(problem, *, alpha=0.4, beta=0.05, dtype=float):
    return EntropyObjective(
        problem.equations(dtype),
        problem.X_g.astype(dtype),
        problem.Y_u.astype(dtype),
        alpha=alpha,
        beta=beta,
    )


def random_projection(problem, seed=0):
    shape = problem.X.shape[1], problem.Y_u.shape[1]
    return 0.5 * np.random.default_rng(seed).normal(size=shape)


def gradient_of(objective, W):
    return objective.value_and_gradient(W)[1]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    k=st.integers(1, 4),
    q=st.integers(1, 5),
    n_g=st.integers(1, 9),
    weights=st.sampled_from([*WEIGHTS, (1.0, 0.0)]),
)
def test_value_and_gradient_are_those_of_the_printed_objective(seed, d, k, q, n_g, weights):
    problem = random_problem(seed, d=d, k=k, q=q, n_g=n_g)
    W = random_projection(problem, seed)
    alpha, beta = weights
    objective = objective_of(problem, alpha=alpha, beta=beta)
    value, gradient = objective.value_and_gradient(W)
    assert isinstance(value, float)

    def printed(V):
        if alpha < 1:
            return entropyobj(problem, V, alpha, beta)
        return objective.value_and_gradient(V)[0]  # gamma is infinite

    assert value == pytest.approx(printed(W), rel=1e-10)
    expected = finite_differences(printed, W, step=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * max(1, abs(value)))


def hessian_of(problem, alpha, beta):
    """K of the quadratic part, for W row by row."""
    d, k = problem.X.shape[1], problem.Y_u.shape[1]
    A0, B0 = problem.X.T @ problem.X, problem.Y.T @ problem.Y
    seen = np.kron(A0, np.eye(k)) + np.kron(np.eye(d), B0)
    return 2 * (1 - alpha) * seen + 4 * beta * np.eye(d * k)


def stepped(problem, objective, W, t, alpha, beta):
    """W - t (I + t K)^-1 grad F(W), by a dense solve, and what the gradient predicts."""
    gradient = gradient_of(objective, W).ravel()
    K = hessian_of(problem, alpha, beta)
    direction = np.linalg.solve(np.eye(len(K)) + t * K, gradient)
    return W - t * direction.reshape(W.shape), t * gradient @ direction


@pytest.mark.parametrize("step_size", [0.5, 1.0, 30.0, 1e4])
def test_every_step_is_the_longest_of_its_kind_that_passes_the_armijo_test(step_size):
    alpha, beta = 0.7, 0.03
    problem = random_problem(4)
    objective = objective_of(problem, alpha=alpha, beta=beta)
    W = random_projection(problem)
    options = {"step_size": step_size, "tol": 0.0}
    path = minimize_entropy(objective, W, max_iter=12, **options)
    L = np.linalg.eigvalsh(hessian_of(problem, alpha, beta))[-1]
    assert objective.curvature()[0] == pytest.approx(L)
    longest = step_size / L
    t = longest
    for step, change in enumerate(path.changes):
        after = minimize_entropy(objective, W, max_iter=1 + step, **options).W
        before = minimize_entropy(objective, W, max_iter=step, **options).W
        value = path.objective[step]
        assert value == pytest.approx(entropyobj(problem, before, alpha, beta))
        while True:
            expected, promised = stepped(problem, objective, before, t, alpha, beta)
            if objective.value_and_gradient(expected)[0] <= value - 0.5 * promised:
                break
            t /= 2
        np.testing.assert_allclose(after, expected, rtol=1e-7, atol=1e-9)
        assert change == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before))
        t = min(2 * t, longest)
    assert len(path.changes) == 12
    assert (np.diff(path.objective) < 0).all()
    assert path.mu.tolist() == [0.0] * 12
    assert path.statuses == set()


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_converged_means_that_the_gradient_has_shrunk_to_tol(tol):
    problem = random_problem(6)
    objective, W0 = objective_of(problem), random_projection(problem)
    path = minimize_entropy(objective, W0, max_iter=5000, tol=tol)
    first, last = (np.linalg.norm(gradient_of(objective, W)) for W in (W0, path.W))
    assert path.converged
    assert last <= tol * first
    shorter = minimize_entropy(objective, W0, max_iter=len(path.changes) - 1, tol=tol)
    assert not shorter.converged
    assert np.linalg.norm(gradient_of(objective, shorter.W)) > tol * first
    assert shorter.objective == path.objective[:-1]


def test_without_weight_on_the_entropy_descent_ends_in_bpl0():
    problem = random_problem(7)
    objective = objective_of(problem, alpha=0.0, beta=0.2)
    path = minimize_entropy(objective, random_projection(problem), max_iter=5000, tol=1e-10)
    expected = bidirectional_projection(problem.equations(), 0.2).value
    np.testing.assert_allclose(path.W, expected, rtol=1e-6, atol=1e-8)


def test_those_who_watch_see_every_step():
    problem, seen = random_problem(9), []
    path = minimize_entropy(
        objective_of(problem),
        random_projection(problem),
        max_iter=4,
        on_step=lambda *step: seen.append(step),
    )
    changes = path.changes.tolist()
    assert seen == list(zip([1, 2, 3, 4], path.objective[1:], changes, strict=True))


def test_descent_ends_where_rounding_rules():
    problem = random_problem(11, n=6, d=2, k=2, n_g=3)
    path = minimize_entropy(
        objective_of(problem), random_projection(problem), max_iter=10**5, tol=0
    )
    assert len(path.changes) < 10**4
    assert np.isfinite(path.W).all()


def test_entropies_that_are_known():
    problem = random_problem(12, q=1)
    objective, W = objective_of(problem), random_projection(problem)
    value, gradient = objective.value_and_gradient(W)
    assert value == pytest.approx(over_one_plus_gamma(problem, W, 0.0, 0.4, 0.05))
    seen = 0.6 * problem.equations().loss_and_gradient(W)[1] + 4 * 0.05 * W
    np.testing.assert_allclose(gradient, seen, atol=1e-12)
    # The largest of identical classes, and none of classes so far apart that exp underflows.
    problem = random_problem(13)
    identical = replace(problem, Y_u=np.ones((4, 4)))
    apart = replace(problem, X_g=1e4 * problem.X_g, Y_u=1e4 * problem.Y_u)
    for extreme, entropy in ((identical, 20 * np.log(4)), (apart, 0.0)):
        objective = objective_of(extreme, alpha=1.0, beta=0.0)
        value, gradient = objective.value_and_gradient(random_projection(problem))
        assert value == pytest.approx(entropy, abs=1e-12)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 4))
def test_symmetries_and_repetition(seed, m):
    """m copies of X and of X_g with m beta: F is m times as large, the step m times as short."""
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    W = random_projection(problem, seed)
    Q = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    rows, classes = rng.permutation(20), rng.permutation(4)
    moved = replace(
        problem,
        X=np.tile(problem.X @ Q.T, (m, 1)),
        labels=np.tile(problem.labels, m),
        X_g=np.tile((problem.X_g @ Q.T)[rows], (m, 1)),
        targets=np.tile(problem.targets, m),
        Y_u=problem.Y_u[classes],
    )
    path = minimize_entropy(objective_of(moved, beta=0.05 * m), Q @ W, max_iter=5)
    expected = minimize_entropy(objective_of(problem), W, max_iter=5)
    np.testing.assert_allclose(Q.T @ path.W, expected.W, atol=1e-8)
    np.testing.assert_allclose(path.objective, m * np.array(expected.objective), rtol=1e-9)


def test_float32_is_kept_and_close():
    problem = random_problem(15)
    W = random_projection(problem)
    exact = minimize_entropy(objective_of(problem), W, max_iter=3)
    objective = objective_of(problem, dtype=np.float32)
    single = minimize_entropy(objective, W.astype(np.float32), max_iter=3)
    assert single.W.dtype == gradient_of(objective, single.W).dtype == np.float32
    np.testing.assert_allclose(single.W, exact.W, rtol=0, atol=1e-4 * np.abs(exact.W).max())
    np.testing.assert_allclose(single.objective, exact.objective, rtol=1e-5)


@all_pairs(
    {
        "alpha, beta": [(0.4, 0.01), (0.4, 0.0), (1.0, 0.0)],
        "problem": [
            random_problem(17, q=1, p=1),
            random_problem(18, n=3, p=2, d=12, k=6),
            replace(random_problem(19), Y_u=np.zeros((4, 4))),
            replace(random_problem(19), Y_u=np.zeros((4, 4)), Y_s=np.zeros((5, 4))),
            replace(random_problem(20), X=np.ones((30, 7)), X_g=np.ones((20, 7))),
            replace(random_problem(21), X=np.zeros((30, 7)), Y_s=np.zeros((5, 4))),
        ],
    }
)
def test_degenerate_problems_have_finite_solutions(problem, alpha, beta):
    W0 = bidirectional_projection(problem.equations(), beta).value
    path = minimize_entropy(objective_of(problem, alpha=alpha, beta=beta), W0, max_iter=20)
    assert np.isfinite(path.W).all()
    assert np.isfinite(path.objective).all()
    assert (np.diff(path.objective) <= 0).all()


@all_pairs(
    {"shape": [{"d": 3, "k": 6}, {"d": 6, "k": 3}, {"q": 1}], "size": [1, 9, 50], "n_parts": [1, 3]}
)
def test_blocks_and_threads_change_nothing(monkeypatch, shape, size, n_parts):
    problem = random_problem(22, **shape)
    objective, W = objective_of(problem), random_projection(problem)
    value, gradient = objective.value_and_gradient(W)
    assert value == pytest.approx(entropyobj(problem, W, 0.4, 0.05), rel=1e-10)
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(size / 2**12))
    monkeypatch.setattr(blocks, "_MANY", 0)
    monkeypatch.setattr(blocks, "free_threads", lambda: 2)
    monkeypatch.setattr(blocks, "_PARTS", n_parts)
    again, slope = objective.value_and_gradient(W)
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope, gradient, atol=1e-11 * np.abs(gradient).max())


def test_memory_grows_with_samples_and_classes_not_with_their_product():
    problem = random_problem(23, q=2000, n_g=6000)
    objective, W = objective_of(problem), random_projection(problem)
    tracemalloc.start()
    try:
        objective.value_and_gradient(W)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24e6  # P alone has 96 MB
