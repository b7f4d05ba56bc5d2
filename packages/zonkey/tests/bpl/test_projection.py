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
    directed_projection,
)
from zonkey.bpl.sylvester import Status

# Of one family: the weight of the error from features to semantics.
MODELS = {"FPL": 1.0, "RPL": 0.0, "BPL0": 0.5}


def learn(name, equations, beta):
    """Return the solution of a named model, which is a point of the family."""
    solution = directed_projection(equations, beta, MODELS[name])
    if name == "BPL0":
        same = bidirectional_projection(equations, beta)
        np.testing.assert_array_equal(solution.value, same.value)
    return solution


def objective(name, problem, W, beta):
    """The sum of the errors of a model and of their ridges, by loops over samples."""
    total = 0.0
    if name != "RPL":
        errors = [np.sum((W.T @ x - y) ** 2) for x, y in zip(problem.X, problem.Y, strict=True)]
        total += sum(errors) + beta * np.sum(W**2)
    if name != "FPL":
        errors = [np.sum((x - W @ y) ** 2) for x, y in zip(problem.X, problem.Y, strict=True)]
        total += sum(errors) + beta * np.sum(W**2)
    return total


def expected_solution(name, problem, beta):
    """Ridge regression by least squares on stacked systems, or Bartels-Stewart."""
    X, Y = problem.X, problem.Y
    if name == "FPL":
        return ridge(X, Y, beta)
    if name == "RPL":
        return ridge(Y, X, beta).T
    A, B = X.T @ X + beta * np.eye(X.shape[1]), Y.T @ Y + beta * np.eye(Y.shape[1])
    W = kronecker(A, B, 2 * X.T @ Y)
    if beta:
        np.testing.assert_allclose(W, solve_sylvester(A, B, 2 * X.T @ Y), rtol=1e-9)
    return W


def ridge(features, targets, beta):
    """Least squares on the system [features; sqrt(beta) I] W = [targets; 0], of least norm."""
    k = features.shape[1]
    stacked = np.vstack([features, beta**0.5 * np.eye(k)])
    return np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((k, targets.shape[1]))]))[0]


def kronecker(A, B, C):
    """Solve (I (x) A + B' (x) I) vec W = vec C for stacked columns, of least norm."""
    operator = np.kron(np.eye(len(B)), A) + np.kron(B.T, np.eye(len(A)))
    solution = np.linalg.lstsq(operator, C.ravel(order="F"), rcond=1e-12)[0]
    return solution.reshape(C.shape, order="F")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beta", [0.0, 1e-3, 0.7, 30.0])
def test_each_model_is_its_least_squares_problem(name, beta):
    problem = random_problem(3, n=15, d=5, k=3)
    solution = learn(name, problem.equations(), beta)
    assert solution.status is Status.SOLVED
    assert solution.stats.smallest > 0
    expected = expected_solution(name, problem, beta)
    np.testing.assert_allclose(solution.value, expected, rtol=1e-9)
    W = solution.value
    gradient = finite_differences(lambda V: objective(name, problem, V, beta), W, step=1e-2)
    assert np.abs(gradient).max() < 1e-8 * objective(name, problem, 0 * W, beta)


@all_pairs({"beta": [1e-3, 0.7, 30.0], "forward": [0.0, 0.1, 0.5, 0.8, 1.0]})
def test_a_direction_solves_the_equation_of_the_family(forward, beta):
    problem = random_problem(1)
    # NumPy scalars must not widen float32.
    solution = directed_projection(problem.equations(), np.float64(beta), np.float64(forward))
    W = solution.value
    A0, B0, C0 = (sum(map(np.outer, *sides)) for sides in pairs_of(problem))
    left, right = (A0 + beta * np.eye(7)) @ W, W @ (B0 + beta * np.eye(4))
    assert solution.status is Status.SOLVED
    size = np.abs(C0).max()
    np.testing.assert_allclose(forward * left + (1 - forward) * right, C0, atol=1e-10 * size)
    single = problem.equations(np.float32)
    got = directed_projection(single, np.float64(beta), np.float64(forward)).value
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, W, rtol=0, atol=1e-4 * np.abs(W).max())


def pairs_of(problem):
    return (problem.X, problem.X), (problem.Y, problem.Y), (problem.X, problem.Y)


@pytest.mark.parametrize(
    ("forward", "expected"), [(0.0, [(4, 4)]), (0.3, [(4, 4), (7, 7)]), (1.0, [(7, 7)])]
)
def test_only_what_is_needed_is_decomposed(monkeypatch, forward, expected):
    equations, shapes = random_problem(5).equations(), decomposed(monkeypatch)
    directed_projection(equations, 0.3, forward)
    assert sorted(shapes) == expected


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("FPL", {"n": 5, "d": 9}),
        ("RPL", {"p": 2, "k": 6}),
        ("BPL0", {"n": 4, "d": 6, "p": 2, "k": 3}),
    ],
)
def test_singular_equations_without_ridge_have_the_solution_of_least_norm_and_say_so(name, shape):
    problem = random_problem(6, **shape)
    solution = learn(name, problem.equations(), 0.0)
    assert solution.status is Status.SINGULAR
    expected = expected_solution(name, problem, 0.0)
    np.testing.assert_allclose(solution.value, expected, rtol=1e-7, atol=1e-10)


def test_either_direction_of_full_rank_makes_both_directions_regular():
    problem = random_problem(9, n=4, d=6, p=4, k=3)
    assert learn("FPL", problem.equations(), 0.0).status is Status.SINGULAR
    assert learn("BPL0", problem.equations(), 0.0).status is Status.SOLVED


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), d=st.integers(1, 6), k=st.integers(1, 4))
def test_loss_and_gradient_from_moments_are_those_from_samples(seed, n, d, k):
    problem = random_problem(seed, n=n, d=d, k=k, p=min(n, 3))
    W = np.random.default_rng(seed + 1).normal(size=(d, k))
    loss, gradient = problem.equations().loss_and_gradient(W)
    expected = seen_loss(problem, W)
    assert isinstance(loss, float)
    assert loss == pytest.approx(expected, rel=1e-11)
    assert problem.equations().loss(W) == pytest.approx(expected, rel=1e-11)
    differences = finite_differences(lambda V: seen_loss(problem, V), W, step=1e-2)
    np.testing.assert_allclose(gradient, differences, atol=1e-11 * expected)


@all_pairs({"name": MODELS, "beta": [0.0, 0.01], "what": ["features", "prototypes", "both"]})
def test_zeros_give_the_zero_projection(name, beta, what):
    X = np.zeros((5, 4)) if what != "prototypes" else np.ones((5, 4))
    Y = np.zeros((5, 2)) if what != "features" else np.ones((5, 2))
    W = learn(name, NormalEquations(X.T @ X, Y.T @ Y, X.T @ Y), beta).value
    np.testing.assert_array_equal(W, np.zeros((4, 2)))


def test_the_scatter_is_formed_once_and_only_where_it_is_needed():
    plain, calls = random_problem(20).equations(), []
    equations = NormalEquations(lambda: calls.append(1) or plain.A0, plain.B0, plain.C0)
    twin = NormalEquations(None, plain.B0, plain.C0, twin=equations)
    for name, n_calls in (("RPL", 0), ("FPL", 1), ("BPL0", 1)):
        for each in (equations, twin):
            W = learn(name, each, 0.3).value
            np.testing.assert_array_equal(W, learn(name, plain, 0.3).value)
            assert len(calls) == n_calls
            if n_calls:
                assert each.loss(W) == plain.loss(W)
    assert twin.A0 is equations.A0 is plain.A0


def test_twins_share_one_decomposition(monkeypatch):
    X = np.random.default_rng(21).normal(size=(9, 5))
    equations, twin = [], None
    for vectors in ({"ape": [1.0, 2.0], "emu": [-1.0, 0.3]}, {"ape": [3.0], "emu": [0.2]}):
        moments = Moments.from_arrays(X, np.resize(["ape", "emu"], len(X)), vectors)
        for _ in range(2):
            twin = NormalEquations.from_moments(moments, twin=twin)
            equations.append(twin)
    shapes = decomposed(monkeypatch)
    assert not equations[-1].is_factorized
    assert len({id(each.factor) for each in equations}) == 1
    assert equations[-1].is_factorized
    assert shapes == [(5, 5)]
