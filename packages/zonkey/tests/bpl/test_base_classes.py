"""Base classes kept for many fits: what they share and what they remember."""

import copy
import pickle
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from reference import decomposed
from reference_few_shot import random_few_shot

from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import directed_projection


def uneven(seed, **shape):
    """A problem whose base classes are of very different sizes."""
    problem = random_few_shot(seed, n=100, k=12, **shape)
    sizes = [1, 2, 5, 9, 20]
    kept = np.concatenate([np.flatnonzero(problem.labels == j)[:n] for j, n in enumerate(sizes)])
    return replace(problem, X=problem.X[kept], labels=problem.labels[kept])


def assert_close(got, expected, tolerance=1e-10):
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_equations_and_frames_share_one_decomposition(monkeypatch):
    problem = uneven(5, d=7)
    shapes = decomposed(monkeypatch)
    base = BaseClasses(problem.moments())
    for q in (1, 3):
        directed_projection(base.frame(problem.Y_u[:q]).equations, 0.1, 1.0)
        directed_projection(base.frame(problem.Y_u[:q], rotate=False).equations, 0.1, 1.0)
    directed_projection(base.equations, 0.1, 1.0)
    assert sorted(shapes) == [(5, 5), (7, 7)]


@pytest.mark.parametrize(("rotate", "forward"), [(True, 0.4), (False, 0.0), (False, 0.4)])
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


@pytest.mark.parametrize("forward", [0.0, 0.3])
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


def test_base_classes_are_those_with_samples():
    problem = random_few_shot(8, k=12, p=5)
    kept = problem.labels != 2
    X, labels = problem.X[kept], problem.labels[kept]
    base = BaseClasses(Moments.from_arrays(X, labels, problem.moments().prototypes))
    assert base.prototypes.labels.tolist() == [0, 1, 3, 4]
    np.testing.assert_array_equal(base.prototypes.matrix, problem.Y_s[[0, 1, 3, 4]])
    frame = base.frame(problem.Y_u)
    assert frame.V.shape == (12, 8)
    # Their samples are in the coordinates of the frame.
    for j, there in zip((0, 1, 3, 4), base.samples, strict=True):
        here, own = there @ frame.U.T, X[labels == j]
        order, expected = (np.lexsort(np.round(rows, 8).T) for rows in (here, own))
        np.testing.assert_allclose(here[order], own[expected], atol=1e-12)


@pytest.fixture
def base():
    return BaseClasses(random_few_shot(1).moments())


def test_a_value_is_made_once_and_stays_the_same_object(base):
    calls = []
    for key, value in enumerate([[], 0.0, float("nan"), np.zeros(3), None]):
        for _ in range(3):
            assert base.remember(key, lambda v=value: calls.append(1) or v) is value
    assert calls == [1] * 5
    number = count()  # keys are told apart by value
    keys = [("raw", 0.1, "class"), ("raw", 0.1, "sample"), "raw", ("raw", 0.1, "class"), "raw"]
    assert [base.remember(key, lambda: next(number)) for key in keys] == [0, 1, 2, 0, 2]


def test_the_last_eight_are_kept(base):
    made = []

    def ask(key):
        return base.remember(key, lambda: made.append(key) or object())

    first = [ask(key) for key in range(8)]
    assert [ask(key) for key in range(8)] == first
    ask(8)
    assert [ask(key) for key in range(1, 8)] == first[1:]
    assert made == list(range(9))
    assert ask(0) is not first[0]
    assert made == [*range(9), 0]


def test_what_failed_is_tried_again(base):
    with pytest.raises(ZeroDivisionError):
        base.remember("a", lambda: 1 / 0)
    assert base.remember("a", lambda: 3) == 3


def test_copies_share_all_and_what_was_remembered_is_not_pickled(base):
    base.remember("large", lambda: np.zeros(10**6))
    again = pickle.loads(pickle.dumps(base))
    assert again.moments.fingerprint() == base.fingerprint()
    assert copy.deepcopy({"base": base})["base"] is base
    assert repr(base) == "BaseClasses(Moments(25 samples x 6, 5 of 5 classes seen))"
    assert len(pickle.dumps(base)) < 10**6
    assert again.remember("large", lambda: "made again") == "made again"


def test_of_two_that_were_made_at_the_same_time_one_is_kept(base):
    def slow():
        base.remember("key", lambda: "first")
        return "second"

    assert base.remember("key", slow) == "first"


def test_base_classes_are_given_by_moments():
    with pytest.raises(TypeError, match=r"given by their Moments; got dict.*Gather"):
        BaseClasses({"horse": [1.0]})
