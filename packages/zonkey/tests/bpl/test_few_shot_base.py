"""FewShotClassifier: where base classes, prototypes and candidates come from."""

import numpy as np
import pandas as pd
import pytest
from few_shot_cases import BASE, NOVEL, SYNTHESES, P, X, Y, assert_same_model, fitted, prepared
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import Moments, Prototypes
from zonkey.bpl.frame import BaseClasses

X_ALL = np.concatenate([P.X_new, P.X])
OF_BASE = {label: P.prototypes[label] for label in P.seen}


# Base classes


@pytest.mark.parametrize("synthesis", SYNTHESES)
def test_one_base_serves_several_support_sets_in_any_order(synthesis):
    kept = BaseClasses(BASE)
    for part in (slice(0, 4), slice(3, 11), slice(0, 4)):
        data = P.X_new[part], P.y_new[part]
        model = prepared(base=kept, synthesis=synthesis).fit(*data)
        alone = prepared(synthesis=synthesis).fit(*data)
        assert_array_equal(model.projection_, alone.projection_)


def test_without_base_the_novel_classes_are_all_there_is():
    model = fitted(base=None, prototypes=NOVEL)
    assert model.seen_classes_.size == 0
    assert_array_equal(model.unseen_classes_, P.unseen)
    one_hot = fitted(base=None, prototypes=None)
    assert_array_equal(one_hot.prototypes_.matrix, np.eye(4))
    assert_array_equal(one_hot.classes_, P.unseen)
    assert one_hot.projection_.shape == (10, 4)


# Prototypes


def test_prototypes_of_the_moments_and_given_ones_complete_each_other():
    expected = fitted()
    some = {label: P.prototypes[label] for label in P.unseen[:2]}
    with_others = {label: P.prototypes[label] for label in [*P.seen, *P.unseen[2:]]}
    for parameters in (
        {"prototypes": None},
        {"prototypes": NOVEL},
        {"base": Moments.from_arrays(P.X, P.y, OF_BASE)},
        {"base": Moments.from_arrays(P.X, P.y, OF_BASE), "prototypes": NOVEL},
        {"base": Moments.from_arrays(P.X, P.y, with_others), "prototypes": some},
        {"prototypes": Prototypes.coerce(P.prototypes)},
        {"prototypes": pd.DataFrame(P.prototypes).T},
    ):
        assert_same_model(fitted(**parameters), expected)


def test_a_given_prototype_of_a_novel_class_counts_more_than_that_of_the_moments():
    moved = {label: vector + 1 for label, vector in NOVEL.items()}
    gathered_with_it = Moments.from_arrays(P.X, P.y, OF_BASE | moved)
    assert_same_model(fitted(prototypes=moved), fitted(prototypes=None, base=gathered_with_it))
    assert_array_equal(fitted(prototypes=moved).prototypes_[P.unseen[0]], moved[P.unseen[0]])


# Candidates


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ("novel", P.unseen),
        ("all", list(P.prototypes)),
        ([P.unseen[3], P.seen[0]], [P.seen[0], P.unseen[3]]),
        (np.array(P.seen), P.seen),
    ],
    ids=["novel", "all", "list", "array"],
)
def test_candidates(candidates, expected):
    model = fitted(candidates=candidates)
    assert_array_equal(model.classes_, expected)
    assert set(model.predict(X_ALL)) <= set(expected)
    assert_array_equal(model.projection_, fitted().projection_)
    chosen_later = fitted().with_candidates(candidates)
    assert_array_equal(chosen_later.classes_, expected)
    assert_array_equal(chosen_later.predict(X_ALL), model.predict(X_ALL))


def test_novel_candidates_are_those_of_the_support_set():
    two = np.isin(Y, P.unseen[:2])
    model = prepared().fit(X[two], Y[two])
    assert_array_equal(model.classes_, P.unseen[:2])
    assert_array_equal(model.novel_classes_, P.unseen[:2])
    assert_array_equal(model.seen_classes_, P.seen)
    assert_array_equal(model.unseen_classes_, P.unseen)
    wider = model.with_classes({"class new": np.ones(5)})
    assert_array_equal(wider.classes_, P.unseen[:2])
    assert "class new" in wider.with_candidates("all").classes_


def test_the_penalty_is_that_of_base_classes():
    plain, penalized = fitted(candidates="all"), fitted(candidates="all", seen_penalty=2.5)
    difference = plain.decision_function(X_ALL) - penalized.decision_function(X_ALL)
    expected = np.where(np.isin(plain.classes_, P.seen), 2.5, 0.0)
    assert_allclose(difference, np.broadcast_to(expected, difference.shape), atol=1e-10)
    strong = fitted(candidates="all", seen_penalty=1e6)
    assert_array_equal(strong.predict(X_ALL), fitted().predict(X_ALL))
    assert set(fitted(candidates="all", seen_penalty=-1e6).predict(X_ALL)) <= set(P.seen)
