"""Presets: what they are made of, and what they leave as it was given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import AnyShotClassifier, Prototypes, ZeroShotClassifier, presets
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0, n_classes=18)  # 12 seen, 6 unseen


def unit_rows(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def changed_parameters(model):
    defaults, given = type(model)().get_params(deep=False), model.get_params(deep=False)
    return {name: given[name] for name in defaults if given[name] is not defaults[name]}


# The paper


def test_the_paper_normalizes_samples_and_prototypes():
    model = presets.paper(P.prototypes, synthesis=None, beta=0.3).fit(P.X, P.y)
    unit = {label: vector / np.linalg.norm(vector) for label, vector in P.prototypes.items()}
    expected = ZeroShotClassifier(unit, synthesis=None, beta=0.3).fit(unit_rows(P.X), P.y)
    assert_allclose(model[-1].projection_, expected.projection_, rtol=1e-8, atol=1e-11)
    assert_array_equal(model.predict(P.X_new), expected.predict(unit_rows(P.X_new)))


def test_the_paper_has_the_defaults_of_the_paper():
    model = presets.paper(P.prototypes, alpha=0.3, random_state=0).fit(P.X, P.y)
    assert set(changed_parameters(model[-1])) == {"prototypes", "alpha", "random_state"}
    assert model[-1].n_iter_ > 0


# Ridge regression


def test_rpl_is_ridge_regression_from_prototypes_to_samples():
    model = presets.rpl(P.prototypes, beta=0.3).fit(P.X, P.y)
    Y = np.array([P.prototypes[label] for label in P.y])
    expected = np.linalg.solve(Y.T @ Y + 0.3 * np.eye(Y.shape[1]), Y.T @ P.X)
    assert_allclose(model.project(P.prototypes), list(P.prototypes.values()) @ expected, rtol=1e-8)
    model = presets.rpl(P.prototypes, candidates="all", seen_penalty=0.2)
    assert (model.direction, model.candidates, model.seen_penalty) == ("reverse", "all", 0.2)


# What we recommend


@pytest.mark.parametrize(
    "given", [{}, {"candidates": P.unseen[:3], "kernel": "poly", "worth": 3.0}]
)
def test_the_recommended_model_chooses_everything_but_what_is_given(given):
    model = presets.recommended(P.prototypes, **given)
    assert type(model) is AnyShotClassifier
    assert changed_parameters(model) == {"prototypes": Prototypes.coerce(P.prototypes), **given}
    assert model.candidates == given.get("candidates", "all")
