"""Texts of classes from names, mappings, tables and files."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from zonkey.encoders.class_texts import class_texts, has_texts, speak_label, split_names
from zonkey.encoders.text_encoder import TextEncoder
from zonkey.files.classes import read_prototypes
from zonkey.files.dataset import DataError


def found_in(source, **options):
    found = class_texts(source, **options)
    assert found.labels.dtype.kind == "U"
    assert found.labels.tolist() == sorted(found.labels.tolist())
    return dict(zip(found.labels.tolist(), found.texts, strict=True))


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


# Names


def test_names_as_typed():
    assert split_names("cat, dog ,, truck,") == ["cat", "dog", "truck"]
    assert split_names('cat, "salt, pepper"\ndog') == ["cat", "salt, pepper", "dog"]
    assert found_in("zebra, cat") == {"cat": ["cat"], "zebra": ["zebra"]}
    found = class_texts("cat, dog")
    assert class_texts(found) is found
    assert len(found) == 2


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("001.Black_footed_Albatross", "Black footed Albatross"),
        ("1) red-winged blackbird", "red winged blackbird"),
        ("012_cat", "cat"),
        ("3-toed sloth", "3 toed sloth"),
        ("1st place medal", "1st place medal"),
        ("1.5", "1.5"),
        ("7", "7"),
        ("__", "__"),
    ],
)
def test_labels_become_names(label, name):
    assert speak_label(label) == name
    assert found_in([label]) == {label: [name]}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (" ,", "names with commas between them; got ' ,'"),
        (["cat", " "], "number 1 .* is ' '"),
        (["cat", None], "number 1 .* is None"),
        (["cat", "dog", "cat "], "'cat ' is number 0 and 2"),
        ([], "must name at least one class"),
        ("T-Shirt, t shirt", "'T-Shirt' and 't shirt' are the same class"),
        ("ﬁsh, fish", "are the same class"),
        ("sea__lion, sea lion", "are the same class"),
        (3, "got 3"),
        (b"cat", "got b'cat'"),
        *(
            ({"zebra": value}, "that of 'zebra' is")
            for value in (3, [], [1.0, 2.0], ["a", " "], None, "")
        ),
    ],
)
def test_unusable_names_and_mappings_are_refused(source, message):
    with pytest.raises(TypeError if source in (3, b"cat") else DataError, match=message):
        class_texts(source)


# Mappings


def test_texts_of_a_mapping_stay_as_they_are():
    given = {"zebra": "a_striped horse", "cat": ["a cat", "a pet"], 7: np.array(["seven"])}
    assert found_in(given) == {
        "7": ["seven"],
        "cat": ["a cat", "a pet"],
        "zebra": ["a_striped horse"],
    }


def test_equal_texts_of_two_classes_warn():
    with pytest.warns(UserWarning, match="those of 'a' and 'b' are equal"):
        class_texts({"a": "a small pet", "b": "A  small pet", "c": ["a small pet", "other"]})


# Files


def test_lines_of_names_and_descriptions(tmp_path):
    path = write(
        tmp_path,
        "classes.txt",
        "# animals\n\nzebra: a striped horse\ncat\tthe cat, a pet\n001.dog\nzebra: eats grass\n"
        "C#:\n",
    )
    assert found_in(path) == found_in(str(path))
    assert found_in(path) == {
        "001.dog": ["dog"],
        "C#": ["C#"],
        "cat": ["cat", "the cat, a pet"],
        "zebra": ["zebra", "zebra: a striped horse", "zebra: eats grass"],
    }
    assert has_texts(path)


def test_a_table_without_texts_gives_names(tmp_path):
    heading = write(tmp_path, "a.csv", "label\nsea_lion\ncat\n")
    bare = write(tmp_path, "b.csv", "sea_lion\ncat\n")
    with_id = write(tmp_path, "c.csv", "class_id,split,class\n1,train,sea_lion\n2,test,cat\n")
    expected = {"cat": ["cat"], "sea_lion": ["sea lion"]}
    for path in (heading, bare, with_id):
        assert has_texts(path)
        assert found_in(path) == expected


def test_descriptions_follow_the_name(tmp_path):
    path = write(
        tmp_path,
        "classes.csv",
        'label,description,food\nzebra,a striped horse,"grass, leaves"\nzebra,black and white,\n'
        "cat,The Cat is a pet,fish\ndog,,\n",
    )
    assert has_texts(path)
    assert found_in(path) == {
        "cat": ["cat", "The Cat is a pet, fish"],
        "dog": ["dog"],
        "zebra": ["zebra", "zebra: a striped horse, grass, leaves", "zebra: black and white"],
    }
    assert found_in(path, text_columns="food")["zebra"] == ["zebra", "zebra: grass, leaves"]
    assert found_in(path, text_columns=["Food"])["cat"] == ["cat", "cat: fish"]


def test_codes_are_no_names_and_a_name_replaces_them(tmp_path):
    text = "label\ttext\nn02391049\ta striped horse\n7\ta pet\nx7b\tx\n"
    path = write(tmp_path, "wordnet.tsv", text)
    assert found_in(path) == {"7": ["a pet"], "n02391049": ["a striped horse"], "x7b": ["x"]}
    path = write(tmp_path, "a.csv", "label,name,text\nn1,zebra,a striped horse\nn2,cat,\n")
    assert found_in(path) == {"n1": ["zebra", "zebra: a striped horse"], "n2": ["cat"]}
    assert found_in(path, text_columns="name") == {"n1": ["zebra"], "n2": ["cat"]}


def test_all_kinds_of_tables_agree(tmp_path):
    rows = {"label": ["zebra", "cat"], "text": ["a striped horse", "a pet"]}
    frame = pd.DataFrame(rows)
    expected = {"cat": ["cat", "cat: a pet"], "zebra": ["zebra", "zebra: a striped horse"]}
    paths = [tmp_path / name for name in ("a.csv", "a.tsv", "a.parquet", "a.jsonl")]
    frame.to_csv(paths[0], index=False)
    frame.to_csv(paths[1], index=False, sep="\t")
    frame.to_parquet(paths[2])
    frame.to_json(paths[3], orient="records", lines=True)
    for source in (*paths, frame, frame.set_index("label"), pl.DataFrame(rows)):
        assert found_in(source) == expected
    for path in paths:
        assert has_texts(path)
    assert found_in(frame.rename(columns={"label": "k"}), label_column="k") == expected


def test_json(tmp_path):
    path = write(tmp_path, "a.json", json.dumps({"zebra": "striped", "cat": ["a pet", "small"]}))
    assert has_texts(path)
    assert found_in(path) == {"cat": ["a pet", "small"], "zebra": ["striped"]}
    names = write(tmp_path, "names.json", '["sea_lion", "cat"]')
    assert has_texts(names)
    assert found_in(names) == {"cat": ["cat"], "sea_lion": ["sea lion"]}
    lines = write(tmp_path, "a.jsonl", '{"label": "zebra", "texts": ["c", "d"]}\n"cat"\n')
    assert has_texts(lines)
    assert found_in(lines) == {"cat": ["cat"], "zebra": ["zebra", "zebra: c", "zebra: d"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "label,text\n,a pet\n", "label in row 2 of a.csv must be nonempty"),
        ("a.csv", "label,text\ncat,a,pet\n", "row 2 of a.csv has 3"),
        ("a.csv", "animal,story\ncat,a pet\n", "must name its columns"),
        ("a.csv", "label;text\ncat;a pet\n", "separated by semicolons"),
        ("a.csv", "label,label\ncat,a pet\n", "different names"),
        ("a.jsonl", "{}", "a.jsonl has no column"),
        ("a.txt", "cat\n: a pet\n", "label in line 2 of a.txt must be nonempty"),
        ("a.csv", "label,text\n", "must name at least one class"),
        ("a.csv", "label,text,legs\ncat,a pet,4\n", "'legs' is a column of numbers"),
        ("a.json", "[1, 2]", "must be a JSON object of texts"),
        ("a.json", '{"cat": [1.0, 2.0]}', "that of 'cat' is"),
        ("a.json", '{"cat": {"a": "b"}}', "that of 'cat' is"),
        ("a.jsonl", '{"label": "cat"}\n3\n', "line 2 is not"),
        ("a.txt", "# none\n", "must name at least one class"),
        ("a.txt", "T-shirt\nt_shirt\n", "are the same class"),
    ],
)
def test_unusable_files_are_refused(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        class_texts(write(tmp_path, name, content))


def test_columns_may_be_chosen(tmp_path):
    path = write(tmp_path, "a.csv", "label,text,legs\ncat,a pet,4\n")
    assert found_in(path, text_columns="text") == {"cat": ["cat", "cat: a pet"]}
    with pytest.raises(DataError, match=r"`text_columns` must name a column .* label, text"):
        class_texts(path, text_columns=["story"])
    with pytest.raises(DataError, match="`label_column` must name a column"):
        class_texts(path, label_column="animal")
    with pytest.raises(DataError, match="does not exist"):
        class_texts("missing.csv")


def test_files_of_vectors_hold_no_texts(tmp_path):
    table = write(tmp_path, "a.csv", "label,f1,f2\ncat,0.5,1\ndog,1,\n")
    unnamed = write(tmp_path, "b.csv", ",0,1\ncat,0.5,1\ndog,1,2\n")
    mixed = write(tmp_path, "c.csv", "label,text,legs\ncat,a pet,4\n")
    vectors = write(tmp_path, "d.json", '{"cat": [1, 2]}')
    lines = write(tmp_path, "e.jsonl", '{"label": "cat", "vector": [1, 2]}\n')
    np.savez(tmp_path / "f.npz", prototypes=np.eye(2), labels=np.array(["a", "b"]))
    pd.DataFrame({"label": ["cat"], "f": [0.5]}).to_parquet(tmp_path / "g.parquet")
    files = (table, unnamed, mixed, vectors, lines, tmp_path / "f.npz", tmp_path / "g.parquet")
    for path in files:
        assert not has_texts(path), path.name
    assert read_prototypes(unnamed).labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"\xff\xfe\x00"),
        ("a.csv", b'label,text\n"cat,'),
        ("a.csv", b"label,text\ncat\n"),
        ("a.json", b"{"),
        ("a.json", b"[[1], 2]"),
        ("a.jsonl", b"3\n"),
        ("a.jsonl", b"{}"),
        ("a.parquet", b"PAR1\x15"),
        ("a.png", b"\x89PNG"),
    ],
)
def test_damaged_files_hold_no_texts(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert not has_texts(path)
    assert not has_texts(tmp_path / "missing.csv")
    assert not has_texts(tmp_path)


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        (["кошка", "собака", "truck"], True),
        (["\u732b", "\u72ac"], True),
        (["Katze", "Käfer", "élan"], False),  # not told: rare English words look the same
        (["cat", "собака"], False),
        (["1", "2"], False),
    ],
)
def test_names_in_other_scripts_are_told(names, foreign):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        TextEncoder().prototypes(names)
    assert [str(one.message)[:45] for one in told] == foreign * [
        "Names should be English for the embedded text"
    ]
