"""Unlabeled samples of unseen classes take the place of X_g in Algorithm 1."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused

from zonkey import Moments, ZeroShotClassifier
from zonkey.bpl.algorithm1 import Competition, learn
from zonkey.bpl.entropy import EntropyObjective, minimize_entropy
from zonkey.bpl.projection import NormalEquations, bidirectional_projection
from zonkey.bpl.synthesis import Synthesized
from zonkey.testing import linear_problem

# Noise makes classes compete; with 20 attributes the prototypes do not span their space.
PROBLEMS = {
    "5 attributes": linear_problem(noise=1.5),
    "20 attributes": linear_problem(noise=1.5, n_attributes=20),
}
P = PROBLEMS["5 attributes"]
# All off their defaults.
ODD = {"alpha": 0.3, "mu": 0.2, "beta": 0.7, "tie_tol": 0.05, "max_iter": 4, "tol": 1e-6}


def fitted(p=P, unlabeled=None, **parameters):
    unlabeled = p.X_new if unlabeled is None else unlabeled
    return p.make_clone(ZeroShotClassifier(), **parameters).fit_transductive(p.X, p.y, unlabeled)


def equations(p):
    return NormalEquations.from_moments(Moments.from_arrays(p.X, p.y, p.prototypes))


def unseen_rows(p):
    return np.stack([p.prototypes[label] for label in p.unseen])


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("competition", "rule"), [("second-best", "second-best"), (None, "best")])
def test_unlabeled_samples_compete_as_synthesized_ones_do(name, competition, rule):
    p = PROBLEMS[name]
    model = fitted(p, competition=competition, **ODD)
    W = bidirectional_projection(equations(p), ODD["beta"]).value
    no_target = np.full(len(p.X_new), -1)  # nobody knows, and nobody asks
    competing = Competition(
        equations(p),
        Synthesized(p.X_new, no_target, no_target),
        unseen_rows(p),
        rule=rule,
        beta=ODD["beta"],
        tie_tol=ODD["tie_tol"],
    )
    mu = ODD["mu"] if rule == "second-best" else 0.0
    path = learn(competing, W, alpha=ODD["alpha"], mu=mu, max_iter=4, tol=ODD["tol"])
    assert_allclose(model.projection_, path.W, rtol=1e-7, atol=1e-10)
    assert_allclose(model.objective_, path.objective, rtol=1e-9)
    assert (model.n_iter_, model.converged_) == (len(path.changes), path.converged)
    assert np.abs(model.projection_ - W).max() > 1e-3


def test_minimum_entropy_takes_them_too():
    model = fitted(competition="entropy", **ODD)
    W = bidirectional_projection(equations(P), ODD["beta"]).value
    Y_u = unseen_rows(P)
    weights = {"alpha": ODD["alpha"], "beta": ODD["beta"]}
    objective = EntropyObjective(equations(P), P.X_new, Y_u, **weights)
    path = minimize_entropy(objective, W, max_iter=4, tol=ODD["tol"])
    assert_allclose(model.projection_, path.W, rtol=1e-6, atol=1e-8)


# What has a say


def test_neither_the_order_nor_the_seed_has_a_say():
    unlabeled = P.X_new.copy()
    expected = fitted(unlabeled=unlabeled, **ODD).projection_
    assert_array_equal(unlabeled, P.X_new)  # which stay as they are
    assert np.abs(fitted(unlabeled=P.X_new[:1], **ODD).projection_ - expected).max() > 1e-4
    backwards = fitted(unlabeled=P.X_new[::-1], **ODD).projection_
    assert_allclose(backwards, expected, rtol=1e-8, atol=1e-11)
    assert_array_equal(fitted(random_state=5, **ODD).projection_, expected)
    idle = {"rho": 0.9, "n_neighbors": 1, "n_synthetic": 40, "scaling": None}
    assert_array_equal(fitted(**idle, **ODD).projection_, expected)


@pytest.mark.parametrize(
    "given",
    [P.X_new.tolist(), np.float32(P.X_new), pd.DataFrame(P.X_new), np.asfortranarray(P.X_new)],
    ids=["list", "float32", "DataFrame", "Fortran"],
)
def test_unlabeled_samples_in_any_container(given):
    expected = fitted(**ODD)
    model = fitted(unlabeled=given, **ODD)
    assert_allclose(model.projection_, expected.projection_, rtol=1e-9, atol=1e-12)
    assert model.projection_.dtype == np.float64


def test_the_model_says_that_it_is_transductive_until_fitted_anew():
    model = P.make_clone(ZeroShotClassifier())
    assert not model.fit(P.X, P.y).is_transductive_
    assert model.fit_transductive(P.X, P.y, P.X_new) is model
    assert model.is_transductive_
    assert model.with_candidates("all").is_transductive_
    assert model.with_classes({"class new": np.ones(5)}).is_transductive_
    assert not model.fit(P.X, P.y).is_transductive_
    assert_array_equal(model.projection_, P.fit_clone(ZeroShotClassifier()).projection_)
    model.fit_transductive(P.X, P.y, P.X_new)
    assert not model.fit_moments(model.gather(P.X, P.y)).is_transductive_


# What it is good for


def displaced(seed):
    """A problem whose unseen classes are all displaced by the same vector, as by another camera."""
    p = linear_problem(n_classes=30, n_features=20, n_attributes=20, noise=1.0, seed=seed)
    return replace(p, X_new=p.X_new + 1.0)


def test_a_displacement_of_the_unseen_classes_is_learned():
    accuracies = {"none": [], "synthesized": [], "unlabeled": []}
    for seed in range(4):
        p = displaced(seed)
        half = np.arange(len(p.y_new)) % 2 == 0  # other samples than those to be scored
        models = {
            "none": p.fit_clone(ZeroShotClassifier(), synthesis=None),
            "synthesized": p.fit_clone(ZeroShotClassifier()),
            "unlabeled": fitted(p, p.X_new[half], alpha=0.5, max_iter=20, competition=None),
        }
        for name, model in models.items():
            accuracies[name].append(model.score(p.X_new[~half], p.y_new[~half]))
    mean = {name: np.mean(values) for name, values in accuracies.items()}
    assert mean["unlabeled"] > max(mean["none"], mean["synthesized"]) + 0.05
    assert mean["unlabeled"] > 0.95


# What is refused


COMPETE = "Unlabeled samples compete for classes in place of synthesized ones"
NONE = "Unlabeled samples need unseen classes; there are none"
SEEN_ONLY = {label: P.prototypes[label] for label in P.seen}
REFUSED = [
    *[
        ({name: value}, (COMPETE, 'direction="both"', repr(value), "Use fit(X, y)"))
        for name, value in [
            ("synthesis", None),
            ("direction", "reverse"),
            ("direction", "forward"),
            ("competition", "assigned"),
        ]
    ],
    *[
        ({"prototypes": known, "candidates": "all"}, (NONE, "8 classes has samples", "use fit("))
        for known in (SEEN_ONLY, None)
    ],
    ({"unlabeled": np.ones((4, 9))}, ("X has 9 features", "expecting 10 features")),
    ({"unlabeled": np.full((4, 10), np.nan)}, ("Input X contains NaN",)),
    ({"unlabeled": np.full((4, 10), np.inf)}, ("Input X contains infinity",)),
    ({"unlabeled": np.empty((0, 10))}, ("minimum of 1 is required",)),
    ({"unlabeled": P.X_new[0]}, ("Expected 2D array",)),
    (
        {"seen_penalty": "auto"},
        ('seen_penalty="auto" is chosen for', "got one that learns", "Pass a number"),
    ),
    ({"alpha": 2}, ("`alpha` must be a number in [0, 1)", "got 2")),
]


@pytest.mark.parametrize(("parameters", "parts"), REFUSED)
def test_what_is_refused(parameters, parts):
    with refused(ValueError, *parts):
        fitted(**parameters)


def test_features_of_unlabeled_samples_have_the_names_of_the_others():
    names = [f"feature {i}" for i in range(10)]
    named = replace(P, X=pd.DataFrame(P.X, columns=names))
    model = fitted(named, pd.DataFrame(P.X_new, columns=names), **ODD)
    assert_allclose(model.projection_, fitted(**ODD).projection_, rtol=1e-9, atol=1e-12)
    with refused(ValueError, "feature names should match those that were passed during fit"):
        fitted(named, pd.DataFrame(P.X_new, columns=names[::-1]))
