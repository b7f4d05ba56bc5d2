"""`zonkey data check`: facts of good files, and one line for every problem of others."""

import json
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from mat_files import save_mat
from refusals import refusal

from model_files import zonkey_does
from zonkey.cli.errors import tell_problem
from zonkey.files.own import load_features

FEATURES = "label,f1,f2\nass,1.5,2\nzebra,3,4\nass,5,6\nzebra,7,9\n"
PROTOTYPES = "name,size\nass,1\nzebra,2\nquagga,3\n"


checked = partial(zonkey_does, "data", "check")


def prepared(folder, features=FEATURES, prototypes=PROTOTYPES):
    """Write both tables; bytes as they are."""
    for name, content in (("f.csv", features), ("p.csv", prototypes)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "f.csv", folder / "p.csv"


def test_good_files_end_with_0(tmp_path):
    done = checked(*prepared(tmp_path))
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "- f.csv has 4 samples of 2 features (float64).\n" in done.stdout
    assert "2 classes are seen; 1 are known by prototype only: 'quagga'." in done.stdout
    assert done.stdout.endswith("The files can be used.\n")


def test_options_say_what_a_file_is(tmp_path):
    features, prototypes = prepared(tmp_path)
    one_each = tmp_path / "one.csv"
    one_each.write_text("kind,f1,y\nass,1,1\nzebra,2,2\n")
    arguments = "--features", one_each, "--prototypes", prototypes, "--label-column", "kind"
    done = checked(*arguments)
    assert done.exit_code == 0, done.output
    assert "- one.csv is read as features.\n" in done.stdout
    assert "! There is only one sample of 'ass', 'zebra'.\n" in done.stdout
    swapped = checked("--features", prototypes, "--prototypes", features)
    assert swapped.exit_code == 2
    assert "'ass' has 2 in f.csv, in rows 2, 4." in swapped.stderr


def test_labels_of_their_own(tmp_path):
    _, prototypes = prepared(tmp_path)
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    for name in ("y.txt", "y.csv"):
        (tmp_path / name).write_text("ass\nzebra\nass\nzebra\n")
        for arguments in (
            (prototypes, tmp_path / name, tmp_path / "x.npy"),
            (tmp_path / "x.npy", "--labels", tmp_path / name, "--prototypes", prototypes),
        ):
            done = checked(*arguments)
            assert done.exit_code == 0, done.output
            assert f"- {name} is read as labels.\n" in done.stdout


def test_json_is_the_whole_report(tmp_path):
    good = checked(*prepared(tmp_path), "--json")
    assert good.exit_code == 0
    report = json.loads(good.stdout)
    assert set(report) == {"problems", "warnings", "facts"}
    assert report["problems"] == []
    bad = checked(*prepared(tmp_path, FEATURES.replace("5,", "five,")), "--json")
    assert bad.exit_code == 2
    (line,) = json.loads(bad.stdout)["problems"]
    assert bad.stderr == f"x {line}\n"


def test_a_label_with_brackets_is_printed_as_it_is(tmp_path):
    done = checked(*prepared(tmp_path, FEATURES.replace("zebra", "[red]zebra[/]")))
    assert "'[red]zebra[/]' of f.csv has none" in done.stderr


@pytest.mark.parametrize("n", [0, 4])
def test_no_file_and_too_many_files(tmp_path, n):
    done = checked(*[tmp_path / "f.csv"] * n)
    assert done.exit_code == 2
    assert f"got {n}. Pass features" in done.stderr


# Which of the two files is changed, to what, and words of the line that says so.
DAMAGE = {
    "archive": ("f", b"PK\x03\x04" + bytes(90), ["f.csv", "content is that of a .zip file", "Unp"]),
    "excel": ("f", None, ["f.csv", "content is that of a .xlsx file", "CSV UTF-8"]),
    "other classes": ("f", FEATURES.replace("zebra", "zebrra"), ["'zebrra'", "mean 'zebra'?"]),
    "repeated class": (
        "p",
        PROTOTYPES + "ass,7\n",
        ["A class must have one prototype", "'ass' has 2 in p.csv, in rows 2, 5", "Keep one"],
    ),
    "text in prototypes": (
        "p",
        PROTOTYPES.replace("ass,1", "ass,big"),
        ["Row 2, column 'size' of p.csv", "got 'big'"],
    ),
    "prototypes not UTF-8": ("p", b"name,size\n\xff,1\n", ["p.csv must be UTF-8", "0xff"]),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_one_line_and_exit_code_2(tmp_path, kind):
    which, content, words = DAMAGE[kind]
    if content is None:
        content = archive_of_excel(tmp_path)
    paths = prepared(tmp_path, **{"features" if which == "f" else "prototypes": content})
    line = refusal(load_features, *paths)
    assert [word for word in words if word not in line] == []
    done = checked("--features", paths[0], "--prototypes", paths[1])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == f"x {tell_problem(line)}"
    assert all(line.startswith("x ") for line in done.stderr.splitlines())
    unnamed = checked(*paths)
    assert unnamed.exit_code == 2
    assert "Traceback" not in unnamed.output
    assert {path.name for path in tmp_path.iterdir()} == {"f.csv", "p.csv"}


def archive_of_excel(folder):
    """Return the start of what a spreadsheet is: an archive with a folder `xl`."""
    with zipfile.ZipFile(folder / "sheet", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    content = (folder / "sheet").read_bytes()
    (folder / "sheet").unlink()
    return content


JSON = {
    "no JSON": ('{"ass": [1,}', ["p.json must be a JSON object", "line 1 column 12"]),
    "a list": ("[[1, 2]]", ["p.json must be a JSON object", '"zebra"']),
    "repeated": ('{"ass": [1], "ass": [2], "zebra": [3]}', ["'ass' has 2 in p.json"]),
    "ragged": ('{"ass": [1, 2], "zebra": [3]}', ["a list of 2", "'zebra' in p.json has 1"]),
    "text": ('{"ass": [1], "zebra": ["3"]}', ["'zebra' in p.json holds '3'"]),
    "truth": ('{"ass": [1], "zebra": [true]}', ["'zebra' in p.json holds 'True'"]),
    "nan": ('{"ass": [1], "zebra": [NaN]}', ["'zebra' in p.json holds nan"]),
    "huge": ('{"ass": [1], "zebra": [1%s]}' % ("0" * 400), ["'zebra' in p.json holds 1000"]),
    "no vector": ('{"ass": [1], "zebra": 3}', ["'zebra' in p.json is '3'"]),
    "empty label": ('{"ass": [1], "": [3]}', ["Labels must not be empty"]),
    "empty": ("{}", ["p.json must be a JSON object"]),
    "deep": ('{"ass": ' + "[" * 10**5 + "]" * 10**5 + "}", ["p.json must be", "recursion"]),
    "rather deep": ('{"ass": ' + "[" * 300 + "]" * 300 + "}", ["'ass' in p.json holds a list"]),
    "many digits": ('{"ass": [%s]}' % ("9" * 5000), ["p.json must be", "digits"]),
    "object": ('{"ass": {"a": 1}, "zebra": [1]}', ["'ass' in p.json is an object"]),
    "half a character": ('{"ass": [1], "\\ud800": [3]}', ["Labels must be text; p.json has"]),
}


@pytest.mark.parametrize("kind", JSON)
def test_prototypes_in_json_that_cannot_be_used(tmp_path, kind):
    content, words = JSON[kind]
    features, _ = prepared(tmp_path)
    (tmp_path / "p.json").write_text(content)
    done = checked(features, tmp_path / "p.json")
    assert done.exit_code == 2
    first = done.stderr.splitlines()[0]
    assert [word for word in words if word not in first] == []


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"prototypes": np.eye(3)}, "a label for each of the 3 rows"),
        ({"prototypes": np.eye(3), "labels": ["a", "b"]}, "a label for each of the 3 rows"),
        ({"a": np.eye(3), "b": np.eye(3), "labels": ["a", "b", "c"]}, "holds the prototypes"),
        ({"prototypes": np.full((2, 2), np.nan), "labels": ["ass", "zebra"]}, "must be finite"),
        ({"prototypes": np.eye(2) * 1j, "labels": ["ass", "zebra"]}, "Prototypes must be real"),
        ({"prototypes": np.eye(2), "labels": ["ass", "ass"]}, "'ass' has 2"),
    ],
)
def test_prototypes_in_npz_that_cannot_be_used(tmp_path, arrays, words):
    features, _ = prepared(tmp_path)
    np.savez(tmp_path / "p.npz", **arrays)
    done = checked("--features", features, "--prototypes", tmp_path / "p.npz")
    assert done.exit_code == 2
    assert words in done.stderr.splitlines()[0]


def test_parquet_that_cannot_be_used(tmp_path):
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PAR1\x15" + bytes(50))
    assert "f.parquet must be a whole .parquet file" in checked("--features", path).stderr
    pd.DataFrame({"label": ["a", "b"], "v": [[1.0, 2.0], [3.0, 4.0]]}).to_parquet(path)
    assert "f.parquet has no column of numbers" in checked("--features", path).stderr
    pd.DataFrame({"label": ["a", None], "v": [1.0, None]}).to_parquet(path)
    lines = checked("--features", path).stderr.splitlines()
    assert ["Row 2, column 'label'" in lines[0], "Row 2, column 'v'" in lines[1]] == [True, True]


def save_below(folder):
    (folder / "CUB").mkdir()
    save_mat(folder / "CUB" / "res101.mat", {"features": np.eye(2)})


def save_features_alone(folder):
    save_mat(folder / "res101.mat", {"features": np.eye(2), "labels": np.ones((2, 1))})


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (None, "CUBB", "CUBB does not exist. Check the path."),
        (None, "", "holds no .mat file. Pass the folder of one data set"),
        (save_below, "", "holds no .mat file. Pass one of the folders in it: 'CUB'."),
        (save_features_alone, "", "holds res101.mat. Add the files of splits."),
    ],
)
def test_a_wrong_path_is_answered_with_what_is_there(tmp_path, make, name, words):
    if make is not None:
        make(tmp_path)
    path = tmp_path / name
    done = checked(path)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert words in line
    assert str(path) in line
    assert "X_tr" not in line


@pytest.mark.parametrize("variable", ["X_tr", "X_te"])
def test_a_folder_with_a_variable_of_imnet_is_checked_as_such(tmp_path, variable):
    save_mat(tmp_path / "a.mat", {variable: np.eye(2)})
    assert "a.mat must hold the variable `Y`" in checked(tmp_path).stderr
