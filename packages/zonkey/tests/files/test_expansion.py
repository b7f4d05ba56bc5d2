"""Files that would expand to far more than they hold are refused before they are read."""

import zipfile

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from zonkey.files import readers
from zonkey.files.check import check_files
from zonkey.files.dataset import DataError
from zonkey.files.own import load_features
from zonkey.files.tables import read_features

ZEROS = np.zeros((1000, 3000))
LABELS = np.repeat(["horse", "tiger"], 500)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    """Let 64 KiB be much, so that the files are written quickly."""
    monkeypatch.setattr(readers, "_LARGE", 1 << 16)


def npz(folder, save=np.savez_compressed):
    save(folder / "x.npz", features=ZEROS, labels=LABELS)
    return folder / "x.npz"


def h5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("features", data=ZEROS, compression="gzip")
        file["labels"] = LABELS.astype("S")
    return folder / "x.h5"


def unwritten_h5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("features", shape=(1000, 300), dtype="f8", chunks=(10, 10))
        file["labels"] = LABELS.astype("S")
    return folder / "x.h5"


def parquet(folder):
    frame = pd.DataFrame({f"f{j}": np.zeros(200_000) for j in range(3)})
    frame.assign(label="horse").to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def pt(folder):
    torch.save({"features": torch.tensor(ZEROS), "labels": LABELS.tolist()}, folder / "whole.pt")
    with (
        zipfile.ZipFile(folder / "whole.pt") as whole,
        zipfile.ZipFile(folder / "x.pt", "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in whole.namelist():
            small.writestr(name, whole.read(name))
    return folder / "x.pt"


@pytest.mark.parametrize("write", [npz, h5, unwritten_h5, parquet, pt], ids=lambda w: w.__name__)
def test_nearly_constant_arrays_are_not_read(tmp_path, write):
    path = write(tmp_path)
    report = check_files([path])
    (problem,) = report.problems
    assert "must not be a decompression bomb" in problem
    assert "of the file expand to 0.0 GB" in problem
    assert "save it without compression" in problem
    assert path.name in problem


def test_without_compression_they_are_read(tmp_path):
    features, labels = read_features(npz(tmp_path, np.savez))
    assert features.values().shape == ZEROS.shape
    assert len(labels) == len(LABELS)


def test_values_that_exceed_the_memory_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "total_memory", lambda: 1e6)
    features, _ = read_features(npz(tmp_path, np.savez))
    expected = (
        r"`features` in x\.npz must fit into memory; it needs 0\.0 GB of 0\.0 GB\. Save fewer"
    )
    with pytest.raises(DataError, match=expected):
        features.values()


def test_labels_of_a_large_width_are_not_read_either(tmp_path):
    labels = np.array(["horse", "tiger"] * 500, dtype="<U5000")
    np.savez_compressed(tmp_path / "x.npz", features=np.eye(1000, 2), labels=labels)
    (tmp_path / "p.csv").write_text("class,a\nhorse,1\ntiger,2\n")
    with pytest.raises(DataError, match=r"`labels` in x\.npz must not be a decompression"):
        load_features(tmp_path / "x.npz", tmp_path / "p.csv")


def test_a_long_header_is_not_read_to_its_end(tmp_path, monkeypatch):
    header = b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little") + b" " * (1 << 20)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", header)
    with pytest.raises(DataError, match=r"x\.npz must be a whole \.npz file"):
        read_features(tmp_path / "x.npz")


def test_the_memory_of_this_machine_is_known():
    assert readers.total_memory() > 1e8
