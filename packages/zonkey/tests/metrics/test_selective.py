"""Risk against coverage, and thresholds of a wanted precision, against loops and simulations."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from refusals import refused
from scipy.stats import binomtest

from zonkey.metrics import precision_threshold, risk_coverage_curve

seeds = st.integers(0, 2**32 - 1)
several = settings(max_examples=25, deadline=None)


def naive_curve(right, confidence, weights):
    """Return coverage, risk and threshold for every level of confidence, one loop each."""
    points = []
    for level in sorted(set(confidence), reverse=True):
        answered = good = 0.0
        for is_right, sure, weight in zip(right, confidence, weights, strict=True):
            if sure >= level:
                answered += weight
                good += weight * is_right
        points.append((answered / sum(weights), 1 - good / answered, level))
    return points


def naive_area(points):
    area = before = 0.0
    for coverage, risk, _ in points:
        area += (coverage - before) * risk
        before = coverage
    return area


@given(seeds)
@several
def test_the_curve_is_that_of_the_loops(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.integers(2, size=(2, 12))
    confidence = (rng.integers(5, size=12) / 4).tolist()  # with ties
    weights = rng.integers(1, 4, size=12).astype(float)
    for given_weights in (None, weights):
        own = np.ones(12) if given_weights is None else weights
        got = risk_coverage_curve(true, predicted, confidence, sample_weight=given_weights)
        points = naive_curve(true == predicted, confidence, own)
        assert_allclose(np.stack([got.coverage, got.risk, got.thresholds], axis=1), points)
        assert got.area == pytest.approx(naive_area(points))
        assert got.coverage[-1] == 1.0
    # A weight of 2 is a sample twice, and one of 0 none.
    n = weights.astype(int)
    repeated = risk_coverage_curve(*(np.repeat(part, n) for part in (true, predicted, confidence)))
    assert got.area == pytest.approx(repeated.area)
    nothing = np.append(weights, 0.0)
    more = [np.append(part, 1) for part in (true, predicted, confidence)]
    assert risk_coverage_curve(*more, sample_weight=nothing).area == pytest.approx(got.area)


def test_area_is_the_mean_risk_over_all_numbers_of_answers():
    right = np.array([1, 1, 0, 1, 0, 0, 1])
    got = risk_coverage_curve(np.ones(7), right, -np.arange(7.0))
    assert got.area == pytest.approx(1 - np.mean([right[:k].mean() for k in range(1, 8)]))
    indifferent = risk_coverage_curve(np.ones(7), right, np.zeros(7))
    assert indifferent.area == pytest.approx(3 / 7)
    assert indifferent.coverage.tolist() == [1.0]


def test_the_best_order_is_the_best_of_all_orders():
    true, predicted = np.array([1, 1, 1, 1, 1]), np.array([1, 0, 1, 0, 1])
    areas = [
        risk_coverage_curve(true, predicted, np.array(order)).area
        for order in permutations(range(5))
    ]
    got = risk_coverage_curve(true, predicted, [2, 1, 2, 1, 2])
    assert got.best == pytest.approx(min(areas))
    perfect = risk_coverage_curve(true, predicted, [5, 2, 4, 1, 3])
    assert perfect.excess == pytest.approx(0)
    assert risk_coverage_curve(true, predicted, [1, 5, 2, 4, 3]).excess == pytest.approx(
        max(areas) - min(areas)
    )
    for answers, best in ((true, 0.0), (1 - true, 1.0)):
        assert risk_coverage_curve(true, answers, np.arange(5)).best == pytest.approx(best)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "confidence", "message"),
    [
        ([1, 2], [1, 2], [0.5], r"the 2 samples of y_true; got shapes \(2,\) and \(1,\)"),
        ([1, 2], [1], [0.5, 1], r"got shapes \(1,\) and \(2,\)"),
        ([1, 2], [1, 2], [0.5, np.nan], "1 of 2 are NaN. Use -inf"),
        ([1, 2], ["1", "2"], [0.5, 1], "one kind"),
        ([], [], [], "y_true must hold at least one"),
    ],
)
def test_bad_input_is_named(y_true, y_pred, confidence, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage_curve(y_true, y_pred, confidence)
    with pytest.raises(ValueError, match=message):
        precision_threshold(y_true, y_pred, confidence, 0.9)


# Thresholds of a wanted precision.


def lower_end(k, n, level):
    """Return the lower end of the one-sided Clopper-Pearson interval, by scipy."""
    test = binomtest(k, n, alternative="greater")
    return test.proportion_ci(confidence_level=level, method="exact").low


@pytest.mark.parametrize("certainty", [0.8, 0.95])
@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_the_lowest_of_a_loop_over_all(certainty, seed):
    rng = np.random.default_rng(seed)
    sure = rng.integers(1, 60, size=300) / 60
    right = rng.random(300) < sure**0.3
    expected = None
    for level in sorted(set(sure), reverse=True):
        accepted = sure >= level
        k, n = int(right[accepted].sum()), int(accepted.sum())
        if lower_end(k, n, certainty) >= 0.85:
            expected = level, k, n
    found = precision_threshold(right, np.ones(300), sure, 0.85, certainty=certainty)
    level, k, n = expected
    assert found.threshold == level
    assert found.precision == pytest.approx(k / n)
    interval = binomtest(k, n).proportion_ci(method="exact")
    assert_allclose((found.low, found.high), (interval.low, interval.high))
    assert (found.coverage, found.n_samples, found.wanted) == (n / 300, 300, 0.85)


def test_weights_count_as_samples_of_equal_weight():
    sure, right = np.linspace(0, 1, 400), np.arange(400) % 9 != 0
    plain = precision_threshold(right, np.ones(400), sure, 0.87)
    same = precision_threshold(right, np.ones(400), sure, 0.87, sample_weight=np.full(400, 3.0))
    assert (plain.threshold, plain.low) == pytest.approx((same.threshold, same.low))
    # Half of the samples do not count: the interval is that of the others.
    half = np.where(np.arange(400) < 200, 0.0, 1.0)
    some = precision_threshold(right, np.ones(400), sure, 0.84, sample_weight=half)
    few = precision_threshold(right[200:], np.ones(200), sure[200:], 0.84)
    assert (some.threshold, some.low, some.high) == pytest.approx(
        (few.threshold, few.low, few.high)
    )


def test_what_cannot_be_reached_is_named():
    with refused(ValueError, "A precision of 95 %", "20 samples", "highest is 92.3 %", "labeled"):
        precision_threshold(np.ones(20), np.ones(20), np.arange(20), 0.95)
    for wrong in (0, 1, True, "0.9", 95):
        with refused(ValueError, "`precision` must be", repr(wrong), "0.95"):
            precision_threshold([1], [1], [0.5], wrong)
    with refused(ValueError, "`certainty` must be", "0.5", "Pass 0.8"):
        precision_threshold([1], [1], [0.5], 0.9, certainty=0.4)


@pytest.mark.parametrize("certainty", [0.8, 0.9])
@pytest.mark.parametrize("n", [200, 1000])
def test_the_precision_is_reached_as_often_as_stated(n, certainty):
    """The threshold is chosen on the samples that show its precision; fresh ones reach it."""
    rng = np.random.default_rng(0)
    reached, found = [], []
    for _ in range(300):
        sure = rng.beta(3, 0.7, size=n)
        right = rng.random(n) < sure**1.5
        try:
            level = precision_threshold(right, np.ones(n), sure, 0.9, certainty=certainty).threshold
        except ValueError:
            continue
        fresh = rng.beta(3, 0.7, size=20_000)
        fresh = fresh[fresh >= level]
        found.append(float(np.mean(fresh**1.5)))
        reached.append(found[-1] >= 0.9)
    assert len(found) > 250
    assert np.mean(reached) > certainty - 0.05
    assert 0.9 < np.mean(found) < 0.95
