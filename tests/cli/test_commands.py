import json

import pytest
from typer.testing import CliRunner

import zonkey
from zonkey.cli import app
from zonkey.cli.demo import MODELS, run_demo


@pytest.fixture(scope="module")
def result():
    return run_demo(seed=1)


def test_record_says_what_was_run(result):
    record = result.record
    assert record["command"] == "zonkey demo --seed 1"
    assert record["data"]["sha256"] == result.data.sha256
    assert [row["model"] for row in record["models"]] == list(MODELS)
    assert record["versions"]["zonkey"] == zonkey.__version__
    json.dumps(record)


def test_every_model_reads_unseen_numbers(result):
    chance = 1 / result.record["data"]["n_unseen"]
    for row in result.record["models"]:
        assert row["unseen_only"] > 10 * chance
        assert 0 < row["hm"] <= 1
        assert row["hm"] <= max(row["acc_s"], row["acc_u"])


def test_chosen_parameters_come_from_the_grid(result):
    for row in result.record["models"]:
        _, grid = MODELS[row["model"]]
        assert set(row["chosen"]) == set(grid)
        assert all(value in grid[name] for name, value in row["chosen"].items())


def test_same_seed_same_record(result):
    assert run_demo(seed=1).record == result.record


def test_writes_picture_and_record_and_nothing_else(result, tmp_path):
    picture, record = result.write(tmp_path / "new" / "folder")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(record.read_text()) == result.record
    assert {path.name for path in record.parent.iterdir()} == {"numbers.png", "record.json"}


@pytest.fixture
def command(result, monkeypatch):
    """Call the command line, with the demonstration of seed 1 computed already."""

    def recall(seed):
        assert seed == 1
        return result

    monkeypatch.setattr("zonkey.cli.commands.run_demo", recall)
    return lambda *arguments: CliRunner().invoke(app, ["demo", "--seed", "1", *arguments])


def test_demo_prints_a_table_and_where_the_files_are(command, tmp_path):
    done = command("--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "25 numbers are known by their digits only" in done.output
    assert "BPL0" in done.output
    assert "numbers.png" in done.output


def test_demo_as_json(command, tmp_path):
    done = command("--json", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads((tmp_path / "record.json").read_text())


def test_out_that_is_a_file_is_refused(command, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    done = command("--out", str(file))
    assert done.exit_code == 2
    assert "must be a folder to write to" in done.output
    assert "Traceback" not in done.output
    assert file.read_text() == "mine"


def test_version():
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.strip() == f"zonkey {zonkey.__version__}"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_describes_itself(arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert "number" in done.output or "description" in done.output
