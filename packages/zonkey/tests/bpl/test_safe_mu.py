"""The guard on mu against loops over its halves, with dense eigenvalues of both sides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import halved, smallest

from zonkey.bpl.algorithm1 import Sides, keeps_its_share, lower_mu


def drawn(seed, *, q=4, k=3, d=5, n=12, ridge=0.1):
    """Return pulled and pushed counts, A-hat (of the mu asked for) and B-hat of class weights."""
    rng = np.random.default_rng(seed)
    pulled, pushed = rng.multinomial(n, np.full(q, 1 / q), size=2).astype(float)
    Y, Y_s, X = rng.normal(size=(q, k)), rng.normal(size=(3, k)), rng.normal(size=(n, d))
    A, seen = 0.1 * X.T @ X + ridge * np.eye(d), 0.2 * Y_s.T @ Y_s

    def B_hat(weights):
        assert weights.shape == (q,)
        weighted = sum(w * np.outer(y, y) for w, y in zip(weights, Y, strict=True))
        return seen + weighted + ridge * np.eye(k)

    return pulled, pushed, A, B_hat


def asking(A, asked=None):
    """Say by dense eigenvalues whether A is at least x; note what was asked."""

    def at_least(x):
        if asked is not None:
            asked.append(x)
        return bool(smallest(A) >= x)

    return at_least


@given(
    seed=st.integers(0, 10**6),
    mu=st.floats(0.01, 1),
    q=st.integers(1, 5),
    ridge=st.sampled_from([1e-3, 0.1, 5.0]),
    bound=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(deadline=None, max_examples=200)
def test_equals_the_brute_force_over_halves(seed, mu, q, ridge, bound):
    pulled, pushed, A, B_hat = drawn(seed, q=q, ridge=ridge)
    without = smallest(A) + smallest(B_hat(pulled))

    def is_safe(mu):
        return smallest(A) + smallest(B_hat(pulled - mu * pushed)) >= 0.05 * without

    least = bound * smallest(A)  # any lower bound does
    sides = Sides(B_hat, least, asking(A))
    assert lower_mu(pulled, pushed, mu, sides) == halved(mu, is_safe)
    if not keeps_its_share(pulled, pushed, mu):
        of_classes = pulled - mu * pushed
        expected = smallest(A) + smallest(B_hat(of_classes)) > 0
        assert bool(sides.are_definite(of_classes)) is bool(expected)


def test_mu_is_lowered_in_some_cases_and_given_up_in_others():
    found = []
    for seed in range(60):
        pulled, pushed, A, B_hat = drawn(seed, ridge=1e-3)
        sides = Sides(lambda w, B=B_hat: 30 * B(w), smallest(A), asking(A))
        found.append(lower_mu(pulled, pushed, 0.9, sides))
    assert {0.9, 0.45, 0.225} <= set(found)
    hopeless = Sides(lambda w: np.diag(np.where(w > 0, 1e-9, 1e9 * w)), 1e-12, lambda x: x <= 1e-12)
    pulled, pushed = np.array([5.0, 0.0]), np.array([0.0, 5.0])
    assert lower_mu(pulled, pushed, 0.9, hopeless) == 0.0


def test_nothing_is_looked_at_where_every_class_keeps_its_share():
    assert lower_mu(np.array([4.0, 8.0]), np.array([3.0, 7.6]), 1.0, None) == 1.0
    assert lower_mu(np.array([4.0, 0.0]), np.array([9.0, 9.0]), 0.0, None) == 0.0
    assert not keeps_its_share(np.array([4.0, 8.0]), np.array([3.0, 7.7]), 1.0)


def test_A_is_asked_where_its_bound_is_not_enough_only():
    for seed in range(30):
        pulled, pushed, A, B_hat = drawn(seed)
        asked = []
        at_least = asking(A, asked)
        bounded = lower_mu(pulled, pushed, 0.9, Sides(B_hat, smallest(A), at_least))
        assert all(x > smallest(A) for x in asked)
        asked.clear()
        assert lower_mu(pulled, pushed, 0.9, Sides(B_hat, -1e9, at_least)) == bounded
        if not keeps_its_share(pulled, pushed, 0.9):
            assert asked[-1] <= smallest(A)


def needed_of_A(least, uncontested):
    """The eigenvalue of A-hat that is asked for where B-hat has the smallest one `least`."""
    asked = []
    sides = Sides(lambda _: np.diag([least, 9.0]).astype(uncontested.dtype), -1e9, asked.append)
    sides.are_definite(np.ones(2, uncontested.dtype), uncontested)
    return asked[0]


@pytest.mark.parametrize("least", [-2.0, 0.001, 0.3])
def test_needed_is_where_a_twentieth_of_the_curvature_is_left(least):
    needed = needed_of_A(least, np.array([0.8, 1.0, 3.0]))
    expected = max((0.05 * 0.8 - least) / 0.95, 2 * np.finfo(float).eps * 3 - least)
    assert needed == pytest.approx(expected, rel=1e-12)
    if least < 0.04:
        assert needed + least == pytest.approx(0.05 * (needed + 0.8), rel=1e-9)


@pytest.mark.parametrize(("smallest_of_B", "safe"), [(1e-5, True), (1e-7, False)])
def test_needed_is_no_less_than_rounding_can_tell(smallest_of_B, safe):
    uncontested = np.array([smallest_of_B, 1.0, 2.0], np.float32)
    assert (needed_of_A(smallest_of_B, uncontested) <= 0.0) is safe
