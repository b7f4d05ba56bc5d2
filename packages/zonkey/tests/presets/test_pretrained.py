"""presets.pretrained: names and pictures in, answers out, without training."""

import copy
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.base import clone

import zonkey
from zonkey import Prototypes, presets
from zonkey.encoders import ImageEncoder, TextEncoder, class_texts
from zonkey.presets.pretraining import _base, fit_on_base

NAMES = ["bicycle", "cat", "strawberry"]


@pytest.fixture(scope="module")
def base():
    """Return an eighth of the classes of ImageNet, which takes less time."""
    whole = _base("efficientnet-lite0")
    return whole.without(np.flatnonzero(np.arange(whole.n_leaves) % 8))


@pytest.fixture(scope="module")
def model(base):
    return fit_on_base(base, presets.pretrained_encoders()[1].prototypes(NAMES))


@pytest.fixture(scope="module")
def pictures():
    """Draw emoji of the classes in two styles, on two backgrounds."""
    emoji, found = zonkey.datasets.load_emoji(), []
    for label in NAMES:
        for style in ("noto", "twemoji"):
            picture = Image.fromarray(emoji.thumbnail(label, style)).resize((224, 224))
            found += [picture, Image.blend(picture, Image.new("RGB", (224, 224), "gray"), 0.3)]
    return ImageEncoder().transform(found), np.repeat(NAMES, 4)


def test_the_base_is_what_the_head_and_wordnet_say():
    base = _base("efficientnet-lite0")
    assert base.n_leaves == 1000
    assert len({str(name).casefold() for name in base.names}) == len(base.names)
    assert_allclose(np.linalg.norm(base.rows[:1000], axis=1), 1, atol=0.01)
    assert_allclose(np.linalg.norm(base.vectors, axis=1), 1, atol=0.01)
    places = {name: i for i, name in enumerate(base.names.tolist())}
    bird = places["bird"] - base.n_leaves
    below = base.names[base.members[bird]].tolist()
    assert {"goldfinch", "ostrich", "flamingo"} <= {*below}
    assert "tench" not in below
    means = base.rows[base.members[bird]].mean(axis=0)
    assert_allclose(base.rows[places["bird"]], means)


def test_text_vectors_are_those_of_the_text_encoder():
    base = _base("efficientnet-lite0")
    place = base.names.tolist().index("goldfish")
    texts = ["goldfish, Carassius auratus", "a photo of a goldfish"]
    of_eurasia = "freshwater fishes of Eurasia used as pond or aquarium fishes"
    gloss = f"goldfish: small golden or orange-red {of_eurasia}"
    mean = TextEncoder().transform([*texts, gloss]).sum(axis=0)
    assert_allclose(base.vectors[place], mean / np.linalg.norm(mean), atol=0.01)


def test_rows_of_the_head_recognize_their_class(base, monkeypatch):
    """The prediction for the name of a class must point to its row, among all of them."""
    monkeypatch.setattr("zonkey.presets.pretraining._base", lambda _: base)
    model = presets.pretrained()
    assert len(model.classes_) == base.n_leaves == 125
    rows, names = base.rows[: base.n_leaves], base.names[: base.n_leaves]
    best = model.classes_[(rows @ model.centers_.T).argmax(axis=1)]
    assert np.mean(best == names) > 0.97


def test_leaves_can_be_taken_out():
    whole = _base("efficientnet-lite0")
    gone = np.arange(0, 900)
    small = whole.without(gone)
    assert small.n_leaves == 100
    assert_array_equal(small.names[:100], whole.names[900:1000])
    assert_array_equal(small.rows[:100], whole.rows[900:1000])
    assert all(len(below) and below.max() < 100 for below in small.members)
    for j, name in enumerate(small.names[100:].tolist()):
        before = whole.members[whole.names[1000:].tolist().index(name)]
        assert_array_equal(small.members[j] + 900, before[before >= 900])


def test_emoji_are_named_without_training(model, pictures):
    X, y = pictures
    assert_array_equal(model.classes_, NAMES)
    assert np.mean(model.predict(X) == y) >= 0.6
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


def test_shots_and_piles_make_it_better(model, pictures):
    X, y = pictures
    few = copy.copy(model).partial_fit(X[::4], y[::4])
    assert np.mean(few.predict(X) == y) >= np.mean(model.predict(X) == y)
    adapted = few.adapt(X)
    assert adapted.is_transductive_
    assert np.mean(adapted.predict(X) == y) >= 0.75


def test_texts_are_encoded_as_pretrained_encoders_do(base, monkeypatch):
    monkeypatch.setattr("zonkey.presets.pretraining._base", lambda _: base)
    found = presets.pretrained(classes={"mouse": "a pointing device", "a striped horse": "zebra"})
    images, texts = presets.pretrained_encoders()
    assert images.model == "efficientnet-lite0"
    expected = texts.prototypes({"a": "a pointing device", "b": "zebra"}).matrix
    assert_allclose(found.prototypes_["mouse"], expected[0], atol=1e-6)
    assert_allclose(found.prototypes_["a striped horse"], expected[1], atol=1e-6)


def test_classes_come_in_many_forms(tmp_path, monkeypatch, base):
    monkeypatch.setattr("zonkey.presets.pretraining._base", lambda _: base)
    path = tmp_path / "classes.txt"
    path.write_text("cat\nbicycle\n")
    for classes in (["cat", "bicycle"], "cat, bicycle", path, class_texts("cat, bicycle")):
        assert presets.pretrained(classes=classes).classes_.tolist() == ["bicycle", "cat"]
    described = presets.pretrained(classes={"c": ["a small pet", "a cat"], "b": "a bicycle"})
    assert described.classes_.tolist() == ["b", "c"]
    wider = described.with_classes(presets.pretrained_encoders()[1].prototypes(["violin"]))
    assert wider.classes_.tolist() == ["b", "c", "violin"]


def test_a_file_keeps_it(model, pictures, tmp_path):
    X, y = pictures
    few = copy.copy(model).partial_fit(X[::2], y[::2])
    few.save(tmp_path / "few.zonkey", training={"encoder": ImageEncoder().spec_})
    again = zonkey.load(tmp_path / "few.zonkey")
    assert_array_equal(again.predict_proba(X), few.predict_proba(X))
    assert zonkey.model_info(tmp_path / "few.zonkey")["training"]["encoder"]["dimension"] == 1280


def test_parameters_can_be_replaced(base):
    shown = Prototypes(["a", "b"], base.vectors[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # equal texts of base and user are no fault
        model = fit_on_base(base, shown, worth=3.0, temperature=0.5)
    assert (model.worth_, model.temperature_) == (3.0, 0.5)


def test_it_learns_by_partial_fit_only(model, pictures):
    with pytest.raises(ValueError, match="Pass them to `partial_fit` of the fitted model"):
        clone(model).fit(*pictures)
    with pytest.raises(ValueError, match="`candidates` of a pretrained model must be left out"):
        presets.pretrained(candidates="all")
    for function in (presets.pretrained, presets.pretrained_encoders):
        with pytest.raises(ValueError, match="`name` must be"):
            function("resnet")


def test_the_classes_of_imagenet_are_in_a_tree():
    tree, model = presets.imagenet_tree(), presets.pretrained()
    assert tree.leaves.tolist() == model.classes_.tolist()
    assert tree.n_levels > 10
    sizes = np.asarray(tree.membership.sum(axis=1)).ravel()
    assert sizes[tree.positions(tree.inner)].min() > 1
    assert "dog" in tree.path("beagle")
    # A node holds only classes that it has in WordNet, and those of the nodes below it.
    base = _base("efficientnet-lite0")
    names = base.names.tolist()
    for node in ("dog", "bird", "vehicle", "food (substance)"):
        below = base.members[names.index(node) - base.n_leaves]
        assert {*tree.leaves_below(node)} <= {*base.names[below]}
        assert len(tree.leaves_below(node)) > 1
    assert model.with_tree(tree).tree_ == tree
