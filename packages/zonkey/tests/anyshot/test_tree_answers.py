"""Answers in a tree of classes: at a level, as paths, and as deep as the model is sure."""

import any_shot_cases as cases
import numpy as np
import pytest
from libraries import TORCH, in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone
from tree_cases import PARENTS, TREE, naive_answer, naive_path, naive_sums, with_tree

import zonkey
from zonkey import AnyShotClassifier, Chunks, Prototypes, to_onnx

# "dog" has samples and no prototype: the tree is told afterwards, and has "dog" too.
FLAT = cases.fitted()
MODEL = FLAT.with_tree(PARENTS)
MANY = 2 * np.random.default_rng(3).normal(size=(200, 6))
P = [dict(zip(FLAT.classes_, row, strict=True)) for row in FLAT.predict_proba(MANY)]
BELOW = [0.0, 0.2, 0.5, 0.7, 0.95, 1.0]


def test_leaves_are_predicted_as_without_a_tree():
    assert_array_equal(MODEL.predict(MANY), FLAT.predict(MANY))
    assert_array_equal(MODEL.predict_proba(MANY), FLAT.predict_proba(MANY))
    assert_array_equal(MODEL.predict_top(MANY), FLAT.predict_top(MANY))
    assert FLAT.tree_ is None
    assert MODEL.tree_ == TREE
    assert MODEL.with_tree(None).tree_ is None


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5, 9])
def test_nodes_at_a_level(level):
    names = MODEL.tree_.at_level(level)
    expected = [[naive_sums(row)[name] for name in names] for row in P]
    assert_allclose(MODEL.predict_proba(MANY, level=level), expected, rtol=1e-12)
    assert MODEL.predict(MANY, level=level).tolist() == [naive_answer(row, level) for row in P]


@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("level", [None, 1, 3])
def test_answers_are_as_deep_as_the_model_is_sure(below, level):
    found = [naive_answer(row, level, below) for row in P]
    model = MODEL.with_rejection(below, "none")
    expected = ["none" if answer is None else answer for answer in found]
    assert model.predict(MANY, level=level).tolist() == expected
    if level is None:
        paths = [() if answer is None else naive_path(answer) for answer in found]
        assert model.predict_path(MANY).tolist() == paths
        answered = [answer in row for answer, row in zip(found, P, strict=True)]
        flat = FLAT.with_rejection(below, "none").predict(MANY)
        assert_array_equal(answered, flat != "none")  # leaves are answered as before
        if below in (0.7, 0.95):
            assert any(a is not None and a not in row for a, row in zip(found, P, strict=True))


def test_paths_without_rejection():
    assert MODEL.predict_path(MANY).tolist() == [naive_path(a) for a in MODEL.predict(MANY)]


def test_paths_of_one_length():
    parents = {label: "low" if label < "f" else "high" for label in FLAT.classes_.tolist()}
    paths = FLAT.with_tree(parents).predict_path(MANY)
    assert paths.shape == (200,)
    assert paths.tolist() == [(parents[label], label) for label in FLAT.predict(MANY)]


def test_fewer_candidates_prune_the_tree():
    model = MODEL.with_candidates(["gnu", "hen", "jay"])
    assert model.tree_ == TREE.restrict(["gnu", "hen", "jay"])
    assert model.predict_proba(MANY, level=1).shape == (200, 2)
    assert_allclose(model.predict_proba(MANY, level=1)[:, 0], model.predict_proba(MANY)[:, 0])


def test_chunks_and_files(tmp_path):
    model = MODEL.with_rejection(0.7)
    path = tmp_path / "rows.npy"
    np.save(path, MANY)
    for X in (Chunks(MANY, rows=33), np.load(path, mmap_mode="r")):
        assert_array_equal(model.predict(X), model.predict(MANY))
        assert_array_equal(model.predict(X, level=2), model.predict(MANY, level=2))
        assert_array_equal(model.predict_proba(X, level=2), model.predict_proba(MANY, level=2))
        assert_array_equal(model.predict_path(X), model.predict_path(MANY))
    model.save(tmp_path / "a.zonkey")
    loaded = zonkey.load(tmp_path / "a.zonkey")
    assert loaded.tree_ == TREE
    assert_array_equal(loaded.predict_path(MANY), model.predict_path(MANY))


@in_every_library
def test_arrays_on_devices(library):
    model = MODEL.with_rejection(0.7)
    X = library(MANY)
    for level in (None, 2):
        assert_array_equal(model.predict(X, level=level), model.predict(MANY, level=level))
    found = library.numpy(model.predict_proba(X, level=2))
    assert_allclose(found, model.predict_proba(MANY, level=2), rtol=1e-7, atol=1e-12)
    assert_array_equal(model.predict_path(X), model.predict_path(MANY))


def test_numbers_on_a_device_stay_there():
    numbers = {label: i for i, label in enumerate(TREE.nodes)}
    y = np.array([numbers[label] for label in cases.Y if label != "dog"])
    rows = cases.X[cases.Y != "dog"]
    known = {numbers[label]: vector for label, vector in cases.PROTOTYPES.items()}
    parents = {numbers[n]: numbers.get(p) for n, p in PARENTS.items() if n != "dog"}
    given = Prototypes([*known], [*known.values()], parents=parents)
    model = AnyShotClassifier(given, reject_below=0.7, **cases.GIVEN).fit(rows, y)
    on_device = AnyShotClassifier(given, reject_below=0.7, **cases.GIVEN).fit(TORCH(rows), TORCH(y))
    for level in (None, 2):
        found = TORCH.numpy(on_device.predict(TORCH(MANY), level=level))
        assert_array_equal(found, model.predict(MANY, level=level))
    assert (model.predict(MANY) == -1).any()
    assert_array_equal(on_device.predict_path(TORCH(MANY)), model.predict_path(MANY))


# Fits


def without_dogs():
    kept = cases.Y != "dog"
    return cases.X[kept], cases.Y[kept]


def test_a_tree_changes_no_bit_of_the_leaves():
    rows, y = without_dogs()
    flat = cases.fitted(rows, y)
    parents = {node: above for node, above in PARENTS.items() if node != "dog"}
    given = with_tree(cases.PROTOTYPES, parents)
    deep = cases.fitted(rows, y, prototypes=given, tree_weight=0.0)
    assert_array_equal(deep.predict_proba(MANY), flat.predict_proba(MANY))
    assert deep.tree_ == TREE.restrict(flat.classes_)
    assert deep.prototypes_.tree == deep.tree_
    # Inner nodes with a vector are no candidates.
    more = Prototypes(
        [*cases.PROTOTYPES, "mammal"],
        [*cases.PROTOTYPES.values(), np.ones(4)],
        parents=parents,
    )
    inner = cases.fitted(rows, y, prototypes=more, tree_weight=0.0)
    assert_array_equal(inner.predict_proba(MANY), flat.predict_proba(MANY))


def test_new_classes_join_the_tree():
    rows, y = without_dogs()
    parents = {node: above for node, above in PARENTS.items() if node != "dog"}
    given = with_tree(cases.PROTOTYPES, parents)
    model = cases.fitted(rows, y, prototypes=given, tree_weight=0.0)
    new = Prototypes(["eel", "fish"], 2 * np.eye(4)[:2], parents={"eel": "fish", "fish": "animal"})
    wider = model.with_classes(new)
    assert wider.tree_.path("eel") == ("animal", "fish", "eel")
    assert "fish" not in wider.classes_
    assert wider.prototypes.tree == wider.tree_
    plain = model.with_classes({"newt": np.ones(4)})
    assert plain.tree_.path("newt") == ("newt",)
    flat = cases.fitted(rows, y).with_classes({"newt": np.ones(4)})
    assert_array_equal(plain.predict_proba(MANY), flat.predict_proba(MANY))
    late = cases.fitted(rows, y).with_classes(
        Prototypes(["eel"], [np.ones(4)], parents={"eel": "fish"})
    )
    assert late.tree_.path("eel") == ("fish", "eel")
    assert model.without_classes(["gnu"]).tree_ == model.tree_.restrict(
        np.setdiff1d(model.classes_, ["gnu"])
    )


def test_samples_of_new_classes_are_at_the_top():
    model = cases.fitted().with_tree(PARENTS).partial_fit(MANY[:2], ["newt", "newt"])
    assert model.tree_.path("newt") == ("newt",)


def test_names_alone_have_a_tree():
    given = Prototypes(["ant", "bee", "gnu"], np.eye(3), parents={"ant": "insect", "bee": "insect"})
    model = AnyShotClassifier(given, space="joint").fit()
    assert model.predict([[0.9, 0.6, 0.0]], level=1).tolist() == ["insect"]
    assert model.predict_path([[0.0, 0.0, 1.0]]).tolist() == [("gnu",)]


def test_a_tree_stays_where_a_model_is_fitted_again():
    given = dict(zip(["ant", "bee", "gnu"], np.eye(3), strict=True))
    names = AnyShotClassifier(given, space="joint").fit()
    model = names.with_tree({"ant": "insect", "bee": "insect"})
    assert names.prototypes is given
    rows, y = np.eye(3).repeat(4, axis=0), np.repeat(names.classes_, 4)
    rows = rows + 0.1 * np.random.default_rng(0).normal(size=rows.shape)
    assert model.adapt(rows).tree_ == model.tree_
    assert clone(model).fit(rows, y).tree_ == model.tree_
    assert model.with_tree(None).adapt(rows).tree_ is None
    assert model.partial_fit(rows, y).tree_.path("ant") == ("insect", "ant")


# Graphs


@pytest.mark.parametrize("below", [None, 0.5, 0.8])
def test_a_graph_has_the_nodes(below):
    runtime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    model = MODEL if below is None else MODEL.with_rejection(below)
    rows = MANY.astype(np.float32)
    session = runtime.InferenceSession(to_onnx(model, k=3).SerializeToString())
    outputs = dict(
        zip(
            [o.name for o in session.get_outputs()],
            session.run(None, {"features": rows}),
            strict=True,
        )
    )
    assert_array_equal(outputs["label"], model.predict(rows))
    assert_array_equal(outputs["top_labels"], model.predict_top(rows, 3))
    expected = TREE.sum_leaves(model.predict_proba(rows))
    assert_allclose(outputs["node_probabilities"], expected, atol=1e-5)


# Refusals


def test_faults_are_refused():
    with refused(ValueError, "`level` needs a tree", "with_tree"):
        FLAT.predict(MANY, level=1)
    with refused(ValueError, "`level` needs a tree"):
        FLAT.predict_proba(MANY, level=1)
    with refused(ValueError, "`predict_path` needs a tree"):
        FLAT.predict_path(MANY)
    for call in (MODEL.predict, MODEL.predict_proba):
        with refused(ValueError, "`level` must be a whole number from 1", "5 levels"):
            call(MANY, level=0)
    with refused(ValueError, "must be leaves of the tree", "'ant'"):
        FLAT.with_tree({"bee": "ant"})
    with refused(ValueError, "must be leaves of the tree", "'mammal'"):
        MODEL.with_classes({"mammal": np.ones(4)})
    with refused(ValueError, "one kind"):
        FLAT.with_tree({1: 2})
    with refused(ValueError, "`reject_label`", "'mammal'"):
        MODEL.with_rejection(0.5, "mammal")
