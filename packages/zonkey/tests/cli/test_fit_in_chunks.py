"""`zonkey fit --chunks`: the model of the fit in memory, whatever the file and the interruption."""

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from data_files import save_samples

from model_files import (
    FEATURES,
    MATRIX,
    SEEN,
    TRAIN,
    UNSEEN,
    K,
    done,
    few_simulations,
    refused,
    samples,
    zonkey_does,
)
from zonkey import load, model_info
from zonkey.persistence.container import read_arrays
from zonkey.streaming import checkpoint as checkpoints
from zonkey.streaming import chunks, sources

__all__ = ["few_simulations"]

ROWS = 7
MARKS = np.array(["train", "val", "test", "train"])[np.arange(len(TRAIN)) % 4]
X = samples(TRAIN, 1)
NEW = samples(UNSEEN * 4, 3)


def frame():
    return pd.DataFrame(X, columns=FEATURES).assign(label=TRAIN, id=range(len(X)), note="x")


def at(row, value, others):
    """Return a column with another value in one row."""
    return [value if i == row else other for i, other in zip(range(len(X)), others, strict=True)]


# Kind of file -> the numbers in it, options that say where the labels are, and columns
FILES = np.array([f"{i}.png" for i in range(len(X))])
SOURCES = {
    "npy": (X.astype(np.float16), (), {}),
    "npz": (X.astype(np.float64), ("--labels-key", "who"), {"label": "who", "id": FILES}),
    "csv": (X, (), {"id": range(len(X)), "note": "x"}),
    "tsv": (X, (), {"id": range(len(X)), "note": "x"}),
    "jsonl": (X, (), {}),
    "parquet": (X, ("--label-column", "who"), {"label": "who", "id": range(len(X))}),
    "folder": (X, (), {"id": range(len(X)), "note": "x"}),
    "zarr": (X, (), {}),
    "h5": (np.round(20 * X).astype(np.int8), (), {}),
}


def save(kind, folder):
    """Write the samples, and return the path and options of their file."""
    numbers, options, columns = SOURCES[kind]
    path, *labels = save_samples(kind, folder, numbers, TRAIN, **columns)
    return (path, *(("--labels", labels[0]) if labels else options))


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
    preset = "recommended" if name in ("npz", "h5") else "paper"  # which is faster
    lines = fit(tmp_path, classes, save(name, tmp_path), "--seed", 3, "--preset", preset)
    assert lines[0] == f"Samples:    {len(X)}"
    info = json.loads(done("info", tmp_path / "chunks.zonkey", "--json"))
    expected = FEATURES if name in ("csv", "tsv", "parquet", "folder") else None
    assert info["training"].get("feature_names") == expected


@pytest.mark.parametrize("name", ["npy", "folder", "zarr"])
def test_the_same_files_are_predicted_measured_and_explained(tmp_path, classes, name):
    source, model = save(name, tmp_path), tmp_path / "m.zonkey"
    options = "--candidates", "all", "--preset", "paper"
    done("fit", source[0], classes, *source[1:], "--chunks", "-o", model, *options)
    done("predict", model, source[0], "-o", tmp_path / "answers.csv")
    answers = pd.read_csv(tmp_path / "answers.csv")["predicted"]
    assert (answers == TRAIN).mean() > 0.9
    found = json.loads(done("evaluate", model, *source, "--json"))
    assert sum(row["n"] for row in found["classes"]) == len(X)
    assert answers[40] in done("explain", model, source[0], "--row", 40)


def test_predict_writes_while_it_reads(tmp_path, classes):
    (path,), model = save("folder", tmp_path), tmp_path / "m.zonkey"
    done("fit", path, classes, "--chunks", "-o", model, "--preset", "paper")
    frame().assign(f2=at(8, np.nan, X[:, 2])).to_parquet(path / "b.parquet")
    found = zonkey_does("predict", model, path)
    assert found.exit_code == 2
    assert found.stderr.startswith("Row 9, column 'f2' of b.parquet is empty.")
    assert len(found.stdout.splitlines()) == 1 + 17 + ROWS  # the heading, a.parquet, a block


@pytest.mark.usefixtures("few_simulations")
@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_unlabeled_samples_and_notes(tmp_path, classes, preset):
    np.save(tmp_path / "new.npy", NEW)
    options = "--preset", preset, "--notes", "n", "--license", "l", "--unlabeled"
    lines = fit(tmp_path, classes, save("npz", tmp_path), *options, tmp_path / "new.npy")
    assert "Adapted:    to unlabeled samples" in lines


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
    options = "-o", tmp_path / "m.zonkey", "--preset", "paper", "--json"
    arguments = "fit", *save("npz", tmp_path), classes, *options
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
        found = zonkey_does(*arguments)
    assert (found.exit_code, found.stderr) == (
        130,
        "Interrupted; nothing was written; the same command resumes from m.zonkey.progress.\n",
    )


def assert_goes_on(folder, told, *arguments):
    """Run a command again: it resumes, with the bits of one that was never interrupted."""
    output, whole = folder / "m.zonkey", folder / "whole.zonkey"
    assert not output.exists()
    again = zonkey_does(*arguments, output)
    assert (again.exit_code, again.stderr) == (0, f"Resuming {told}.\n")
    assert again.stdout.startswith(f"Samples:    {len(X)}\n")
    assert not (folder / "m.zonkey.progress").exists()
    if not whole.exists():
        done(*arguments, whole)
    found, expected = arrays_of(output), arrays_of(whole)
    assert found.keys() == expected.keys()
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_a_killed_fit_goes_on_with_the_same_bits(tmp_path, classes):
    arguments = "fit", *save("csv", tmp_path), classes, "--chunks", "-o"
    killed = stopped(signal.SIGKILL, 13, *arguments, tmp_path / "m.zonkey")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_goes_on(tmp_path, "at row 35 of pass 2", *arguments)


@pytest.mark.parametrize(
    ("preset", "stages"),
    [
        (
            "recommended",
            {
                4: "at row 28 of pass 1",
                8: "with pass 2",
                20: "at row 28 of pass 3",
                24: "after the last pass",
            },
        ),
        ("paper", {5: "at row 35 of pass 1"}),
    ],
)
def test_an_interrupted_fit_goes_on_with_the_same_bits(tmp_path, classes, preset, stages):
    """Wherever it was interrupted: after so many states were written."""
    arguments = "fit", *save("npz", tmp_path), classes, "--preset", preset, "--chunks", "-o"
    for n_writes, told in stages.items():
        interrupted(n_writes, *arguments, tmp_path / "m.zonkey")
        assert_goes_on(tmp_path, told, *arguments)
        (tmp_path / "m.zonkey").unlink()


# In the midst of the pass, and after it
@pytest.mark.parametrize(("n_writes", "left"), [(5, "12 marked `test`"), (8, "rows marked `test`")])
def test_rows_of_text_are_counted_if_they_are_read(tmp_path, classes, n_writes, left):
    marks = np.where(MARKS == "val", "train", MARKS)
    frame().assign(split=marks).to_csv(tmp_path / "x.csv", index=False)
    options = "--chunks", "--preset", "paper", "-o", tmp_path / "m.zonkey"
    arguments = "fit", tmp_path / "x.csv", classes, *options
    interrupted(n_writes, *arguments)
    found = zonkey_does(*arguments).stdout
    assert found.startswith(f"Samples:    {len(X) - 12}; {left} are left out\n")


def test_progress_stays_if_the_data_cannot_be_read(tmp_path, classes):
    frame().to_csv(tmp_path / "x.csv", index=False)
    options = "--chunks", "--preset", "paper", "-o", tmp_path / "m.zonkey"
    arguments = "fit", tmp_path / "x.csv", classes, *options
    interrupted(3, *arguments)
    (tmp_path / "x.csv").rename(tmp_path / "away.csv")
    assert zonkey_does(*arguments).exit_code == 2
    (tmp_path / "away.csv").rename(tmp_path / "x.csv")
    assert zonkey_does(*arguments).stderr == "Resuming at row 21 of pass 1.\n"


def other_labels(folder):
    (folder / "y.txt").write_text("\n".join(TRAIN[::-1]))


def other_prototypes(folder):
    text = (folder / "classes.csv").read_text()
    (folder / "classes.csv").write_text(text.replace(UNSEEN[0], "new", 1))


def damage(folder):
    (path,) = folder.glob("m.zonkey.progress/passes/*.pass")
    path.write_bytes(b"x")


OTHER_FITS = [
    ("--seed", 5),
    ("--preset", "recommended"),
    ("--candidates", "unseen"),
    other_labels,
    other_prototypes,
    damage,
]


@pytest.mark.parametrize("change", OTHER_FITS)
def test_the_progress_of_another_fit_is_refused(tmp_path, classes, change):
    output, progress = tmp_path / "m.zonkey", tmp_path / "m.zonkey.progress"
    arguments = ["fit", *save("npy", tmp_path), classes, "--chunks", "-o", output]
    arguments += ["--preset", "paper"]
    interrupted(3, *arguments)
    options = (change(tmp_path) or ()) if callable(change) else change
    line = refused(*arguments, *options)
    assert line == (
        f"{progress} must hold the progress of this fit; it was kept for other data or options, or "
        "is damaged. Remove the folder to begin again, or choose another --output."
    )
    assert [*progress.glob("passes/*.pass")]
    assert not output.exists()


def test_two_fits_at_a_time(tmp_path, classes):
    progress = tmp_path / "m.zonkey.progress"
    arguments = "fit", *save("npz", tmp_path), classes, "--chunks", "-o", tmp_path / "m.zonkey"
    with checkpoints.PassCheckpoint(progress).lock():
        line = refused(*arguments)
    assert line.endswith(
        f"{progress} is in use by another one. Wait for it, or choose another --output."
    )
    checkpoints.PassCheckpoint(progress).remove(())
    progress.write_text("mine")
    assert refused(*arguments).endswith(f"{progress} is a file. Choose another --output.")
    assert progress.read_text() == "mine"


FAULTS = {
    "Every class needs a prototype; 'yak' of x.csv has none in classes.csv.": {
        "label": at(40, "yak", TRAIN)
    },
    "Row 32, column 'label' of x.csv is empty.": {"label": at(30, None, TRAIN)},
    "Row 35, column 'f2' of x.csv must be a finite number; got 'wide'.": {
        "f2": at(33, "wide", X[:, 2])
    },
    "The column `split` must say train, val or test; row 22 of x.csv says 'mine'.": {
        "split": at(20, "mine", ["train"] * len(X))
    },
    "The column `split` of x.csv has no row `train`.": {"split": "test"},
    "x.csv must have a column of labels, named label or class or y or target;": {
        "label": None,
        "note": None,
    },
    "Both files must use the same labels;": {"label": np.char.add("my ", TRAIN)},
}


@pytest.mark.parametrize("words", FAULTS)
def test_faults_are_one_line(tmp_path, classes, words):
    table = frame().assign(**FAULTS[words]).dropna(axis=1, how="all")
    table.to_csv(tmp_path / "x.csv", index=False)
    before = set(tmp_path.iterdir())
    line = refused("fit", tmp_path / "x.csv", classes, "--chunks", "-o", tmp_path / "m.zonkey")
    assert line.startswith(words)
    if not words.startswith("Both"):  # which lists labels of the first chunk
        assert line == refused("fit", tmp_path / "x.csv", classes, "-o", tmp_path / "m.zonkey")
    assert set(tmp_path.iterdir()) == before


def test_parts_of_a_folder_must_have_the_same_columns(tmp_path, classes):
    (path,) = save("folder", tmp_path)
    frame().rename(columns={"f3": "width"}).to_parquet(path / "c.parquet")
    line = refused("fit", path, classes, "--chunks", "-o", tmp_path / "m.zonkey")
    assert line.startswith(
        "Files of a folder must have the same columns; c.parquet lacks 'f3', unlike a.parquet."
    )


def test_options_that_do_not_fit(tmp_path, classes):
    (path, *_), (array, *_) = save("csv", tmp_path), save("npy", tmp_path)
    arguments = classes, "--chunks", "-o", tmp_path / "m.zonkey"
    assert "x.csv is a table" in refused("fit", path, *arguments, "--features-key", "x")
    line = refused("fit", path, *arguments, "--labels", tmp_path / "y.txt")
    assert line.startswith("A table has its labels in a column; x.csv is a table")
    assert refused("fit", array, *arguments).startswith("Features need labels; x.npy holds none.")
    (tmp_path / "photos" / "seen 0").mkdir(parents=True)
    assert refused("fit", tmp_path / "photos", *arguments).startswith(
        "--chunks must be left out for pictures"
    )
    (tmp_path / "classes.csv").write_text("label,width\na,1\na,2\n")
    assert "classes.csv" in refused("fit", path, *arguments)


def test_a_fault_leaves_the_progress_of_another_fit(tmp_path, classes):
    arguments = ["fit", *save("npz", tmp_path), classes, "--chunks", "--preset", "paper"]
    arguments += ["-o", tmp_path / "m.zonkey"]
    interrupted(3, *arguments)
    frame().assign(label=at(40, "yak", TRAIN)).to_csv(tmp_path / "x.csv", index=False)
    refused("fit", tmp_path / "x.csv", *arguments[4:])
    assert zonkey_does(*arguments).stderr == "Resuming at row 21 of pass 1.\n"


def test_passes_are_shown_on_a_terminal(tmp_path, classes, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal for rich
    monkeypatch.setenv("COLUMNS", "160")
    arguments = "fit", *save("csv", tmp_path), classes, "-o", tmp_path / "m.zonkey", "--chunks"
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
