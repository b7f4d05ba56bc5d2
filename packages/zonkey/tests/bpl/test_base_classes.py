"""Base classes kept for many fits: what they share and what they remember."""

import copy
import pickle
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from reference import decomposed
from reference_few_shot import random_few_shot, sums

from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import directed_projection


def uneven(seed, **shape):
    """A problem whose base classes are of very different sizes."""
    problem = random_few_shot(seed, n=100, k=12, **shape)
    sizes = [1, 2, 5, 9, 20]
    kept = np.concatenate([np.flatnonzero(problem.labels == j)[:n] for j, n in enumerate(sizes)])
    return replace(problem, X=problem.X[kept], labels=problem.labels[kept])


def summed(problem):
    """A0, B0 and C0 by loops."""
    return sums(problem.X, problem.Y_s[problem.labels])


def assert_close(got, expected, tolerance=1e-10):
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("forward", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("shape", [{}, {"d": 50}, {"q": 1}], ids=str)
def test_a_projection_learned_there_is_the_one_learned_here(forward, shape):
    problem = uneven(3, **shape)
    base = BaseClasses(problem.moments())
    frame = base.frame(problem.Y_u)
    there = directed_projection(frame.equations, 0.2, forward).value
    W = frame.lift(there)
    A0, B0, C0 = summed(problem)
    left = (A0 + 0.2 * np.eye(len(A0))) @ W
    right = W @ (B0 + 0.2 * np.eye(len(B0)))
    assert_close(forward * left + (1 - forward) * right, C0)
    assert_close(W, directed_projection(base.equations, 0.2, forward).value)
    assert frame.equations.loss(there) == pytest.approx(base.equations.loss(W), rel=1e-10)


def test_equations_and_frames_share_one_decomposition(monkeypatch):
    problem = uneven(5, d=7)
    shapes = decomposed(monkeypatch)
    base = BaseClasses(problem.moments())
    for q in (1, 3):
        directed_projection(base.frame(problem.Y_u[:q]).equations, 0.1, 1.0)
        directed_projection(base.frame(problem.Y_u[:q], rotate=False).equations, 0.1, 1.0)
    directed_projection(base.equations, 0.1, 1.0)
    assert sorted(shapes) == [(5, 5), (7, 7)]


@pytest.mark.parametrize("forward", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("rotate", [True, False])
def test_a_single_equation_keeps_no_decomposition_unless_it_is_asked_for(forward, rotate):
    problem = uneven(9)
    base = BaseClasses(problem.moments())
    frame = base.frame(problem.Y_u, rotate=rotate)
    assert frame.equations.is_factorized is rotate
    before = frame.lift(directed_projection(frame.equations, 0.2, forward).value)
    assert base.equations.is_factorized is rotate
    assert frame.equations.factor.values.shape == (6,)
    assert base.equations.is_factorized
    assert_close(frame.lift(directed_projection(frame.equations, 0.2, forward).value), before)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda base: pickle.loads(pickle.dumps(base))])
def test_copies_are_the_same(again):
    problem = uneven(6)
    base = BaseClasses(problem.moments())
    copied = again(base)
    frames = (which.frame(problem.Y_u) for which in (copied, base))
    assert_close(*(frame.lift(frame.equations.C0) for frame in frames))


@pytest.mark.parametrize("forward", [0.0, 0.3, 1.0])
def test_a_twin_under_other_prototypes_shares_the_decomposition_alone(monkeypatch, forward):
    problem = uneven(8)
    moments = problem.moments()
    vectors = np.random.default_rng(8).normal(size=(5, 3))
    other = moments.with_prototypes(dict(enumerate(vectors)))
    shapes = decomposed(monkeypatch)
    first = BaseClasses(moments)
    twin = BaseClasses(other, twin=first)
    alone = BaseClasses(other)
    Y_u = vectors[:2] + 1
    found, expected = (
        frame.lift(directed_projection(frame.equations, 0.2, forward).value)
        for frame in (base.frame(Y_u) for base in (twin, alone))
    )
    assert_close(found, expected)
    assert twin.equations.factor is first.equations.factor
    assert shapes.count((6, 6)) == 2  # of the twins, and of the one alone


class TestFrames:
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


class TestRemembered:
    @pytest.fixture
    def base(self):
        return BaseClasses(uneven(7).moments())

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param([], id="empty list"),
            pytest.param(0.0, id="zero"),
            pytest.param(float("nan"), id="NaN"),
            pytest.param(np.zeros(3), id="array"),
            pytest.param(None, id="None"),
        ],
    )
    def test_a_value_is_made_once_and_stays_the_same_object(self, base, value):
        calls = []
        for _ in range(3):
            assert base.remember("a", lambda: calls.append(1) or value) is value
        assert calls == [1]

    def test_keys_are_told_apart_by_value(self, base):
        number = count()
        keys = [("raw", 0.1, "class"), ("raw", 0.1, "sample"), ("raw", 0.2, "class"), "raw"]
        assert [base.remember(key, lambda: next(number)) for key in keys] == [0, 1, 2, 3]
        equal = [("raw", 0.1, "class"), "raw"]
        assert [base.remember(key, lambda: next(number)) for key in equal] == [0, 3]

    def test_the_last_eight_are_kept(self, base):
        made = []

        def ask(key):
            return base.remember(key, lambda: made.append(key) or object())

        first = [ask(key) for key in range(8)]
        assert [ask(key) for key in range(8)] == first
        assert made == list(range(8))
        ask(8)
        assert [ask(key) for key in range(1, 8)] == first[1:]
        assert made == list(range(9))
        assert ask(0) is not first[0]
        assert made == [*range(9), 0]

    def test_what_failed_is_tried_again(self, base):
        def fail():
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            base.remember("a", fail)
        assert base.remember("a", lambda: 3) == 3


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


def test_what_was_remembered_is_not_pickled():
    base = BaseClasses(random_few_shot(1).moments())
    base.remember("large", lambda: np.zeros(10**6))
    again = pickle.loads(pickle.dumps(base))
    assert len(pickle.dumps(base)) < 10**6
    assert again.remember("large", lambda: "made again") == "made again"


def test_of_two_that_were_made_at_the_same_time_one_is_kept():
    base = BaseClasses(random_few_shot(1).moments())

    def slow():
        base.remember("key", lambda: "first")
        return "second"

    assert base.remember("key", slow) == "first"


def test_base_classes_are_given_by_moments():
    with pytest.raises(TypeError, match=r"given by their Moments; got dict.*Gather"):
        BaseClasses({"horse": [1.0]})
