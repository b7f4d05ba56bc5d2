"""Damaged benchmarks: one clear line, exit code 2, and nothing half-written."""

from functools import partial

import numpy as np
import pytest
from http_server import serving, zip_of
from mat_files import save_mat
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey_lab.datasets.fetch import fetch_dataset
from zonkey_lab.datasets.registry import Remote

NAMES = ["antelope", "bear", "cat", "dolphin"]


def benchmark(folder, features=(), splits=()):
    """Write a tiny xlsa17 folder, with entries replaced (or left out, where None)."""
    rng = np.random.default_rng(0)
    content = {
        "features": rng.normal(size=(5, 12)),
        "labels": np.repeat([1.0, 2.0, 3.0, 4.0], 3)[:, None],
        **dict(features),
    }
    tables = {
        "att": rng.normal(size=(3, 4)),
        "allclasses_names": NAMES,
        "trainval_loc": np.array([[1.0], [2], [4], [5]]),
        "test_seen_loc": np.array([[3.0], [6]]),
        "test_unseen_loc": np.array([[7.0], [8], [9], [10], [11], [12]]),
        **dict(splits),
    }
    for name, arrays in (("res101", content), ("att_splits", tables)):
        kept = {key: value for key, value in arrays.items() if value is not None}
        save_mat(folder / f"{name}.mat", kept)
    return [folder]


def cut_short(paths):
    path = paths[0] / "res101.mat"
    path.write_bytes(path.read_bytes()[: int(0.6 * path.stat().st_size)])
    return paths


def text_in_place_of(folder):
    benchmark(folder)
    (folder / "res101.mat").write_text("<html>Not found</html>")
    return [folder]


BAD = np.full((5, 12), np.nan)
DAMAGED = {
    "truncated mat": (lambda f: cut_short(benchmark(f)), "res101.mat"),
    "not a mat file": (text_in_place_of, "res101.mat"),
    "wrong key in a mat file": (lambda f: benchmark(f, {"features": None}), "features"),
    "missing split": (lambda f: benchmark(f, splits={"trainval_loc": None}), "trainval_loc"),
    "transposed features": (lambda f: benchmark(f, {"features": np.ones((12, 5))}), "ranspose"),
    "labels out of range": (lambda f: benchmark(f, {"labels": np.full((12, 1), 5.0)}), "labels"),
    "labels from 0": (lambda f: benchmark(f, {"labels": np.arange(12.0)[:, None] // 3}), "from 0"),
    "NaN in a mat file": (lambda f: benchmark(f, {"features": BAD}), "NaN"),
    "positions out of range": (
        lambda f: benchmark(f, splits={"test_seen_loc": np.array([[13.0]])}),
        "test_seen_loc",
    ),
    "training samples in the test": (
        lambda f: benchmark(f, splits={"test_seen_loc": np.array([[1.0]])}),
        "test_seen",
    ),
    "seen and unseen classes overlap": (
        lambda f: benchmark(f, splits={"test_unseen_loc": np.array([[3.0]])}),
        "unseen",
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
    done = CliRunner().invoke(app, ["data", "check", str(benchmark(tmp_path)[0])])
    assert done.exit_code == 0, done.output
    assert not done.stderr


def test_an_archive_that_would_write_outside_its_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    inside = tmp_path / "data"
    content = zip_of({"stripes/a.csv": b"x", "stripes/../../outside.csv": b"x"})
    with serving(content) as server:
        remote = Remote("stripes", server.url("all.zip"), 9, None, "stripes", "-", "-", "-")
        fetch = partial(fetch_dataset, registry={"stripes": remote})
        monkeypatch.setattr("zonkey_lab.datasets.fetch.fetch_dataset", fetch)
        arguments = ["data", "fetch", "stripes", "--quiet", "--folder", str(inside)]
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "outside.csv" in done.stderr
    assert {path.name for path in tmp_path.rglob("*")} == {"data", "all.zip"}
