import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from tiny_benchmark import FOLDER_NUMBERS, LISTS, NAMES, folder_contents, spoil, write_folder

from zonkey.files.dataset import DataError
from zonkey_lab.datasets import xlsa17
from zonkey_lab.datasets.matlab import describe_mat, read_mat
from zonkey_lab.datasets.xlsa17 import load_xlsa17

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))
DATA = ROOT / "xlsa17" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no folder {DATA}; set ZONKEY_DATA to the folder that holds xlsa17/"
)


def with_sentences(contents):
    """Add a second file of semantics, which splits the training samples too."""
    first = contents["att_splits"]
    everything = np.concatenate([first["trainval_loc"], first["test_seen_loc"]]).ravel()
    number = contents["res101"]["labels"].ravel()[everything.astype(int) - 1] - 1
    for_validation = np.isin(number, [1, 5])
    contents["sent_splits"] = {
        **{key: value for key, value in first.items() if key != "original_att"},
        "att": np.random.default_rng(1).random((7, len(NAMES))),
        "train_loc": everything[~for_validation][:, None],
        "val_loc": everything[for_validation][:, None],
    }
    return contents


def refusal(folder, **parameters):
    with pytest.raises(DataError) as error:
        load_xlsa17(folder, **parameters)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def contents():
    return folder_contents()


def test_rows_labels_and_prototypes_are_those_of_the_files(tmp_path, contents):
    data = load_xlsa17(write_folder(tmp_path / "birds", contents))
    features, splits = contents["res101"], contents["att_splits"]
    assert data.name == "birds"
    assert data.shape == (24, 5)
    np.testing.assert_array_equal(data.X, features["features"].T, strict=True)
    assert data.X.flags.c_contiguous
    assert data.y.tolist() == [path.split("/")[1] for path in features["image_files"]]
    assert data.spaces == ("att", "original_att")
    for column, name in enumerate(NAMES):
        for space in data.spaces:
            np.testing.assert_array_equal(data.prototypes_of(space)[name], splits[space][:, column])
    for part, key in (("train", "trainval"), ("test_seen",) * 2, ("test_unseen",) * 2):
        expected = np.sort(splits[f"{key}_loc"].ravel()) - 1
        np.testing.assert_array_equal(getattr(data.split, part), expected)
    assert data.split.val_classes.tolist() == [NAMES[1]]
    assert data.unseen_classes.tolist() == sorted(LISTS["testclasses"])
    assert [data.name_of(name) for name in NAMES[:3]] == ["Laysan Albatross", "Auk", "killer whale"]
    assert "TPAMI 2018" in data.citation
    assert data.license == "research use; see the data set's own terms"


def test_features_are_not_read_before_they_are_used(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", contents)
    data = load_xlsa17(folder)
    assert data.shape == (24, 5)
    (folder / "res101.mat").unlink()
    with pytest.raises(DataError, match="does not exist"):
        _ = data.X


def test_several_semantics_are_several_spaces_and_one_is_the_default(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", with_sentences(contents))
    data = load_xlsa17(folder, semantics=("att_splits", "sent_splits.mat"), space="sent")
    json.dumps(data.record())
    assert data.spaces == ("sent", "att", "original_att")
    np.testing.assert_array_equal(data.prototypes[NAMES[2]], contents["sent_splits"]["att"][:, 2])
    assert load_xlsa17(folder, semantics=["sent_splits", "att_splits"]).spaces[0] == "sent"
    alone = load_xlsa17(folder, semantics="sent_splits")
    assert alone.spaces == ("sent",)
    line = refusal(folder, semantics="sent_splits", space="att")
    assert "`space` must be one of 'sent'; got 'att'. Pass one of them" in line


@pytest.mark.parametrize("key", ["trainval_loc", "test_seen_loc", "allclasses_names"])
def test_semantics_of_different_splits_are_refused(tmp_path, contents, key):
    other = with_sentences(contents)["sent_splits"]
    other[key] = other[key][1:] if key.endswith("_loc") else other[key][::-1]
    line = refusal(write_folder(tmp_path / "b", contents), semantics=("att_splits", "sent_splits"))
    assert f"`{key}` must be the same in all files" in line
    assert "sent_splits.mat differs from att_splits.mat" in line


def test_a_space_that_comes_twice_is_refused(tmp_path, contents):
    contents["att"] = contents["att_splits"]
    line = refusal(write_folder(tmp_path / "b", contents), semantics=("att_splits", "att"))
    assert "each semantic space once; 'att' is repeated. Rename att.mat" in line


def test_lists_may_have_spaces_and_ends_of_lines_of_another_system(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", contents)
    (folder / "valclasses1.txt").write_bytes(
        b"\xef\xbb\xbf " + NAMES[3].encode() + b" \r\n\r\n" + NAMES[0].encode() + b"\r\n"
    )
    assert load_xlsa17(folder).split.val_classes.tolist() == sorted([NAMES[0], NAMES[3]])


def test_the_fold_says_which_list_holds_the_validation_classes(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", contents)
    data = load_xlsa17(folder, fold=2)
    assert data.split.val_classes.tolist() == sorted([NAMES[3], NAMES[5]])
    assert data.about["val_classes_from"] == "valclasses2.txt"
    line = refusal(folder, fold=3)
    assert "must hold valclasses3.txt for fold=3; it holds the lists of the folds 1, 2." in line
    assert refusal(folder, fold=4).startswith("`fold` must be 1, 2 or 3; got 4.")


def test_without_lists_val_loc_tells_the_validation_classes_if_it_is_there(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", with_sentences(contents), lists={})
    data = load_xlsa17(folder, semantics=("att_splits", "sent_splits"))
    assert data.split.val_classes.tolist() == sorted([NAMES[1], NAMES[5]])
    assert data.about["val_classes_from"] == "train_loc and val_loc"
    data = load_xlsa17(folder)
    assert data.split.val_classes.size == 0
    assert data.about["val_classes_from"] == "none"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("birds", "none are published for birds"),
        (
            "cub",
            "differ: train 12, published 7057; test_seen 4, published 1764; test_unseen 8, "
            "published 2967; seen 4, published 150; unseen 2, published 50",
        ),
    ],
)
def test_sizes_are_compared_with_the_published_ones(tmp_path, contents, name, expected):
    data = load_xlsa17(write_folder(tmp_path / name, contents))
    assert data.about["published_sizes"] == expected


@pytest.fixture
def published(monkeypatch):
    """Make the sizes of the tiny data set those that are published for CUB."""
    monkeypatch.setattr(xlsa17, "_PUBLISHED", {"CUB": (12, 4, 8, 4, 2)})


@pytest.mark.parametrize(
    ("name", "n", "version"),
    [("CUB", 12, "probably v1"), ("birds", 12, "unknown"), ("CUB", 11, "unknown")],
)
def test_published_sizes_without_the_fingerprint_make_the_first_release_probable(
    tmp_path, contents, published, name, n, version
):
    splits = contents["att_splits"]
    splits["trainval_loc"] = splits["trainval_loc"][:n]
    data = load_xlsa17(write_folder(tmp_path / name, contents))
    names = {"probably v1": "probably PS v1", "unknown": "PS, version unknown"}
    assert data.about["split_version"] == version
    assert data.split.name == names[version]


def test_a_known_fingerprint_identifies_the_second_release(tmp_path, contents, monkeypatch):
    folder = write_folder(tmp_path / "birds", contents)
    locations = sorted(int(place) for place in contents["att_splits"]["test_seen_loc"].ravel())
    digest = hashlib.sha256(struct.pack(f"<{len(locations)}q", *locations)).hexdigest()[:16]
    monkeypatch.setattr(xlsa17, "_DIGESTS_OF_V2", {digest: "BIRDS"})
    data = load_xlsa17(folder)
    assert data.split.name == "PS v2"
    assert data.about["split_told_by"] == "fingerprint of BIRDS"


def change(key, function):
    """Return what replaces a variable by a function of it."""
    return lambda values: values.update({key: function(values[key])})


def put(key, position, value):
    def changed(array):
        array = array.copy()
        array[position] = value
        return array

    return change(key, changed)


def add_to_training(key):
    return lambda v: v.update(trainval_loc=np.vstack([v["trainval_loc"], v[key]]))


# What is done to the variables of both files, and what the refusal must say.
DAMAGES = [
    (change("features", np.transpose), "`features` of", "one column for each of the 24 labels; its "
     "shape is (24, 5)", "It is transposed: save features'."),
    (change("features", lambda X: X[:, 1:]), "shape is (5, 23)", "Use files that fit together."),
    (change("features", lambda _: ["a", "b"]), "`features` of", "must hold numbers; it is of "
     "MATLAB's class cell", "Save a matrix of numbers"),
    (change("labels", lambda _: ["cat"] * 24), "`labels` of", "must hold numbers"),
    (put("labels", 3, 7.0), "`labels` of", "must count the 6 `allclasses_names` from 1; got 7",
     "Use labels and semantics of one data set"),
    (change("labels", lambda y: y - 1), "`labels` of", "got 0. They count from 0: add 1."),
    (put("labels", 3, 1.5), "`labels` of", "must hold whole numbers; got 1.5", "Save positions"),
    (put("trainval_loc", 0, 0.0), "`trainval_loc` of", "must count samples from 1; got 0. Add 1"),
    (put("test_unseen_loc", 0, 25.0), "`test_unseen_loc` must count the 24 samples of",
     "got 25. Use features and splits of one data set."),
    (change("trainval_loc", lambda rows: rows[[1, *range(1, len(rows))]]),
     "The split `train` must name each sample once", "Remove the repetition"),
    (add_to_training("test_seen_loc"), "The splits `train` and `test_seen` must not share samples; "
     "4 are in both", "Remove them from `train`"),
    (add_to_training("test_unseen_loc"),
     "Classes of `test_unseen_loc` must have no samples in `trainval_loc`"),
    (change("labels", lambda y: np.where(y == 1, 3.0, y)),
     "Classes of `test_unseen_loc` must have no samples in `trainval_loc`; '001.killer+whale'",
     "Check that labels count along `allclasses_names`"),
    (change("labels", lambda y: FOLDER_NUMBERS[y.astype(int) - 1]),
     "trainvalclasses.txt must list the classes of the split", "not along folders"),
    (lambda v: v.pop("test_seen_loc"), "must hold the variable `test_seen_loc`; it holds "
     "allclasses_names, att,", "Save it under that name"),
    (change("att", lambda A: A[:, 1:]), "`att` of", "one column for each of the 6 "
     "`allclasses_names`; its shape is (3, 5)", "Use files that fit together."),
    (change("att", np.transpose), "its shape is (6, 3)", "It is transposed: save att'."),
    (put("att", (0, 0), np.nan), "`att` of", "Prototypes must be finite", "Fill or drop those"),
    (change("allclasses_names", lambda _: np.arange(6.0)[:, None]), "`allclasses_names` of",
     "must be a cell array of names; got float64", "Save the names"),
    (change("allclasses_names", lambda _: [NAMES[1], *NAMES[1:]]), "`allclasses_names` of",
     "must name each class once", "Rename them"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "parts"), [(damage, parts) for damage, *parts in DAMAGES])
def test_damaged_contents_are_refused(tmp_path, contents, damage, parts):
    line = refusal(write_folder(tmp_path / "birds", spoil(contents, damage)))
    for part in parts:
        assert part in line


def test_features_that_are_not_finite_are_refused_when_they_are_read(tmp_path, contents):
    contents["res101"]["features"][2, 7] = np.nan
    data = load_xlsa17(write_folder(tmp_path / "birds", contents))
    with pytest.raises(DataError, match=r"row 7 of .*res101\.mat holds NaN or infinity\. Drop"):
        _ = data.X


@pytest.mark.parametrize(
    ("stem", "names", "parts"),
    [
        ("valclasses1", ["005.Auck"], ("valclasses1.txt", "'005.Auck'", "Did you mean '005.Auk'?")),
        ("testclasses", ["zebra"], ("it names 'zebra'", "Correct it, or remove the line.")),
        ("valclasses1", [NAMES[2]], ("must list seen classes; '001.killer+whale' have", "release")),
        ("trainvalclasses", LISTS["trainvalclasses"][1:], ("list the classes", NAMES[0], "remove")),
    ],
)
def test_a_list_that_contradicts_the_split_is_refused(tmp_path, contents, stem, names, parts):
    line = refusal(write_folder(tmp_path / "birds", contents, {**LISTS, stem: names}))
    for part in parts:
        assert part in line


def test_a_list_that_is_not_text_is_refused(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", contents)
    (folder / "valclasses1.txt").write_bytes(b"\xff\xfe\x00\xd8")
    assert "must be a text file, one class per line" in refusal(folder)


@pytest.mark.parametrize("stem", ["res101", "att_splits"])
def test_files_that_are_cut_or_something_else_are_refused(tmp_path, contents, stem):
    folder = write_folder(tmp_path / "birds", contents)
    path = folder / f"{stem}.mat"
    page = b"<html>" + bytes(200)
    for content, remedy in (
        (path.read_bytes()[:-50], "Download or save it"),
        (page, "Download it"),
    ):
        path.write_bytes(content)
        line = refusal(folder)
        assert str(path) in line
        assert f"{remedy} again" in line


def test_missing_files_and_folders_are_refused_with_what_is_there(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", contents)
    line = refusal(folder, features="vgg19")
    assert "vgg19.mat does not exist; its folder holds att_splits.mat, res101.mat." in line
    assert "w2v_splits.mat does not exist" in refusal(folder, semantics="w2v_splits")
    assert "`semantics` must name a file" in refusal(folder, semantics=())
    assert "its folder has no .mat file" in refusal(tmp_path / "none")


@needs_data
@pytest.mark.parametrize("name", xlsa17._PUBLISHED)
def test_real_splits_have_the_published_sizes(name):
    sizes = xlsa17._PUBLISHED[name]
    parts, names = xlsa17.read_parts([describe_mat(DATA / name / "att_splits.mat")])
    lists = ("trainvalclasses", "testclasses", "valclasses1")
    seen, unseen, val = (xlsa17.class_list(DATA / name / f"{stem}.txt", names) for stem in lists)
    found = {part: len(positions) for part, positions in parts.items()}
    found |= {"seen": len(seen), "unseen": len(unseen)}
    assert tuple(found.values()) == sizes
    assert xlsa17.compare_sizes(name, found) == "match"
    assert xlsa17.split_version(name, parts) == ("v2", f"fingerprint of {name}")
    positions = np.concatenate(list(parts.values()))
    assert np.array_equal(np.sort(positions), np.arange(sum(sizes[:3])))
    assert set(val) < set(seen)


@needs_data
def test_real_features_labels_and_images_agree():
    path = DATA / "CUB" / "efficientnet_lite0.mat"
    if not path.is_file():
        pytest.skip(f"no file {path}")
    data = load_xlsa17(
        path.parent, features=path.stem, semantics=("att_splits", "sent_splits"), space="att"
    )
    assert data.shape == (11788, 1280)
    assert (data.X.shape, data.X.dtype) == ((11788, 1280), np.float32)
    folders = [file.split("/")[-2] for file in read_mat(path, ["image_files"])["image_files"]]
    assert data.y.tolist() == folders
    assert (len(data.seen_classes), len(data.unseen_classes)) == (150, 50)
    assert len(data.split.val_classes) == 50
    assert data.spaces == ("att", "original_att", "sent")
    assert [data.prototypes_of(space).n_dimensions for space in data.spaces] == [312, 312, 1024]
    assert data.about["published_sizes"] == "match"
    assert data.split.name == "PS v2"
