"""Baselines of evaluate: each against scikit-learn, loops or a preset, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from evaluated import (
    IS_SEEN,
    LABELS,
    PROTOTYPES,
    SEEN,
    UNSEEN,
    X_TRAIN,
    Y_TRAIN,
    X,
    Y,
    dataset,
    expected_scores,
    fitted,
)
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from zonkey import evaluate, presets
from zonkey.evaluation.baselines import BASELINES
from zonkey.metrics import generalized_scores, per_class_accuracy, seen_unseen_curve

TRAINING = (X_TRAIN, Y_TRAIN)


def beside(name, model=None, X=X, y=Y, **options):
    """Return the figures of a baseline."""
    model = fitted() if model is None else model
    found = evaluate(model, X, y, baselines=name, training=TRAINING, **options)
    assert [one.name for one in found.models] == [type(model).__name__, name]
    return found.models[1]


@pytest.mark.parametrize("name", ["nearest-mean", "logistic"])
def test_baselines_of_seen_classes(name):
    last = NearestCentroid() if name == "nearest-mean" else LogisticRegression()
    steps = [] if name == "nearest-mean" else [StandardScaler()]
    model = make_pipeline(Normalizer(), *steps, last).fit(*TRAINING)
    predicted = model.predict(X)
    found = beside(name).scores
    assert_allclose(found["accuracy_seen"], per_class_accuracy(Y[IS_SEEN], predicted[IS_SEEN]))
    assert found["acc_s"] == found["accuracy_seen"] > 0.3
    assert found["acc_u"] == found["hm"] == 0
    assert not {"accuracy_unseen", "ausuc", "hit@5_unseen"} & set(found)
    assert_allclose(found["hit@1_all"], np.mean(predicted == Y))
    assert ("ece_seen" in found) == (name == "logistic")
    assert "0 by construction" in beside(name).notes[0]


def ridge_by_hand(prototypes, alpha):
    """Return predicted class means of all classes, and the squared error on classes left out."""
    units = X_TRAIN / np.linalg.norm(X_TRAIN, axis=1, keepdims=True)
    means = np.stack([units[label == Y_TRAIN].mean(axis=0) for label in SEEN])
    vectors = {label: prototypes[label] / np.linalg.norm(prototypes[label]) for label in LABELS}
    own = np.stack([vectors[label] for label in SEEN])
    error = 0.0
    for j in range(len(SEEN)):
        others = np.arange(len(SEEN)) != j
        model = Ridge(alpha=alpha).fit(own[others], means[others])
        error += np.mean((model.predict(own[[j]]) - means[j]) ** 2)
    return Ridge(alpha=alpha).fit(own, means).predict(np.stack(list(vectors.values()))), error


def test_ridge():
    tried = [ridge_by_hand(PROTOTYPES, 10.0**power) for power in range(-3, 4)]
    centers, _ = min(tried, key=lambda pair: pair[1])
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = -((units[:, None, :] - centers[None]) ** 2).sum(axis=2)
    general = generalized_scores(Y, np.array(LABELS)[scores.argmax(axis=1)], SEEN)
    found = beside("ridge").scores
    assert_allclose([found["acc_s"], found["acc_u"], found["hm"]], general)
    assert_allclose(found["ausuc"], seen_unseen_curve(Y, scores, LABELS, SEEN).area)
    among = np.array(UNSEEN)[scores[~IS_SEEN][:, len(SEEN) :].argmax(axis=1)]
    assert_allclose(found["accuracy_unseen"], per_class_accuracy(Y[~IS_SEEN], among))
    assert 0 < found["accuracy_unseen"] < 1


@pytest.mark.filterwarnings("ignore:At least two classes with samples")
@pytest.mark.filterwarnings("ignore:Classes should have different centers")
def test_ridge_of_one_or_two_classes():
    for n in (1, 2):
        train = np.isin(Y_TRAIN, SEEN[:n])
        model = fitted(X=X_TRAIN[train], y=Y_TRAIN[train])
        training = X_TRAIN[train], Y_TRAIN[train]
        found = evaluate(model, X, Y, baselines="ridge", training=training)
        assert 0 < found.models[1].scores["accuracy_unseen"] < 1


@pytest.mark.parametrize("seed", [0, 4])
def test_the_papers_model_as_printed(seed):
    model = presets.paper(PROTOTYPES, candidates="all", random_state=seed).fit(*TRAINING)
    expected = expected_scores(model[-1], model[:-1].transform(X), Y, SEEN, LABELS, (1, 5))
    found = beside("paper", random_state=seed)
    assert found.scores == pytest.approx(expected, abs=1e-9)
    assert "as printed" in found.notes[0]


def test_warnings_of_baselines_become_notes(monkeypatch):
    from zonkey.evaluation import baselines

    few = lambda: LogisticRegression(max_iter=1)  # noqa: E731
    monkeypatch.setattr(baselines, "LogisticRegression", few)
    found = beside("logistic")
    assert any("failed to converge" in note for note in found.notes[1:])


def test_several_baselines_on_the_same_resamples():
    found = evaluate(fitted(), dataset(), baselines=[*BASELINES, "ridge"])
    assert [one.name for one in found.models] == ["AnyShotClassifier", *BASELINES]
    for one in found.models[1:]:
        alone = evaluate(fitted(), dataset(), baselines=one.name).models[1]
        assert one.scores == pytest.approx(alone.scores)
        assert one.intervals == {
            name: pytest.approx(ends) for name, ends in alone.intervals.items()
        }
    frame = found.to_frame()
    assert frame["model"].drop_duplicates().tolist() == ["AnyShotClassifier", *BASELINES]
    text = found.summary()
    assert all(name in text.splitlines()[2] for name in BASELINES)
    assert "logistic: scikit-learn's LogisticRegression" in text


def test_baselines_choose_among_a_list_of_candidates():
    listed = ["c01", "c02", "c08", "c09"]
    rows = np.isin(Y, listed)
    model = fitted().with_candidates(listed)
    for name in BASELINES:
        one = beside(name, model, X[rows], Y[rows])
        assert one.answers["all"].n_candidates == (4 if name in ("ridge", "paper") else 2)


def test_training_may_be_other_samples_than_those_of_the_data_set():
    some = {"baselines": "nearest-mean", "training": (X_TRAIN[::2], Y_TRAIN[::2])}
    found, expected = (
        evaluate(fitted(), *data, **some).models[1] for data in ([dataset()], [X, Y])
    )
    assert found.scores == pytest.approx(expected.scores)
    assert found.scores != pytest.approx(beside("nearest-mean").scores)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            (np.concatenate([X_TRAIN, X]), np.concatenate([Y_TRAIN, Y])),
            "must not have samples of classes that are unseen.*'c07'",
        ),
        ((X_TRAIN, Y_TRAIN[1:]), "must have one label per sample"),
        ((X_TRAIN, np.arange(len(Y_TRAIN))), "of one kind"),
        ((X_TRAIN, np.full(len(Y_TRAIN), "unicorn")), "Baselines need training samples"),
        ((X_TRAIN,), "got 1 parts"),
        ((X_TRAIN[:, :2], Y_TRAIN), r"as many features.*got \(2,\) and \(6,\)"),
    ],
)
def test_refused_training_data(training, message):
    with pytest.raises(ValueError, match=message):
        evaluate(fitted(), X, Y, baselines="ridge", training=training)


def test_a_model_without_prototypes_has_some_baselines():
    model, seen = fitted(None, candidates="all", worth="auto"), (X[IS_SEEN], Y[IS_SEEN])
    with pytest.raises(ValueError, match="need prototypes; the model has none"):
        evaluate(model, *seen, baselines="ridge", training=TRAINING)
    found = evaluate(model, *seen, baselines=["nearest-mean", "logistic"], training=TRAINING)
    assert "acc_u" not in found.models[2].scores


NAMES = [f"feature {i}" for i in range(6)]
TABLE, TRAINING_TABLE = pd.DataFrame(X, columns=NAMES), pd.DataFrame(X_TRAIN, columns=NAMES)


def test_tables_give_the_figures_of_arrays():
    model = fitted(X=TRAINING_TABLE)
    expected = evaluate(fitted(), X, Y, baselines=BASELINES, training=TRAINING)
    for samples, known in ((TABLE, TRAINING_TABLE), (TABLE, X_TRAIN)):
        found = evaluate(model, samples, Y, baselines=BASELINES, training=(known, Y_TRAIN))
        assert [one.scores for one in found.models] == [one.scores for one in expected.models]


def test_columns_of_another_order_or_name_are_refused():
    for names in (NAMES[::-1], [*NAMES[:-1], "length"]):
        training = pd.DataFrame(X_TRAIN, columns=names), Y_TRAIN
        at = 0 if names[0] != NAMES[0] else 5
        with pytest.raises(
            ValueError, match=f"column {at} is '{names[at]}' instead of '{NAMES[at]}'.*Reorder"
        ):
            evaluate(fitted(), TABLE, Y, baselines="ridge", training=training)


def test_seen_classes_without_training_samples_are_noted():
    some = ~np.isin(Y_TRAIN, ["c02", "c05"])
    training = X_TRAIN[some], Y_TRAIN[some]
    found = evaluate(fitted(), X, Y, baselines=BASELINES, training=training)
    for one in found.models[1:]:
        assert "no samples of 2 of 7 seen classes, 'c02', 'c05'" in one.notes[1]
    assert not found.models[0].notes
    assert not any("no samples of" in note for note in beside("ridge").notes)


@pytest.mark.filterwarnings("ignore:At least two classes with samples")
@pytest.mark.filterwarnings("ignore:Classes should have different centers")
def test_one_training_class_is_too_few_for_logistic_regression():
    rows = Y_TRAIN == "c03"
    training = X_TRAIN[rows], Y_TRAIN[rows]
    for model in (fitted(), fitted(X=training[0], y=training[1])):
        found = evaluate(model, X, Y, baselines=["logistic", "nearest-mean"], training=training)
        assert [one.name for one in found.models] == ["AnyShotClassifier", "nearest-mean"]
        (note,) = found.models[0].notes
        assert '"logistic" is left out: it needs samples of two classes' in note
        assert "'c03'" in note
        assert note in found.summary()
