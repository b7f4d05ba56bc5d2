"""One reader: every odd small file gives the same rows, or the same error, in memory and in chunks.

Each row of the table is a file and what is expected of it. All are read as a whole, in blocks of
one, two and five rows, and by `load_features` and `open_chunks`, as `fit` and `fit --chunks` do.
"""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from zonkey.files.chunks import open_chunks
from zonkey.files.classes import read_prototypes
from zonkey.files.dataset import DataError
from zonkey.files.own import load_features
from zonkey.files.streams import FeatureStream

AB = ["a", "b"]
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")
MANY = "label,f\n" + "a,1\nb,2\n" * 600  # more rows than are looked at


def rows(X, labels, unused=(), **options):
    """Return what is expected of a file that can be read, and options to read it."""
    return {"X": X, "labels": labels, "unused": unused}, options


def error(words, **options):
    """Return what is expected of a file that is refused, and options to read it."""
    return words, options


TEXTS = {
    "plain": ("label,f,g\na,1,2\nb,3,4\n", rows([[1, 2], [3, 4]], AB)),
    "no line end": ("label,f\na,1\nb,3", rows([[1], [3]], AB)),
    "CRLF": ("label,f\r\na,1\r\nb,3\r\n", rows([[1], [3]], AB)),
    "CR": ("label,f\ra,1\rb,3\r", rows([[1], [3]], AB)),
    "BOM": ("\ufefflabel,f\na,1\nb,3\n", rows([[1], [3]], AB)),
    "blank lines at the end": ("label,f\na,1\nb,3\n\n\n", rows([[1], [3]], AB)),
    "empty cells at the end": ("label,f\na,1\nb,3\n,\n,\n", rows([[1], [3]], AB)),
    "blank line": (
        "label,f\na,1\n\nb,3\n",
        error("Row 3, column 'label' of x.csv is empty. Fill it in"),
    ),
    "blank first line": (
        "\nlabel,f\na,1\n",
        error("The first line of x.csv must name the columns; it is blank."),
    ),
    "quotes": ('label,f\n"a, ""b""",1\n"c\nd","3"\n', rows([[1], [3]], ['a, "b"', "c\nd"])),
    "spaces": ("label , f\n a, 1\nb ,3 \n", rows([[1], [3]], [" a", "b "])),
    "open quote": ('label,f\na,1\n"b,3\n', error("row 3 of x.csv has 1")),
    "short row": (
        "label,f\na,1\nb\n",
        error("row 3 of x.csv has 1. Correct it; text that contains a separator needs"),
    ),
    "long row": ("label,f\na,1\nb,3,4\n", error("row 3 of x.csv has 3")),
    "semicolons": ("label;f\na;1,5\n", error("separated by semicolons. Save it with commas")),
    "tabs": ("label\tf\na\t1\n", error("separated by tabs. Rename it to x.tsv")),
    "comment": ("# made by me\nlabel,f\na,1\n", error("row 2 of x.csv has 2")),
    "UTF-16": ("label,f\na,1\n".encode("utf-16"), error("it is UTF-16")),
    "Latin-1": (
        "label,f\na,1\nz\xe9,2\n".encode("latin-1"),
        error("UTF-8 text; byte 0xe9 in line 3 is not. Save"),
    ),
    "empty": ("", error("x.csv is empty. Check what was saved")),
    "blank": ("\n \n", error("x.csv is empty")),
    "heading alone": ("label,f\n", error("x.csv has no row below its heading")),
    "heading without line end": ("label,f", error("x.csv has no row below its heading")),
    "no heading": ("a,1,2\nb,3,4\n", error("The first line of x.csv must name the columns")),
    "no heading, labels first": (
        "horse,0.5,0.7\nzebra,4,5\n",
        error("it holds numbers such as 0.5. Add a heading"),
    ),
    "no heading, numbers only": ("7,8,9\n4,5,7\n", error("it holds numbers such as 7.")),
    "counting heading": ("kind,0,1,2,3,4,5,6,7\na,1,1,1,1,1,1,1,1\n", rows([[1] * 8], ["a"])),
    "wavelengths": ("label,400.5,401.5\na,1,2\nb,1,2\n", rows([[1, 2], [1, 2]], AB)),
    "an odd name": ("001,kind,z\n1,a,3\n2,b,4\n", rows([[1, 3], [2, 4]], AB)),
    "a text beside known labels": (
        "f,kind,y\n1,a,3\n2,b,4\n",
        rows([[1], [2]], ["3", "4"], ["kind"]),
    ),
    "named labels beside known ones": (
        "f,kind,y\n1,a,3\n2,b,4\n",
        rows([[1, 3], [2, 4]], AB, label_column="kind"),
    ),
    "equal names": ("label,f,f\na,1,2\n", error("'f' is column 2 and 3 of x.csv. Rename one")),
    "missing label": ("label,f\na,1\n,2\nb,x\n", error("Row 3, column 'label' of x.csv is empty")),
    "missing cell": ("label,f\na,1\nb,\n", error("Row 3, column 'f' of x.csv is empty")),
    "NaN": ("label,f\na,1\nb,NaN\n", error("Row 3, column 'f' of x.csv is empty")),
    "infinity": ("label,f\na,1\nb,Inf\n", error("must be a finite number; got 'Inf'")),
    "too large": ("label,f\na,1\nb,1e999\n", error("must be a finite number; got '1e999'")),
    "hexadecimal": ("label,f\na,1\nb,0x10\n", error("must be a finite number; got '0x10'")),
    "underscore": ("label,f\na,1\nb,1_0\n", error("must be a finite number; got '1_0'")),
    "thousands": ('label,f\na,1\nb,"1,000"\n', error("must be a finite number; got '1,000'")),
    "signs": ("label,f,g\na,+1,-.5\nb,1e2,5.\n", rows([[1, -0.5], [100, 5]], AB)),
    "the first bad cell": ("label,f,g\na,1,2\nb,1,y\nb,x,1\n", error("Row 3, column 'g'")),
    "late text": (
        MANY + "a,x\n",
        error("Row 1202, column 'f' of x.csv must be a finite number; got 'x'. Correct it"),
    ),
    "long number": (
        "label,f\na,0.12345678901234567\nb,2\n",
        rows([[0.12345678901234567], [2]], AB),
    ),
    "long cell": (f"label,f,note\na,1,{'x' * 200_000}\nb,3,y\n", rows([[1], [3]], AB, ["note"])),
    "longer row": (f"label,f,note\na,1,{'x' * 3_000_000}\nb,3,y\n", rows([[1], [3]], AB, ["note"])),
    "labels like numbers": (
        "label,f\n001,1\n1,3\n1.0,4\n",
        rows([[1], [3], [4]], ["001", "1", "1.0"]),
    ),
    "labels like nothing": ("label,f\nNA,1\nnull,3\n", rows([[1], [3]], ["NA", "null"])),
    "text as labels": ("f,kind\n1,a\n3,b\n", rows([[1], [3]], AB)),
    "two texts": (
        "f,kind,note\n1,a,x\n3,b,y\n",
        error("'f', 'kind', 'note', with 2 columns of text. Rename one, or pass `label_column`"),
    ),
    "named labels": (
        "f,kind,note\n1,a,x\n3,b,y\n",
        rows([[1], [3]], AB, ["note"], label_column="kind"),
    ),
    "no such labels": ("label,f\na,1\n", error("got 'kind'", label_column="kind")),
    "truth": ("label,f,ok\na,1,True\nb,3,False\n", rows([[1], [3]], AB, ["ok"])),
    "id": ("id,label,f,x_id\n7,a,1,8\n9,b,3,2\n", rows([[1], [3]], AB, ["id", "x_id"])),
    "index without a name": (",label,f\n0,a,1\n1,b,3\n", rows([[1], [3]], AB, [""])),
    "index": ("index,label,f\n1,a,1\n2,b,3\n", rows([[1], [3]], AB, ["index"])),
    "Unnamed: 0": ("Unnamed: 0,label,f\n0,a,1\n1,b,3\n", rows([[1], [3]], AB, ["Unnamed: 0"])),
    "an index that says something": ("index,label\n5,a\n3,b\n", rows([[5], [3]], AB)),
    "no name": (
        ",label,f\n5,a,1\n3,b,3\n",
        error("column 1 of x.csv has none. If it numbers the rows, save without"),
    ),
    "named features": (
        "label,f1,f2,year\na,1,2,9\nb,3,4,9\n",
        rows([[1, 2], [3, 4]], AB, ["year"], feature_columns=["f*"]),
    ),
    "no such features": ("label,f\na,1\n", error("got 'g*'", feature_columns=["g*"])),
    "named id": (
        "label,f,year\na,1,9\nb,3,9\n",
        rows([[1], [3]], AB, ["year"], id_columns=["year"]),
    ),
    "no such id": ("label,f\na,1\n", error("got 'year'", id_columns=["year"])),
    "empty column": ("label,f,g\na,1,\nb,3,\n", rows([[1], [3]], AB, ["g"])),
    "truth alone": ("label,ok\na,True\nb,False\n", error("no column of numbers")),
    "no numbers": ("label,note\na,x\nb,y\n", error("no column of numbers")),
    "one column": ("f\n1\n2\n", error("must have a column of labels")),
    "wrong mark": ("label,f,split\na,1,train\nb,3,mine\n", error("row 3 of x.csv says 'mine'")),
}


def read_whole(path, options):
    """Return features, labels and unused columns, or the error."""
    stream = FeatureStream(path, with_labels=True, every_label=True, **options)
    try:
        blocks = list(stream)
    except DataError as refusal:
        return str(refusal)
    X = np.concatenate([block.X for block in blocks])
    return X.tolist(), np.concatenate([b.labels for b in blocks]).tolist(), stream.unused, X.dtype


def read_in_memory(path, options):
    """Return what `load_features` reads: features, labels, or the error."""
    labels = read_whole(path, options)
    labels = {"a", "b"} if isinstance(labels, str) else set(labels[1])
    prototypes = path.with_name("p.json")
    prototypes.write_text(json.dumps({label: [n, 1.0] for n, label in enumerate(sorted(labels))}))
    try:
        data = load_features(path, prototypes, **options)
    except DataError as refusal:
        return str(refusal)
    return data.X.tolist(), data.y.tolist()


@pytest.mark.parametrize("kind", TEXTS)
def test_odd_files(tmp_path, kind):
    content, (expected, options) = TEXTS[kind]
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    limit = csv.field_size_limit()
    found = read_whole(path, options)
    for n in (1, 2, 5, 1000):
        assert read_whole(path, {**options, "rows": n}) == found
    assert csv.field_size_limit() == limit
    memory = read_in_memory(path, options)
    if isinstance(expected, str):
        assert expected in memory
        assert "\n" not in memory
        assert kind == "wrong mark" or memory == found
        return
    assert found[:3] == (expected["X"], expected["labels"], tuple(expected["unused"]))
    assert memory == found[:2]
    for n in (1, 2, 1000):
        pairs = [(chunk.X, chunk.y) for chunk in open_chunks(path, rows=n, **options)]
        X, y = (np.concatenate(part).tolist() for part in zip(*pairs, strict=True))
        assert (X, y) == memory


# The same numbers in all kinds of tables


def save_table(folder, ending, X, labels):
    names = [f"f{i}" for i in range(X.shape[1])]
    path = folder / f"x{ending}"
    if ending == ".parquet":
        columns = {name: X[:, i] for i, name in enumerate(names)}
        parquet.write_table(pa.table({"label": labels, **columns}), path)
        return path
    lines = [[label, *map(str, x)] for label, x in zip(labels, X, strict=True)]
    if ending == ".jsonl":
        heads = (json.dumps({"label": label})[:-1] for label, *_ in lines)
        cells = (", ".join(f'"{n}": {v}' for n, v in zip(names, x, strict=True)) for _, *x in lines)
        text = "\n".join(f"{head}, {row}}}" for head, row in zip(heads, cells, strict=True))
    else:
        out = io.StringIO()
        csv.writer(out, delimiter="," if ending == ".csv" else "\t").writerows(
            [["label", *names], *lines]
        )
        text = out.getvalue()
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("stored", "decimals", "read"),
    [("f4", None, "f4"), ("f8", None, "f8"), ("f4", 2, "f8"), ("f8", 2, "f8"), ("i4", None, "f8")],
)
def test_tables_of_the_same_numbers_are_the_same_bits(tmp_path, stored, decimals, read):
    X = 9 * np.random.default_rng(0).normal(size=(40, 3))
    X = (X if decimals is None else X.round(decimals)).astype(stored)
    labels = np.array(["a", "b", "c"])[np.arange(40) % 3].tolist()
    found = {e: read_whole(save_table(tmp_path, e, X, labels), {}) for e in FORMATS}
    for X_read, y, _, dtype in found.values():
        assert dtype == np.dtype(read)
        assert (X_read, y) == (found[".csv"][0], labels)


def test_prototypes_are_what_is_printed(tmp_path):
    X = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    paths = [save_table(tmp_path, ending, X, ["a", "b", "c"]) for ending in FORMATS]
    first, *others = (read_prototypes(path).matrix for path in paths)
    assert first.dtype == np.float64
    for other in others:
        np.testing.assert_array_equal(other, first)
