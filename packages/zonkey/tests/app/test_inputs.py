"""Parameters from Python, and lists of candidates."""

import pytest

from model_files import done, files
from zonkey import app
from zonkey.errors import Problem

__all__ = ["files"]


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
