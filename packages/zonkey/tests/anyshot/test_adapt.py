"""AnyShotClassifier.adapt: expectation maximization as in the loops, help and no harm."""

import numpy as np
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
from reference_posterior import expectation_maximization, score

from zonkey import AnyShotClassifier

BATCH = np.random.default_rng(1).normal(size=(25, 6)) * 1.5
STEPS, SMOOTHING = 12, 20.0
NEW = np.arange(16, 24)
MANY = 55  # of each class: batches of more than 400 samples need few simulations


def naive_adapt(naive, labels, batch, *, temperature, weight):
    """Return centers and offsets of some classes after the loops."""
    offsets = np.array([naive.penalty(label) for label in labels])
    worth = [naive.counts.get(label, 0) + naive.worth_of(label) for label in labels]
    centers, shares = expectation_maximization(
        batch,
        naive.centers(labels),
        worth,
        offsets=offsets,
        temperature=temperature,
        weight=weight,
        smoothing=SMOOTHING,
        n_steps=STEPS,
    )
    # Frequent classes are more likely, in the scores as in the responsibilities.
    return centers, offsets - temperature * np.log(shares * len(labels))


@pytest.mark.parametrize("candidates", ["all", "unseen", ["ant", "bee", "dog", "hen"]], ids=str)
@pytest.mark.parametrize(("temperature", "weight"), [(0.9, 0.4), (3.0, 1.0), (0.2, 0.05)], ids=str)
def test_the_model_is_that_of_the_loops(candidates, temperature, weight):
    given = {"adapt_temperature": temperature, "adapt_weight": weight, "candidates": candidates}
    model = fitted(**given)
    adapted = model.adapt(BATCH)
    labels = model.classes_.tolist()
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    options = {"temperature": temperature, "weight": weight}
    centers, offsets = naive_adapt(naive, labels, BATCH, **options)
    assert_array_equal(adapted.classes_, labels)
    assert_allclose(adapted.centers_, centers, rtol=1e-8, atol=1e-9)
    pairs = list(zip(centers, offsets, strict=True))
    expected = np.array([[score(x, c, o) for c, o in pairs] for x in X_NEW])
    assert_allclose(adapted.decision_function(X_NEW), expected, rtol=1e-7, atol=1e-8)
    shares = naive_softmax(expected, GIVEN["temperature"])
    assert_allclose(adapted.predict_proba(X_NEW), shares, rtol=1e-6, atol=1e-9)
    assert np.abs(adapted.centers_ - model.centers_).max() > 0.01


def test_adapt_returns_a_copy():
    model = fitted()
    before = model.centers_.copy(), model.decision_function(X_NEW)
    adapted = model.adapt(BATCH)
    assert adapted is not model
    assert (model.is_transductive_, adapted.is_transductive_) == (False, True)
    assert_array_equal(model.centers_, before[0])
    assert_array_equal(model.decision_function(X_NEW), before[1])
    again = adapted.adapt(BATCH)  # from labeled samples anew, not on top
    assert_array_equal(again.centers_, adapted.centers_)
    assert fitted().fit(X, Y).is_transductive_ is False
    assert adapted.fit(X, Y).is_transductive_ is False


def test_no_weight_changes_nothing():
    model = fitted(adapt_weight=0.0)
    adapted = model.adapt(BATCH)
    assert_array_equal(adapted.decision_function(X_NEW), model.decision_function(X_NEW))
    assert adapted.is_transductive_


def test_the_order_of_the_pile_does_not_matter():
    order = np.random.default_rng(0).permutation(len(BATCH))
    expected = fitted().adapt(BATCH).decision_function(X_NEW)
    found = fitted().adapt(BATCH[order]).decision_function(X_NEW)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_partial_fit_forgets_the_adaptation():
    adapted = fitted().adapt(BATCH).partial_fit(X[:3], Y[:3])
    expected = fitted().partial_fit(X[:3], Y[:3])
    assert adapted.is_transductive_ is False
    assert_array_equal(adapted.decision_function(X_NEW), expected.decision_function(X_NEW))
    shots = fitted().adapt(BATCH).with_shots(X[:3], Y[:3])
    assert shots.is_transductive_ is False


def test_copies_keep_the_adaptation():
    adapted = fitted().adapt(BATCH)
    fewer = adapted.with_candidates(UNSEEN)
    rows = np.isin(LABELS, UNSEEN)
    assert fewer.is_transductive_
    assert_array_equal(fewer.centers_, adapted.centers_[rows])
    scores = adapted.decision_function(X_NEW)[:, rows]
    assert_allclose(fewer.decision_function(X_NEW), scores, rtol=1e-12)
    wider = adapted.with_classes({"owl": np.ones(4)})
    plain = fitted().with_classes({"owl": np.ones(4)})
    place = wider.classes_.tolist().index("owl")
    assert_array_equal(wider.centers_[place], plain.centers_[place])
    assert_array_equal(np.delete(wider.centers_, place, axis=0), adapted.centers_)
    assert_array_equal(adapted.without_classes(["ant"]).centers_, adapted.centers_[1:])


@pytest.mark.filterwarnings("ignore:At least two classes with samples")
def test_one_sample_one_candidate_and_no_prototype():
    for model in (
        fitted(candidates=["bee"]),
        AnyShotClassifier(preprocessing=None, temperature=1.0).fit(X, Y),
        fitted(X[:1], Y[:1]),
    ):
        for batch in (BATCH[:1], BATCH):
            adapted = model.adapt(batch)
            assert np.isfinite(adapted.decision_function(X_NEW)).all()
            assert np.isfinite(adapted.centers_).all()


# What is chosen on simulated tasks


@pytest.mark.filterwarnings("ignore:At least two classes with samples")
@pytest.mark.parametrize("n_seen", [1, 2, 3])
def test_few_classes_allow_no_simulation_and_nothing_is_done(n_seen):
    drawn = world(n_seen, n_classes=6)
    model = AnyShotClassifier(drawn.prototypes, candidates="unseen").fit(
        *drawn.draw(np.arange(n_seen), 10)
    )
    rows, _ = drawn.draw(np.arange(n_seen, 6), 10)
    adapted = model.adapt(rows)
    assert_array_equal(adapted.decision_function(rows), model.decision_function(rows))
    assert adapted.is_transductive_


@pytest.fixture(scope="module", params=[0, pytest.param(2, marks=pytest.mark.exhaustive)])
def zero_shot(request):
    """Return a model whose priors are off, with its world."""
    drawn = world(request.param, n_classes=24, deviation=0.5)
    model = AnyShotClassifier(drawn.prototypes, candidates="unseen").fit(
        *drawn.draw(np.arange(16), 15)
    )
    return drawn, model


def test_unlabeled_samples_help_where_the_prior_is_off(zero_shot):
    drawn, model = zero_shot
    batch, truth = drawn.draw(NEW, MANY)
    rows, y = drawn.draw(NEW, 30)
    adapted = model.adapt(batch)
    assert adapted.score(batch, truth) > model.score(batch, truth) + 0.05
    assert adapted.score(rows, y) > model.score(rows, y) + 0.05
    # The same seed and the same batch: the same choice.
    assert_array_equal(model.adapt(batch).centers_, adapted.centers_)


def test_the_classes_of_the_pile_need_not_be_equally_frequent(zero_shot):
    drawn, model = zero_shot
    batch, truth = drawn.draw(NEW, [4, 8, 16, 32, 60, 100, 100, 100])
    adapted = model.adapt(batch)
    assert np.mean(adapted.predict(batch) == truth) > np.mean(model.predict(batch) == truth)
    counts = [np.sum(adapted.predict(batch) == label) for label in NEW]
    assert counts[-1] > 2 * counts[0]  # not balanced by force


def test_a_pile_of_one_class_is_no_disaster_on_average(zero_shot):
    drawn, model = zero_shot
    gains = []
    for label in NEW:
        batch, truth = drawn.draw([label], 8 * MANY)
        adapted = model.adapt(batch)
        assert np.isfinite(adapted.predict_proba(batch)).all()
        gains.append(adapted.score(batch, truth) - model.score(batch, truth))
    assert np.mean(gains) > -0.1


def test_a_pile_without_any_candidate_gives_a_finite_model(zero_shot):
    drawn, model = zero_shot
    rows, y = drawn.draw(NEW, 30)
    before = model.score(rows, y)
    batches = [drawn.draw(np.arange(start, start + 8), MANY)[0] for start in (0, 8)]
    batches.append(3 * drawn.rng.normal(size=(8 * MANY, 12)))
    for batch in batches:
        adapted = model.adapt(batch)
        shares = adapted.predict_proba(rows)
        assert np.isfinite(shares).all()
        # The anchors hold: far better than chance, although no sample of the batch belongs here.
        assert adapted.score(rows, y) > 2 / len(NEW)
    assert model.score(rows, y) == before


def test_shots_and_unlabeled_samples_together(monkeypatch):
    monkeypatch.setattr("zonkey.anyshot.adapting._SMALL_SIMULATIONS", 50)
    drawn = world(5, n_classes=24, deviation=0.5, noise=1.0)
    model = AnyShotClassifier(drawn.prototypes, candidates="unseen").fit(
        *drawn.draw(np.arange(16), 15)
    )
    gains = []
    for _ in range(4):
        classes = drawn.rng.choice(NEW, 5, replace=False)
        few = model.with_shots(*drawn.draw(classes, 1))
        rows, y = drawn.draw(classes, 15)
        adapted = few.adapt(rows)
        assert_array_equal(adapted.classes_, few.classes_)
        gains.append(adapted.score(rows, y) - few.score(rows, y))
    assert np.mean(gains) > 0.01


def test_seen_and_unseen_classes_in_one_pile(zero_shot):
    drawn, model = zero_shot
    rows, y = drawn.draw(NEW, 30)
    seen, y_seen = drawn.draw(np.arange(16), 11)

    def harmonic(model):
        a, b = model.score(rows, y), model.score(seen, y_seen)
        return 2 * a * b / (a + b)

    generalized = model.with_candidates("all")
    adapted = generalized.adapt(np.concatenate([rows, seen]))
    assert harmonic(adapted) > harmonic(generalized) + 0.02
    assert np.isfinite(adapted.predict_proba(rows)).all()


def test_one_of_two_numbers_may_be_given(zero_shot):
    drawn, model = zero_shot
    batch, _ = drawn.draw(NEW, MANY)
    given = {**model.best_params_, "prototypes": drawn.prototypes, "candidates": "unseen"}
    base = drawn.draw(np.arange(16), 15)
    # A temperature that is chosen must not bring another weight along.
    still = AnyShotClassifier(**given, adapt_weight=0.0).fit(*base)
    assert_array_equal(still.adapt(batch).centers_, still.centers_)
    # So much heat makes all responsibilities equal: every center moves to the middle.
    hot = AnyShotClassifier(**given, adapt_temperature=1e6).fit(*base)
    assert np.isfinite(hot.adapt(batch).predict_proba(batch)).all()
