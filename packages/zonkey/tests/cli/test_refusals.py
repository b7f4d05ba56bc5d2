"""What commands refuse: one line, exit code 2, and nothing is written."""

import json

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import MATRIX, SEEN, TEST, TRAIN, UNSEEN, files, refused, table

__all__ = ["files"]

# Words are names of files in the folder of the test, or of the fixture `files`.
REFUSED = {
    "predict model.zonkey few.csv": "few.csv must have the 8 columns that",
    "predict model.zonkey x.npy": "x.npy must have the 8 features of the model; it has 7",
    "predict model.zonkey gap.csv": "Row 32, column 'f2' of gap.csv is empty",
    "predict model.zonkey taken.csv": "has 'predicted' already",
    "predict model.zonkey no.csv": "no.csv does not exist",
    "predict no.zonkey test.csv": "no.zonkey",
    "predict cut.zonkey test.csv": "cut.zonkey",
    "predict text.zonkey test.csv": "text.zonkey",
    "predict paper.zonkey test.csv --proba": "--proba needs the recommended model; ",
    "predict model.zonkey test.csv --top 4": "--top must be at most the 3 candidates; got 4",
    "predict model.zonkey test.csv --candidates unsen": "No prototype and no sample of the class",
    "predict model.zonkey test.csv -o out.xlsx": "--output must end in .csv or",
    "predict model.zonkey test.csv -o test.csv": "--output must not be a file to read from",
    "predict model.zonkey test.csv -o no/out.csv": "--output must be a file to write to",
    "predict model.zonkey test.csv --format npz": "--format of standard output must be csv, tsv",
    "evaluate model.zonkey train.csv": "must mark rows `test` to evaluate on; it marks none",
    "evaluate model.zonkey none.csv": "must have rows with a label; it has none",
    "evaluate model.zonkey other.csv": "nobody",
    "evaluate model.zonkey unlabeled.csv": "must have a column of labels",
    "evaluate model.zonkey test.csv --html .": "--html must be a file to write to",
    "evaluate no.zonkey test.csv --baselines ridge,rigde": "--baselines must be among nearest-mean,"
    " ridge, logistic, paper, or all; got 'rigde'",
    "evaluate no.zonkey test.csv --training test.csv": "got it without --baselines",
    "evaluate model.zonkey test.csv --baselines all": "--baselines need training samples",
    "explain model.zonkey test.csv --row 44": "--row must be below the 44 rows",
    "explain model.zonkey test.csv --plot x.jpeg": "--plot must end in .png or .svg; got x.jpeg",
    "export model.zonkey --onnx no/m.onnx": "--onnx must be a file to write to",
    "export no.zonkey --onnx m.onnx": "no.zonkey",
    "export model.zonkey --onnx m.onnx --with-encoder": "model.zonkey was fitted on features, and",
    "info no.zonkey": "no.zonkey",
    "classes add m.zonkey": "CLASSES or --shots; got none",
    "classes add m.zonkey same.json": "same.json must have a new class",
    "classes add m.zonkey other.json": "that of 'seen 1' in other.json differs",
    "classes add m.zonkey short.json": "must have the 5 dimensions",
    "classes add m.zonkey --shots none.csv": "must have rows with a label",
    "classes add paper.zonkey --shots test.csv -o x": "ZeroShotClassifier has no `partial_fit`",
    "classes remove m.zonkey nobody": "LABEL must be a class of the model; got 'nobody', and it",
    "classes remove paper.zonkey nobody -o x": "Removing classes needs the recommended model; Zero",
    "fit who.csv prototypes.csv -o x": "or pass --label-column.",
    "fit who.csv prototypes.csv -o x --label-column who --features-key X": "--features-key must be "
    "left out for a table",
    # What cannot be meant
    "fit names.txt pictures": "CLASSES must be names or descriptions of classes; pictures holds "
    "pictures. Swap SOURCE and CLASSES.",
    "classify cat,dog --classes pictures": "pictures holds pictures. Swap SOURCE and --classes.",
    "classify pictures --classes pictures": "holds pictures. Pass a file of names.",
    "fit https://x.org/a.zip names.txt": "SOURCE must be on this machine; got the address of a "
    "file elsewhere. Download it first, and pass its path.",
    "predict model.zonkey http://x.org/a.csv": "SOURCE must be on this machine",
    "export http://x.org/m.zonkey --onnx m.onnx": "MODEL must be on this machine",
    "info http://x.org/m.zonkey": "MODEL must be on this machine",
    "classes list http://x.org/m.zonkey": "MODEL must be on this machine",
    "evaluate model.zonkey test.csv --training s3://x/a.csv": "--training must be on this machine",
    "classify pictures --classes https://x.org/c.txt": "--classes must be on this machine",
    "classes add model.zonkey --shots https://x.org/a.zip": "--shots must be on this machine",
    "classify pictures --classes cat;dog": "--classes must have commas between names",
    "fit pictures cat,dog": "CLASSES must be a file; got 'cat,dog'. Write the names to",
    "predict test.csv model.zonkey": "SOURCE must be pictures or features; model.zonkey is a model "
    "file. Swap MODEL and SOURCE",
    "predict model.zonkey model.zonkey": "model.zonkey is a model file. Pass samples",
    "predict model.zonkey test.csv --encoder clip": "--encoder must be left out for features",
    "explain model.zonkey test.csv --encoder clip": "--encoder must be left out for features",
    "evaluate model.zonkey test.csv --encoder clip": "--encoder must be left out for features",
    "fit test.csv test.csv --encoder clip": "--encoder must be left out for features",
    "fit test.csv prototypes.csv --id-column no": "--id-column must name columns",
    "fit prototypes.csv test.csv": "CLASSES must have one row per class; test.csv has several rows "
    "of a class, and prototypes.csv has one of each. Swap SOURCE and CLASSES",
    "fit prototypes.csv test.csv --chunks": "one row per class; test.csv has several rows",
    "classes add model.zonkey test.csv --encoder clip": "--encoder must be left out without",
}


@pytest.fixture(scope="module")
def odd(files, tmp_path_factory):
    """Write odd files beside those of the model."""
    folder = tmp_path_factory.mktemp("odd")
    frame = pd.read_csv(files / "test.csv")
    tables = {
        "few": frame.drop(columns="f3"),
        "taken": frame.rename(columns={"file": "predicted"}),
        "gap": frame.assign(f2=frame["f2"].where(frame.index != 30)),
        "train": table(TRAIN, 1, split="train"),
        "none": table(TEST, 1).assign(label=None),
        "other": table(TEST, 1).assign(label="nobody"),
        "unlabeled": table(TEST, 1).drop(columns="label"),
        "who": table(TRAIN, 1).rename(columns={"label": "who"}).assign(note="a"),
    }
    for name, content in tables.items():
        content.to_csv(folder / f"{name}.csv", index=False)
    np.save(folder / "x.npy", np.eye(7))
    (folder / "pictures").mkdir()
    (folder / "names.txt").write_text("cat\ndog\n")
    model = (files / "model.zonkey").read_bytes()
    (folder / "m.zonkey").write_bytes(model)
    (folder / "cut.zonkey").write_bytes(model[:5000])
    (folder / "text.zonkey").write_text("hello")
    prototypes = {"same": {SEEN[1]: 1}, "other": {SEEN[1]: 2}, "short": {"new": None}}
    for name, content in prototypes.items():
        rows = {k: [1.0] if i is None else MATRIX[i].tolist() for k, i in content.items()}
        (folder / f"{name}.json").write_text(json.dumps(rows))
    for path in files.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("command", REFUSED)
def test_refused(odd, monkeypatch, command):
    monkeypatch.chdir(odd)
    before = {path: path.stat().st_mtime_ns for path in odd.iterdir()}
    assert REFUSED[command] in refused(*command.split())
    assert {path: path.stat().st_mtime_ns for path in odd.iterdir()} == before


def test_one_class_must_stay(odd, monkeypatch):
    monkeypatch.chdir(odd)
    line = refused("classes", "remove", "m.zonkey", *SEEN, *UNSEEN)
    assert "At least one class must stay" in line
    assert len(zonkey.load("m.zonkey").prototypes_) == len([*SEEN, *UNSEEN])


def test_messages_are_short(files, tmp_path):
    line = refused("predict", files / "model.zonkey", tmp_path / f"{'y/' * 900}f.csv")
    assert len(line) <= 1004
    assert line.endswith(" ...")
