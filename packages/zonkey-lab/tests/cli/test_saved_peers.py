"""Model files of peers at the command line: no command needs to have imported their class."""

import subprocess
import sys

import numpy as np
import pytest

import zonkey
from zonkey_lab.peers.zsl import SAE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    rng = np.random.default_rng(0)
    prototypes = zonkey.Prototypes(["a", "b", "c"], rng.normal(size=(3, 2)))
    X, y = rng.normal(size=(12, 4)), np.array(["a", "b"] * 6)
    SAE(prototypes).fit(X, y).save(folder / "m.zonkey")
    np.savez(folder / "x.npz", features=X, labels=y)
    return folder


WORKS = {
    "predict": ("m.zonkey", "x.npz"),
    "evaluate": ("m.zonkey", "x.npz"),
    "explain": ("m.zonkey", "x.npz"),
    "info": ("m.zonkey",),
    "classes list": ("m.zonkey",),
}


SLOW = pytest.mark.exhaustive  # a process each; the same code finds the class
COMMANDS = [
    command if command == "predict" else pytest.param(command, marks=SLOW) for command in WORKS
]


@pytest.mark.parametrize("command", [*COMMANDS, "export"])
def test_commands(folder, command):
    arguments = WORKS.get(command, ("m.zonkey", "--onnx", "m.onnx"))
    line = [sys.executable, "-m", "zonkey", *command.split(), *arguments]
    found = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    if command == "export":
        assert found.returncode == 2
        assert found.stderr.startswith("export does not work with SAE, the model of m.zonkey.")
    else:
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout
