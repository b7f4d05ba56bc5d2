"""Trials and runs over the workers of a client, by joblib's backend for Dask."""

from dataclasses import replace

import joblib
import numpy as np

from zonkey import FewShotClassifier
from zonkey_lab.paper.bench.runner import run_experiments
from zonkey_lab.paper.experiments import EXPERIMENTS, Scale
from zonkey_lab.paper.records import Records
from zonkey_lab.protocols import large_scale, n_way_k_shot
from zonkey_lab.trials import run_trials

RNG = np.random.default_rng(2)
MEANS = RNG.normal(size=(8, 5))
Y = np.repeat([f"c{j}" for j in range(8)], 9)
X = np.repeat(MEANS, 9, axis=0) + 0.5 * RNG.normal(size=(len(Y), 5))
CLASSES = [f"c{j}" for j in range(6)]


def on_workers(function):
    with joblib.parallel_config(backend="dask"):
        return function()


def pid():
    import os

    return os.getpid()


def test_trials_have_the_same_results(client):
    models = {"mean": FewShotClassifier(), "other": FewShotClassifier(alpha=0.5)}
    options = {"n_way": 3, "n_shot": 2, "n_query": 4, "n_trials": 6, "random_state": 4}

    def accuracies():
        return n_way_k_shot(models, X, Y, CLASSES, n_jobs=2, **options)

    expected, found = accuracies(), on_workers(accuracies)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_repetitions_have_the_same_results(client):
    models = {"mean": FewShotClassifier()}

    def hits():
        return large_scale(models, X, Y, CLASSES, shots=(1, 3), n_repeats=2, top=(1, 2), n_jobs=2)

    np.testing.assert_array_equal(on_workers(hits)["mean"], hits()["mean"])


def test_trials_run_on_workers_and_their_data_are_sent_once(client):
    sent = []

    class Data:
        def __reduce__(self):
            sent.append(1)
            return (int, (7,))

    data = Data()
    results = on_workers(
        lambda: run_trials(
            lambda batch: [(int(data), pid()) for _ in batch],
            8,
            n_jobs=2,
            progress=False,
        )
    )
    assert {value for value, _ in results} == {7}
    workers = {info["pid"] for info in client.run(_worker_pid).values()}
    assert {process for _, process in results} <= workers
    assert len(sent) == 1


def _worker_pid(dask_worker):
    return {"pid": pid()}


def test_runs_of_the_paper_have_the_same_records(client, tmp_path):
    scale = Scale(
        n_seeds=2,
        n_folds=2,
        n_trials=2,
        n_selection_trials=2,
        n_repeats=1,
        most_shots=1,
        quick=True,
    )
    short = replace(EXPERIMENTS["ablation"], models=("BPL0",))

    def figures(folder):
        records = Records(tmp_path / folder)
        steps = list(run_experiments([short], ["emoji"], records, scale, n_jobs=2))
        assert not [step.error for step in steps if step.error]
        return {step.key: step.record["results"] for step in steps}

    expected = figures("here")
    assert len(expected) > 1
    assert on_workers(lambda: figures("there")) == expected
