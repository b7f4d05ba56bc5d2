"""Algorithm 1 against loops over raw samples, step by step and as a whole."""

import numpy as np
import pytest
import reference
from all_pairs import all_pairs
from reference import (
    alphas_of,
    eta_and_xi,
    finite_differences,
    initial_projection,
    linearized,
    random_problem,
    solved,
    summed,
    weights_at,
)
from scipy.linalg import solve_sylvester

from zonkey.bpl.algorithm1 import Competition, learn
from zonkey.bpl.lowrank import UpdatedFactor
from zonkey.bpl.projection import bidirectional_projection
from zonkey.bpl.sylvester import Status

RULES = ["second-best", None, "assigned"]
# alpha, mu, beta, tie_tol: far from the defaults in every direction, the guard never needed.
SETTINGS = [
    (0.1, 0.1, 0.01, 1e-3),
    (0.5, 0.4, 0.3, 0.2),
    (0.03, 0.9, 1e-3, 0.0),
    (0.9, 0.2, 2.0, 0.05),
    (0.3, 0.0, 0.05, 1e-3),
]


def compete(problem, *, beta=0.01, tie_tol=1e-3, rule="second-best"):
    return Competition(
        problem.equations(),
        problem.synthesized(),
        problem.Y_u,
        beta=beta,
        tie_tol=tie_tol,
        rule=rule,
    )


@pytest.fixture(params=[3, 20])
def n_g(request, monkeypatch):
    """Return a number of samples; with few, equations are solved by iteration, though small."""
    monkeypatch.setattr(UpdatedFactor, "is_iterative", lambda *_: request.param == 3)
    return request.param


@all_pairs({"rule": RULES, "alpha, mu, beta, tie_tol": SETTINGS})
def test_matrices_equal_the_printed_sums(rule, alpha, mu, beta, tie_tol):
    problem = random_problem(2)
    W = initial_projection(problem, beta)
    competition = compete(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    _, eta, xi = weights_at(competition, W)
    delta = eta - mu * xi
    of_samples = [1 - mu if xi_i.any() else 1.0 for xi_i in xi]
    sums = summed(competition, delta)
    of_classes = sums.of_classes
    for got, expected in (
        (competition.A_hat(sums, alpha), reference.erplAt(problem, of_samples, alpha, beta)),
        (competition.B_hat(of_classes, alpha), reference.erplBt(problem, delta, alpha, beta)),
        (competition.C_hat(sums, alpha), reference.erplCt(problem, delta, alpha)),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_without_a_second_best_only_the_sum_of_delta_makes_the_gradient_vanish():
    problem = random_problem(4, q=1)
    alpha, mu, beta = 0.4, 0.3, 0.05
    competition = compete(problem, beta=beta)
    _, eta, xi = weights_at(competition, initial_projection(problem, beta))
    assert not xi.any()

    def slope(W):
        return np.abs(finite_differences(lambda V: linearized(problem, V, eta, alpha, beta), W))

    W = solved(competition, eta, xi, alpha, mu)[0].value
    printed = reference.erplAt(problem, [1 - mu] * len(problem.X_g), alpha, beta)
    sums = summed(competition, eta)
    B, C = competition.B_hat(sums.of_classes, alpha), competition.C_hat(sums, alpha)
    assert slope(W).max() < 1e-7
    assert slope(solve_sylvester(printed, B, C)).max() > 1e-2


@all_pairs({"rule": RULES, "alpha, mu, beta, tie_tol": SETTINGS})
def test_gradient_of_the_linearized_objective_vanishes(rule, n_g, alpha, mu, beta, tie_tol):
    problem = random_problem(5, n_g=n_g)
    W0 = initial_projection(problem, beta)
    competition = compete(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    _, eta, xi = weights_at(competition, W0)
    solution, used = solved(competition, eta, xi, alpha, mu)
    W, delta = solution.value, eta - mu * xi
    assert used == mu
    assert solution.status is Status.SOLVED
    assert (solution.stats.iterations > 0) == (n_g == 3)
    sums = summed(competition, delta)
    A, B = competition.A_hat(sums, alpha), competition.B_hat(sums.of_classes, alpha)
    residual = A @ W + W @ B - competition.C_hat(sums, alpha)
    np.testing.assert_allclose(residual, 0.0, atol=1e-10 * np.abs(A).max())
    gradient = finite_differences(lambda V: linearized(problem, V, delta, alpha, beta), W)
    scale = np.abs(finite_differences(lambda V: linearized(problem, V, delta, alpha, beta), W0))
    assert np.abs(gradient).max() < 1e-6 * max(scale.max(), 1.0)


@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_objective_equals_the_printed_one(alpha, mu, beta, tie_tol):
    problem = random_problem(6)
    W = initial_projection(problem, beta)
    competition = compete(problem, beta=beta, tie_tol=tie_tol)
    f, eta, xi = weights_at(competition, W)
    shares = competition.weights(competition.start(W))
    value = competition.objective(W, shares[0].subtract(shares[1], mu), alpha)
    assert isinstance(value, float)
    relaxed = linearized(problem, W, eta - mu * xi, alpha, beta)
    assert value == pytest.approx(relaxed, rel=1e-11)
    # A share of nearly equal losses replaces their minimum, at a relative cost of tie_tol.
    printed = reference.erplobj(problem, W, alpha, mu, beta, tie_tol)
    slack = tie_tol * alpha * np.sum((eta + mu * xi) * f)
    assert abs(value - printed) <= slack + 1e-10 * abs(printed)


@all_pairs(
    {
        "rule": RULES,
        "max_iter, tol": [(1, 0.0), (5, 1e-4), (7, 0.0), (30, 0.05)],
        "alpha, mu, beta, tie_tol": SETTINGS,
    }
)
def test_learn_equals_algorithm_1(rule, n_g, max_iter, tol, alpha, mu, beta, tie_tol):
    problem = random_problem(8, n_g=n_g)
    W0 = bidirectional_projection(problem.equations(), beta).value
    np.testing.assert_allclose(W0, initial_projection(problem, beta), rtol=1e-10)
    competition = compete(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    alphas = alphas_of(competition)
    path = learn(competition, W0, alpha=alpha, mu=mu, max_iter=max_iter, tol=tol)
    expected, _ = reference.algorithm_1(
        problem,
        W0,
        alpha=alpha,
        mu=mu,
        beta=beta,
        epsilon=tie_tol,
        max_iter=max_iter,
        tol=tol,
        rule=rule,
    )
    assert set(path.mu.tolist()) == {mu}
    assert len(path.changes) == len(expected) - 1
    np.testing.assert_allclose(path.W, expected[-1], rtol=1e-8, atol=1e-8)
    assert path.statuses == {Status.SOLVED}
    assert alphas == pytest.approx([0.99**t * alpha for t in range(len(alphas))], rel=1e-14)
    assert len(alphas) == len(path.changes)
    for got, before, after in zip(path.changes, expected[:-1], expected[1:], strict=True):
        change = np.linalg.norm(after - before) / np.linalg.norm(before)
        assert got == pytest.approx(change, abs=1e-8)
    assert path.converged == (path.changes[-1] <= tol)
    for value, W in zip(path.objective, expected, strict=True):
        eta, xi = eta_and_xi(problem, W, tie_tol, rule)
        at_W = linearized(problem, W, eta - mu * xi, alpha, beta)  # alpha, not alpha_t
        assert value == pytest.approx(at_W, rel=1e-8)


def test_without_weight_on_synthesized_samples_nothing_moves():
    problem = random_problem(10)
    W0 = initial_projection(problem, 0.2)
    path = learn(compete(problem, beta=0.2), W0, alpha=0.0, mu=0.5, tol=1e-9)
    np.testing.assert_allclose(path.W, W0, rtol=1e-9)
    assert path.converged
    assert len(path.changes) == 1


def test_no_steps_return_the_initial_projection():
    problem = random_problem(13)
    W0 = initial_projection(problem, 0.01)
    path = learn(compete(problem), W0, alpha=0.2, mu=0.1, max_iter=0, tol=1e9)
    assert path.W is W0
    assert len(path.changes) == 0
    assert len(path.objective) == 1
    assert not path.converged


def test_those_who_watch_see_every_step():
    problem, seen = random_problem(13), []
    path = learn(
        compete(problem),
        initial_projection(problem, 0.01),
        alpha=0.2,
        mu=0.1,
        max_iter=3,
        tol=0.0,
        on_step=lambda *step: seen.append(step),
    )
    changes = path.changes.tolist()
    assert seen == list(zip([1, 2, 3], path.objective[1:], changes, strict=True))
