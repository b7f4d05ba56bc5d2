"""Competition in one family of directions, forward alone to reverse alone, against loops."""

from dataclasses import replace

import array_api_strict as strict
import numpy as np
import pytest
import reference
from reference import (
    alphas_of,
    decomposed,
    eta_and_xi,
    finite_differences,
    initial_projection,
    linearized,
    random_problem,
    solved,
    weights_at,
)
from scipy.optimize import brentq

from zonkey.core import algorithm1
from zonkey.core.algorithm1 import Competition, learn
from zonkey.core.projection import NormalEquations, directed_projection
from zonkey.core.synthesis import Synthesized
from zonkey.linalg.sylvester import Status

SHARES = [0.0, 0.2, 0.5, 0.9, 1.0]
RULES = ["second-best", None, "assigned"]
# alpha, mu, beta, tie_tol: off the defaults, the guard never needed in any direction.
SETTINGS = [
    (0.1, 0.1, 0.01, 1e-3),
    (0.4, 0.2, 0.3, 0.2),
    (0.03, 0.7, 1e-3, 0.0),
    (0.9, 0.1, 2.0, 0.05),
    (0.3, 0.0, 0.05, 1e-3),
]


def compete(problem, *, beta=0.01, **options):
    return Competition(
        problem.equations(), problem.synthesized(), problem.Y_u, beta=beta, **options
    )


def assert_close(got, expected, tolerance=1e-10):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def assert_same_path(one, other):
    np.testing.assert_array_equal(one.W, other.W)
    assert one.objective == other.objective
    assert one.mu.tolist() == other.mu.tolist()


def slope(function, W):
    """The largest entry of a gradient, exact for a quadratic function whatever the step."""
    return np.abs(finite_differences(function, W, step=1e-2)).max()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize("tie_tol", [0.0, 0.3])
def test_weights_equal_the_printed_ones(rule, forward, tie_tol):
    problem = random_problem(11)
    W = initial_projection(problem, 0.1, forward)
    f, eta, xi = weights_at(compete(problem, tie_tol=tie_tol, rule=rule, forward=forward), W)
    np.testing.assert_allclose(f, reference.f(W, problem.X_g, problem.Y_u, forward), rtol=1e-9)
    expected = eta_and_xi(problem, W, tie_tol, rule, forward)
    np.testing.assert_array_equal(eta, expected[0])
    np.testing.assert_array_equal(xi, expected[1])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_matrices_and_objective_equal_the_printed_sums(rule, forward, alpha, mu, beta, tie_tol):
    problem = random_problem(12)
    W = initial_projection(problem, beta, forward)
    compared = compete(problem, beta=beta, tie_tol=tie_tol, rule=rule, forward=forward)
    f, eta, xi = weights_at(compared, W)
    delta = eta - mu * xi
    of_samples = [1 - mu if xi_i.any() else 1.0 for xi_i in xi]
    for got, expected in (
        (compared.A_hat(delta, alpha), reference.erplAt(problem, of_samples, alpha, beta, forward)),
        (compared.B_hat(delta, alpha), reference.erplBt(problem, delta, alpha, beta, forward)),
        (compared.C_hat(delta, alpha), reference.erplCt(problem, delta, alpha)),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    value = compared.objective(W, f, delta, alpha)
    assert isinstance(value, float)
    expected = linearized(problem, W, delta, alpha, beta, forward)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("forward", SHARES)
def test_objective_without_ties_is_that_of_the_minima(forward):
    problem = random_problem(13)
    W = initial_projection(problem, 0.1, forward)
    compared = compete(problem, beta=0.1, tie_tol=0.0, forward=forward)
    f, eta, xi = weights_at(compared, W)
    printed = reference.erplobj(problem, W, 0.4, 0.3, 0.1, forward=forward)
    assert compared.objective(W, f, eta - 0.3 * xi, 0.4) == pytest.approx(printed, rel=1e-11)


@pytest.mark.parametrize("n_g", [3, 20])  # an iterative and a direct solve, where A-hat counts
@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_each_solve_makes_the_gradient_vanish(n_g, forward, alpha, mu, beta, tie_tol):
    problem = random_problem(14, n=15, d=6, k=3, n_g=n_g)
    W0 = initial_projection(problem, beta, forward)
    compared = compete(problem, beta=beta, tie_tol=tie_tol, forward=forward)
    _, eta, xi = weights_at(compared, W0)
    solution, used = solved(compared, eta, xi, alpha, mu, start=W0)
    assert (used, solution.status) == (mu, Status.SOLVED)
    assert (solution.stats.iterations > 0) == (n_g == 3 and forward > 0)
    delta = eta - mu * xi

    def fixed(W):
        return linearized(problem, W, delta, alpha, beta, forward)

    scale = max(fixed(0 * W0), 1.0)
    assert slope(fixed, solution.value) < 1e-8 * scale
    assert slope(fixed, solution.value + 0.1) > 1e-3 * scale


@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
@pytest.mark.parametrize("forward", [0.0, 1.0])
def test_a_single_direction_is_a_linear_system(forward, alpha, mu, beta, tie_tol):
    problem = random_problem(15)
    compared = compete(problem, beta=beta, tie_tol=tie_tol, forward=forward)
    _, eta, xi = weights_at(compared, initial_projection(problem, beta, forward))
    W, delta = solved(compared, eta, xi, alpha, mu)[0].value, eta - mu * xi
    A, B = compared.A_hat(delta, alpha), compared.B_hat(delta, alpha)
    C = reference.erplCt(problem, delta, alpha)
    if forward:
        np.testing.assert_array_equal(B, np.zeros((4, 4)))
        expected = np.linalg.solve(A, C)
    else:
        np.testing.assert_array_equal(A, np.zeros((7, 7)))
        expected = np.linalg.solve(B, C.T).T
    assert_close(W, expected, 1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_g", [3, 20])
@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_learn_equals_algorithm_1(rule, n_g, forward, alpha, mu, beta, tie_tol):
    problem = random_problem(16, n=15, n_g=n_g)
    W0 = directed_projection(problem.equations(), beta, forward).value
    assert_close(W0, initial_projection(problem, beta, forward))
    compared = compete(problem, beta=beta, tie_tol=tie_tol, rule=rule, forward=forward)
    weights = {"alpha": alpha, "mu": mu, "max_iter": 4, "tol": 1e-3}
    path = learn(compared, W0, **weights)
    options = {"beta": beta, "epsilon": tie_tol, "rule": rule, "forward": forward}
    expected, _ = reference.algorithm_1(problem, W0, **weights, **options)
    assert set(path.mu.tolist()) == {mu}
    assert len(path.changes) == len(expected) - 1
    np.testing.assert_allclose(path.W, expected[-1], rtol=1e-8, atol=1e-8)
    for value, W in zip(path.objective, expected, strict=True):
        eta, xi = eta_and_xi(problem, W, tie_tol, rule, forward)
        at_W = linearized(problem, W, eta - mu * xi, alpha, beta, forward)
        assert value == pytest.approx(at_W, rel=1e-8)


def test_directions_differ():
    problem = random_problem(17)
    found = [
        learn(
            compete(problem, forward=forward),
            initial_projection(problem, 0.01),
            alpha=0.4,
            mu=0.1,
        ).W
        for forward in SHARES
    ]
    sizes = [np.linalg.norm(W) for W in found]
    for i, W in enumerate(found):
        for other in found[:i]:
            assert np.linalg.norm(W - other) > 0.01 * max(sizes)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_g", [3, 20])
def test_half_is_the_default(rule, n_g):
    problem = random_problem(18, n_g=n_g)
    W0 = initial_projection(problem, 0.01)
    paths = [
        learn(compete(problem, rule=rule, **options), W0, alpha=0.3, mu=0.2)
        for options in ({}, {"forward": 0.5})
    ]
    assert_same_path(*paths)


@pytest.mark.parametrize(
    ("rule", "mu", "q"),
    # Of more than two classes the second best has no bound: its class may fall back to third.
    [(None, 0.0, 4), ("second-best", 0.05, 2)],
)
@pytest.mark.parametrize("forward", SHARES)
def test_no_step_of_a_constant_alpha_makes_the_objective_larger(monkeypatch, rule, mu, q, forward):
    """With delta fixed at W, the linearized objective is nowhere below F and equals it at W."""
    monkeypatch.setattr(algorithm1, "DECAY", 1.0)
    moved = 0
    for seed in range(6):
        problem = random_problem(seed, n=60, q=q, noise=1.0)
        compared = compete(problem, beta=1.0, tie_tol=0.0, rule=rule, forward=forward)
        W0 = 0.3 * np.random.default_rng(seed).normal(size=(7, 4))
        alphas = alphas_of(compared)
        path = learn(compared, W0, alpha=0.4, mu=mu, max_iter=8, tol=-1.0)
        assert (alphas, path.mu.tolist()) == ([0.4] * 8, [mu] * 8)
        values = np.array(path.objective)
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        moved += values[-1] < values[1] - 1e-6 * values[0]
    assert moved >= 3  # in most of them the first step is not the last that counts


class TestGuard:
    """Few seen samples, and synthesized ones that are all close to the first unseen class."""

    def one_sided(self, forward):
        problem = random_problem(14, n=6, p=3, d=5, k=3, q=2, n_g=40, noise=0.3)
        near = problem.targets == 0
        problem = replace(problem, X_g=problem.X_g[near], targets=problem.targets[near])
        compared = compete(problem, forward=forward)
        _, eta, xi = weights_at(compared, initial_projection(problem, 0.01, forward))
        return compared, eta, xi

    def excess(self, setting, mu, share):
        """By how much the smallest eigenvalue exceeds a share of what it is uncontested."""
        compared, eta, xi = setting
        A = compared.A_hat(eta - mu * xi, 0.9)
        least, contested, uncontested = (
            np.linalg.eigvalsh(M)[0]
            for M in (A, compared.B_hat(eta - mu * xi, 0.9), compared.B_hat(eta, 0.9))
        )
        return least + contested - share * (least + uncontested)

    @pytest.mark.parametrize("forward", [0.0, 0.2, 0.5, 0.9])
    @pytest.mark.parametrize(("share", "kept"), [(0.26, True), (0.24, False), (0.0, False)])
    def test_asks_for_a_quarter_of_the_curvature(self, forward, share, kept):
        setting = compared, eta, xi = self.one_sided(forward)
        mu = brentq(lambda mu: self.excess(setting, mu, share), 0.0, 0.95, xtol=1e-15)
        solution, used = solved(compared, eta, xi, 0.9, mu)
        assert used == (mu if kept else mu / 2)
        delta = eta - used * xi
        left = compared.A_hat(delta, 0.9) @ solution.value
        right = solution.value @ compared.B_hat(delta, 0.9)
        assert_close(left + right, compared.C_hat(delta, 0.9))

    @pytest.mark.parametrize("forward", SHARES)
    def test_first_looks_at_the_features_of_the_seen_classes(self, monkeypatch, forward):
        compared, eta, xi = self.one_sided(forward)
        asked = []
        monkeypatch.setattr(algorithm1, "lowered_mu", lambda *_, **options: asked.append(options))
        compared.safe_mu(eta, xi, 0.9, 0.95)
        least = np.linalg.eigvalsh(compared.A_hat(0 * eta, 0.9))[0]
        # Where the reverse error has no weight nothing is asked at all.
        expected = [pytest.approx(least, rel=1e-9)] if forward < 1 else []
        assert [options["least_of_A"] for options in asked] == expected

    def test_is_not_needed_where_no_class_has_a_part_in_the_curvature(self):
        setting = compared, eta, xi = self.one_sided(1.0)
        assert self.excess(setting, 0.95, 0.25) > 0
        assert solved(compared, eta, xi, 0.9, 0.95)[1] == 0.95


@pytest.mark.parametrize("rule", RULES)
def test_reverse_alone_never_decomposes_the_features(monkeypatch, rule):
    problem, shapes = random_problem(19), decomposed(monkeypatch)
    W0 = initial_projection(problem, 0.01, 0.0)
    learn(compete(problem, rule=rule, forward=0.0), W0, alpha=0.5, mu=0.9)
    assert set(shapes) == {(4, 4)}


@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize("mu", [0.0, 0.9])
@pytest.mark.parametrize("shape", [{"p": 2, "q": 2, "k": 6}, {"n": 4, "p": 3, "d": 12, "n_g": 2}])
def test_singular_equations_without_ridge_have_finite_solutions(forward, mu, shape):
    problem = random_problem(26, **shape)
    W0 = directed_projection(problem.equations(), 0.0, forward).value
    path = learn(compete(problem, beta=0.0, forward=forward), W0, alpha=0.5, mu=mu)
    assert np.isfinite(path.objective).all()
    assert np.linalg.norm(path.W) < 100 * np.linalg.norm(W0)


@pytest.mark.parametrize("forward", SHARES)
def test_an_array_library_of_the_standard_agrees_with_numpy(forward):
    problem = random_problem(21)
    plain, made = problem.equations(), problem.synthesized()
    there = strict.asarray
    equations = NormalEquations(there(plain.A0), there(plain.B0), there(plain.C0))
    synthesized = Synthesized(*(there(M) for M in (made.features, made.targets, made.sources)))
    options = {"beta": 0.05, "forward": forward}
    W0 = directed_projection(equations, 0.05, forward).value
    compared = Competition(equations, synthesized, there(problem.Y_u), **options)
    expected = learn(compete(problem, **options), np.asarray(W0), alpha=0.5, mu=0.2)
    path = learn(compared, W0, alpha=0.5, mu=0.2)
    assert isinstance(path.W, type(W0))
    assert_close(np.asarray(W0), directed_projection(plain, 0.05, forward).value)
    assert_close(np.asarray(path.W), expected.W, 1e-9)
    np.testing.assert_allclose(path.objective, expected.objective, rtol=1e-9)


@pytest.mark.parametrize("forward", SHARES)
def test_float32_is_kept_and_close(forward):
    problem = random_problem(22)
    exact, single = (
        learn(
            Competition(
                problem.equations(dtype),
                problem.synthesized(dtype),
                problem.Y_u.astype(dtype),
                beta=0.3,
                forward=np.float64(forward),
            ),
            initial_projection(problem, 0.3, forward).astype(dtype),
            alpha=0.3,
            mu=0.1,
        )
        for dtype in (np.float64, np.float32)
    )
    assert single.W.dtype == np.float32
    assert_close(single.W, exact.W, 1e-4)
    np.testing.assert_allclose(single.objective, exact.objective, rtol=1e-5)
