"""Files of the names, variables, types and sizes of the paper's data, with made-up features."""

import os
from pathlib import Path

import numpy as np
import pytest

from made_up_benchmarks import (
    XLSA17,
    save_mat5,
    save_mat73,
    write_imnet,
    write_simple_cnn,
    write_xlsa17,
)
from zonkey_lab.datasets.imnet import load_imnet
from zonkey_lab.datasets.matlab import describe_mat, read_numbers
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet
from zonkey_lab.datasets.xlsa17 import load_xlsa17
from zonkey_lab.paper.bench.runner import peak_memory_mb, reset_peak_memory

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))
SPLITS = ROOT / "xlsa17" / "data"
N_FEATURES = {"sun": 64, "apy": 64}  # not the 2048 of all others, to be written quickly


def save_plain(path, variables):
    save_mat5(path, variables, compressed=False)


def check(folder, name):
    """Load a folder; labels, parts and values must be those that were written."""
    data = load_xlsa17(folder)
    sizes = XLSA17[name]
    assert (len(data.seen_classes), len(data.unseen_classes)) == (sizes.seen, sizes.unseen)
    assert data.shape[1] == N_FEATURES.get(name, 2048)
    assert data.prototypes.n_dimensions == sizes.attributes
    stored = describe_mat(folder / "res101.mat")
    assert stored.variables["features"].kind == "double"
    assert stored.variables["labels"].shape == (data.shape[0], 1)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, read_numbers(stored, "features").T)  # nothing is lost
    assert (data.X.max(axis=0) == 0).sum() >= 5  # features that never fire
    return data


@pytest.mark.parametrize("name", XLSA17)
def test_made_up_splits_of_the_published_layout(tmp_path, name):
    save = {"awa2": save_mat73, "cub": save_plain}.get(name, save_mat5)
    options = {"per_class": 4, "n_features": N_FEATURES.get(name, 2048), "save": save}
    data = check(write_xlsa17(tmp_path, name, **options), name)
    assert data.about["val_classes_from"] == "valclasses1.txt"


@pytest.mark.parametrize("name", XLSA17)
def test_the_real_splits(tmp_path, name):
    splits = SPLITS / name.upper()
    if not (splits / "att_splits.mat").exists():
        pytest.skip(f"no att_splits.mat in {splits}; set ZONKEY_DATA to the folder of xlsa17")
    options = {"per_class": 4, "n_features": N_FEATURES.get(name, 2048), "save": save_plain}
    data = check(write_xlsa17(tmp_path, name, splits=splits, **options), name)
    listed = (splits / "testclasses.txt").read_text(encoding="utf-8").split()
    assert set(data.unseen_classes) == set(listed)


@pytest.mark.exhaustive  # 612 MB; features of fewer images are loaded above
def test_all_of_awa2_loads_within_its_size_in_single_precision(tmp_path):
    splits = SPLITS / "AWA2"
    options = {"splits": splits} if splits.is_dir() else {}
    folder = write_xlsa17(tmp_path, "awa2", save=save_plain, **options)
    assert (folder / "res101.mat").stat().st_size > 611e6
    reset_peak_memory()
    before = peak_memory_mb()
    data = load_xlsa17(folder)
    assert data.X.nbytes == 37322 * 2048 * 4
    if before is not None:
        assert peak_memory_mb() - before < 1.7 * data.X.nbytes / 2**20
    assert data.about["published_sizes"] == "match"
    parts = (data.split.train, data.split.test_seen, data.split.test_unseen)
    assert [len(part) for part in parts] == [23527, 5882, 7913]
    if options:
        assert data.about["split_version"] == "v2"


def test_imagenet_of_fewer_images(tmp_path):
    path = write_imnet(tmp_path, seen=40, unseen=12, per_class=6, test=5)
    variables = describe_mat(path).variables
    assert {key: (about.shape, about.kind) for key, about in variables.items()} == {
        "X_tr": ((240, 1024), "double"), "X_te": ((60, 1024), "double"),
        "Y": ((240, 40), "uint8"), "S_tr": ((240, 1000), "double"),
        "S_te_pro": ((12, 1000), "double"), "X_te_cl_id": ((12, 1), "double"),
        "Y_te": ((60, 1), "double"),
    }  # fmt: skip
    data = load_imnet(path.parent)
    assert data.shape == (300, 1024)
    assert data.X.dtype == np.float32
    stored = describe_mat(path)
    np.testing.assert_array_equal(data.X_train, read_numbers(stored, "X_tr"))
    np.testing.assert_array_equal(data.X_test_unseen, read_numbers(stored, "X_te"))
    words = read_numbers(stored, "S_tr")
    for row in (0, 7, 239):
        np.testing.assert_array_equal(data.prototypes[data.y_train[row]], words[row])
    assert len(data.split.val_classes) == 8
    assert load_imnet(path).split.val_classes.tolist() == data.split.val_classes.tolist()


def test_the_simple_cnn_of_mini_imagenet(tmp_path):
    test, validation = write_simple_cnn(tmp_path, per_class=4)
    data = load_mini_imagenet(test)
    assert data.shape == (400, 1600)
    assert (len(data.seen_classes), len(data.unseen_classes)) == (80, 20)
    assert data.record()["features"] == "simple CNN (conv4.npz)"
    assert len(load_mini_imagenet(validation, novel="val").unseen_classes) == 16
