"""One family of directions, from forward alone to reverse alone, against loops over raw samples."""

import numpy as np
import pytest
from reference import decomposed, random_problem

from zonkey.bpl.projection import (
    bidirectional_projection,
    directed_projection,
    forward_projection,
    reverse_projection,
)
from zonkey.bpl.sylvester import Status

SHARES = [0.0, 0.2, 0.5, 0.9, 1.0]
NAMED = {1.0: forward_projection, 0.0: reverse_projection, 0.5: bidirectional_projection}


def assert_close(got, expected, tolerance=1e-10):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


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
