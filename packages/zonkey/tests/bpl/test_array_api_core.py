"""The whole road in tensors, and in arrays that allow the standard only, on either device."""

import numpy as np
import pytest
from libraries import in_every_library
from reference_few_shot import initial_projection
from turned import EXACT, Turned, several

from zonkey.bpl.algorithm1 import learn
from zonkey.bpl.episodes import Episodes, EpisodeSpan
from zonkey.bpl.frame import BaseClasses, frame_without_base
from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import (
    NormalEquations,
    bidirectional_projection,
)
from zonkey.bpl.synthesis import Synthesized, synthesize_from_support

pytestmark = in_every_library


def equations(library, plain):
    return NormalEquations(*(library(M) for M in (plain.A0, plain.B0, plain.C0)))


def synthesized(library, made):
    return Synthesized(*(library(M) for M in (made.features, made.targets, made.sources)))


def assert_close(got, expected, tolerance=1e-10):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# By conjugate gradients with and without a shared inverse, and by direct solves.
SHAPES = [
    {"shots": 1, "m": 1, "d": 40, "n": 60},
    {"shots": 1, "m": 6, "d": 30, "n": 60, "blur": 1e-9},
    {"shots": 2, "m": 3},
    {"shots": 2, "m": 0},
]


@pytest.mark.parametrize(
    ("rule", "shape"),
    [("second-best", shape) for shape in SHAPES] + [(None, SHAPES[1]), ("assigned", SHAPES[2])],
)
def test_episodes_agree_with_numpy(library, rule, shape):
    options = {"beta": 0.3, "tie_tol": 0.01, "rule": rule}
    learning = {"alpha": 0.6, "mu": 0.9, "max_iter": 4, "tol": 1e-4}  # mu may need the guard
    assert_episodes_agree(library, several(5, 2, 3, **shape), options, learning)


@pytest.mark.parametrize("blur", [1e-9, 0.1])
def test_indefinite_episodes_agree_with_numpy(monkeypatch, library, blur):
    monkeypatch.setattr(Episodes, "_solve_one_by_one", None)  # by the Woodbury formula
    problems = several(1, 2, 3, shots=1, m=6, d=30, n=60, noise=0.3, blur=blur)
    learning = {"alpha": 0.7, "mu": 0.95, "max_iter": 3, "tol": 0.0, "guard": False}
    course = assert_episodes_agree(library, problems, {"beta": 0.05, "rho": 0.8}, learning)
    assert course.indefinite.any()


def assert_episodes_agree(library, problems, options, learning):
    W = initial_projection(problems[0][0], options["beta"])
    turned = Turned(problems, W, **options)
    there = Episodes(
        equations(library, turned.equations),
        synthesized(library, turned.synthesized),
        library(turned.Y_u),
        tuple(library(M) for M in turned.support),
        **{name: value for name, value in (EXACT | options).items() if name != "rho"},
    )
    course = learn(there, library(turned.U.T @ W), **learning)
    expected = learn(turned.episodes, turned.U.T @ W, **learning)
    assert_close(library.numpy(course.W), expected.W)
    np.testing.assert_array_equal(course.mu, expected.mu)
    np.testing.assert_allclose(course.changes, expected.changes, rtol=1e-6, atol=1e-10)
    assert course.statuses == expected.statuses
    return course


@pytest.mark.parametrize(("noise", "n"), [(0.0, 14), (1e-6, 14), (1.0, 14), (1.0, 4)])
def test_spans_agree_with_numpy(library, noise, n):
    rng = np.random.default_rng(6)
    X_u, centers = rng.normal(size=(2, 3, 20)), rng.normal(size=(2, 2, 20))
    X = rng.normal(size=(2, 2, n, 5)) @ np.concatenate([X_u, centers], axis=1)[:, None]
    X += noise * rng.normal(size=X.shape)
    plain = EpisodeSpan(X, X_u, centers)
    span = EpisodeSpan(library(X), library(X_u), library(centers))
    assert span.is_short is plain.is_short is (n == 14)
    for weights in rng.uniform(0, 2, size=(2, 2, 2, n)):
        G, w = (library.numpy(M) for M in span.update(library(weights), 0.4, 1e-9))
        wide = plain.update(weights, 0.4, 1e-9)
        assert G.shape == wide[0].shape
        pairs = ((G, w), wide)
        assert_close(*((A * b[..., None, :]) @ np.swapaxes(A, -1, -2) for A, b in pairs))
        common = span.common(library(weights))
        assert (common is None) is (n == 4)
        if common is not None:
            pair = library.numpy(common), plain.common(weights)
            assert_close(*(A @ np.swapaxes(A, -1, -2) for A in pair))


@pytest.mark.parametrize("rotate", [True, False])
def test_frames_agree_with_numpy(library, rotate):
    ((problem,),) = several(7, k=12)
    plain = BaseClasses(problem.moments()).frame(problem.Y_u, rotate=rotate)
    moments = Moments(problem.moments().prototypes).update(library(problem.X), problem.labels)
    frame = BaseClasses(moments).frame(problem.Y_u, rotate=rotate)
    found, expected = (bidirectional_projection(f.equations, 0.2).value for f in (frame, plain))
    assert_close(library.numpy(frame.lift(found)), plain.lift(expected))
    assert isinstance(frame.V, np.ndarray)
    assert frame.equations.A0.ndim == (1 if rotate else 2)
    X_u = library.numpy(frame.features(library(problem.X_u)))
    assert_close(X_u @ X_u.T, problem.X_u @ problem.X_u.T)
    assert_close(library.numpy(frame.place(frame.semantics(problem.Y_u))) @ frame.V.T, problem.Y_u)


def test_frames_without_base_and_their_samples_agree_with_numpy(library):
    problems = several(9, 2, 3, d=20, k=11)
    problem = problems[0][0]
    frame = frame_without_base(library(problem.X_u), problem.Y_u)
    X_u = library.numpy(frame.features(library(problem.X_u)))
    assert_close(X_u @ library.numpy(frame.U).T, problem.X_u)
    lifted = library.numpy(frame.lift(library(np.ones(frame.equations.C0.shape))))
    expected = library.numpy(frame.U) @ np.ones(frame.equations.C0.shape) @ frame.V.T
    assert_close(lifted, expected)
    W = initial_projection(problem, 0.1)
    names = ("Y_u", "X_u", "codes")
    parts = [np.array([getattr(own[0], name) for own in problems]) for name in names]
    parts.append(np.array([[p.epsilon for p in own] for own in problems]))
    for some in (parts, [*parts[:3], parts[3][:, :, :0]]):  # with and without synthesized samples
        plain = synthesize_from_support(W, *some, rho=0.3, scaling=None)
        made = synthesize_from_support(library(W), *map(library, some), rho=0.3, scaling=None)
        np.testing.assert_allclose(library.numpy(made.features), plain.features, atol=1e-12)
        np.testing.assert_array_equal(library.numpy(made.targets), plain.targets)
