"""Files as chunks: the same samples in every format, resumed without reading what is done."""

import json
import os
import sys
import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
import zarr

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


def save_npy(folder):
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    return folder / "x.npy", folder / "y.npy"


def save_npz(folder):
    np.savez_compressed(folder / "x.npz", features=X, labels=Y, split=MARKS)
    return (folder / "x.npz",)


def save_h5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file["features"], file["labels"] = X, Y.astype("S")
        file["split"] = MARKS.astype(object)
    return (folder / "x.h5",)


def save_zarr(folder, store="x.zarr"):
    group = zarr.open_group(folder / store if isinstance(store, str) else store, mode="w")
    group.create_array("features", data=X, chunks=(7, D))
    group.create_array("labels", data=Y.astype(np.dtypes.StringDType()))
    group.create_array("split", data=MARKS.astype(np.dtypes.StringDType()))
    return (folder / "x.zarr",)


def save_zarr_zip(folder):
    with zarr.storage.ZipStore(folder / "x.zarr.zip", mode="w") as store:
        save_zarr(folder, store)
    return (folder / "x.zarr.zip",)


def save_bare_zarr(folder):
    zarr.create_array(folder / "bare.zarr", data=X, chunks=(9, D))
    (folder / "y.txt").write_text("\n".join(Y))
    return folder / "bare.zarr", folder / "y.txt"


def save_csv(folder):
    frame().to_csv(folder / "x.csv", index=False)
    return (folder / "x.csv",)


def save_tsv(folder):
    frame().to_csv(folder / "x.tsv", index=False, sep="\t")
    return (folder / "x.tsv",)


def save_jsonl(folder):
    rows = zip(X.tolist(), Y.tolist(), MARKS.tolist(), strict=True)
    lines = [json.dumps({"features": x, "label": y, "split": mark}) for x, y, mark in rows]
    (folder / "x.jsonl").write_text("\n".join(lines))
    return (folder / "x.jsonl",)


def save_parquet(folder):
    frame().to_parquet(folder / "x.parquet", row_group_size=20)
    return (folder / "x.parquet",)


def save_folder(folder):
    (folder / "parts").mkdir()
    for name, rows in (("b", slice(17, 40)), ("a", slice(0, 17)), ("c", slice(40, N))):
        frame()[rows].to_parquet(folder / "parts" / f"{name}.parquet", row_group_size=11)
    (folder / "parts" / "_SUCCESS").write_text("")
    return (folder / "parts",)


SAVERS = {
    function.__name__.removeprefix("save_"): function
    for function in (
        save_npy, save_npz, save_h5, save_zarr, save_zarr_zip, save_bare_zarr, save_csv, save_tsv,
        save_jsonl, save_parquet, save_folder,
    )
}  # fmt: skip
MARKED = [kind for kind in SAVERS if kind not in ("npy", "bare_zarr")]
OF_PARQUET = ("parquet", "folder")


def moments(chunks):
    return Moments(PROTOTYPES, n_reserve=4, seed=2).update(chunks)


@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("rows", [1, 8, None])
def test_the_same_samples_in_every_format(tmp_path, kind, rows):
    seen = []
    chunks = open_chunks(*SAVERS[kind](tmp_path), rows=rows, progress=lambda *a: seen.append(a))
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


@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("first", [1, 3, 5, 6])
def test_blocks_from_some_number_on(tmp_path, kind, first):
    path, *labels = SAVERS[kind](tmp_path)
    stream = FeatureStream(path, rows=8, with_labels=True, labels=labels[0] if labels else None)
    blocks = list(stream)
    stream.first = first
    late = list(stream)
    assert len(late) == len(blocks) - first
    for a, b in zip(late, blocks[first:], strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        assert a.labels.tolist() == b.labels.tolist()
    assert stream.done == stream.total


@pytest.mark.parametrize("kind", SAVERS)
def test_an_interrupted_pass_goes_on(tmp_path, kind):
    given = SAVERS[kind](tmp_path)
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
    (path,) = save_folder(tmp_path)
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
    (arrays,) = save_h5(tmp_path)
    original = h5py.Dataset.__getitem__

    def noting(self, key, *args, **options):
        if self.name == "/features":
            reads.append(key)
        return original(self, key, *args, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noting)
    list(FeatureStream(arrays, rows=20, first=1))
    assert reads == [slice(20, 40), slice(40, 60)]  # slices, never the whole


@pytest.mark.parametrize("kind", SAVERS)
def test_rows_of_each_purpose(tmp_path, kind):
    chunks = open_chunks(*SAVERS[kind](tmp_path), rows=8)
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

    given = SAVERS[kind](tmp_path)
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


@pytest.mark.parametrize("dtype", ["f2", "i1", "u1", "i2", "u2", "i4", "f8"])
@pytest.mark.parametrize("ending", ["npz", "zarr", "parquet"])
def test_narrow_numbers_become_single_precision(tmp_path, dtype, ending):
    values, path = (X + 20).astype(dtype), tmp_path / f"x.{ending}"
    if ending == "npz":
        np.savez(path, features=values, labels=Y)
    elif ending == "zarr":
        group = zarr.open_group(path, mode="w")
        group.create_array("features", data=values)
        group.create_array("labels", data=Y.astype(np.dtypes.StringDType()))
    else:
        pd.DataFrame(values, columns=NAMES).assign(label=Y).to_parquet(path)
    found = list(open_chunks(path, rows=10))
    # Text has no type, so that of tables depends on the numbers alone.
    width = 8 if dtype in ("i4", "f8") or ending == "parquet" else 4
    assert {chunk.X.dtype.itemsize for chunk in found} == {width}
    np.testing.assert_array_equal(np.concatenate([c.X for c in found]), values.astype(float))
    pd.DataFrame(PROTOTYPES).T.to_csv(tmp_path / "p.csv", index_label="label")
    data = load_features(path, tmp_path / "p.csv")
    np.testing.assert_array_equal(data.X_train, values.astype(float))


def test_folders_and_stores_are_data_sets_too(tmp_path, monkeypatch):
    marks = np.where(MARKS == "val", "train", MARKS)  # marks whole classes in data sets
    monkeypatch.setitem(globals(), "MARKS", marks)
    pd.DataFrame(PROTOTYPES).T.to_csv(tmp_path / "p.csv", index_label="label")
    for kind in ("folder", "zarr", "zarr_zip"):
        (path,) = SAVERS[kind](tmp_path)
        data = load_features(path, tmp_path / "p.csv")
        np.testing.assert_array_equal(data.X_train, X[MARKS != "test"])
    features, labels = read_features(tmp_path / "x.zarr")
    np.testing.assert_array_equal(features.values(), X)
    assert labels.tolist() == Y.tolist()


def test_folders_and_stores_of_features_are_no_pictures(tmp_path):
    for kind in ("folder", "zarr", "zarr_zip"):
        assert not is_pictures(*SAVERS[kind](tmp_path))
    assert is_pictures(tmp_path)
    assert is_pictures(tmp_path / "photos.zip")


def other_columns(folder):
    (path,) = save_folder(folder)
    frame().rename(columns={"f1": "g1"}).to_parquet(path / "b.parquet")
    return (path,)


def wrong_mark(folder):
    frame().assign(split="maybe").to_csv(folder / "x.csv", index=False)
    return (folder / "x.csv",)


def bad_cell(folder):
    (path,) = save_folder(folder)
    frame()[:9].assign(f2=np.where(np.arange(9) == 6, np.nan, 1.0)).to_parquet(path / "b.parquet")
    return (path,)


def empty_folder(folder):
    (folder / "none").mkdir()
    return (folder / "none",)


def damaged_store(folder):
    (path,) = save_zarr_zip(folder)
    path.write_bytes(path.read_bytes()[:300])
    return (path,)


FAULTS = [
    (other_columns, {}, "same columns; b.parquet lacks 'f1', unlike a.parquet"),
    (wrong_mark, {}, "must say train, val or test; row 2 of x.csv says 'maybe'"),
    (bad_cell, {}, "Row 7, column 'f2' of b.parquet is empty"),
    (empty_folder, {}, "must be a file; it is a folder"),
    (damaged_store, {}, r"x\.zarr\.zip must"),
    (lambda folder: (folder / "x.npy",), {}, "does not exist"),
    (save_npz, {"rows": 0}, "`rows` must be an integer of at least 1"),
    (save_npz, {"features_key": "z"}, "`features_key` must name an array of x.npz"),
    (save_csv, {"labels": "y.txt"}, "x.csv is a table"),
    (save_npy, {"labels_key": "y"}, "`labels_key` must be None"),
    (save_csv, {"label_column": "kind"}, "`label_column` must name a column of x.csv; got 'kind'"),
]


@pytest.mark.parametrize(("save", "options", "words"), FAULTS)
def test_faults_are_one_line(tmp_path, save, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        moments(open_chunks(*save(tmp_path), **options))
    assert "\n" not in str(caught.value)


def test_zarr_is_an_extra(tmp_path, monkeypatch):
    (path,) = save_zarr(tmp_path)
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
