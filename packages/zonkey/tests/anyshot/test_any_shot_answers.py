"""What AnyShotClassifier says of samples: ranking, semantics, uncertainty, rejection."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from any_shot_cases import (
    GIVEN,
    LABELS,
    PROTOTYPES,
    UNSEEN,
    X_NEW,
    NaiveModel,
    X,
    Y,
    fitted,
    naive_softmax,
    world,
)
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier, Prototypes

MODEL = fitted()
THRESHOLDS = [0.0, 0.3, 0.5, 0.7, 0.9, 1.0]
MANY = np.random.default_rng(3).normal(size=(200, 6)) * 2


# Between the spaces


def test_prototypes_are_projected_with_or_without_labels():
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    labels = ["hen", "ant"]
    rows = np.stack([PROTOTYPES[label] for label in labels])
    expected = [naive.predicted_mean(label) for label in labels]
    assert_allclose(MODEL.project(rows), expected, rtol=1e-8, atol=1e-10)
    named = {label: PROTOTYPES[label] for label in labels}
    assert_allclose(MODEL.project(named), expected[::-1], rtol=1e-8, atol=1e-10)
    assert_allclose(MODEL.project(rows[0]), expected[:1], rtol=1e-8, atol=1e-10)
    # An unseen class is where its prototype is projected to.
    unseen = MODEL.with_candidates("unseen")
    assert_allclose(MODEL.project({j: PROTOTYPES[j] for j in UNSEEN}), unseen.centers_, rtol=1e-10)
    with refused(ValueError, "the 4 dimensions", "got 3"):
        MODEL.project(rows[:, 1:])


@pytest.mark.parametrize(
    ("kernel", "preprocessing"),
    [("linear", None), ("rbf", "auto"), ("auto", StandardScaler()), ("auto", "auto")],
    ids=str,
)
def test_samples_are_embedded_in_the_space_of_the_prototypes(kernel, preprocessing):
    drawn = world(0, n_classes=24, deviation=0.0, noise=0.2)
    shifted = {label: 5 + 3 * vector for label, vector in drawn.prototypes.items()}
    rows, y = drawn.draw(np.arange(20), 10)
    model = AnyShotClassifier(shifted, kernel=kernel, preprocessing=preprocessing).fit(rows, y)
    embedded = model.embed(drawn.means)
    assert embedded.shape == (24, 6)
    expected = np.stack([shifted[label] for label in range(24)])
    for part in (slice(0, 20), slice(20, 24)):  # also of unseen classes
        assert np.corrcoef(embedded[part].ravel(), expected[part].ravel())[0, 1] > 0.9
    assert abs(embedded.mean() - expected.mean()) < 1


def test_embedding_is_a_ridge_regression_of_prototypes_on_class_means():
    shift = np.arange(6.0)  # features that are not centered
    model = fitted(X + shift)
    naive = NaiveModel(X + shift, Y, PROTOTYPES, **GIVEN)
    targets = np.stack([PROTOTYPES[label] for label in naive.anchors])
    M = naive.M - naive.M.mean(axis=0)
    size = sum(float(row @ row) for row in M) / len(M)
    W = np.linalg.solve(
        M.T @ M + GIVEN["ridge"] * size * np.eye(6), M.T @ (targets - targets.mean(axis=0))
    )
    expected = (X_NEW - naive.M.mean(axis=0)) @ W + targets.mean(axis=0)
    assert_allclose(model.embed(X_NEW), expected, rtol=1e-8, atol=1e-9)


# What to label next


def test_uncertainty_is_the_entropy_of_the_probabilities():
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    shares = naive_softmax(naive.scores(X_NEW), GIVEN["temperature"])
    expected = [-sum(p * np.log(p) for p in row) / np.log(len(LABELS)) for row in shares]
    assert_allclose(MODEL.uncertainty(X_NEW), expected, rtol=1e-8)
    found = MODEL.uncertainty(np.concatenate([MANY, 1e4 * MANY]))
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_between_two_centers_nothing_is_certain():
    pair = MODEL.with_candidates(UNSEEN[:2])
    a, b = pair.centers_
    at_a, between, at_b = pair.uncertainty(np.stack([a, (a + b) / 2, b]))
    assert between == pytest.approx(1.0)
    assert max(at_a, at_b) < between - 0.01


def test_the_most_informative_samples_are_uncertain_and_differ():
    value = MODEL.uncertainty(MANY)
    chosen = MODEL.most_informative(MANY, 10)
    assert chosen[0] == value.argmax()
    assert len(set(chosen.tolist())) == 10
    assert value[chosen].mean() > value.mean()
    first = MANY[chosen[0]]
    copies = np.concatenate([MANY[value < np.median(value)], np.tile(first, (50, 1))])
    copies[-50:] += 1e-6 * np.random.default_rng(0).normal(size=(50, 6))
    again = MODEL.most_informative(copies, 5)
    assert np.sum(again >= len(copies) - 50) == 1
    everything = MODEL.most_informative(MANY[:6], 6)
    assert sorted(everything.tolist()) == list(range(6))
    same_direction = MODEL.most_informative(np.tile(first, (4, 1)), 4)
    assert sorted(same_direction.tolist()) == list(range(4))


@pytest.mark.parametrize("n", [0, -1, 2.5, True, None])
def test_bad_numbers_of_samples_to_label(n):
    with refused(ValueError, "`n` must be an integer of at least 1", f"got {n!r}"):
        MODEL.most_informative(MANY, n)
    with refused(ValueError, "`n` must be at most the number of samples, 200", "got 201"):
        MODEL.most_informative(MANY, 201)


# Rejection


def test_what_is_below_the_threshold_is_rejected_and_nothing_else():
    sure = MODEL.predict_proba(MANY).max(axis=1)
    shares = []
    for threshold in THRESHOLDS:
        answers = fitted(reject_below=threshold).predict(MANY)
        assert_array_equal(answers == "unknown", sure < threshold)
        kept = answers != "unknown"
        assert_array_equal(answers[kept], MODEL.predict(MANY)[kept])
        shares.append(1 - kept.mean())
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert len(set(shares)) > 4


def test_copies_with_another_threshold():
    careful = fitted().with_rejection(0.6, "none")
    given = fitted(reject_below=0.6, reject_label="none")
    assert_array_equal(careful.predict(MANY), given.predict(MANY))
    assert (careful.reject_below, careful.reject_label) == (0.6, "none")
    everything = careful.with_candidates("all").with_rejection(None)
    assert_array_equal(everything.predict(MANY), fitted().with_candidates("all").predict(MANY))
    with refused(ValueError, "`below` must be a probability", "2"):
        careful.with_rejection(2)
    with refused(ValueError, "`reject_label` must be a label"):
        careful.with_rejection(0.5, -1)


def test_nothing_but_predict_rejects():
    careful = fitted(reject_below=0.9)
    for method in ("predict_top", "decision_function", "predict_proba", "uncertainty"):
        assert_array_equal(getattr(careful, method)(MANY), getattr(MODEL, method)(MANY))


def test_copies_keep_the_threshold():
    careful = fitted(reject_below=0.6)
    for change in (
        lambda model: model.with_candidates(UNSEEN),
        lambda model: model.with_shots(X[:9], Y[:9]),
        lambda model: model.without_classes(["ant"]),
        lambda model: model.with_classes({"owl": np.ones(4)}),
        lambda model: model.adapt(MANY),
    ):
        sure = change(MODEL).predict_proba(MANY).max(axis=1)
        assert_array_equal(change(careful).predict(MANY) == "unknown", sure < 0.6)


NUMBERS = {label: j for j, label in enumerate(LABELS)}


@pytest.mark.parametrize(
    ("as_text", "given", "label"),
    [
        (True, None, "unknown"),
        (True, "none of these, I am afraid", "none of these, I am afraid"),
        (False, None, -1),
        (False, 1000, 1000),
    ],
)
def test_labels_of_every_kind_stand_for_rejected_samples(as_text, given, label):
    names = dict(zip(LABELS, LABELS, strict=True)) if as_text else NUMBERS
    prototypes = {names[name]: vector for name, vector in PROTOTYPES.items()}
    y = np.array([names[name] for name in Y])
    model = fitted(X, y, prototypes=prototypes, reject_below=0.6, reject_label=given)
    sure = MODEL.predict_proba(MANY).max(axis=1) >= 0.6
    answers = zip(MODEL.predict(MANY), sure, strict=True)
    assert model.predict(MANY).tolist() == [names[a] if kept else label for a, kept in answers]
    assert 0.1 < sure.mean() < 0.9


# Prototypes of every kind


KINDS = {
    "pandas": lambda labels, rows: pd.DataFrame(rows, index=labels),
    "polars": lambda labels, rows: pl.DataFrame(
        {"name": labels, **{f"x{j}": rows[:, j] for j in range(4)}}
    ),
    "prototypes": Prototypes,
    "lists": lambda labels, rows: dict(zip(labels, rows.tolist(), strict=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_prototypes_of_every_kind(kind):
    given = KINDS[kind](list(PROTOTYPES), np.stack(list(PROTOTYPES.values())))
    model = fitted(prototypes=given)
    assert_array_equal(model.decision_function(MANY), MODEL.decision_function(MANY))
    assert_array_equal(model.project(given), MODEL.project(PROTOTYPES))
    expected = MODEL.with_classes({"owl": np.ones(4)}).decision_function(MANY)
    wider = model.with_classes(KINDS[kind](["owl"], np.ones((1, 4))))
    assert_array_equal(wider.decision_function(MANY), expected)


def test_samples_of_frames():
    names = [f"feature {j}" for j in range(6)]
    for frame in (pd.DataFrame, pl.DataFrame):
        model = fitted(frame(dict(zip(names, X.T, strict=True))), Y)
        assert model.feature_names_in_.tolist() == names
        found = model.decision_function(frame(dict(zip(names, MANY.T, strict=True))))
        assert_allclose(found, MODEL.decision_function(MANY), rtol=1e-12)
        model.partial_fit(frame(dict(zip(names, X.T, strict=True))), Y)


# What is refused


@pytest.mark.parametrize(
    ("parameters", "error", "parts"),
    [
        ({"preprocessing": 3}, TypeError, ("`preprocessing` must be a scikit-learn", "got 3")),
        ({"prototype_transformer": "l2"}, TypeError, ("`prototype_transformer` must", "got 'l2'")),
        ({"kernel": "precomputed"}, ValueError, ("needs prototypes that are kernel", "got 4")),
        (
            {"kernel": "precomputed", "prototype_transformer": StandardScaler()},
            ValueError,
            ("`prototype_transformer` must be None", "got StandardScaler"),
        ),
        ({"prototypes": [[1.0]]}, TypeError, ("Prototypes must be a mapping", "got list")),
        ({"prototypes": {"owl": [1.0]}}, ValueError, ("At least one class of y", "'owl'")),
        ({"prototypes": {1: [1.0], 2: [2.0]}}, ValueError, ("Labels must be of one kind",)),
        ({"sample_weight": np.ones(3)}, ValueError, ("`sample_weight` must have one entry",)),
        ({"sample_weight": -np.ones(len(Y))}, ValueError, ("`sample_weight` must be nonneg",)),
        ({"y": Y[1:]}, ValueError, ("inconsistent numbers of samples",)),
        ({"y": np.linspace(0, 1, len(Y))}, ValueError, ("Unknown label type",)),
        ({"X": np.where(X > 2, np.nan, X)}, ValueError, ("NaN",)),
    ],
    ids=str,
)
def test_bad_input_is_refused(parameters, error, parts):
    with refused(error, *parts):
        fitted(**parameters)
