"""One family of directions, from forward alone to reverse alone, against loops over raw samples."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    decomposed,
    finite_differences,
    random_problem,
    seen_loss,
)

from zonkey.core import algorithm1
from zonkey.core.projection import (
    bidirectional_projection,
    directed_projection,
    forward_projection,
    reverse_projection,
)
from zonkey.linalg.sylvester import Status

SHARES = [0.0, 0.2, 0.5, 0.9, 1.0]
NAMED = {1.0: forward_projection, 0.0: reverse_projection, 0.5: bidirectional_projection}


def assert_close(got, expected, tolerance=1e-10):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def slope(function, W):
    """The largest entry of a gradient, exact for a quadratic function whatever the step."""
    return np.abs(finite_differences(function, W, step=1e-2)).max()


class TestProjection:
    @pytest.mark.parametrize("beta", [1e-3, 0.7, 30.0])
    @pytest.mark.parametrize("forward", [0.0, 0.1, 0.5, 0.8, 1.0])
    def test_solves_the_equation_of_the_family(self, forward, beta):
        problem = random_problem(1)
        solution = directed_projection(problem.equations(), beta, forward)
        W = solution.value
        A0 = sum(np.outer(x, x) for x in problem.X)
        B0 = sum(np.outer(y, y) for y in problem.Y)
        C0 = sum(np.outer(x, y) for x, y in zip(problem.X, problem.Y, strict=True))
        left = (A0 + beta * np.eye(7)) @ W
        right = W @ (B0 + beta * np.eye(4))
        assert solution.status is Status.SOLVED
        assert_close(forward * left + (1 - forward) * right, C0)

    @pytest.mark.parametrize("beta", [0.01, 2.0])
    @pytest.mark.parametrize("forward", [0.0, 0.1, 0.5, 0.8, 1.0])
    def test_gradient_of_the_weighted_loss_vanishes(self, forward, beta):
        problem = random_problem(2, n=15, d=5, k=3)

        def weighted(W):
            return seen_loss(problem, W, forward) + 2 * beta * np.sum(W**2)

        W = directed_projection(problem.equations(), beta, forward).value
        assert slope(weighted, W) < 1e-8 * weighted(0 * W)
        assert slope(weighted, W + 0.1) > 1e-2 * weighted(0 * W)

    @pytest.mark.parametrize("forward", NAMED)
    def test_the_named_models_are_its_points(self, forward):
        equations = random_problem(3).equations()
        expected = NAMED[forward](equations, 0.3).value
        np.testing.assert_array_equal(directed_projection(equations, 0.3, forward).value, expected)
        for other in set(NAMED) - {forward}:
            assert not np.allclose(directed_projection(equations, 0.3, other).value, expected)

    @pytest.mark.parametrize("end", [0.0, 1.0])
    def test_the_ends_are_limits(self, end):
        equations = random_problem(4).equations()
        near = abs(end - 1e-9)
        W = directed_projection(equations, 0.3, end).value
        assert_close(directed_projection(equations, 0.3, near).value, W, 1e-6)

    @pytest.mark.parametrize(
        ("forward", "expected"),
        [(0.0, [(4, 4)]), (0.3, [(4, 4), (7, 7)]), (1.0, [(7, 7)])],
    )
    def test_decomposes_only_what_it_needs(self, monkeypatch, forward, expected):
        equations, shapes = random_problem(5).equations(), decomposed(monkeypatch)
        directed_projection(equations, 0.3, forward)
        assert sorted(shapes) == expected

    @pytest.mark.parametrize("forward", SHARES)
    def test_numpy_scalars_do_not_widen_float32(self, forward):
        problem = random_problem(6)
        exact = directed_projection(problem.equations(), 0.5, forward).value
        share, beta = np.float64(forward), np.float64(0.5)
        single = directed_projection(problem.equations(np.float32), beta, share).value
        assert single.dtype == np.float32
        assert_close(single, exact, 1e-5)


class TestLoss:
    @settings(deadline=None, max_examples=25)
    @given(
        seed=st.integers(0, 10**6),
        n=st.integers(1, 20),
        d=st.integers(1, 8),
        k=st.integers(1, 5),
        forward=st.sampled_from(SHARES),
    )
    def test_of_the_moments_is_that_of_the_samples(self, seed, n, d, k, forward):
        problem = random_problem(seed, n=n, d=d, k=k, p=min(n, 3))
        W = np.random.default_rng(seed + 1).normal(size=(d, k))
        loss = problem.equations().loss(W, forward)
        assert isinstance(loss, float)
        assert loss == pytest.approx(seen_loss(problem, W, forward), rel=1e-11)

    def test_is_halfway_by_default(self):
        problem = random_problem(7)
        equations, W = problem.equations(), np.random.default_rng(0).normal(size=(7, 4))
        ends = [equations.loss(W, end) for end in (0.0, 1.0)]
        assert equations.loss(W) == equations.loss(W, 0.5)
        assert equations.loss(W) == pytest.approx(sum(ends) / 2, rel=1e-12)
        assert ends[0] != pytest.approx(ends[1], rel=0.01)

    def test_of_the_reverse_direction_alone_decomposes_nothing(self, monkeypatch):
        equations, W = random_problem(8).equations(), np.ones((7, 4))
        shapes = decomposed(monkeypatch)
        equations.loss(W, 0.0)
        assert shapes == []
        equations.loss(W, 0.2)
        assert shapes == [(7, 7)]


class TestAssignment:
    @settings(deadline=None, max_examples=25)
    @given(
        seed=st.integers(0, 10**6),
        d=st.integers(1, 8),
        k=st.integers(1, 5),
        forward=st.sampled_from(SHARES),
        q=st.integers(1, 5),
        known=st.booleans(),
    )
    def test_losses_equal_two_weighted_squared_norms(self, seed, d, k, q, forward, known):
        problem = random_problem(seed, d=d, k=k, q=q, n_g=6)
        W = np.random.default_rng(seed + 1).normal(size=(d, k))
        of_X = np.array([x @ x for x in problem.X_g]) if known else None
        f = algorithm1.losses(W, problem.X_g, problem.Y_u, of_X, forward=forward)
        expected = reference.f(W, problem.X_g, problem.Y_u, forward)
        np.testing.assert_allclose(f, expected, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("forward", SHARES)
    def test_losses_are_never_negative_and_keep_float32(self, forward):
        rng = np.random.default_rng(2)
        W = np.linalg.qr(rng.normal(size=(9, 4)))[0].astype(np.float32)
        Y_u = rng.normal(size=(50, 4)).astype(np.float32)
        f = algorithm1.losses(W, Y_u @ W.T, Y_u, forward=forward)
        assert f.dtype == np.float32
        assert (f >= 0).all()
        np.testing.assert_allclose(np.diag(f), 0.0, atol=1e-4)

    def test_direction_decides_which_class_is_nearest(self):
        # W'x = (2, 1) is nearest to y_1 = (2, 0.5); x = (1, 1) to W y_0 = (1, 1.5).
        W, X_g = np.diag([2.0, 1.0]), np.array([[1.0, 1.0]])
        Y_u = np.array([[0.5, 1.5], [2.0, 0.5]])
        forward = algorithm1.losses(W, X_g, Y_u, forward=1.0)
        reverse = algorithm1.losses(W, X_g, Y_u, forward=0.0)
        np.testing.assert_allclose(forward, [[2 * (1.5**2 + 0.5**2), 2 * 0.5**2]])
        np.testing.assert_allclose(reverse, [[2 * 0.5**2, 2 * (3**2 + 0.5**2)]])
