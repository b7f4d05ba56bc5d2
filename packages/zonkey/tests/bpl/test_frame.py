"""Coordinates of a few-shot problem: everything learned there, lifted, is learned here as well."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_few_shot import (
    algorithm_1,
    initial_projection,
    query_set,
    random_few_shot,
    relative_changes,
    sums,
)

from zonkey.bpl.algorithm1 import learn
from zonkey.bpl.episodes import Episodes
from zonkey.bpl.frame import BaseClasses, frame_without_base, orthonormal_rows
from zonkey.bpl.projection import NormalEquations, bidirectional_projection, directed_projection
from zonkey.bpl.synthesis import Synthesized, synthesize_from_support

RULES = ["second-best", None, "assigned"]
# Weights that never need the guard on mu, which alone may differ (see its own test below).
OPTIONS = {"alpha": 0.3, "mu": 0.1, "max_iter": 4, "tol": 0.0}
BETA = 0.3


def with_novel(Y_u, **shape):
    """A problem of many dimensions whose novel prototypes are a function of the base ones."""
    problem = random_few_shot(1, k=12, **shape)
    return replace(problem, Y_u=Y_u(problem.Y_s, problem.Y_u))


def mixed(Y_s, q=4, seed=7):
    return np.random.default_rng(seed).normal(size=(q, len(Y_s))) @ Y_s


def rank_deficient():
    problem = random_few_shot(2, k=8, p=5)
    twice = np.vstack([problem.Y_s[:2], problem.Y_s[:2], problem.Y_s[:1] - problem.Y_s[1:2]])
    return replace(problem, Y_s=twice)


CASES = {
    "wide": random_few_shot(0, k=20),
    "wide, one shot": random_few_shot(0, k=20, shots=1, m=5),
    "narrow": random_few_shot(0, k=3),
    "as wide as there are classes": random_few_shot(0, k=9),
    "one dimension": random_few_shot(0, k=1),
    "inside the span": with_novel(lambda Y_s, _: mixed(Y_s)),
    "copies of base prototypes": with_novel(lambda Y_s, _: Y_s[:4]),
    "partly inside": with_novel(lambda Y_s, Y_u: np.vstack([mixed(Y_s, 2), Y_u[2:]])),
    "nearly inside": with_novel(lambda Y_s, Y_u: mixed(Y_s) + 1e-9 * Y_u),
    "inside but for rounding": with_novel(lambda Y_s, Y_u: mixed(Y_s) + 3e-14 * Y_u),
    "identical novel": with_novel(lambda _, Y_u: np.tile(Y_u[:1], (4, 1))),
    "zero novel": with_novel(lambda _, Y_u: np.vstack([0 * Y_u[:1], Y_u[1:]])),
    "all novel zero": with_novel(lambda _, Y_u: 0 * Y_u),
    "rank-deficient base": rank_deficient(),
    "identical base": replace(rank_deficient(), Y_s=np.ones((5, 8))),
    "zero base prototypes": replace(rank_deficient(), Y_s=np.zeros((5, 8))),
    "more features than samples": random_few_shot(0, n=10, d=30, k=20),
    "many features": random_few_shot(0, n=60, d=50, k=20, shots=1, m=1),
    "one novel class": random_few_shot(0, k=20, q=1),
    "one sample a class": random_few_shot(0, k=20, n=5, shots=1),
    "one class each": random_few_shot(0, k=6, p=1, q=1),
    "no synthesized samples": random_few_shot(0, k=20, m=0),
}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "_"))
def problem(request):
    return CASES[request.param]


def rule_of(problem):
    """Return one of the rules for each case, in turn."""
    return RULES[[*CASES.values()].index(problem) % 3]


def run(problem, frame, *, rule="second-best", initial=None):
    """An episode in the coordinates of the frame; return its W^(0) and its outcome too."""
    W = bidirectional_projection(initial or frame.equations, BETA).value
    Y_u, epsilon = frame.semantics(problem.Y_u), frame.semantics(problem.epsilon)
    parts = Y_u[None], frame.features(problem.X_u)[None], problem.codes[None]
    made = synthesize_from_support(W, *parts, epsilon[None, None], rho=0.6)
    options = {"beta": BETA, "rule": rule, "solver_tol": 1e-13}
    episodes = Episodes(frame.equations, made, parts[0], parts[1:], **options)
    return W, episodes, learn(episodes, W, **OPTIONS)


def naive(problem, W, rule):
    """The last W of the same episode in the original coordinates."""
    X_g, targets = query_set(problem, W, 0.6)
    options = {"beta": BETA, "tie_tol": 1e-3, "rule": rule}
    return algorithm_1(problem, W, X_g, targets, **options, **OPTIONS)


def frame_of(problem):
    return BaseClasses(problem.moments()).frame(problem.Y_u)


def assert_close(got, expected, tolerance=1e-9):
    size = np.linalg.norm(expected)
    assert np.linalg.norm(got - expected) <= tolerance * (size if size > 0 else 1.0)


def assert_orthonormal(columns):
    np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-12)


def test_dimensions_shrink_to_the_span_of_the_prototypes():
    for name, k in {
        "wide": 9,
        "narrow": 3,
        "as wide as there are classes": 9,
        "inside the span": 5,
        "copies of base prototypes": 5,
        "partly inside": 7,
        "nearly inside": 9,
        "identical novel": 6,
        "zero novel": 8,
        "all novel zero": 5,
        "rank-deficient base": 6,
        "identical base": 5,
        "zero base prototypes": 5,  # four, and the one kept of nothing
        "one novel class": 6,
    }.items():
        problem = CASES[name]
        for scale in (1.0, 1e-8, 1e8):
            scaled = replace(problem, Y_s=scale * problem.Y_s, Y_u=scale * problem.Y_u)
            shape = frame_of(scaled).V.shape[1]
            assert shape == k, (name, shape)


def test_base_moments_are_diagonal(problem):
    frame, moments = frame_of(problem), problem.moments()
    seen = frame.equations
    assert_orthonormal(frame.U)
    assert_orthonormal(frame.V)
    assert seen.factor.vectors is None
    np.testing.assert_array_equal(seen.factor.values, seen.A0)
    assert (np.diff(seen.A0) >= 0).all()
    A0, B0, C0 = sums(problem.X, problem.Y_s[problem.labels])
    assert seen.A0.ndim == 1
    np.testing.assert_array_equal(seen.B0, np.diag(np.diag(seen.B0)))
    assert_close(np.diag(seen.A0), frame.U.T @ A0 @ frame.U, 1e-12)
    assert_close(seen.B0, frame.V.T @ B0 @ frame.V, 1e-12)
    assert_close(seen.C0, frame.U.T @ C0 @ frame.V, 1e-12)
    # Nothing is left outside the frame.
    assert_close((frame.U * seen.A0) @ frame.U.T, moments.A0, 1e-12)
    assert_close(frame.V @ seen.B0 @ frame.V.T, moments.B0, 1e-12)
    assert_close(frame.lift(seen.C0), moments.C0, 1e-12)
    assert_close(frame.features(problem.X_u) @ frame.U.T, problem.X_u, 1e-12)
    assert_close(frame.semantics(problem.Y_u) @ frame.V.T, problem.Y_u, 1e-12)
    assert_close(frame.semantics(problem.Y_s) @ frame.V.T, problem.Y_s, 1e-12)


def test_learning_there_and_lifting_is_the_naive_episode_here(problem):
    frame, rule = frame_of(problem), rule_of(problem)
    W, _, course = run(problem, frame, rule=rule)
    path = naive(problem, frame.lift(W), rule)
    assert set(course.mu.ravel()) == {OPTIONS["mu"]}
    assert_close(frame.lift(course.W[0]), path[-1])
    changes = pytest.approx(relative_changes(path), rel=1e-6, abs=1e-9)
    assert course.changes.ravel().tolist() == changes


@pytest.mark.parametrize("rotate", [True, False])
def test_a_projection_learned_there_is_the_one_learned_here(problem, rotate):
    base = BaseClasses(problem.moments())
    frame = base.frame(problem.Y_u, rotate=rotate)
    np.testing.assert_array_equal(frame.V, base.frame(problem.Y_u).V)
    if not rotate:
        assert frame.U is None
        assert frame.features(problem.X_u) is problem.X_u
        assert frame.equations.A0 is base.equations.A0
    for forward in (0.0, 0.3, 1.0) if rotate else (0.0, 0.5):
        there = directed_projection(frame.equations, BETA, forward).value
        W = frame.lift(there)
        assert_close(W, directed_projection(base.equations, BETA, forward).value)
    loss = frame.equations.loss(there)
    assert loss == pytest.approx(base.equations.loss(W), rel=1e-10)
    pairs = zip(problem.X, problem.labels, strict=True)
    naive = sum(reference.f_ij(W, x, problem.Y_s[j]) for x, j in pairs)
    assert loss == pytest.approx(naive, rel=1e-10, abs=1e-12)


def test_bases_stay_orthonormal_however_near_the_novel_prototypes_are_to_the_span():
    different = np.array([[1.0], [1e-5], [1e-9], [1e-13]])
    for distance in (*(10.0**-exponent for exponent in range(1, 18)), different):
        nearly = with_novel(lambda Y_s, Y_u, by=distance: mixed(Y_s) + by * Y_u)
        frame = frame_of(nearly)
        assert_orthonormal(frame.V)
        assert_close(frame.semantics(nearly.Y_u) @ frame.V.T, nearly.Y_u, 1e-13)


def test_the_guard_gives_up_no_less_competition_there_than_here():
    """It looks at the smallest eigenvalues, of which the frame leaves out those equal to beta."""
    given_up = 0
    for seed in range(20):
        problem = random_few_shot(seed, k=15, shots=1, m=5)
        frame = frame_of(problem)
        W, episodes, _ = run(problem, frame)
        B0, C0 = sums(problem.X @ frame.U, problem.Y_s[problem.labels])[1:]
        original = Episodes(
            NormalEquations(episodes.equations.A0, B0, C0),
            Synthesized(episodes.X_g, episodes.targets, episodes.targets),
            problem.Y_u[None],
            (episodes.X_u, problem.codes[None]),
            beta=BETA,
        )
        options = {"alpha": 0.6, "mu": 0.95, "max_iter": 1, "tol": 0.0}
        used_there = learn(episodes, W, **options).mu.item()
        used_here = learn(original, W @ frame.V.T, **options).mu.item()
        assert used_there <= used_here
        given_up += used_there < 0.95
    assert given_up


class TestWithoutBase:
    def test_equals_the_original_coordinates_with_zero_moments(self, problem):
        frame, rule = frame_without_base(problem.X_u, problem.Y_u), rule_of(problem)
        Y = problem.Y_u[problem.codes]
        initial = NormalEquations(*sums(frame.features(problem.X_u), frame.semantics(Y)))
        W, _, course = run(problem, frame, rule=rule, initial=initial)
        support = replace(problem, X=problem.X_u, Y_s=problem.Y_u, labels=problem.codes)
        assert_close(frame.lift(W), initial_projection(support, BETA))
        nothing = replace(problem, X=0 * problem.X, Y_s=0 * problem.Y_s)
        assert set(course.mu.ravel()) == {OPTIONS["mu"]}
        assert_close(frame.lift(course.W[0]), naive(nothing, frame.lift(W), rule)[-1])

    def test_bases_span_the_support_and_its_prototypes(self, problem):
        frame = frame_without_base(problem.X_u, problem.Y_u)
        assert_orthonormal(frame.U)
        assert_orthonormal(frame.V)
        assert_close(frame.features(problem.X_u) @ frame.U.T, problem.X_u, 1e-12)
        assert_close(frame.semantics(problem.Y_u) @ frame.V.T, problem.Y_u, 1e-12)
        assert frame.U.shape[1] <= min(problem.X_u.shape)
        assert frame.V.shape[1] <= max(1, np.linalg.matrix_rank(problem.Y_u))
        seen = frame.equations
        assert not any(M.any() for M in (seen.A0, seen.B0, seen.C0, seen.factor.values))

    def test_zero_features_give_a_zero_projection(self):
        problem = random_few_shot(3, k=11)
        problem = replace(problem, X_u=0 * problem.X_u)
        frame = frame_without_base(problem.X_u, problem.Y_u)
        assert frame.U.shape == (6, 1)
        _, _, course = run(problem, frame)
        np.testing.assert_array_equal(frame.lift(course.W[0]), np.zeros((6, 11)))


class TestOrthonormalRows:
    @settings(deadline=None, max_examples=25)
    @given(
        seed=st.integers(0, 10**6),
        n=st.integers(1, 7),
        k=st.integers(1, 7),
        rank=st.integers(1, 7),
        scale=st.sampled_from([1e-9, 1.0, 1e9]),
    )
    def test_rows_span_what_they_were_made_of(self, seed, n, k, rank, scale):
        rng = np.random.default_rng(seed)
        M = scale * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, k))
        rows = orthonormal_rows(M)
        assert rows.shape == (min(n, k, rank), k)
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
        assert_close(M @ rows.T @ rows, M, 1e-12)

    def test_zeros_leave_one_direction_and_repeated_rows_count_once(self):
        rows = orthonormal_rows(np.zeros((3, 4)))
        assert rows.shape == (1, 4)
        assert np.linalg.norm(rows) == 1
        assert orthonormal_rows(np.ones((5, 3))).shape == (1, 3)

    def test_what_is_small_beside_the_minuend_is_rounding(self):
        M = np.array([[1e-17, 0.0], [0.0, 1e-3]])
        assert orthonormal_rows(M, like=np.eye(2)).shape == (1, 2)
        assert orthonormal_rows(1e-14 * M, like=np.eye(2)).shape == (0, 2)
        assert orthonormal_rows(np.diag([1e-17, 2e-17])).shape == (2, 2)

    def test_precision_is_that_of_the_dtype(self):
        M = np.array([[1.0, 0.0], [0.0, 1e-9]])
        assert orthonormal_rows(M).shape == (2, 2)
        assert orthonormal_rows(M.astype(np.float32)).shape == (1, 2)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 12),
    d=st.integers(1, 8),
    k=st.integers(1, 12),
    p=st.integers(1, 3),
    q=st.integers(1, 3),
    shots=st.integers(1, 2),
    m=st.integers(0, 2),
)
def test_any_shape_gives_the_same_projection(seed, n, d, k, p, q, shots, m):
    problem = random_few_shot(seed, n=n, d=d, k=k, p=p, q=q, shots=shots, m=m)
    frame = frame_of(problem)
    assert frame.V.shape[1] == min(k, p + q)
    W, _, course = run(problem, frame, rule=None)  # it never needs the guard
    assert_close(frame.lift(course.W[0]), naive(problem, frame.lift(W), None)[-1], 1e-8)
