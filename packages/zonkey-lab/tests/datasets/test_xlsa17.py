import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from mat_files import save_mat

from zonkey.files.dataset import DataError
from zonkey_lab.datasets import xlsa17
from zonkey_lab.datasets.matlab import describe_mat, read_mat
from zonkey_lab.datasets.xlsa17 import load_xlsa17

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))
DATA = ROOT / "xlsa17" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no folder {DATA}; set ZONKEY_DATA to the folder that holds xlsa17/"
)

# In an order that is neither that of the numbers nor the alphabet's, as in the benchmark.
NAMES = ["002.Laysan_Albatross", "005.Auk", "001.killer+whale", "006.Wren", "003.Owl", "004.Tit"]
FOLDER_NUMBERS = np.argsort(np.argsort(NAMES)) + 1.0
SEEN, UNSEEN = [0, 1, 3, 5], [2, 4]
N_PER_CLASS = 4


def folder_contents():
    """Return the variables of a tiny data set: four samples a class, the last of them for test."""
    rng = np.random.default_rng(0)
    numbers = rng.permutation(np.repeat(np.arange(len(NAMES)), N_PER_CLASS))
    of_class = [np.flatnonzero(numbers == number) for number in range(len(NAMES))]

    def location(parts):
        return np.concatenate(parts)[:, None] + 1.0

    return {
        "res101": {
            "features": rng.random((5, len(numbers))).astype("f4"),
            "labels": numbers[:, None] + 1.0,
            "image_files": [f"images/{NAMES[number]}/{i}.jpg" for i, number in enumerate(numbers)],
        },
        "att_splits": {
            "att": rng.random((3, len(NAMES))),
            "original_att": rng.random((3, len(NAMES))) * 100,
            "allclasses_names": list(NAMES),
            "trainval_loc": location([of_class[number][:-1] for number in SEEN]),
            "test_seen_loc": location([of_class[number][-1:] for number in SEEN]),
            "test_unseen_loc": location([of_class[number] for number in UNSEEN]),
        },
    }


LISTS = {
    "trainvalclasses": [NAMES[number] for number in SEEN],
    "testclasses": [NAMES[number] for number in UNSEEN],
    "valclasses1": [NAMES[1]],
    "valclasses2": [NAMES[3], NAMES[5]],
}


def write_folder(folder, contents, lists=LISTS):
    folder.mkdir(parents=True, exist_ok=True)
    for stem, variables in contents.items():
        save_mat(folder / f"{stem}.mat", variables)
    for stem, names in lists.items():
        (folder / f"{stem}.txt").write_text("\n".join(names) + "\n")
    return folder


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


def test_the_record_is_ready_for_json(tmp_path, contents):
    folder = write_folder(tmp_path / "CUB", with_sentences(contents))
    json.dumps(load_xlsa17(folder, semantics=["att_splits", "sent_splits"]).record())


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


def test_without_lists_val_loc_tells_the_validation_classes(tmp_path, contents):
    folder = write_folder(tmp_path / "birds", with_sentences(contents), lists={})
    data = load_xlsa17(folder, semantics=("att_splits", "sent_splits"))
    assert data.split.val_classes.tolist() == sorted([NAMES[1], NAMES[5]])
    assert data.about["val_classes_from"] == "train_loc and val_loc"


def test_without_lists_and_val_loc_there_are_no_validation_classes(tmp_path, contents):
    data = load_xlsa17(write_folder(tmp_path / "birds", contents, lists={}))
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


def put(array, position, value):
    changed = array.copy()
    changed[position] = value
    return changed


def stacked(values, *keys):
    return np.vstack([values[key] for key in keys])


# What is done to the variables of both files, and what the refusal must say.
DAMAGES = {
    "transposed features": (
        lambda v: v.update(features=v["features"].T),
        "`features` of",
        "one column for each of the 24 labels; its shape is (24, 5)",
        "It is transposed: save features'.",
    ),
    "features of another run": (
        lambda v: v.update(features=v["features"][:, 1:]),
        "shape is (5, 23)",
        "Use files that fit together.",
    ),
    "text for features": (
        lambda v: v.update(features=["a", "b"]),
        "`features` of",
        "must hold numbers; it is of MATLAB's class cell",
        "Save a matrix of numbers",
    ),
    "text for labels": (
        lambda v: v.update(labels=["cat"] * 24),
        "`labels` of",
        "must hold numbers; it is of MATLAB's class cell",
        "Save a matrix of numbers",
    ),
    "labels out of range": (
        lambda v: v.update(labels=put(v["labels"], 3, 7.0)),
        "`labels` of",
        "must count the 6 `allclasses_names` from 1; got 7",
        "Use labels and semantics of one data set",
    ),
    "labels from 0": (
        lambda v: v.update(labels=v["labels"] - 1),
        "`labels` of",
        "got 0. They count from 0: add 1.",
    ),
    "labels that are not whole": (
        lambda v: v.update(labels=put(v["labels"], 3, 1.5)),
        "`labels` of",
        "must hold whole numbers; got 1.5",
        "Save positions or class numbers",
    ),
    "locations from 0": (
        lambda v: v.update(trainval_loc=put(v["trainval_loc"], 0, 0.0)),
        "`trainval_loc` of",
        "must count samples from 1; got 0. Add 1 if it counts from 0.",
    ),
    "locations out of range": (
        lambda v: v.update(test_unseen_loc=put(v["test_unseen_loc"], 0, 25.0)),
        "`test_unseen_loc` must count the 24 samples of",
        "got 25. Use features and splits of one data set.",
    ),
    "a location that came twice": (
        lambda v: v.update(trainval_loc=put(v["trainval_loc"], 0, v["trainval_loc"][1, 0])),
        "The split `train` must name each sample once",
        "Remove the repetition",
    ),
    "test samples in training": (
        lambda v: v.update(trainval_loc=stacked(v, "trainval_loc", "test_seen_loc")),
        "The splits `train` and `test_seen` must not share samples; 4 are in both",
        "Remove them from `train`",
    ),
    "unseen samples in training": (
        lambda v: v.update(trainval_loc=stacked(v, "trainval_loc", "test_unseen_loc")),
        "Classes of `test_unseen_loc` must have no samples in `trainval_loc`",
    ),
    "an unseen class with training samples": (
        lambda v: v.update(labels=np.where(v["labels"] == 1, 3.0, v["labels"])),
        "Classes of `test_unseen_loc` must have no samples in `trainval_loc`; '001.killer+whale'",
        "Check that labels count along `allclasses_names`",
    ),
    "labels in the order of folders": (
        lambda v: v.update(labels=FOLDER_NUMBERS[v["labels"].astype(int) - 1]),
        "trainvalclasses.txt must list the classes of the split",
        "not along folders",
    ),
    "no such key": (
        lambda v: v.pop("test_seen_loc"),
        "must hold the variable `test_seen_loc`; it holds allclasses_names, att,",
        "Save it under that name",
    ),
    "attributes of too few classes": (
        lambda v: v.update(att=v["att"][:, 1:]),
        "`att` of",
        "one column for each of the 6 `allclasses_names`; its shape is (3, 5)",
        "Use files that fit together.",
    ),
    "transposed attributes": (
        lambda v: v.update(att=v["att"].T),
        "its shape is (6, 3)",
        "It is transposed: save att'.",
    ),
    "attributes that are NaN": (
        lambda v: v.update(att=put(v["att"], (0, 0), np.nan)),
        "`att` of",
        "Prototypes must be finite",
        "Fill or drop those classes",
    ),
    "class names that are numbers": (
        lambda v: v.update(allclasses_names=np.arange(6.0)[:, None]),
        "`allclasses_names` of",
        "must be a cell array of names; got float64",
        "Save the names",
    ),
    "a class name that came twice": (
        lambda v: v.update(allclasses_names=[NAMES[1], *NAMES[1:]]),
        "`allclasses_names` of",
        "must name each class once",
        "Rename them",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_contents_are_refused(tmp_path, contents, damage):
    spoil, *parts = DAMAGES[damage]
    values = {**contents["res101"], **contents["att_splits"]}
    spoil(values)
    spoilt = {
        stem: {key: values[key] for key in variables if key in values}
        for stem, variables in contents.items()
    }
    line = refusal(write_folder(tmp_path / "birds", spoilt))
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
        (
            "valclasses1",
            [NAMES[2]],
            ("valclasses1.txt must list seen classes; '001.killer+whale' have", "same release"),
        ),
        (
            "trainvalclasses",
            LISTS["trainvalclasses"][1:],
            ("trainvalclasses.txt must list the classes", NAMES[0], "remove a list"),
        ),
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
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("SUN", (10320, 2580, 1440, 645, 72)),
        ("CUB", (7057, 1764, 2967, 150, 50)),
        ("AWA1", (19832, 4958, 5685, 40, 10)),
        ("AWA2", (23527, 5882, 7913, 40, 10)),
        ("APY", (5932, 1483, 7924, 20, 12)),
    ],
)
def test_real_splits_have_the_published_sizes(name, sizes):
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
