"""Samples of none of the candidates: `novelty`, against loops straight from its formula."""

import numpy as np
import pytest
from any_shot_cases import GIVEN, LABELS, PROTOTYPES, SEEN, UNSEEN, X_NEW, NaiveModel, X, Y, fitted
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zonkey
from zonkey import AnyShotClassifier
from zonkey.anyshot.novelty import find_middle

MANY = np.random.default_rng(3).normal(size=(200, 6)) * 2


def naive_novelty(Z, centers, middle, P):
    """Return the mean squared distance under probabilities P, relative to that from the middle."""
    distances = [[sum((z - c) ** 2) for c in centers] for z in np.asarray(Z)]
    expected = [
        sum(p * v for p, v in zip(*rows, strict=True)) for rows in zip(P, distances, strict=True)
    ]
    return [v / sum((z - middle) ** 2) for v, z in zip(expected, np.asarray(Z), strict=True)]


NAIVE = NaiveModel(X, Y, PROTOTYPES, **GIVEN)


@pytest.mark.parametrize("candidates", ["all", "unseen", ["cow", "elk"], ["bee"]], ids=str)
def test_novelty_compares_likely_centers_with_the_mean_center_of_seen_classes(candidates):
    model = fitted(candidates=candidates)
    P = model.predict_proba(X_NEW)
    chosen = {"all": LABELS, "unseen": UNSEEN}.get(str(candidates), candidates)
    expected = naive_novelty(X_NEW, NAIVE.centers(chosen), NAIVE.centers(SEEN).mean(axis=0), P)
    assert_allclose(model.novelty(X_NEW), expected, rtol=1e-9)
    found = model.novelty(X_NEW.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, expected, rtol=1e-4)


def test_preprocessed_samples_are_compared():
    scaler = StandardScaler().fit(X)
    Z = scaler.transform(X)
    naive = NaiveModel(Z, Y, PROTOTYPES, **GIVEN)
    model = fitted(preprocessing=StandardScaler())
    middle, P = naive.centers(SEEN).mean(axis=0), model.predict_proba(X_NEW)
    expected = naive_novelty(scaler.transform(X_NEW), naive.centers(), middle, P)
    assert_allclose(model.novelty(X_NEW), expected, rtol=1e-9)


def test_refined_scores_take_the_place_of_distances():
    model = AnyShotClassifier().fit(MANY, (MANY[:, :3] * [1, 2, 9]).argmax(axis=1))
    assert model.state_.refined.is_moved
    Z, S = model.preprocessing_.transform(MANY), model.decision_function(MANY)
    P, middle = model.predict_proba(MANY), find_middle(model.state_)
    expected = [
        (z @ z - sum(p * s for p, s in zip(*rows, strict=True))) / sum((z - middle) ** 2)
        for z, *rows in zip(Z, P, S, strict=True)
    ]
    assert_allclose(model.novelty(MANY), expected, rtol=1e-6)


def test_values_that_users_can_expect():
    model = fitted()
    sure = model.with_candidates(LABELS[:1])
    assert_allclose(sure.novelty(sure.centers_), 0, atol=1e-12)
    middle = find_middle(model.state_)
    far = middle + 1e6 * np.eye(6)
    assert_allclose(model.novelty(far), 1, atol=1e-4)
    (at_middle,) = model.novelty(middle[None, :])
    assert 1 < at_middle < np.inf
    # Neither a shift nor a scale of all features matters without prototypes.
    plain = fitted(prototypes=None)
    moved = fitted(3 * X + np.arange(6.0), prototypes=None, temperature=9 * GIVEN["temperature"])
    assert_allclose(moved.novelty(3 * X_NEW + np.arange(6.0)), plain.novelty(X_NEW), rtol=1e-8)


def test_strangers_are_more_novel():
    rng = np.random.default_rng(0)
    means = 2 * rng.normal(size=(9, 20))
    y = np.repeat(np.arange(9), 30)
    rows = means[y] + rng.normal(size=(270, 20))
    known = y < 6
    model = AnyShotClassifier(candidates="all").fit(rows[known], y[known])
    later = means[y] + rng.normal(size=(270, 20))
    found = model.novelty(later)
    assert np.quantile(found[~known], 0.05) > np.quantile(found[known], 0.95)


def test_novelty_follows_what_changes_the_candidates():
    model, rows = fitted(), slice(0, 12)
    more = model.partial_fit(MANY[rows], np.repeat("bee", 12))
    naive = NaiveModel(np.concatenate([X, MANY[rows]]), [*Y, *["bee"] * 12], PROTOTYPES, **GIVEN)
    middle = naive.centers([*SEEN, "bee"]).mean(axis=0)
    expected = naive_novelty(X_NEW, naive.centers(), middle, more.predict_proba(X_NEW))
    assert_allclose(more.novelty(X_NEW), expected, rtol=1e-9)
    adapted = fitted().adapt(MANY)
    middle = NAIVE.centers(SEEN).mean(axis=0)
    expected = naive_novelty(X_NEW, adapted.centers_, middle, adapted.predict_proba(X_NEW))
    assert_allclose(adapted.novelty(X_NEW), expected, rtol=1e-8)
    fewer = fitted().without_classes(["ant"])
    middle, P = find_middle(fewer.state_), fewer.predict_proba(X_NEW)
    expected = naive_novelty(X_NEW, fewer.centers_, middle, P)
    assert_allclose(fewer.novelty(X_NEW), expected, rtol=1e-8)


def test_the_middle_without_samples_of_the_domain_is_that_of_known_classes():
    model = fitted(candidates="unseen", transfer=True)
    assert_allclose(find_middle(model.state_), model.centers_.mean(axis=0), rtol=1e-9)
    P = model.predict_proba(X_NEW)
    expected = naive_novelty(X_NEW, model.centers_, model.centers_.mean(axis=0), P)
    assert_allclose(model.novelty(X_NEW), expected, rtol=1e-9)


def test_novelty_does_not_depend_on_rejection_or_blocks():
    expected = fitted().novelty(MANY)
    assert_array_equal(fitted(reject_below=0.9).novelty(MANY), expected)
    with zonkey.config_context(working_memory=0.001):
        assert_allclose(fitted().novelty(MANY), expected, rtol=1e-12)


# Rejection that is set after `fit`


def test_parameters_of_the_rejection_take_effect_at_once(tmp_path):
    expected = fitted(reject_below=0.6, reject_label="none").predict(MANY)
    assert "none" in expected
    model = fitted()
    model.save(tmp_path / "model.zonkey")
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), fitted()).fit(X, Y)
    pipeline.set_params(anyshotclassifier__reject_below=0.6, anyshotclassifier__reject_label="none")
    assert_array_equal(pipeline.predict(MANY), expected)
    for one in (model, zonkey.load(tmp_path / "model.zonkey")):
        plain = one.predict(MANY)
        one.set_params(reject_below=0.6, reject_label="none")
        assert_array_equal(one.predict(MANY), expected)
        assert one.explain(MANY[expected == "none"][0]).rejected
        one.save(tmp_path / "later.zonkey")
        assert_array_equal(zonkey.load(tmp_path / "later.zonkey").predict(MANY), expected)
        assert_array_equal(one.set_params(reject_below=None).predict(MANY), plain)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"reject_below": 1.5}, ("`reject_below` must be a number in [0, 1]", "got 1.5")),
        *(
            ({"reject_label": label}, ("`reject_label` must be", "none of them", f"got {label!r}"))
            for label in ("ant", "bee", 7)
        ),
    ],
)
def test_bad_parameters_of_the_rejection_are_refused_by_predict(parameters, words):
    model = fitted().set_params(**{"reject_below": 0.5} | parameters)
    with refused(ValueError, *words):
        model.predict(MANY)
