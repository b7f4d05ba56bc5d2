"""AnyShotClassifier with given parameters: the model of the formulas, and its special cases."""

import warnings

import numpy as np
import pytest
from any_shot_cases import (
    COUNTS,
    GIVEN,
    LABELS,
    PROTOTYPES,
    SEEN,
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
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier
from zonkey.preprocessing import FeatureNormalizer

KERNEL_MATRIX = {
    label: [float((a @ b + 1) ** 2) for b in PROTOTYPES.values()] for label, a in PROTOTYPES.items()
}
CASES = {
    "rbf": {},
    "linear": {"kernel": "linear", "gamma": 3.0},
    "poly": {"kernel": "poly", "gamma": 0.3},
    "precomputed": {"kernel": "precomputed", "prototypes": KERNEL_MATRIX},
    "ridge": {"ridge": 4.0},
    "worth": {"worth": 0.01, "seen_penalty": 3.0},
    "worth and penalty": {"worth": 40.0, "seen_penalty": -1.5, "temperature": 0.2},
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_that_of_the_loops(case):
    parameters = GIVEN | {"prototypes": PROTOTYPES} | CASES[case]
    model = fitted(**CASES[case])
    naive = NaiveModel(X, Y, **parameters)
    assert_array_equal(model.classes_, LABELS)
    assert_allclose(model.centers_, naive.centers(), rtol=1e-9, atol=1e-10)
    scores = naive.scores(X_NEW)
    assert_allclose(model.decision_function(X_NEW), scores, rtol=1e-9, atol=1e-9)
    probabilities = naive_softmax(scores, parameters["temperature"])
    assert_allclose(model.predict_proba(X_NEW), probabilities, rtol=1e-8, atol=1e-12)
    assert_array_equal(model.predict(X_NEW), np.array(LABELS)[scores.argmax(axis=1)])
    projected = [naive.predicted_mean(label) for label in sorted(PROTOTYPES)]
    assert_allclose(model.project(parameters["prototypes"]), projected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("candidates", ["unseen", "all", ["gnu", "bee", "dog"]], ids=str)
def test_candidates_are_columns_of_the_same_model(candidates):
    model = fitted(candidates=candidates)
    labels = {"unseen": UNSEEN, "all": LABELS}.get(str(candidates), sorted(candidates))
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    assert_array_equal(model.classes_, labels)
    expected = naive.scores(X_NEW, list(labels))
    assert_allclose(model.decision_function(X_NEW), expected, rtol=1e-9, atol=1e-9)
    assert_array_equal(model.seen_classes_, SEEN)
    assert_array_equal(model.unseen_classes_, UNSEEN)
    assert_array_equal(model.prototypes_.labels, sorted(PROTOTYPES))


def test_features_and_prototypes_are_transformed_first():
    of_features = StandardScaler()
    of_prototypes = FeatureNormalizer(power=0.5, center=True)
    model = fitted(preprocessing=of_features, prototype_transformer=of_prototypes)
    scale = X.std(axis=0)
    vectors = np.stack([PROTOTYPES[label] for label in sorted(PROTOTYPES)])
    vectors = np.sign(vectors) * np.abs(vectors) ** 0.5
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    turned = dict(zip(sorted(PROTOTYPES), vectors, strict=True))
    naive = NaiveModel((X - X.mean(axis=0)) / scale, Y, turned, **GIVEN)
    assert_allclose(model.centers_, naive.centers(), rtol=1e-9, atol=1e-10)
    expected = naive.scores((X_NEW - X.mean(axis=0)) / scale)
    assert_allclose(model.decision_function(X_NEW), expected, rtol=1e-9, atol=1e-9)
    assert not hasattr(of_features, "mean_")  # clones are fitted
    assert not hasattr(of_prototypes, "mean_")
    assert_allclose(model.preprocessing_.transform(X_NEW), (X_NEW - X.mean(axis=0)) / scale)


def test_a_class_without_a_prototype_is_at_its_mean():
    model = fitted(seen_penalty=0.0)
    place = LABELS.index("dog")
    assert_allclose(model.centers_[place], X[Y == "dog"].mean(axis=0), rtol=1e-12)
    # It has the full penalty, and does not change the other classes.
    shift = model.decision_function(X_NEW) - fitted(seen_penalty=0.6).decision_function(X_NEW)
    assert_allclose(shift[:, place], 0.6, rtol=1e-9)
    without = fitted(X[Y != "dog"], Y[Y != "dog"])
    assert_allclose(np.delete(model.centers_, place, axis=0), without.centers_, rtol=1e-12)


@pytest.mark.parametrize("candidates", ["unseen", "all"])
def test_without_prototypes_the_nearest_class_mean_decides(candidates):
    most = np.concatenate([np.flatnonzero(label == Y)[:3] for label in SEEN if label != "cow"])
    model = AnyShotClassifier(candidates=candidates, preprocessing=None, temperature=1.0)
    model.fit(X[most], Y[most])
    even = NearestCentroid().fit(X[most], Y[most])
    assert_allclose(model.centers_, even.centroids_, rtol=1e-12)
    assert_array_equal(model.predict(X_NEW), even.predict(X_NEW))
    model.fit(X, Y)
    assert_array_equal(model.classes_, SEEN)
    assert model.prototypes_ is None
    assert model.worth_ == 0
    assert model.unseen_classes_.size == 0
    # The mean of few samples is pulled to the mean of all, as the posterior of that prior.
    means = np.stack([X[label == Y].mean(axis=0) for label in SEEN])
    n, middle = np.array([COUNTS[label] for label in SEEN]), means.mean(axis=0)
    apart = sum(
        ((X[label == Y] - mean) ** 2).sum() for label, mean in zip(SEEN, means, strict=True)
    )
    within = apart / (len(Y) - len(SEEN))
    between = (n @ ((means - middle) ** 2).sum(axis=1) - len(n) * within) / len(Y)
    factors = n / (n + within / between)
    pulled = middle + (factors / factors.max())[:, None] * (means - middle)
    assert_allclose(model.centers_, pulled, rtol=1e-10)
    for method in ("project", "embed"):
        with pytest.raises(ValueError, match="needs classes with a prototype and samples"):
            getattr(model, method)(X_NEW)
    with pytest.raises(ValueError, match="Adding classes needs a semantic space"):
        model.with_classes({"owl": [1.0]})


def test_many_samples_outweigh_the_prior_and_a_large_worth_outweighs_them():
    light, heavy = fitted(worth=1e-9), fitted(worth=1e9)
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    for place, label in enumerate(LABELS):
        if label in SEEN:
            mean = X[label == Y].mean(axis=0)
            assert_allclose(light.centers_[place], mean, rtol=1e-6)
        if label in PROTOTYPES:
            assert_allclose(heavy.centers_[place], naive.prior(label), rtol=1e-6, atol=1e-6)


# Few classes: everything "auto" stays usable, with one warning if nothing can be chosen


@pytest.mark.parametrize("n_seen", [1, 2, 3, 4, 5, 7, 10])
@pytest.mark.parametrize(("candidates", "n"), [("unseen", 6), ("all", 1)])
def test_few_classes_are_served(n_seen, candidates, n):
    drawn = world(n_seen, n_classes=13)
    rows, y = drawn.draw(np.arange(n_seen), n)
    new, y_new = drawn.draw(np.arange(13), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if n_seen == 1:
            warnings.filterwarnings("ignore", message="At least two classes with samples")
            warnings.filterwarnings("ignore", message="Classes should have different centers")
        elif n_seen < 4:
            warnings.filterwarnings("ignore", message="Usual values of preprocessing")
        model = AnyShotClassifier(drawn.prototypes, candidates=candidates).fit(rows, y)
        probabilities = model.predict_proba(new)
    assert np.isfinite(probabilities).all()
    assert 0 < model.worth_ < np.inf
    assert model.temperature_ > 0
    assert_array_equal(model.classes_, np.arange(n_seen if candidates == "unseen" else 0, 13))
    if n_seen > 6:
        own = np.isin(y_new, model.classes_)
        assert model.score(new[own], y_new[own]) > 2 / len(model.classes_)


@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5])
def test_few_classes_without_prototypes_are_served_quietly(n_classes, n):
    drawn = world(1, n_classes=3, noise=0.1)
    rows, y = drawn.draw(np.arange(n_classes), n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AnyShotClassifier().fit(rows, y)
    assert_array_equal(model.predict(rows), y)
    probabilities = model.predict_proba(rows)
    assert probabilities.shape == (len(y), n_classes)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    if n_classes == 1:
        assert_array_equal(model.uncertainty(rows), 0)


def test_one_class_with_samples_is_enough_for_one_without():
    prototypes = {"a": [0.0, 1.0], "b": [1.0, 0.0]}
    model = AnyShotClassifier(prototypes, candidates="unseen").fit(X[:3], ["a"] * 3)
    assert model.predict(X_NEW).tolist() == ["b"] * len(X_NEW)
    assert_array_equal(model.predict_proba(X_NEW), 1.0)
