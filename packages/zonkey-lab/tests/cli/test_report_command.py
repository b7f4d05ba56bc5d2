"""`zonkey report`: what it writes, and what it says if there is nothing to report."""

import json

import pytest
from made_up_records import MadeUp
from typer.testing import CliRunner

from zonkey.cli import app


def call(*arguments):
    return CliRunner().invoke(app, ["report", *(str(argument) for argument in arguments)])


@pytest.fixture
def runs(tmp_path):
    for data in ("cub", "emoji"):
        made = MadeUp(tmp_path / "runs", data)
        for model in ("BPL0", "BPL"):
            made.zero_shot(model, 0.5)
    return tmp_path / "runs"


def test_page_tables_and_figures_are_written_and_named(runs, tmp_path):
    out = tmp_path / "made" / "report"
    done = call("--runs", runs, "--out", out, "--data", "cub")
    assert done.exit_code == 0, done.output
    assert str(out / "index.html") in done.output
    assert {path.name for path in out.iterdir()} == {"index.html", "tables.md", "figures"}
    assert (out / "figures" / "ablation-cub.svg").exists()
    again = call("--runs", runs, "--out", out, "--data", "cub", "--json")
    written = {"page": "index.html", "tables": "tables.md", "figures": "figures"}
    assert json.loads(again.output) == {name: str(out / file) for name, file in written.items()}
    target = tmp_path / "docs" / "results.md"
    done = call("--runs", runs, "--markdown", target, "--data", "cub")
    assert done.exit_code == 0, done.output
    assert str(target) in done.output
    images = target.parent / "images"
    assert {*target.parent.iterdir()} == {target, images}
    assert {path.name for path in images.iterdir()} == {
        f"results-{name}-cub.png"
        for name in ("pure-zsl", "generalized-zsl", "ablation", "alternatives")
    }
    text = target.read_text("utf-8").replace("images/results-", "figures/")
    assert text == (out / "tables.md").read_text("utf-8")
    done = call("--runs", runs, "--markdown", target, "--data", "cub", "--json")
    assert json.loads(done.output) == {"tables": str(target), "figures": str(images)}


def test_data_sets_can_be_picked_in_any_case(runs, tmp_path):
    target = tmp_path / "results.md"
    assert call("--runs", runs, "--markdown", target, "--data", "EMOJI").exit_code == 0
    text = target.read_text("utf-8")
    assert "Zero-shot learning, emoji" in text
    assert "Zero-shot learning, cub" not in text
    both = call("--runs", runs, "--markdown", target, "--data", "emoji", "--data", "cub")
    assert both.exit_code == 0
    assert "Zero-shot learning, cub" in target.read_text("utf-8")


def refused(done, message):
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_what_cannot_be_reported_is_told_in_one_line(runs, tmp_path):
    out, empty = tmp_path / "report", tmp_path / "empty"
    empty.mkdir()
    for folder in (empty, tmp_path / "absent"):
        message = f"There must be records to report on; {folder} holds none. Make some with"
        refused(call("--runs", folder, "--out", out), message)
    done = call("--runs", runs, "--out", out, "--data", "sun")
    refused(done, "The data set must have records: cub, emoji; got 'sun'.")
    path = next(runs.glob("*/*/*.json"))
    path.write_text("{")
    refused(call("--runs", runs, "--out", out), f"The record {path} must be JSON; it is damaged.")
    assert not out.exists()


@pytest.mark.parametrize("option", ["--out", "--markdown"])
def test_a_target_that_cannot_be_written_is_told_in_one_line(runs, tmp_path, option):
    target = tmp_path / "taken"
    target.write_text("mine") if option == "--out" else target.mkdir()
    refused(call("--runs", runs, option, target), f"{option} must be a ")
    assert target.is_dir() or target.read_text() == "mine"
    assert not list(tmp_path.glob("*.part"))
