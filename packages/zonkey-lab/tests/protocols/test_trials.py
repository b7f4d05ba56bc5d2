"""Checkpoints of trials, which resume a run."""

import json

import pytest

from zonkey_lab.trials import TrialCheckpoint

SETTINGS = {"n_way": 5, "models": {"a": "A()"}}


def test_without_a_file_results_stay_in_memory():
    checkpoint = TrialCheckpoint(None, SETTINGS)
    checkpoint.add(3, {"a": 0.5})
    assert checkpoint.results == {3: {"a": 0.5}}


def test_finished_trials_are_read_back(tmp_path):
    path = tmp_path / "folder" / "run.jsonl"
    first = TrialCheckpoint(path, SETTINGS)
    first.add(0, {"a": 0.1})
    first.add(7, {"a": 1 / 3})
    assert TrialCheckpoint(path, SETTINGS).results == {0: {"a": 0.1}, 7: {"a": 1 / 3}}


def test_an_interrupted_line_is_dropped_and_the_file_goes_on(tmp_path):
    path = tmp_path / "run.jsonl"
    TrialCheckpoint(path, SETTINGS).add(0, 0.25)
    with path.open("a") as file:
        file.write('{"trial": 1, "res')
    again = TrialCheckpoint(path, SETTINGS)
    assert again.results == {0: 0.25}
    again.add(1, 0.75)
    assert TrialCheckpoint(path, SETTINGS).results == {0: 0.25, 1: 0.75}
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("left", ["", '{"sett'])
def test_a_file_interrupted_at_its_very_start(tmp_path, left):
    path = tmp_path / "run.jsonl"
    path.write_text(left)
    TrialCheckpoint(path, SETTINGS).add(2, 0.5)
    assert TrialCheckpoint(path, SETTINGS).results == {2: 0.5}


def test_other_settings_are_refused_by_name(tmp_path):
    path = tmp_path / "run.jsonl"
    TrialCheckpoint(path, SETTINGS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"another run: models, n_shot differ.*delete it"):
        TrialCheckpoint(path, {"n_way": 5, "n_shot": 1, "models": {"a": "A(k=2)"}})
    assert path.read_bytes() == before
