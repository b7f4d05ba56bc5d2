"""Drawn trials, and checkpoints that resume a run."""

import json

import numpy as np
import pytest

from zonkey_lab.trials import TrialCheckpoint, draw_trial

Y = np.repeat([f"c{j}" for j in range(8)], 12)


def drawn(seed=0, **options):
    options = {"n_way": 3, "n_shot": 2, "n_query": 5, **options}
    return draw_trial(Y, np.unique(Y)[:6], rng=np.random.default_rng(seed), **options)


def test_every_class_has_its_shots_and_queries():
    trial = drawn(n_way=4, n_shot=3, n_query=6)
    labels, counts = np.unique(Y[trial.support], return_counts=True)
    assert len(labels) == 4
    assert set(counts) == {3}
    queries, counts = np.unique(Y[trial.query], return_counts=True)
    assert queries.tolist() == labels.tolist()
    assert set(counts) == {6}
    assert not set(trial.support) & set(trial.query)
    assert len(set(trial.query)) == len(trial.query)


def test_only_the_given_classes_are_drawn():
    seen = {label for seed in range(40) for label in Y[drawn(seed).support]}
    assert seen == set(np.unique(Y)[:6])


def test_all_classes_and_all_other_samples():
    trial = drawn(n_way=None, n_shot=5, n_query=None)
    assert len(trial.support) == 6 * 5
    assert len(trial.query) == 6 * 7
    assert set(trial.support) | set(trial.query) == set(
        np.flatnonzero(np.isin(Y, np.unique(Y)[:6]))
    )


def test_shots_of_one_seed_are_nested():
    few, more = (drawn(3, n_way=None, n_shot=k, n_query=None) for k in (1, 4))
    assert set(few.support) <= set(more.support)


def test_the_seed_decides():
    np.testing.assert_array_equal(drawn(1).support, drawn(1).support)
    assert drawn(1).support.tolist() != drawn(2).support.tolist()


def test_more_ways_than_classes():
    with pytest.raises(ValueError, match="at most the number of novel classes, 6; got 7"):
        drawn(n_way=7)


@pytest.mark.parametrize(("n_shot", "n_query"), [(8, 5), (12, None), (1, 12)])
def test_more_samples_than_there_are(n_shot, n_query):
    with pytest.raises(ValueError, match=r"has 12 samples.*Lower `n_shot` or `n_query`"):
        drawn(n_shot=n_shot, n_query=n_query)


def test_samples_set_apart_are_queries_and_never_shots():
    y = np.repeat(["a", "b"], 5)
    queries = [4, 3, 9]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        trial = draw_trial(
            y, ["a", "b"], n_way=None, n_shot=2, n_query=None, rng=rng, queries=queries
        )
        assert sorted(trial.query) == [3, 4, 9]
        assert not set(trial.support) & {3, 4, 9}
        assert np.bincount(trial.support // 5).tolist() == [2, 2]
        rng = np.random.default_rng(seed)
        none = draw_trial(y, ["b"], n_way=None, n_shot=0, n_query=1, rng=rng, queries=queries)
        assert none.query.tolist() == [9]


@pytest.mark.parametrize(("n_shot", "n_query"), [(4, None), (1, 2), (5, 1)])
def test_too_few_shots_or_queries_of_the_kind_asked_for_are_refused(n_shot, n_query):
    y = np.repeat(["a", "b"], 5)
    sizes = {"n_way": None, "n_shot": n_shot, "n_query": n_query}
    with pytest.raises(ValueError, match="`queries` fixes which are queries"):
        draw_trial(y, ["a", "b"], **sizes, rng=np.random.default_rng(0), queries=[3, 4, 9])


# Checkpoints


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
