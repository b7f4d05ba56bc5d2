"""Estimates of time and memory: what they grow with, and what they say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_data import small_dataset, small_source, use_source

from zonkey_lab.paper.bench import estimate
from zonkey_lab.paper.bench.estimate import (
    EMOJI,
    Sizes,
    estimate_runs,
    format_seconds,
    growth_of,
    passes_of,
    recorded_costs,
    seconds_of,
)
from zonkey_lab.paper.bench.models import FEW_SHOT, ZERO_SHOT
from zonkey_lab.paper.bench.runner import pending_runs, run_experiments
from zonkey_lab.paper.experiments import EXPERIMENTS, FULL, QUICK, Scale, runs_of
from zonkey_lab.paper.records import Key, Records

AWA2 = Sizes(n=37322, n_train=23527, n_test=13795, d=2048, k=85, seen=40, unseen=10)
SPEED = 2e10


def seconds(protocol, model, sizes=AWA2, scale=FULL, **more):
    return seconds_of(Key(protocol, "awa2", model), sizes, scale, **{"speed": SPEED, **more})


def test_sizes_are_those_of_the_data_whose_features_stay_unread():
    data = small_dataset()
    found = Sizes.of(data)
    assert found == Sizes(108, 56, 52, 10, 5, seen=8, unseen=4)
    assert found.feature_bytes == 108 * 10 * 4


def test_the_reference_takes_as_long_as_recorded():
    for protocol, models in recorded_costs().items():
        for model, (recorded, _) in models.items():
            found = seconds(protocol, model, EMOJI, speed=1e18)
            assert found == pytest.approx(recorded, abs=1e-3), (protocol, model)


def test_products_of_all_features_are_counted_for_models_that_need_them():
    one = 2 * AWA2.n_train * AWA2.d**2 + 25 * AWA2.d**3
    for protocol, times in (("zero-shot", 1), ("selection", 3), ("convergence", 9)):
        slow, fast = seconds(protocol, "BPL", speed=1e9), seconds(protocol, "BPL", speed=1e18)
        assert slow - fast == pytest.approx(times * one / 1e9, rel=1e-4)
    for model in ("ALE", "DEM"):
        assert seconds("zero-shot", model, speed=1e9) == seconds("zero-shot", model, speed=1e18)
    assert seconds("trials-1", "NN", speed=1e9) == seconds("trials-1", "NN", speed=1e18)


@pytest.mark.parametrize("model", ["ALE", "DEM", "EXEM", "SSE", "BPL"])
def test_time_grows_with_samples_features_and_classes(model):
    key = Key("zero-shot", "awa2", model)
    more = replace(
        AWA2, n=2 * AWA2.n, n_train=2 * AWA2.n_train, n_test=2 * AWA2.n_test, d=4096, seen=80
    )
    assert growth_of(key, more) > 2 * growth_of(key, AWA2)
    assert growth_of(key, EMOJI) == 1


@pytest.mark.parametrize(
    ("protocol", "model", "passes"),
    [
        ("selection", "BPL", (72, 24)),
        ("selection", "BPL0", (3, 3)),  # no grid
        ("selection-1", "GDA", (1440, 80)),
        ("selection-all-3", "GDA", (48, 16)),
        ("selection-5", "BPL (SFSP1), sampled base", (240, 40)),  # a search within the grid
        ("sensitivity", "BPL", (525, 108)),
        ("trials-5", "NN", (600, 30)),
        ("all-classes", "NN", (25, 6)),
        ("runtime", "NN", (15, 3)),
        ("zero-shot", "BPL", (1, 1)),
    ],
)
def test_a_quick_look_has_fewer_passes(protocol, model, passes):
    key = Key(protocol, "awa2", model)
    assert (passes_of(key, FULL), passes_of(key, QUICK)) == passes


def test_every_model_of_every_experiment_has_an_estimate():
    experiments = list(EXPERIMENTS.values())
    keys = [*runs_of(experiments, "awa2", QUICK)]
    assert {key.model for key in keys} <= {*ZERO_SHOT, *FEW_SHOT}
    for key in keys:
        assert np.isfinite(seconds_of(key, AWA2, QUICK, SPEED))
    whole = estimate_runs([(key, AWA2) for key in keys], FULL, speed=SPEED, memory=16e9)
    quick = estimate_runs([(key, AWA2) for key in keys], QUICK, speed=SPEED, memory=16e9)
    assert quick.seconds < whole.seconds
    assert AWA2.feature_bytes < whole.n_bytes < 16e9


def test_a_model_without_a_record_takes_the_median_of_the_protocol(monkeypatch):
    costs = {"zero-shot": {"BPL": [1.0, 300.0], "FPL": [5.0, 300.0], "RPL": [7.0, None]}}
    monkeypatch.setattr(estimate, "recorded_costs", lambda: costs)
    assert seconds("zero-shot", "BPL0", EMOJI, speed=1e18) == pytest.approx(5.0)
    assert seconds("map", "BPL0", EMOJI, speed=1e18) == pytest.approx(30.0)


def test_processes_share_the_time_and_not_the_memory(monkeypatch):
    monkeypatch.setattr(estimate, "cpu_count", lambda: 2)
    runs = [(Key("zero-shot", "awa2", "BPL", seed), AWA2) for seed in range(6)]
    one, four, many = (
        estimate_runs(runs, FULL, n_jobs=n, speed=SPEED, memory=4e9) for n in (1, 4, 50)
    )
    assert four.seconds == one.seconds / 2  # there are two cores
    assert four.n_bytes == 4 * one.n_bytes
    assert many.n_jobs == 6  # as many as runs
    two = [*runs, (Key("zero-shot", "cub", "BPL"), replace(AWA2, n=1000))]
    more = estimate_runs(two, FULL, speed=SPEED, memory=4e9).n_bytes - one.n_bytes
    assert more == 1000 * 2048 * 4  # features of both data sets


def test_what_is_said():
    runs = [(Key("zero-shot", "awa2", "BPL", seed), AWA2) for seed in range(6)]
    found = estimate_runs(runs, FULL, n_recorded=3, n_jobs=2, speed=SPEED, memory=64e9)
    assert found.text().startswith("6 runs to do (3 are recorded): roughly ")
    assert "3 times as long" in found.text()
    assert "in 2 processes; the machine has 64.0 GB." in found.text()
    assert found.problem() == ""
    found.require_memory()
    tight = replace(found, memory=found.n_bytes - 1)
    assert "use --jobs 1, or one data set at a time (--data)" in tight.problem()
    tight.require_memory()  # it may do
    with pytest.raises(ValueError, match=r"those of 2 processes need at least 1\.2 GB, and the"):
        replace(found, memory=1.1e9).require_memory()
    none = estimate_runs([], FULL, n_recorded=9, memory=1.0)
    assert none.text() == "Nothing to do: all 9 runs are recorded."
    assert none.problem() == ""
    none.require_memory()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.2, "3 seconds"), (89, "89 seconds"), (120, "2 minutes"), (4000, "67 minutes"),
        (9000, "2.5 hours"), (90000, "25 hours"), (200000, "2.3 days"),
    ],
)  # fmt: skip
def test_durations(number, text):
    assert format_seconds(number) == text


def test_recorded_runs_are_left_out(tmp_path, monkeypatch):
    use_source(monkeypatch, small_source())
    scale = Scale(n_seeds=1, n_folds=2, n_points=2, quick=True)
    experiments = [replace(EXPERIMENTS["ablation"], models=("FPL", "BPL0"))]
    arguments = (experiments, ["small"], Records(tmp_path), scale)
    pending, n_recorded = pending_runs(*arguments)
    assert (len(pending), n_recorded) == (4, 0)
    assert {data.name for _, data in pending} == {"small"}
    for _ in zip(range(3), run_experiments(*arguments), strict=False):
        pass
    pending, n_recorded = pending_runs(*arguments)
    assert (len(pending), n_recorded) == (1, 3)
    for _ in run_experiments(*arguments):
        pass
    assert pending_runs(*arguments) == ([], 4)
    key = Key("zero-shot", "small", "FPL")
    path = tmp_path / key.path
    path.write_text(json.dumps({**json.loads(path.read_text()), "settings": {}}))
    assert [found for found, _ in pending_runs(*arguments)[0]] == [key]


def test_the_speed_of_the_machine_is_plausible():
    assert 1e8 < estimate.measure_speed() < 1e14
