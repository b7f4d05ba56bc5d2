"""Targets of commands: never a file that is read from, a device or a folder."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from model_files import FEATURES, TRAIN, done, files, refused, table

__all__ = ["files"]


COMMANDS = {  # that write a file -> arguments, and the files that they read
    "fit": (
        "fit features.parquet prototypes.csv --unlabeled test.csv -o",
        ("features.parquet", "prototypes.csv", "test.csv"),
    ),
    "predict": ("predict model.zonkey test.csv -o", ("test.csv",)),
    "evaluate": ("evaluate model.zonkey test.csv --html", ("model.zonkey", "test.csv")),
    "info": ("info model.zonkey --card", ("model.zonkey",)),
    "export": ("export model.zonkey --onnx", ("model.zonkey",)),
    "classes add": (
        "classes add model.zonkey prototypes.csv --shots test.csv -o",
        ("prototypes.csv", "test.csv"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_overwrites_what_it_reads(files, monkeypatch, name):
    monkeypatch.chdir(files)
    arguments, inputs = COMMANDS[name]
    for path in map(Path, inputs):
        before = path.read_bytes()
        line = refused(*arguments.split(), path)
        assert f"must not be a file to read from; {path} is one" in line
        assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes with a name")
@pytest.mark.parametrize("name", COMMANDS)
def test_devices_stay(files, tmp_path, monkeypatch, name):
    monkeypatch.chdir(files)
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    line = refused(*COMMANDS[name][0].split(), pipe)
    assert f"{pipe} is a device or a pipe" in line
    assert pipe.is_fifo()


def test_a_picture_is_not_written_over_the_model(files, tmp_path):
    model = tmp_path / "m.png"
    model.write_bytes((files / "model.zonkey").read_bytes())
    before = model.read_bytes()
    line = refused("explain", model, files / "test.csv", "--row", 0, "--plot", model)
    assert "--plot must not be a file to read from" in line
    assert model.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_link_to_an_input_is_that_input(files, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(files / "test.csv")
    line = refused("predict", files / "model.zonkey", files / "test.csv", "-o", link)
    assert "must not be a file to read from" in line
    assert link.is_symlink()


def test_a_text_that_begins_late_is_no_feature(files, tmp_path):
    comment = [""] * 40 + ["blurred"] * (len(TRAIN) - 40)
    table(TRAIN, 1, comment=comment).to_csv(tmp_path / "f.csv", index=False)
    prototypes, model = files / "prototypes.csv", tmp_path / "m.zonkey"
    done("data", "check", tmp_path / "f.csv", prototypes)
    text = done("fit", tmp_path / "f.csv", prototypes, "-o", model)
    assert "; not used: id, comment\n" in text
    done("predict", model, tmp_path / "f.csv", "-o", tmp_path / "out.csv")


def test_names_are_unknown_and_a_text_begins_late(files, tmp_path):
    frame, model = table(TRAIN, 1), tmp_path / "m.zonkey"
    X = frame[FEATURES].to_numpy()
    np.savez(tmp_path / "x.npz", features=X, labels=np.array(TRAIN))
    done("fit", tmp_path / "x.npz", files / "prototypes.csv", "-o", model)
    comment = [""] * 40 + ["blurred"] * (len(TRAIN) - 40)
    table(TRAIN, 1, comment=comment).to_csv(tmp_path / "f.csv", index=False)
    text = done("predict", model, tmp_path / "f.csv")
    assert text.startswith("id,label,comment,predicted\n")
    frame.assign(f3="").to_csv(tmp_path / "gap.csv", index=False)
    line = refused("predict", model, tmp_path / "gap.csv")
    assert "Row 2, column 'f3' of gap.csv is empty" in line
