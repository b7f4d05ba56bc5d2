"""Fits on moments, and on base classes that fits share: the same models, and little work."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from decompositions import watched_decompositions
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from zonkey import Moments, Prototypes, ZeroShotClassifier
from zonkey.bpl import zero_shot
from zonkey.bpl.frame import BaseClasses
from zonkey.testing import linear_problem

P = linear_problem(noise=1.5)
OTHER_SPACE = {
    label: np.concatenate([vector[::-1], vector[:2] ** 2]) for label, vector in P.prototypes.items()
}
WITH_ANOTHER_CLASS = {**P.prototypes, "class new": np.ones(5)}
A0 = P.X.T @ P.X

# Each parameter off its default, with what it takes to have an effect. So little weight that mu
# is never lowered, which would be a warning.
OFF_DEFAULT = {
    "prototypes": {"prototypes": OTHER_SPACE},
    "direction": {"direction": "forward"},
    "synthesis": {"synthesis": None},
    "competition": {"competition": "assigned"},
    "rho": {"rho": 0.9},
    "alpha": {"alpha": 0.03},
    "mu": {"mu": 0.0},
    "beta": {"beta": 3.0},
    "n_neighbors": {"n_neighbors": 2},
    "n_synthetic": {"n_synthetic": 4},
    "synthetic_per": {"synthetic_per": "neighbor"},
    "scaling": {"scaling": None},
    "guard": {"guard": False},
    "step_size": {"competition": "entropy", "step_size": 100.0, "max_iter": 5},
    "candidates": {"candidates": "all"},
    "seen_penalty": {"candidates": "all", "seen_penalty": 3.0},
    "tie_tol": {"tie_tol": 0.5},
    "max_iter": {"max_iter": 1},
    "tol": {"tol": 1.0},
    "random_state": {"random_state": 5},
    "verbose": {"verbose": 1},
}


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **({"alpha": 0.02, "mu": 0.05} | parameters))


def gathered(**parameters):
    return prepared(**parameters).gather(P.X, P.y)


def assert_same_model(model, expected):
    assert_allclose(model.projection_, expected.projection_, rtol=1e-8, atol=1e-11)
    for name in ("objective_", "mu_", "changes_"):
        assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-6, atol=1e-11)
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        assert_array_equal(getattr(model, name), getattr(expected, name))
    for name in ("n_iter_", "converged_", "n_features_in_", "seen_penalty_"):
        assert getattr(model, name) == getattr(expected, name)
    assert model.prototypes_ == expected.prototypes_
    scores = expected.decision_function(P.X_new)
    assert_allclose(model.decision_function(P.X_new), scores, rtol=1e-7, atol=1e-9)
    assert_array_equal(model.predict(P.X_new), expected.predict(P.X_new))


def test_every_parameter_is_among_them():
    assert sorted(OFF_DEFAULT) == sorted(ZeroShotClassifier().get_params())


def test_every_parameter_is_followed_whatever_the_base_was_used_for_before():
    base = BaseClasses(gathered())
    with watched_decompositions() as seen:
        models = [prepared(**own).fit_moments(base) for own in OFF_DEFAULT.values()]
    assert seen.times(A0) == 1
    for model, parameters in zip(models, OFF_DEFAULT.values(), strict=True):
        assert_same_model(model, prepared(**parameters).fit_moments(gathered()))


SHARED = [
    {},
    {"competition": None},
    {"competition": "entropy", "max_iter": 5},
    {"synthesis": None},
    {"direction": "forward"},
]


@pytest.mark.parametrize("parameters", SHARED, ids=str)
def test_one_decomposition_serves_many_fits_on_large_features(parameters):
    # So many features that each step is solved by iteration, never by another decomposition.
    p = linear_problem(n_features=150, noise=1.5)
    model = p.make_clone(ZeroShotClassifier(), n_synthetic=3, alpha=0.02)
    model.set_params(**parameters)
    base = BaseClasses(model.gather(p.X, p.y))
    with watched_decompositions() as seen:
        for beta, space in product((0.1, 0.5, 2.0), ({}, {"prototypes": OTHER_SPACE})):
            clone(model).set_params(beta=beta, **space).fit_moments(base)
    assert seen.of_size(150) == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"prototypes": {label: 2 * vector for label, vector in P.prototypes.items()}},
        {"prototypes": OTHER_SPACE},
        {"prototypes": WITH_ANOTHER_CLASS},
        {"prototypes": P.without(P.unseen[1])},
        {"prototypes": Prototypes.coerce(P.prototypes)},
        {"prototypes": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("synthesis", ["perturb", None])
def test_prototypes_of_the_estimator_take_the_place_of_those_of_the_base(parameters, synthesis):
    moments = gathered()
    base = BaseClasses(moments)
    before = prepared().fit_moments(base).projection_
    own = P.prototypes if parameters["prototypes"] is None else parameters["prototypes"]
    expected = prepared(synthesis=synthesis, **(parameters | {"prototypes": own}))
    expected.fit(P.X, P.y)
    for source in (base, moments):
        model = prepared(synthesis=synthesis, **parameters).fit_moments(source)
        assert_same_model(model, expected)
        assert_array_equal(prepared().fit_moments(source).projection_, before)


def test_raw_samples_are_drawn_once_for_all_weights(monkeypatch):
    drawn, original = [], zero_shot.raw_material
    monkeypatch.setattr(
        zero_shot, "raw_material", lambda *a, **o: drawn.append(o) or original(*a, **o)
    )
    base = BaseClasses(gathered())
    for rho, alpha, mu, beta in product((0.2, 0.9), (0.01, 0.03), (0.0, 0.05), (0.1, 3.0)):
        prepared(rho=rho, alpha=alpha, mu=mu, beta=beta).fit_moments(base)
    assert len(drawn) == 1
    others = [{"random_state": 1}, {"n_neighbors": 2}, {"n_synthetic": 4}]
    for n, parameters in enumerate(others, start=2):
        prepared(**parameters).fit_moments(base)
        assert len(drawn) == n


def test_where_the_scatter_has_no_weight_it_is_not_decomposed():
    base = BaseClasses(gathered())
    with watched_decompositions() as seen:
        model = prepared(direction="reverse").fit_moments(base)
    assert seen.of_size(10) == 0
    assert_same_model(model, prepared(direction="reverse").fit(P.X, P.y))


# Moments that are not shared


CONFIGURATIONS = [
    {},
    {"synthesis": None},
    {"direction": "forward"},
    {"direction": "reverse"},
    {"competition": None, "candidates": "all", "alpha": 0.4},
    {"competition": "assigned", "n_synthetic": 80},
    {"competition": "entropy", "max_iter": 5},
]


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
