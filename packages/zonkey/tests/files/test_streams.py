"""Blocks of rows: the same values in every format, bounded memory, one line for every fault."""

import io
import json
import sys
import tracemalloc

import h5py
import numpy as np
import pandas as pd
import pytest
from refusals import refusal

from zonkey.files import formats
from zonkey.files.dataset import DataError
from zonkey.files.formats import cells
from zonkey.files.streams import FeatureStream

N, D = 23, 5
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
LABELS = np.array(["ass", "zebra, plains"])[np.arange(N) % 2]
LABELS[3] = ""
FEATURES = [f"f{i}" for i in range(D)]


def table():
    frame = pd.DataFrame(X, columns=FEATURES)
    frame.insert(0, "id", np.arange(N) + 100)
    frame.insert(2, "file", [f"a_{i}.jpg" for i in range(N)])  # between the features
    return frame.assign(label=[label or None for label in LABELS])


def save_vectors(path):
    rows = zip(table().to_dict("records"), X.astype(float).tolist(), strict=True)
    lines = [
        {key: row[key] or None for key in ("id", "file", "label")} | {"features": x}
        for row, x in rows
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines).replace("NaN", "null"))


TABLES = {
    "x.csv": lambda path: table().to_csv(path, index=False),
    "x.tsv": lambda path: table().to_csv(path, index=False, sep="\t"),
    "x.parquet": lambda path: table().to_parquet(path, index=False, row_group_size=10),
    "x.jsonl": lambda path: table().to_json(
        path, orient="records", lines=True, double_precision=15
    ),
    "vectors.jsonl": save_vectors,
}


def joined(blocks):
    return np.concatenate([block.X for block in blocks])


def column(blocks, name):
    return [cell for block in blocks for cell in cells(block.carried[name])]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("block", [1, 4 * D, 10**6])
def test_tables_in_blocks(tmp_path, name, block):
    TABLES[name](tmp_path / name)
    stream = FeatureStream(tmp_path / name, block=block, n_features=D, with_labels=True)
    blocks = list(stream)
    assert len(blocks) == {1: N, 4 * D: -(-N // 4), 10**6: 1}[block] or name == "x.parquet"
    np.testing.assert_allclose(joined(blocks), X, rtol=1e-6)
    # The lines of JSON have the digits of double precision.
    assert joined(blocks).dtype == (np.float64 if name.endswith("jsonl") else np.float32)
    assert np.concatenate([block.labels for block in blocks]).tolist() == LABELS.tolist()
    assert [str(cell) for cell in column(blocks, "id")] == [str(i + 100) for i in range(N)]
    assert column(blocks, "file") == table()["file"].tolist()
    assert [*blocks[0].carried] == ["id", "file", "label"]
    assert stream.done == stream.total > 0
    assert stream.columns == (None if name == "vectors.jsonl" else tuple(FEATURES))


@pytest.mark.parametrize("name", [name for name in TABLES if name != "vectors.jsonl"])
def test_known_features_are_taken_by_name_and_in_their_order(tmp_path, name):
    TABLES[name](tmp_path / name)
    wanted = ["f3", "f0"]
    stream = FeatureStream(tmp_path / name, n_features=2, feature_names=wanted)
    blocks = list(stream)
    np.testing.assert_allclose(joined(blocks), X[:, [3, 0]], rtol=1e-6)
    block = blocks[0]
    assert [*block.carried] == ["id", "file", "f1", "f2", "f4", "label"]
    assert block.labels is None
    with pytest.raises(DataError, match=r"must have the 2 columns .*; 'g' is missing"):
        list(FeatureStream(tmp_path / name, feature_names=["f0", "g"]))


def test_heading(tmp_path):
    TABLES["x.csv"](tmp_path / "x.csv")
    stream = FeatureStream(tmp_path / "x.csv", label_column="file")
    list(stream)
    assert (stream.columns, stream.unused) == (tuple(FEATURES), ("id", "label"))
    np.save(tmp_path / "x.npy", X)
    stream = FeatureStream(tmp_path / "x.npy")
    list(stream)
    assert (stream.columns, stream.unused) == (None, ())


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("npz", 1), ("npz", 7), ("npz", 1000), ("packed", 7), ("by column", 7), ("npy", 7), ("h5", 7)],
)
def test_arrays_in_blocks(tmp_path, kind, rows):
    y, ids = np.array(["a", "b"])[np.arange(N) % 2], np.arange(N) * 2
    path = tmp_path / f"x.{ {'npy': 'npy', 'h5': 'h5'}.get(kind, 'npz') }"
    options = {}
    if kind == "npy":
        np.save(path, X)
        (tmp_path / "y.txt").write_text("\n".join(y))
        options["labels"] = tmp_path / "y.txt"
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["features"], file["labels"], file["ids"] = X, y.astype("S"), ids
    else:
        save = np.savez_compressed if kind == "packed" else np.savez
        values = np.asarray(X, order="F" if kind == "by column" else "C")
        save(path, features=values, labels=y, ids=ids)
    stream = FeatureStream(path, block=rows * D, n_features=D, with_labels=True, **options)
    blocks = list(stream)
    assert len(blocks) == -(-N // rows)
    np.testing.assert_array_equal(joined(blocks), X)
    assert joined(blocks).dtype == np.float32
    assert np.concatenate([block.labels for block in blocks]).tolist() == y.tolist()
    assert (stream.done, stream.total) == (N, N)
    if kind != "npy":
        assert column(blocks, "ids") == ids.tolist()


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet", "npz", "npy"])
def test_standard_input(tmp_path, monkeypatch, format):
    path = tmp_path / f"x.{format}"
    savers = {"npz": lambda path: np.savez(path, features=X), "npy": lambda path: np.save(path, X)}
    (TABLES.get(path.name) or savers[format])(path)
    monkeypatch.setattr(sys, "stdin", Stdin(path.read_bytes()))
    blocks = list(FeatureStream("-", format=format, block=10))
    np.testing.assert_allclose(joined(blocks), X, rtol=1e-6)
    if format in ("csv", "tsv", "jsonl"):
        assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.npz", "x.parquet"])
def test_memory_depends_on_the_block_and_not_on_the_file(tmp_path, monkeypatch, name):
    monkeypatch.setattr(formats, "LOOKED_AT", 50)  # rows that are held to see what columns are
    peaks = {}
    for n in (1000, 6000):
        values = np.random.default_rng(0).random((n, 50), dtype=np.float32)
        path = tmp_path / name
        frame = pd.DataFrame(values, columns=[f"f{i}" for i in range(50)])
        if name == "x.npz":
            np.savez_compressed(path, features=values)
        elif name == "x.parquet":
            frame.to_parquet(path)
        elif name == "x.csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)
        next(iter(FeatureStream(path)))  # packages are imported
        tracemalloc.start()
        assert sum(len(block.X) for block in FeatureStream(path, block=50 * 50)) == n
        peaks[n] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[6000] < 1.5 * peaks[1000] + 50_000
    assert peaks[6000] < 6000 * 50 * 4  # the values alone would need more


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("id,f,g\n1,0.5,1\n", {"n_features": 3}, "3 features of the model; it has 2 ('f', 'g')"),
        ("id,f,g\n1,0.5,1\n", {"n_features": 1}, "has 2 ('f', 'g'). Remove non-feature columns"),
        ("id,f\n1,2\n", {"with_labels": True}, "its columns are 'id', 'f', with no column of text"),
    ],
)
def test_faults_of_a_table_are_one_line(tmp_path, text, options, words):
    (tmp_path / "x.csv").write_text(text)
    assert words in refusal(list, FeatureStream(tmp_path / "x.csv", **options))


LINES = [{"id": 1, "features": [1, 2.5]}, {"id": 2, "features": [3, 4.5]}]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1, 2]", "line 3 is not"),
        ("{", "line 3 is not"),
        ('{"id": 3, "features": [1]}', "a list of 2 numbers in every line .*; line 3 has 1"),
        ('{"id": 3}', "line 3 has no list"),
        ('{"id": 3, "features": [1, "2"]}', r"Row 3, column 'features\[1\]' of x.jsonl must be"),
        ('{"id": 3, "features": [1, true]}', "got 'True'"),
        ('{"id": 3, "features": [1, null]}', "is empty"),
        ('{"id": 3, "features": [1, NaN]}', "Row 3, column 'features.1.' of x.jsonl is empty"),
        ('{"id": 3, "features": [1, 1%s]}' % ("0" * 400), "must be a finite number"),
        ('{"id": 3, "note": 1, "features": [1, 2]}', "line 3 also has 'note'"),
    ],
)
def test_faults_of_lines(tmp_path, line, words):
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join([*map(json.dumps, LINES), "", line]).replace("\n\n", "\n"))
    with pytest.raises(DataError, match=words):
        list(FeatureStream(path))


def test_a_later_line_may_lack_what_is_carried(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"f0": 1, "file": "a", "tags": ["x"]}\n\n{"f0": 2.5}\n')
    (block,) = FeatureStream(path)
    assert block.X.tolist() == [[1.0], [2.5]]
    assert block.carried == {"file": ["a", None], "tags": [["x"], None]}


def test_parquet_with_an_index_and_cells_that_cannot_be_carried(tmp_path):
    frame = table().assign(image=[b"x"] * N, box=[[1, 2]] * N, day=pd.Timestamp("2020-01-02"))
    frame.set_index(np.arange(N) + 0.5).to_parquet(tmp_path / "x.parquet")
    (block,) = FeatureStream(tmp_path / "x.parquet", n_features=D)
    np.testing.assert_array_equal(block.X, X)
    assert [*block.carried] == ["id", "file", "label", "day", "__index_level_0__"]
    frame.loc[4, "f2"] = np.nan
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"Row 5, column 'f2' of x\.parquet is empty"):
        list(FeatureStream(tmp_path / "x.parquet"))


def test_arrays_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "x.npz", features=X)
    with pytest.raises(DataError, match=r"`features` in x.npz must have the 4 features .* has 5"):
        list(FeatureStream(tmp_path / "x.npz", n_features=4))
    with pytest.raises(DataError, match=r"Features need labels; x\.npz holds none"):
        list(FeatureStream(tmp_path / "x.npz", with_labels=True))
    np.savez(tmp_path / "x.npz", features=np.where(np.arange(N)[:, None] == 9, np.nan, X))
    with pytest.raises(DataError, match=r"row 9 of `features` in x\.npz holds NaN"):
        list(FeatureStream(tmp_path / "x.npz", block=D * 4))
    content = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"must be a whole \.npz file"):
        list(FeatureStream(tmp_path / "x.npz"))


def test_files_that_cannot_be_streamed(tmp_path):
    (tmp_path / "x.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"must end in \.csv or \.tsv"):
        list(FeatureStream(tmp_path / "x.xlsx"))
