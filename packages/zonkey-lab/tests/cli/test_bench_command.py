import json
from dataclasses import replace

import pytest
from rich.console import Console
from small_data import small_source, use_source
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey_lab import cli as paper_commands
from zonkey_lab.paper.bench import runner, sources
from zonkey_lab.paper.experiments import EXPERIMENTS, Scale
from zonkey_lab.paper.records import Records
from zonkey_lab.paper.report.blocks import TableBlock
from zonkey_lab.peers.zsl import ESZSL

SMALL = Scale(
    n_seeds=2,
    n_folds=2,
    n_points=2,
    n_points_more=1,
    n_trials=2,
    n_selection_trials=2,
    n_repeats=1,
    quick=True,
)


def keep_models(monkeypatch, name, *models):
    monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], models=models))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Call `zonkey bench` on a small data set."""
    use_source(monkeypatch)
    keep_models(monkeypatch, "ablation", "FPL", "BPL0", "BPL1")
    monkeypatch.setattr(sources, "find_sources", lambda *_: {"small": small_source()})
    monkeypatch.setattr(paper_commands, "QUICK", SMALL)
    runs = ["--runs", str(tmp_path / "runs"), "--quick"]
    return lambda *arguments: CliRunner().invoke(app, ["bench", *arguments, *runs])


def test_runs_are_recorded_with_the_command_that_repeats_them(bench, tmp_path):
    done = bench("ablation")
    assert done.exit_code == 0, done.output
    assert "7 new runs" in done.stdout
    assert "7 of 7 runs" in done.stderr
    records = list(Records(tmp_path / "runs"))
    assert len(records) == 7
    assert {r["command"] for r in records} == {"zonkey bench ablation --data small --quick"}
    again = bench("ablation", "--data", "small")
    assert again.exit_code == 0
    assert "0 new runs" in again.stdout
    found = json.loads(bench("ablation", "--data", "small", "--json").stdout)
    assert found == {"runs": str(tmp_path / "runs"), "new": 0, "failures": []}


def test_seeds_and_trials_can_be_asked_for(bench, tmp_path, monkeypatch):
    assert bench("ablation", "--seeds", "3").exit_code == 0
    records = list(Records(tmp_path / "runs"))
    assert sorted(r["seed"] for r in records if r["model"] == "BPL1") == [0, 0, 1, 2]
    asked = "zonkey bench ablation --data small --seeds 3 --quick"
    assert {record["command"] for record in records} == {asked}
    keep_models(monkeypatch, "mini-imagenet", "BPL (SFSP1)", "NN")
    assert bench("mini-imagenet", "--trials", "4").exit_code == 0
    trials = [r for r in Records(tmp_path / "runs") if r["protocol"] == "trials-1"]
    assert {record["results"]["n_trials"] for record in trials} == {4}


def test_points_can_be_asked_for_and_british_spelling_is_understood(bench, tmp_path, monkeypatch):
    keep_models(monkeypatch, "generalized-zsl", "RPL", "BPL0")
    done = bench("generalised-zsl", "--points", "3", "--more-points", "2")
    assert done.exit_code == 0, done.output
    records = {(r["protocol"], r["model"]): r for r in Records(tmp_path / "runs")}
    chosen = records["selection", "RPL"]
    assert chosen["settings"]["n_points_more"] == 2
    assert chosen["results"]["n_start"] == 3
    assert 3 < len(chosen["results"]["points"]) <= 5
    assert "hm_calibrated" in records["zero-shot", "BPL0"]["results"]
    assert "--points 3 --more-points 2" in records["zero-shot", "RPL"]["command"]


def test_a_missing_package_fails_its_runs_and_no_others(bench, tmp_path, monkeypatch):
    def fit(self, X, y):
        raise ImportError("Training needs torch. Install zonkey[torch].")

    monkeypatch.setattr(ESZSL, "fit", fit)
    keep_models(monkeypatch, "pure-zsl", "ESZSL", "BPL0")
    done = bench("pure-zsl")
    assert done.exit_code == 1
    assert "ESZSL failed: Training needs torch. Install zonkey[torch]." in done.stderr
    assert {record["model"] for record in Records(tmp_path / "runs")} == {"BPL0"}


def test_a_bench_without_any_finished_run_prints_no_table(bench, monkeypatch):
    monkeypatch.setattr(runner, "_execute", lambda job: (job, {"error": "bad data"}))
    done = bench("ablation")
    assert done.exit_code == 1
    assert "FPL failed: bad data" in done.stderr
    assert isinstance(done.exception, SystemExit)
    assert done.stdout.startswith("0 new runs")


def test_some_models_can_be_asked_for_and_are_printed_in_full(bench, tmp_path):
    done = bench("alternatives", "--model", "BPL", "--model", "BPL0", "--data", "SMALL")
    assert done.exit_code == 0, done.output
    records = list(Records(tmp_path / "runs"))
    assert {record["model"] for record in records} == {"BPL", "BPL0"}
    asked = "zonkey bench alternatives --data small --model BPL --model BPL0 --quick"
    assert {record["command"] for record in records} == {asked}
    heading = "Alternatives to competition, small"
    assert heading in done.stdout
    accuracy = {r["model"]: r["results"]["zsl"] for r in records if r["protocol"] == "zero-shot"}
    assert f"{100 * accuracy['BPL0']:.1f}" in done.stdout
    assert "steps" in done.stdout  # what the guard did
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout  # nothing is cut off
    assert "Features used: " in done.stdout


@pytest.mark.parametrize(
    "words", [["--data", "Small", "other"], ["--data", "small,OTHER"], ["small", "other"]]
)
def test_several_data_sets_may_be_typed_as_words(tmp_path, monkeypatch, words):
    called = {}

    def refuse(experiments, names, *_, **__):
        called["names"] = names
        raise ValueError("no runs here")

    monkeypatch.setattr(runner, "pending_runs", refuse)
    arguments = ["bench", "all", *words, "--quick", "--runs", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert called["names"] == ["small", "other"]


def test_models_are_taken_from_all_experiments_that_have_them(bench, tmp_path):
    arguments = ("all", "--model", "BPL1", "--model", "ESZSL", "--model", "NN", "--dry-run")
    asked = {experiment.name: experiment.models for experiment in picked("BPL1", "ESZSL", "NN")}
    assert asked["ablation"] == ("BPL1",)
    assert asked["pure-zsl"] == ("BPL1", "ESZSL")
    assert asked["mini-imagenet"] == ("NN",)
    assert "on-top" not in asked
    assert bench(*arguments).exit_code == 0


def picked(*models):
    return paper_commands._select_models(list(EXPERIMENTS.values()), list(models))


def test_a_dry_run_prints_the_estimate_and_does_nothing_else(bench, tmp_path):
    done = bench("ablation", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("7 runs to do: roughly ")
    assert not (tmp_path / "runs").exists()
    found = json.loads(bench("ablation", "--dry-run", "--json").stdout)
    assert found["n_runs"] == 7
    assert 2e8 < found["n_bytes"] < found["memory"]
    done = bench("ablation")
    assert "7 runs to do: roughly" in done.stderr
    assert "Nothing to do: all 7 runs are recorded." in bench("ablation").stderr


def test_data_that_cannot_fit_into_memory_are_refused_before_the_first_run(bench, monkeypatch):
    monkeypatch.setattr(runner, "_execute", lambda _: pytest.fail("a run was started"))
    monkeypatch.setattr("zonkey_lab.paper.bench.estimate.total_memory", lambda: 1e8)
    done = bench("ablation", "--jobs", "2")
    assert done.exit_code == 2
    assert "Features must fit into memory; those of 2 processes need at least" in done.stderr
    assert "Use --jobs 1, or other data sets (--data)." in done.stderr


def test_notes_follow_a_table_once(capsys):
    rows = [["BPL", "61.9", "55.0"], ["SAE", "48.2", "50.1"]]
    rows.append(["a system of a long name", "1.0", "-"])
    table = TableBlock(["model", "paper", "measured"], rows, "hit@1", (1, 2), ["same: BPL, SAE."])
    console = Console(width=30)
    paper_commands._print_figures("A table", table, console)
    title, *_, note = capsys.readouterr().out.splitlines()
    assert title.strip() == "A table: hit@1"
    assert note == "same: BPL, SAE."
    assert console.width > 30  # names and figures are whole


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ablaton"], "Did you mean 'ablation'?"),
        (["everything"], "or all; got 'everything'"),
        (["ablation", "--model", "SAE"], "must be one of those of ablation: FPL, BPL0"),
    ],
)
def test_an_unknown_experiment_is_one_line_and_exit_code_2(bench, arguments, said):
    done = bench(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_data_set_is_one_line_and_exit_code_2(tmp_path):
    arguments = ["bench", "ablation", "--data", "nope", "--folder", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 2
    assert "got 'nope'" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_device_that_is_not_there_is_told_before_the_first_run(bench, monkeypatch):
    torch = pytest.importorskip("torch", reason="devices are those of torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(runner, "_execute", lambda _: pytest.fail("a run was started"))
    done = bench("mini-imagenet", "--device", "cuda")
    assert done.exit_code == 2
    assert "must be one that torch has; got 'cuda'" in done.stderr


def test_a_folder_that_cannot_be_written_is_told_before_the_first_run(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_execute", lambda _: pytest.fail("a run was started"))
    (tmp_path / "runs").write_text("a file")
    done = bench("ablation")
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if line and "Reading data" not in line]
    assert "must be one to write to" in line
    assert "Choose another with --runs" in line


def test_an_edited_choice_of_parameters_counts_as_none(bench, tmp_path, monkeypatch):
    keep_models(monkeypatch, "ablation", "BPL", "BPL0")
    assert bench("ablation").exit_code == 0
    (path,) = (tmp_path / "runs" / "selection" / "small").glob("bpl.0.json")
    for results in ([], {}, {"chosen": 3}):
        path.write_text(json.dumps({**json.loads(path.read_text()), "results": results}))
        done = bench("ablation")
        assert done.exit_code == 1
        assert "no parameters were chosen for it" in done.stderr
        assert "No table: The record" in done.stderr
        assert isinstance(done.exception, SystemExit)


def test_an_interruption_keeps_finished_runs(bench, tmp_path, monkeypatch):
    calls = []
    execute = runner._execute

    def interrupted(job):
        calls.append(job)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return execute(job)

    monkeypatch.setattr(runner, "_execute", interrupted)
    done = bench("ablation")
    assert done.exit_code == 130
    assert "run the same command again to resume" in done.stderr
    assert len(list(Records(tmp_path / "runs"))) == 3
    done = bench("ablation")
    assert "4 new runs" in done.stdout
    for path in (tmp_path / "runs").rglob("*"):
        assert path.is_dir() or json.loads(path.read_text())
