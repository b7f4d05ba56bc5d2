"""Samples labeled at inner nodes of a tree count for the classes below, by their probabilities."""

import copy

import any_shot_cases as cases
import numpy as np
import pandas as pd
import pytest
from libraries import TORCH
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from tree_cases import PARENTS, TREE, naive_path, with_tree

from zonkey import AnyShotClassifier, Chunks, Prototypes

KNOWN = {node: above for node, above in PARENTS.items() if node != "dog"}
KEPT = cases.Y != "dog"
ROWS, Y = cases.X[KEPT], cases.Y[KEPT]
GIVEN = with_tree(cases.PROTOTYPES, KNOWN)
INNER_ROWS = 2 * np.random.default_rng(8).normal(size=(12, 6))
INNER = np.array(["mammal", "insect", "bird", "hoofed"] * 3)
NEW = 2 * np.random.default_rng(9).normal(size=(30, 6))


def leaves_below(node):
    return [leaf for leaf in sorted(GIVEN) if node in naive_path(leaf)]


def naive_fit(rows, labels, weights):
    """Fit on the samples of leaves, then share the others three times, as loops."""
    is_leaf = [label in cases.PROTOTYPES for label in labels]
    X = [x for x, leaf in zip(rows, is_leaf, strict=True) if leaf]
    y = [label for label, leaf in zip(labels, is_leaf, strict=True) if leaf]
    w = [weight for weight, leaf in zip(weights, is_leaf, strict=True) if leaf]
    start = cases.fitted(np.array(X), np.array(y), np.array(w), GIVEN, tree_weight=0.5)
    model = start
    for _ in range(3):
        shared = [], [], []
        for x, label, weight, leaf in zip(rows, labels, weights, is_leaf, strict=True):
            if leaf:
                continue
            below = leaves_below(label)
            p = model.with_candidates(below).predict_proba([x])[0]
            used = [i for i in range(len(below)) if p[i] >= 0.05 * max(p)]
            total = sum(p[i] for i in used)
            for i in used:
                shared[0].append(x)
                shared[1].append(below[i])
                shared[2].append(weight * p[i] / total)
        X_shared, y_shared, w_shared = map(np.array, shared)
        model = copy.deepcopy(start).partial_fit(X_shared, y_shared, sample_weight=w_shared)
    return model


def test_samples_are_shared_by_probabilities():
    rows, labels = np.concatenate([ROWS, INNER_ROWS]), np.concatenate([Y, INNER])
    weights = np.random.default_rng(1).uniform(0.5, 2, len(rows))
    expected = naive_fit(rows, labels, weights)
    fixed = cases.GIVEN | {"tree_weight": 0.5}
    model = AnyShotClassifier(GIVEN, **fixed).fit(rows, labels, weights)
    assert_allclose(model.centers_, expected.centers_, rtol=1e-8)
    assert_allclose(model.predict_proba(NEW), expected.predict_proba(NEW), rtol=1e-7)
    assert_array_equal(model.classes_, expected.classes_)
    one = AnyShotClassifier(GIVEN, **fixed).fit(ROWS, Y, weights[: len(Y)])
    later = one.partial_fit(INNER_ROWS, INNER, sample_weight=weights[len(Y) :])
    assert later is one
    assert_allclose(later.centers_, expected.centers_, rtol=1e-8)
    both = AnyShotClassifier(GIVEN, **fixed).fit(ROWS[:9], Y[:9], weights[:9])
    both.partial_fit(rows[9:], labels[9:], sample_weight=weights[9:])
    assert_allclose(both.centers_, expected.centers_, rtol=1e-8)


@pytest.mark.parametrize("kind", ["table", "list", "tensor"])
def test_any_kind_of_samples(kind):
    rows, labels = np.concatenate([ROWS, INNER_ROWS]), np.concatenate([Y, INNER])
    expected = cases.fitted(rows, labels, prototypes=GIVEN)
    if kind == "tensor":
        model = cases.fitted(TORCH(rows), labels, prototypes=GIVEN)
        assert_allclose(TORCH.numpy(model.centers_), expected.centers_, rtol=1e-6)
        return
    given = pd.DataFrame(rows).add_prefix("x") if kind == "table" else rows.tolist()
    model = cases.fitted(given, pd.Series(labels), prototypes=GIVEN)
    assert_allclose(model.centers_, expected.centers_, rtol=1e-12)
    assert hasattr(model, "feature_names_in_") == (kind == "table")


def test_classes_without_own_samples_move():
    seen = ~np.isin(Y, ["ant", "bee"])
    flat = cases.fitted(ROWS[seen], Y[seen], prototypes=GIVEN)
    model = cases.fitted(
        np.concatenate([ROWS[seen], INNER_ROWS]),
        np.concatenate([Y[seen], np.full(12, "insect")]),
        prototypes=GIVEN,
    )
    moved = model.centers_ - flat.centers_
    rows = np.searchsorted(flat.classes_, ["ant", "bee"])
    assert (np.abs(moved[rows]).max(axis=1) > 0.1).all()
    counts = model.state_.evidence.counts[np.isin(model.state_.evidence.labels, ["ant", "bee"])]
    assert_allclose(counts.sum(), 12)


def test_shares_are_equal_if_nothing_tells_the_classes_apart():
    given = Prototypes([f"c{i}" for i in range(6)], np.eye(6), parents={"c0": "a", "c1": "a"})
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "c2", "c3"], 4)
    rows = rng.normal(size=(12, 5)) + 3 * np.repeat(np.eye(3, 5), 4, axis=0)
    model = AnyShotClassifier(given, preprocessing=None).fit(rows, y)
    evidence = model.state_.evidence
    assert_allclose(evidence.counts, [2, 2, 4, 4, 0, 0], atol=1e-9)
    only = AnyShotClassifier(given, preprocessing=None).fit(rows[:4], y[:4])
    assert_allclose(only.state_.evidence.counts[:2], [2, 2])


def test_they_help():
    """Groups of many samples, of which one per class has its own label."""
    rng = np.random.default_rng(0)
    labels = np.array([f"c{i:02d}" for i in range(16)])
    groups = {label: f"g{i // 4}" for i, label in enumerate(labels)}
    known = rng.normal(size=(16, 6))
    centers = known @ rng.normal(size=(6, 20)) + rng.normal(size=(16, 20))
    draws = [
        (np.repeat(labels, n), np.repeat(centers, n, axis=0) + 3 * rng.normal(size=(16 * n, 20)))
        for n in (1, 15, 20)
    ]
    (y, rows), (y_inner, more), (y_new, new) = draws
    given = Prototypes(labels, known, parents=groups)
    few = AnyShotClassifier(given).fit(rows, y).score(new, y_new)
    coarse = np.array([groups[label] for label in y_inner])
    model = AnyShotClassifier(given).fit(np.concatenate([rows, more]), np.concatenate([y, coarse]))
    assert model.score(new, y_new) > few + 0.02
    assert set(model.classes_) == {*labels}


def test_names_alone_share_in_a_joint_space():
    names = np.eye(4)
    given = Prototypes(list("abcd"), names, parents={"a": "x", "b": "x", "c": "y", "d": "y"})
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(4), 10)
    rows = names[kinds] + 0.2 * rng.normal(size=(40, 4))
    coarse = np.array(["x", "x", "y", "y"])[kinds]
    model = AnyShotClassifier(given, space="joint").fit(rows, coarse)
    assert (model.predict(rows) == np.array(list("abcd"))[kinds]).mean() > 0.9
    assert_allclose(model.state_.evidence.counts.sum(), 40)


def test_faults_are_refused():
    with refused(ValueError, "inner node 'mammal' must be in memory", "got chunks"):
        cases.fitted(Chunks(ROWS, np.where(Y == "fox", "mammal", Y)), None, prototypes=GIVEN)
    model = cases.fitted(ROWS, Y, prototypes=GIVEN)
    with refused(ValueError, "inner node 'mammal' must be in memory"):
        model.partial_fit(Chunks(ROWS, np.full(len(Y), "mammal")))
    with refused(ValueError, "`sample_weight` must have one entry", "(2,)"):
        model.partial_fit(INNER_ROWS, INNER, sample_weight=[1, 2])
    with refused(ValueError, "With `transfer`", "'bird'"):
        AnyShotClassifier(GIVEN, transfer=True).fit(INNER_ROWS, INNER)
    assert model.tree_ == TREE.restrict(model.classes_)


def test_samples_of_weight_zero_do_not_count():
    rows, labels = np.concatenate([ROWS, INNER_ROWS]), np.concatenate([Y, INNER])
    is_inner = np.arange(len(rows)) >= len(ROWS)
    model = cases.fitted(ROWS, Y, prototypes=GIVEN)
    for used in (is_inner, ~is_inner, np.arange(len(rows)) % 2 == 0):
        pair = rows[used], labels[used]
        more = copy.deepcopy(model).partial_fit(rows, labels, sample_weight=used.astype(float))
        expected = copy.deepcopy(model).partial_fit(*pair)
        assert_array_equal(more.predict_proba(NEW), expected.predict_proba(NEW))
        if not used[0] and used[-1]:
            continue  # nothing tells the classes apart
        fitted = AnyShotClassifier(GIVEN, **cases.GIVEN).fit(rows, labels, used.astype(float))
        expected = AnyShotClassifier(GIVEN, **cases.GIVEN).fit(*pair)
        assert_array_equal(fitted.predict_proba(NEW), expected.predict_proba(NEW))
    with refused(ValueError, "not all zero"):
        AnyShotClassifier(GIVEN, **cases.GIVEN).fit(rows, labels, np.zeros(len(rows)))


def test_shots_of_an_inner_node_choose_among_the_classes_below():
    model = cases.fitted(ROWS, Y, prototypes=GIVEN).without_classes(["elk"])
    shots = np.concatenate([INNER_ROWS[[3, 7]], NEW[:1]]), ["hoofed", "hoofed", "bee"]
    expected = [leaf for leaf in leaves_below("hoofed") if leaf != "elk"]
    found = model.with_shots(*shots)
    assert found.classes_.tolist() == ["bee", *expected]
    alike = copy.deepcopy(model).partial_fit(*shots).with_candidates(["bee", *expected])
    assert_allclose(found.predict_proba(NEW), alike.predict_proba(NEW))


def test_shares_of_samples_to_classify_teach_nothing():
    rows, labels = np.concatenate([ROWS, INNER_ROWS]), np.concatenate([Y, INNER])
    priors = {"bee": 0.6, "elk": 0.2}
    later = AnyShotClassifier(GIVEN, **cases.GIVEN).fit(rows, labels).with_priors(priors)
    model = AnyShotClassifier(GIVEN, **cases.GIVEN, priors=priors).fit(rows, labels)
    assert_allclose(model.predict_proba(NEW), later.predict_proba(NEW), rtol=1e-12)
    assert model.priors == priors
    more = INNER_ROWS[::-1], INNER
    expected = later.with_priors(None).partial_fit(*more).with_priors(priors)
    assert_allclose(model.partial_fit(*more).predict_proba(NEW), expected.predict_proba(NEW))
