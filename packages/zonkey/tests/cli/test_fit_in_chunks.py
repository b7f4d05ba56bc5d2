"""`zonkey fit --chunks`: the model of the fit in memory, whatever the file and the interruption."""

import json
import signal
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr

from model_files import (
    FEATURES,
    MATRIX,
    SEEN,
    TRAIN,
    UNSEEN,
    K,
    done,
    refused,
    samples,
    zonkey_does,
)
from zonkey import load, model_info
from zonkey.persistence.container import read_arrays
from zonkey.streaming import checkpoint as checkpoints
from zonkey.streaming import chunks, sources

ROWS = 7
MARKS = np.array(["train", "val", "test", "train"])[np.arange(len(TRAIN)) % 4]
X = samples(TRAIN, 1)
NEW = samples(UNSEEN * 4, 3)


def frame():
    return pd.DataFrame(X, columns=FEATURES).assign(label=TRAIN, id=range(len(X)), note="x")


def at(row, value, others):
    """Return a column with another value in one row."""
    return [value if i == row else other for i, other in zip(range(len(X)), others, strict=True)]


def save_npy(folder):
    np.save(folder / "x.npy", X.astype(np.float16))
    np.save(folder / "y.npy", TRAIN)
    return folder / "x.npy", "--labels", folder / "y.npy"


def save_npz(folder):
    files = np.array([f"{i}.png" for i in range(len(X))])
    np.savez(folder / "x.npz", features=X.astype(np.float64), names=TRAIN, id=files)
    return folder / "x.npz", "--labels-key", "names"


def save_text(name, separator):
    def save(folder):
        frame().to_csv(folder / name, index=False, sep=separator)
        return (folder / name,)

    return save


def save_jsonl(folder):
    lines = [{"label": label, "features": x.tolist()} for label, x in zip(TRAIN, X, strict=True)]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return (folder / "x.jsonl",)


def save_parquet(folder):
    frame().rename(columns={"label": "animal"}).to_parquet(folder / "x.parquet", row_group_size=20)
    return folder / "x.parquet", "--label-column", "animal"


def save_folder(folder):
    (folder / "parts").mkdir()
    frame()[:11].to_parquet(folder / "parts" / "a.parquet")
    frame()[11:].to_parquet(folder / "parts" / "b.parquet")
    return (folder / "parts",)


def save_zarr(folder):
    group = zarr.open_group(folder / "x.zarr", mode="w")
    group.create_array("features", data=X, chunks=(4, X.shape[1]))
    group.create_array("labels", data=TRAIN.astype(np.dtypes.StringDType()))
    return (folder / "x.zarr",)


def save_h5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file["features"] = np.round(20 * X).astype(np.int8)
        file["labels"] = TRAIN.astype("S")
    return (folder / "x.h5",)


SOURCES = {
    "npy": save_npy,
    "npz": save_npz,
    "csv": save_text("x.csv", ","),
    "tsv": save_text("x.tsv", "\t"),
    "jsonl": save_jsonl,
    "parquet": save_parquet,
    "folder": save_folder,
    "zarr": save_zarr,
    "h5": save_h5,
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make chunks of a few rows, and a checkpoint after each."""
    monkeypatch.setattr(sources, "LONGEST_CHUNK", ROWS)
    monkeypatch.setitem(chunks.Chunks.__init__.__kwdefaults__, "every", 1)


@pytest.fixture
def classes(tmp_path):
    names = pd.Index([*SEEN, *UNSEEN], name="class")
    columns = [f"attribute {i}" for i in range(K)]
    path = tmp_path / "classes.csv"
    pd.DataFrame(MATRIX, index=names, columns=columns).to_csv(path)
    return path


def assert_same_model(path, other, rtol=1e-6):  # single precision
    found, expected = load(path), load(other)
    assert found.classes_.tolist() == expected.classes_.tolist()
    for new in (NEW.astype(np.float64), X.astype(np.float64)):
        scores = expected.decision_function(new)
        error = np.abs(found.decision_function(new) - scores).max()
        assert error <= rtol * np.abs(scores).max()


def without_time(text):
    """Return lines of a summary that do not depend on the time or the name of the model."""
    return [line for line in text.splitlines() if not line.startswith(("Time:", "Model:"))]


def fit(folder, classes, source, *options):
    """Fit in chunks and in memory, which must agree; return the lines that are printed."""
    arguments = "fit", source[0], classes, *source[1:], *options, "-o"
    found = done(*arguments, folder / "chunks.zonkey", "--chunks")
    expected = done(*arguments, folder / "memory.zonkey")
    assert without_time(found) == without_time(expected)
    # Memory holds integers of 8 bits in double precision.
    assert_same_model(folder / "chunks.zonkey", folder / "memory.zonkey")
    training = [model_info(folder / f"{name}.zonkey")["training"] for name in ("chunks", "memory")]
    assert training[0] == training[1]  # also names of samples
    assert not (folder / "chunks.zonkey.progress").exists()
    return without_time(found)


@pytest.mark.parametrize("name", SOURCES)
def test_sources(tmp_path, classes, name):
    source = SOURCES[name](tmp_path)
    lines = fit(tmp_path, classes, source, "--candidates", "all", "--seed", 3)
    assert lines[0] == f"Samples:    {len(X)}"
    info = json.loads(done("info", tmp_path / "chunks.zonkey", "--json"))
    expected = FEATURES if name in ("csv", "tsv", "parquet", "folder") else None
    assert info["training"].get("feature_names") == expected


@pytest.mark.parametrize("name", ["npy", "folder", "zarr", "h5"])
def test_the_same_files_are_predicted_measured_and_explained(tmp_path, classes, name):
    source, model = SOURCES[name](tmp_path), tmp_path / "m.zonkey"
    options = "--candidates", "all", "--preset", "paper"
    done("fit", source[0], classes, *source[1:], "--chunks", "-o", model, *options)
    done("predict", model, source[0], "-o", tmp_path / "answers.csv")
    answers = pd.read_csv(tmp_path / "answers.csv")["predicted"]
    assert (answers == TRAIN).mean() > 0.9
    found = json.loads(done("evaluate", model, *source, "--json"))
    assert sum(row["n"] for row in found["classes"]) == len(X)
    assert answers[40] in done("explain", model, source[0], "--row", 40)


def test_predict_writes_while_it_reads(tmp_path, classes):
    (path,), model = save_folder(tmp_path), tmp_path / "m.zonkey"
    done("fit", path, classes, "--chunks", "-o", model)
    frame().assign(f2=at(8, np.nan, X[:, 2])).to_parquet(path / "b.parquet")
    found = zonkey_does("predict", model, path)
    assert found.exit_code == 2
    assert found.stderr.startswith("Row 9, column 'f2' of b.parquet is empty.")
    assert len(found.stdout.splitlines()) == 1 + 11 + ROWS  # the heading, a.parquet, a block


@pytest.mark.parametrize("preset", ["recommended", "paper"])
@pytest.mark.parametrize("unlabeled", [False, True])
def test_presets(tmp_path, classes, preset, unlabeled):
    np.save(tmp_path / "new.npy", NEW)
    options = ["--preset", preset, "--notes", "n", "--license", "l"]
    options += ["--unlabeled", tmp_path / "new.npy"] if unlabeled else []
    lines = fit(tmp_path, classes, save_npz(tmp_path), *options)
    assert ("Adapted:    to unlabeled samples" in lines) == unlabeled


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_rows_marked_test_and_val(tmp_path, classes, name):
    marks = np.where(MARKS == "val", "train", MARKS)
    marks[:ROWS] = "test"  # a whole chunk
    table = frame().assign(split=marks)
    write = table.to_parquet if name.endswith("parquet") else table.to_csv
    write(tmp_path / name, index=False)
    lines = fit(tmp_path, classes, (tmp_path / name,))
    n = int((marks == "test").sum())
    assert lines[:2] == [
        f"Samples:    {len(X) - n}; {n} marked `test` are left out",
        "Columns:    f0..f7 (8 columns); not used: id, note",
    ]
    table["split"] = np.where(
        np.isin(TRAIN, np.unique(TRAIN)[-3:]) & (marks != "test"), "val", marks
    )
    write(tmp_path / name, index=False)
    assert fit(tmp_path, classes, (tmp_path / name,))[0] == lines[0]
    table["split"] = MARKS
    write(tmp_path / name, index=False)
    arguments = "fit", tmp_path / name, classes, "-o", tmp_path / "m.zonkey"
    line = refused(*arguments)
    assert line.startswith("Rows `val` must be whole classes;")
    assert line == refused(*arguments, "--chunks")


def test_json(tmp_path, classes):
    arguments = "fit", *save_npz(tmp_path), classes, "-o", tmp_path / "m.zonkey", "--json"
    found, expected = json.loads(done(*arguments, "--chunks")), json.loads(done(*arguments))
    assert found.keys() == expected.keys()
    assert found["summary"]["n_features"] == X.shape[1]


# A fit that gets a signal when it has written a state so many times
STOPPED = """
import os, signal, sys
from zonkey.cli import app
from zonkey.streaming import checkpoint, chunks, sources

sources.LONGEST_CHUNK = 7
chunks.Chunks.__init__.__kwdefaults__["every"] = 1
write, left = checkpoint.PassCheckpoint.write, int(sys.argv[2])

def stopping(*arguments):
    global left
    write(*arguments)
    left -= 1
    if not left:
        os.kill(os.getpid(), int(sys.argv[1]))

checkpoint.PassCheckpoint.write = stopping
app(sys.argv[3:])
"""


def stopped(number, n_writes, *arguments):
    command = [sys.executable, "-c", STOPPED, str(int(number)), str(n_writes), *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def arrays_of(path):
    _, arrays = read_arrays(path, "model")
    return arrays


def interrupted(n_writes, *arguments):
    """Interrupt a fit in this process when it has written a state so many times."""
    write, states = checkpoints.PassCheckpoint.write, []

    def stopping(*state):
        write(*state)
        states.append(state)
        if len(states) == n_writes:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.PassCheckpoint, "write", stopping)
        assert zonkey_does(*arguments).exit_code == 130


def assert_goes_on(folder, told, *arguments):
    """Run a command again: it resumes, with the bits of one that was never interrupted."""
    output, whole = folder / "m.zonkey", folder / "whole.zonkey"
    assert not output.exists()
    again = zonkey_does(*arguments, output)
    assert (again.exit_code, again.stderr) == (0, f"Resuming {told}.\n")
    assert again.stdout.startswith(f"Samples:    {len(X)}\n")
    assert not (folder / "m.zonkey.progress").exists()
    done(*arguments, whole)
    found, expected = arrays_of(output), arrays_of(whole)
    assert found.keys() == expected.keys()
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
@pytest.mark.parametrize(
    ("preset", "n_writes", "told"),
    [("recommended", 13, "at row 35 of pass 2"), ("paper", 5, "at row 35 of pass 1")],
)
def test_a_killed_fit_goes_on_with_the_same_bits(tmp_path, classes, preset, n_writes, told):
    arguments = "fit", *SOURCES["csv"](tmp_path), classes, "--preset", preset, "--chunks", "-o"
    killed = stopped(signal.SIGKILL, n_writes, *arguments, tmp_path / "m.zonkey")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_goes_on(tmp_path, told, *arguments)


@pytest.mark.parametrize(
    ("n_writes", "told"),
    [
        (4, "at row 28 of pass 1"),
        (8, "with pass 2"),
        (20, "at row 28 of pass 3"),
        (24, "after the last pass"),
    ],
)
def test_an_interrupted_fit_goes_on_with_the_same_bits(tmp_path, classes, n_writes, told):
    arguments = "fit", *save_npz(tmp_path), classes, "--chunks", "-o"
    interrupted(n_writes, *arguments, tmp_path / "m.zonkey")
    assert_goes_on(tmp_path, told, *arguments)


@pytest.mark.parametrize(
    ("n_writes", "left"), [(20, "12 marked `test`"), (24, "rows marked `test`")]
)
def test_rows_of_text_are_counted_if_they_are_read(tmp_path, classes, n_writes, left):
    marks = np.where(MARKS == "val", "train", MARKS)
    frame().assign(split=marks).to_csv(tmp_path / "x.csv", index=False)
    arguments = "fit", tmp_path / "x.csv", classes, "--chunks", "-o", tmp_path / "m.zonkey"
    interrupted(n_writes, *arguments)
    found = zonkey_does(*arguments).stdout
    assert found.startswith(f"Samples:    {len(X) - 12}; {left} are left out\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_control_c(tmp_path, classes):
    arguments = "fit", *save_npz(tmp_path), classes, "--chunks", "-o", tmp_path / "m.zonkey"
    found = stopped(signal.SIGINT, 3, *arguments)
    assert found.returncode == 130
    assert found.stderr == (
        "Interrupted; nothing was written; the same command resumes from m.zonkey.progress.\n"
    )
    assert zonkey_does(*arguments).stderr == "Resuming at row 21 of pass 1.\n"


def test_progress_stays_if_the_data_cannot_be_read(tmp_path, classes):
    frame().to_csv(tmp_path / "x.csv", index=False)
    arguments = "fit", tmp_path / "x.csv", classes, "--chunks", "-o", tmp_path / "m.zonkey"
    interrupted(8, *arguments)
    (tmp_path / "x.csv").rename(tmp_path / "away.csv")
    assert zonkey_does(*arguments).exit_code == 2
    (tmp_path / "away.csv").rename(tmp_path / "x.csv")
    assert zonkey_does(*arguments).stderr == "Resuming with pass 2.\n"


def another_seed(folder):
    return ("--seed", 5)


def another_preset(folder):
    return ("--preset", "paper")


def other_candidates(folder):
    return ("--candidates", "unseen")


def other_labels(folder):
    np.save(folder / "y.npy", TRAIN[::-1])
    return ()


def other_prototypes(folder):
    text = (folder / "classes.csv").read_text()
    (folder / "classes.csv").write_text(text.replace(UNSEEN[0], "new", 1))
    return ()


def damage(folder):
    (folder / "m.zonkey.progress" / "passes" / "survey.pass").write_bytes(b"x")
    return ()


@pytest.mark.parametrize(
    "change",
    [another_seed, another_preset, other_candidates, other_labels, other_prototypes, damage],
)
def test_the_progress_of_another_fit_is_refused(tmp_path, classes, change):
    output = tmp_path / "m.zonkey"
    arguments = ["fit", *save_npy(tmp_path), classes, "--chunks", "-o", output]
    interrupted(3, *arguments)
    line = refused(*arguments, *change(tmp_path))
    progress = tmp_path / "m.zonkey.progress"
    assert line == (
        f"{progress} must hold the progress of this fit; it was kept for other data or options, or "
        "is damaged. Remove the folder to begin again, or choose another --output."
    )
    assert (progress / "passes" / "survey.pass").exists()
    assert not output.exists()


def test_two_fits_at_a_time(tmp_path, classes):
    progress = tmp_path / "m.zonkey.progress"
    arguments = "fit", *save_npz(tmp_path), classes, "--chunks", "-o", tmp_path / "m.zonkey"
    with checkpoints.PassCheckpoint(progress).lock():
        line = refused(*arguments)
    assert line.endswith(
        f"{progress} is in use by another one. Wait for it, or choose another --output."
    )
    checkpoints.PassCheckpoint(progress).remove(())
    progress.write_text("mine")
    assert refused(*arguments).endswith(f"{progress} is a file. Choose another --output.")
    assert progress.read_text() == "mine"


def table_with(folder, **columns):
    frame().assign(**columns).to_csv(folder / "x.csv", index=False)


def late_label(folder):
    table_with(folder, label=at(40, "yak", TRAIN))


def empty_label(folder):
    table_with(folder, label=at(30, None, TRAIN))


def bad_cell(folder):
    table_with(folder, f2=at(33, "wide", X[:, 2]))


def wrong_mark(folder):
    table_with(folder, split=at(20, "mine", ["train"] * len(X)))


def no_training_row(folder):
    table_with(folder, split="test")


def no_label(folder):
    frame().drop(columns=["label", "note"]).to_csv(folder / "x.csv", index=False)


def no_common_label(folder):
    table_with(folder, label=np.char.add("my ", TRAIN))


FAULTS = {
    late_label: "Every class needs a prototype; 'yak' of x.csv has none in classes.csv.",
    empty_label: "Row 32, column 'label' of x.csv is empty.",
    bad_cell: "Row 35, column 'f2' of x.csv must be a finite number; got 'wide'.",
    wrong_mark: "The column `split` must say train, val or test; row 22 of x.csv says 'mine'.",
    no_training_row: "The column `split` of x.csv has no row `train`.",
    no_label: "x.csv must have a column of labels, named label or class or y or target;",
    no_common_label: "Both files must use the same labels;",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line(tmp_path, classes, fault):
    fault(tmp_path)
    before = set(tmp_path.iterdir())
    line = refused("fit", tmp_path / "x.csv", classes, "--chunks", "-o", tmp_path / "m.zonkey")
    assert line.startswith(FAULTS[fault])
    if fault is not no_common_label:  # which lists labels of the first chunk
        assert line == refused("fit", tmp_path / "x.csv", classes, "-o", tmp_path / "m.zonkey")
    assert set(tmp_path.iterdir()) == before


def test_parts_of_a_folder_must_have_the_same_columns(tmp_path, classes):
    (path,) = save_folder(tmp_path)
    frame().rename(columns={"f3": "width"}).to_parquet(path / "c.parquet")
    line = refused("fit", path, classes, "--chunks", "-o", tmp_path / "m.zonkey")
    assert line.startswith(
        "Files of a folder must have the same columns; c.parquet lacks 'f3', unlike a.parquet."
    )


def test_options_that_do_not_fit(tmp_path, classes):
    (path,), (array, *_) = SOURCES["csv"](tmp_path), save_npy(tmp_path)
    arguments = classes, "--chunks", "-o", tmp_path / "m.zonkey"
    assert "x.csv is a table" in refused("fit", path, *arguments, "--features-key", "x")
    line = refused("fit", path, *arguments, "--labels", tmp_path / "y.npy")
    assert line.startswith("A table has its labels in a column; x.csv is a table")
    assert refused("fit", array, *arguments).startswith("Features need labels; x.npy holds none.")
    (tmp_path / "photos" / "seen 0").mkdir(parents=True)
    assert refused("fit", tmp_path / "photos", *arguments).startswith(
        "--chunks must be left out for pictures"
    )
    (tmp_path / "classes.csv").write_text("label,width\na,1\na,2\n")
    assert "classes.csv" in refused("fit", path, *arguments)


def test_a_fault_leaves_the_progress_of_another_fit(tmp_path, classes):
    arguments = ["fit", *save_npz(tmp_path), classes, "--chunks", "-o", tmp_path / "m.zonkey"]
    interrupted(3, *arguments)
    late_label(tmp_path)
    refused("fit", tmp_path / "x.csv", *arguments[4:])
    assert zonkey_does(*arguments).stderr == "Resuming at row 21 of pass 1.\n"


def test_passes_are_shown_on_a_terminal(tmp_path, classes, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal for rich
    monkeypatch.setenv("COLUMNS", "160")
    arguments = "fit", *SOURCES["csv"](tmp_path), classes, "-o", tmp_path / "m.zonkey", "--chunks"
    for preset, wanted in {
        "recommended": [
            "Pass 1: samples and means",
            "Choosing parameters",
            "Pass 2: spread within classes",
            "Pass 3: class means",
            f"{len(X)} rows",
        ],
        "paper": ["Pass 1: sums over classes", "Learning the projection"],
    }.items():
        found = zonkey_does(*arguments, "--preset", preset)
        assert found.exit_code == 0
        assert all(text in found.stderr for text in wanted)
