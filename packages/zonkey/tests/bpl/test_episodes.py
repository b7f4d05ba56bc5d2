"""Algorithm 1 with support sets, Eqs. 20 (erplAt0) to 22 (erplCt0), in batches, against loops."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from all_pairs import all_pairs
from reference import finite_differences
from reference_few_shot import (
    algorithm_1,
    initial_projection,
    query_weights,
    random_few_shot,
    relative_changes,
    three_sets,
)
from turned import EXACT, Turned, several

from zonkey.bpl import episodes as module
from zonkey.bpl.algorithm1 import Competition, learn
from zonkey.bpl.episodes import Episodes
from zonkey.bpl.sylvester import Status

RULES = ["second-best", None, "assigned"]
# alpha, mu, beta, tie_tol: far from the defaults in every direction, the guard never needed.
SETTINGS = [
    (0.1, 0.1, 0.01, 1e-3),
    (0.5, 0.3, 0.3, 0.2),
    (0.03, 0.9, 1e-3, 0.0),
    (0.8, 0.1, 2.0, 0.05),
    (0.3, 0.0, 0.05, 1e-3),
]
# Support sets of one and several shots, unbalanced, with many, few and no synthesized samples.
SHAPES = [
    {"shots": 1, "m": 3},
    {"shots": 3, "m": 1},
    {"shots": 1, "m": 2, "extra": 5},
    {"shots": 2, "m": 0},
    {"shots": 1, "m": 1, "d": 40, "n": 60},  # small beside A0: conjugate gradients
    {"shots": 1, "m": 5, "d": 24, "n": 40, "blur": 1e-9},  # hardly more than the support spans
    {"shots": 2, "m": 2, "q": 1},
]


def single(problem, *, beta=0.01, rho=0.5, **options):
    """W^(0), X_g by loops, their classes, and the only episode of the only task."""
    W = initial_projection(problem, beta)
    turned = Turned([[problem]], W, beta=beta, rho=rho, **options)
    return W, *turned.sets[0][0], turned


def competition(turned, X, targets, **options):
    """Return the competition of unlabeled samples X, in the coordinates of the episodes."""
    made = replace(turned.synthesized, features=X, targets=targets)
    options = {name: EXACT[name] for name in ("beta", "tie_tol", "rule")} | options
    return Competition(turned.equations, made, turned.Y_u[0], **options)


@all_pairs({"rule": RULES, "shape": SHAPES[::2]})
def test_large_episodes_are_learned_in_blocks_with_the_same_result(monkeypatch, rule, shape):
    problems = several(4, 2, 3, **shape)
    W = initial_projection(problems[0][0], 0.01)
    learning = {"alpha": 0.5, "mu": 0.6, "max_iter": 3, "tol": 0.0}
    turned = Turned(problems, W, rule=rule, tie_tol=0.1)
    expected, course = turned.learn(W, **learning)
    monkeypatch.setattr(module, "_UNCACHED", -1)
    monkeypatch.setattr(module, "compete", None)
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(9 / 2**12))
    found, again = turned.learn(W, **learning)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_array_equal(again.mu, course.mu)


@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_gradient_of_the_three_set_objective_vanishes(alpha, mu, beta, tie_tol):
    problem = random_few_shot(5, n=8, shots=1, m=2, d=4, k=3, p=3, q=3)
    W, X_g, targets, turned = single(problem, beta=beta, tie_tol=tie_tol)
    for _ in range(3):  # at each solve, not at the first alone
        eta, xi = query_weights(problem, W, X_g, targets, tie_tol, "second-best")
        found, course = turned.learn(W, alpha=alpha, mu=mu, max_iter=1, tol=0.0)
        assert (course.mu.item(), course.statuses) == (mu, {Status.SOLVED})

        def slope(V, delta=eta - mu * xi):
            objective = partial(three_sets, problem, X_g=X_g, delta=delta, alpha=alpha, beta=beta)
            return finite_differences(objective, V)

        before, W = W, found[0]
        assert np.abs(slope(W)).max() < 1e-6 * max(np.abs(slope(before)).max(), 1.0)
    assert np.abs(slope(W + 0.1)).max() > 1e-2


@all_pairs({"rule": RULES, "shape": SHAPES, "alpha, mu, beta, tie_tol": SETTINGS})
def test_learn_equals_the_naive_episode(rule, shape, alpha, mu, beta, tie_tol):
    problem = random_few_shot(7, **shape)
    options = {"beta": beta, "tie_tol": tie_tol, "rule": rule}
    W, X_g, targets, turned = single(problem, rho=0.7, **options)
    learning = {"alpha": alpha, "mu": mu, "max_iter": 6, "tol": 1e-3}
    found, course = turned.learn(W, **learning)
    expected = algorithm_1(problem, W, X_g, targets, **options, **learning)
    np.testing.assert_array_equal(course.mu, np.full((len(expected) - 1, 1, 1), mu))
    np.testing.assert_allclose(found[0], expected[-1], rtol=1e-8, atol=1e-8)


@all_pairs({"rule": RULES, "shape": SHAPES, "divided": [True, False]})
def test_every_episode_of_a_batch_equals_its_own_naive_one(divided, rule, shape):
    options = {"beta": 0.3, "tie_tol": 0.01, "rule": rule}
    learning = {"alpha": 0.3, "mu": 0.1, "max_iter": 4, "tol": 0.0}
    problems = several(8, 2, 3, **shape)
    W = initial_projection(problems[0][0], 0.3)
    turned = Turned(problems, W, rho=0.4, divided=divided, **options)
    found, course = turned.learn(W, **learning)
    # An episode is told from the others of its task where it is a task of its own.
    flat = [[problem] for own in problems for problem in own]
    apart = Turned(flat, W, rho=0.4, divided=divided, **options)
    alone, _ = apart.learn(W, **learning)
    for t, own in enumerate(problems):
        paths = [
            algorithm_1(problem, W, *turned.sets[t][h], **options, **learning)
            for h, problem in enumerate(own)
        ]
        last = np.array([path[-1] for path in paths])
        np.testing.assert_allclose(alone[3 * t : 3 * t + 3], last, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found[t], last.mean(axis=0), rtol=1e-8, atol=1e-8)
        for h, path in enumerate(paths):
            np.testing.assert_allclose(
                course.changes[:, t, h], relative_changes(path), rtol=1e-6, atol=1e-10
            )
    np.testing.assert_array_equal(course.mu, np.full((4, 2, 3), 0.1))
    assert course.statuses == {Status.SOLVED}


@pytest.mark.parametrize(("d", "m"), [(6, 3), (30, 3), (6, 0)])
def test_an_empty_support_set_leaves_the_competing(d, m):
    problem = random_few_shot(11, d=d, n=45, m=m)
    W, X_g, targets, turned = single(problem)
    none = turned.support[0][:, :0], turned.support[1][:, :0]
    empty = Episodes(turned.equations, turned.synthesized, turned.Y_u, none, **EXACT)
    learning = {"alpha": 0.3, "mu": 0.2, "max_iter": 4, "tol": 0.0}
    course = learn(empty, turned.U.T @ W, **learning)
    path = learn(competition(turned, X_g @ turned.U, targets), turned.U.T @ W, **learning)
    np.testing.assert_allclose(course.W[0], path.W, rtol=1e-9, atol=1e-12)


def with_zeros(problem, *names):
    return replace(problem, **{name: 0 * getattr(problem, name) for name in names})


DEGENERATE = {
    "one shot everywhere": random_few_shot(21, n=5, p=5, shots=1, m=1),
    "one novel class": random_few_shot(20, q=1, m=2, shots=2),
    "zero support": with_zeros(random_few_shot(22, m=1), "X_u"),
    "zero support, many features": with_zeros(random_few_shot(22, m=1, d=40, n=50), "X_u"),
    "identical novel prototypes": replace(
        random_few_shot(24, q=2, shots=2), Y_u=np.tile(random_few_shot(24, q=2).Y_u[:1], (2, 1))
    ),
}


@all_pairs({"rule": RULES, "name": DEGENERATE})
def test_degenerate_problems_are_learned_as_printed(rule, name):
    problem, options = DEGENERATE[name], {"beta": 0.2, "tie_tol": 1e-6, "rule": rule}
    learning = {"alpha": 0.4, "mu": 0.1, "max_iter": 4, "tol": 0.0}
    W, X_g, targets, turned = single(problem, **options)
    (found,), _ = turned.learn(W, **learning)
    expected = algorithm_1(problem, W, X_g, targets, **options, **learning)
    np.testing.assert_allclose(found, expected[-1], rtol=1e-8, atol=1e-8)


@all_pairs({"rule": RULES, "m": [0, 2, 9]})
def test_nothing_but_zero_features_give_zero(rule, m):
    problem = with_zeros(random_few_shot(23, m=m, d=20, shots=1), "X", "X_u")
    W, _, _, turned = single(problem, rule=rule)
    found, course = turned.learn(W, alpha=0.4, mu=0.1, max_iter=3, tol=0.0)
    assert not found.any()
    np.testing.assert_array_equal(course.changes, [[[0.0]]])


def test_no_steps_leave_the_initial_projection():
    problems = several(25, 2, 3)
    W = initial_projection(problems[0][0], 0.01)
    found, course = Turned(problems, W).learn(W, alpha=0.4, mu=0.1, max_iter=0, tol=0.0)
    np.testing.assert_allclose(found, np.array([W, W]), rtol=1e-12)
    assert course.changes.shape == course.mu.shape == (0, 2, 3)
    assert course.statuses == set()
