"""FPL, RPL and BPL0 against least squares, Bartels-Stewart and Kronecker products."""

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import decomposed, finite_differences, random_problem, seen_loss
from scipy.linalg import solve_sylvester

from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import (
    NormalEquations,
    bidirectional_projection,
    forward_projection,
    reverse_projection,
)
from zonkey.bpl.sylvester import Status

BETAS = [1e-3, 0.01, 0.7, 30.0]
MODELS = {
    "FPL": forward_projection,
    "RPL": reverse_projection,
    "BPL0": bidirectional_projection,
}


def forward_objective(problem, W, beta):
    errors = [np.sum((W.T @ x - y) ** 2) for x, y in zip(problem.X, problem.Y, strict=True)]
    return sum(errors) + beta * np.sum(W**2)


def reverse_objective(problem, W, beta):
    errors = [np.sum((x - W @ y) ** 2) for x, y in zip(problem.X, problem.Y, strict=True)]
    return sum(errors) + beta * np.sum(W**2)


def bidirectional_objective(problem, W, beta):
    return forward_objective(problem, W, beta) + reverse_objective(problem, W, beta)


OBJECTIVES = {
    "FPL": forward_objective,
    "RPL": reverse_objective,
    "BPL0": bidirectional_objective,
}


def ridge(features, targets, beta):
    """Least squares on the stacked system [features; sqrt(beta) I] W = [targets; 0]."""
    k = features.shape[1]
    stacked = np.vstack([features, beta**0.5 * np.eye(k)])
    return np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((k, targets.shape[1]))]))[0]


def kronecker(A, B, C):
    """Solve (I (x) A + B' (x) I) vec W = vec C for stacked columns, of least norm."""
    operator = np.kron(np.eye(len(B)), A) + np.kron(B.T, np.eye(len(A)))
    solution = np.linalg.lstsq(operator, C.ravel(order="F"), rcond=1e-12)[0]
    return solution.reshape(C.shape, order="F")


@pytest.mark.parametrize("beta", [0.0, *BETAS])
def test_forward_projection_is_ridge_regression_of_prototypes(beta):
    problem = random_problem(1)
    solution = forward_projection(problem.equations(), beta)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.value, ridge(problem.X, problem.Y, beta), rtol=1e-9)


@pytest.mark.parametrize("beta", [0.0, *BETAS])
def test_reverse_projection_is_ridge_regression_of_features(beta):
    problem = random_problem(2)
    solution = reverse_projection(problem.equations(), beta)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.value, ridge(problem.Y, problem.X, beta).T, rtol=1e-9)


@pytest.mark.parametrize("beta", [0.0, *BETAS])
def test_bidirectional_projection_solves_the_sylvester_equation(beta):
    problem = random_problem(3, d=5, k=3)
    X, Y = problem.X, problem.Y
    solution = bidirectional_projection(problem.equations(), beta)
    A, B, C = X.T @ X + beta * np.eye(5), Y.T @ Y + beta * np.eye(3), 2 * X.T @ Y
    assert solution.status is Status.SOLVED
    assert solution.stats.smallest > 0
    np.testing.assert_allclose(solution.value, solve_sylvester(A, B, C), rtol=1e-9)
    np.testing.assert_allclose(solution.value, kronecker(A, B, C), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beta", BETAS)
def test_gradient_of_the_raw_objective_vanishes(name, beta):
    problem = random_problem(4, n=15, d=5, k=3)
    W = MODELS[name](problem.equations(), beta).value
    gradient = finite_differences(lambda V: OBJECTIVES[name](problem, V, beta), W, step=1e-2)
    assert np.abs(gradient).max() < 1e-8 * OBJECTIVES[name](problem, 0 * W, beta)


@pytest.mark.parametrize("name", MODELS)
def test_solution_is_a_minimum(name):
    problem = random_problem(5)
    W = MODELS[name](problem.equations(), 0.1).value
    lowest = OBJECTIVES[name](problem, W, 0.1)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0, 100.0):
        assert OBJECTIVES[name](problem, W + size * rng.normal(size=W.shape), 0.1) > lowest


def test_singular_forward_projection_without_ridge_is_of_least_norm_and_says_so():
    problem = random_problem(6, n=5, d=9)
    solution = forward_projection(problem.equations(), 0.0)
    assert solution.status is Status.SINGULAR
    np.testing.assert_allclose(solution.value, np.linalg.pinv(problem.X) @ problem.Y, rtol=1e-7)


def test_singular_reverse_projection_without_ridge_is_of_least_norm_and_says_so():
    problem = random_problem(7, p=2, k=6)
    solution = reverse_projection(problem.equations(), 0.0)
    assert solution.status is Status.SINGULAR
    expected = (np.linalg.pinv(problem.Y) @ problem.X).T
    np.testing.assert_allclose(solution.value, expected, rtol=1e-7, atol=1e-10)


def test_singular_bidirectional_projection_without_ridge_is_of_least_norm_and_says_so():
    problem = random_problem(8, n=4, d=6, p=2, k=3)
    X, Y = problem.X, problem.Y
    solution = bidirectional_projection(problem.equations(), 0.0)
    assert solution.status is Status.SINGULAR
    expected = kronecker(X.T @ X, Y.T @ Y, 2 * X.T @ Y)
    np.testing.assert_allclose(solution.value, expected, rtol=1e-7, atol=1e-10)


def test_either_direction_of_full_rank_makes_both_directions_regular():
    problem = random_problem(9, n=4, d=6, p=4, k=3)
    assert forward_projection(problem.equations(), 0.0).status is Status.SINGULAR
    assert bidirectional_projection(problem.equations(), 0.0).status is Status.SOLVED


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), d=st.integers(1, 8), k=st.integers(1, 5))
def test_loss_from_moments_equals_loss_from_samples(seed, n, d, k):
    problem = random_problem(seed, n=n, d=d, k=k, p=min(n, 3))
    W = np.random.default_rng(seed + 1).normal(size=(d, k))
    loss = problem.equations().loss(W)
    assert isinstance(loss, float)
    assert loss == pytest.approx(seen_loss(problem, W), rel=1e-11)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), d=st.integers(1, 6), k=st.integers(1, 4))
def test_gradient_of_the_loss_equals_finite_differences_over_samples(seed, n, d, k):
    problem = random_problem(seed, n=n, d=d, k=k, p=min(n, 3))
    W = np.random.default_rng(seed + 1).normal(size=(d, k))
    expected = finite_differences(lambda V: seen_loss(problem, V), W, step=1e-2)
    scale = seen_loss(problem, W)
    loss, gradient = problem.equations().loss_and_gradient(W)
    assert loss == pytest.approx(problem.equations().loss(W), rel=1e-12)
    np.testing.assert_allclose(gradient, expected, atol=1e-11 * scale)


def test_loss_of_a_perfect_projection_is_zero():
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(6, 3)))[0]  # W'W = I: both directions are exact
    Y = rng.normal(size=(10, 3))
    X = Y @ W.T
    equations = NormalEquations(X.T @ X, Y.T @ Y, X.T @ Y)
    assert equations.loss(W) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(equations.loss_and_gradient(W)[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(bidirectional_projection(equations, 0.0).value, W, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_float32_is_kept_and_close(name):
    problem = random_problem(10)
    exact = MODELS[name](problem.equations(), 0.5).value
    single = MODELS[name](problem.equations(np.float32), 0.5).value
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_the_factor_is_computed_once():
    equations = random_problem(12).equations()
    assert equations.factor is equations.factor
    values, U = equations.factor.values, equations.factor.vectors
    np.testing.assert_allclose(
        U @ np.diag(values) @ U.T, equations.A0, atol=1e-12 * np.abs(equations.A0).max()
    )


@all_pairs(
    {
        "name": MODELS,
        "beta": [0.0, 0.01],
        "change": [
            {"n": 1, "p": 1},
            {"n": 3, "p": 1, "d": 12},
            {"n": 4, "p": 2, "d": 12, "k": 6},
            {"d": 1, "k": 1},
        ],
    }
)
def test_few_samples_give_finite_projections(name, beta, change):
    problem = random_problem(13, **change)
    assert np.isfinite(MODELS[name](problem.equations(), beta).value).all()


@all_pairs({"name": MODELS, "beta": [0.0, 0.01], "what": ["features", "prototypes", "both"]})
def test_zeros_give_the_zero_projection(name, beta, what):
    X = np.zeros((5, 4)) if what != "prototypes" else np.ones((5, 4))
    Y = np.zeros((5, 2)) if what != "features" else np.ones((5, 2))
    W = MODELS[name](NormalEquations(X.T @ X, Y.T @ Y, X.T @ Y), beta).value
    np.testing.assert_array_equal(W, np.zeros((4, 2)))


class TestLazyScatter:
    def equations(self):
        """Return equations whose A0 is a function, and a list with an entry for every call."""
        plain, calls = random_problem(20).equations(), []
        return (
            NormalEquations(lambda: calls.append(1) or plain.A0, plain.B0, plain.C0),
            plain,
            calls,
        )

    def test_is_not_formed_where_it_is_not_needed(self):
        equations, plain, calls = self.equations()
        W = reverse_projection(equations, 0.3).value
        np.testing.assert_array_equal(W, reverse_projection(plain, 0.3).value)
        assert calls == []

    @pytest.mark.parametrize("name", ["FPL", "BPL0"])
    def test_is_formed_once_and_serves_all(self, name):
        equations, plain, calls = self.equations()
        twin = NormalEquations(None, plain.B0, plain.C0, twin=equations)
        for each in (equations, twin, equations):
            W = MODELS[name](each, 0.3).value
            np.testing.assert_array_equal(W, MODELS[name](plain, 0.3).value)
            assert each.loss(W) == plain.loss(W)
        assert twin.A0 is equations.A0 is plain.A0
        assert twin.factor is equations.factor
        assert calls == [1]


def moments_of(vectors):
    """Moments of the same samples of two classes, with these prototypes."""
    X = np.random.default_rng(21).normal(size=(9, 5))
    return Moments.from_arrays(X, np.resize(["ape", "emu"], len(X)), vectors)


VECTORS = {"ape": [1.0, 2.0, 0.5], "cat": [9.0, -9.0, 9.0], "emu": [-1.0, 0.3, 2.0]}
OTHERS = {"ape": [3.0, -1.0], "emu": [0.2, 1.0]}


def test_moments_without_samples_are_refused():
    with pytest.raises(ValueError, match="have no samples yet"):
        NormalEquations.from_moments(Moments(VECTORS))


class TestTwins:
    def test_share_one_decomposition(self, monkeypatch):
        first = NormalEquations.from_moments(moments_of(VECTORS))
        second = NormalEquations.from_moments(moments_of(OTHERS), twin=first)
        third = NormalEquations.from_moments(moments_of(VECTORS), twin=second)
        shapes = decomposed(monkeypatch)
        assert not third.is_factorized
        assert third.factor is second.factor is first.factor
        assert second.loss(np.ones((5, 2))) > 0
        assert third.is_factorized
        assert shapes == [(5, 5)]

    @pytest.mark.parametrize("name", MODELS)
    def test_learn_what_they_would_learn_alone(self, name):
        alone = NormalEquations.from_moments(moments_of(OTHERS))
        twin = NormalEquations.from_moments(
            moments_of(OTHERS), twin=NormalEquations.from_moments(moments_of(VECTORS))
        )
        W = MODELS[name](twin, 0.2).value
        np.testing.assert_allclose(W, MODELS[name](alone, 0.2).value, rtol=1e-10)
        assert twin.loss(W) == pytest.approx(alone.loss(W), rel=1e-12)

    def test_without_one_each_decomposes_its_own(self, monkeypatch):
        shapes = decomposed(monkeypatch)
        one, other = (NormalEquations.from_moments(moments_of(VECTORS)) for _ in range(2))
        assert one.factor is not other.factor
        assert shapes == [(5, 5), (5, 5)]
