"""TextEncoder: order, batches, templates, prototypes and errors."""

import pickle
import warnings
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import Prototypes
from zonkey.encoders import long_texts, text_encoder
from zonkey.encoders.text_encoder import TextEncoder

TEXTS = ["zebra", "a very long text about a horse", "cat", "{} {0} {x} braces"]


class Letters:
    """Count letters; not of unit length."""

    name, revision, n_features = "letters", "0123456789abcdef", 26

    def __init__(self):
        self.batches = []

    def encode(self, texts):
        self.batches.append(list(texts))
        letters = "abcdefghijklmnopqrstuvwxyz"
        return np.array([[text.lower().count(one) for one in letters] for text in texts])


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_order_is_kept_and_batches_have_similar_lengths():
    model = Letters()
    found = TextEncoder(model, batch_size=2).transform(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, unit(Letters().encode(TEXTS)), atol=1e-6)
    assert model.batches == [["cat", "zebra"], [TEXTS[3], TEXTS[1]]]


def test_templates_are_averaged_at_unit_length():
    templates = ["a photo of a {}", "{} zzzzzzzzzzzzzzzz"]
    found = TextEncoder(Letters(), templates=templates).fit_transform(TEXTS)
    parts = [
        unit(Letters().encode([template.replace("{}", text) for text in TEXTS]))
        for template in templates
    ]
    np.testing.assert_allclose(found, unit(parts[0] + parts[1]), atol=1e-6)
    one = TextEncoder(Letters(), templates=templates[0]).transform(TEXTS)
    np.testing.assert_allclose(one, parts[0], atol=1e-6)


def refused(encoder, texts, error, message):
    for method in (encoder.fit, encoder.transform):
        with pytest.raises(error, match=message):
            method(texts)


@pytest.mark.parametrize(
    "templates", ["a photo", "{} and {}", ["{}", "x"], [], ["{}", 3], "a photo of a {name}"]
)
def test_wrong_templates_are_refused(templates):
    encoder = TextEncoder(Letters(), templates=templates)
    refused(encoder, TEXTS, ValueError, "`templates` must hold")


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["a", "b"]),
        np.array([["a"], ["b"]], dtype=object),
        pd.Series(["a", "b"], index=[7, 8]),
        pd.DataFrame({"text": ["a", "b"]}),
        ("a", "b"),
    ],
    ids=["array", "column", "series", "frame", "tuple"],
)
def test_texts_of_any_kind(texts):
    np.testing.assert_array_equal(TextEncoder(Letters()).transform(texts)[:, :2], np.eye(2))


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["a", " "], ValueError, "blank; row 1 is ' '"),
        (["a", ""], ValueError, "blank; row 1"),
        (["a", None], TypeError, "row 1 is None"),
        (["a", "b", float("nan")], TypeError, "row 2 is nan"),
        (pd.Series(["a", pd.NA], dtype="string"), TypeError, "row 1 is"),
        ([b"a"], TypeError, "row 0 is b'a'"),
        (["a", 3], TypeError, "row 1 is 3"),
        (["a", "b\ud800"], ValueError, "valid Unicode; row 1 is 'b"),
        ([], ValueError, "at least one"),
        ("zebra", TypeError, "list of str; got 'zebra'"),
        (np.array([["a", "b"]]), ValueError, r"one column; got shape \(1, 2\)"),
    ],
)
def test_unusable_texts_are_named(texts, error, message):
    refused(TextEncoder(Letters()), texts, error, message)


def test_prototypes_average_the_texts_of_a_class():
    encoder = TextEncoder(Letters(), templates="{}")
    found = encoder.prototypes({"zebra": ["a striped horse", "zebra"], "cat": "a small pet"})
    assert isinstance(found, Prototypes)
    assert found.labels.tolist() == ["cat", "zebra"]
    vectors = encoder.transform(["a striped horse", "zebra", "a small pet"])
    np.testing.assert_allclose(found["zebra"], unit(vectors[0] + vectors[1]), atol=1e-6)
    np.testing.assert_allclose(found["cat"], vectors[2], atol=1e-6)


def test_prototypes_from_names_and_files(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("dog\nblack_cat\n", encoding="utf-8")
    encoder = TextEncoder(Letters())
    assert encoder.prototypes(path) == encoder.prototypes("dog, black_cat")
    expected = encoder.transform(["black cat"])[0]
    np.testing.assert_allclose(encoder.prototypes(path)["black_cat"], expected, rtol=1e-6)


def test_spec():
    class Lengths:
        def transform(self, texts):
            return [[len(text), 1] for text in texts]

    names = ("name", "revision", "dimension", "templates", "kind", "space")
    for encoder, values in (
        (TextEncoder(Letters(), templates="a {}"), ("letters", Letters.revision, 26, ["a {}"])),
        (TextEncoder(Lengths()), ("Lengths", "", 2, None)),
    ):
        assert encoder.spec_ == dict(zip(names, (*values, "text", None), strict=True))


def test_weights_load_once_and_are_never_pickled(monkeypatch):
    loaded = []

    def load(model, device):
        loaded.append((model, device))
        return Letters()

    monkeypatch.setattr("zonkey.encoders.registry.text_backend", load, raising=False)
    text_encoder._load_backend.cache_clear()
    encoder = TextEncoder(device="cpu")
    assert not loaded
    first = encoder.transform(TEXTS)
    copy = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copy.transform(TEXTS), first)
    clone(encoder).transform(TEXTS)
    assert loaded == [("minilm-l6", "cpu")]
    assert len(pickle.dumps(encoder)) < 1000
    text_encoder._load_backend.cache_clear()


def test_scikit_learn_composes_it():
    frame = pd.DataFrame({"text": TEXTS, "size": [1.0, 2.0, 3.0, 4.0]})
    encoder = TextEncoder(Letters())
    columns = make_column_transformer((encoder, "text"), (StandardScaler(), ["size"]))
    assert columns.fit_transform(frame).shape == (4, 27)
    assert columns.get_feature_names_out()[0] == "textencoder__textencoder0"
    assert make_pipeline(encoder, StandardScaler()).fit_transform(TEXTS).shape == (4, 26)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.zeros(3), "one vector per text; got shape"),
        (np.zeros((1, 3)), "one vector per text; got shape"),
        (np.array([[1.0], [np.nan]]), "must be finite; that of 'bb' is not"),
    ],
)
def test_wrong_vectors_are_refused(found, message):
    class Wrong:
        def encode(self, texts):
            assert texts == ["a", "bb"]
            return found

    with pytest.raises(ValueError, match=message):
        TextEncoder(Wrong()).transform(["a", "bb"])
    with pytest.raises(TypeError, match="`model` must be the name of an encoder"):
        TextEncoder(3).transform(TEXTS)


class FourWords(Letters):
    """A token is a word, or two letters of a word of more than eight."""

    max_tokens = 4

    def count_tokens(self, texts):
        sizes = [[1 if len(w) <= 8 else -(-len(w) // 2) for w in text.split()] for text in texts]
        return [sum(size) for size in sizes]

    def encode(self, texts):
        assert max(self.count_tokens(texts)) <= self.max_tokens
        return super().encode(texts)


SPLIT = {
    "a b c d": [("a b c d", 1)],
    "aa bb cc dd ee": [("aa bb cc dd", 4), ("ee", 1)],
    "cat " + 12 * "ab": [("cat ababab ababab ababab", 4), ("ababab", 1)],
}


@pytest.mark.parametrize("text", SPLIT)
def test_long_texts_are_the_mean_of_their_parts(text):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = TextEncoder(FourWords()).transform([text])
    parts, weights = zip(*SPLIT[text], strict=True)
    expected = unit(np.array(weights) @ unit(Letters().encode(parts)))
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    assert len(told) == (len(parts) > 1)
    for warning in told:
        assert "at most 4 tokens for letters; 1 of 1 is longer" in str(warning.message)


def test_a_template_takes_part_of_the_length():
    model = FourWords()
    with pytest.warns(UserWarning, match="1 of 2 is longer"):
        TextEncoder(model, templates="so {} is").transform(["aa bb cc dd", "ee"])
    assert {*chain(*model.batches)} == {"so aa bb is", "so cc dd is", "so ee is"}


def test_the_embedded_model_splits_as_it_counts():
    backend = TextEncoder()._backend()
    long = " ".join(f"word{i}" for i in range(400))
    parts = long_texts.split_texts([long, "short"], backend)
    assert len(parts[0]) > 1
    assert [text for text, _ in parts[1]] == ["short"]
    assert " ".join(text for text, _ in parts[0]) == long
    counted = backend.count_tokens([text for text, _ in parts[0]])
    assert counted == [n for _, n in parts[0]]
    assert max(counted) <= backend.max_tokens == 254


def test_vectors_are_cached_by_text_template_and_model(tmp_path):
    model = Letters()
    encoder = TextEncoder(model, cache=tmp_path)
    first = encoder.transform(TEXTS)
    np.testing.assert_array_equal(encoder.transform(TEXTS[::-1]), first[::-1])
    assert len(model.batches) == 1
    found = encoder.transform(["new", *TEXTS])
    np.testing.assert_array_equal(found[1:], first)
    assert model.batches[1:] == [["new"]]
    TextEncoder(model, cache=tmp_path, templates="a {}").transform(["zebra"])
    assert model.batches[2:] == [["a zebra"]]


def test_an_encoder_is_made_again_from_its_facts():
    spec = TextEncoder(templates="a {}").spec_
    again = TextEncoder.from_spec(spec)
    assert again.spec_ == spec
    with pytest.raises(ValueError, match="must have the revision '0'"):
        TextEncoder.from_spec({**spec, "revision": "0"})
