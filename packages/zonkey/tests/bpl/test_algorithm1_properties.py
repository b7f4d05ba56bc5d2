"""What the whole road from moments to W must respect: symmetries, scaling laws, edge cases."""

from dataclasses import replace

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import alphas_of, random_problem

from zonkey.bpl.algorithm1 import Competition, learn
from zonkey.bpl.projection import bidirectional_projection

RULES = ["second-best", None, "assigned"]


def road(problem, *, alpha=0.3, mu=0.3, beta=0.05, rule="second-best", dtype=float, **options):
    """BPL0, then Algorithm 1 with the problem's own X_g."""
    equations, synthesized = problem.equations(dtype), problem.synthesized(dtype)
    Y_u = problem.Y_u.astype(dtype)
    W0 = bidirectional_projection(equations, beta).value
    competition = Competition(equations, synthesized, Y_u, beta=beta, rule=rule)
    return learn(competition, W0, alpha=alpha, mu=mu, **options)


def assert_same(path, W, expected, *, objective=1.0):
    np.testing.assert_allclose(W, expected.W, rtol=0, atol=1e-7 * np.abs(expected.W).max())
    values = objective * np.array(expected.objective)
    np.testing.assert_allclose(path.objective, values, rtol=1e-7)
    assert path.mu.tolist() == expected.mu.tolist()


def problems(test):
    """Try a test on random problems, for every rule and weights off their defaults."""
    strategies = {
        "seed": st.integers(0, 10**6),
        "shape": st.fixed_dictionaries(
            {
                "d": st.integers(1, 12),
                "k": st.integers(1, 6),
                "p": st.integers(1, 5),
                "q": st.integers(1, 5),
                "n_g": st.integers(5, 30),
            }
        ),
        "options": st.fixed_dictionaries(
            {
                "alpha": st.sampled_from([0.05, 0.3, 0.7]),
                "mu": st.sampled_from([0.0, 0.1, 0.5]),
                "beta": st.sampled_from([0.01, 0.5]),
                "rule": st.sampled_from(RULES),
            }
        ),
    }
    return settings(deadline=None, max_examples=25)(given(**strategies)(test))


def orthogonal(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


@problems
def test_symmetries(seed, shape, options):
    """The order of samples and classes, and orthogonal bases of both spaces, play no part."""
    problem, rng = random_problem(seed, **shape), np.random.default_rng(seed)
    Q, R = orthogonal(shape["d"], seed), orthogonal(shape["k"], seed)
    samples, classes = rng.permutation(len(problem.X_g)), rng.permutation(len(problem.Y_u))
    moved = replace(
        problem,
        X=problem.X @ Q.T,
        X_g=(problem.X_g @ Q.T)[samples],
        targets=np.argsort(classes)[problem.targets[samples]],
        Y_s=problem.Y_s @ R.T,
        Y_u=(problem.Y_u @ R.T)[classes],
    )
    path = road(moved, **options)
    assert_same(path, Q.T @ path.W @ R, road(problem, **options))


@problems
def test_scaling_laws(seed, shape, options):
    """x, y -> c x, c y multiplies every loss by c^2; m copies of all samples multiply it by m."""
    problem, c, m = random_problem(seed, **shape), 10, 3
    scaled = replace(
        problem,
        X=c * np.repeat(problem.X, m, axis=0),
        labels=np.repeat(problem.labels, m),
        X_g=c * np.tile(problem.X_g, (m, 1)),
        targets=np.tile(problem.targets, m),
        Y_s=c * problem.Y_s,
        Y_u=c * problem.Y_u,
    )
    path = road(scaled, **options | {"beta": c**2 * m * options["beta"]})
    assert_same(path, path.W, road(problem, **options), objective=c**2 * m)


@all_pairs({"rule": RULES, "n_g": [3, 30]})
def test_float32_is_kept_and_close(rule, n_g):
    problem = random_problem(0, n_g=n_g)
    exact = road(problem, beta=0.3, rule=rule)
    single = road(problem, beta=0.3, rule=rule, dtype=np.float32)
    assert single.W.dtype == np.float32
    np.testing.assert_allclose(single.W, exact.W, rtol=0, atol=1e-4 * np.abs(exact.W).max())
    np.testing.assert_allclose(single.objective, exact.objective, rtol=1e-5)


def with_constant_features(problem):
    return replace(problem, X=np.ones_like(problem.X), X_g=np.ones_like(problem.X_g))


DEGENERATE = {
    "one unseen class": random_problem(1, q=1),
    "one seen class": random_problem(2, p=1),
    "one of each, one attribute": random_problem(3, p=1, q=1, k=1),
    "one feature": random_problem(4, d=1),
    "one sample of each kind": random_problem(5, n=1, p=1, n_g=1),
    "more features than samples": random_problem(6, n=4, p=3, d=12, n_g=2),
    "more attributes than classes": random_problem(7, p=2, q=2, k=6),
    "zero unseen prototypes": replace(random_problem(8), Y_u=np.zeros((4, 4))),
    "one zero unseen prototype": replace(random_problem(8), Y_u=np.eye(4, k=1)),
    "zero seen prototypes": replace(random_problem(9), Y_s=np.zeros((5, 4))),
    "all prototypes zero": replace(random_problem(9), Y_s=np.zeros((5, 4)), Y_u=np.zeros((4, 4))),
    "identical unseen prototypes": replace(random_problem(10), Y_u=np.ones((4, 4))),
    "pairs of identical unseen prototypes": replace(
        random_problem(10), Y_u=np.eye(4)[[0, 1, 0, 1]]
    ),
    "unseen prototypes like seen ones": replace(
        random_problem(11), Y_u=np.eye(4), Y_s=np.eye(5, 4)
    ),
    "constant features": with_constant_features(random_problem(12)),
    "zero features": replace(random_problem(13), X=np.zeros((30, 7)), X_g=np.zeros((20, 7))),
    "zero synthesized features": replace(random_problem(14), X_g=np.zeros((20, 7))),
    "exact fit": replace(
        random_problem(15),
        X=np.eye(4)[np.arange(30) % 4],
        labels=np.arange(30) % 4,
        Y_s=np.eye(4),
        Y_u=np.eye(4),
        X_g=np.eye(4)[np.arange(20) % 4],
    ),
}


@all_pairs({"rule": RULES, "beta": [0.0, 0.01], "mu": [0.0, 0.9], "name": DEGENERATE})
def test_degenerate_problems_have_finite_solutions(name, mu, beta, rule):
    problem = DEGENERATE[name]
    path = road(problem, alpha=0.5, mu=mu, beta=beta, rule=rule)
    assert path.W.shape == (problem.X.shape[1], problem.Y_u.shape[1])
    assert np.isfinite(path.W).all()
    assert np.isfinite(path.objective).all()
    assert np.isfinite(path.changes.tolist()).all()


def test_one_unseen_class_leaves_nothing_to_compete_with():
    problem = DEGENERATE["one unseen class"]
    expected = road(problem, rule="assigned")
    for rule in ("second-best", None):
        np.testing.assert_array_equal(road(problem, rule=rule, mu=0.9).W, expected.W)


def test_identical_unseen_prototypes_leave_nothing_to_compete_with():
    problem = DEGENERATE["identical unseen prototypes"]
    alone = replace(problem, Y_u=problem.Y_u[:1], targets=0 * problem.targets)
    np.testing.assert_allclose(road(problem, mu=0.9).W, road(alone, mu=0.0).W, rtol=1e-10)


@pytest.mark.parametrize(
    ("rule", "mu", "q"),
    # Of more than two classes the second best has no bound: its class may fall back to third.
    [(None, 0.0, 4), ("second-best", 0.05, 2)],
)
def test_no_step_of_a_constant_alpha_makes_the_objective_larger(rule, mu, q):
    """With delta fixed at W, the linearized objective is nowhere below F and equals it at W."""
    moved = 0
    for seed in range(6):
        problem = random_problem(seed, n=60, q=q, noise=1.0)
        sets = problem.equations(), problem.synthesized(), problem.Y_u
        competition = Competition(*sets, beta=1.0, tie_tol=0.0, rule=rule)
        W0 = 0.3 * np.random.default_rng(seed).normal(size=(7, 4))
        alphas = alphas_of(competition)
        path = learn(competition, W0, alpha=0.4, mu=mu, max_iter=8, tol=-1.0, decay=1.0)
        assert (alphas, path.mu.tolist()) == ([0.4] * 8, [mu] * 8)
        values = np.array(path.objective)
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        moved += values[-1] < values[1] - 1e-6 * values[0]
    assert moved >= 3  # in most of them the first step is not the last that counts
