"""The guard inside episodes, each with its own mu, against dense eigenvalues one by one."""

from dataclasses import replace

import numpy as np
import pytest
from reference import halved, smallest
from reference_few_shot import (
    initial_projection,
    matrices,
    printed_weights,
    query_weights,
)
from scipy.linalg import solve_sylvester
from turned import Turned, several

from zonkey.bpl import episodes as module


def brute_force(problem, X_g, eta, xi, *, alpha, mu, beta):
    """The mu that leaves a twentieth of the curvature, A-hat being that of the mu asked for."""
    of_samples = printed_weights(xi, mu)

    def sides(at):
        terms = of_samples, alpha, beta
        A, B, _ = matrices(problem, X_g, eta - at * xi, *terms)
        return smallest(A), smallest(B)

    own = np.bincount(problem.codes, minlength=len(problem.Y_u))
    pulled, pushed = own + eta.sum(axis=0), xi.sum(axis=0)
    if (pulled - mu * pushed >= 0.05 * pulled).all():
        return mu
    least = 0.05 * sum(sides(0.0))
    return halved(mu, lambda at: sum(sides(at)) >= least)


def guarded(problem, W, X_g, targets, *, alpha, mu, beta, max_iter):
    """Algorithm 1 with the guard, by loops: the last W, and the mu of every step."""
    used = []
    for step in range(max_iter):
        alpha_t = 0.99**step * alpha
        eta, xi = query_weights(problem, W, X_g, targets, 1e-3, "second-best")
        terms = {"alpha": alpha_t, "beta": beta}
        used.append(brute_force(problem, X_g, eta, xi, mu=mu, **terms))
        of_samples = printed_weights(xi, used[-1])
        W = solve_sylvester(*matrices(problem, X_g, eta - used[-1] * xi, of_samples, **terms))
    return W, used


@pytest.mark.parametrize(
    "shape", [{"shots": 1, "m": 5}, {"shots": 1, "m": 4, "d": 40, "k": 6, "n": 20}], ids=str
)
def test_every_episode_uses_the_mu_that_it_bears(shape):
    lowered = set()
    for seed in range(3):
        problems = several(seed, 2, 3, noise=0.3, **shape)
        W = initial_projection(problems[0][0], 0.05)
        turned = Turned(problems, W, beta=0.05, rho=0.8)
        learning = {"alpha": 0.7, "mu": 0.95, "max_iter": 3}
        found, course = turned.learn(W, **learning, tol=0.0)
        for t, own in enumerate(problems):
            expected = [
                guarded(problem, W, *turned.sets[t][h], beta=0.05, **learning)
                for h, problem in enumerate(own)
            ]
            np.testing.assert_array_equal(course.mu[:, t].T, [used for _, used in expected])
            mean = np.mean([at for at, _ in expected], axis=0)
            np.testing.assert_allclose(found[t], mean, rtol=0, atol=1e-8 * np.abs(mean).max())
        lowered |= {len(set(mu.ravel())) for mu in course.mu}
    # In some step some of the episodes were pushed less, and others were not.
    assert max(lowered) > 1


def test_without_the_guard_every_episode_keeps_mu_and_reports_indefinite_steps():
    found = []
    for seed in range(4):
        problems = several(seed, 2, 3, noise=0.3, shots=1, m=5)
        W = initial_projection(problems[0][0], 0.05)
        turned = Turned(problems, W, beta=0.05, rho=0.8)
        _, course = turned.learn(W, alpha=0.7, mu=0.95, max_iter=1, tol=0.0, guard=False)
        assert (course.mu == 0.95).all()
        for t, own in enumerate(problems):
            for h, problem in enumerate(own):
                X_g, targets = turned.sets[t][h]
                eta, xi = query_weights(problem, W, X_g, targets, 1e-3, "second-best")
                terms = printed_weights(xi, 0.95), 0.7, 0.05
                A, B, _ = matrices(problem, X_g, eta - 0.95 * xi, *terms)
                assert course.indefinite[0, t, h] == (smallest(A) + smallest(B) <= 0)
        found += course.indefinite.ravel().tolist()
    assert len(set(found)) == 2


def test_an_indefinite_episode_does_not_count_for_others_with_the_same_counts(monkeypatch):
    problems = several(1, 1, 2, noise=0.3, shots=1, m=5)
    problems[0][1] = problems[0][0]
    W = initial_projection(problems[0][0], 0.05)
    turned = Turned(problems, W, beta=0.05, rho=0.8)
    eta, _ = turned.weights(W)
    assert np.array_equal(eta.of_classes[0, 0], eta.of_classes[0, 1])
    asked = module.Episodes._sides
    monkeypatch.setattr(
        module.Episodes,
        "_sides",
        lambda self, t, episodes, *more: replace(
            asked(self, t, episodes, *more),
            least_of_A=-np.inf,
            A_is_at_least=lambda _: 1 not in episodes,
        ),
    )
    _, course = turned.learn(W, alpha=0.7, mu=0.95, max_iter=1, tol=0.0, guard=False)
    assert course.indefinite[0, 0].tolist() == [False, True]


def test_episodes_with_the_same_counts_share_one_look(monkeypatch):
    problems = several(1, 1, 4, noise=0.3, shots=1, m=5)
    problems[0][2] = problems[0][1]
    W = initial_projection(problems[0][0], 0.05)
    turned = Turned(problems, W, beta=0.05, rho=0.8)
    eta, xi = turned.weights(W)
    counts = np.concatenate([eta.of_classes, xi.of_classes], axis=-1)[0]
    looks, lowered = [], module.lower_mu
    monkeypatch.setattr(module, "lower_mu", lambda *a, **b: looks.append(1) or lowered(*a, **b))
    _, course = turned.learn(W, alpha=0.7, mu=0.95, max_iter=1, tol=0.0)
    assert len(looks) == len(np.unique(counts, axis=0)) < 4
    assert course.mu[0, 0, 1] == course.mu[0, 0, 2]
