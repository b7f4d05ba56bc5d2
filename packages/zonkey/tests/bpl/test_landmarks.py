"""AnyShotClassifier with `n_components`: a kernel through landmarks instead of all classes."""

import tracemalloc

import any_shot_cases as cases
import numpy as np
import pytest
from any_shot_cases import PROTOTYPES, UNSEEN, X_NEW, NaiveModel, X, Y, fitted, world
from libraries import in_every_library
from numpy.testing import assert_allclose, assert_array_equal

import zonkey
from zonkey import AnyShotClassifier
from zonkey.arrays import to_numpy

R = 3


class NaiveLandmarks(NaiveModel):
    """The loops, with the kernel replaced by that through the landmarks of a model."""

    def __init__(self, model, *data, **parameters):
        super().__init__(*data, **parameters)
        rows = model.state_.regression._landmarks(model.state_.evidence)
        self.landmarks = [self.anchors[i] for i in rows]
        self.K = np.array([[self.k(a, b) for b in self.anchors] for a in self.anchors])

    def k(self, a, b):
        landmarks = getattr(self, "landmarks", None)
        if landmarks is None:
            return super().k(a, b)
        inner = np.array(
            [[super(NaiveLandmarks, self).k(u, v) for v in landmarks] for u in landmarks]
        )
        left, right = ([super(NaiveLandmarks, self).k(j, u) for u in landmarks] for j in (a, b))
        return float(np.array(left) @ np.linalg.solve(inner, np.array(right)))


def naive(model, X=X, y=Y, **parameters):
    return NaiveLandmarks(model, X, y, PROTOTYPES, **(cases.GIVEN | parameters))


@pytest.mark.parametrize("n_components", [2, R])
@pytest.mark.parametrize("parameters", [{}, {"kernel": "poly", "gamma": 1.3}], ids=str)
def test_the_model_is_that_of_the_loops(n_components, parameters):
    model = fitted(n_components=n_components, **parameters)
    expected = naive(model, **parameters)
    assert len(expected.landmarks) == n_components < len(expected.anchors)
    assert_allclose(model.centers_, expected.centers(), rtol=1e-7, atol=1e-9)
    assert_allclose(model.decision_function(X_NEW), expected.scores(X_NEW), rtol=1e-7, atol=1e-8)
    of_unseen = {label: PROTOTYPES[label] for label in UNSEEN}
    projected = [expected.predicted_mean(label) for label in UNSEEN]
    assert_allclose(model.project(of_unseen), projected, rtol=1e-7, atol=1e-9)


def test_nearly_as_many_landmarks_as_classes_are_exact():
    # Without a ridge, the class that is no landmark would be predicted by rounding errors.
    w = world(5, n_classes=20, k=6)
    X, y = w.draw(np.arange(20), 4)
    models = [
        AnyShotClassifier(
            w.prototypes, n_components=r, **cases.GIVEN | {"kernel": "rbf", "ridge": 0.0}
        ).fit(X, y)
        for r in (None, 19, 18, 17)
    ]
    exact, *others = [model.centers_ for model in models]
    for near in others[:2]:
        assert_array_equal(near, exact)
    assert_array_equal(fitted(n_components=100).centers_, fitted().centers_)
    assert not np.allclose(others[2], exact)


def test_later_samples_and_classes_give_the_model_of_one_fit():
    whole = fitted(n_components=R)
    rows = np.arange(len(Y)) % 3 > 0
    rows |= Y == "cow"
    rows &= Y != "jay"
    parts = fitted(X[rows], Y[rows], n_components=R).partial_fit(X[~rows], Y[~rows])
    assert_allclose(parts.centers_, whole.centers_, rtol=1e-9, atol=1e-11)
    few = {label: row for label, row in PROTOTYPES.items() if label != "hen"}
    added = fitted(prototypes=few, n_components=R, gamma=0.5).with_classes(
        {"hen": PROTOTYPES["hen"]}
    )
    assert_allclose(
        added.project([PROTOTYPES["hen"]])[0], added.with_candidates(["hen"]).centers_[0], rtol=1e-9
    )


def test_an_explanation_adds_up():
    model = fitted(n_components=R)
    for x in X_NEW:
        answer = model.explain(x)
        pulls = sum(row["pull_winner"] for row in answer.parts["seen_classes"])
        center = model.with_candidates([answer.label]).centers_[0]
        assert_allclose(pulls, 2 * x @ center, rtol=1e-8)


def test_files_keep_the_landmarks(tmp_path):
    model = fitted(n_components=R, random_state=4)
    model.save(tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert loaded.n_components == R
    row = [[1.0, 2, 3, 4]]
    assert_array_equal(loaded.project(row), model.project(row))
    # The seed draws them.
    others = [fitted(n_components=R, random_state=seed).project(row) for seed in (4, 1, 2, 3)]
    assert_array_equal(others[0], model.project(row))
    assert any(not np.allclose(other, others[0]) for other in others)


GIVEN_STEPS = {"adapt_temperature": 0.3, "adapt_weight": 0.5}


@pytest.mark.parametrize(
    ("transfer", "settings"),
    [
        (False, GIVEN_STEPS),
        (True, GIVEN_STEPS),
        pytest.param(False, {}, marks=pytest.mark.exhaustive),  # chosen in simulated tasks
    ],
)
def test_unlabeled_samples_move_centers_as_in_the_exact_model(transfer, settings):
    w = world(3, n_classes=24, k=4)
    X, y = w.draw(np.arange(18), 8)
    new, _ = w.draw(np.arange(18, 24), 20)
    models = [
        AnyShotClassifier(
            w.prototypes, n_components=r, transfer=transfer, kernel="linear", **settings
        ).fit(X, y)
        for r in (None, 6)
    ]
    # Six landmarks span the four dimensions of the prototypes: nothing is lost.
    for one, other in (models, [model.adapt(new) for model in models]):
        assert one.best_params_["ridge"] == other.best_params_["ridge"]
        assert_allclose(other.centers_, one.centers_, rtol=1e-5, atol=1e-6)


@in_every_library
def test_landmarks_serve_every_library(library):
    expected, found = fitted(n_components=R), fitted(library(X), n_components=R)
    assert_allclose(library.numpy(found.centers_), expected.centers_, rtol=1e-8, atol=1e-10)
    assert_array_equal(to_numpy(found.predict(library(X_NEW))), expected.predict(X_NEW))


def test_no_matrix_over_all_pairs_of_classes_is_made():
    p, d = 2500, 4
    rng = np.random.default_rng(0)
    prototypes = dict(enumerate(rng.normal(size=(p + 20, 3))))
    X, y = rng.normal(size=(2 * p, d)), np.arange(2 * p) % p
    model = AnyShotClassifier(prototypes, n_components=20, **(cases.GIVEN | {"kernel": "arccos"}))
    tracemalloc.start()
    try:
        model.fit(X, y)
        model.partial_fit(X[:50], y[:50]).predict(X[:9])
        model.embed(X[:2]), model.project(X[:2, :3]), model.explain(X[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < p * p * 8 / 2


def test_many_classes_without_landmarks_are_named(monkeypatch):
    monkeypatch.setattr("zonkey.anyshot.fitting._MANY_ANCHORS", 4)
    with pytest.warns(UserWarning, match=r"for up to 4 classes .* 5 need .* n_components=2000"):
        fitted()
    fitted(n_components=R)


@pytest.mark.parametrize("n_components", [0, -1, 2.5, "auto"])
def test_other_numbers_of_landmarks_are_refused(n_components):
    with pytest.raises((TypeError, ValueError), match="`n_components` must be"):
        fitted(n_components=n_components)
