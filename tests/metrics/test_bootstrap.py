from itertools import product

import numpy as np
import pytest

from zonkey.metrics import paired_bootstrap_interval, per_class_accuracy


def case(n=60, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    guesses = [
        np.where(rng.random(n) < p, truth, rng.integers(n_classes, size=n)) for p in (0.6, 0.4)
    ]
    return truth, *guesses


def naive(truth, a, b, n_resamples, confidence, seed):
    """Draw class by class, resample by resample, what kinds of samples come up."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n_resamples):
        gains = []
        for label in np.unique(truth):
            members = truth == label
            n = int(members.sum())
            only_a = int(((a == truth) & (b != truth) & members).sum())
            only_b = int(((b == truth) & (a != truth) & members).sum())
            drawn = rng.multinomial(n, [only_a / n, (n - only_a - only_b) / n, only_b / n])
            gains.append((drawn[0] - drawn[2]) / n)
        found.append(np.mean(gains))
    tails = 50 * (1 - confidence)
    return np.percentile(found, [tails, 100 - tails])


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("seed", [0, 1])
def test_interval_is_that_of_a_plain_loop(seed, confidence):
    truth, a, b = case(seed=seed)
    options = {"n_resamples": 150, "confidence": confidence}
    difference, low, high = paired_bootstrap_interval(truth, a, b, random_state=seed, **options)
    assert difference == pytest.approx(per_class_accuracy(truth, a) - per_class_accuracy(truth, b))
    assert (low, high) == pytest.approx(naive(truth, a, b, 150, confidence, seed))


def test_interval_is_that_of_drawing_samples_themselves():
    truth, a, b = case()
    rng = np.random.default_rng(5)
    groups = [np.flatnonzero(truth == label) for label in np.unique(truth)]
    found = []
    for _ in range(4000):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        found.append(
            per_class_accuracy(truth[rows], a[rows]) - per_class_accuracy(truth[rows], b[rows])
        )
    _, low, high = paired_bootstrap_interval(truth, a, b, n_resamples=20_000)
    assert (low, high) == pytest.approx(np.percentile(found, [2.5, 97.5]), abs=0.015)


def test_interval_of_a_few_samples_is_that_of_all_resamples():
    truth = np.array([0, 0, 0, 1, 1])
    a, b = np.array([0, 1, 0, 1, 1]), np.array([1, 1, 0, 1, 0])
    gains = (a == truth).astype(int) - (b == truth).astype(int)
    values = sorted(
        (np.mean(gains[list(first)]) + np.mean(gains[list(second)])) / 2
        for first in product(range(3), repeat=3)
        for second in product((3, 4), repeat=2)
    )  # all of the 27 x 4 equally likely resamples
    steps = {round(value, 9) for value in values}
    _, low, high = paired_bootstrap_interval(truth, a, b, n_resamples=50_000, confidence=0.8)
    assert {round(low, 9), round(high, 9)} <= steps
    assert (low, high) == pytest.approx(np.quantile(values, [0.1, 0.9], method="inverted_cdf"))


def test_swapping_the_models_turns_the_sign():
    truth, a, b = case(n=300)
    forth = paired_bootstrap_interval(truth, a, b)
    back = paired_bootstrap_interval(truth, b, a)
    assert back.difference == -forth.difference
    assert (-back.high, -back.low) == pytest.approx((forth.low, forth.high), abs=0.02)
    assert forth.low > 0


def test_a_model_does_not_differ_from_itself():
    truth, a, _ = case()
    assert paired_bootstrap_interval(truth, a, a) == (0, 0, 0)


def test_the_seed_and_nothing_else_decides():
    truth, a, b = case()
    names = np.array(["a", "b", "c", "d"])
    first = paired_bootstrap_interval(truth, a, b)
    assert first == paired_bootstrap_interval(names[truth], names[a].tolist(), names[b])
    assert first != paired_bootstrap_interval(truth, a, b, random_state=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_true": []}, r"y_true must hold at least one label, got none\."),
        ({"predicted_a": [1]}, r"predicted_a must have one label for each of the 2 .* got 1\."),
        ({"predicted_b": [1, 2, 3]}, r"predicted_b must have one label .* got 3\."),
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
