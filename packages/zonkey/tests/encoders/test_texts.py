"""Texts as samples: which files hold texts, which columns they are in, and blocks of vectors."""

import json

import numpy as np
import pandas as pd
import pytest

from zonkey.encoders import TextEncoder
from zonkey.encoders.stream import TextStream
from zonkey.encoders.texts import Texts, is_texts
from zonkey.files.dataset import DataError


class Lengths:
    """A vector of the number of letters and words."""

    name, revision, n_features = "lengths", "1", 2
    max_tokens = 3

    def encode(self, texts):
        return np.array([[len(text), len(text.split())] for text in texts], float)

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


ENCODER = TextEncoder(Lengths(), batch_size=1)
TABLE = "text,category\nwhere is my card,card\nI lost it,lost\n"
# content of a csv, options -> column of texts, column of labels; None: not texts
FILES = {
    "two columns, one is named": (TABLE, {}, ("text", None)),
    "labels are the only other column of text": (
        TABLE,
        {"with_labels": True},
        ("text", "category"),
    ),
    "the only column of text beside the labels": ("label,says\na,b c\n", {}, ("says", "label")),
    "the only column of text": ("id,says\n1,b c\n2,d\n", {}, ("says", None)),
    "a named column of labels": (
        "q,intent\na b,c\n",
        {"label_column": "intent", "with_labels": True},
        ("q", "intent"),
    ),
    "a named column of texts": ("title,body\na,b c\n", {"text_column": "body"}, ("body", None)),
    "numbers beside text": ("id,text,stars\n1,good,5\n", {}, ("text", None)),
    "case of the name": ("Text,n\na b,1\n", {}, ("Text", None)),
    "features": ("label,f1,f2\na,0.5,1\n", {}, None),
    "features and one note": ("label,f1,note\na,0.5,b\n", {}, None),
    "texts beside many features": ("text," + ",".join("abcdefghi") + "\nx" + 9 * ",1", {}, None),
    "several columns of text": ("title,body\na,b c\n", {}, None),
}


@pytest.mark.parametrize("case", FILES)
def test_columns_of_texts_and_labels(tmp_path, case):
    content, options, expected = FILES[case]
    path = tmp_path / "x.csv"
    path.write_text(content)
    found = is_texts(path, options.get("text_column"), options.get("label_column"))
    assert found == (expected is not None)
    if expected is None:
        with pytest.raises(DataError, match="`text_column` must name the column of texts"):
            Texts.of(path, **options)
        return
    texts = Texts.of(path, **options)
    assert (texts.column, texts.label_column) == expected
    assert (texts.labels is None) == (expected[1] is None)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_table_gives_the_same_texts(tmp_path, ending):
    frame = pd.DataFrame({"text": ["a, b", "c\nd"], "label": ["7", "8"], "id": [1, 2]})
    path = tmp_path / f"x.{ending}"
    if ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, frame.to_dict("records"))))
    elif ending == "parquet":
        frame.assign(label=[7, 8]).to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    texts = Texts.of(path)
    assert texts.texts == ["a, b", "c\nd"]
    assert texts.labels is not None
    assert texts.labels.tolist() == ["7", "8"]
    assert [*texts.columns] == ["id"]


def test_lines_of_a_file_are_texts(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("one: a\n\n  # two  \n")
    texts = Texts.of(path)
    assert texts.texts == ["one: a", "# two"]
    assert [*texts.numbers] == [1, 3]
    assert is_texts(path)
    with pytest.raises(DataError, match=r"the lines of x.txt have none. Write a table"):
        Texts.of(path, with_labels=True)
    with pytest.raises(DataError, match="`text_column` names a column of a table"):
        Texts.of(path, text_column="text")


def test_blocks_carry_texts_labels_and_columns(tmp_path):
    path = tmp_path / "x.csv"
    rows = [
        f"{i},{'word ' * (1 + i % 5)},{'ab'[i % 2]},{'train' if i else 'test'}" for i in range(20)
    ]
    path.write_text("\n".join(["number_id,text,intent,split", *rows]))
    stream = TextStream(path, ENCODER, with_labels=True, label_column="intent")
    blocks = list(stream)
    assert len(blocks) == 3
    assert [*blocks[0].carried] == ["text", "number_id", "intent", "split"]
    X = np.concatenate([block.X for block in blocks])
    np.testing.assert_allclose(X, ENCODER.encode_texts(Texts.of(path).texts)[0], atol=1e-6)
    labels = np.concatenate([block.labels for block in blocks])
    assert labels.tolist() == ["a", "b"] * 10
    assert blocks[0].split[:2].tolist() == ["test", "train"]
    assert (stream.done, stream.total, stream.n_split) == (20, 20, 8)


def test_blank_texts_are_refused_or_skipped(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("text,label\na b,x\n,y\nc,z\n")
    with pytest.raises(DataError, match=r"'text' in row 3 of .*x\.csv is\. Fill it in"):
        TextStream(path, ENCODER)
    stream = TextStream(path, ENCODER, with_labels=True, on_error="skip")
    (block,) = stream
    assert block.labels.tolist() == ["x", "z"]
    assert len(stream.skipped) == 1
    (block,) = TextStream(["a b", "c"], ENCODER)
    assert block.carried == {"text": ["a b", "c"]}
