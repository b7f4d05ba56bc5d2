"""Algorithm 1 with a support set (Eqs. erplAt0 to erplCt0) against loops over three sets."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import reference_few_shot
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import finite_differences
from reference_few_shot import (
    episode,
    initial_projection,
    matrices,
    printed_weights,
    query_set,
    query_weights,
    random_few_shot,
    three_sets,
)

from zonkey.core import Competition, Synthesized, bidirectional_projection, learn
from zonkey.core.refinement import refine
from zonkey.core.synthesis import synthesize_from_support
from zonkey.linalg import Status

RULES = ["second-best", "best", "assigned"]
FORMS = {"second-best": "second-best", None: "best", "assigned": "assigned"}
# alpha, mu, beta, tie_tol: far from the defaults in every direction, the guard never needed.
SETTINGS = [
    (0.1, 0.1, 0.01, 1e-3),
    (0.5, 0.3, 0.3, 0.2),
    (0.03, 0.9, 1e-3, 0.0),
    (0.8, 0.1, 2.0, 0.05),
    (0.3, 0.0, 0.05, 1e-3),
]
# Support sets of one and several shots, unbalanced, with many, few and no synthesised samples.
SHAPES = [
    {"shots": 1, "m": 3},
    {"shots": 3, "m": 1},
    {"shots": 1, "m": 2, "extra": 5},
    {"shots": 2, "m": 0},
    {"shots": 1, "m": 1, "d": 40, "n": 60},  # small beside A0: conjugate gradients
    {"shots": 2, "m": 2, "q": 1},
]


def synthesized(problem, W, *, rho=0.5):
    parts = problem.Y_u, problem.X_u, problem.codes, problem.epsilon
    return synthesize_from_support(W, *parts, rho=rho)


def compete(problem, made, *, beta=0.01, tie_tol=1e-3, rule="second-best", support=True):
    return Competition(
        problem.equations(),
        made,
        problem.Y_u,
        beta=beta,
        tie_tol=tie_tol,
        rule=rule,
        support=problem.support if support else None,
    )


def nothing(problem):
    none = np.empty(0, dtype=np.int64)
    return Synthesized(np.empty((0, problem.X_u.shape[1])), none, none)


def with_query_set(problem, *, beta=0.01, **options):
    """W^(0), X_g by loops, their classes, and the competition on them."""
    W = initial_projection(problem, beta)
    X_g, targets = query_set(problem, W, 0.5)
    made = Synthesized(X_g, targets, targets)
    return W, X_g, targets, compete(problem, made, beta=beta, **options)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("tie_tol", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_equal_the_printed_ones_and_fix_the_support(rule, tie_tol, shape):
    problem = random_few_shot(1, **shape)
    W, X_g, targets, competition = with_query_set(problem, tie_tol=tie_tol, rule=rule)
    q, n_g = len(problem.Y_u), len(X_g)
    own = np.array([[float(code == j) for j in range(q)] for code in problem.codes])
    for at in (W, -W, 0.01 * W):
        f, eta, xi = competition.weights(at)
        samples = np.vstack([X_g, problem.X_u])
        np.testing.assert_allclose(f, reference.f(at, samples, problem.Y_u), rtol=1e-9, atol=1e-9)
        expected = query_weights(problem, at, X_g, targets, tie_tol, rule)
        np.testing.assert_array_equal(eta[:n_g], expected[0])
        np.testing.assert_array_equal(xi[:n_g], expected[1])
        np.testing.assert_array_equal(eta[n_g:], own)
        assert not xi[n_g:].any()
        assert xi[:n_g].any() == (rule == "second-best" and q > 1 and n_g > 0)


def test_support_keeps_its_classes_where_it_would_lose_them():
    problem = random_few_shot(2, shots=4, noise=3.0)
    W, X_g, _, competition = with_query_set(problem)
    f, eta, _ = competition.weights(W)
    own = f[len(X_g) :]
    assert (np.argmin(own, axis=1) != problem.codes).any()
    np.testing.assert_array_equal(np.argmax(eta[len(X_g) :], axis=1), problem.codes)


@pytest.mark.parametrize("rule", RULES)
def test_support_leaves_the_competing_alone(rule):
    problem = random_few_shot(3)
    W, X_g, targets, competition = with_query_set(problem, rule=rule)
    made = Synthesized(X_g, targets, targets)
    without = compete(problem, made, rule=rule, support=False).weights(W)
    for got, expected in zip(competition.weights(W), without, strict=True):
        np.testing.assert_allclose(got[: len(X_g)], expected, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_matrices_equal_the_printed_sums(rule, shape, alpha, mu, beta, tie_tol):
    problem = random_few_shot(4, **shape)
    W, X_g, targets, competition = with_query_set(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    _, eta, xi = competition.weights(W)
    delta = eta - mu * xi
    q_eta, q_xi = query_weights(problem, W, X_g, targets, tie_tol, rule)
    of_samples = printed_weights(q_xi, mu)
    expected = matrices(problem, X_g, q_eta - mu * q_xi, of_samples, alpha, beta)
    np.testing.assert_allclose(competition.A_hat(delta, alpha), expected[0], atol=1e-10)
    np.testing.assert_allclose(competition.B_hat(delta, alpha), expected[1], atol=1e-10)
    np.testing.assert_allclose(competition.C_hat(delta, alpha), expected[2], atol=1e-10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_gradient_of_the_three_set_objective_vanishes(rule, alpha, mu, beta, tie_tol):
    problem = random_few_shot(5, n=8, shots=1, m=2, d=4, k=3, p=3, q=3)
    W, X_g, _, competition = with_query_set(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    for _ in range(3):  # at each solve, not at the first alone
        _, eta, xi = competition.weights(W)
        delta = (eta - mu * xi)[: len(X_g)]
        solution, used = competition.solve(eta, xi, alpha, mu)
        assert (used, solution.status) == (mu, Status.SOLVED)

        def slope(V, delta=delta):
            return finite_differences(lambda U: three_sets(problem, U, X_g, delta, alpha, beta), V)

        before, W = W, solution.value
        assert np.abs(slope(W)).max() < 1e-6 * max(np.abs(slope(before)).max(), 1.0)
    assert np.abs(slope(W + 0.1)).max() > 1e-2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_objective_equals_the_loops(rule, shape, alpha, mu, beta, tie_tol):
    problem = random_few_shot(6, **shape)
    W, X_g, targets, competition = with_query_set(problem, beta=beta, tie_tol=tie_tol, rule=rule)
    f, eta, xi = competition.weights(W)
    value = competition.objective(W, f, eta - mu * xi, alpha)
    assert isinstance(value, float)
    q_eta, q_xi = query_weights(problem, W, X_g, targets, tie_tol, rule)
    expected = three_sets(problem, W, X_g, q_eta - mu * q_xi, alpha, beta)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("alpha", "mu", "beta", "tie_tol"), SETTINGS)
def test_learn_equals_the_naive_episode(rule, shape, alpha, mu, beta, tie_tol):
    problem = random_few_shot(7, **shape)
    W = bidirectional_projection(problem.equations(), beta).value
    competition = compete(
        problem, synthesized(problem, W, rho=0.7), beta=beta, tie_tol=tie_tol, rule=rule
    )
    path = learn(competition, W, alpha=alpha, mu=mu, max_iter=6, tol=1e-3)
    options = {"alpha": alpha, "mu": mu, "beta": beta, "tie_tol": tie_tol}
    expected = episode(problem, rho=0.7, max_iter=6, tol=1e-3, rule=rule, **options)
    assert {step.mu for step in path.steps} == {mu}
    assert len(path.steps) == len(expected) - 1
    np.testing.assert_allclose(path.W, expected[-1], rtol=1e-8, atol=1e-8)


def test_both_kinds_of_solver_are_among_the_shapes():
    kinds = set()
    for shape in SHAPES:
        problem = random_few_shot(7, **shape)
        W, _, _, competition = with_query_set(problem)
        path = learn(competition, W, alpha=0.3, mu=0.1)
        kinds |= {step.solution.stats.iterations > 0 for step in path.steps}
    assert kinds == {True, False}


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_refine_hands_the_support_on(form, divided):
    problem = random_few_shot(8)
    W = bidirectional_projection(problem.equations(), 0.05).value
    parts = problem.Y_u, problem.X_u, problem.codes, problem.epsilon
    scaling = "squared-norm" if divided else None
    made = synthesize_from_support(W, *parts, rho=0.4, scaling=scaling)
    options = {"alpha": 0.3, "mu": 0.2, "beta": 0.05, "tie_tol": 0.01, "tol": 1e-5}

    def refined(**more):
        return refine(
            problem.equations(), W, made, problem.Y_u, form=form, max_iter=4, **options, **more
        ).W

    expected = episode(problem, rho=0.4, divided=divided, max_iter=4, rule=FORMS[form], **options)[
        -1
    ]
    np.testing.assert_allclose(refined(support=problem.support), expected, rtol=1e-8, atol=1e-8)
    assert not np.allclose(refined(), expected, atol=1e-4)


@pytest.mark.parametrize("rule", RULES)
def test_support_alone_is_learning_from_labelled_samples(rule):
    problem = random_few_shot(9, shots=3)
    W = initial_projection(problem, 0.1)
    competition = compete(problem, nothing(problem), beta=0.1, rule=rule)
    joint = replace(
        problem,
        X=np.vstack([problem.X, problem.X_u]),
        labels=np.concatenate([problem.labels, len(problem.Y_s) + problem.codes]),
        Y_s=np.vstack([problem.Y_s, problem.Y_u]),
    )
    path = learn(competition, W, alpha=0.5, mu=0.3, max_iter=1)
    # With alpha = 1/2 all samples weigh one half, so that the ridge weighs twice as much.
    np.testing.assert_allclose(path.W, initial_projection(joint, 0.2), rtol=1e-9, atol=1e-12)
    assert path.steps[0].mu == 0.3
    assert len(learn(competition, W, alpha=0.5, mu=0.3, tol=0.0).steps) == 5


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.6])
def test_a_support_set_is_an_assigned_query_set(alpha):
    problem = random_few_shot(10, extra=3)
    X_u, codes = problem.support
    W = initial_projection(problem, 0.1)
    labelled = compete(problem, nothing(problem), beta=0.1)
    given_ = Synthesized(X_u, codes, codes)
    assigned = compete(problem, given_, beta=0.1, rule="assigned", support=False)
    one, other = (learn(c, W, alpha=alpha, mu=0.4, max_iter=3) for c in (labelled, assigned))
    np.testing.assert_allclose(one.W, other.W, rtol=1e-12, atol=1e-14)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)


def test_an_empty_support_set_changes_nothing():
    problem = random_few_shot(11)
    W, X_g, targets, _ = with_query_set(problem)
    made = Synthesized(X_g, targets, targets)
    none = replace(problem, X_u=problem.X_u[:0], codes=problem.codes[:0])
    one = learn(compete(none, made), W, alpha=0.3, mu=0.2)
    other = learn(compete(problem, made, support=False), W, alpha=0.3, mu=0.2)
    np.testing.assert_allclose(one.W, other.W, rtol=1e-12)


def test_neither_support_nor_query_set_leaves_the_base_alone():
    problem = random_few_shot(12)
    W = initial_projection(problem, 0.1)
    path = learn(compete(problem, nothing(problem), support=False, beta=0.1), W, alpha=0, mu=0.2)
    np.testing.assert_allclose(path.W, W, rtol=1e-9)


def test_more_weight_trades_the_loss_of_the_base_for_that_of_the_support():
    problem = random_few_shot(13, shots=5)
    W = initial_projection(problem, 0.1)
    competition = compete(problem, nothing(problem), beta=0.1)

    def difference(alpha):
        at = learn(competition, W, alpha=alpha, mu=0.1, max_iter=1).W
        own = reference.f(at, problem.X_u, problem.Y_u)[np.arange(20), problem.codes]
        return own.sum() - competition.equations.loss(at)

    # Of two minimisers, the one with the larger alpha has the smaller difference.
    values = [difference(alpha) for alpha in (0.0, 0.1, 0.5, 0.9)]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1] + 1


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), rule=st.sampled_from(RULES), m=st.integers(0, 2))
def test_order_of_the_support_is_of_no_account(seed, rule, m):
    problem = random_few_shot(seed, m=m, extra=2)
    W, X_g, targets, competition = with_query_set(problem, rule=rule, beta=0.1)
    order = np.random.default_rng(seed).permutation(len(problem.codes))
    shuffled = replace(problem, X_u=problem.X_u[order], codes=problem.codes[order])
    made = Synthesized(X_g, targets, targets)
    options = {"alpha": 0.3, "mu": 0.1, "max_iter": 1}
    one = learn(competition, W, **options)
    other = learn(compete(shuffled, made, rule=rule, beta=0.1), W, **options)
    np.testing.assert_allclose(one.W, other.W, rtol=1e-8, atol=1e-10)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 5),
    k=st.integers(1, 5),
    q=st.integers(1, 4),
    shots=st.integers(1, 2),
    m=st.integers(0, 2),
    alpha=st.floats(0, 0.9),
    mu=st.floats(0, 0.9),
)
def test_each_solve_satisfies_the_printed_equation(seed, d, k, q, shots, m, alpha, mu):
    problem = random_few_shot(seed, d=d, k=k, q=q, p=3, n=9, shots=shots, m=m)
    W, X_g, _, competition = with_query_set(problem, beta=0.1)
    _, eta, xi = competition.weights(W)
    solution, used = competition.solve(eta, xi, alpha, mu)  # the guard may use a smaller mu
    q_xi = xi[: len(X_g)]
    delta = eta[: len(X_g)] - used * q_xi
    A, B, C = matrices(problem, X_g, delta, printed_weights(q_xi, used), alpha, 0.1)
    residual = A @ solution.value + solution.value @ B - C
    assert np.linalg.norm(residual) <= 1e-9 * (np.linalg.norm(C) + np.linalg.norm(A))
    assert np.linalg.eigvalsh(A)[0] + np.linalg.eigvalsh(B)[0] >= 0.1 * (1 - 1e-9)


class TestDegenerate:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("m", [0, 2])
    def test_one_novel_class_has_no_second_best(self, rule, m):
        problem = random_few_shot(20, q=1, m=m, shots=2)
        W, _, _, competition = with_query_set(problem, rule=rule)
        _, eta, xi = competition.weights(W)
        np.testing.assert_array_equal(eta, np.ones((2 + 2 * m, 1)))
        assert not xi.any()

    @pytest.mark.parametrize("rule", RULES)
    def test_one_shot_everywhere(self, rule):
        problem = random_few_shot(21, n=5, p=5, shots=1, m=1)
        options = {"alpha": 0.4, "mu": 0.1, "max_iter": 4, "tol": 0.0}
        W, _, _, competition = with_query_set(problem, rule=rule, beta=0.2)
        expected = episode(problem, rho=0.5, beta=0.2, tie_tol=1e-3, rule=rule, **options)
        np.testing.assert_allclose(
            learn(competition, W, **options).W, expected[-1], rtol=1e-8, atol=1e-8
        )

    @pytest.mark.parametrize("rule", RULES)
    def test_zero_support_features_shrink_the_projection(self, rule):
        problem = random_few_shot(22, m=1)
        problem = replace(problem, X_u=0 * problem.X_u)
        W, _, _, competition = with_query_set(problem, rule=rule)
        options = {"alpha": 0.4, "mu": 0.1, "max_iter": 4, "tol": 0.0}
        expected = episode(problem, rho=0.5, beta=0.01, tie_tol=1e-3, rule=rule, **options)
        path = learn(competition, W, **options)
        np.testing.assert_allclose(path.W, expected[-1], rtol=1e-8, atol=1e-8)
        assert np.linalg.norm(path.W) < np.linalg.norm(W)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("m", [0, 2])
    def test_nothing_but_zero_features_give_zero(self, rule, m):
        problem = random_few_shot(23, m=m)
        problem = replace(problem, X=0 * problem.X, X_u=0 * problem.X_u)
        W = initial_projection(problem, 0.01)
        competition = compete(problem, synthesized(problem, W), rule=rule)
        path = learn(competition, W, alpha=0.4, mu=0.1)
        assert not path.W.any()
        assert path.converged
        assert np.isfinite(path.objective).all()

    @pytest.mark.parametrize("rule", RULES)
    def test_identical_novel_prototypes_share_the_synthesised_samples(self, rule):
        problem = random_few_shot(24, q=2, shots=2)
        problem = replace(problem, Y_u=np.tile(problem.Y_u[:1], (2, 1)))
        W, X_g, _, competition = with_query_set(problem, rule=rule, tie_tol=1e-6)
        _, eta, xi = competition.weights(W)
        if rule != "assigned":
            np.testing.assert_array_equal(eta[: len(X_g)], 0.5)
        assert not xi.any()
        options = {"alpha": 0.4, "mu": 0.1, "max_iter": 3, "tol": 0.0}
        expected = episode(problem, rho=0.5, beta=0.01, tie_tol=1e-6, rule=rule, **options)
        np.testing.assert_allclose(
            learn(competition, W, **options).W, expected[-1], rtol=1e-8, atol=1e-8
        )


def test_reference_episode_starts_where_alpha_is_zero():
    problem = random_few_shot(30)
    W = reference_few_shot.initial_projection(problem, 0.3)
    np.testing.assert_allclose(bidirectional_projection(problem.equations(), 0.3).value, W)
    X_g, _ = query_set(problem, W, 0.5)
    delta = np.zeros((len(X_g), len(problem.Y_u)))
    at_W = finite_differences(lambda V: three_sets(problem, V, X_g, delta, 0.0, 0.3), W)
    np.testing.assert_allclose(at_W, 0, atol=1e-6)


def test_minimum_entropy_takes_no_support_set():
    with pytest.raises(ValueError, match=r"takes no support set; use another form"):
        refine(
            *(None, None, None, None),
            form="entropy",
            alpha=0.1,
            mu=0.0,
            beta=0.1,
            tie_tol=1e-3,
            max_iter=1,
            tol=0.0,
            support=(np.zeros((1, 2)), np.zeros(1, int)),
        )
