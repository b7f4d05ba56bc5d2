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


def test_page_and_tables_are_written_and_named(runs, tmp_path):
    out = tmp_path / "made" / "report"
    done = call("--runs", runs, "--out", out)
    assert done.exit_code == 0, done.output
    assert str(out / "index.html") in done.output
    assert {path.name for path in out.iterdir()} == {"index.html", "tables.md", "figures"}
    assert (out / "figures" / "ablation-cub.svg").exists()


def test_what_was_written_as_json(runs, tmp_path):
    out = tmp_path / "report"
    done = call("--runs", runs, "--out", out, "--json")
    written = {"page": "index.html", "tables": "tables.md", "figures": "figures"}
    assert json.loads(done.output) == {name: str(out / file) for name, file in written.items()}
    done = call("--runs", runs, "--markdown", out / "results.md", "--json")
    assert json.loads(done.output) == {"tables": str(out / "results.md")}


def test_markdown_alone(runs, tmp_path):
    call("--runs", runs, "--out", tmp_path / "report")
    target = tmp_path / "docs" / "results.md"
    done = call("--runs", runs, "--markdown", target)
    assert done.exit_code == 0, done.output
    assert str(target) in done.output
    assert list(target.parent.iterdir()) == [target]
    assert target.read_bytes() == (tmp_path / "report" / "tables.md").read_bytes()


def test_data_sets_can_be_picked_in_any_case(runs, tmp_path):
    target = tmp_path / "results.md"
    assert call("--runs", runs, "--markdown", target, "--data", "EMOJI").exit_code == 0
    text = target.read_text("utf-8")
    assert "### emoji" in text
    assert "### cub" not in text
    both = call("--runs", runs, "--markdown", target, "--data", "emoji", "--data", "cub")
    assert both.exit_code == 0
    assert "### cub" in target.read_text("utf-8")


def refused(done, message):
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_no_records_are_told_in_one_line(tmp_path, exists):
    folder = tmp_path / "runs"
    if exists:
        folder.mkdir()
    out = tmp_path / "report"
    done = call("--runs", folder, "--out", out)
    refused(done, f"There must be records to report on; {folder} holds none. Make some with")
    assert not out.exists()


def test_a_data_set_without_records_is_told_in_one_line(runs, tmp_path):
    done = call("--runs", runs, "--out", tmp_path / "report", "--data", "sun")
    refused(done, "The data set must have records: cub, emoji; got 'sun'.")


def test_a_damaged_record_is_told_in_one_line(runs, tmp_path):
    path = next(runs.glob("*/*/*.json"))
    path.write_text("{")
    done = call("--runs", runs, "--out", tmp_path / "report")
    refused(done, f"The record {path} must be JSON; it is damaged.")


@pytest.mark.parametrize("option", ["--out", "--markdown"])
def test_a_target_that_cannot_be_written_is_told_in_one_line(runs, tmp_path, option):
    target = tmp_path / "taken"
    target.write_text("mine") if option == "--out" else target.mkdir()
    refused(call("--runs", runs, option, target), f"{option} must be a ")
    assert target.is_dir() or target.read_text() == "mine"
    assert not list(tmp_path.glob("*.part"))
