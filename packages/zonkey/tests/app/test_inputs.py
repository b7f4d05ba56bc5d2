"""Sources and classes that cannot be meant are refused, and the message says what is wrong."""

import re

import pytest

from model_files import done, files, refused
from zonkey import app
from zonkey.errors import Problem

__all__ = ["files"]

REFUSED = {
    ("fit", "NAMES", "PICTURES"): "CLASSES must be names or descriptions of classes; .* holds "
    "pictures. Swap SOURCE and CLASSES.",
    ("classify", "cat,dog", "--classes", "PICTURES"): "--classes must be names .* Swap SOURCE and "
    "--classes.",
    ("classify", "PICTURES", "--classes", "PICTURES"): "--classes .* Pass a file of names.",
    ("fit", "https://x.org/a.zip", "NAMES"): "SOURCE must be on this machine; .* Download it",
    ("predict", "MODEL", "http://x.org/a.csv"): "SOURCE must be on this machine",
    ("export", "http://x.org/m.zonkey", "--onnx", "m.onnx"): "MODEL must be on this machine",
    ("info", "http://x.org/m.zonkey"): "MODEL must be on this machine",
    ("classes", "list", "http://x.org/m.zonkey"): "MODEL must be on this machine",
    ("evaluate", "MODEL", "TABLE", "--training", "s3://x/a.csv"): "--training must be on this",
    ("classify", "PICTURES", "--classes", "https://x.org/c.txt"): "--classes must be on this",
    ("classes", "add", "MODEL", "--shots", "https://x.org/a.zip"): "--shots must be on this",
    ("classify", "PICTURES", "--classes", "cat; dog"): "--classes must have commas between names",
    ("fit", "PICTURES", "cat,dog"): "CLASSES must be a file; got 'cat,dog'. Write the names to",
    ("predict", "TABLE", "MODEL"): "SOURCE must be pictures or features; .* Swap MODEL and SOURCE",
    ("predict", "MODEL", "MODEL"): "SOURCE must be pictures or features; .* Pass samples",
    ("predict", "MODEL", "TABLE", "--encoder", "clip"): "--encoder must be left out for features",
    ("fit", "TABLE", "TABLE", "--encoder", "clip"): "--encoder must be left out for features",
    ("fit", "TABLE", "CLASSES", "--id-column", "no"): "--id-column must name columns",
    ("fit", "CLASSES", "TABLE"): "CLASSES must have one row per class; test.csv has several rows "
    ".* Swap SOURCE and CLASSES",
    ("fit", "CLASSES", "TABLE", "--chunks"): "CLASSES must .* Swap SOURCE and CLASSES",
    ("explain", "MODEL", "TABLE", "--encoder", "clip"): "--encoder must be left out for features",
    ("evaluate", "MODEL", "TABLE", "--encoder", "clip"): "--encoder must be left out for features",
    ("classes", "add", "MODEL", "TABLE", "--encoder", "clip"): "--encoder must be left out without",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_meant(files, tmp_path, arguments):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    places = {
        "PICTURES": tmp_path / "pictures",
        "NAMES": tmp_path / "names.txt",
        "MODEL": files / "model.zonkey",
        "TABLE": files / "test.csv",
        "CLASSES": files / "prototypes.csv",
    }
    line = refused(*(places.get(argument, argument) for argument in arguments))
    assert re.match(REFUSED[arguments], line), line


def test_candidates_with_commas(files):
    """Commas stand between labels, unless a label has one itself."""
    arguments = "predict", files / "model.zonkey", files / "test.csv", "--candidates"
    text = done(*arguments, "unseen 0, seen 1")
    assert text == done(*arguments, "unseen 0", "--candidates", "seen 1")
    assert {line.split(",")[-1] for line in text.splitlines()[1:]} <= {"unseen 0", "seen 1"}


def test_python_names_parameters(files):
    with pytest.raises(Problem, match="`top` must be at most the 3 candidates; got 4"):
        app.predict(files / "model.zonkey", files / "test.csv", top=4)
    for faults in ({"top": 0}, {"candidates": "yeti"}):
        with pytest.raises(ValueError, match=r"`top` must be|the class 'yeti'"):
            app.predict(files / "model.zonkey", files / "test.csv", **faults)
    with pytest.raises(ValueError, match="`row` must be"):
        app.explain(files / "model.zonkey", files / "test.csv", -1)
    with pytest.raises(Problem, match="`preset` must be recommended or paper; got 'best'"):
        app.fit(files / "test.csv", files / "test.csv", files / "m.zonkey", preset="best")
    with pytest.raises(Problem, match="Swap `model` and `source`"):
        app.predict(files / "test.csv", files / "model.zonkey")
