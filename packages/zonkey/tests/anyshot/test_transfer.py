"""AnyShotClassifier(transfer=True): directions from elsewhere, the rest from samples."""

import copy
import math

import any_shot_cases as cases
import numpy as np
import pytest
from any_shot_cases import NaiveModel, naive_softmax
from numpy.testing import assert_allclose, assert_array_equal
from reference_posterior import expectation_maximization, score

import zonkey
from zonkey import AnyShotClassifier
from zonkey.anyshot.posterior import left_out_worth

RNG = np.random.default_rng(0)
SPACE = RNG.normal(size=(3, 7))
BASE = {f"base {j}": RNG.normal(size=3) for j in range(9)}
SHOWN = {"ant": RNG.normal(size=3), "bee": RNG.normal(size=3), "cow": RNG.normal(size=3)}
ROWS = np.stack([v @ SPACE for v in BASE.values()]) + 0.1 * RNG.normal(size=(9, 7))
SHIFT = RNG.normal(size=7)
GIVEN = cases.GIVEN | {"seen_penalty": 0.0, "transfer": True}


def fitted(**parameters):
    model = AnyShotClassifier({**BASE, **SHOWN}, **(GIVEN | parameters))
    return model.fit(ROWS, [*BASE])


def pictures(n, labels=tuple(SHOWN), seed=1):
    rng = np.random.default_rng(seed)
    y = np.repeat([*labels], n)
    X = np.stack([SHOWN[label] @ SPACE for label in y]) + SHIFT
    return X + 0.3 * rng.normal(size=X.shape), y


def naive_priors():
    """Return priors of one length, from a regression on the base classes only."""
    naive = NaiveModel(ROWS, [*BASE], {**BASE, **SHOWN}, **{k: GIVEN[k] for k in NUMBERS})
    length = math.sqrt(np.mean([row @ row for row in ROWS]))
    found = {}
    for label in SHOWN:
        f = naive.predicted_mean(label)
        found[label] = f * length / math.sqrt(f @ f)
    return found


NUMBERS = ("kernel", "gamma", "ridge", "worth", "seen_penalty")


def naive_centers(X, y, worth):
    """Return centers after some samples, and the common shift of the priors."""
    priors, total, n = naive_priors(), np.zeros(7), 0
    for x, label in zip(X, y, strict=True):
        total, n = total + x - priors[label], n + 1
    shift = total / (n + worth)
    centers = []
    for label, prior in priors.items():
        own = X[np.asarray(y) == label]
        centers.append((worth * (prior + shift) + own.sum(axis=0)) / (worth + len(own)))
    return np.stack(centers)


def test_without_samples_centers_are_priors_of_one_length():
    model = fitted()
    assert_array_equal(model.classes_, [*SHOWN])
    assert model.seen_classes_.size == 0
    assert_allclose(model.centers_, [*naive_priors().values()], rtol=1e-9)
    assert_allclose(model.project(SHOWN), model.centers_, rtol=1e-9)
    assert np.ptp(np.linalg.norm(model.centers_, axis=1)) < 1e-9


@pytest.mark.parametrize("labels", [("ant", "bee", "cow"), ("bee",)], ids=len)
@pytest.mark.parametrize("worth", [2.5, 0.3])
def test_samples_move_all_centers_as_in_the_loops(labels, worth):
    X, y = pictures(3, labels)
    model = fitted(worth=worth).partial_fit(X, y)
    assert_allclose(model.centers_, naive_centers(X, y, worth), rtol=1e-9, atol=1e-10)
    new = pictures(4, seed=2)[0]
    scores = [[score(x, c, 0) for c in model.centers_] for x in new]
    # Scores leave out ||x||^2, which is the same for all classes.
    assert_allclose(model.predict_proba(new), naive_softmax(scores, 1.7), rtol=1e-7)


@pytest.mark.parametrize("n", [0, 2])
def test_adapt_is_that_of_the_loops(n):
    X, y = pictures(n) if n else (np.zeros((0, 7)), np.array([]))
    model = fitted()
    if n:
        model.partial_fit(X, y)
    batch = pictures(9, seed=3)[0]
    centers, shares = expectation_maximization(
        batch,
        naive_centers(X, y, 2.5),
        [2.5 + n] * 3,
        offsets=np.zeros(3),
        temperature=0.9,
        weight=0.4,
        smoothing=20.0,
        n_steps=12,
        shift=True,
    )
    adapted = model.adapt(batch)
    assert_allclose(adapted.centers_, centers, rtol=1e-8, atol=1e-9)
    assert shares.sum() == pytest.approx(1)


def test_a_shift_of_all_pictures_does_no_harm():
    X, y = pictures(40, seed=4)
    model = fitted(adapt_weight=0.05)
    shifted = np.mean(model.predict(X) == y)
    assert np.mean(model.adapt(X).predict(X) == y) > max(0.9, shifted)


def left_out_likelihood(X, codes, weights, priors, n0):
    """Return the best mean log-likelihood over temperatures, each sample out of its class."""
    away = np.empty((len(X), 3))
    for i, x in enumerate(X):
        for j in range(3):
            kept = weights * (codes == j) * (np.arange(len(X)) != i)
            c = (n0 * priors[j] + kept @ X) / (n0 + kept.sum())
            away[i, j] = 2 * x @ c - c @ c
        away[i] -= away[i, codes[i]]
    scale = np.abs(away).mean()
    odds = [np.log(np.exp(away / (scale * 2.0**t)).sum(axis=1)) for t in range(-6, 3)]
    return max(-np.average(each, weights=weights) for each in odds)


@pytest.mark.parametrize("seed", range(5))
def test_the_worth_is_the_most_likely_one(seed):
    X, y = pictures(4, seed=seed)
    model = fitted(worth="shots")
    assert model.worth_ == 10.0
    model.partial_fit(X, y)
    options = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0)
    priors, codes = np.stack([*naive_priors().values()]), np.searchsorted([*SHOWN], y)
    shifted = priors + np.sum(X - priors[codes], axis=0) / (len(X) + 10)
    case = X, codes, np.ones(len(X)), shifted
    assert model.worth_ == max(options, key=lambda n0: left_out_likelihood(*case, n0))
    assert model.best_params_["worth"] == model.worth_
    ones = fitted(worth="shots").partial_fit(X, y, sample_weight=np.ones(len(y)))
    assert ones.worth_ == model.worth_


@pytest.mark.parametrize(("first", "later"), [("shots", 3.0), (2.5, "shots")])
def test_a_worth_that_is_set_later_waits_for_the_next_fit(tmp_path, first, later):
    X, y = pictures(2)
    expected = fitted(worth=first).partial_fit(X, y)
    model = fitted(worth=first).set_params(worth=later)
    model.save(tmp_path / "model.zonkey")
    rows = pictures(2, seed=8)[0]
    for found in (model, zonkey.load(tmp_path / "model.zonkey")):
        assert_array_equal(found.adapt(rows).centers_, fitted(worth=first).adapt(rows).centers_)
        found.partial_fit(X, y)
        assert found.worth_ == expected.worth_
        assert_array_equal(found.decision_function(X), expected.decision_function(X))


def test_weights_count_as_samples():
    X, _ = pictures(3, seed=2)
    priors = np.stack([*naive_priors().values()])
    codes = np.repeat(np.arange(3), 3)
    sums, weights = np.zeros((3, 7)), np.array([1.0, 2.0, 0.5] * 3)
    np.add.at(sums, codes, weights[:, None] * X)
    counts = np.bincount(codes, weights)
    options = (0.5, 3.0, 30.0)
    found = left_out_worth(X, codes, weights, priors, sums, counts, options)
    case = X, codes, weights, priors
    assert found == max(options, key=lambda n0: left_out_likelihood(*case, n0))


def test_a_removed_class_teaches_nothing_new():
    model = fitted().partial_fit(*pictures(3))
    rest = model.without_classes(["cow"])
    assert_array_equal(rest.classes_, ["ant", "bee"])
    assert len(rest.state_.evidence.anchors) == len(BASE)
    assert_allclose(rest.project(SHOWN), model.project(SHOWN))


def test_samples_without_weight_change_nothing():
    X, y = pictures(4, seed=1)
    plain = fitted(worth="shots").partial_fit(X, y)
    more, labels = np.vstack([X, X[:3]]), [*y, "zebu", "zebu", "aardvark"]
    weights = [1.0] * len(y) + [0.0] * 3
    found = fitted(worth="shots").partial_fit(more, labels, sample_weight=weights)
    assert found.worth_ == plain.worth_
    assert_allclose(found.centers_, plain.centers_)


def test_the_worth_stays_without_two_samples_of_two_classes():
    model = fitted(worth="shots")
    assert copy.copy(model).partial_fit(*pictures(1)).worth_ == 10.0
    assert copy.copy(model).partial_fit(*pictures(5, ["ant"])).worth_ == 10.0


def test_tight_classes_trust_samples_and_wide_ones_the_prior():
    tight, wide = (pictures(5, seed=6) for _ in range(2))
    X, y = tight
    centers = {label: X[y == label].mean(axis=0) for label in SHOWN}
    X = np.stack([centers[label] for label in y]) + 0.01 * (X - centers["ant"])
    away = np.random.default_rng(1).normal(size=wide[0].shape) * 6
    few, many = (
        fitted(worth="shots").partial_fit(*data).worth_
        for data in ((X, y), (wide[0] + away, wide[1]))
    )
    assert few < many


@pytest.mark.parametrize("n", [0, 2])
def test_explanations_add_up(n):
    model = fitted()
    if n:
        model.partial_fit(*pictures(n))
    x = pictures(1, seed=9)[0][:1]
    frame = model.explain(x).to_frame("seen_classes")
    best = np.argsort(-model.decision_function(x)[0])[:2]
    for column, place in zip(("pull_winner", "pull_runner_up"), best, strict=True):
        assert frame[column].sum() == pytest.approx(2 * float(x[0] @ model.centers_[place]))
    kinds = set(frame["kind"])
    assert kinds == ({"removed", "seen", "common shift"} if n else {"removed"})


def test_new_classes_get_a_prior_too():
    model = fitted().with_classes({"dog": [0.1, 0.4, -0.2]})
    assert_array_equal(model.classes_, ["ant", "bee", "cow", "dog"])
    lengths = np.linalg.norm(model.centers_, axis=1)
    assert np.ptp(lengths) < 1e-9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"transfer": "yes"}, "`transfer` must be False, or True with prototypes"),
        (
            {"candidates": ["ant", "base 1"]},
            "candidates must be classes without samples in `fit`; got samples of 'base 1'",
        ),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(**parameters)


def test_it_needs_prototypes():
    with pytest.raises(ValueError, match="no prototypes"):
        AnyShotClassifier(**GIVEN).fit(ROWS, [*BASE])
