"""Small files and a fitted model, and how commands are called, for tests of the command line."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from zonkey.cli import app

D, K, N_SEEN, N_UNSEEN, N_EACH = 8, 5, 8, 3, 6
SEEN = [f"seen {i}" for i in range(N_SEEN)]
UNSEEN = [f"unseen {i}" for i in range(N_UNSEEN)]
FEATURES = [f"f{i}" for i in range(D)]
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(N_SEEN + N_UNSEEN, K))
LOOKS = RNG.normal(size=(K, D))


def samples(labels, seed):
    rng = np.random.default_rng(seed)
    rows = [[*SEEN, *UNSEEN].index(label) for label in labels]
    return (MATRIX[rows] @ LOOKS + 0.1 * rng.normal(size=(len(rows), D))).astype(np.float32)


def table(labels, seed, **columns):
    """Return a table of features with an id, a label and a text; `columns` come first."""
    frame = pd.DataFrame(samples(labels, seed), columns=FEATURES)
    before = pd.DataFrame({"id": np.arange(len(frame)), "label": labels, **columns})
    return pd.concat([before, frame], axis=1)


TRAIN = np.repeat(SEEN, N_EACH)
TEST = np.repeat([*SEEN, *UNSEEN], 4)


@pytest.fixture
def few_simulations(monkeypatch):
    """Simulate few tasks to adapt to unlabeled samples, which takes less time."""
    monkeypatch.setattr("zonkey.anyshot.adapting._SMALL_SIMULATIONS", 10)


def zonkey_does(*arguments, input=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def done(*arguments, input=None):
    """Return what a command prints; it must succeed, and say nothing on stderr."""
    found = zonkey_does(*arguments, input=input)
    assert (found.exit_code, found.stderr) == (0, ""), found.output
    return found.stdout


def refused(*arguments, input=None):
    """Return the one line on stderr with which a command exits with code 2."""
    found = zonkey_does(*arguments, input=input)
    assert found.exit_code == 2, found.output
    (line,) = found.stderr.splitlines()
    assert line.endswith((".", "?", ")"))
    return line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write features, prototypes and a fitted model to a folder."""
    folder = tmp_path_factory.mktemp("files")
    table(TRAIN, 1, file="a.jpg").to_parquet(folder / "features.parquet")
    table(TEST, 2, file="b.jpg").to_csv(folder / "test.csv", index=False)
    names = pd.Index([*SEEN, *UNSEEN], name="class")
    columns = [f"attribute {i}" for i in range(K)]
    pd.DataFrame(MATRIX, index=names, columns=columns).to_csv(folder / "prototypes.csv")
    paper = "--preset", "paper"
    unseen = "--candidates", "unseen"
    for name, options in {"model": unseen, "paper": paper}.items():
        output = folder / f"{name}.zonkey"
        done("fit", folder / "features.parquet", folder / "prototypes.csv", "-o", output, *options)
    return folder
