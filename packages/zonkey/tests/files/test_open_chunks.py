"""Files as chunks: the same samples in every format, resumed without reading what is done."""

import os
import sys
import warnings
from functools import partial

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
import zarr
from data_files import KINDS, save_samples

from zonkey import Chunks, Moments, StorageError
from zonkey.encoders.collection import is_pictures
from zonkey.files.chunks import open_chunks
from zonkey.files.own import load_features
from zonkey.files.streams import FeatureStream
from zonkey.files.tables import read_features
from zonkey.streaming.reduce import ClassSums

N, D = 53, 3
RNG = np.random.default_rng(0)
X = RNG.integers(-50, 50, (N, D)).astype(np.float32) / 4
Y = np.array(["ass", "horse", "mule"])[RNG.integers(0, 3, N)]
MARKS = np.array(["train", "val", "test"])[np.arange(N) % 3]
NAMES = [f"f{i}" for i in range(D)]
PROTOTYPES = {"ass": [1.0, 0.0], "horse": [0.5, 2.0], "mule": [0.0, 1.0], "zebra": [2.0, 2.0]}


def frame():
    return pd.DataFrame(X, columns=NAMES).assign(label=Y, split=MARKS)


def save(kind, folder, marks=MARKS):
    return save_samples(kind, folder, X, Y, split=marks)


MARKED = [kind for kind in KINDS if kind not in ("npy", "bare_zarr")]
OF_PARQUET = ("parquet", "folder")


def moments(chunks):
    return Moments(PROTOTYPES, n_reserve=4, seed=2).update(chunks)


CORNERS = ["npz", "csv", "folder"]  # each kind of block once: arrays, text, groups of rows


@pytest.mark.parametrize(
    ("kind", "rows"),
    [*[(kind, 8) for kind in KINDS], *[(kind, rows) for kind in CORNERS for rows in (1, None)]],
)
def test_the_same_samples_in_every_format(tmp_path, kind, rows):
    seen = []
    chunks = open_chunks(*save(kind, tmp_path), rows=rows, progress=lambda *a: seen.append(a))
    found = list(chunks)
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in found]), X)
    assert np.concatenate([chunk.y for chunk in found]).tolist() == Y.tolist()
    single = kind not in ("csv", "tsv", "jsonl")
    assert {chunk.X.dtype.itemsize for chunk in found} == {
        8 if kind in ("csv", "tsv", "jsonl", *OF_PARQUET) else 4
    }
    lengths = [len(chunk.X) for chunk in found]
    assert max(lengths) <= (rows or N)
    if kind not in OF_PARQUET:
        assert len(lengths) == -(-N // (rows or N))
    assert chunks.n_rows == (N if single else None)
    assert chunks.feature_names == (tuple(NAMES) if kind in ("csv", "tsv", *OF_PARQUET) else None)
    learned = (MARKS != "test") if kind in MARKED else np.full(N, True)
    expected = Moments(PROTOTYPES, n_reserve=4, seed=2).update(X[learned], Y[learned])
    result = moments(chunks)
    np.testing.assert_allclose(result.A0, expected.A0, rtol=1e-12)
    assert result.counts.tolist() == expected.counts.tolist()
    np.testing.assert_array_equal(result.samples_of("ass"), expected.samples_of("ass"))
    totals = [n for _, n, _ in seen]
    assert learned.sum() in totals
    if single:
        assert seen[-1] == ("moments", N, N)  # those that were left out, too


@pytest.mark.parametrize(
    ("kind", "first"),
    [*[(kind, 3) for kind in KINDS], *[(kind, first) for kind in CORNERS for first in (1, 5, 6)]],
)
def test_blocks_from_some_number_on(tmp_path, kind, first):
    path, *labels = save(kind, tmp_path)
    stream = FeatureStream(path, rows=8, with_labels=True, labels=labels[0] if labels else None)
    blocks = list(stream)
    stream.first = first
    late = list(stream)
    assert len(late) == len(blocks) - first
    for a, b in zip(late, blocks[first:], strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        assert a.labels.tolist() == b.labels.tolist()
    assert stream.done == stream.total


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_pass_goes_on(tmp_path, kind):
    given = save(kind, tmp_path)
    expected = moments(open_chunks(*given, rows=8))
    seen = []

    def progress(*args):
        seen.append(args)
        if len(seen) == 4:
            raise KeyboardInterrupt

    options = {"rows": 8, "checkpoint": tmp_path / "kept", "every": 3}
    with pytest.raises(KeyboardInterrupt):
        moments(open_chunks(*given, **options, progress=progress))
    found = moments(open_chunks(*given, **options))
    assert found.A0.tobytes() == expected.A0.tobytes()
    assert found.class_sums.tobytes() == expected.class_sums.tobytes()
    assert not (tmp_path / "kept").exists()


def test_what_was_done_is_not_decoded(tmp_path, monkeypatch):
    (path,) = save("folder", tmp_path)
    groups, iterate = [], parquet.ParquetFile.iter_batches

    def noting_groups(self, *args, row_groups=None, **options):
        groups.append(row_groups)
        options |= {} if row_groups is None else {"row_groups": row_groups}
        return iterate(self, *args, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", noting_groups)
    stream = FeatureStream(path, rows=8, first=3)  # a.parquet has two row groups, of 2 and 1 blocks
    np.testing.assert_array_equal(np.concatenate([block.X for block in stream]), X[17:])
    n = len(groups)
    list(FeatureStream(path, rows=8))
    assert len(groups) - n == n + 2  # the first rows show what the columns are
    reads = []
    (arrays,) = save("h5", tmp_path)
    original = h5py.Dataset.__getitem__

    def noting(self, key, *args, **options):
        if self.name == "/features":
            reads.append(key)
        return original(self, key, *args, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noting)
    list(FeatureStream(arrays, rows=20, first=1))
    assert reads == [slice(20, 40), slice(40, 60)]  # slices, never the whole


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_purpose(tmp_path, kind):
    chunks = open_chunks(*save(kind, tmp_path), rows=8)
    learned = (MARKS != "test") if kind in MARKED else np.full(N, True)
    for purpose, rows in {"learn": learned, "score": np.full(N, True)}.items():
        sums = chunks.reduce(ClassSums(), "sums", purpose=purpose)
        assert sums.counts.sum() == rows.sum()
    assert sum(len(chunk.X) for chunk in chunks.read_labeled()) == learned.sum()
    assert sum(len(chunk.X) for chunk in chunks) == N


def test_rows_to_score_need_a_label_and_no_mark(tmp_path):
    labels = [None if i % 4 == 0 else label for i, label in enumerate(Y)]
    frame().assign(label=labels, split="?").to_csv(tmp_path / "x.csv", index=False)
    chunks = open_chunks(tmp_path / "x.csv", rows=2)
    found = chunks.reduce(ClassSums(), "sums", purpose="score")
    assert found.counts.sum() == sum(label is not None for label in labels)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_that_was_written_again_is_another(tmp_path, kind):
    def progress(_, n_rows, __):
        if n_rows >= 24:
            raise KeyboardInterrupt

    given = save(kind, tmp_path)
    options = {"rows": 8, "checkpoint": tmp_path / "kept", "every": 1}
    with pytest.raises(KeyboardInterrupt):
        moments(open_chunks(*given, **options, progress=progress))
    os.utime(given[-1], ns=(1, 1))  # of npy, the labels
    with pytest.raises(StorageError, match="written for other data"):
        moments(open_chunks(*given, **options))


def test_rows_without_a_label_are_predicted_and_not_learned(tmp_path):
    labels = [None if i % 4 == 0 else label for i, label in enumerate(Y)]
    frame().assign(label=labels).drop(columns="split").to_csv(tmp_path / "x.csv", index=False)
    chunks = open_chunks(tmp_path / "x.csv", rows=2)
    assert moments(chunks).n_samples == np.count_nonzero(np.arange(N) % 4)
    np.testing.assert_array_equal(chunks.apply(lambda X: X[:, 0]), X[:, 0])


def test_chunks_that_are_left_out_as_a_whole(tmp_path):
    marks = np.where(np.arange(N) // 10 % 2 == 0, "Test ", "train")
    frame().assign(Split=marks).drop(columns="split").to_parquet(tmp_path / "x.parquet")
    found = moments(open_chunks(tmp_path / "x.parquet", rows=5, checkpoint=tmp_path / "kept"))
    assert found.n_samples == np.sum(marks == "train")
    frame().assign(split="test").to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="at least one sample; got no chunk"):
        moments(open_chunks(tmp_path / "x.parquet"))


def test_files_without_labels_can_be_predicted_only(tmp_path):
    np.save(tmp_path / "x.npy", X)
    frame()[NAMES].to_parquet(tmp_path / "x.parquet")
    for name in ("x.npy", "x.parquet"):
        chunks = open_chunks(tmp_path / name, rows=9)
        assert {chunk.y is None for chunk in chunks} == {True}
        with pytest.raises(ValueError, match="must have labels"):
            moments(chunks)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [*[(dtype, "npz") for dtype in ("f2", "i1", "u1", "i2", "u2", "i4", "f8")],
     ("f2", "zarr"), ("i4", "zarr"), ("i1", "parquet"), ("f8", "parquet")],
)  # fmt: skip
def test_narrow_numbers_become_single_precision(tmp_path, dtype, kind):
    values = (X + 20).astype(dtype)
    (path,) = save_samples(kind, tmp_path, values, Y)
    found = list(open_chunks(path, rows=10))
    # Text has no type, so that of tables depends on the numbers alone.
    width = 8 if dtype in ("i4", "f8") or kind == "parquet" else 4
    assert {chunk.X.dtype.itemsize for chunk in found} == {width}
    np.testing.assert_array_equal(np.concatenate([c.X for c in found]), values.astype(float))
    pd.DataFrame(PROTOTYPES).T.to_csv(tmp_path / "p.csv", index_label="label")
    data = load_features(path, tmp_path / "p.csv")
    np.testing.assert_array_equal(data.X_train, values.astype(float))


def test_folders_and_stores_are_data_sets_too_and_no_pictures(tmp_path):
    marks = np.where(MARKS == "val", "train", MARKS)  # marks whole classes in data sets
    pd.DataFrame(PROTOTYPES).T.to_csv(tmp_path / "p.csv", index_label="label")
    for kind in ("folder", "zarr", "zarr_zip"):
        (path,) = save(kind, tmp_path, marks)
        data = load_features(path, tmp_path / "p.csv")
        np.testing.assert_array_equal(data.X_train, X[MARKS != "test"])
        assert not is_pictures(path)
    assert is_pictures(tmp_path)
    assert is_pictures(tmp_path / "photos.zip")
    features, labels = read_features(tmp_path / "x.zarr")
    np.testing.assert_array_equal(features.values(), X)
    assert labels.tolist() == Y.tolist()


def other_columns(folder):
    (path,) = save("folder", folder)
    frame().rename(columns={"f1": "g1"}).to_parquet(path / "b.parquet")
    return (path,)


def wrong_mark(folder):
    frame().assign(split="maybe").to_csv(folder / "x.csv", index=False)
    return (folder / "x.csv",)


def bad_cell(folder):
    (path,) = save("folder", folder)
    frame()[:9].assign(f2=np.where(np.arange(9) == 6, np.nan, 1.0)).to_parquet(path / "b.parquet")
    return (path,)


def damaged_store(folder):
    (path,) = save("zarr_zip", folder)
    path.write_bytes(path.read_bytes()[:300])
    return (path,)


FAULTS = [
    (other_columns, {}, "same columns; b.parquet lacks 'f1', unlike a.parquet"),
    (wrong_mark, {}, "must say train, val or test; row 2 of x.csv says 'maybe'"),
    (bad_cell, {}, "Row 7, column 'f2' of b.parquet is empty"),
    (lambda folder: (folder,), {}, "must be a file; it is a folder"),
    (damaged_store, {}, r"x\.zarr\.zip must"),
    (lambda folder: (folder / "x.npy",), {}, "does not exist"),
    (partial(save, "npz"), {"rows": 0}, "`rows` must be an integer of at least 1"),
    (partial(save, "npz"), {"features_key": "z"}, "`features_key` must name an array of x.npz"),
    (partial(save, "csv"), {"labels": "y.txt"}, "x.csv is a table"),
    (partial(save, "npy"), {"labels_key": "y"}, "`labels_key` must be None"),
    (partial(save, "csv"), {"label_column": "kind"}, "must name a column of x.csv; got 'kind'"),
]


@pytest.mark.parametrize(("save", "options", "words"), FAULTS)
def test_faults_are_one_line(tmp_path, save, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        moments(open_chunks(*save(tmp_path), **options))
    assert "\n" not in str(caught.value)


def test_zarr_is_an_extra(tmp_path, monkeypatch):
    (path,) = save("zarr", tmp_path)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r'needs zarr. Run: .*"zonkey\[data\]"'):
        open_chunks(path)


def test_text_of_fixed_width_in_a_store(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("features", data=X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the writer warns of its format
        group.create_array("labels", data=Y.astype("S"))
    assert isinstance(open_chunks(tmp_path / "x.zarr"), Chunks)
    assert moments(open_chunks(tmp_path / "x.zarr")).n_samples == N
