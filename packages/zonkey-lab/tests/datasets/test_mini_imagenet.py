import os
from pathlib import Path

import numpy as np
import pytest

from zonkey.files.dataset import DataError
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))
NAMES = np.array([f"class {number:02d}" for number in range(100)])


def contents(n_backbone_classes=64):
    """Return a small file of the same layout: two samples a class."""
    rng = np.random.default_rng(0)
    return {
        "features": rng.normal(size=(200, 3)).astype(np.float16),
        "labels": rng.permutation(np.repeat(np.arange(100), 2)).astype(np.int16),
        "class_names": NAMES.copy(),
        "wnids": NAMES.copy(),
        "prototypes": rng.normal(size=(100, 5)).astype(np.float32),
        "n_backbone_classes": np.int64(n_backbone_classes),
    }


def saved(folder, **changes):
    arrays = {**contents(), **changes}
    path = folder / "backbone.npz"
    np.savez(path, **{name: values for name, values in arrays.items() if values is not None})
    return path


@pytest.mark.parametrize(
    ("n_base", "novel", "first", "last"),
    [(64, "val", 64, 80), (64, "test", 80, 100), (80, "test", 80, 100)],
)
def test_base_and_novel_classes(tmp_path, n_base, novel, first, last):
    path = saved(tmp_path, n_backbone_classes=n_base)
    data = load_mini_imagenet(path, novel=novel)
    stored = contents()
    assert data.seen_classes.tolist() == NAMES[:n_base].tolist()
    assert data.unseen_classes.tolist() == NAMES[first:last].tolist()
    np.testing.assert_array_equal(data.split.base, np.flatnonzero(stored["labels"] < n_base))
    assert len(data.split.novel) == 2 * (last - first)
    assert data.split.test_seen.size == 0
    np.testing.assert_array_equal(data.y, NAMES[stored["labels"]])
    assert data.record()["backbone_file"] == "backbone.npz"
    assert data.record()["n_backbone_classes"] == n_base


def test_values_are_those_of_the_file_and_whole_numbers_may_be_floats(tmp_path):
    stored = contents()
    changes = {"labels": stored["labels"].astype(np.float32), "n_backbone_classes": [64.0]}
    data = load_mini_imagenet(saved(tmp_path, **changes))
    assert data.y.tolist() == NAMES[stored["labels"]].tolist()
    assert data.about["n_backbone_classes"] == 64
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, stored["features"].astype(np.float32))
    for number in (0, 63, 99):
        np.testing.assert_array_equal(data.prototypes[NAMES[number]], stored["prototypes"][number])


def test_a_name_that_comes_twice_is_told_apart(tmp_path):
    names = NAMES.copy()
    names[[3, 90]] = "crane"
    data = load_mini_imagenet(saved(tmp_path, class_names=names))
    assert "crane (3)" in data.seen_classes
    assert "crane (90)" in data.unseen_classes
    assert data.name_of("crane (90)") == "crane"
    assert data.name_of("class 05") == "class 05"


@pytest.mark.parametrize(
    ("changes", "novel", "words"),
    [
        ({"n_backbone_classes": 80}, "val", "was trained on 80 classes"),
        ({}, "train", "got 'train'"),
        ({"prototypes": None}, "test", "must hold `prototypes`; backbone.npz has features"),
        ({"labels": np.repeat(np.arange(1, 101), 2)}, "test", "has 100. Subtract 1"),
        ({"labels": np.repeat(NAMES, 2)}, "test", "Labels must be positions"),
        ({"labels": np.arange(100)}, "test", "200 rows"),
        ({"labels": np.full(200, 0.5)}, "test", "Labels must be positions"),
        ({"class_names": NAMES[:99]}, "test", "backbone.npz has 99. Save all"),
        ({"n_backbone_classes": 0}, "test", "from 1 to 100; backbone.npz has 0."),
        ({"n_backbone_classes": 101}, "test", "from 1 to 100; backbone.npz has 101."),
        ({"n_backbone_classes": 63.5}, "test", "backbone.npz has 63.5."),
        ({"n_backbone_classes": np.nan}, "test", "backbone.npz has nan."),
        ({"n_backbone_classes": [64, 80]}, "test", "backbone.npz has 64, 80."),
        ({"n_backbone_classes": "64"}, "test", "one whole number"),
        ({"prototypes": np.eye(99)}, "test", "99 rows and there are 100 class names"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, changes, novel, words):
    with pytest.raises(DataError) as caught:
        load_mini_imagenet(saved(tmp_path, **changes), novel=novel)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_format_is_refused(tmp_path):
    (tmp_path / "features.mat").write_bytes(b"MATLAB")
    with pytest.raises(DataError, match=r"must end in \.npz; got features\.mat\. Save"):
        load_mini_imagenet(tmp_path / "features.mat")


@pytest.mark.parametrize(
    ("name", "novel", "n_base", "n_novel", "per_class"),
    [("wrn28_10", "test", 80, 20, 600), ("wrn28_10_train64", "val", 64, 16, 400)],
)
def test_the_real_files(name, novel, n_base, n_novel, per_class):
    path = ROOT / "mini_imagenet" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not here; set ZONKEY_DATA to the folder of the research data")
    data = load_mini_imagenet(path, novel=novel)
    assert (len(data.seen_classes), len(data.unseen_classes)) == (n_base, n_novel)
    assert (len(data.split.base), len(data.split.novel)) == (150 * n_base, per_class * n_novel)
    assert data.shape[1] == 640
    assert data.prototypes.n_dimensions == 384
    with np.load(path) as file:
        numbers = file["labels"]
        assert data.y[::999].tolist() == file["class_names"][numbers[::999]].tolist()
        expected = file["prototypes"][numbers[5]]
    np.testing.assert_array_equal(data.prototypes[data.y[5]], expected)
