"""Learning from moments instead of samples: the same model, whatever way they came."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import Moments, ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem(noise=1.5)
OTHER_SPACE = {
    label: np.concatenate([vector[::-1], vector[:2] ** 2]) for label, vector in P.prototypes.items()
}
CONFIGURATIONS = [
    {},
    {"synthesis": None},
    {"direction": "forward"},
    {"direction": "reverse"},
    {"competition": None, "candidates": "all", "alpha": 0.4},
    {"competition": "assigned", "n_synthetic": 80},
    {"competition": "entropy", "max_iter": 5},
]


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


def assert_same_model(model, expected):
    assert_allclose(model.projection_, expected.projection_, rtol=1e-8, atol=1e-11)
    assert_allclose(model.objective_, expected.objective_)
    assert_array_equal(model.classes_, expected.classes_)
    assert_array_equal(model.predict(P.X_new), expected.predict(P.X_new))
    assert model.n_features_in_ == expected.n_features_in_


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_from_gathered_moments(parameters):
    model = prepared(**parameters)
    expected = prepared(**parameters).fit(P.X, P.y)
    assert_same_model(model.fit_moments(model.gather(P.X, P.y)), expected)
    model.fit_moments(model.gather(P.X.astype(np.float32), P.y))
    assert model.projection_.dtype == np.float64
    assert_allclose(model.projection_, expected.projection_, rtol=1e-3, atol=1e-4)


def test_raw_samples_are_kept_only_where_they_will_be_perturbed():
    assert prepared().gather(P.X, P.y).n_reserve == 64
    assert prepared(n_synthetic=100).gather(P.X, P.y).n_reserve == 100
    for parameters in ({"synthesis": None}, {"direction": "forward"}):
        assert prepared(**parameters).gather(P.X, P.y).n_reserve == 0


def test_moments_without_samples_to_perturb_are_refused():
    moments = prepared(synthesis=None).gather(P.X, P.y)
    with pytest.raises(ValueError, match=r"keep none of 'class 00'.*\(n_reserve=0\).*Gather"):
        prepared().fit_moments(moments)
    with pytest.raises(ValueError, match="have no samples yet"):
        prepared().fit_moments(Moments(P.prototypes))
    with pytest.raises(TypeError, match=r"takes Moments; got ndarray.*fit\(X, y\)"):
        prepared().fit_moments(P.X)


def test_names_of_features_of_an_earlier_fit_are_forgotten():
    frame = pd.DataFrame(P.X, columns=[f"feature {i}" for i in range(P.X.shape[1])])
    model = prepared().fit(frame, P.y)
    assert hasattr(model, "feature_names_in_")
    model.fit_moments(model.gather(P.X, P.y))
    assert not hasattr(model, "feature_names_in_")
    model.predict(P.X_new)  # no warning of missing names
