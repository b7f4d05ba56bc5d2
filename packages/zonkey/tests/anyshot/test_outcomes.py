"""Penalties, scores and temperatures of folds against loops."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from zonkey.anyshot.outcomes import (
    Outcome,
    best_penalty,
    guard_penalty,
    likely_temperature,
    mean_right,
    weight_of_unseen,
)


def drawn(seed, n=23, n_new=9):
    """Return predictions of n samples, the first of which are of new classes."""
    rng = np.random.default_rng(seed)
    weights = rng.random(n)
    is_new = np.arange(n) < n_new
    is_right = rng.random(n) < 0.7
    margins = rng.normal(size=n) - is_new
    return Outcome(margins, weights * (is_new & is_right), weights * (~is_new & is_right))


def naive_mean(outcome, penalty, weight):
    new = old = 0.0
    for margin, of_new, of_old in zip(outcome.margins, outcome.of_new, outcome.of_old, strict=True):
        if margin <= penalty:
            new += of_new
        else:
            old += of_old
    return 0.0 if new * old == 0 else 1 / ((1 - weight) / old + weight / new)


@pytest.mark.parametrize("weight", [0.05, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_penalty_maximizes_the_weighted_harmonic_mean(seed, weight):
    outcomes = [drawn(seed), drawn(seed + 10, n=15, n_new=4)]
    found, penalty = best_penalty(outcomes, weight)
    at = {
        p: np.mean([naive_mean(outcome, p, weight) for outcome in outcomes])
        for p in [penalty, *(m for outcome in outcomes for m in outcome.margins)]
    }
    assert found == pytest.approx(at[penalty])
    assert found == pytest.approx(max(at.values()), abs=0.03)  # of a grid of quantiles
    assert outcomes[0].harmonic_mean(penalty) == pytest.approx(
        naive_mean(outcomes[0], penalty, 0.5)
    )


def test_a_smaller_weight_of_new_classes_lowers_the_penalty():
    penalties = [best_penalty([drawn(5, n=300, n_new=100)], w)[1] for w in (0.02, 0.2, 0.5)]
    assert penalties == sorted(penalties)
    assert penalties[0] < penalties[2]
    assert [weight_of_unseen(share) for share in (0.05, 0.125, 0.25, 0.6)] == [0.1, 0.25, 0.5, 0.5]


@pytest.mark.parametrize("most", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_the_guard_lets_new_classes_take_at_most_a_share(n, most):
    rng = np.random.default_rng(n)
    margins, weights, usual = rng.normal(size=n), rng.random(n), -0.7
    penalty = guard_penalty(margins, weights, n, most, usual)
    total = weights.sum() * (1 + 1 / n)

    def taken(limit):
        share = sum(w for m, w in zip(margins, weights, strict=True) if m <= limit)
        return (share + weights.mean() * (usual <= limit)) / total

    assert taken(penalty) <= most
    following = min([*(m for m in [*margins, usual] if m > penalty), math.inf])
    assert taken(following) > most


def test_the_guard_is_usual_without_samples():
    assert guard_penalty(np.zeros(0), np.zeros(0), 0, 0.2, -0.3) == -0.3


def test_copies_do_not_change_the_guard():
    margins, weights = np.array([0.3, -0.2, 1.0]), np.array([1.0, 2.0, 1.0])
    copies = np.array([0, 1, 1, 2])
    once = guard_penalty(margins, weights / 4, 4, 0.3, -0.1)
    again = guard_penalty(margins[copies], np.full(4, 0.25), 4, 0.3, -0.1)
    assert again == pytest.approx(once)


@pytest.mark.parametrize(("n", "spread"), [(3, 0.7), (40, 0.2)])
def test_the_temperature_is_the_mode_of_its_posterior(n, spread):
    rng = np.random.default_rng(n)
    codes, weights = rng.integers(0, 4, n), rng.random(n)
    S = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[codes]
    usual = 0.3

    def surprise(doublings):
        T, total = usual * 2**doublings, 0.0
        for scores, code, weight in zip(S, codes, weights, strict=True):
            odds = sum(math.exp((s - scores[code]) / T) for s in scores)
            total += weight * math.log(odds) / weights.sum()
        return total + (doublings / spread) ** 2 / 2 / n

    found: Any = minimize_scalar(surprise, bounds=(-6, 6), method="bounded")
    half = [(S[part], codes[part], weights[part]) for part in (slice(0, 1), slice(1, n))]
    T, least = likely_temperature(half, usual, n, spread)
    assert usual * 2**found.x == pytest.approx(T, rel=1e-2)
    assert least == pytest.approx(surprise(math.log2(T / usual)), rel=1e-5)


def test_three_samples_without_error_do_not_make_a_temperature_of_zero():
    S, codes = 5 * np.eye(3), np.arange(3)
    few = likely_temperature([(S, codes, np.ones(3))], 2.0, 3)[0]
    many = likely_temperature([(S, codes, np.ones(3))], 2.0, 3000)[0]
    assert 2.0 > few > 0.7 > many > 0.0
    assert likely_temperature([], 2.0, 0)[0] == 2.0


def test_classes_that_are_left_out_do_not_count():
    right = [np.array([0.2, 0.5]), np.array([0.1, 0.3, 0.0])]
    held = [np.array([0, 4]), np.array([1, 2, 4])]
    assert mean_right(right, held, None) == pytest.approx((0.7 + 0.4) / 2)
    assert mean_right(right, held, np.array([4])) == pytest.approx((0.4 + 0.4 * 3 / 2) / 2)
    assert mean_right(right, held, np.array([0, 4])) == pytest.approx(0.4 * 3 / 2)
    assert mean_right(right, held, np.arange(5)) == 0.0
