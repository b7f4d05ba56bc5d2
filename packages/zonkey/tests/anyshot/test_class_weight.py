"""What samples of a class count: in choices, in the refinement, and as shares of classes."""

import copy

import numpy as np
import pandas as pd
import pytest
from any_shot_cases import world
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight

import zonkey
from zonkey import AnyShotClassifier
from zonkey.anyshot.posterior import pull_uneven
from zonkey.anyshot.priors import find_masses
from zonkey.anyshot.refining import Refinement, center_scores, pull_to_centers

WORLD = world(4, n_classes=8, deviation=0.5)
NOISE = np.random.default_rng(1)
COUNTS = np.array([60, 40, 20, 12, 8, 5, 3, 2])
FIXED = {"preprocessing": None, "worth": 2.0, "temperature": 6.0}


def draw(counts):
    """Return samples that are hard to tell apart."""
    parts = [WORLD.draw([j], int(n)) for j, n in enumerate(counts)]
    rows, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows + 1.8 * NOISE.normal(size=rows.shape), y


X, Y = draw(COUNTS)
X_NEW, Y_NEW = draw(np.full(8, 150))


def fitted(**parameters):
    return AnyShotClassifier(**parameters).fit(X, Y)


BALANCED, PLAIN = fitted(), fitted(class_weight=None)


def test_masses_are_counts_times_the_weights_of_scikit_learn():
    labels = np.arange(8)
    for given in ("balanced", None):
        weights = compute_class_weight(given, classes=labels, y=Y)
        masses = COUNTS * weights
        assert_allclose(find_masses(given, labels, COUNTS), masses / masses.mean())
    assert_allclose(BALANCED.priors_, 1 / 8)
    assert_allclose(PLAIN.priors_, COUNTS / COUNTS.sum())
    weighted = fitted(class_weight={0: 0.5, 7: 10.0})
    masses = COUNTS * [0.5, 1, 1, 1, 1, 1, 1, 10]
    assert_allclose(weighted.priors_, masses / masses.sum())
    even = fitted(class_weight=dict(enumerate((1 / COUNTS).tolist())))
    assert_allclose(even.predict_proba(X_NEW), BALANCED.predict_proba(X_NEW), atol=1e-4)


@pytest.mark.parametrize("parameters", [{}, FIXED], ids=["chosen", "given"])
def test_shares_follow_and_given_ones_take_their_place(parameters):
    model = fitted(class_weight=None, **parameters)
    even = model.with_priors("uniform")
    expected = even.predict_proba(X_NEW) * COUNTS
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X_NEW), expected, rtol=1e-9)
    answers = np.bincount(model.predict(X_NEW), minlength=8)
    assert answers[0] > np.bincount(even.predict(X_NEW), minlength=8)[0]
    shares = np.arange(1, 9) / 36
    expected = even.predict_proba(X_NEW) * shares
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.with_priors(shares).predict_proba(X_NEW), expected, rtol=1e-9)


def test_logistic_regression_learns_under_the_shares_that_classes_count():
    weights = {0: 0.25, 1: 2.0, 3: 3.0}
    model = fitted(class_weight=weights, **FIXED)
    assert_array_equal(model.state_.centers, fitted(**FIXED).state_.centers)
    of_samples = np.array([weights.get(label, 1.0) for label in Y.tolist()])
    refinement = Refinement(strength=0.01, scale=0.7)
    C = model.state_.centers
    W, b = pull_to_centers(X, Y, of_samples, C, refinement)
    masses = np.bincount(Y, of_samples)
    W0, b0 = 2 * C / 0.7, -(C**2).sum(axis=1) / 0.7

    def loss(W, b):
        """Return the objective in loops: probabilities under shares that are the masses."""
        total = 0.0
        for x, label, weight in zip(X, Y, of_samples, strict=True):
            odds = [m * np.exp(x @ w + v) for m, w, v in zip(masses, W, b, strict=True)]
            total -= weight / of_samples.sum() * np.log(odds[label] / sum(odds))
        return total + 0.01 / 8 * (((W - W0) ** 2).sum() + 10 * ((b - b0) ** 2).sum())

    best, rng = loss(W, b), np.random.default_rng(0)
    assert best < loss(W0, b0)
    for _ in range(6):
        assert best <= loss(W + 0.01 * rng.normal(size=W.shape), b + 0.01 * rng.normal(size=8))
    # Scores are those of even shares: a pull without end leaves those of the centers.
    W, b = pull_to_centers(X, Y, of_samples, C, Refinement(strength=np.inf, scale=0.7))
    assert_allclose(X @ W.T + b, center_scores(X, C) / 0.7)


def test_balanced_serves_all_classes_and_known_shares_most_samples():
    def measure(model):
        right = model.predict(X_NEW) == Y_NEW
        by_class = np.array([right[j == Y_NEW].mean() for j in range(8)])
        return by_class.mean(), by_class @ (COUNTS / COUNTS.sum())

    balanced, plain = measure(BALANCED), measure(PLAIN)
    told = measure(BALANCED.with_priors(COUNTS / COUNTS.sum()))
    other = LogisticRegression(class_weight="balanced", max_iter=1000).fit(X, Y)
    assert balanced[0] > plain[0] + 0.03
    assert balanced[0] > measure(other)[0]
    assert told[1] > balanced[1] + 0.01
    assert plain[1] > balanced[1] + 0.01


def test_the_mean_of_few_samples_is_pulled_to_the_mean_of_all():
    rng = np.random.default_rng(0)
    C, n = rng.normal(size=(6, 4)), np.array([1.0, 4.0, 9.0, 0.0, 2.0, 9.0])
    plain = np.array([True, True, True, True, False, True])
    found = pull_uneven(C, n, plain, 0.6)
    middle = C[[0, 1, 2, 4, 5]].mean(axis=0)
    rows = [0, 1, 2, 5]
    between = sum(n[j] * ((C[j] - middle) ** 2).sum() - 0.6 for j in rows) / sum(n[rows])
    for j in rows:
        factor = n[j] / (n[j] + 0.6 / between) / (9 / (9 + 0.6 / between))
        assert_allclose(found[j], middle + factor * (C[j] - middle))
    assert_allclose(found[3:5], C[3:5])
    for same in (np.full(6, 4.0), np.where(plain, 0.0, 3.0)):
        assert_array_equal(pull_uneven(C, same, plain, 0.6), C)
    for within in (np.nan, 0.0):
        assert_array_equal(pull_uneven(C, n, plain, within), C)
    # Means that differ no more than chance are not pulled together entirely.
    close = pull_uneven(1e-9 * C, n, plain, 0.6)
    assert 0 < np.abs(close[0] - close[5]).max() < 1e-8


def test_rare_classes_are_answered_as_often_as_they_occur():
    answers = np.bincount(BALANCED.predict(X_NEW), minlength=8) / len(X_NEW)
    assert answers[6:].min() > 0.04
    assert answers[:2].max() < 0.3


def test_weights_survive_files_and_further_samples(tmp_path):
    weights = {0: 0.5, 7: 10.0}
    model = fitted(class_weight=weights)
    model.save(tmp_path / "a.zonkey")
    again = zonkey.load(tmp_path / "a.zonkey")
    assert again.class_weight == weights
    assert_array_equal(again.predict_proba(X_NEW), model.predict_proba(X_NEW))
    more = draw([0, 0, 0, 0, 0, 9, 9, 9])
    for one in (model, again):
        one.partial_fit(*more)
    masses = np.array([60, 40, 20, 12, 8, 14, 12, 11]) * [0.5, 1, 1, 1, 1, 1, 1, 10]
    assert_allclose(model.priors_, masses / masses.sum())
    assert_allclose(again.predict_proba(X_NEW), model.predict_proba(X_NEW), atol=1e-6)
    later = copy.copy(PLAIN).partial_fit(X_NEW[:3], [11, 11, 11])
    assert_allclose(later.priors_[-1], 3 / 153)


def test_classes_without_samples_are_as_frequent_as_others_on_average():
    few = Y < 6
    model = AnyShotClassifier(WORLD.prototypes, candidates="all", class_weight=None)
    model.fit(X[few], Y[few])
    of_seen = COUNTS[:6] / COUNTS[:6].mean()
    assert_allclose(model.priors_, [*(of_seen / 8), 1 / 8, 1 / 8])


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("even", ["class_weight", "balanced", "even"]),
        ({0: 0.0}, ["`class_weight` must be above 0", "0", "Leave out"]),
        ({0: -1.0}, ["`class_weight` must be numbers", "-1", "Pass {label: number}"]),
        ({"a": 1.0}, ["one kind", "Convert"]),
        ({99: 1.0}, ["`class_weight` must name candidates", "99", "Correct"]),
    ],
)
def test_what_is_refused(given, parts):
    with refused(ValueError, *parts):
        fitted(class_weight=given)


def test_weights_come_by_label():
    with refused(TypeError, '`class_weight` must be "balanced", None or {label: weight}', "[1, 2]"):
        fitted(class_weight=[1, 2])
    weights = {0: 2.0, 3: 0.5}
    series = fitted(class_weight=pd.Series(weights))
    assert_array_equal(series.priors_, fitted(class_weight=weights).priors_)
