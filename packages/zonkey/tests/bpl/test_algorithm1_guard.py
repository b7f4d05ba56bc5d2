"""The guard of Algorithm 1: where mu would make the equation indefinite, it is shrunk."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from reference import (
    eta_and_xi,
    initial_projection,
    linearized,
    random_problem,
    solved,
    weights_at,
)
from scipy.linalg import solve_sylvester
from scipy.optimize import brentq

from zonkey.bpl.algorithm1 import Competition, learn


def compete(problem, *, beta=0.01):
    return Competition(problem.equations(), problem.synthesized(), problem.Y_u, beta=beta)


def one_sided_problem():
    """Few seen samples, and synthesized ones that are all close to the first unseen class."""
    problem = random_problem(14, n=6, p=3, d=5, k=3, q=2, n_g=40, noise=0.3)
    return replace(problem, X_g=problem.X_g[problem.targets == 0], targets=problem.targets[::2] * 0)


def unguarded(problem, W, alpha, mu, beta):
    """Solve the printed equation whatever its definiteness; also return its smallest value."""
    eta, xi = eta_and_xi(problem, W, 1e-3)
    A = reference.erplAt(problem, [1 - mu] * len(problem.X_g), alpha, beta)
    B = reference.erplBt(problem, eta - mu * xi, alpha, beta)
    C = reference.erplCt(problem, eta - mu * xi, alpha)
    (lam, U), (omega, V) = np.linalg.eigh(A), np.linalg.eigh(B)
    return solve_sylvester(A, B, C), lam[0] + omega[0], np.outer(U[:, 0], V[:, 0])


def test_the_guard_turns_a_saddle_into_a_minimum():
    problem, alpha, mu, beta = one_sided_problem(), 0.9, 0.9, 0.01
    W0 = initial_projection(problem, beta)
    competition = compete(problem, beta=beta)
    _, eta, xi = weights_at(competition, W0)
    assert xi[:, 1].mean() > 0.9

    W, smallest, direction = unguarded(problem, W0, alpha, mu, beta)
    delta = eta - mu * xi
    assert smallest < 0
    lower = linearized(problem, W + 10 * direction, delta, alpha, beta)
    assert lower < linearized(problem, W, delta, alpha, beta)

    solution, used = solved(competition, eta, xi, alpha, mu)
    assert 0 < used < mu
    assert solution.stats.smallest >= beta
    delta = eta - used * xi
    lowest = linearized(problem, solution.value, delta, alpha, beta)
    rng = np.random.default_rng(0)
    for step in [direction, *rng.normal(size=(10, 5, 3))]:
        for size in (1e-2, 1.0, 100.0):
            moved = solution.value + size * step
            assert linearized(problem, moved, delta, alpha, beta) > lowest


def mu_with_smallest(value, problem, W, alpha, beta):
    """Return the mu at which the smallest eigenvalue of the operator has a given value."""
    return brentq(
        lambda mu: unguarded(problem, W, alpha, mu, beta)[1] - value, 0.0, 0.9, xtol=1e-15
    )


@pytest.mark.parametrize(("share", "kept"), [(1.9, True), (1.1, True), (0.9, False), (0.1, False)])
@pytest.mark.parametrize("beta", [0.02, 1.0])
def test_the_guard_asks_for_a_share_of_the_curvature(beta, share, kept):
    problem, alpha = one_sided_problem(), 0.9
    W0 = initial_projection(problem, beta)
    uncontested = unguarded(problem, W0, alpha, 0.0, beta)[1]
    floor = 0.05 * uncontested
    mu = mu_with_smallest(share * floor, problem, W0, alpha, beta)
    competition = compete(problem, beta=beta)
    _, eta, xi = weights_at(competition, W0)
    solution, used = solved(competition, eta, xi, alpha, mu)
    assert used == (mu if kept else mu / 2)
    if kept:
        assert solution.stats.smallest == pytest.approx(share * floor, rel=1e-6)


def test_a_step_never_multiplies_the_projection():
    # Without a share of the curvature kept, the third step grows W by 75 times.
    problem = random_problem(2, q=2)
    W0 = initial_projection(problem, 0.01)
    path = learn(compete(problem), W0, alpha=0.5, mu=0.9, tol=0.0)
    assert max(path.changes) < 2
    assert not path.indefinite.any()
    printed = learn(compete(problem), W0, alpha=0.5, mu=0.9, tol=0.0, guard=False)
    assert max(printed.changes) > 5


def test_without_the_guard_steps_are_as_printed_and_indefinite_ones_are_counted():
    alpha, mu, beta = 0.6, 0.8, 0.02
    counts = set()
    for seed in range(6):
        problem = random_problem(seed, q=3)
        W = initial_projection(problem, beta)
        path = learn(compete(problem, beta=beta), W, alpha=alpha, mu=mu, tol=0.0, guard=False)
        expected = []
        for step in range(5):
            W, smallest, _ = unguarded(problem, W, 0.99**step * alpha, mu, beta)
            expected.append(smallest <= 0)
        assert path.mu.tolist() == [mu] * 5
        assert path.indefinite.tolist() == expected
        np.testing.assert_allclose(path.W, W, rtol=1e-6, atol=1e-8 * np.abs(W).max())
        counts.add(sum(expected))
    assert len(counts) > 1


def test_the_guard_keeps_the_projection_bounded_where_the_printed_one_explodes():
    problem, alpha, beta = one_sided_problem(), 0.9, 0.01
    W0 = initial_projection(problem, beta)
    mu = mu_with_smallest(0.0, problem, W0, alpha, beta) * (1 - 1e-9)
    exploded, smallest, _ = unguarded(problem, W0, alpha, mu, beta)
    assert 0 < smallest < 1e-6
    assert np.linalg.norm(exploded) > 1e4 * np.linalg.norm(W0)
    path = learn(compete(problem, beta=beta), W0, alpha=alpha, mu=mu, max_iter=1)
    assert path.mu.tolist() == [mu / 2]
    assert np.linalg.norm(path.W) < 10 * np.linalg.norm(W0)


def test_the_guard_acts_on_one_step_and_leaves_the_objective_as_asked():
    problem = random_problem(0)
    W0 = initial_projection(problem, 0.01)
    path = learn(compete(problem), W0, alpha=0.5, mu=0.9, tol=0.0)
    assert path.mu.tolist() == [0.45, 0.9, 0.9, 0.9, 0.9]
    assert path.objective[0] == pytest.approx(reference.erplobj(problem, W0, 0.5, 0.9, 0.01, 1e-3))


def test_the_guard_gives_up_competition_where_nothing_else_helps():
    problem = one_sided_problem()
    Y_u = 1e3 * problem.Y_u  # any share of mu outweighs the seen samples
    problem = replace(problem, Y_u=Y_u, X_g=np.zeros_like(problem.X_g))
    W0 = initial_projection(problem, 1e-6)
    competition = compete(problem, beta=1e-6)
    _, eta, xi = weights_at(competition, W0)
    solution, used = solved(competition, eta, xi, 0.9999, 0.9)
    assert used == 0.0
    assert solution.stats.smallest >= 1e-6
    assert np.isfinite(solution.value).all()
