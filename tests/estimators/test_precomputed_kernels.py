"""Kernels between classes that are computed elsewhere and come as prototypes."""

import numpy as np
import pytest
from kernel_cases import (
    DIRECTIONS,
    OF_SEEN,
    X_ALL,
    P,
    as_prototypes,
    assert_same_scores,
    each_kernel,
    fitted,
    kernel_of_all,
)
from refusals import refused

from zonkey import FewShotClassifier, Moments


@each_kernel
@pytest.mark.parametrize("parameters", [*DIRECTIONS, {}], ids=str)
def test_a_precomputed_kernel_is_that_kernel(kernel, parameters):
    K, _, _ = kernel_of_all(**kernel)
    rows = dict(reversed(as_prototypes(K).items()))  # whatever the order they come in
    model = fitted(prototypes=rows, kernel="precomputed", **parameters)
    assert_same_scores(model, fitted(**kernel, **parameters), rtol=1e-6)


def test_kernel_values_between_unseen_classes_are_not_needed():
    K, _, _ = kernel_of_all(kernel="rbf")
    K[np.ix_(~OF_SEEN, ~OF_SEEN)] = 7.0
    model = fitted(prototypes=as_prototypes(K), kernel="precomputed")
    assert_same_scores(model, fitted(kernel="rbf"), rtol=1e-6)


def few_shot(prototypes, **parameters):
    base = Moments.from_arrays(P.X, P.y, prototypes)
    defaults = {"random_state": 0, "n_episodes": 2, "candidates": "all"}
    model = FewShotClassifier(prototypes, base=base, **(defaults | parameters))
    return model.fit(P.X_new[:13], P.y_new[:13])


@pytest.mark.parametrize("synthesis", ["base", None])
def test_few_shots_know_the_same_kernels(synthesis):
    K, _, _ = kernel_of_all(kernel="rbf")
    computed = few_shot(P.prototypes, kernel="rbf", synthesis=synthesis)
    given = few_shot(as_prototypes(K), kernel="precomputed", synthesis=synthesis)
    assert_same_scores(given, computed, rtol=1e-6)
    plain = few_shot(P.prototypes, synthesis=synthesis)
    assert_same_scores(few_shot(P.prototypes, synthesis=synthesis, kernel="linear"), plain)
    assert np.abs(computed.decision_function(X_ALL) - plain.decision_function(X_ALL)).max() > 1


def test_a_precomputed_kernel_serves_some_of_the_novel_classes():
    K, _, _ = kernel_of_all(kernel="rbf")
    some = {"prototypes": P.prototypes, "kernel": "rbf", "synthesis": None}
    expected = few_shot(**some).zero_shot(P.unseen[:2])
    given = few_shot(**some | {"prototypes": as_prototypes(K), "kernel": "precomputed"})
    assert_same_scores(given.zero_shot(P.unseen[:2]), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(12, 5), (12, 11), (12, 13)])
def test_a_kernel_that_is_not_square_is_refused(shape):
    rows = as_prototypes(np.ones(shape))
    needs = 'kernel="precomputed" needs prototypes that are kernel values with all classes'
    with refused(ValueError, needs, "12 each", f"got {shape[1]}", "square kernel matrix"):
        fitted(prototypes=rows, kernel="precomputed")
    with refused(ValueError, needs, "12 each", f"got {shape[1]}", "square kernel matrix"):
        few_shot(rows, kernel="precomputed")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda K: K + np.triu(K), "must be symmetric"),
        (lambda K: -K, "must have no negative eigenvalue"),
    ],
)
def test_a_matrix_that_is_no_kernel_is_refused(change, said):
    K, _, _ = kernel_of_all(kernel="rbf")
    with refused(ValueError, "The kernel between seen classes", said):
        fitted(prototypes=as_prototypes(change(K)), kernel="precomputed")


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_classes_added_to_a_precomputed_kernel_bring_their_values_with_those_before(direction):
    K, _, _ = kernel_of_all(kernel="rbf")
    before = np.array([label not in P.unseen[:2] for label in P.prototypes])
    known = as_prototypes(K[np.ix_(before, before)], np.array(list(P.prototypes))[before])
    model = fitted(prototypes=known, kernel="precomputed", direction=direction)
    for new in P.unseen[:2]:  # a second one too refers to the classes of the fit
        row = K[list(P.prototypes).index(new), before]
        model = model.with_classes({new: row})
    expected = fitted(prototypes=as_prototypes(K), kernel="precomputed", direction=direction)
    assert_same_scores(model, expected)
    with refused(ValueError, "must have the 10 dimensions", "got 12"):
        model.with_classes({"class new": K[0]})
