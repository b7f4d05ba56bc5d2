"""Damaged data of many kinds: one clear line, exit code 2, and nothing half-written."""

import numpy as np
import pytest
from typer.testing import CliRunner

from zonkey.cli import app

FEATURES = "label,a,b\nhorse,1,2\nhorse,1.5,2\ntiger,3,4\ntiger,3,5\n"
PROTOTYPES = "class,stripes,mane\nhorse,0,1\ntiger,1,0\nzebra,1,1\n"


def own(folder, features=FEATURES, prototypes=PROTOTYPES):
    """Write a table of features and one of prototypes."""
    paths = [folder / "features.csv", folder / "prototypes.csv"]
    for path, content in zip(paths, (features, prototypes), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def arrays(folder, **content):
    path = folder / "features.npz"
    np.savez(path, **content)
    return [path, own(folder)[1]]


def cut(paths, share=0.6):
    path = paths[0]
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    return paths


X, Y = np.ones((4, 2)), np.array(["horse", "horse", "tiger", "tiger"])
DAMAGED = {
    "class without a prototype": (lambda f: own(f, FEATURES + "okapi,1,2\n"), "okapi"),
    "not UTF-8": (lambda f: own(f, FEATURES.encode() + b"\xff\xfe,1,2\n"), "UTF-8"),
    "text in a column of numbers": (lambda f: own(f, FEATURES + "tiger,x,2\n"), "'x'"),
    "empty cell": (lambda f: own(f, FEATURES + "tiger,,2\n"), "column 'a'"),
    "ragged rows": (lambda f: own(f, FEATURES + "tiger,1,2,3\n"), "row"),
    "semicolons": (lambda f: own(f, FEATURES.replace(",", ";")), ";"),
    "empty table": (lambda f: own(f, ""), "empty"),
    "no label column": (lambda f: own(f, "a,b\n1,2\n3,4\n"), "label"),
    "repeated class": (lambda f: own(f, prototypes=PROTOTYPES + "zebra,0,0\n"), "zebra"),
    "equal prototypes": (lambda f: own(f, prototypes=PROTOTYPES + "quagga,1,1\n"), "quagga"),
    "truncated npz": (lambda f: cut(arrays(f, X=X, y=Y)), "features.npz"),
    "unknown keys": (lambda f: arrays(f, one=X, other=X), "features.npz"),
    "transposed npz": (lambda f: arrays(f, X=np.ones((3, 4)), y=Y), "ranspose"),
    "NaN in an npz": (lambda f: arrays(f, X=np.full((4, 2), np.inf), y=Y), "NaN"),
    "pickled objects": (lambda f: arrays(f, X=X, y=np.array([{}] * 4)), "object"),
    "missing file": (lambda f: [f / "nowhere.csv"], "nowhere.csv"),
    "unknown kind of file": (
        lambda f: [(f / "x.docx", (f / "x.docx").write_text("x"))[0]],
        ".docx",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_give_clear_lines_and_exit_code_2(kind, tmp_path):
    damage, named = DAMAGED[kind]
    paths = damage(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["data", "check", *map(str, paths)])
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1, lines
    assert named in lines[0]
    assert "Traceback" not in done.output
    assert sorted(tmp_path.rglob("*")) == before


def test_the_undamaged_files_pass(tmp_path):
    for make in (own, lambda folder: arrays(folder, X=X + np.eye(4, 2), y=Y)):
        folder = tmp_path / str(id(make))
        folder.mkdir()
        done = CliRunner().invoke(app, ["data", "check", *map(str, make(folder))])
        assert done.exit_code == 0, done.output
        assert not done.stderr
