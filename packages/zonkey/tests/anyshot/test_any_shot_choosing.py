"""What AnyShotClassifier chooses: for the task at hand, reproducibly, with calibrated odds."""

import math
import warnings

import numpy as np
import pytest
from any_shot_cases import GIVEN, PROTOTYPES, X_NEW, X, Y, world
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone

from zonkey import AnyShotClassifier
from zonkey.metrics import expected_calibration_error

AUTO = ("preprocessing", "prototype_transformer", "kernel", "gamma", "ridge", "worth")


@pytest.fixture(scope="module")
def drawn():
    return world(0, n_classes=24)


@pytest.fixture(scope="module")
def base(drawn):
    """Return samples of the first 16 classes; the others are unseen."""
    return drawn.draw(np.arange(16), 15)


@pytest.fixture(scope="module")
def zero_shot(drawn, base):
    return AnyShotClassifier(drawn.prototypes, candidates="unseen").fit(*base)


@pytest.fixture(scope="module")
def generalized(drawn, base):
    return AnyShotClassifier(drawn.prototypes, candidates="all").fit(*base)


@pytest.mark.parametrize("name", ["zero_shot", "generalized"])
def test_the_chosen_parameters_make_the_same_model_without_a_choice(name, request, drawn, base):
    model = request.getfixturevalue(name)
    assert set(model.best_params_) == {*AUTO, "seen_penalty", "temperature"}
    assert "auto" not in [str(value) for value in model.best_params_.values()]
    given = clone(model).set_params(**model.best_params_).fit(*base)
    rows, _ = drawn.draw(np.arange(24), 3)
    expected = model.decision_function(rows)
    assert_allclose(given.decision_function(rows), expected, rtol=1e-10, atol=1e-10)
    assert_allclose(given.predict_proba(rows), model.predict_proba(rows), rtol=1e-8, atol=1e-10)
    assert math.isnan(given.best_score_)
    for attribute in ("worth_", "seen_penalty_", "temperature_"):
        assert getattr(given, attribute) == pytest.approx(getattr(model, attribute))


def test_what_is_given_is_not_chosen(drawn, base):
    given = {"kernel": "linear", "ridge": 0.5, "worth": 3.0, "seen_penalty": 0.25, "gamma": 2.0}
    model = AnyShotClassifier(drawn.prototypes, **given).fit(*base)
    assert {name: model.best_params_[name] for name in given} == given
    assert (model.worth_, model.seen_penalty_) == (3.0, 0.25)
    assert 0 < model.best_score_ <= 1


def test_unseen_and_seen_classes_are_recognized(drawn, zero_shot, generalized):
    rows, y = drawn.draw(np.arange(16, 24), 20)
    seen, y_seen = drawn.draw(np.arange(16), 10)
    assert zero_shot.score(rows, y) > 0.75
    accuracies = generalized.score(rows, y), generalized.score(seen, y_seen)
    assert min(accuracies) > 0.5


@pytest.mark.parametrize("candidates", ["unseen", "all"])
def test_the_printed_score_is_the_true_one_on_average(candidates):
    printed, true = [], []
    for seed in range(6):
        drawn = world(seed, n_classes=24)
        model = AnyShotClassifier(drawn.prototypes, candidates=candidates)
        model.fit(*drawn.draw(np.arange(16), 15))
        found = model.score(*drawn.draw(np.arange(16, 24), 20))
        if candidates == "all":
            seen = model.score(*drawn.draw(np.arange(16), 10))
            found = 2 * found * seen / (found + seen)
        printed.append(model.best_score_)
        true.append(found)
    assert abs(np.mean(printed) - np.mean(true)) < 0.08


def test_the_penalty_balances_seen_and_unseen_classes(drawn, base, generalized):
    rows, y = drawn.draw(np.arange(16, 24), 20)
    seen, y_seen = drawn.draw(np.arange(16), 10)

    def harmonic(penalty):
        chosen = {**generalized.best_params_, "seen_penalty": penalty}
        model = clone(generalized).set_params(**chosen).fit(*base)
        a, b = model.score(rows, y), model.score(seen, y_seen)
        return 2 * a * b / (a + b)

    best = generalized.seen_penalty_
    assert harmonic(best) > max(harmonic(best - 0.5), harmonic(best + 0.5)) + 0.05


def test_the_task_decides_what_is_measured():
    """Prototypes say nothing: accuracy is chance, but seen classes are recognized."""
    useless = world(2, n_classes=20, is_described=False, deviation=1.0)
    rows, y = useless.draw(np.arange(15), 10)
    scores = {
        str(candidates): AnyShotClassifier(useless.prototypes, candidates=candidates)
        .fit(rows, y)
        .best_score_
        for candidates in ("unseen", "all", list(range(15, 20)))
    }
    assert scores["unseen"] == scores[str(list(range(15, 20)))]
    assert scores["unseen"] < 0.5
    assert scores["all"] > scores["unseen"] + 0.05


def test_shots_are_counted_when_parameters_are_chosen():
    useless = world(1, n_classes=20, is_described=False, deviation=1.0)
    rows, y = useless.draw(np.arange(15), 12)
    found = [
        AnyShotClassifier(useless.prototypes, candidates="unseen", n_shots=n)
        .fit(rows, y)
        .best_score_
        for n in (0, 1, 5)
    ]
    assert found[0] < 0.5 < found[1] <= found[2] + 0.02
    assert found[2] > 0.9


def test_a_good_prior_is_worth_more_than_a_bad_one():
    worths = []
    for deviation in (0.05, 0.4, 1.5):
        problem = world(2, n_classes=24, deviation=deviation)
        model = AnyShotClassifier(problem.prototypes, candidates="unseen")
        worths.append(model.fit(*problem.draw(np.arange(18), 12)).worth_)
    assert worths == sorted(worths, reverse=True)
    assert worths[0] > 5 * worths[2] > 0


@pytest.mark.parametrize(("n_seen", "n"), [(2, 1), (2, 20), (3, 3), (6, 20), (10, 1)])
def test_one_unseen_name_does_not_swallow_answers(n_seen, n):
    taken = []
    for seed in range(6):
        drawn = world(seed, n_classes=n_seen + 1)
        model = AnyShotClassifier(drawn.prototypes, candidates="all")
        model.fit(*drawn.draw(np.arange(n_seen), n))
        rows, _ = drawn.draw(np.arange(n_seen), 15)
        taken.append(np.mean(model.predict(rows) == n_seen))
    assert np.mean(taken) < 0.3


def test_few_classes_are_told_in_one_line():
    drawn = world(3, n_classes=5)
    rows, y = drawn.draw(np.arange(3), 8)
    model = AnyShotClassifier(drawn.prototypes)
    with pytest.warns(UserWarning, match=r"Usual values of .*seen_penalty are used: .* got 3\."):
        few = clone(model).fit(rows, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).set_params(**few.best_params_).fit(rows, y)
        clone(model).set_params(candidates=[0, 1, 2]).fit(rows, y)  # samples choose


def test_with_fewer_than_four_classes_nothing_but_worth_is_chosen():
    problem = world(3, n_classes=5)
    model = AnyShotClassifier(problem.prototypes, candidates="all")
    few = clone(model).fit(*problem.draw(np.arange(3), 8))
    again = clone(model).fit(*problem.draw([0, 1, 3], 20))
    for name in ("kernel", "gamma", "ridge"):
        assert few.best_params_[name] == again.best_params_[name]
    for name in ("preprocessing", "prototype_transformer"):
        assert repr(few.best_params_[name]) == repr(again.best_params_[name])
    assert math.isnan(few.best_score_)
    assert few.worth_ != again.worth_


# Validation classes


def test_parameters_are_chosen_on_validation_classes(drawn, base, zero_shot):
    rows, y = drawn.draw(np.arange(16, 20), 10)
    noise = drawn.rng.normal(size=rows.shape)
    model = clone(zero_shot)
    good = clone(model).fit(*base, validation=(rows, y))
    bad = clone(model).fit(*base, validation=(noise, y))
    assert good.best_score_ > 0.7 > bad.best_score_ + 0.2
    assert bad.temperature_ > 3 * good.temperature_
    assert_array_equal(bad.seen_classes_, np.arange(16))  # validation samples are not learned
    assert_array_equal(bad.classes_, np.arange(16, 24))
    given = {**zero_shot.best_params_, "temperature": "auto"}
    kept = clone(model).set_params(**given).fit(*base, validation=(rows, y))
    assert_allclose(kept.centers_, zero_shot.centers_, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"y": ["bee", "bee", "ant", "ant"]}, ("not be among the training", "'ant'", "Leave them")),
        ({"X": X_NEW[:4, 1:]}, ("the 6 features of the training samples", "got 5")),
        ({"y": ["bee"] * 4}, ("at least two classes of at least two samples", "got 1 classes")),
        ({"y": ["bee", "bee", "bee", "elk"]}, ("at least two classes", "the smallest of 1")),
        ({"y": ["bee", "bee", "owl", "owl"]}, ("No prototype for the class 'owl'",)),
    ],
)
@pytest.mark.parametrize("temperature", ["auto", 1.7])  # chosen, or nothing is
def test_bad_validation_classes_are_refused(change, parts, temperature):
    model = AnyShotClassifier(PROTOTYPES, **(GIVEN | {"temperature": temperature}))
    good = {"X": X_NEW[:4], "y": ["bee", "bee", "elk", "elk"]}
    model.fit(X, Y, validation=(good["X"], good["y"]))
    bad = good | change
    with refused(ValueError, *parts):
        model.fit(X, Y, validation=(bad["X"], bad["y"]))


# Seeds


def test_the_seed_decides_the_folds(drawn, base):
    def found(seed):
        model = AnyShotClassifier(drawn.prototypes, random_state=seed).fit(*base)
        return model.best_score_, model.temperature_, model.worth_

    once = found(3)
    assert once == found(3) == found(np.random.RandomState(3))
    assert once != found(0)
    assert len(found(None)) == 3


# Probabilities


@pytest.fixture(scope="module")
def overlapping():
    """Return classes that overlap, so that probabilities matter."""
    return world(4, n_classes=30, deviation=0.15, noise=1.0)


@pytest.fixture(scope="module")
def overlapping_base(overlapping):
    return overlapping.draw(np.arange(20), 25)


@pytest.mark.parametrize("candidates", ["unseen", "all"])
def test_zero_shot_probabilities_are_calibrated(overlapping, overlapping_base, candidates):
    model = AnyShotClassifier(overlapping.prototypes, candidates=candidates).fit(*overlapping_base)
    rows, y = overlapping.draw(np.arange(20 if candidates == "unseen" else 0, 30), 60)
    shares = model.predict_proba(rows)
    assert 0.3 < np.mean(model.predict(rows) == y) < 0.95
    assert expected_calibration_error(y, shares, model.classes_) < 0.08


@pytest.mark.parametrize(
    ("n_shots", "described"), [(1, "all"), (5, "base"), (1, "none"), (5, "none")]
)
def test_few_shot_probabilities_are_calibrated(overlapping, overlapping_base, n_shots, described):
    """Tasks of five new classes, with a prototype or without; no validation classes."""
    prototypes = {
        "all": overlapping.prototypes,
        "base": {j: overlapping.prototypes[j] for j in range(20)},
        "none": None,
    }[described]
    model = AnyShotClassifier(prototypes, candidates="all", n_shots=n_shots).fit(*overlapping_base)
    shares, truth = [], []
    for _ in range(25):
        classes = overlapping.rng.choice(np.arange(20, 30), 5, replace=False)
        few = model.with_shots(*overlapping.draw(classes, n_shots))
        rows, y = overlapping.draw(classes, 15)
        shares.append(few.predict_proba(rows))
        truth.append(np.searchsorted(few.classes_, y))
    shares, truth = np.concatenate(shares), np.concatenate(truth)
    accuracy = np.mean(shares.argmax(axis=1) == truth)
    assert 0.4 < accuracy < 0.98
    error = expected_calibration_error(truth, shares, np.arange(5))
    assert error < 0.1, f"accuracy {accuracy:.2f}, mean confidence {shares.max(axis=1).mean():.2f}"
