"""Zero-shot classifiers among the tools of scikit-learn, pandas and polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from zonkey import AnyShotClassifier, Prototypes, ZeroShotClassifier
from zonkey.model_selection import ClassKFold
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import linear_problem

P = linear_problem(noise=0.8)
NAMES = [f"feature {i}" for i in range(P.X.shape[1])]


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


def test_grid_search_over_classes_and_steps():
    pipeline = make_pipeline(FeatureNormalizer(), prepared())
    grid = {
        "zeroshotclassifier__alpha": [0.0, 0.3],
        "zeroshotclassifier__synthesis": ["perturb", None],
        "featurenormalizer__norm": ["l2", None],
    }
    search = GridSearchCV(pipeline, grid, cv=ClassKFold(3), error_score="raise").fit(P.X, P.y)
    assert len(search.cv_results_["params"]) == 8
    best = clone(pipeline).set_params(**search.best_params_).fit(P.X, P.y)
    assert_array_equal(search.predict(P.X_new), best.predict(P.X_new))


def test_held_out_classes_are_candidates_of_a_fold():
    # All classes with no sample in the training part are unseen: those of the fold, and others.
    scores = cross_val_score(prepared(), P.X, P.y, cv=ClassKFold(4), error_score="raise")
    for score, (train, test) in zip(scores, ClassKFold(4).split(P.X, P.y), strict=True):
        model = prepared().fit(P.X[train], P.y[train])
        assert set(model.classes_) == set(P.unseen) | set(P.y[test])
        assert score == model.score(P.X[test], P.y[test])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("series", [pd.Series, pl.Series])
def test_frames_and_series_give_what_arrays_give(frame, series):
    expected = prepared().fit(P.X, P.y)
    model = prepared().fit(frame(dict(zip(NAMES, P.X.T, strict=True))), series(P.y.tolist()))
    new = frame(dict(zip(NAMES, P.X_new.T, strict=True)))
    assert_array_equal(model.feature_names_in_, NAMES)
    assert_array_equal(model.predict(new), expected.predict(P.X_new))
    assert_array_equal(model.predict_top(new, 2), expected.predict_top(P.X_new, 2))
    assert model.score(new, series(P.y_new.tolist())) == expected.score(P.X_new, P.y_new)


def test_names_of_features_must_agree():
    model = prepared().fit(pd.DataFrame(P.X, columns=NAMES), P.y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(P.X_new, columns=NAMES[::-1]))
    assert_array_equal(model.with_candidates("all").feature_names_in_, NAMES)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_normalizer_may_hand_over_frames(output):
    last = prepared()
    plain = make_pipeline(FeatureNormalizer(), last).fit(P.X, P.y)
    model = make_pipeline(FeatureNormalizer(), clone(last)).set_output(transform=output)
    model.fit(pd.DataFrame(P.X, columns=NAMES), P.y)
    assert_array_equal(model[-1].feature_names_in_, NAMES)
    assert_array_equal(model.predict(pd.DataFrame(P.X_new, columns=NAMES)), plain.predict(P.X_new))


def test_repr_is_short_however_many_prototypes():
    prototypes = Prototypes(range(1000), np.ones((1000, 50)))
    assert repr(ZeroShotClassifier(prototypes)) == (
        "ZeroShotClassifier(prototypes=Prototypes(1000 classes x 50))"
    )


# The recommended model, which chooses from all classes

NUMBERS = np.searchsorted(P.seen, P.y)
KNOWN = Prototypes.coerce(P.prototypes)
SEEN = KNOWN.subset(P.seen)
BY_NUMBER = Prototypes(range(len(SEEN)), SEEN.matrix)
FOLDS = StratifiedKFold(2)
# Choosing these takes most of the time, and the tools do not see it.
GIVEN = {"prototype_transformer": None, "kernel": "linear", "ridge": 0.1, "seen_penalty": 0.0}

each_kind = pytest.mark.parametrize(
    ("prototypes", "y"),
    [
        pytest.param(None, P.y, marks=pytest.mark.exhaustive),
        (None, NUMBERS),
        (SEEN, P.y),
        pytest.param(BY_NUMBER, NUMBERS, marks=pytest.mark.exhaustive),
    ],
    ids=["no prototypes", "no prototypes, numbers", "names", "numbers"],
)
numbered = pytest.mark.filterwarnings("ignore:Numbers in y were taken for the sorted names")


@each_kind
@numbered
def test_folds_of_samples(prototypes, y):
    model = AnyShotClassifier(prototypes, **GIVEN)
    found = cross_validate(
        model, P.X, y, cv=FOLDS, scoring=["accuracy", "neg_log_loss"], error_score="raise"
    )
    assert found["test_accuracy"].min() > 0.5
    assert_array_equal(found["test_neg_log_loss"] > -np.log(len(SEEN)), True)  # no mere guess
    probabilities = cross_val_predict(model, P.X, y, cv=FOLDS, method="predict_proba")
    train, test = next(FOLDS.split(P.X, y))
    expected = clone(model).fit(P.X[train], y[train])
    assert_array_equal(expected.classes_, np.unique(y))
    assert_allclose(probabilities[test], expected.predict_proba(P.X[test]), rtol=1e-9)


@each_kind
@numbered
def test_searches_calibration_and_ensembles(prototypes, y):
    model = AnyShotClassifier(prototypes, preprocessing=None, **GIVEN)
    grid = {"worth": [1.0, 20.0], "temperature": [0.5, 2.0]}
    found = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss", error_score="raise")
    assert found.fit(P.X, y).best_params_["temperature"] in (0.5, 2.0)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model.fit(P.X, y)), cv=2)
    given = clone(model).set_params(**found.best_params_)
    stacked = StackingClassifier([("a", given)], LogisticRegression(), cv=2)
    voting = VotingClassifier([("a", given), ("b", given)], voting="soft")
    for other in (calibrated, stacked, voting):
        assert other.fit(P.X, y).score(P.X, y) > 0.6
        assert_array_equal(other.classes_, np.unique(y))


def test_unseen_classes_need_other_candidates_for_calibration():
    model = AnyShotClassifier(KNOWN, **GIVEN).fit(P.X, P.y)
    assert_array_equal(model.classes_, KNOWN.labels)
    among_seen = model.with_candidates(model.seen_classes_)
    found = CalibratedClassifierCV(FrozenEstimator(among_seen)).fit(P.X, P.y)
    assert_array_equal(found.classes_, P.seen)


def test_numbers_are_those_of_sorted_names():
    with pytest.warns(UserWarning, match=r"0 is 'class 00' and 7 is 'class 11'.*another order"):
        model = AnyShotClassifier(SEEN, **GIVEN).fit(P.X, NUMBERS)
    expected = AnyShotClassifier(SEEN, **GIVEN).fit(P.X, P.y)
    assert_array_equal(model.classes_, np.arange(len(SEEN)))
    assert_array_equal(model.prototypes_.matrix, SEEN.matrix)
    assert_array_equal(model.predict_proba(P.X_new), expected.predict_proba(P.X_new))


@pytest.mark.parametrize("y", [NUMBERS, NUMBERS + 1], ids=["few", "shifted"])
def test_other_numbers_are_refused(y):
    known = KNOWN if y is NUMBERS else SEEN
    with refused(ValueError, "must be of one kind to be compared", "Convert them to one type"):
        AnyShotClassifier(known).fit(P.X, y)
