"""Trials of a classifier that is fitted on base classes, and of unlabeled queries."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from refusals import refused

from zonkey import AnyShotClassifier, NearestSupport
from zonkey.evaluation.protocols import draw_trial
from zonkey.metrics import hit_at_k, per_class_accuracy
from zonkey.testing import linear_problem
from zonkey_lab.protocols import large_scale, n_way_k_shot

P = linear_problem(n_classes=24, noise=2.0)  # 16 base classes, 8 novel ones
FIXED = {"kernel": "linear", "gamma": 1.0, "ridge": 0.1, "seen_penalty": 0.0, "temperature": 1.0}
PLAIN = {"preprocessing": None, "prototype_transformer": None}
TRIALS = {"n_way": 3, "n_shot": 2, "n_query": 3, "n_trials": 5, "random_state": 3}
SAMPLES = (P.X_new, P.y_new, P.unseen)


def fitted(X=P.X, **parameters):
    options = {**FIXED, **PLAIN, "worth": 2.0, "adapt_temperature": 0.3, "adapt_weight": 0.5}
    return AnyShotClassifier(P.prototypes, **(options | parameters)).fit(X, P.y)


@pytest.fixture(scope="module")
def model():
    return fitted()


def trial_by_hand(number, **options):
    rng = np.random.default_rng([TRIALS["random_state"], number])
    sizes = {name: TRIALS[name] for name in ("n_way", "n_shot", "n_query")}
    trial = draw_trial(P.y_new, P.unseen, **sizes, rng=rng, **options)
    support, query = ((P.X_new[rows], P.y_new[rows]) for rows in (trial.support, trial.query))
    return support, query


@pytest.mark.parametrize("adapt", [False, True])
def test_a_fitted_model_takes_the_shots_of_each_trial(model, adapt):
    found = n_way_k_shot({"it": model}, *SAMPLES, **TRIALS, adapt=adapt)["it"]
    for number, accuracy in enumerate(found):
        support, (X, y) = trial_by_hand(number)
        copy = model.with_shots(*support)
        copy = copy.adapt(X) if adapt else copy
        assert accuracy == per_class_accuracy(y, copy.predict(X))
        assert set(copy.classes_) == set(y)
    assert not model.is_transductive_


@pytest.mark.parametrize("adapt", [False, True])
def test_all_classes_at_once_from_no_shot_on(model, adapt):
    options = {"shots": (0, 2), "n_repeats": 2, "top": (1, 3), "random_state": 5}
    found = large_scale({"it": model}, *SAMPLES, **options, adapt=adapt)["it"]
    assert found.shape == (2, 2, 2)
    for repeat in range(2):
        for place, K in enumerate((0, 2)):
            rng = np.random.default_rng([5, repeat])
            sizes = {"n_way": None, "n_shot": K, "n_query": None}
            trial = draw_trial(P.y_new, P.unseen, **sizes, rng=rng)
            X, y = P.X_new[trial.query], P.y_new[trial.query]
            copy = model.with_candidates(P.unseen)
            if K:
                copy = model.with_shots(P.X_new[trial.support], P.y_new[trial.support])
            top = (copy.adapt(X) if adapt else copy).predict_top(X, 3)
            assert found[repeat, place].tolist() == [hit_at_k(y, top, k) for k in (1, 3)]


def test_a_model_that_is_not_fitted_learns_from_the_shots_alone():
    unfitted = AnyShotClassifier(preprocessing=None, random_state=0)
    found = n_way_k_shot({"it": unfitted}, *SAMPLES, **TRIALS)["it"]
    support, (X, y) = trial_by_hand(0)
    expected = AnyShotClassifier(preprocessing=None).fit(*support).predict(X)
    assert found[0] == per_class_accuracy(y, expected)
    assert not hasattr(unfitted, "classes_")


def test_workers_change_nothing(model):
    options = {**TRIALS, "adapt": True, "concentration": 2.0, "n_query": 1}
    alone, together = (
        n_way_k_shot({"it": model}, *SAMPLES, **options, n_jobs=n)["it"] for n in (None, 2)
    )
    assert_array_equal(alone, together)


@pytest.mark.parametrize("protocol", [n_way_k_shot, large_scale])
def test_models_that_cannot_use_unlabeled_samples_are_refused(model, protocol):
    models = {"it": model, "nearest": NearestSupport()}
    with refused(TypeError, "adapt=True needs models with `adapt`", "'nearest' has none"):
        protocol(models, *SAMPLES, adapt=True)


# Unbalanced queries


def test_unbalanced_trials_count_every_query_alike(model):
    options = {**TRIALS, "n_query": 1, "concentration": 1.0}
    found = n_way_k_shot({"it": model}, *SAMPLES, **options)["it"]
    for number, accuracy in enumerate(found):
        rng = np.random.default_rng([3, number])
        sizes = {"n_way": 3, "n_shot": 2, "n_query": 1, "concentration": 1.0}
        trial = draw_trial(P.y_new, P.unseen, **sizes, rng=rng)
        copy = model.with_shots(P.X_new[trial.support], P.y_new[trial.support])
        right = copy.predict(P.X_new[trial.query]) == P.y_new[trial.query]
        assert accuracy == right.mean()
        assert len(right) == 3


@pytest.mark.parametrize("value", [0, -1.0, "auto", True])
def test_a_concentration_is_positive(model, value):
    with refused(ValueError, "`concentration` must be a number in (0, inf)"):
        n_way_k_shot({"it": model}, *SAMPLES, **TRIALS, concentration=value)
