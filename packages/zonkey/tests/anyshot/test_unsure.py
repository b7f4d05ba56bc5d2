"""A wanted precision: shown by labeled samples, or by those that `fit` left out."""

import copy

import numpy as np
import pytest
from any_shot_cases import GIVEN, LABELS, PROTOTYPES, X, Y, fitted, world
from libraries import TORCH
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from scipy.stats import beta

import zonkey
from zonkey import AnyShotClassifier
from zonkey.anyshot.left_out import LeftOut
from zonkey.metrics import precision_threshold

WORLD = world(4, n_classes=12, deviation=0.5)
NOISE = np.random.default_rng(1)


def draw(n):
    """Return samples that are hard to tell apart."""
    rows, y = WORLD.draw(np.arange(12), n)
    return rows + 1.2 * NOISE.normal(size=rows.shape), y


TRAIN, HELD_OUT, FRESH = draw(15), draw(60), draw(300)
MODEL = AnyShotClassifier(WORLD.prototypes).fit(*TRAIN)


def reached(model):
    """Return precision and coverage on fresh samples."""
    answers = model.with_rejection(model.reject_below, -1).predict(FRESH[0])
    accepted = answers != -1
    return np.mean(answers[accepted] == FRESH[1][accepted]), accepted.mean()


def test_the_threshold_is_that_of_the_labeled_samples():
    rows, y = HELD_OUT
    model = MODEL.with_precision(0.9, rows, y, certainty=0.9)
    sure = MODEL.predict_proba(rows).max(axis=1)
    expected = precision_threshold(y, MODEL.predict(rows), sure, 0.9, certainty=0.9)
    assert model.precision_ == expected
    assert model.reject_below == expected.threshold
    accepted = model.predict(rows) != -1
    assert_allclose(accepted.mean(), expected.coverage)
    assert_allclose(np.mean(model.predict(rows)[accepted] == y[accepted]), expected.precision)
    assert expected.low < expected.precision < expected.high
    assert (MODEL.reject_below, MODEL.precision_) == (None, None)
    # Samples of other classes are wrong whatever the answer.
    strange = np.where(y == 3, 99, y)
    with_others = MODEL.with_precision(0.75, rows, strange).precision_
    assert with_others.coverage < MODEL.with_precision(0.75, rows, y).precision_.coverage


PARENTS = {j: 100 + j % 4 for j in range(11)} | {100: 200, 101: 200, 102: 201}  # 11 at the top
IN_TREE = MODEL.with_tree(PARENTS)


def judge(model, rows, y):
    """Return which answers are given, and which of these are the class or a node above it."""
    answers = model.predict(rows).tolist()
    right = [a in IN_TREE.tree_.path(j) for a, j in zip(answers, y.tolist(), strict=True)]
    return np.array(answers) != -1, np.array(right)


@pytest.mark.parametrize("wanted", [0.8, 0.85, 0.9])
def test_nodes_of_a_tree_count_for_the_precision(wanted):
    rows, y = HELD_OUT
    model = IN_TREE.with_precision(wanted, rows, y)
    found = model.precision_
    accepted, right = judge(model, rows, y)
    assert_allclose(accepted.mean(), found.coverage)
    assert_allclose(right[accepted].mean(), found.precision)
    below = MODEL.with_precision(wanted, rows, y).precision_
    assert found.coverage > below.coverage + 0.05  # as nodes are answers, too
    accepted, right = judge(model, *FRESH)
    assert right[accepted].mean() > wanted - 0.02
    assert (model.predict(FRESH[0])[accepted] >= 100).mean() > 0.05
    # It is the lowest one: the next lower number at which answers change does not show it.
    P = IN_TREE.predict_proba(rows)
    nodes = IN_TREE.tree_.sum_leaves(P)
    lower = np.unique(nodes[nodes < found.threshold])[-40:]
    for threshold in lower.tolist():
        accepted, right = judge(IN_TREE.with_rejection(threshold), rows, y)
        k, n = right[accepted].sum(), accepted.sum()
        assert beta.ppf(0.2, k, n - k + 1) < wanted


def test_a_precision_in_a_tree_needs_samples_of_classes():
    with refused(ValueError, "but those left out were classes"):
        IN_TREE.with_precision(0.9)
    with refused(ValueError, "labeled by classes without children; got 101"):
        IN_TREE.with_precision(0.8, HELD_OUT[0], np.where(HELD_OUT[1] == 1, 101, HELD_OUT[1]))
    with refused(ValueError, "X must have one entry for each label"):
        IN_TREE.with_precision(0.8, HELD_OUT[0], HELD_OUT[1][1:])
    strange = np.where(HELD_OUT[1] == 3, 99, HELD_OUT[1])
    with_others = IN_TREE.with_precision(0.75, HELD_OUT[0], strange).precision_
    assert with_others.threshold > IN_TREE.with_precision(0.75, *HELD_OUT).precision_.threshold
    flat = MODEL.with_tree({0: None})  # without inner nodes
    assert flat.with_precision(0.8).precision_ == MODEL.with_precision(0.8).precision_
    given = flat.with_precision(0.8, *HELD_OUT)
    assert given.precision_ == MODEL.with_precision(0.8, *HELD_OUT).precision_


def test_a_precision_is_told_as_long_as_the_probabilities_stay():
    model = MODEL.with_precision(0.9, *HELD_OUT)
    for other in (model.with_candidates(np.arange(12).tolist()), copy.deepcopy(model)):
        assert other.precision_ == model.precision_
    changed = (
        model.with_priors({0: 0.5}),
        model.adapt(FRESH[0]),
        model.with_candidates([0, 1, 2]),
        model.with_tree(PARENTS),
        copy.deepcopy(model).partial_fit(*HELD_OUT),
    )
    for other in changed:
        assert other.precision_ is None
        assert other.reject_below == model.reject_below
    assert model.precision_ is not None


@pytest.mark.parametrize("wanted", [0.7, 0.8, 0.9])
def test_fresh_samples_have_the_precision(wanted):
    plain, _ = reached(MODEL.with_rejection(0.0))
    assert plain < 0.7
    for model in (MODEL.with_precision(wanted, *HELD_OUT), MODEL.with_precision(wanted)):
        precision, coverage = reached(model)
        assert wanted - 0.02 < precision < wanted + 0.12
        assert abs(coverage - model.precision_.coverage) < 0.15
        assert coverage > 0.05


def test_left_out_answers_are_those_of_the_loops():
    rng = np.random.default_rng(0)
    folds, rows = [], []
    for n, k in ((30, 3), (20, 5)):
        S, codes, weights = 3 * rng.normal(size=(n, k)), rng.integers(k, size=n), rng.random(n)
        folds.append((S, codes, weights))
        for row, code, weight in zip(S, codes, weights, strict=True):
            odds = np.exp(row / 2.5)
            rows.append((max(odds) / sum(odds), weight * (row.argmax() == code), weight))
    rows = sorted(rows, reverse=True)
    found = LeftOut.read(folds, 2.5, 50)
    assert_allclose(found.confidence, [row[0] for row in rows])
    assert_allclose(found.right, [row[1] for row in rows], atol=1e-12)
    assert_allclose(found.weights, [row[2] for row in rows])
    assert (found.n_classes, found.n_samples, found.temperature) == (4, 50, 2.5)
    # Each sample twice is no more than once, as they are 50 all the same.
    twice = LeftOut.read(folds + folds, 2.5, 50)
    one, other = (each.choose(0.3, 0.8) for each in (found, twice))
    assert other.threshold <= one.threshold + 0.2
    kish = found.weights.sum() ** 2 / found.squares.sum()
    assert kish <= 50
    assert twice.weights.sum() ** 2 / twice.squares.sum() <= 50 + 1e-6


def test_many_left_out_answers_are_kept_as_a_short_table():
    rng = np.random.default_rng(0)
    S, codes = rng.normal(size=(5000, 2)), rng.integers(2, size=5000)
    S[np.arange(5000), codes] += 1.5
    parts = S, codes, np.ones(5000)
    found = LeftOut.read([parts], 1.0, 5000)
    assert len(found.confidence) == 400
    assert_allclose(found.weights.sum(), 5000)
    P = np.exp(S) / np.exp(S).sum(axis=1, keepdims=True)
    exact = precision_threshold(codes, S.argmax(axis=1), P.max(axis=1), 0.93)
    near = found.choose(0.93, 0.8)
    assert_allclose(near.coverage, exact.coverage, atol=0.01)
    assert_allclose((near.low, near.high), (exact.low, exact.high), atol=0.005)


def test_left_out_answers_are_refused_where_they_say_nothing():
    parts = "needs labeled samples of this model", "Pass samples", "X and y"
    lone, y = TRAIN[0][:12], TRAIN[1]
    one_each = np.array([np.flatnonzero(y == j)[0] for j in range(12)])
    with refused(ValueError, parts[0], "each candidate has several", *parts[1:]):
        AnyShotClassifier().fit(TRAIN[0][one_each], y[one_each]).with_precision(0.9)
    with refused(ValueError, parts[0], "each candidate has several", *parts[1:]):
        fitted().with_precision(0.9)
    with refused(ValueError, parts[0], "among 12 classes, not 3", *parts[1:]):
        MODEL.with_candidates([0, 1, 2]).with_precision(0.9)
    with refused(ValueError, parts[0], "shares of classes", *parts[1:]):
        MODEL.with_priors({0: 0.5}).with_precision(0.9)
    uneven = AnyShotClassifier(class_weight={0: 3.0}).fit(*TRAIN)
    with refused(ValueError, parts[0], "shares of classes", *parts[1:]):
        uneven.with_precision(0.7)
    even = MODEL.with_priors("uniform").with_precision(0.7)
    assert even.precision_ == MODEL.with_precision(0.7).precision_
    with refused(ValueError, parts[0], "`adapt`", *parts[1:]):
        MODEL.adapt(lone).with_precision(0.9)
    hot = AnyShotClassifier(temperature=1.0).fit(*TRAIN)
    with refused(ValueError, parts[0], "temperature is 1 now", *parts[1:]):
        hot.with_precision(0.9)
    with refused(ValueError, "99.9 % cannot be shown", "180 samples", "highest", "more labeled"):
        MODEL.with_precision(0.999)
    with refused(ValueError, "need X and y", "X alone", "Pass both"):
        MODEL.with_precision(0.9, HELD_OUT[0])
    with refused(ValueError, "need X and y", "y alone", "Pass both"):
        MODEL.with_precision(0.9, y=HELD_OUT[1])
    with refused(ValueError, "one kind", "Convert"):
        MODEL.with_precision(0.9, HELD_OUT[0], HELD_OUT[1].astype(str))


def test_further_samples_are_left_out_in_turn():
    more = copy.copy(MODEL).partial_fit(*draw(10))
    assert more.state_.choice.left_out.n_samples > MODEL.state_.choice.left_out.n_samples
    precision, _ = reached(more.with_precision(0.8))
    assert precision > 0.78


def test_files_and_later_rejections(tmp_path):
    model = MODEL.with_precision(0.8, label=-5)
    model.save(tmp_path / "a.zonkey")
    again = zonkey.load(tmp_path / "a.zonkey")
    assert again.precision_ == model.precision_
    assert_array_equal(again.predict(FRESH[0]), model.predict(FRESH[0]))
    assert -5 in model.predict(FRESH[0])
    assert again.with_precision(0.7).precision_ == MODEL.with_precision(0.7).precision_
    assert model.with_rejection(0.3).precision_ is None
    assert copy.copy(model).fit(*TRAIN).precision_ is None


def test_tensors_and_text():
    text = {label: PROTOTYPES[label] for label in LABELS if label in PROTOTYPES}
    there = AnyShotClassifier(text, **GIVEN).fit(TORCH(X), Y)
    model = there.with_precision(0.5, TORCH(X), Y)
    expected = fitted(prototypes=text).with_precision(0.5, X, Y)
    assert_allclose(model.reject_below, expected.reject_below)
    assert model.precision_.n_samples == len(Y)
    assert "unknown" in fitted().with_precision(0.9, X, Y, certainty=0.6).predict(X).tolist()
