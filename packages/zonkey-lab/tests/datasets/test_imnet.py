import json

import numpy as np
import pytest
from mat_files import save_mat

from zonkey.files.dataset import DataError
from zonkey_lab.datasets.imnet import load_imnet

SEEN_NUMBERS = [3, 1, 2, 3, 2, 1, 3]
UNSEEN_IDS = [42, 7]
TEST_NUMBERS = [7, 42, 42]
WORDS = {number: np.random.default_rng(number).random(4) for number in (1, 2, 3)}
UNSEEN_WORDS = np.random.default_rng(9).random((2, 4))


def column(values):
    return np.array(values, dtype=float)[:, None]


def release(**changes):
    """Return variables like those of SAE's release: seven training samples, three for test."""
    rng = np.random.default_rng(0)
    variables = {
        "X_tr": rng.random((7, 5)),
        "Y": np.eye(3)[np.array(SEEN_NUMBERS) - 1],
        "S_tr": np.stack([WORDS[number] for number in SEEN_NUMBERS]),
        "X_te": rng.random((3, 5)),
        "Y_te": column(TEST_NUMBERS),
        "S_te_pro": UNSEEN_WORDS,
        "X_te_cl_id": column(UNSEEN_IDS),
        **changes,
    }
    return {key: value for key, value in variables.items() if value is not None}


def refusal(path):
    with pytest.raises(DataError) as error:
        load_imnet(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("ids", [UNSEEN_IDS, [2, 1]])
def test_columns_of_seen_classes_are_not_mistaken_for_unseen_ones(tmp_path, ids):
    of_test = [ids[UNSEEN_IDS.index(number)] for number in TEST_NUMBERS]
    variables = release(X_te_cl_id=column(ids), Y_te=column(of_test))
    save_mat(tmp_path / "ImNet_2_demo_data.mat", variables)
    data = load_imnet(tmp_path)
    single = {key: variables[key].astype(np.float32) for key in ("X_tr", "X_te")}
    np.testing.assert_array_equal(data.X_train, single["X_tr"], strict=True)
    np.testing.assert_array_equal(data.X_test_unseen, single["X_te"], strict=True)
    assert data.X.flags.c_contiguous
    assert data.y_train.tolist() == [f"seen {number:04d}" for number in SEEN_NUMBERS]
    assert data.y_test_unseen.tolist() == [f"unseen {number:04d}" for number in of_test]
    assert len(data.prototypes) == 5
    for number, words in WORDS.items():
        np.testing.assert_array_equal(data.prototypes[f"seen {number:04d}"], words)
    for number, words in zip(ids, UNSEEN_WORDS, strict=True):
        np.testing.assert_array_equal(data.prototypes[f"unseen {number:04d}"], words)


def test_the_record_counts_samples_and_compares_sizes(tmp_path):
    save_mat(tmp_path / "imnet.mat", release())
    record = load_imnet(tmp_path / "imnet.mat").record()
    assert record["n_samples"] == {"train": 7, "test_seen": 0, "test_unseen": 3}
    assert record["published_sizes"] == (
        "differ: 3 seen and 2 unseen classes, published 1000 seen and 360 unseen classes"
    )
    json.dumps(record)


def test_the_file_is_found_among_others(tmp_path):
    save_mat(tmp_path / "a.mat", {"W": np.eye(2)})
    save_mat(tmp_path / "b.mat", release())
    assert load_imnet(tmp_path).about["features_file"] == "b.mat"


def test_features_are_read_and_checked_on_first_use(tmp_path):
    variables = release(X_tr=release()["X_tr"].astype("f4"))
    variables["X_te"][1, 2] = np.inf
    save_mat(tmp_path / "a.mat", variables)
    data = load_imnet(tmp_path)
    assert data.shape == (10, 5)
    with pytest.raises(DataError, match=r"row 8 of `X_tr` and `X_te` of .* holds NaN"):
        _ = data.X
    (tmp_path / "a.mat").unlink()
    with pytest.raises(DataError, match="does not exist"):
        _ = data.X


DIFFERENT_WORDS = np.stack([WORDS[number] + (i == 3) for i, number in enumerate(SEEN_NUMBERS)])
DAMAGES = [
    ({"X_tr": np.ones((5, 7))}, "one row for each of the 7 labels",
     "its shape is (5, 7). It is transposed: save X_tr'."),
    ({"X_te": np.ones((3, 6))}, "`X_te` of", "as many columns as `X_tr`; its shape is (3, 6). Use "
     "files that fit together."),
    ({"X_tr": ["a", "b"]}, "`X_tr` of", "must hold numbers", "Save a matrix of numbers"),
    ({"S_tr": DIFFERENT_WORDS}, "`S_tr` of", "equal rows within a class; those of class seen 0003 "
     "differ", "Save the same vector in each row."),
    ({"S_tr": np.ones((4, 7))}, "`S_tr` of", "one row for each of the 7 training labels; its shape "
     "is (4, 7)", "It is transposed: save S_tr'."),
    ({"S_te_pro": np.ones((2, 3))}, "New prototypes must have the 4 dimensions of the known ones; "
     "got 3", "Use the same semantic space"),
    ({"S_te_pro": np.ones((1, 4))}, "Prototypes need one row per label; got 2 labels and 1 rows"),
    ({"Y_te": column([7, 42, 43])}, "No prototype for the class 'unseen 0043'", "Add the missing"),
    ({"Y": np.zeros((7, 3))}, "`Y` of", "a single 1 in each row", "Save one-hot rows"),
    ({"Y_te": ["a", "b", "a"]}, "`Y_te` of", "must hold numbers"),
    ({"Y_te": column([7, 42, 7.5])}, "`Y_te` of", "whole numbers; got 7.5"),
    ({"X_te": None}, "must hold the variable `X_te`; it holds S_te_pro, S_tr, X_te_cl_id, X_tr, Y, "
     "Y_te", "Save it under that name"),
    ({"S_tr": None}, "must hold the variable `S_tr`"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "parts"), [(changes, parts) for changes, *parts in DAMAGES])
def test_damaged_contents_are_refused(tmp_path, changes, parts):
    save_mat(tmp_path / "a.mat", release(**changes))
    line = refusal(tmp_path)
    for part in parts:
        assert part in line


def test_a_cut_file_and_an_empty_folder_are_refused(tmp_path):
    assert "has no .mat file. Pass the folder" in refusal(tmp_path)
    assert f"{tmp_path / 'nowhere'} does not exist" in refusal(tmp_path / "nowhere")
    path = tmp_path / "a.mat"
    save_mat(path, release())
    path.write_bytes(path.read_bytes()[:-20])
    assert "Download or save it again" in refusal(tmp_path)
