"""Ctrl-C leaves no half-written file behind, and a closed pipe is no error."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import zonkey

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")

# A fit that says when it has begun, and then takes long.
SLOW_FIT = """
import sys, time
import zonkey
from zonkey.cli import app

def fit(self, X, y, **options):
    print("begun", flush=True)
    time.sleep(60)

zonkey.AnyShotClassifier.fit = fit
app(sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path):
    """Make a folder with features, prototypes and a model."""
    rng = np.random.default_rng(0)
    prototypes = zonkey.Prototypes(["a", "b", "c"], rng.normal(size=(3, 2)))
    X, y = rng.normal(size=(8, 4)), np.array(["a", "b"] * 4)
    zonkey.presets.rpl(prototypes).fit(X, y).save(tmp_path / "m.zonkey")
    np.savez(tmp_path / "x.npz", features=X, labels=y)
    np.savez(tmp_path / "p.npz", prototypes=prototypes.matrix, labels=prototypes.labels)
    return tmp_path


def started(folder, *arguments, program=("-m", "zonkey"), **pipes):
    command = [sys.executable, *program, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    return subprocess.Popen(command, cwd=folder, text=True, **pipes)


def names(folder):
    return {path.name for path in folder.iterdir()}


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def test_predict(folder):
    before = names(folder)
    arguments = "predict", "m.zonkey", "-", "-o", "out.csv"
    with started(folder, *arguments, stdin=subprocess.PIPE) as process:
        process.stdin.write("id,f0,f1,f2,f3\n" + "1,0.5,0.5,1,2\n" * 30)
        process.stdin.flush()
        wait_for(lambda: names(folder) - before)
        assert {name.rpartition(".")[2] for name in names(folder) - before} == {"part"}
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.stderr.read() == "Interrupted; nothing was written.\n"
        assert process.wait() == 130
    assert names(folder) == before


def test_fit(folder):
    before = names(folder)
    arguments = "fit", "x.npz", "p.npz", "-o", "new.zonkey"
    with started(folder, *arguments, program=("-c", SLOW_FIT)) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "Interrupted; nothing was written.\n"
        assert process.wait() == 130
    assert names(folder) == before


def test_a_closed_pipe(folder):
    rows = "id,f0,f1,f2,f3\n" + "1,0.5,0.5,1,2\n" * 200_000
    (folder / "long.csv").write_text(rows)
    with started(folder, "predict", "m.zonkey", "long.csv") as process:
        assert process.stdout.readline() == "id,predicted\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
