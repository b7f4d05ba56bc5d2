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


def test_trials_and_repetitions_have_the_same_results(client):
    models = {"mean": FewShotClassifier(), "other": FewShotClassifier(alpha=0.5)}
    samples, trials = (X, Y, CLASSES), {"n_way": 3, "n_shot": 2, "n_query": 4, "n_trials": 4}

    def accuracies():
        return n_way_k_shot(models, *samples, n_jobs=2, random_state=4, **trials)

    def hits():
        return large_scale(models, *samples, shots=(1, 3), n_repeats=1, top=(1, 2), n_jobs=2)

    for run in (accuracies, hits):
        expected, found = run(), on_workers(run)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)


def test_trials_run_on_workers_and_their_data_are_sent_once(client):
    sent = []

    class Data:
        def __reduce__(self):
            sent.append(1)
            return (int, (7,))

    data = Data()
    results = on_workers(
        lambda: run_trials(
            lambda batch: [(int(data), pid()) for _ in batch], 8, n_jobs=2, progress=False
        )
    )
    assert {value for value, _ in results} == {7}
    workers = {info["pid"] for info in client.run(_worker_pid).values()}
    assert {process for _, process in results} <= workers
    assert len(sent) == 1


def _worker_pid(dask_worker):
    return {"pid": pid()}


def test_runs_of_the_paper_have_the_same_records(client, tmp_path):
    scale = Scale(n_folds=2, quick=True)
    short = replace(EXPERIMENTS["ablation"], models=("BPL0",))

    def figures(folder, n_jobs):
        records = Records(tmp_path / folder)
        steps = list(run_experiments([short], ["emoji"], records, scale, n_jobs=n_jobs))
        assert not [step.error for step in steps if step.error]
        return {step.key: step.record["results"] for step in steps}

    expected = figures("here", 1)
    assert len(expected) > 1
    assert on_workers(lambda: figures("there", 2)) == expected
