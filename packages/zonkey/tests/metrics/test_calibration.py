"""Penalties, temperatures and calibration errors against brute force and plain loops."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.metrics import (
    SeenUnseenCurve,
    best_penalty,
    best_temperature,
    expected_calibration_error,
    generalized_scores,
    seen_unseen_curve,
)

SEEN = [0, 1, 2]
CLASSES = [0, 1, 2, 3, 4]
seeds = st.integers(0, 10_000)
several = settings(deadline=None, max_examples=25)


def make_fold(seed, n_samples=15, whole=True):
    """Labels and scores that know something; whole numbers tie often."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([CLASSES, rng.integers(len(CLASSES), size=n_samples)])
    scores = rng.normal(scale=3.0, size=(truth.size, len(CLASSES)))
    scores[np.arange(truth.size), truth] += 3.0
    scores = np.round(scores) if whole else scores
    scores[:, SEEN] += 2.0
    return truth, scores


def make_curves(seed, n_folds=3, **options):
    folds = [make_fold(seed + i, n_samples=8 + 4 * i, **options) for i in range(n_folds)]
    return folds, [seen_unseen_curve(y, scores, CLASSES, SEEN) for y, scores in folds]


def mean_at(folds, penalty):
    """Mean harmonic mean of penalize-and-argmax; seen columns come first and win ties."""
    penalized = [scores - penalty * np.isin(CLASSES, SEEN) for _, scores in folds]
    return np.mean(
        [
            generalized_scores(y, scores.argmax(axis=1), SEEN).harmonic_mean
            for (y, _), scores in zip(folds, penalized, strict=True)
        ]
    )


def brute_force_penalty(folds):
    """Try every interval between two thresholds, join equal neighbors, take the middle."""
    gaps = [scores[:, :3].max(axis=1) - scores[:, 3:].max(axis=1) for _, scores in folds]
    thresholds = sorted({gap for fold in gaps for gap in fold.tolist()})
    plateaus = []
    for low, high in pairwise(thresholds):
        value = mean_at(folds, (low + high) / 2)
        if plateaus and abs(plateaus[-1][2] - value) < 1e-12:
            plateaus[-1][1] = high
        else:
            plateaus.append([low, high, value])
    best = max(value for _, _, value in plateaus)
    tied = [(low, high) for low, high, value in plateaus if abs(value - best) < 1e-12]
    low, high = max(tied, key=lambda ends: (ends[1] - ends[0], -ends[0]))
    return (low + high) / 2, best


@given(seeds, st.booleans(), st.integers(1, 3))
@several
def test_best_penalty_is_the_middle_of_the_best_of_all_intervals(seed, whole, n_folds):
    folds, curves = make_curves(seed, n_folds, whole=whole)
    penalty, best = brute_force_penalty(folds)
    got = best_penalty(curves)
    assert type(got) is float
    assert got == pytest.approx(penalty, abs=1e-9)
    assert mean_at(folds, got) == pytest.approx(best)
    if n_folds == 1:
        assert best == pytest.approx(curves[0].best_harmonic_mean)


def curve_of(thresholds, seen, unseen):
    edges = [-np.inf, *thresholds, np.inf]
    return SeenUnseenCurve(np.array(edges), np.array(seen, float), np.array(unseen, float))


@pytest.mark.parametrize(
    ("thresholds", "seen", "unseen", "penalty"),
    [
        # equal peaks left and right of a dip: as wide, then narrower than the right one
        ([0, 2, 3, 5], [1, 1, 0.6, 0.4, 0.3, 0], [0, 0, 0.3, 0.3, 0.6, 1], 1.0),
        ([0, 1, 2, 4], [1, 1, 0.6, 0.4, 0.3, 0], [0, 0, 0.3, 0.3, 0.6, 1], 3.0),
        # (0, 1] and (1, 5] are one plateau, wider than (6, 10] is
        ([0, 1, 5, 6, 10], [1, 1, 0.5, 0.5, 0.3, 0.5, 0], [0, 0, 0.5, 0.5, 0.5, 0.5, 1], 2.5),
        # intervals without end, with gaps 1, 2 and 5
        ([1, 2, 4, 9], [0, 0, 0, 0, 0, 1], [1] * 6, 9 + 2),
        ([1, 2, 4, 9], [1, 1, 0, 0, 0, 0], [1] * 6, 1 - 2),
        ([7], [1, 1, 0], [1, 1, 1], 7 - 1),
        ([1, 2, 4, 9], [1, 1, 1, 1, 1, 0], [0] * 6, 5),  # no penalty helps
    ],
)
def test_which_interval_wins_and_where_it_ends(thresholds, seen, unseen, penalty):
    assert best_penalty([curve_of(thresholds, seen, unseen)]) == penalty


def test_means_that_differ_by_rounding_are_equal():
    # accuracies 0.1, 0.2, 0.3 of three folds below, 0.3, 0.2, 0.1 above: other sums, same mean
    rises = [(0.1, 0.3), (0.2, 0.2), (0.3, 0.1)]
    for ordered in (rises, rises[::-1], [rises[1], rises[0], rises[2]]):
        levels = [[0, 0, below, 0, above, 0] for below, above in ordered]
        assert best_penalty([curve_of([0, 1, 2, 4], level, level) for level in levels]) == 3.0


def test_an_interval_between_neighboring_floats_is_hit():
    thresholds = [1.0, np.nextafter(1.0, 2.0), 2.0]
    curve = curve_of(thresholds, [1, 1, 1, 0, 0], [0, 0, 1, 1, 1])
    assert curve.at(best_penalty([curve])) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ([], "got an empty one. Pass the"),
        (curve_of([0.0], [1, 1, 0], [0, 0, 1]), "got SeenUnseenCurve. .*a single one in a list"),
        ([curve_of([0.0], [1, 1, 0], [0, 0, 1]), 3.0], "got an entry of type float"),
    ],
)
def test_best_penalty_names_what_is_no_curve(curves, message):
    with pytest.raises(ValueError, match=f"^curves must be a list .*{message}"):
        best_penalty(curves)


def naive_log_loss(scores, codes, temperature, weights):
    total = 0.0
    for row, code, weight in zip(scores, codes, weights, strict=True):
        masses = [math.exp(score / temperature) for score in row]
        total -= weight * math.log(masses[code] / sum(masses))
    return total / sum(weights)


@pytest.mark.parametrize(("seed", "weighted"), [(0, False), (1, True), (2, False), (3, True)])
def test_best_temperature_is_the_best_of_a_dense_grid(seed, weighted):
    # folds of 10 and of 25 samples weigh the same, and have 5 and 3 classes
    rng = np.random.default_rng(seed)
    codes, scores = make_fold(seed, n_samples=5, whole=False)
    folds = [(scores, codes), (2 * rng.normal(size=(25, 3)), rng.integers(3, size=25))]
    weights = [rng.random(len(codes)) if weighted else np.ones(len(codes)) for _, codes in folds]

    def loss(temperature):
        return sum(
            naive_log_loss(*fold, temperature, weight)
            for fold, weight in zip(folds, weights, strict=True)
        )

    grid = np.geomspace(0.3, 300, 200)
    near = int(np.argmin([loss(temperature) for temperature in grid]))
    got = best_temperature(folds, weights=weights if weighted else None)
    assert type(got) is float
    assert grid[near - 1] < got < grid[near + 1]
    assert loss(got) < min(loss(0.999 * got), loss(1.001 * got))


@given(seeds, st.floats(-6, 6), st.floats(-100, 100))
@several
def test_scaled_scores_scale_the_temperature_and_shifted_ones_do_not(seed, exponent, shift):
    codes, scores = make_fold(seed, whole=False)
    scale = 10.0**exponent
    one = best_temperature([(scores, codes)])
    assert best_temperature([(scale * scores, codes)]) == pytest.approx(scale * one, rel=1e-6)
    shifts = shift * np.arange(len(codes))[:, None]
    assert best_temperature([(scores + shifts, codes)]) == pytest.approx(one, rel=1e-6)


def test_repeated_folds_and_samples_change_nothing_and_weights_count_samples():
    codes, scores = make_fold(5, whole=False)
    one = best_temperature([(scores, codes)])
    assert best_temperature([(scores, codes)] * 3) == pytest.approx(one)
    assert best_temperature([(np.tile(scores, (2, 1)), np.tile(codes, 2))]) == pytest.approx(one)
    counts = np.arange(len(codes)) % 3
    repeated = best_temperature([(np.repeat(scores, counts, axis=0), np.repeat(codes, counts))])
    assert best_temperature([(scores, codes)], weights=[counts]) == pytest.approx(repeated)
    assert repeated != pytest.approx(one, rel=1e-3)


def test_the_difference_of_two_scores_is_as_good_as_both():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(40, 2)), rng.integers(2, size=40)
    scores[np.arange(40), codes] += 0.5
    both = best_temperature([(scores, codes)])
    assert best_temperature([(scores[:, 1] - scores[:, 0], codes)]) == pytest.approx(both)


@pytest.mark.parametrize(
    ("scores", "codes", "temperature"),
    [
        ([[8.0, 0.0], [0.0, 8.0]], [0, 1], 4e-3),  # all right: the spread is 4
        ([[8.0, 0.0], [0.0, 8.0], [5.0, 5.0078125]], [0, 1, 1], 4e-3 * math.sqrt(2 / 3)),
        ([[8.0, 0.0], [0.0, 8.0]], [1, 0], 4e3),  # all wrong
        ([[8.0, 0.0], [0.0, 8.0]], [0, 0], 4e3),  # chance: any finite one is too sure
        ([[3.0, 3.0], [5.0, 5.0]], [0, 1], 1.0),
        ([[3.0], [5.0]], [0, 0], 1.0),
    ],
)
def test_temperatures_stay_within_a_range_of_the_spread(scores, codes, temperature):
    assert best_temperature([(scores, codes)]) == pytest.approx(temperature)


@pytest.mark.parametrize(
    ("folds", "options", "message"),
    [
        ([], {}, "folds must be .*got an empty one"),
        ((np.eye(2), np.arange(2)), {}, "got an entry of type ndarray. Put a single pair"),
        ([(np.eye(2), [0, 1], [1, 1])], {}, "got an entry of type tuple"),
        ([(np.eye(2), [0, 2])], {}, "codes of fold 0 must be 2 integers from 0 to 1.*got 0 to 2"),
        ([(np.eye(2), [0, -1])], {}, "got -1 to 0 of int64"),
        ([(np.eye(2), [0])], {}, r"got shape \(1,\)"),
        ([(np.eye(2), [0.0, 1.0])], {}, "of float64. Use np.searchsorted"),
        ([(np.eye(2), [0, 1]), ([[np.nan, 1]], [0])], {}, "scores of fold 1 .* 1 not finite"),
        ([(np.zeros((0, 2)), [])], {}, r"scores of fold 0 .*got shape \(0, 2\)"),
        ([(np.eye(2), [0, 1])], {"weights": [[1, 1], [1, 1]]}, "each of the 1 folds; got 2"),
        ([(np.eye(2), [0, 1])], {"weights": [[1]]}, r"weights of fold 0 .*got shape \(1,\)"),
        ([(np.eye(2), [0, 1])], {"weights": [[0, 0]]}, "one positive; got .* sum 0.0"),
        ([(np.eye(2), [0, 1])], {"weights": [[2, -1]]}, "none negative"),
    ],
)
def test_best_temperature_names_bad_input(folds, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        best_temperature(folds, **options)
    assert "\n" not in str(caught.value)


def naive_calibration_error(y_true, probabilities, classes, n_bins):
    edges = np.linspace(0, 1, n_bins + 1)
    error = 0.0
    for low, high in pairwise(edges):
        inside = [
            (row[row.index(max(row))], classes[row.index(max(row))] == true)
            for true, row in zip(y_true, probabilities, strict=True)
            if low < max(row) <= high
        ]
        if inside:
            confidence, right = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            error += len(inside) / len(y_true) * abs(confidence - right)
    return error


@given(seeds, st.integers(1, 25), st.booleans())
@several
def test_calibration_error_is_the_mean_gap_over_bins(seed, n_bins, coarse):
    rng = np.random.default_rng(seed)
    classes = ["owl", "cat", "emu"]
    # sixteenths fall on the edges of bins
    P = rng.multinomial(16, np.ones(3) / 3, 30) / 16 if coarse else rng.dirichlet(np.ones(3), 30)
    y_true = rng.choice(classes, 30).tolist()
    expected = naive_calibration_error(y_true, P.tolist(), classes, n_bins)
    got = expected_calibration_error(pd.Series(y_true), P, classes, n_bins=n_bins)
    assert type(got) is float
    assert got == pytest.approx(expected, abs=1e-12)


def test_true_probabilities_are_well_calibrated_and_sharpened_ones_are_not():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 3))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) < rng.random((len(P), 1))).sum(axis=1).clip(max=2)
    assert expected_calibration_error(y, P, range(3)) < 0.02
    sharp = P**4 / (P**4).sum(axis=1, keepdims=True)
    assert expected_calibration_error(y, sharp, range(3)) > 0.2


def test_weights_of_calibration_errors_count_as_copies():
    rng = np.random.default_rng(1)
    P, y, times = rng.dirichlet(np.ones(3), 12), rng.integers(0, 3, 12), rng.integers(0, 4, 12)
    copies = expected_calibration_error(y.repeat(times), P.repeat(times, axis=0), range(3))
    weighted = expected_calibration_error(y, P, range(3), sample_weight=times / 7)
    assert weighted == pytest.approx(copies)
    assert weighted != pytest.approx(expected_calibration_error(y, P, range(3)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probabilities": np.eye(3)}, r"`classes`, \(2, 2\); got \(3, 3\)"),
        ({"probabilities": [[2.0, -1.0], [1, 0]]}, "a lowest of -1.0"),
        ({"probabilities": [[3.0, 1.0], [1, 0]]}, "sums off by 3.0. Pass the output of"),
        ({"probabilities": [[np.nan, 1.0], [1, 0]]}, "a lowest of nan"),
        ({"classes": ["s", "s"]}, "name each column once .*got no 'u'"),
        ({"classes": ["s", "t"]}, "got no 'u'"),
        ({"y_true": ["s", "s"], "classes": ["s", "s"]}, "got 1 of 2"),
        ({"classes": [0, 1]}, "one kind"),
        ({"y_true": []}, "y_true must hold at least one"),
        ({"n_bins": 0}, "n_bins must be a positive integer; got 0"),
        ({"n_bins": 1.5}, "got 1.5. Use 15"),
        ({"sample_weight": [1.0]}, r"one entry for each of the 2 samples; got shape \(1,\)"),
    ],
)
def test_calibration_error_names_bad_input(changes, message):
    arguments = {"y_true": ["s", "u"], "probabilities": np.eye(2), "classes": ["s", "u"]}
    with pytest.raises(ValueError, match=message) as caught:
        expected_calibration_error(**(arguments | changes))
    assert "\n" not in str(caught.value)
