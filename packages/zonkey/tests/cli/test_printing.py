"""What commands print may fail, hold any character, or not be read to the end."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import zonkey
from model_files import TEST, TRAIN, done, files, refused, table
from zonkey.app.prediction import OUTPUT_ENDINGS
from zonkey.app.writing import WRITERS
from zonkey.cli.model_commands import EVERY_BASELINE, choose_target
from zonkey.evaluation.baselines import BASELINES

__all__ = ["files"]

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs devices and signals of POSIX")
HALF = "\ud800"


def ran(*arguments, encoding="utf-8", **options):
    command = [sys.executable, "-m", "zonkey", *map(str, arguments)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, env=environment, check=False, **options)


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("predict", "{m}", "{t}")])
def test_a_full_disk_is_one_line(files, arguments):
    names = {"m": files / "model.zonkey", "t": files / "test.csv"}
    with Path("/dev/full").open("w") as full:
        found = ran(*(word.format(**names) for word in arguments), stdout=full)
    (line,) = found.stderr.decode().splitlines()
    assert (found.returncode, line.endswith("the free space.")) == (2, True), line
    assert "No space left on device" in line
    if arguments[0] == "predict":
        assert line.startswith("standard output: ")


@posix
def test_closed_output(capsys, monkeypatch):
    found = ran("--version", preexec_fn=lambda: os.close(1), stdout=None)
    assert found.returncode == 0, found.stderr
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(typer.Exit):
        choose_target("-", "csv")  # of predict and classify
    told = "Standard output must be open; it is closed. Name a file with --output.\n"
    assert capsys.readouterr().err == told


def test_characters_that_the_terminal_does_not_have(tmp_path):
    model = tmp_path / "m.zonkey"
    prototypes = zonkey.Prototypes(["日本語", "b", "c"], np.eye(3))
    zonkey.presets.recommended(prototypes, candidates="all").fit(
        np.eye(3)[:2], ["日本語", "b"]
    ).save(model)
    label = zonkey.load(model).predict([[1, 0, 0]])[0]
    record = json.dumps({"note": HALF, "features": [1, 0, 0]})
    (tmp_path / "x.jsonl").write_text(record + "\n")
    for ending in ("csv", "jsonl", "parquet"):
        done("predict", model, tmp_path / "x.jsonl", "-o", tmp_path / f"out.{ending}")
    assert (tmp_path / "out.csv").read_text("utf-8") == f"note,predicted\n?,{label}\n"
    assert pd.read_parquet(tmp_path / "out.parquet")["note"].tolist() == ["?"]
    found = ran("explain", model, tmp_path / "x.jsonl", "--row", 0, encoding="latin-1")
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"\\u65e5\\u672c" in found.stdout
    text = done("explain", model, tmp_path / "x.jsonl", "--row", 0, "--json",
                "--plot", tmp_path / "why.png")  # fmt: skip
    assert json.loads(text)["columns"] == {"note": HALF}


@posix
def test_an_early_interrupt_shows_no_traceback(tmp_path):
    # Slow imports: the interrupt comes while the commands are loaded.
    (tmp_path / "typer.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "zonkey", "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes) as process:
        assert process.stdout.readline() == b"begun\n"
        time.sleep(0.1)
        process.send_signal(2)
        assert process.stderr.read() == b""
        assert process.wait() == 130


def test_carried_columns_do_not_hide_the_explanation(files, tmp_path):
    frame = table(TEST[:2], 2, row=7, score=[np.nan, 1.0])
    frame.to_parquet(tmp_path / "x.parquet")
    found = json.loads(
        done("explain", files / "model.zonkey", tmp_path / "x.parquet", "--row", 0, "--json")
    )
    assert found["row"] == 0
    assert found["columns"] == {"id": 0, "label": TEST[0], "row": 7, "score": None}


def test_long_cells(files, tmp_path):
    frame = table(TEST[:2], 2, note="x" * 200_000)
    text = frame.to_csv(index=False)
    before = csv.field_size_limit()
    answers = done("predict", files / "model.zonkey", "-", input=text)
    assert len(answers) > 400_000
    frame = table(TRAIN, 1, note="x" * 200_000)
    frame.iloc[::6].to_csv(tmp_path / "f.csv", index=False)
    done("fit", tmp_path / "f.csv", files / "prototypes.csv", "-o", tmp_path / "m.zonkey")
    assert csv.field_size_limit() == before


def test_standard_input_is_named(files, tmp_path):
    model = files / "model.zonkey"
    predict = "predict", model, "-", "-o", tmp_path / "out.csv"
    buffer = io.BytesIO()
    np.savez(buffer, features=np.eye(7))
    line = refused(*predict, "--format", "npz", input=buffer.getvalue())
    assert line.startswith("`features` in standard input must have the 8 features of the model")
    line = refused(*predict, "--format", "npz", input=buffer.getvalue()[:90])
    assert line.startswith("standard input must be a whole .npz file")
    line = refused(*predict, "--format", "npy", input=buffer.getvalue())
    assert "Pass --format npz." in line
    text = table(TEST[:2], 2).to_csv(index=False)
    line = refused(*predict, input=text.encode("utf-16"))
    assert line == "standard input must be UTF-8 text; it is UTF-16. Save the file as UTF-8."


def test_parquet_that_cannot_hold_features(files, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    frame, path = table(TRAIN, 1), tmp_path / "x.parquet"
    fit = "fit", path, files / "prototypes.csv", "-o", tmp_path / "m.zonkey"
    predict = "predict", files / "model.zonkey", path
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(whole.append_column("f3", whole["f3"]), path)
    for arguments in (fit, predict):
        assert "Columns must have different names; 'f3' is column 6 and 11" in refused(*arguments)
    for cells, shown in ((frame["f3"] > 0, "True|False"), ("hello", "hello")):
        frame.assign(f3=cells).to_parquet(path)
        line = refused(*predict)
        assert "Row 1, column 'f3' of x.parquet must be a finite number; got" in line
        assert any(word in line for word in shown.split("|"))
    frame.assign(f3=frame["f3"].map(repr).str.extract(r"([-\d.e]+)", expand=False)).to_parquet(path)
    done("fit", *fit[1:])  # text that is a number is one in both
    assert done(*predict).startswith("id,label,predicted\n")


def test_lists_of_the_library():
    assert EVERY_BASELINE == BASELINES
    assert {*OUTPUT_ENDINGS, ".npy"} == {*WRITERS}  # npy holds vectors, and no answers
