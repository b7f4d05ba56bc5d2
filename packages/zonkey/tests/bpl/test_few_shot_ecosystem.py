"""FewShotClassifier among the tools of scikit-learn, pandas and polars, and labels of any type."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from few_shot_cases import BASE, NOVEL, SYNTHESES, P, X, Y, assert_same_model, fitted, prepared
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

from zonkey import Moments
from zonkey.bpl.frame import BaseClasses
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing.zero_shot import containers, state, state_of

# Types of input


def test_float32_stays_float32():
    model, narrow = fitted(), prepared().fit(X.astype(np.float32), Y)
    assert (model.projection_.dtype, narrow.projection_.dtype) == (np.float64, np.float32)
    assert_allclose(narrow.projection_, model.projection_, rtol=1e-5, atol=1e-6)
    scores = narrow.decision_function(P.X_new.astype(np.float32))
    assert scores.dtype == np.float32
    assert_allclose(scores, model.decision_function(P.X_new), rtol=1e-3, atol=1e-3)
    base = Moments.from_arrays(P.X.astype(np.float32), P.y, P.prototypes)
    for synthesis in SYNTHESES:  # the data are exact in float32
        assert_same_model(fitted(base=base, synthesis=synthesis), fitted(synthesis=synthesis))
    single = {label: vector.astype(np.float32) for label, vector in NOVEL.items()}
    assert fitted(prototypes=single).projection_.dtype == np.float64


@pytest.mark.parametrize("backwards", [False, True])
def test_labels_may_be_numbers_in_any_order(backwards):
    labels = sorted(P.prototypes, reverse=backwards)
    number = {label: 10 * j for j, label in enumerate(labels)}
    numbered = {number[label]: vector for label, vector in P.prototypes.items()}
    base = Moments.from_arrays(P.X, [number[label] for label in P.y], numbered)
    expected = fitted()
    for y in containers([number[label] for label in Y.tolist()]):
        model = prepared(prototypes=numbered, base=base).fit(X, y)
        assert_allclose(model.projection_, expected.projection_, rtol=1e-7, atol=1e-10)
        predicted = [number[label] for label in expected.predict(P.X_new)]
        assert_array_equal(model.predict(P.X_new), predicted)
    for y in containers(Y.tolist()):
        assert_array_equal(prepared().fit(X, y).projection_, expected.projection_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("series", [pd.Series, pl.Series])
def test_frames_and_series_give_what_arrays_give(frame, series):
    names = [f"feature {i}" for i in range(X.shape[1])]
    model = prepared().fit(frame(dict(zip(names, X.T, strict=True))), series(Y.tolist()))
    new = frame(dict(zip(names, P.X_new.T, strict=True)))
    assert_array_equal(model.feature_names_in_, names)
    assert_array_equal(model.predict(new), fitted().predict(P.X_new))
    assert model.score(new, series(P.y_new.tolist())) == fitted().score(P.X_new, P.y_new)


# Among the tools of scikit-learn


def test_fit_changes_nothing_but_the_estimator():
    model = prepared(base=BASE.copy())
    before = joblib.hash((X, Y, P.prototypes)), state(model.get_params())
    model.fit(X, Y)
    assert (joblib.hash((X, Y, P.prototypes)), state(model.get_params())) == before


@pytest.mark.parametrize("base", [None, BASE, BaseClasses(BASE)], ids=type)
def test_inference_changes_nothing(base):
    model = fitted(base=base)
    calls = {
        "predict": (P.X_new,),
        "predict_top": (P.X_new, 2),
        "decision_function": (P.X_new,),
        "score": (P.X_new, P.y_new),
        "project": (P.prototypes,),
        "embed": (P.X_new,),
        "with_classes": ({"class new": np.ones(5)},),
        "with_candidates": ("all",),
    }
    for method, arguments in calls.items():
        before = state(vars(model)), joblib.hash(arguments)
        first, second = (getattr(model, method)(*arguments) for _ in range(2))
        assert before == (state(vars(model)), joblib.hash(arguments)), method
        assert state_of(first) == state_of(second), method


@pytest.mark.parametrize("base", [None, BASE, BaseClasses(BASE)], ids=type)
def test_clone_and_pickle(base):
    model = fitted(base=base, candidates=P.unseen[1:], alpha=0.3)
    copy = clone(model)
    assert not hasattr(copy, "projection_")
    assert (copy.alpha, copy.candidates) == (0.3, P.unseen[1:])
    assert_same_model(copy.fit(X, Y), model)
    again = pickle.loads(pickle.dumps(model))
    assert_same_model(again, model)
    assert_same_model(again.fit(X, Y), model)


def test_a_second_fit_forgets_the_first():
    model = prepared().fit(P.X_new[-4:], P.y_new[-4:])
    assert_same_model(model.fit(X, Y), fitted())


def test_pipeline_is_the_steps_one_after_another():
    # Unit rows need nothing of other samples: base and support are normalized alike.
    base = Moments.from_arrays(FeatureNormalizer().fit_transform(P.X), P.y, P.prototypes)
    pipeline = make_pipeline(FeatureNormalizer(), prepared(base=base)).fit(X, Y)
    scale = FeatureNormalizer().fit(X)
    alone = prepared(base=base).fit(scale.transform(X), Y)
    assert_same_model(pipeline[-1], alone)
    assert_array_equal(pipeline.predict(P.X_new), alone.predict(scale.transform(P.X_new)))
    assert_array_equal(pipeline.classes_, P.unseen)


def test_parameters_can_be_searched_over():
    grid = {"alpha": [0.05, 0.3], "synthesis": SYNTHESES}
    model, cv = prepared(base=BaseClasses(BASE)), StratifiedKFold(2)
    search = GridSearchCV(model, grid, cv=cv, error_score="raise").fit(P.X_new, P.y_new)
    best = clone(model).set_params(**search.best_params_).fit(P.X_new, P.y_new)
    assert_array_equal(search.predict(X), best.predict(X))
