"""The part of the kernel that knows the tree: siblings borrow strength from each other."""

import any_shot_cases as cases
import numpy as np
import pytest
from libraries import TORCH
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from tree_cases import PARENTS, naive_path, with_tree

import zonkey
from zonkey import AnyShotClassifier, Prototypes

KNOWN = {node: above for node, above in PARENTS.items() if node != "dog"}
KEPT = cases.Y != "dog"
ROWS, Y = cases.X[KEPT], cases.Y[KEPT]
GIVEN = with_tree(cases.PROTOTYPES, KNOWN)
NEW = 2 * np.random.default_rng(9).normal(size=(30, 6))
UNSEEN = ["bee", "elk", "hen"]


def naive_share(a, b):
    """Return the share of common nodes above two classes."""
    own, other = {*naive_path(a)[:-1]}, {*naive_path(b)[:-1]}
    return len(own & other) / np.sqrt(len(own) * len(other)) if own and other else 0.0


class NaiveTree(cases.NaiveModel):
    """The naive model with the part of the tree; `weight` is in units of the kernel."""

    def __init__(self, weight, *samples, **given):
        self.weight, self.unit = weight, 0.0
        vectors = [np.asarray(vector, float) for vector in cases.PROTOTYPES.values()]
        self.unit = np.mean([y @ y for y in vectors]) if given["kernel"] == "linear" else 1.0
        super().__init__(*samples, cases.PROTOTYPES, **given)

    def k(self, a, b):
        return super().k(a, b) + self.weight * self.unit * naive_share(a, b)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weight", [0.4, 2.0])
def test_priors_are_learned_from_siblings(kernel, weight):
    given = cases.GIVEN | {"kernel": kernel}
    model = cases.fitted(ROWS, Y, prototypes=GIVEN, kernel=kernel, tree_weight=weight)
    naive = NaiveTree(weight, ROWS, Y, **given)
    assert_allclose(model.centers_, [naive.center(label) for label in model.classes_], rtol=1e-8)
    assert model.best_params_["tree_weight"] == weight
    flat = cases.fitted(ROWS, Y, prototypes=GIVEN, kernel=kernel, tree_weight=0.0)
    assert np.abs(flat.centers_ - model.centers_).max() > 0.01
    plain = cases.fitted(ROWS, Y, prototypes=dict(cases.PROTOTYPES), kernel=kernel)
    assert_array_equal(flat.centers_, plain.centers_)
    assert "tree_weight" not in plain.best_params_


def test_devices_and_files(tmp_path):
    model = cases.fitted(ROWS, Y, prototypes=GIVEN, tree_weight=0.7)
    on_device = cases.fitted(TORCH(ROWS), Y, prototypes=GIVEN, tree_weight=0.7)
    assert_allclose(TORCH.numpy(on_device.centers_), model.centers_, rtol=1e-8)
    model.save(tmp_path / "m.zonkey")
    loaded = zonkey.load(tmp_path / "m.zonkey")
    assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    more = NEW[:3], ["bee", "elk", "hen"]
    found = loaded.partial_fit(*more).predict_proba(NEW)
    assert_array_equal(found, model.partial_fit(*more).predict_proba(NEW))


@pytest.mark.parametrize("n_components", [None, 3])
def test_weights_of_class_means_explain_the_prior(n_components):
    model = cases.fitted(ROWS, Y, prototypes=GIVEN, tree_weight=0.7, n_components=n_components)
    state = model.state_
    ridge, labels = state.regression.solve(state.evidence), np.array(UNSEEN)
    vectors = state.regression.prototypes.subset(labels).matrix
    weights = state.regression.weights(vectors, state.evidence, ridge, labels)
    priors = weights @ state.evidence.anchor_means()
    rows = np.searchsorted(model.classes_, labels)
    assert_allclose(priors, model.centers_[rows], rtol=1e-6, atol=1e-9)
    assert "fox" in model.explain(NEW[0], k=8).table()


def test_new_classes_borrow_too():
    model = cases.fitted(ROWS, Y, prototypes=GIVEN, tree_weight=2.0)
    vector = cases.PROTOTYPES["fox"]
    near, far = (
        model.with_classes(Prototypes(["new"], [vector + 3], parents={"new": parent}))
        for parent in ("mammal", None)
    )
    row = np.searchsorted(near.classes_, "new")
    fox = near.centers_[np.searchsorted(near.classes_, "fox")]
    gaps = [np.linalg.norm(one.centers_[row] - fox) for one in (near, far)]
    assert gaps[0] < gaps[1] - 0.1


def world(by_group, seed=0):
    """Return training and new samples whose groups look alike, or not, and their prototypes."""
    rng = np.random.default_rng(seed)
    labels = np.array([f"c{i:02d}" for i in range(40)])
    groups = np.arange(40) % 8
    known = rng.normal(size=(40, 6))
    looks = known @ rng.normal(size=(6, 16)) + 0.5 * rng.normal(size=(40, 16))
    if by_group:
        looks += 3 * rng.normal(size=(8, 16))[groups]
    parents = {label: f"g{group}" for label, group in zip(labels, groups, strict=True)}
    return labels, looks, Prototypes(labels, known, parents=parents), rng


@pytest.mark.parametrize("by_group", [True, False])
def test_the_weight_is_chosen_on_held_out_classes(by_group):
    labels, looks, given, rng = world(by_group)
    seen = np.repeat(np.arange(30), 12)
    rows = looks[seen] + rng.normal(size=(len(seen), 16))
    new = np.repeat(np.arange(30, 40), 20)
    X_new, y_new = looks[new] + rng.normal(size=(len(new), 16)), labels[new]
    tree, flat = (
        AnyShotClassifier(given, candidates="unseen", preprocessing=None, tree_weight=weight)
        .fit(rows, labels[seen])
        .score(X_new, y_new)
        for weight in ("auto", 0.0)
    )
    assert tree > flat + 0.1 if by_group else tree > flat - 0.05


def test_rare_classes_borrow_strength():
    gains = []
    for seed in range(2):
        labels, looks, given, rng = world(by_group=True, seed=seed)
        y, few = np.repeat(np.arange(30), 12), np.arange(30, 40)
        new = np.repeat(np.arange(30, 40), 30)
        rows, more, X_new = (
            looks[own] + 2.5 * rng.normal(size=(len(own), 16)) for own in (y, few, new)
        )
        tree, flat = (
            AnyShotClassifier(given, preprocessing=None, kernel="linear", tree_weight=weight)
            .fit(rows, labels[y])
            .partial_fit(more, labels[few])
            .score(X_new, labels[new])
            for weight in ("auto", 0.0)
        )
        gains.append(tree - flat)
    assert np.mean(gains) > 0.03


def test_faults_are_refused():
    for wrong in (-1.0, "all", None):
        with refused(ValueError, "`tree_weight`"):
            AnyShotClassifier(GIVEN, tree_weight=wrong).fit(ROWS, Y)
