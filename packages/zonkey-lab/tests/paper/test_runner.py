"""The runner: every run once, records that are found again, interruptions that lose nothing."""

from dataclasses import replace
from functools import partial
from mmap import PAGESIZE, mmap
from pathlib import Path

import numpy as np
import pytest
from sklearn.manifold import TSNE
from sklearn.model_selection import ParameterGrid
from small_data import small_dataset, small_source

from zonkey.evaluation.protocols import draw_trial
from zonkey.files.dataset import DataError
from zonkey.metrics import hit_at_k, per_class_accuracy
from zonkey_lab.paper.bench import protocols, runner, schedule, selection
from zonkey_lab.paper.bench.models import (
    DEVICE,
    FEW_SHOT,
    ZERO_SHOT,
    ZeroShotModel,
    parameter_name,
)
from zonkey_lab.paper.bench.runner import peak_memory_mb, reset_peak_memory, run_experiments
from zonkey_lab.paper.bench.selection import prepare_shots
from zonkey_lab.paper.bench.sources import validation_view
from zonkey_lab.paper.experiments import EXPERIMENTS, RANDOM, TORCH_PEERS, Scale
from zonkey_lab.paper.printed import PRINTED, find_printed
from zonkey_lab.paper.records import Key, Records, problem_of, unpack

SCALE = Scale(
    n_seeds=2, n_shot_seeds=1, n_folds=2, n_points=2, n_points_more=0, n_trials=3,
    n_selection_trials=2, n_repeats=2, most_shots=2, n_timings=1, quick=True,
)  # fmt: skip
ONE_SEED = replace(SCALE, n_seeds=1, n_trials=2)

# One model with a grid, one without, and one that is random.
SHORT = replace(EXPERIMENTS["ablation"], models=("FPL", "BPL0", "BPL1"))
SYNTHESIS = replace(EXPERIMENTS["synthesis"], models=("BPL (SFSP1)",))


def find_small(name, folder=None):
    if name != "small":
        raise DataError("no such data")
    return small_source()


def shrink(patch):
    """Let networks be small, and not be tuned."""
    for name in TORCH_PEERS:
        small = {"n_hidden": 8, "max_iter": 2}
        patch.setitem(ZERO_SHOT, name, replace(ZERO_SHOT[name], fixed=small, grid={}))
    for name, spec in FEW_SHOT.items():
        if getattr(spec, "uses_torch", False):
            small = {"max_iter": 1, "n_hidden": 8, "n_episodes": 4, "full_context": False}
            small |= {"n_steps": 2, "n_batches": 2}
            kind = spec.classifier
            fixed = {key: value for key, value in small.items() if parameter_name(kind, key)}
            patch.setitem(FEW_SHOT, name, replace(spec, fixed={**spec.fixed, **fixed}, grid={}))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let the only data set be a small one."""
    monkeypatch.setattr(runner, "find_source", find_small)
    shrink(monkeypatch)
    for cached in (runner._load_data, runner._load_validation):
        cached.cache_clear()


# A model of each kind: of the paper, in closed form, trained by torch or not, transductive.
FEW = {
    "FPL", "BPL0", "BPL", "DAP", "DeViSE", "CMT", "recommended", "BPL0, recommended features",
    "BPL, recommended features", "DIPL", "BPL (SFSP1)", "BPL (SFSP2)", "BPL (novel)",
    "nearest mean", "SimpleShot", "PPA", "PT-MAP",
}  # fmt: skip


def keep_few(experiment):
    """Leave out all models but one of each kind."""
    # What takes long has tests of its own.
    slow = {"unlabeled": {"recommended"}, "unlabeled-trials": {"recommended"}, "map": {"BPL"}}
    kept = FEW - slow.get(experiment.protocol, set())
    return replace(experiment, models=tuple(name for name in experiment.models if name in kept))


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.exhaustive)])
def everything(request, tmp_path_factory):
    """Return the folder of records of every experiment, and the steps that made them."""
    change = keep_few if request.param == "few" else replace
    experiments = [change(experiment) for experiment in EXPERIMENTS.values()]
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "find_source", find_small)
        patch.setattr(protocols, "TSNE", partial(TSNE, max_iter=250))  # enough to be a map
        shrink(patch)
        steps = run(folder, *experiments, scale=ONE_SEED, command="zonkey bench all")
        return folder, steps, experiments


def run(tmp_path, *names, scale=SCALE, **options):
    experiments = [EXPERIMENTS.get(name, name) for name in names]
    records = Records(tmp_path)
    return list(run_experiments(experiments, ["small"], records, scale, **options))


def test_every_experiment_runs(everything):
    folder, steps, experiments = everything
    assert [step.done for step in steps] == list(range(1, steps[0].total + 1))
    protocols = {step.key.protocol for step in steps}
    assert protocols == {
        "selection", "selection-1", "selection-5", "selection-all-1", "selection-all-2",
        "zero-shot", "map",
        "convergence", "trials-1", "trials-5", "all-classes", "runtime", "unlabeled",
        "unlabeled-trials-1", "unlabeled-trials-5", "sensitivity",
    }  # fmt: skip
    for record in Records(folder):
        assert record["command"] == "zonkey bench all"
        assert record["data"]["sha256"] == small_dataset().sha256
        assert record["seconds"] >= 0
        assert record["peak_memory_mb"] > 0
        names = {name for name in record["results"] if name.endswith("_unlabeled")}
        assert bool(names) == record["protocol"].startswith("unlabeled")
    assert run(folder, *experiments, scale=ONE_SEED) == []


def test_experiments_share_their_runs(tmp_path):
    table = replace(EXPERIMENTS["pure-zsl"], models=("FPL", "BPL1", "BPL, as printed"))
    first = run(tmp_path, SHORT)
    more = run(tmp_path, table, replace(table, name="other"))
    assert {step.key.model for step in more} == {"BPL, as printed"}
    models = [step.key.model for step in first if step.key.protocol == "zero-shot"]
    assert sorted(models) == ["BPL0", "BPL1", "BPL1", "FPL"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    experiments = [SHORT]
    whole = {step.key: step.record for step in run(tmp_path / "whole", SHORT)}
    steps = run_experiments(experiments, ["small"], Records(tmp_path / "parts"), SCALE)
    begun = [next(steps).key for _ in range(4)]
    steps.close()
    rest = [step.key for step in run(tmp_path / "parts", SHORT)]
    assert len(rest) == len(whole) - 4
    assert not set(begun) & set(rest)
    for record in Records(tmp_path / "parts"):
        key = next(
            k for k in whole if (k.protocol, k.model, k.seed)
            == (record["protocol"], record["model"], record["seed"])
        )  # fmt: skip
        assert record["results"] == whole[key]["results"]


def test_records_of_other_data_or_other_scale_are_not_taken(tmp_path, monkeypatch):
    before = run(tmp_path, SHORT)
    monkeypatch.setattr(runner, "find_source", lambda *_: small_source(seed=1))
    runner._load_data.cache_clear()
    assert len(run(tmp_path, SHORT)) == len(before)
    wider = Scale(n_seeds=2, n_folds=3, quick=True)
    chosen_again = run(tmp_path, SHORT, scale=wider)
    assert {step.key.protocol for step in chosen_again} >= {"selection"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # in another thread
def test_several_processes_find_the_same(tmp_path, monkeypatch):
    alone = {step.key: step.record["results"] for step in run(tmp_path / "a", SHORT)}
    # Threads, since the small source lives in this process only.
    monkeypatch.setattr(schedule, "Parallel", lambda **o: Parallel(prefer="threads", **o))
    from joblib import Parallel

    together = {step.key: step.record["results"] for step in run(tmp_path / "b", SHORT, n_jobs=2)}
    assert together == alone


def test_processes_share_the_points_of_a_single_search_without_its_warnings(tmp_path, capfd):
    # The guard lowers mu at some points, of which a search does not tell.
    only = replace(EXPERIMENTS["ablation"], models=("BPL",))
    scale = replace(ONE_SEED, n_points=6)
    alone, together = (
        [step.record["results"] for step in run(tmp_path / str(n), only, scale=scale, n_jobs=n)]
        for n in (1, 2)
    )
    assert [results.get("points") for results in together] == [
        results.get("points") for results in alone
    ]
    assert len(together[0]["points"]) == 6
    assert "ConvergenceWarning" not in capfd.readouterr().err


def test_figures_are_those_of_the_predictions(everything):
    data = small_dataset()
    for record in Records(everything[0]):
        if record["protocol"] != "zero-shot":
            continue
        results = record["results"]
        classes = np.array(results["classes"])
        truth, predicted = (classes[unpack(results[key])] for key in ("truth", "predicted"))
        assert truth.tolist() == data.y_test_unseen.tolist()
        assert results["zsl"] == pytest.approx(per_class_accuracy(truth, predicted))
        assert 0 <= results["ausuc"] <= 1
        s, u = results["acc_s"], results["acc_u"]
        assert results["hm"] == pytest.approx(2 * s * u / (s + u) if s + u else 0)
        assert results["curve"]["seen"][0] >= results["curve"]["seen"][-1]


def test_without_a_shot_parameters_are_those_chosen_for_zero_shot_learning(everything):
    found = {(r["protocol"], r["model"]): r for r in Records(everything[0])}
    chosen = found["selection", "BPL"]["results"]["chosen"]
    record = found["all-classes", "BPL (SFSP1)"]
    assert record["settings"]["zero_parameters"] == chosen
    assert record["settings"]["parameters_by_shots"] == {
        n_shot: found[f"selection-all-{n_shot}", "BPL (SFSP1)"]["results"]["chosen"]
        for n_shot in ("1", "2")
    }
    shots = prepare_shots(small_dataset())
    model = FEW_SHOT["BPL (SFSP1)"].build(shots.prototypes, shots.base, **chosen)
    seed = int(_after_drawing(shots))
    expected = hit_at_k(
        shots.y, model.zero_shot(shots.classes, random_state=seed).predict_top(shots.X, 1), 1
    )
    assert record["results"]["hit@1"][0][0] == pytest.approx(expected)


def _after_drawing(shots):
    """Return the seed that the first repetition without a shot gives its model."""
    rng = np.random.default_rng([0, 0])
    draw_trial(shots.y, shots.classes, n_way=None, n_shot=0, n_query=None, rng=rng)
    return rng.integers(2**31 - 1)


def test_parameters_are_chosen_on_the_task_that_is_asked(everything):
    found = {(r["protocol"], r["model"]): r for r in Records(everything[0])}
    assert found["selection-all-2", "BPL (novel)"]["settings"]["n_trials"] is None
    assert found["selection-1", "BPL (novel)"]["settings"]["n_trials"] == 2
    validation = small_source().load_validation().sha256
    assert found["selection-5", "BPL (SFSP1)"]["settings"]["validation"] == validation


def test_other_validation_data_mean_another_choice(tmp_path, monkeypatch):
    run(tmp_path, SYNTHESIS)
    source = small_source()
    changed = replace(source, load_validation=lambda: validation_view(small_dataset(noise=0.5)))
    monkeypatch.setattr(runner, "find_source", lambda *_: changed)
    runner._load_validation.cache_clear()
    again = run(tmp_path, SYNTHESIS)
    assert {step.key.protocol for step in again if step.key.protocol.startswith("sel")} == {
        "selection-all-1",
        "selection-all-2",
    }


def test_validation_classes_that_are_test_classes_are_refused_by_the_runner(tmp_path, monkeypatch):
    leaking = replace(small_source(), load_validation=small_dataset)
    monkeypatch.setattr(runner, "find_source", lambda *_: leaking)
    runner._load_validation.cache_clear()
    steps = {(s.key.protocol, s.key.model): s for s in run(tmp_path, SYNTHESIS)}
    refused = steps["selection-all-2", "BPL (SFSP1)"]
    assert refused.record is None
    assert "is for test" in refused.error
    assert "no parameters were chosen" in steps["all-classes", "BPL (SFSP1)"].error
    assert not list(tmp_path.glob("all-classes"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("too hard"), "too hard"),
        (ImportError("no torch"), "no torch"),
        (MemoryError(), "out of memory: "),
        (RuntimeError("CUDA out of memory."), "out of memory: CUDA out of memory."),
    ],
)
def test_a_run_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, error, told):
    def fails(*_, **__):
        raise error

    monkeypatch.setitem(runner.PROTOCOLS, "map", fails)
    steps = run(tmp_path, replace(EXPERIMENTS["tsne"], models=("FPL",)), "convergence")
    errors = {step.key.protocol: step.error for step in steps if step.record is None}
    assert errors == {"map": told}
    assert [step.done for step in steps] == list(range(1, steps[0].total + 1))
    assert (tmp_path / "convergence").exists()


def test_an_error_of_the_program_stops_a_run(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("a wrong shape")

    monkeypatch.setitem(runner.PROTOCOLS, "map", fails)
    with pytest.raises(RuntimeError, match="a wrong shape"):
        run(tmp_path, replace(EXPERIMENTS["tsne"], models=("FPL",)))


def test_models_are_built_for_the_seed_and_the_device_of_the_run():
    known = small_dataset().prototypes
    assert ZERO_SHOT["CMT"].build(known, 7)[-1].schedule.device == "auto"
    token = DEVICE.set("cuda")
    try:
        built = ZERO_SHOT["CMT"].build(known, 7)[-1]
        other = ZERO_SHOT["ESZSL"].build(known, 7)[-1]
    finally:
        DEVICE.reset(token)
    assert (built.schedule.device, built.random_state) == ("cuda", 7)
    assert not hasattr(other, "device")


@pytest.mark.parametrize("name", ["mini-imagenet", "synthesis"])
def test_few_shot_trials_on_a_device_find_the_same(tmp_path, name):
    pytest.importorskip("torch", reason="arrays on a device are those of torch")
    models = ("BPL (SFSP1)", "nearest mean", "recommended")
    kept = tuple(model for model in models if model in EXPERIMENTS[name].models)
    experiment = replace(EXPERIMENTS[name], models=kept)
    host, there = (
        {step.key: step for step in run(tmp_path / str(device), experiment, device=device)}
        for device in (None, "cpu")
    )
    assert {step.error for step in there.values()} == {None}
    for key, step in host.items():
        again = there[key].record
        assert again["settings"] == step.record["settings"]
        for field in ("accuracies", "hit@1"):
            if field in step.record["results"]:
                first, second = (r["results"][field] for r in (step.record, again))
                if field == "accuracies":
                    first, second = unpack(first), unpack(second)
                np.testing.assert_allclose(first, second, atol=0.05)


def test_random_models_are_those_that_take_a_seed():
    """Closed forms take one too, and ignore it."""
    exact = {"FPL", "RPL", "BPL0", "RPL, recommended features", "BPL0, recommended features"}
    takes_seed = {
        name
        for name, model in ZERO_SHOT.items()
        if isinstance(model, ZeroShotModel)
        and not model.is_transductive
        and "random_state" in model.classifier().get_params()
    }
    assert takes_seed - exact == RANDOM


def test_the_peak_of_memory_is_that_of_the_run():
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the system cannot count anew")
    reset_peak_memory()
    before = peak_memory_mb()
    # Not from the heap, where earlier tests may have left that much free memory.
    with mmap(-1, 160_000_000) as fresh:
        for start in range(0, len(fresh), PAGESIZE):
            fresh[start] = 1
    assert peak_memory_mb() > before + 100
    reset_peak_memory()
    assert peak_memory_mb() < before + 100


def test_an_unknown_data_set_is_told_before_anything_runs(tmp_path):
    with pytest.raises(DataError, match="no such data"):
        list(run_experiments([EXPERIMENTS["ablation"]], ["nope"], Records(tmp_path), SCALE))
    assert not list(tmp_path.iterdir())


def test_convergence_and_maps_and_shots_have_what_figures_need(everything):
    found = {(r["protocol"], r["model"]): r["results"] for r in Records(everything[0])}
    steps = found["convergence", "BPL"]
    assert steps["steps"] == [0, 1, 3, 5, 8]
    assert len(steps["objective"]) == len(steps["change"]) + 1 == 9
    assert len(steps["zsl"]) == 5
    panel = found["map", "FPL"]
    assert np.shape(panel["samples"]) == (36, 2)
    assert np.shape(panel["prototypes"]) == (4, 2)
    assert len(panel["truth"]) == len(panel["predicted"]) == 36
    shots = found["all-classes", "BPL (SFSP1)"]
    assert shots["shots"] == [0, 1, 2]
    assert np.shape(shots["hit@1"]) == np.shape(shots["hit@5"]) == (2, 3)
    times = found["runtime", "BPL (SFSP2)"]
    assert times["shots"] == [1, 2]
    assert len(times["seconds"]) == 2
    trials = found["trials-5", "nearest mean"]
    assert trials["n_shot"] == 5
    assert trials["n_query"] == 4
    assert unpack(trials["accuracies"]).shape == (2,)


def test_the_paper_is_transcribed_whole():
    sources = {figure.source for figure in PRINTED}
    assert sources == {"pzsl", "gsrl", "gradopt", "datagen", "fsltime", "metafsl"}
    assert len(find_printed("pzsl", "cub", "zsl")) == 14
    assert len(find_printed("gsrl", "sun", "hm")) == 13
    assert find_printed("pzsl", "imnet", "hit@5")["BPL"].value == 28.2
    assert find_printed("metafsl", "mini-imagenet", "5-shot")["BPL (SFSP1)"].spread == 0.61


def test_a_full_run_owns_quick_records_of_the_same_settings(tmp_path):
    closed = replace(EXPERIMENTS["ablation"], models=("BPL0", "FPL"))
    quick = replace(SCALE, quick=True)
    run(tmp_path, closed, scale=quick, command="quick")
    before = {(r["protocol"], r["model"]): r for r in Records(tmp_path)}
    assert {record["quick"] for record in before.values()} == {True}
    full = replace(SCALE, quick=False, n_folds=3)
    run(tmp_path, closed, scale=full, command="full")
    after = {(r["protocol"], r["model"]): r for r in Records(tmp_path)}
    assert {(r["quick"], r["command"]) for r in after.values()} == {(False, "full")}
    kept = after["zero-shot", "BPL0"]  # nothing was chosen for it, on more or fewer folds
    assert kept == {**before["zero-shot", "BPL0"], "quick": False, "command": "full"}
    assert run(tmp_path, closed, scale=full, command="again") == []
    assert {record["command"] for record in Records(tmp_path)} == {"full"}


WALKING = replace(ONE_SEED, n_points=2, n_points_more=6)
ONLY_FPL = replace(EXPERIMENTS["ablation"], models=("FPL",))


def scored(monkeypatch):
    """Return the list that points are added to when they are scored."""
    asked, original = [], selection._score_on_folds

    def noted(pipeline, points, *rest):
        asked.extend(points)
        return original(pipeline, points, *rest)

    monkeypatch.setattr(selection, "_score_on_folds", noted)
    return asked


@pytest.mark.parametrize(("model", "walks"), [("GDA", True), ("BPL (SFSP1), sampled base", False)])
def test_a_search_whose_trials_take_long_stays_in_its_grid(tmp_path, model, walks):
    short = replace(EXPERIMENTS["mini-imagenet"], models=(model,))
    run(tmp_path, short, scale=replace(WALKING, n_selection_trials=2))
    found = Records(tmp_path).read(Key("selection-1", "small", model))
    assert ("n_points_more" in found["settings"]) == walks
    points = [tuple(each["parameters"].items()) for each in found["results"]["points"]]
    grid = {tuple(each.items()) for each in ParameterGrid(found["settings"]["grid"])}
    assert len(grid) == found["results"]["n_start"] == 2
    assert ({*points} == grid) == (not walks)


def test_a_wider_grid_scores_new_points_only(tmp_path, monkeypatch):
    asked = scored(monkeypatch)
    run(tmp_path, ONLY_FPL, scale=WALKING)
    first = Records(tmp_path).read(Key("selection", "small", "FPL"))
    assert asked == [point["parameters"] for point in first["results"]["points"]]
    assert first["settings"]["n_points_more"] == 6
    asked.clear()
    wider = replace(WALKING, n_points=5, n_points_more=9)
    run(tmp_path, ONLY_FPL, scale=wider)
    second = Records(tmp_path).read(Key("selection", "small", "FPL"))
    again = [point["parameters"] for point in first["results"]["points"]]
    wanted = [point["parameters"] for point in second["results"]["points"]]
    assert asked == [point for point in wanted if point not in again]
    assert len(asked) < len(wanted)
    assert second["seconds"] >= first["seconds"]
    run(tmp_path / "anew", ONLY_FPL, scale=wider)
    anew = Records(tmp_path / "anew").read(Key("selection", "small", "FPL"))
    assert second["results"] == anew["results"]


def test_points_of_other_folds_are_scored_anew(tmp_path, monkeypatch):
    run(tmp_path, ONLY_FPL, scale=WALKING)
    asked = scored(monkeypatch)
    run(tmp_path, ONLY_FPL, scale=replace(WALKING, n_folds=3))
    record = Records(tmp_path).read(Key("selection", "small", "FPL"))
    assert asked == [point["parameters"] for point in record["results"]["points"]]


def test_an_interrupted_selection_resumes_among_its_points(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", ONLY_FPL, scale=WALKING)[0].record
    original, asked = selection._score_on_folds, []

    def breaks(pipeline, points, *rest):
        if len(asked) >= 2:
            raise KeyboardInterrupt
        asked.extend(points)
        return original(pipeline, points, *rest)

    monkeypatch.setattr(selection, "_score_on_folds", breaks)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", ONLY_FPL, scale=WALKING)
    (part,) = Records(tmp_path / "parts")
    assert problem_of(part) == ""
    assert [point["parameters"] for point in part["results"]["points"]] == asked
    monkeypatch.setattr(selection, "_score_on_folds", original)
    rest = scored(monkeypatch)
    again = run(tmp_path / "parts", ONLY_FPL, scale=WALKING)[0].record
    assert again["results"] == whole["results"]
    assert {**again["settings"]} == {**whole["settings"]}
    assert [point["parameters"] for point in whole["results"]["points"]] == [*asked, *rest]


def test_nothing_is_measured_with_a_choice_that_another_process_makes_again(tmp_path):
    records, steps = Records(tmp_path), []
    for step in run_experiments([SYNTHESIS], ["small"], records, ONE_SEED):
        steps.append(step)
        if step.key.protocol == "selection-all-1":
            kept = ("data", "results", "seconds")
            content = {name: step.record[name] for name in kept}
            records.write_points(step.key, step.record["settings"], **content)
    errors = {step.key.protocol: step.error for step in steps if step.error}
    assert errors == {"all-classes": "no parameters were chosen for it"}
    assert {step.error for step in run(tmp_path, SYNTHESIS, scale=ONE_SEED)} == {None}


def test_runtimes_are_measured_last_and_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "Parallel", lambda **o: Parallel(prefer="threads", **o))
    from joblib import Parallel

    times = replace(EXPERIMENTS["runtime"], models=("NN", "nearest mean", "BPL (novel)"))
    steps = run(tmp_path, times, SHORT, scale=ONE_SEED, n_jobs=2)
    assert {step.error for step in steps} == {None}
    order = [step.key.protocol for step in steps]
    assert order.count("runtime") == 3
    assert order[-3:] == ["runtime"] * 3
    for step in steps:
        if step.key.protocol == "runtime" and step.key.model == "BPL (novel)":
            chosen = Records(tmp_path).read(Key("selection-all-2", "small", "BPL (novel)"))
            assert step.record["settings"]["parameters"] == chosen["results"]["chosen"]


def test_records_tell_torch_where_it_was_used(tmp_path):
    pytest.importorskip("torch", reason="torch trains some systems")
    experiment = replace(EXPERIMENTS["mini-imagenet"], models=("NN", "PPA"))
    host = {step.key: step.record for step in run(tmp_path / "host", experiment)}
    for key, record in host.items():
        assert ("torch" in record["versions"]) == (key.model == "PPA")
        assert "gpu" not in record["machine"] or torch_sees_a_gpu()
    there = run(tmp_path / "cpu", experiment, device="cpu")
    assert {"torch" in step.record["versions"] for step in there} == {True}
    assert all("gpu" not in step.record["machine"] for step in there)


def torch_sees_a_gpu():
    import torch

    return torch.cuda.is_available()


def test_a_selection_that_fails_leaves_no_old_choice_to_its_runs(tmp_path, monkeypatch):
    run(tmp_path, ONLY_FPL, scale=ONE_SEED)

    def fails(*_, **__):
        raise ValueError("too hard")

    monkeypatch.setattr(runner, "select_zero_shot", fails)
    steps = run(tmp_path, ONLY_FPL, scale=replace(ONE_SEED, n_folds=3))
    errors = {step.key.protocol: step.error for step in steps}
    assert errors == {"selection": "too hard", "zero-shot": "no parameters were chosen for it"}
