import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from refusals import refusal

from zonkey import Prototypes, config_context
from zonkey.files.dataset import Dataset, LazyMatrix, Split

LABELS = ["zebra", "ass", "horse", "ass", "horse", "zebra", "ass"]
CLASSES = ["ass", "horse", "zebra"]
X = np.random.default_rng(0).normal(size=(7, 4))
STRIPES = {"zebra": [1.0, 1.0], "horse": [0.0, 1.0], "ass": [0.0, 0.5]}
VECTORS = np.arange(12.0).reshape(4, 3)
WORDS = Prototypes([*CLASSES, "zonkey"], VECTORS)
SPACES = {"attributes": STRIPES, "words": WORDS}
PARTS = {"train": [1, 2, 3], "test_seen": [4, 6], "test_unseen": [0, 5], "query": [5]}


def make(name="stripes", features=X, labels=LABELS, prototypes=SPACES, parts=PARTS, **keywords):
    split = Split(**{"val_classes": ["ass"], "name": "by hand", **parts})
    return Dataset(name, features, labels, prototypes, split, **keywords)


def changed(mapping, **changes):
    return {**mapping, **changes}


def test_every_part_holds_its_samples():
    data = make()
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == LABELS
    for part in ("train", "test_seen", "test_unseen"):
        np.testing.assert_array_equal(getattr(data, f"X_{part}"), X[PARTS[part]])
        assert getattr(data, f"y_{part}").tolist() == [LABELS[i] for i in PARTS[part]]
    assert data.seen_classes.tolist() == ["ass", "horse"]
    assert data.unseen_classes.tolist() == ["zebra"]
    assert data.shape == (7, 4)
    assert repr(data) == (
        "Dataset('stripes', 7 samples x 4, 2 seen and 1 unseen classes, attributes, words)"
    )


def test_there_may_be_several_semantic_spaces_and_the_first_is_the_default():
    data = make()
    assert data.spaces == ("attributes", "words")
    assert data.prototypes == Prototypes.coerce(STRIPES)
    assert data.prototypes is data.prototypes_of("attributes")
    assert data.prototypes_of("words") is WORDS
    assert make(prototypes={"words": WORDS, "attributes": STRIPES}).prototypes is WORDS


@pytest.mark.parametrize(
    "prototypes",
    [
        STRIPES,
        Prototypes(list(STRIPES), list(STRIPES.values())),
        pd.DataFrame.from_dict(STRIPES, orient="index"),
    ],
    ids=lambda prototypes: type(prototypes).__name__,
)
def test_prototypes_of_one_space_may_come_in_any_form_and_so_may_those_of_several(prototypes):
    data = make(prototypes=prototypes)
    assert data.spaces == ("prototypes",)
    assert data.prototypes == Prototypes(CLASSES, [[0.0, 0.5], [0.0, 1.0], [1.0, 1.0]])
    among_others = make(prototypes={"words": WORDS, "other": prototypes})
    assert among_others.prototypes_of("other") == data.prototypes


def test_labels_may_be_whole_numbers():
    labels = [CLASSES.index(label) for label in LABELS]
    vectors = {CLASSES.index(name): vector for name, vector in STRIPES.items()}
    names = dict(enumerate(CLASSES))
    parts = changed(PARTS, val_classes=[0])
    data = make(labels=labels, prototypes=vectors, parts=parts, class_names=names)
    assert data.y.dtype.kind == "i"
    assert data.seen_classes.tolist() == [0, 1]
    assert data.unseen_classes.tolist() == [2]
    assert [data.name_of(label) for label in data.y] == LABELS
    assert json.loads(json.dumps(data.record()))["n_val_classes"] == 1


@pytest.mark.parametrize("array", ["X", "y"])
def test_arrays_are_read_only(array):
    data = make()
    with pytest.raises(ValueError, match="read-only"):
        getattr(data, array)[0] = getattr(data, array)[1]
    with pytest.raises(AttributeError):
        setattr(data, array, getattr(data, array))


def test_mappings_cannot_be_changed_and_do_not_follow_those_they_were_made_of():
    own = {
        "class_names": {"ass": "Ass"},
        "about": {"file": "stripes.npz"},
        "prototypes": dict(SPACES),
    }
    data = make(**own)
    for mapping in own.values():
        mapping.clear()
    assert data.spaces == ("attributes", "words")
    assert data.class_names == {"ass": "Ass"}
    assert data.about == {"file": "stripes.npz"}
    for mapping in (data.class_names, data.about):
        with pytest.raises(TypeError):
            mapping["ass"] = "Esel"


def test_features_are_read_when_they_are_first_used():
    n_calls = []

    def read():
        n_calls.append(1)
        return X

    data = make(features=LazyMatrix(X.shape, X.dtype, read, "stripes.npy"))
    assert data.shape == (7, 4)
    assert data.seen_classes.tolist() == ["ass", "horse"]
    assert "7 samples x 4" in repr(data)
    assert not n_calls
    np.testing.assert_array_equal(data.X_train, X[1:4])
    assert data.sha256 == make().sha256
    assert len(n_calls) == 1


FEW = {name: STRIPES[name] for name in ("ass", "horse")}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"labels": LABELS[:-1]},
            "Features need one label per row; memory has 7 rows and 4 columns, and there are 6 "
            "labels. Check that both come from the same run.",
        ),
        ({"features": X.T}, "The features look transposed: save X.T, so that samples are rows."),
        (
            {"prototypes": FEW},
            "No prototype for the class 'zebra'; every label needs one of the 2 known: 'ass', "
            "'horse'. Add the missing rows to the prototypes or drop those samples.",
        ),
        ({"prototypes": {"attributes": STRIPES, "few": FEW}}, "No prototype for the class 'zebra'"),
        ({"features": X[0]}, "Features must be a matrix"),
        ({"features": X[..., None]}, "Features must be a matrix"),
        ({"labels": [*LABELS[:-1], None]}, "Labels must be all strings or all numbers"),
        ({"labels": [*LABELS[:-1], 3]}, "Labels must be all strings or all numbers"),
        ({"labels": np.array([0.0] * 6 + [np.nan])}, "1 of 7 are NaN"),
        ({"labels": [LABELS]}, "Labels must be one-dimensional"),
        ({"labels": range(7)}, "Labels must be of one kind to be compared"),
        ({"prototypes": {}}, "Pass at least one vector"),
        ({"prototypes": np.eye(3)}, "got numpy.ndarray"),
        ({"prototypes": {"words": WORDS, "bare": np.eye(3)}}, "got numpy.ndarray"),
        ({"prototypes": changed(STRIPES, zebra=[1.0])}, "Prototypes must all have the same"),
        ({"prototypes": changed(STRIPES, zebra=[1.0, np.inf])}, "Prototypes must be finite"),
        ({"prototypes": pd.DataFrame({"name": CLASSES})}, "use frame.set_index"),
        ({"parts": changed(PARTS, train=[1, 2, 7])}, "positions from 0 to 6; got 7"),
    ],
)
def test_whatever_is_wrong_is_refused_in_one_line_when_the_data_set_is_made(wrong, words):
    assert words in refusal(make, **wrong)


def test_an_unknown_space_is_refused_with_those_that_are_known():
    assert refusal(make().prototypes_of, "glove") == (
        "`space` must be one of 'attributes', 'words'; got 'glove'. See the attribute `spaces`."
    )


def _with(array, position, value):
    array = array.copy()
    array[position] = value
    return array


@pytest.mark.parametrize(
    "changes",
    [
        {"features": _with(X, (6, 3), np.nextafter(X[6, 3], 9.0))},
        {"features": X.astype(np.float32)},
        {"features": X.reshape(7, 2, 2).swapaxes(1, 2).reshape(7, 4)},
        {"labels": _with(np.array(LABELS), 6, "horse")},
        {"prototypes": changed(SPACES, attributes=changed(STRIPES, ass=[0.0, 0.25]))},
        {"prototypes": changed(SPACES, words=WORDS.subset(CLASSES))},
        {"prototypes": changed(SPACES, words=Prototypes([*CLASSES, "zorse"], VECTORS))},
        {"prototypes": {"attributes": STRIPES}},
        {"prototypes": {"attributes": STRIPES, "word": WORDS}},
        {"prototypes": {"words": WORDS, "attributes": STRIPES}},
        {"parts": changed(PARTS, train=[1, 2])},
        {"parts": changed(PARTS, test_seen=[4])},
        {"parts": changed(PARTS, train=[1, 2, 6], test_seen=[4, 3])},
        {"parts": changed(PARTS, test_unseen=[5])},
        {"parts": changed(PARTS, query=[0])},
        {"parts": changed(PARTS, query=[])},
        {"parts": changed(PARTS, val_classes=["horse"])},
    ],
)
def test_the_hash_changes_with_any_content(changes):
    assert make(**changes).sha256 != make().sha256


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "zoo"},
        {"license": "CC0-1.0", "citation": "by hand"},
        {"class_names": {"ass": "Ass"}, "about": {"file": "x.npz"}},
        {"parts": changed(PARTS, name="v2")},
        {"parts": changed(PARTS, train=[3, 1, 2])},
        {"features": np.asfortranarray(X)},
        {"features": LazyMatrix.of(X, "stripes.npy")},
        {"labels": pd.Series(LABELS, index=range(7, 0, -1))},
        {"labels": np.array(LABELS, dtype="U9")},  # room for longer labels
        {"prototypes": changed(SPACES, words=Prototypes(WORDS.labels.astype("U9"), VECTORS))},
        {"prototypes": changed(SPACES, attributes=dict(reversed(STRIPES.items())))},
    ],
)
def test_the_hash_does_not_change_with_what_is_said_about_the_content(changes):
    assert make(**changes).sha256 == make().sha256


def test_a_memory_map_and_an_array_of_equal_content_have_equal_hashes(tmp_path):
    np.save(tmp_path / "X.npy", X)
    data = make(features=np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert isinstance(data.X, np.memmap)
    assert data.sha256 == make().sha256


@pytest.mark.parametrize("block", [1, 33, 64])
def test_the_hash_does_not_depend_on_how_much_is_hashed_at_a_time(block):
    whole = make().sha256
    with config_context(working_memory=block / 2**20):
        assert make().sha256 == whole


def test_the_record_is_ready_for_json_and_counts_right():
    data = make(license="CC0-1.0", citation="by hand", about={"file": "stripes.npz"})
    assert json.loads(json.dumps(data.record())) == {
        "name": "stripes",
        "sha256": data.sha256,
        "split": "by hand",
        "n_features": 4,
        "n_samples": {"train": 3, "test_seen": 2, "test_unseen": 2},
        "n_seen": 2,
        "n_unseen": 1,
        "n_val_classes": 1,
        "spaces": {"attributes": 2, "words": 3},
        "license": "CC0-1.0",
        "citation": "by hand",
        "file": "stripes.npz",
    }
    assert len(data.sha256) == 64


@pytest.mark.parametrize("name", ["split", "name", "about", "_labels", "seen_classes", "more"])
def test_nothing_can_be_set_or_deleted(name):
    data = make()
    with pytest.raises(AttributeError, match="never changes"):
        setattr(data, name, None)
    with pytest.raises(AttributeError, match="never changes"):
        delattr(data, name)
    for classes in (data.seen_classes, data.unseen_classes):
        assert not classes.flags.writeable


def test_copies_are_the_data_set_itself_and_pickles_its_equal():
    data = make(class_names={"ass": "an A"}, license="free", about={"file": "x"})
    assert copy.copy(data) is copy.deepcopy(data) is data
    again = pickle.loads(pickle.dumps(data))
    assert again.record() == data.record()
    assert again.name_of("ass") == "an A"
    np.testing.assert_array_equal(again.X, data.X)
