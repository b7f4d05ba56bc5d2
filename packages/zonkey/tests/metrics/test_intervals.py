"""Intervals of a mean against the t-test; the paired bootstrap against plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from zonkey import config_context
from zonkey.metrics import (
    mean_confidence_interval,
    paired_bootstrap_interval,
    per_class_accuracy,
)
from zonkey.metrics.intervals import class_bootstrap, interval_of, sample_bootstrap


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_interval_is_that_of_the_t_test(confidence):
    values = np.random.default_rng(0).normal(size=9)
    mean, half_width = mean_confidence_interval(values, confidence)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    assert (mean - half_width, mean + half_width) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("values", "confidence", "message"),
    [
        *(
            (values, 0.95, r"at least two finite figures.*Run more trials")
            for values in ([], [0.3], [[0.1, 0.2]], [0.1, np.nan])
        ),
        *(([0.1, 0.2], level, f"between 0 and 1; got {level}") for level in (0, 1, 95)),
    ],
)
def test_values_without_an_interval(values, confidence, message):
    with pytest.raises(ValueError, match=message):
        mean_confidence_interval(values, confidence)


def case(n=60, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    guesses = [
        np.where(rng.random(n) < p, truth, rng.integers(n_classes, size=n)) for p in (0.6, 0.4)
    ]
    return truth, *guesses


def wider(values):
    """Return how far from a mean to the mean of n drawn values, undone for the loss of variance."""
    return np.sqrt(len(values) / (len(values) - 1))


def plain_loop(truth, a, b, rng, n_resamples=4000):
    """Draw samples class by class and runs model by model, one resample after the other."""
    right_a, right_b = a == truth, b == truth
    gains = right_a.mean(axis=0) - right_b.mean(axis=0)
    classes = [gains[truth == label] for label in np.unique(truth)]
    sides = [
        [np.mean([np.mean(run[truth == label]) for label in np.unique(truth)]) for run in right]
        for right in (right_a, right_b)
    ]
    found = []
    for _ in range(n_resamples):
        value = np.mean(
            [c.mean() + wider(c) * (rng.choice(c, len(c)).mean() - c.mean()) for c in classes]
        )
        for side, sign in zip(sides, (1, -1), strict=True):
            if len(side) > 1:
                drawn = rng.choice(side, len(side)).mean() - np.mean(side)
                value += sign * wider(side) * drawn
        found.append(value)
    return np.percentile(found, [2.5, 97.5])


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 1), (5, 1), (4, 3)])
def test_interval_is_that_of_drawing_samples_and_runs_themselves(n_a, n_b):
    truth, *_ = case()
    rng = np.random.default_rng(5)
    sides = []
    for n_runs, skill in ((n_a, 0.6), (n_b, 0.4)):
        skills = skill + 0.1 * rng.normal(size=(n_runs, 1))
        hits = rng.random((n_runs, len(truth))) < skills
        sides.append(np.where(hits, truth, -1))
    difference, low, high = paired_bootstrap_interval(truth, *sides, n_resamples=20_000)
    means = [np.mean([per_class_accuracy(truth, run) for run in side]) for side in sides]
    assert difference == pytest.approx(means[0] - means[1])
    assert (low, high) == pytest.approx(plain_loop(truth, *sides, rng), abs=0.015)


@pytest.mark.parametrize("sizes", [[2] * 80, [1] * 80, [1, 4] * 30])
def test_equal_models_are_told_apart_in_a_twentieth_of_all_tries(sizes):
    truth = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(0)
    n_tries, n_apart = 300, 0
    for _ in range(n_tries):
        a, b = np.where(rng.random((2, len(truth))) < 0.4, truth, -1)
        _, low, high = paired_bootstrap_interval(truth, a, b, n_resamples=300)
        n_apart += not low <= 0 <= high
    assert 0.02 <= n_apart / n_tries <= 0.085  # 5 %, give or take three standard deviations


def test_runs_that_differ_widen_the_interval():
    truth = np.array([0, 0, 1, 1])
    wrong, half = np.full(4, 9), np.stack([truth, np.full(4, 9)])
    alone = paired_bootstrap_interval(truth, truth, wrong)
    assert alone == (1, 1, 1)
    # All samples are alike: only which of the two runs is drawn, by a half each, moves the mean.
    difference, low, high = paired_bootstrap_interval(truth, half, wrong)
    assert (difference, low, high) == pytest.approx((0.5, 0.5 - np.sqrt(0.5), 0.5 + np.sqrt(0.5)))


def test_a_lone_class_of_one_sample_is_drawn_with_the_smallest_other():
    truth = np.array([0, 0, 0, 1, 1, 2])
    a = np.where(truth == 2, 2, -1)
    difference, low, high = paired_bootstrap_interval(truth, a, np.full(6, -1))
    assert difference == pytest.approx(1 / 3)
    assert low < 1 / 3 < high
    # Gains 0, 0 and 1, drawn three times: none of the 1 at the least, three at the most.
    assert (low, high) == pytest.approx((1 / 3 - np.sqrt(1.5) / 3, 1 / 3 + np.sqrt(1.5) * 2 / 3))


def test_the_seed_and_nothing_else_decides():
    truth, a, b = case()
    names = np.array(["a", "b", "c", "d"])
    first = paired_bootstrap_interval(truth, a, b)
    assert first == paired_bootstrap_interval(names[truth], names[a].tolist(), names[b])
    assert first != paired_bootstrap_interval(truth, a, b, random_state=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"y_true": [1], "predicted_a": [1], "predicted_b": [1]},
            r"y_true must have at least 2 samples to resample; got 1\.",
        ),
        ({"predicted_a": [[1, 2, 1], [1, 1, 1]]}, r"predicted_a must have one .* got 3 for 2\."),
        ({"y_true": []}, r"y_true must hold at least one label, got none\."),
        ({"predicted_a": [1]}, r"predicted_a must have one entry for each .* got 1 for 2\."),
        ({"predicted_b": [1, 2, 3]}, r"predicted_b must have one entry .* got 3 for 2\."),
        ({"predicted_b": ["1", "2"]}, r"one kind to be compared; .* Convert them to one type\."),
        ({"n_resamples": 0}, r"n_resamples must be a positive integer; got 0\. Use 2000\."),
        ({"n_resamples": True}, r"n_resamples must be a positive integer; got True\."),
        ({"n_resamples": 10.0}, r"n_resamples must be a positive integer; got 10\.0\."),
        ({"confidence": 95}, r"confidence must be between 0 and 1; got 95\. Use 0\.95\."),
    ],
)
def test_refusals_name_the_rule_and_what_was_given(changed, message):
    given = {"y_true": [1, 2], "predicted_a": [1, 2], "predicted_b": [1, 1], **changed}
    with pytest.raises(ValueError, match=message):
        paired_bootstrap_interval(**given)


# Resamples of classes and of samples within classes.

CLASS_OF = np.repeat([0, 1, 2, 3, 4, 6], [1, 3, 2, 5, 4, 2])[::-1]  # class 5 has no sample
GROUP_OF = np.array([True, True, True, False, False, False, False])


def resamples(n=200, seed=0, class_of=CLASS_OF, group_of=GROUP_OF):
    return np.concatenate(list(class_bootstrap(class_of, group_of, n, seed)))


def test_a_resample_draws_classes_of_each_group_and_samples_of_each_class():
    sizes = np.bincount(CLASS_OF, minlength=7)
    for counts in resamples():
        # Two of three classes are drawn, and count one and a half times.
        drawn = np.bincount(CLASS_OF, weights=counts, minlength=7) / np.maximum(sizes, 1) / 1.5
        assert_allclose(drawn, drawn.round())
        assert_allclose([drawn[:3].sum(), drawn[3:].sum()], 2)
    assert_allclose(resamples(20_000).mean(axis=0), 1, atol=0.06)


def test_resamples_depend_on_the_seed_and_not_on_blocks():
    first = resamples(30)
    with config_context(working_memory=4 * 32 * len(CLASS_OF) / 2**20):
        assert [len(part) for part in class_bootstrap(CLASS_OF, GROUP_OF, 30, 0)] == [4] * 7 + [2]
        assert_array_equal(resamples(30), first)
    assert (resamples(30, seed=1) != first).any()


def test_a_group_of_one_class_varies_in_its_samples():
    counts = resamples(class_of=np.zeros(5, int), group_of=np.array([True]))
    assert (counts.sum(axis=1) == 5).all()
    assert len(np.unique(counts, axis=0)) > 20


def test_the_spread_of_resamples_is_that_between_classes_and_within():
    rng = np.random.default_rng(0)
    class_of = np.repeat(np.arange(6), [2, 9, 4, 5, 3, 7])
    values = rng.random(30) + class_of / 5
    sizes = np.bincount(class_of)
    means = np.bincount(class_of, weights=values) / sizes
    within = np.bincount(class_of, weights=(values - means[class_of]) ** 2) / sizes
    expected = means.var(ddof=1) / 6 + np.mean(within / sizes) / 5
    counts = resamples(20_000, class_of=class_of, group_of=np.ones(6, bool))
    found = (counts * (values / sizes[class_of])).sum(axis=1) / 6
    assert_allclose(found.var(), expected, rtol=0.05)
    assert_allclose(found.mean(), means.mean(), atol=0.01)


def test_the_interval_of_draws_is_centered_on_the_value():
    draws = np.append(np.linspace(0.3, 0.5, 101), np.nan)
    assert_allclose(interval_of(0.25, draws, 0.9), (0.16, 0.34))
    assert_allclose(interval_of(0.25, draws, 0.5), (0.2, 0.3))
    assert_allclose(interval_of(0.05, draws, 0.9), (0.0, 0.14))
    assert_allclose(interval_of(0.97, draws, 0.9), (0.88, 1.0))
    assert interval_of(1.0, np.ones(5), 0.9) == (1.0, 1.0)


@pytest.mark.parametrize(("n_classes", "least"), [(2, 0.9), (6, 0.92)])
def test_intervals_of_few_classes_cover_the_mean_of_all(n_classes, least):
    """Accuracies of classes have the mean 0.6 and the standard deviation 0.15."""
    rng = np.random.default_rng(1)
    n_tries, n_samples, covered = 200, 10, 0
    class_of = np.repeat(np.arange(n_classes), n_samples)
    for seed in range(n_tries):
        right = rng.random(len(class_of)) < rng.beta(6, 4, n_classes)[class_of]
        counts = resamples(200, seed, class_of, np.ones(n_classes, bool))
        draws = counts @ right / len(class_of)
        low, high = interval_of(right.mean(), draws, 0.95)
        covered += low <= 0.6 <= high
    assert covered / n_tries >= least


def test_sample_weights_resample_within_classes():
    class_of = np.repeat([0, 1, 2, 3], [8, 2, 1, 1])
    blocks = list(sample_bootstrap(class_of, 4000, seed=1))
    weights = np.concatenate(blocks)
    assert weights.shape == (4000, 12)
    strata = [np.arange(8), np.arange(8, 10), np.arange(10, 12)]  # single samples are together
    for one in strata:
        assert_allclose(weights[:, one].sum(axis=1), len(one))
        # The variance of a mean is that of independent samples: s^2 / n, with s^2 unbiased.
        x = np.arange(len(one)) ** 2.0
        assert np.var(weights[:, one] @ x / len(one)) == pytest.approx(
            x.var(ddof=1) / len(one), rel=0.15
        )
    assert_array_equal(np.concatenate(list(sample_bootstrap(class_of, 4000, seed=1))), weights)


def test_sample_weights_do_not_depend_on_the_blocks():
    class_of = np.repeat([0, 1], 3)
    whole = np.concatenate(list(sample_bootstrap(class_of, 50, seed=0)))
    with config_context(working_memory=0.001):
        blocks = list(sample_bootstrap(class_of, 50, seed=0))
    assert len(blocks) > 1
    assert_array_equal(np.concatenate(blocks), whole)
