"""Base classes kept for many fits: how they weigh, and what is remembered beside them."""

import copy
import pickle
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from reference import decomposed
from reference_few_shot import random_few_shot, sums

from zonkey.core import BaseClasses
from zonkey.core.projection import directed_projection

WEIGHTS = ["sample", "class"]


def uneven(seed, **shape):
    """A problem whose base classes are of very different sizes."""
    problem = random_few_shot(seed, n=100, k=12, **shape)
    sizes = [1, 2, 5, 9, 20]
    kept = np.concatenate([np.flatnonzero(problem.labels == j)[:n] for j, n in enumerate(sizes)])
    return replace(problem, X=problem.X[kept], labels=problem.labels[kept])


def summed(problem, per):
    """A0, B0 and C0 by loops; per class, with the scatter of all classes for each of them."""
    if per == "sample":
        return sums(problem.X, problem.Y_s[problem.labels])
    means = [np.mean(problem.X[problem.labels == j], axis=0) for j in range(len(problem.Y_s))]
    A0, B0, C0 = sums(np.array(means), problem.Y_s)
    for x, j in zip(problem.X, problem.labels, strict=True):
        A0 += len(means) / len(problem.X) * np.outer(x - means[j], x - means[j])
    return A0, B0, C0


def assert_close(got, expected, tolerance=1e-10):
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("per", WEIGHTS)
def test_equations_are_weighted_as_asked_for(per):
    problem = uneven(0)
    base = BaseClasses(problem.moments(), per)
    equations = base.equations
    assert base.per == per
    assert base.equations is equations
    for got, expected in zip(
        (equations.A0, equations.B0, equations.C0), summed(problem, per), strict=True
    ):
        assert_close(got, expected)
    # The moments themselves stay those of the samples.
    assert_close(base.moments.B0, summed(problem, "sample")[1])


def test_samples_weigh_alike_by_default():
    problem = uneven(1)
    base = BaseClasses(problem.moments())
    assert base.per == "sample"
    assert_close(base.equations.B0, summed(problem, "sample")[1])


@pytest.mark.parametrize("per", WEIGHTS)
def test_a_frame_shows_the_equations_and_leaves_nothing_out(per):
    problem = uneven(2)
    frame = BaseClasses(problem.moments(), per).frame(problem.Y_u)
    A0, B0, C0 = summed(problem, per)
    there = frame.equations
    assert_close(frame.U @ there.A0 @ frame.U.T, A0)
    assert_close(frame.V @ there.B0 @ frame.V.T, B0)
    assert_close(frame.lift(there.C0), C0)
    for M in (there.A0, there.B0):
        np.testing.assert_array_equal(M, np.diag(np.diag(M)))


@pytest.mark.parametrize("per", WEIGHTS)
@pytest.mark.parametrize("forward", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("shape", [{}, {"d": 50}, {"q": 1}], ids=str)
def test_a_projection_learnt_there_is_the_one_learnt_here(per, forward, shape):
    problem = uneven(3, **shape)
    base = BaseClasses(problem.moments(), per)
    frame = base.frame(problem.Y_u)
    there = directed_projection(frame.equations, 0.2, forward).value
    W = frame.lift(there)
    A0, B0, C0 = summed(problem, per)
    left = (A0 + 0.2 * np.eye(len(A0))) @ W
    right = W @ (B0 + 0.2 * np.eye(len(B0)))
    assert_close(forward * left + (1 - forward) * right, C0)
    assert_close(W, directed_projection(base.equations, 0.2, forward).value)
    loss = frame.equations.loss(there, forward)
    assert loss == pytest.approx(base.equations.loss(W, forward), rel=1e-10)


def test_the_weights_make_a_difference():
    problem = uneven(4)
    found = []
    for per in WEIGHTS:
        frame = BaseClasses(problem.moments(), per).frame(problem.Y_u)
        found.append(frame.lift(directed_projection(frame.equations, 0.2, 0.5).value))
    assert np.linalg.norm(found[0] - found[1]) > 0.01 * np.linalg.norm(found[0])


@pytest.mark.parametrize("per", WEIGHTS)
def test_equations_and_frames_share_one_decomposition(monkeypatch, per):
    problem = uneven(5, d=7)
    shapes = decomposed(monkeypatch)
    base = BaseClasses(problem.moments(), per)
    directed_projection(base.equations, 0.1, 1.0)
    for q in (1, 3):
        directed_projection(base.frame(problem.Y_u[:q]).equations, 0.1, 1.0)
    assert sorted(shapes) == [(5, 5), (7, 7)]


@pytest.mark.parametrize("per", WEIGHTS)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda base: pickle.loads(pickle.dumps(base))])
def test_copies_weigh_alike_and_remember(per, again):
    problem = uneven(6)
    base = BaseClasses(problem.moments(), per)
    base.remembered("a", lambda: [1, 2])
    copied = again(base)
    assert copied.per == per
    assert copied.remembered("a", list) == [1, 2]
    frames = (which.frame(problem.Y_u) for which in (copied, base))
    assert_close(*(frame.lift(frame.equations.C0) for frame in frames))


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
            assert base.remembered("a", lambda: calls.append(1) or value) is value
        assert calls == [1]

    def test_keys_are_told_apart_by_value(self, base):
        number = count()
        keys = [("worth", 0.1, "class"), ("worth", 0.1, "sample"), ("worth", 0.2, "class"), "worth"]
        assert [base.remembered(key, lambda: next(number)) for key in keys] == [0, 1, 2, 3]
        equal = [("worth", 0.1, "class"), "worth"]
        assert [base.remembered(key, lambda: next(number)) for key in equal] == [0, 3]

    def test_the_last_eight_are_kept(self, base):
        made = []

        def ask(key):
            return base.remembered(key, lambda: made.append(key) or object())

        first = [ask(key) for key in range(8)]
        assert [ask(key) for key in range(8)] == first
        assert made == list(range(8))
        ask(8)
        assert [ask(key) for key in range(1, 8)] == first[1:]
        assert made == list(range(9))
        assert ask(0) is not first[0]
        assert made == [*range(9), 0]

    def test_never_more_than_eight_are_held(self, base):
        for key in range(30):
            base.remembered(key, lambda key=key: np.full(2, key))
            assert len(base._kept) == min(key + 1, 8)

    def test_what_failed_is_tried_again(self, base):
        def fail():
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            base.remembered("a", fail)
        assert base.remembered("a", lambda: 3) == 3

    def test_each_has_its_own(self, base):
        other = BaseClasses(base.moments)
        base.remembered("a", lambda: 1)
        assert other.remembered("a", lambda: 2) == 2
        assert base.remembered("a", lambda: 3) == 1
