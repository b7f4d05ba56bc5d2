"""How much the two errors weigh, and each class: both classifiers against formulas written out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from both_classifiers import both_classifiers, fit_on_a_small_problem
from decompositions import watched_decompositions
from numpy.testing import assert_allclose, assert_array_equal
from refusals import NOT_NUMBERS, refused
from scipy.linalg import solve_sylvester
from sklearn.base import clone

from zonkey import FewShotClassifier, Moments, ZeroShotClassifier
from zonkey.core.algorithm1 import Competition, learn
from zonkey.core.frame import BaseClasses
from zonkey.core.projection import NormalEquations
from zonkey.core.synthesis import synthesize
from zonkey.linalg import Factor
from zonkey.testing import linear_problem

P = linear_problem(noise=1.5)
# From 1 to 9 samples of a class.
KEPT = np.concatenate([np.flatnonzero(P.y == label)[: j + 2] for j, label in enumerate(P.seen)])[1:]
UNEVEN = replace(P, X=P.X[KEPT], y=P.y[KEPT])
X_S, Y_S = P.X_new[:13], P.y_new[:13]  # a support set
WEIGHTS = [0.0, 0.2, 0.5, 0.9, 1.0]
BETA = 0.7


def fitted(p=UNEVEN, **parameters):
    return p.fitted(ZeroShotClassifier(), **({"beta": BETA} | parameters))


def vectors(labels):
    return np.stack([P.prototypes[label] for label in labels])


def matrices(p=UNEVEN, per="sample"):
    """A0, B0 and C0 by loops; per class, all share the scatter around the class means."""
    of_class = [p.X[p.y == label] for label in p.seen]
    if per == "sample":
        Y = vectors(p.y)
        return p.X.T @ p.X, Y.T @ Y, p.X.T @ Y
    means = [X.mean(axis=0) for X in of_class]
    around = [x - m for X, m in zip(of_class, means, strict=True) for x in X]
    A0 = sum(np.outer(m, m) for m in means)
    A0 = A0 + len(means) / len(around) * sum(np.outer(d, d) for d in around)
    Y = vectors(p.seen)
    return A0, Y.T @ Y, np.stack(means).T @ Y


def closed_form(A0, B0, C0, forward):
    A, B = A0 + BETA * np.eye(len(A0)), B0 + BETA * np.eye(len(B0))
    return solve_sylvester(forward * A, (1 - forward) * B, C0)


each_weight = pytest.mark.parametrize("forward", WEIGHTS)
per_each = pytest.mark.parametrize("per", ["sample", "class"])


# Closed forms


@each_weight
@per_each
def test_one_equation_has_all_weights(forward, per):
    model = fitted(synthesis=None, forward_weight=forward, weight_per=per)
    expected = closed_form(*matrices(per=per), forward)
    assert_allclose(model.projection_, expected, rtol=1e-8, atol=1e-11)


@per_each
@pytest.mark.parametrize(("forward", "direction"), [(0.0, "reverse"), (1.0, "forward")])
def test_the_ends_are_the_two_directions(forward, direction, per):
    model = fitted(synthesis=None, forward_weight=forward, weight_per=per, candidates="all")
    one_way = fitted(direction=direction, weight_per=per, candidates="all")
    assert_allclose(model.projection_, one_way.projection_, rtol=1e-10, atol=1e-13)
    # Only `direction` says where samples are compared.
    scores = one_way.decision_function(P.X_new)
    same = np.allclose(model.decision_function(P.X_new), scores)
    assert same == (direction == "reverse")


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_single_direction_has_no_share(direction):
    expected = fitted(direction=direction).projection_
    assert_array_equal(fitted(direction=direction, forward_weight=0.9).projection_, expected)


@pytest.mark.parametrize(
    ("parameters", "needed"),
    [
        ({}, True),
        ({"forward_weight": 0.1}, True),
        ({"forward_weight": 0.0}, False),
        ({"direction": "forward", "forward_weight": 0.0}, True),
        ({"direction": "reverse"}, False),
    ],
    ids=str,
)
def test_the_scatter_is_decomposed_only_where_it_counts(monkeypatch, parameters, needed):
    sizes, original = [], Factor.of
    monkeypatch.setattr(Factor, "of", lambda M: sizes.append(len(M)) or original(M))
    model = fitted(**parameters)
    assert model.uses_scatter == needed
    assert (P.X.shape[1] in sizes) == needed


# Classes of different sizes


def repeated(p, label, times):
    rows = np.repeat(np.arange(len(p.y)), np.where(p.y == label, times, 1))
    return replace(p, X=p.X[rows], y=p.y[rows])


@pytest.mark.parametrize("parameters", [{"direction": "reverse"}, {"forward_weight": 0.0}], ids=str)
def test_a_class_repeated_weighs_as_one_class(parameters):
    often = repeated(UNEVEN, P.seen[3], 50)
    parameters = {"synthesis": None, **parameters}
    expected = fitted(**parameters, weight_per="class").projection_
    model = fitted(often, **parameters, weight_per="class")
    assert_allclose(model.projection_, expected, rtol=1e-10)
    by_sample = [fitted(p, **parameters).projection_ for p in (often, UNEVEN)]
    assert np.abs(by_sample[0] - by_sample[1]).max() > 0.1


@pytest.mark.parametrize("forward", [0.2, 1.0])
def test_where_samples_are_their_class_mean_repeating_changes_no_direction(forward):
    exact = linear_problem(noise=0.0)
    parameters = {"synthesis": None, "weight_per": "class", "forward_weight": forward}
    expected = fitted(exact, **parameters).projection_
    model = fitted(repeated(exact, P.seen[3], 50), **parameters)
    assert_allclose(model.projection_, expected, rtol=1e-8, atol=1e-10)


@each_weight
def test_classes_of_one_size_weigh_alike_either_way(forward):
    # Nine samples a class make everything, the penalty apart, nine times as large.
    model = fitted(P, synthesis=None, forward_weight=forward, weight_per="class", beta=0.1)
    other = fitted(P, synthesis=None, forward_weight=forward, weight_per="sample", beta=0.9)
    assert_allclose(model.projection_, other.projection_, rtol=1e-8, atol=1e-11)


# Competition


def synthesized(model, W):
    """Return what the model synthesizes with W, in the original coordinates."""
    moments = model.gather(UNEVEN.X, UNEVEN.y)
    return synthesize(
        W,
        vectors(P.unseen),
        vectors(P.seen),
        [moments.samples_of(label) for label in P.seen],
        rho=model.rho,
        n_neighbors=model.n_neighbors,
        n_synthetic=model.n_synthetic,
        rng=np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1)),
    )


@per_each
@each_weight
@pytest.mark.parametrize(
    ("competition", "rule"),
    [("second-best", "second-best"), (None, "best"), ("assigned", "assigned")],
    ids=["second-best", "best", "assigned"],
)
def test_the_weights_reach_the_competition(competition, rule, forward, per):
    weights = {"alpha": 0.02, "mu": 0.05}  # so little that no class loses its curvature
    parameters = {"competition": competition, "forward_weight": forward, "weight_per": per}
    model = fitted(**parameters, **weights)
    W = closed_form(*matrices(per=per), forward)
    competing = Competition(
        NormalEquations(*matrices(per=per)),
        synthesized(model, W),
        vectors(P.unseen),
        beta=BETA,
        rule=rule,
        forward=forward,
    )
    weights["mu"] *= rule == "second-best"
    path = learn(competing, W, **weights)
    assert_allclose(model.projection_, path.W, rtol=1e-7, atol=1e-10)
    assert_allclose(model.objective_, path.objective, rtol=1e-8)
    assert np.abs(model.projection_ - W).max() > 1e-4


@per_each
@each_weight
def test_few_shots_know_the_same_weights(forward, per):
    # Without synthesis the first step of Algorithm 1 is one linear equation.
    alpha = 0.3
    model = FewShotClassifier(
        P.prototypes,
        base=Moments.from_arrays(UNEVEN.X, UNEVEN.y, P.prototypes),
        synthesis=None,
        max_iter=1,
        alpha=alpha,
        beta=BETA,
        forward_weight=forward,
        weight_per=per,
    ).fit(X_S, Y_S)
    both = zip(matrices(per=per), matrices(replace(P, X=X_S, y=Y_S)), strict=True)
    joined = [(1 - alpha) * base + alpha * novel for base, novel in both]
    expected = closed_form(*joined, forward)
    assert_allclose(model.projection_, expected, rtol=1e-6, atol=1e-8)


# Moments


@each_weight
@per_each
@pytest.mark.parametrize("synthesis", ["perturb", None])
def test_moments_give_what_samples_give(forward, per, synthesis):
    parameters = {"forward_weight": forward, "weight_per": per, "synthesis": synthesis}
    parameters |= {"alpha": 0.02, "mu": 0.05, "beta": BETA}
    model = UNEVEN.prepared(ZeroShotClassifier(), **parameters)
    moments = model.gather(UNEVEN.X, UNEVEN.y)
    expected = fitted(**parameters).projection_
    for source in (moments, BaseClasses(moments, per)):
        model.fit_moments(source)
        assert_allclose(model.projection_, expected, rtol=1e-8, atol=1e-11)


def test_one_decomposition_serves_all_weights_and_kernels():
    model = UNEVEN.prepared(ZeroShotClassifier(), synthesis=None, weight_per="class")
    base = BaseClasses(model.gather(UNEVEN.X, UNEVEN.y), "class")
    models = []
    with watched_decompositions() as seen:
        for forward, kernel in product(WEIGHTS, (None, "rbf")):
            models.append(clone(model).set_params(forward_weight=forward, kernel=kernel))
            models[-1].fit_moments(base)
    assert seen.of_size(10) == seen.times(matrices(per="class")[0]) == 1
    for model in models:
        alone = fitted(**model.get_params()).projection_
        assert_allclose(model.projection_, alone, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("per", "other"), [("sample", "class"), ("class", "sample")])
@pytest.mark.parametrize("synthesis", ["perturb", None])
def test_base_classes_that_weigh_in_another_way_serve_too(per, other, synthesis):
    parameters = {"weight_per": per, "synthesis": synthesis, "alpha": 0.02, "mu": 0.05}
    model = UNEVEN.prepared(ZeroShotClassifier(), **parameters)
    base = BaseClasses(model.gather(UNEVEN.X, UNEVEN.y), other)
    expected = UNEVEN.fitted(ZeroShotClassifier(), **parameters).projection_
    with watched_decompositions() as seen:
        for _ in range(3):
            model.fit_moments(base)
    assert_allclose(model.projection_, expected, rtol=1e-8, atol=1e-11)
    # What one fit decomposes serves the next, and that of the other weights is not touched.
    assert [seen.times(matrices(per=way)[0]) for way in (per, other)] == [1, 0]
    assert base.per == other


@per_each
def test_base_classes_do_not_grow_with_the_moments_they_were_made_of(per):
    half = len(P.y) // 2
    moments = Moments.from_arrays(P.X[:half], P.y[:half], P.prototypes)
    before = BaseClasses(moments, per)
    moments.update(P.X[half:], P.y[half:])
    model = P.prepared(ZeroShotClassifier(), weight_per=per, synthesis=None)
    early = clone(model).fit(P.X[:half], P.y[:half]).projection_
    assert_allclose(model.fit_moments(before).projection_, early, rtol=1e-8, atol=1e-11)
    late = clone(model).fit(P.X, P.y).projection_
    assert_allclose(model.fit_moments(moments).projection_, late, rtol=1e-8, atol=1e-11)
    assert np.abs(early - late).max() > 1e-3


# What is refused


@both_classifiers
@pytest.mark.parametrize("value", [-0.01, 1.01, *NOT_NUMBERS], ids=str)
def test_shares_outside_their_range(classifier, value):
    expected = "`forward_weight` must be a number in [0, 1]"
    with refused(ValueError, expected, f"got {value!r}", "Choose it inside"):
        fit_on_a_small_problem(classifier, forward_weight=value)


@both_classifiers
@pytest.mark.parametrize("value", ["", "Class", "classes", None, 1, True, ["class"]], ids=str)
def test_unknown_weights(classifier, value):
    expected = "`weight_per` must be one of 'sample', 'class'"
    with refused(ValueError, expected, f"got {value!r}", "Correct the spelling"):
        fit_on_a_small_problem(classifier, weight_per=value)


@pytest.mark.parametrize("forward", [0.0, 0.3, 1.0])
def test_minimum_entropy_weighs_both_errors_equally(forward):
    said = 'competition="entropy" weighs both errors equally'
    with refused(ValueError, said, f"got forward_weight={forward}", "Use 0.5"):
        fitted(competition="entropy", forward_weight=forward)
    # Where nothing competes nothing is at odds.
    for parameters in ({"synthesis": None}, {"direction": "reverse"}):
        model = fitted(competition="entropy", forward_weight=forward, **parameters)
        expected = fitted(forward_weight=forward, **parameters)
        assert_array_equal(model.projection_, expected.projection_)
