"""Damaged benchmarks: one clear line, exit code 2, and nothing half-written."""

from functools import partial

import numpy as np
import pytest
from http_server import serving, zip_of
from tiny_benchmark import folder_contents, spoil, write_folder
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey_lab.datasets.fetch import fetch_dataset
from zonkey_lab.datasets.registry import Remote

NAN = np.full((5, 24), np.nan)


def cut(path):
    path.write_bytes(path.read_bytes()[: int(0.6 * path.stat().st_size)])


# What is done to the variables, or to the file of features; test_xlsa17 has more.
DAMAGED = {
    "wrong key": (lambda v: v.pop("features"), None, "`features`"),
    "transposed": (lambda v: v.update(features=v["features"].T), None, "It is transposed"),
    "NaN, which only reading reveals": (lambda v: v.update(features=NAN), None, "NaN"),
    "truncated": (None, cut, "res101.mat"),
    "not a mat file": (None, lambda path: path.write_text("<html>Not found</html>"), "res101.mat"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_give_clear_lines_and_exit_code_2(kind, tmp_path):
    change, damage, named = DAMAGED[kind]
    contents = folder_contents()
    folder = write_folder(tmp_path, spoil(contents, change) if change else contents)
    if damage:
        damage(folder / "res101.mat")
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["data", "check", str(folder)])
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert named in line
    assert "Traceback" not in done.output
    assert sorted(tmp_path.rglob("*")) == before


def test_the_undamaged_files_pass(tmp_path):
    folder = write_folder(tmp_path, folder_contents())
    done = CliRunner().invoke(app, ["data", "check", str(folder)])
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
