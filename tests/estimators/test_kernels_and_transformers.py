"""Prototypes seen through a kernel or a transformer, against regressions written out here."""

import pickle

import numpy as np
import pandas as pd
import pytest
from both_classifiers import both_classifiers, fit_on_a_small_problem
from kernel_cases import (
    DIRECTIONS,
    KERNELS,
    OF_SEEN,
    REFINED,
    UNEVEN,
    X_ALL,
    Y_ALL,
    P,
    as_prototypes,
    assert_same_scores,
    each_kernel,
    fitted,
    kernel_of_all,
    sums_and_counts,
)
from numpy.testing import assert_allclose, assert_array_equal
from refusals import NOT_NUMBERS, refused
from scipy.linalg import solve_sylvester
from sklearn.base import clone

from zonkey import Moments, Prototypes, ZeroShotClassifier
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import linear_problem

# More attributes than classes: unseen prototypes lie outside the span of seen ones.
WIDE = linear_problem(noise=1.0, n_attributes=20)
CENTERED = FeatureNormalizer(power=0.5, center=True)


# The dual problem, which knows no lift


@each_kernel
@pytest.mark.parametrize("weight_per", ["sample", "class"])
def test_reverse_is_kernel_ridge_regression_of_the_class_means(kernel, weight_per):
    sums, counts = sums_and_counts(UNEVEN)
    _, K_s, k = kernel_of_all(**kernel)
    weights = counts if weight_per == "sample" else np.ones(len(counts))
    exemplars = k @ np.linalg.solve(K_s + 0.3 * np.diag(1 / weights), sums / counts[:, None])
    parameters = {"direction": "reverse", "weight_per": weight_per, "beta": 0.3}
    model = fitted(UNEVEN, **parameters, **kernel)
    assert_allclose(model.project(P.prototypes), exemplars, rtol=1e-8, atol=1e-8)
    scores = np.sum(X_ALL**2, axis=1)[:, None] - np.array(
        [[np.sum((x - c) ** 2) for c in exemplars] for x in X_ALL]
    )
    assert_allclose(model.decision_function(X_ALL), scores, rtol=1e-8, atol=1e-7)


@each_kernel
@pytest.mark.parametrize("forward", [0.2, 0.5])
def test_both_directions_solve_the_dual_sylvester_equation(kernel, forward):
    # W = G Phi_s with a row of Phi_s for each seen class turns W (B0 + beta I) into
    # G (K_s N + beta I) Phi_s.
    sums, counts = sums_and_counts(UNEVEN)
    _, K_s, k = kernel_of_all(**kernel)
    A = UNEVEN.X.T @ UNEVEN.X + 0.3 * np.eye(10)
    B = K_s @ np.diag(counts) + 0.3 * np.eye(len(counts))
    G = solve_sylvester(forward * A, (1 - forward) * B, sums.T)
    model = fitted(UNEVEN, synthesis=None, forward_weight=forward, beta=0.3, **kernel)
    assert_allclose(model.project(P.prototypes), k @ G.T, rtol=1e-7, atol=1e-8)


@each_kernel
def test_forward_compares_in_the_span_of_the_seen_classes(kernel):
    _, K_s, k = kernel_of_all(**kernel)
    Z = np.linalg.solve(UNEVEN.X.T @ UNEVEN.X + 0.3 * np.eye(10), UNEVEN.X.T)
    rows = [P.seen.index(label) for label in UNEVEN.y]
    squared_lengths = np.sum(k * (k @ np.linalg.pinv(K_s, rcond=1e-10, hermitian=True)), axis=1)
    scores = 2 * (X_ALL @ Z) @ k[:, rows].T - squared_lengths
    model = fitted(UNEVEN, direction="forward", beta=0.3, **kernel)
    assert_allclose(model.decision_function(X_ALL), scores, rtol=1e-7, atol=1e-7)


# A linear kernel is none


@pytest.mark.parametrize("parameters", [*DIRECTIONS, *REFINED], ids=str)
def test_a_linear_kernel_changes_nothing(parameters):
    lifted, plain = fitted(kernel="linear", **parameters), fitted(**parameters)
    assert_same_scores(lifted, plain)
    assert_array_equal(lifted.predict(X_ALL), plain.predict(X_ALL))
    assert_allclose(lifted.project(P.prototypes), plain.project(P.prototypes), rtol=1e-6, atol=1e-8)
    gram = plain.embed(X_ALL) @ plain.embed(X_ALL).T  # coordinates are rotated, angles are not
    assert_allclose(lifted.embed(X_ALL) @ lifted.embed(X_ALL).T, gram, rtol=1e-6, atol=1e-7)
    assert_allclose(lifted.objective_, plain.objective_, rtol=1e-9)


@pytest.mark.parametrize("parameters", DIRECTIONS[1:], ids=str)
def test_a_linear_kernel_changes_nothing_outside_the_span_where_features_are_compared(parameters):
    X = np.concatenate([WIDE.X, WIDE.X_new])
    assert_same_scores(fitted(WIDE, kernel="linear", **parameters), fitted(WIDE, **parameters), X=X)


# Classes that become known later


@pytest.mark.parametrize("parameters", [{"direction": "forward"}, {"synthesis": None}], ids=str)
@pytest.mark.parametrize("transformer", [None, CENTERED], ids=str)
@each_kernel
def test_a_class_added_later_is_as_if_it_had_been_known(kernel, transformer, parameters):
    new = P.unseen[1]
    parameters = {"prototype_transformer": transformer, **kernel, **parameters}
    model = fitted(prototypes=P.without(new), **parameters)
    assert_same_scores(model.with_classes({new: P.prototypes[new]}), fitted(**parameters))


# Shapes


@pytest.mark.parametrize(
    ("parameters", "rank"),
    [
        ({"kernel": "linear"}, 5),
        ({"kernel": "rbf"}, 8),
        ({"kernel": "poly", "degree": 1}, 6),
        ({"prototype_transformer": CENTERED}, 5),
        ({"kernel": "linear", "prototype_transformer": FeatureNormalizer(norm=None)}, 5),
    ],
    ids=str,
)
def test_the_semantic_space_has_the_rank_of_the_kernel(parameters, rank):
    model = fitted(**parameters)
    assert model.projection_.shape == (10, rank)
    assert model.embed(P.X_new).shape == (len(P.X_new), rank)
    assert_allclose(model.embed(P.X_new), P.X_new @ model.projection_)
    assert model.prototypes_ == Prototypes.coerce(P.prototypes)


@pytest.mark.parametrize("parameters", [{"kernel": "rbf"}, {"prototype_transformer": CENTERED}])
def test_prototypes_are_projected_as_they_are_given(parameters):
    model = fitted(**parameters)
    centers = model.project(P.prototypes)
    assert centers.shape == (12, 10)
    for given in (Y_ALL, Y_ALL.tolist(), Prototypes.coerce(P.prototypes)):
        assert_array_equal(model.project(given), centers)
    assert_array_equal(model.project(pd.DataFrame(P.prototypes).T), centers)
    assert_allclose(model.project(Y_ALL[3]), centers[[3]], rtol=1e-12)
    scores = 2 * X_ALL @ centers.T - np.sum(centers**2, axis=1)
    assert_allclose(model.decision_function(X_ALL), scores, rtol=1e-9, atol=1e-9)
    with refused(ValueError, "must have the 5 dimensions", "got 4"):
        model.project(Y_ALL[:, 1:])


@pytest.mark.parametrize("kernel", [{"kernel": "arccos"}, {"kernel": "precomputed"}], ids=str)
def test_single_precision_stays_and_suffices(kernel):
    K, _, _ = kernel_of_all(kernel="rbf")
    prototypes = as_prototypes(K) if kernel["kernel"] == "precomputed" else P.prototypes
    narrow = {label: np.float32(vector) for label, vector in prototypes.items()}
    model = P.prepared(ZeroShotClassifier(), prototypes=narrow, candidates="all", **kernel)
    model.fit(np.float32(P.X), P.y)
    scores = model.decision_function(np.float32(X_ALL))
    expected = fitted(prototypes=prototypes, **kernel).decision_function(X_ALL)
    assert model.projection_.dtype == model.project(narrow).dtype == scores.dtype == np.float32
    assert model.embed(np.float32(X_ALL)).dtype == np.float32
    assert_allclose(scores, expected, atol=1e-4 * np.abs(expected).max())


# Transformers


@pytest.mark.parametrize("kernel", [{}, {"kernel": "rbf"}, {"kernel": "poly"}], ids=str)
@pytest.mark.parametrize("parameters", [*DIRECTIONS, *REFINED[:1]], ids=str)
def test_a_transformer_does_what_could_be_done_before(parameters, kernel):
    transformed = clone(CENTERED).fit(Y_ALL[OF_SEEN]).transform(Y_ALL)
    by_hand = fitted(prototypes=as_prototypes(transformed), **parameters, **kernel)
    model = fitted(prototype_transformer=CENTERED, **parameters, **kernel)
    assert_same_scores(model, by_hand)
    assert_array_equal(model.predict(X_ALL), by_hand.predict(X_ALL))


@pytest.mark.parametrize("transformer", [None, CENTERED], ids=str)
@pytest.mark.parametrize("kernel", [{}, *KERNELS], ids=str)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_an_unseen_prototype_has_a_say_about_its_own_class_only(direction, kernel, transformer):
    parameters = {"direction": direction, "prototype_transformer": transformer, **kernel}
    moved = P.prototypes | {P.unseen[2]: 5 * P.prototypes[P.unseen[2]] - 1}
    change = fitted(prototypes=moved, **parameters).decision_function(X_ALL)
    change -= fitted(**parameters).decision_function(X_ALL)
    own = np.array(list(P.prototypes)) == P.unseen[2]
    assert_allclose(change[:, ~own], 0, atol=1e-9)
    assert np.abs(change[:, own]).max() > 1e-3


def test_a_transformer_stays_unfitted_and_has_parameters():
    transformer = FeatureNormalizer(center=True)
    model = fitted(prototype_transformer=transformer, kernel="rbf")
    assert not hasattr(transformer, "mean_")
    copy = clone(model)
    assert copy.prototype_transformer is not transformer
    assert_same_scores(copy.fit(P.X, P.y), model)
    copy.set_params(prototype_transformer__power=0.5, prototype_transformer__norm=None)
    assert transformer.power is None
    other = FeatureNormalizer(power=0.5, center=True, norm=None)
    expected = fitted(prototype_transformer=other, kernel="rbf")
    assert_same_scores(copy.fit(P.X, P.y), expected)
    assert np.abs(expected.decision_function(X_ALL) - model.decision_function(X_ALL)).max() > 0.1


@pytest.mark.parametrize(
    "parameters", [*KERNELS, {"prototype_transformer": CENTERED, "kernel": "rbf"}], ids=str
)
def test_a_pickle_keeps_kernel_and_transformer(parameters):
    model = fitted(**parameters)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(X_ALL), model.decision_function(X_ALL))
    assert_array_equal(again.project(Y_ALL), model.project(Y_ALL))


def test_a_failed_fit_leaves_the_old_model_whole():
    model = fitted(kernel="rbf")
    expected = model.decision_function(X_ALL)
    bare = Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=0)
    with pytest.raises(ValueError, match="Synthesis needs a raw sample"):
        model.set_params(kernel="poly", seen_penalty=2.0).fit_moments(bare)
    assert_array_equal(model.decision_function(X_ALL), expected)


# What is refused


@both_classifiers
@pytest.mark.parametrize("name", ["gamma", "coef0"])
@pytest.mark.parametrize("value", [-0.1, *NOT_NUMBERS], ids=str)
def test_numbers_of_kernels_outside_their_range(classifier, name, value):
    with refused(ValueError, f"`{name}` must be a number in [0, inf)", f"got {value!r}", "Choose"):
        fit_on_a_small_problem(classifier, **{name: value})


@both_classifiers
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", None, True], ids=str)
def test_degrees_that_are_no_count(classifier, value):
    with refused(ValueError, "`degree` must be an integer of at least 1", f"got {value!r}"):
        fit_on_a_small_problem(classifier, degree=value)


@both_classifiers
@pytest.mark.parametrize("value", ["", "RBF", "cosine", 1, False, ["rbf"], np.dot], ids=str)
def test_unknown_kernels(classifier, value):
    listed = "`kernel` must be one of 'linear', 'rbf', 'poly', 'arccos', 'precomputed', None"
    with refused(ValueError, listed, f"got {value!r}", "Correct the spelling"):
        fit_on_a_small_problem(classifier, kernel=value)


@both_classifiers
@pytest.mark.parametrize("value", ["l2", 0.5, np.sqrt, P.prototypes], ids=type)
def test_transformers_that_are_none(classifier, value):
    expected = "`prototype_transformer` must be a scikit-learn transformer"
    with refused(TypeError, expected, f"got {type(value).__name__}", "FeatureNormalizer"):
        fit_on_a_small_problem(classifier, prototype_transformer=value)


@both_classifiers
def test_a_transformer_of_kernel_values(classifier):
    parameters = {"kernel": "precomputed", "prototype_transformer": CENTERED}
    expected = '`prototype_transformer` must be None with kernel="precomputed"'
    with refused(ValueError, expected, "got FeatureNormalizer", "Transform before the kernel"):
        fit_on_a_small_problem(classifier, **parameters)


def test_zero_is_a_width_and_a_constant():
    # Of rbf with gamma 0 nothing is left but a constant: all classes have the same center.
    model = fitted(kernel="rbf", gamma=0.0, direction="reverse")
    assert_allclose(model.project(P.prototypes), model.project(P.prototypes)[[0] * 12])
    parameters = {"degree": 2, "coef0": 0}
    centers = fitted(kernel="poly", **parameters, direction="reverse").project(P.prototypes)
    _, K_s, k = kernel_of_all(kernel="poly", **parameters)
    sums, counts = sums_and_counts(P)
    expected = k @ np.linalg.solve(np.diag(counts) @ K_s + 0.01 * np.eye(8), sums)
    assert_allclose(centers, expected, rtol=1e-6, atol=1e-7)
