"""Coordinates of a few-shot problem: everything learnt there, lifted, is learnt here as well."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_few_shot import episode, random_few_shot, sums

from zonkey.core import Competition, Moments, NormalEquations, bidirectional_projection, learn
from zonkey.core.frame import BaseClasses, frame_without_base, orthonormal_rows
from zonkey.core.synthesis import synthesize_from_support
from zonkey.linalg import Factor

RULES = ["second-best", "best", "assigned"]
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
    "no synthesised samples": random_few_shot(0, k=20, m=0),
}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "_"))
def problem(request):
    return CASES[request.param]


def run(equations, Y_u, X_u, codes, epsilon, *, rule="second-best", initial=None):
    """An episode in whatever coordinates the arguments have."""
    W = bidirectional_projection(initial or equations, BETA).value
    made = synthesize_from_support(W, Y_u, X_u, codes, epsilon, rho=0.6)
    competition = Competition(equations, made, Y_u, beta=BETA, rule=rule, support=(X_u, codes))
    return learn(competition, W, **OPTIONS), competition


def run_here(problem, **options):
    parts = problem.Y_u, problem.X_u, problem.codes, problem.epsilon
    return run(NormalEquations.of(problem.moments()), *parts, **options)


def run_there(problem, frame, **options):
    Y_u, epsilon = frame.semantics(problem.Y_u), frame.semantics(problem.epsilon)
    X_u = frame.features(problem.X_u)
    return run(frame.equations, Y_u, X_u, problem.codes, epsilon, **options)


def frame_of(problem):
    return BaseClasses(problem.moments()).frame(problem.Y_u)


def assert_close(got, expected, tolerance=1e-9):
    size = np.linalg.norm(expected)
    assert np.linalg.norm(got - expected) <= tolerance * (size if size > 0 else 1.0)


def assert_orthonormal(columns):
    np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-12)


def test_bases_are_orthonormal(problem):
    frame = frame_of(problem)
    assert_orthonormal(frame.U)
    assert_orthonormal(frame.V)


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
        shape = frame_of(CASES[name]).V.shape[1]
        assert shape == k, (name, shape)


def test_base_moments_are_diagonal(problem):
    frame, moments = frame_of(problem), problem.moments()
    seen = frame.equations
    A0, B0, C0 = sums(problem.X, problem.Y_s[problem.labels])
    for M in (seen.A0, seen.B0):
        np.testing.assert_array_equal(M, np.diag(np.diag(M)))
    assert_close(seen.A0, frame.U.T @ A0 @ frame.U, 1e-12)
    assert_close(seen.B0, frame.V.T @ B0 @ frame.V, 1e-12)
    assert_close(seen.C0, frame.U.T @ C0 @ frame.V, 1e-12)
    # Nothing is left outside the frame.
    assert_close(frame.U @ seen.A0 @ frame.U.T, moments.A0, 1e-12)
    assert_close(frame.V @ seen.B0 @ frame.V.T, moments.B0, 1e-12)
    assert_close(frame.lift(seen.C0), moments.C0, 1e-12)
    assert_close(frame.features(problem.X_u) @ frame.U.T, problem.X_u, 1e-12)
    assert_close(frame.semantics(problem.Y_u) @ frame.V.T, problem.Y_u, 1e-12)
    assert_close(frame.semantics(problem.Y_s) @ frame.V.T, problem.Y_s, 1e-12)


def test_the_factor_handed_over_is_that_of_the_matrix(problem):
    seen = frame_of(problem).equations
    assert seen.factor.vectors is None
    np.testing.assert_array_equal(np.diag(seen.factor.values), seen.A0)
    assert (np.diff(seen.factor.values) >= 0).all()
    expected = np.linalg.eigvalsh(problem.moments().A0)
    np.testing.assert_allclose(seen.factor.values, expected, atol=1e-12 * expected[-1])


def test_semantics_take_any_number_of_axes():
    problem = CASES["wide"]
    frame = frame_of(problem)
    there = frame.semantics(problem.epsilon)
    assert there.shape == (*problem.epsilon.shape[:2], 9)
    np.testing.assert_allclose(there[2, 1], frame.semantics(problem.epsilon[2, 1]), atol=1e-14)


@pytest.mark.parametrize("rule", RULES)
def test_learning_there_and_lifting_is_learning_here(problem, rule):
    frame = frame_of(problem)
    (here, _), (there, _) = run_here(problem, rule=rule), run_there(problem, frame, rule=rule)
    assert {step.mu for step in (*here.steps, *there.steps)} == {OPTIONS["mu"]}
    assert_close(frame.lift(there.W), here.W)
    assert there.objective == pytest.approx(here.objective, rel=1e-9)
    changes = [step.change for step in here.steps]
    assert [step.change for step in there.steps] == pytest.approx(changes, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["wide", "narrow", "inside the span", "many features"])
def test_learning_there_is_the_naive_episode(name, rule):
    problem = CASES[name]
    frame = frame_of(problem)
    there, _ = run_there(problem, frame, rule=rule)
    expected = episode(problem, rho=0.6, beta=BETA, tie_tol=1e-3, rule=rule, **OPTIONS)
    assert_close(frame.lift(there.W), expected[-1], 1e-8)


def test_losses_and_norms_are_the_same(problem):
    frame = frame_of(problem)
    (here, original), (there, reduced) = run_here(problem), run_there(problem, frame)
    lifted = frame.lift(there.W)
    assert np.linalg.norm(lifted) == pytest.approx(np.linalg.norm(there.W), rel=1e-12)
    assert np.linalg.norm(here.W) == pytest.approx(np.linalg.norm(there.W), rel=1e-9)
    expected = reference.f(lifted, original.X, problem.Y_u)
    f, eta, xi = reduced.weights(there.W)
    np.testing.assert_allclose(f, expected, rtol=1e-9, atol=1e-9)
    for got, wanted in zip((eta, xi), original.weights(here.W)[1:], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_loss_of_the_base_classes_is_the_same(problem):
    frame = frame_of(problem)
    seen = NormalEquations.of(problem.moments())
    rng = np.random.default_rng(5)
    shape = frame.equations.C0.shape
    for W in (rng.normal(size=shape), 1e-3 * rng.normal(size=shape), np.zeros(shape)):
        there = frame.equations.loss(W)
        assert there == pytest.approx(seen.loss(frame.lift(W)), rel=1e-11)
        pairs = zip(problem.X, problem.labels, strict=True)
        naive = sum(reference.f_ij(frame.lift(W), x, problem.Y_s[j]) for x, j in pairs)
        assert there == pytest.approx(naive, rel=1e-10)


def test_initial_projection_is_the_same(problem):
    frame = frame_of(problem)
    here = bidirectional_projection(NormalEquations.of(problem.moments()), BETA).value
    assert_close(frame.lift(bidirectional_projection(frame.equations, BETA).value), here)


@pytest.mark.parametrize("exponent", range(1, 18))
def test_bases_stay_orthonormal_however_near_the_novel_prototypes_are_to_the_span(exponent):
    nearly = with_novel(lambda Y_s, Y_u: mixed(Y_s) + 10.0**-exponent * Y_u)
    frame = frame_of(nearly)
    assert_orthonormal(frame.V)
    assert_close(frame.semantics(nearly.Y_u) @ frame.V.T, nearly.Y_u, 1e-13)


def test_novel_prototypes_at_different_distances_from_the_span():
    sizes = np.array([[1.0], [1e-5], [1e-9], [1e-13]])
    frame = frame_of(with_novel(lambda Y_s, Y_u: mixed(Y_s) + sizes * Y_u))
    assert_orthonormal(frame.V)
    assert frame.V.shape[1] >= 8


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_size_of_the_prototypes_is_of_no_account(scale):
    problem = CASES["partly inside"]
    scaled = replace(problem, Y_s=scale * problem.Y_s, Y_u=scale * problem.Y_u)
    assert frame_of(scaled).V.shape == frame_of(problem).V.shape
    assert_orthonormal(frame_of(scaled).V)
    assert frame_of(replace(problem, Y_u=scale * problem.Y_u)).V.shape[1] == 7


def test_the_guard_gives_up_no_less_competition_there_than_here():
    """It looks at the smallest eigenvalues, of which the frame leaves out those equal to beta."""
    given_up = 0
    for seed in range(20):
        problem = random_few_shot(seed, k=15, shots=1, m=5)
        frame = frame_of(problem)
        _, original = run_here(problem)
        _, reduced = run_there(problem, frame)
        W = bidirectional_projection(frame.equations, BETA).value
        used_there = reduced.solve(*reduced.weights(W)[1:], 0.6, 0.95)[1]
        used_here = original.solve(*original.weights(frame.lift(W))[1:], 0.6, 0.95)[1]
        assert used_there <= used_here
        given_up += used_there < 0.95
    assert given_up


class TestWithoutBase:
    @pytest.mark.parametrize("rule", RULES)
    def test_equals_the_original_coordinates_with_zero_moments(self, problem, rule):
        X_u, Y = problem.X_u, problem.Y_u[problem.codes]
        d, k = X_u.shape[1], Y.shape[1]
        nothing = NormalEquations(np.zeros((d, d)), np.zeros((k, k)), np.zeros((d, k)))
        parts = problem.Y_u, X_u, problem.codes, problem.epsilon
        initial = NormalEquations(*sums(X_u, Y))
        here, _ = run(nothing, *parts, rule=rule, initial=initial)
        frame = frame_without_base(X_u, problem.Y_u)
        initial = NormalEquations(*sums(frame.features(X_u), frame.semantics(Y)))
        there, _ = run_there(problem, frame, rule=rule, initial=initial)
        assert {step.mu for step in (*here.steps, *there.steps)} == {OPTIONS["mu"]}
        assert_close(frame.lift(there.W), here.W)
        assert there.objective == pytest.approx(here.objective, rel=1e-9, abs=1e-12)

    def test_bases_span_the_support_and_its_prototypes(self, problem):
        frame = frame_without_base(problem.X_u, problem.Y_u)
        assert_orthonormal(frame.U)
        assert_orthonormal(frame.V)
        assert_close(frame.features(problem.X_u) @ frame.U.T, problem.X_u, 1e-12)
        assert_close(frame.semantics(problem.Y_u) @ frame.V.T, problem.Y_u, 1e-12)
        assert frame.U.shape[1] <= min(problem.X_u.shape)
        assert frame.V.shape[1] <= max(1, np.linalg.matrix_rank(problem.Y_u))

    def test_equations_are_zero_and_factorised(self):
        problem = random_few_shot(3, d=20, k=11, q=3)
        frame = frame_without_base(problem.X_u, problem.Y_u)
        assert frame.U.shape == (20, 6)
        assert frame.V.shape == (11, 3)
        seen = frame.equations
        assert [M.shape for M in (seen.A0, seen.B0, seen.C0)] == [(6, 6), (3, 3), (6, 3)]
        assert not any(M.any() for M in (seen.A0, seen.B0, seen.C0, seen.factor.values))
        assert seen.loss(np.ones((6, 3))) == 0

    def test_zero_features_give_a_zero_projection(self):
        problem = random_few_shot(3, k=11)
        problem = replace(problem, X_u=0 * problem.X_u)
        frame = frame_without_base(problem.X_u, problem.Y_u)
        assert frame.U.shape == (6, 1)
        there, _ = run_there(problem, frame)
        np.testing.assert_array_equal(frame.lift(there.W), np.zeros((6, 11)))


class TestBaseClasses:
    def test_decomposes_once_for_any_number_of_frames(self, monkeypatch):
        shapes, of = [], Factor.of.__func__

        def counting(cls, M):
            shapes.append(M.shape)
            return of(cls, M)

        monkeypatch.setattr(Factor, "of", classmethod(counting))
        problem = random_few_shot(4, d=7, k=12)
        base = BaseClasses(problem.moments())
        assert shapes == []  # nothing before it is needed
        for q in (1, 2, 4):
            frame = base.frame(problem.Y_u[:q])
            assert frame.equations.factor.values.shape == (7,)
            assert frame.equations.loss(np.zeros((7, 5 + q))) > 0
        assert len(base.samples) == 5
        assert sorted(shapes) == [(5, 5), (7, 7)]

    def test_frames_do_not_disturb_each_other(self):
        problem = random_few_shot(5, k=12)
        base = BaseClasses(problem.moments())
        first = base.frame(problem.Y_u)
        before = first.V.copy(), first.equations.C0.copy()
        first.equations.B0[:] = np.nan  # even where someone writes to one
        second = base.frame(-2 * problem.Y_u[:2])
        third = base.frame(problem.Y_u)
        np.testing.assert_array_equal(third.V, before[0])
        np.testing.assert_array_equal(third.equations.C0, before[1])
        assert np.isfinite(third.equations.B0).all()
        assert second.V.shape == (12, 7)

    def test_a_deep_copy_is_the_same_object(self):
        base = BaseClasses(random_few_shot(6).moments())
        assert copy.deepcopy(base) is base
        assert copy.deepcopy({"base": base})["base"] is base

    @pytest.mark.parametrize("used", [False, True])
    def test_pickles(self, used):
        problem = random_few_shot(7, k=12)
        base = BaseClasses(problem.moments())
        expected = base.frame(problem.Y_u) if used else frame_of(problem)
        again = pickle.loads(pickle.dumps(base)).frame(problem.Y_u)
        np.testing.assert_allclose(again.U, expected.U, atol=1e-12)
        np.testing.assert_allclose(again.V, expected.V, atol=1e-12)
        np.testing.assert_allclose(again.equations.C0, expected.equations.C0, atol=1e-12)

    def test_a_class_without_samples_is_no_base_class(self):
        problem = random_few_shot(8, k=12, p=5)
        kept = problem.labels != 2
        moments = Moments.from_arrays(
            problem.X[kept], problem.labels[kept], problem.moments().prototypes
        )
        base = BaseClasses(moments)
        assert base.prototypes.labels.tolist() == [0, 1, 3, 4]
        np.testing.assert_array_equal(base.prototypes.matrix, problem.Y_s[[0, 1, 3, 4]])
        assert base.frame(problem.Y_u).V.shape == (12, 8)
        assert len(base.samples) == 4

    def test_samples_are_those_kept_in_the_coordinates_of_the_frame(self):
        problem = random_few_shot(9, k=12)
        base = BaseClasses(problem.moments())
        U = base.frame(problem.Y_u).U
        assert len(base.samples) == 5
        for j, there in enumerate(base.samples):
            own = problem.X[problem.labels == j]
            order = np.lexsort(np.round(there @ U.T, 8).T)
            expected = own[np.lexsort(np.round(own, 8).T)]
            np.testing.assert_allclose((there @ U.T)[order], expected, atol=1e-12)


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

    def test_zeros_leave_one_direction(self):
        rows = orthonormal_rows(np.zeros((3, 4)))
        assert rows.shape == (1, 4)
        assert np.linalg.norm(rows) == 1

    def test_repeated_rows_count_once(self):
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
    # "best" never needs the guard.
    here, there = (
        run_here(problem, rule="best")[0],
        run_there(problem, frame, rule="best")[0],
    )
    assert_close(frame.lift(there.W), here.W, 1e-8)


def test_base_classes_are_given_by_moments():
    with pytest.raises(TypeError, match=r"given by their Moments; got dict.*Gather"):
        BaseClasses({"horse": [1.0]})


@pytest.mark.parametrize("per", ["nonsense", "Sample", None, 1], ids=str)
def test_what_weighs_the_same_is_samples_or_classes(per):
    moments = Moments({"a": [1.0]}).update([[1.0, 2.0]], ["a"])
    said = rf'`per` must be "sample" or "class".*got {per!r}. Correct the spelling'
    with pytest.raises(ValueError, match=said):
        BaseClasses(moments, per=per)


def test_base_classes_do_not_follow_later_updates():
    rng = np.random.default_rng(0)
    X, y, Y_u = rng.normal(size=(12, 4)), np.repeat(["a", "b"], 6), rng.normal(size=(1, 3))
    moments = Moments({"a": rng.normal(size=3), "b": rng.normal(size=3)}).update(X, y)
    base = BaseClasses(moments)
    before = base.moments.A0.copy()
    moments.update(X, y)
    np.testing.assert_array_equal(base.moments.A0, before)
    np.testing.assert_allclose(np.sum(base.frame(Y_u).equations.A0), np.trace(before))
    assert repr(base) == "BaseClasses(Moments(12 samples x 4, 2 of 2 classes seen))"
