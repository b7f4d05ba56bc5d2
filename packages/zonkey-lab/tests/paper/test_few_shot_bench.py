"""Few-shot models of the bench: what they get of base classes, and what their records tell."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid
from small_data import small_dataset, small_source

from zonkey import BaseClasses, FewShotClassifier, NearestSupport
from zonkey.parameters import Interval
from zonkey_lab.paper.bench import protocols
from zonkey_lab.paper.bench.models import DEVICE, FEW_SHOT, FewShotModel
from zonkey_lab.paper.bench.protocols import Steps, stored_mb
from zonkey_lab.paper.bench.selection import _share_samples, prepare_shots, select_few_shot
from zonkey_lab.paper.bench.sources import validation_view
from zonkey_lab.paper.experiments import (
    AT_ONCE,
    AT_ZERO_SHOTS,
    END_TO_END,
    EXPERIMENTS,
    FULL,
    PUBLISHED_SIZES,
    QUICK,
    SHOT_PEERS,
    SHOT_READINGS,
    SYNTHESES,
    TRAINED_SHOTS,
    TRANSDUCTIVE_SHOTS,
    runs_of,
)
from zonkey_lab.peers.base import class_means, parameter
from zonkey_lab.peers.fsl import BaseSamples, SimpleShot
from zonkey_lab.peers.fsl.base import FewShotPeer, negative_distances
from zonkey_lab.protocols import n_way_k_shot

TRAININGS = []  # of `Stopping`


class Stopping(FewShotPeer):
    """A peer that is trained once per task and stops after 4 epochs, if classes tell it to."""

    stops_early = True
    shift: float = parameter(default=0.0, within=Interval(0))
    max_iter: int = 9
    n_iter_no_change: int | None = 3
    device: str = "auto"
    random_state: int | None = None

    def _learn(self, support):
        base = support.base

        def train():
            TRAININGS.append((self.shift, self.max_iter, base.validation is not None))
            return 4 if base.validation is not None and self.n_iter_no_change else self.max_iter

        task = (support.n_classes, int(support.counts.min()))
        key = str((self.shift, self.max_iter, self.n_iter_no_change, task))
        centers = class_means(support.X, support.codes)
        # A shift makes the nearest mean wrong.
        return {"centers_": centers + self.shift, "n_iter_": base.learn_once(key, train)}

    def _scores(self, X):
        return negative_distances(X, self.centers_)


class Adapting(SimpleShot):
    """A peer that learns from unlabeled queries; less well with a shift."""

    is_transductive = True
    shift: float = parameter(default=0.0, within=Interval(0))

    def adapt(self, X):
        assert len(X)
        twin = SimpleShot(self.base, normalization=None)
        vars(twin).update({**vars(self), "centers_": self.centers_ + self.shift * np.eye(10)[0]})
        return twin


STOPPING = FewShotModel({}, {"shift": [0.0, 50.0]}, "raw", Stopping)


@pytest.fixture(autouse=True)
def nothing_trained():
    TRAININGS.clear()
    _share_samples.cache_clear()


@pytest.fixture(scope="module")
def data():
    return small_dataset()


@pytest.mark.parametrize(
    ("model", "base", "kind"),
    [
        (FEW_SHOT["BPL (SFSP1)"], "moments", BaseClasses),
        (FEW_SHOT["BPL (novel)"], None, type(None)),
        (FEW_SHOT["NN"], None, type(None)),
        (FEW_SHOT["SimpleShot"], "samples", BaseSamples),
        (STOPPING, "samples", BaseSamples),
    ],
)
def test_models_get_what_they_learn_of_base_classes_from(data, model, base, kind):
    assert model.base == base
    assert model.from_zero == (base == "moments")
    shots = prepare_shots(data, model.preset, model.base)
    assert isinstance(shots.base, kind)
    built = model.build(shots.prototypes, shots.base)
    assert isinstance(built, model.classifier)
    if base is not None:
        assert built.base is shots.base
    assert getattr(built, "prototypes", None) is (
        shots.prototypes if isinstance(built, FewShotClassifier) else None
    )


def test_peers_get_features_and_prototypes_as_they_are(data):
    shots = prepare_shots(data, "raw", "samples")
    np.testing.assert_array_equal(shots.X, data.X[data.split.novel])
    assert shots.prototypes == data.prototypes
    order = np.lexsort(shots.base.X.T)
    np.testing.assert_array_equal(shots.base.X[order], data.X_train[np.lexsort(data.X_train.T)])
    assert shots.base.validation is None
    assert prepare_shots(data, "raw", "samples").base is shots.base  # shared by runs
    view = validation_view(data)
    stopping = prepare_shots(view, "raw", "samples", stops=True).base
    assert stopping.validation.classes.tolist() == view.unseen_classes.tolist()
    assert stopping.classes.tolist() == view.seen_classes.tolist()


def test_a_device_is_for_peers_that_have_the_parameter_and_their_samples_stay(data):
    pytest.importorskip("torch", reason="arrays on a device are those of torch")
    token = DEVICE.set("cpu")
    try:
        raw = prepare_shots(data, "raw", "samples")
        assert isinstance(raw.X, np.ndarray)
        assert STOPPING.build(raw.prototypes, raw.base).device == "cpu"
        assert not hasattr(FEW_SHOT["SimpleShot"].build(raw.prototypes, raw.base), "device")
        assert not isinstance(prepare_shots(data, "paper").X, np.ndarray)
    finally:
        DEVICE.reset(token)
    assert STOPPING.build(raw.prototypes, raw.base).device == "auto"


@pytest.mark.parametrize("n_trials", [3, None])
def test_trained_peers_stop_on_validation_classes_and_keep_the_number_of_epochs(data, n_trials):
    options = {"grid": STOPPING.grid, "n_shot": 2, "n_trials": n_trials}
    found = select_few_shot(STOPPING, validation_view(data), data, **options)
    assert found["chosen"] == {"shift": 0.0, "max_iter": 4, "n_iter_no_change": None}
    assert [point["parameters"] for point in found["points"]] == [{"shift": 0.0}, {"shift": 50.0}]
    assert sorted(TRAININGS) == [(0.0, 9, True), (50.0, 9, True)]  # once per point
    shots = prepare_shots(data, "raw", "samples")
    model = STOPPING.build(shots.prototypes, shots.base, **found["chosen"])
    TRAININGS.clear()
    shots.score_trials({"model": model}, shots.sizes(1), 3)
    assert TRAININGS == [(0.0, 4, False)]


def test_points_of_an_earlier_run_are_not_trained_again_but_the_best_for_its_epochs(data):
    options = {"grid": STOPPING.grid, "n_shot": 2, "n_trials": 3}
    view = validation_view(data)
    found = select_few_shot(STOPPING, view, data, **options)
    TRAININGS.clear()
    _share_samples.cache_clear()
    assert select_few_shot(STOPPING, view, data, earlier=found["points"], **options) == found
    assert TRAININGS == [(0.0, 9, True)]


def test_a_few_shot_search_walks_beyond_its_grid(data):
    options = {"n_shot": 2, "n_trials": 3, "n_points_more": 9}
    far = {"shift": [5.0, 3.0]}
    found = select_few_shot(STOPPING, validation_view(data), data, grid=far, **options)
    assert found["n_start"] == 2
    assert len(found["points"]) > 2
    assert found["chosen"]["shift"] < 3.0
    assert found["chosen"]["max_iter"] == 4


def test_every_seed_trains_anew_in_the_same_trials(data, monkeypatch):
    seen = []

    class Seeded(Stopping):
        def _learn(self, support):
            seen.append((support.base.seed, round(float(support.X.sum()), 6)))
            return super()._learn(support)

    monkeypatch.setitem(FEW_SHOT, "seeded", replace(STOPPING, classifier=Seeded))
    trials = {}
    for seed in (0, 1, 0, 2):
        seen.clear()
        protocols.measure_trials(data, "seeded", {"max_iter": 4}, seed, n_shot=1, n_trials=3)
        assert {base for base, _ in seen} == {seed}
        trials.setdefault(seed, []).append([total for _, total in seen])
    assert trials[0][0] == trials[0][1] == trials[1][0] == trials[2][0]
    assert prepare_shots(data, "raw", "samples", seed=1).base.seed == 1
    # Trained once per seed that is kept: two of them are, so that 0 was trained again.
    assert len(TRAININGS) in (3, 4)
    bases = [_share_samples(data, "raw", False, seed) for seed in (0, 1)]
    assert bases[0] is not bases[1]


def test_all_classes_use_the_parameters_of_their_number_of_shots(data, monkeypatch):
    monkeypatch.setitem(FEW_SHOT, "stopping", STOPPING)
    by_shots = {"1": {"max_iter": 3}, "2": {"max_iter": 5, "shift": 50.0}}
    options = {"most_shots": 2, "n_repeats": 2}
    found = measure_all(data, "stopping", by_shots, 0, **options)
    assert found["shots"] == [1, 2]
    assert TRAININGS == [(0.0, 3, False), (50.0, 5, False)]
    alone = measure_all(data, "stopping", {"1": by_shots["1"]}, 0, most_shots=1, n_repeats=2)
    assert [row[0] for row in found["hit@1"]] == [row[0] for row in alone["hit@1"]]


def test_without_parameters_of_their_own_no_shots_use_those_of_one_shot(data):
    by_shots = {"1": {"alpha": 0.9}, "2": {"alpha": 0.1}}
    options = {"most_shots": 2, "n_repeats": 2}
    found, same, other = (
        measure_all(data, "BPL (SFSP1)", by_shots, 0, zero_parameters=zero, **options)
        for zero in (None, {"alpha": 0.9}, {"alpha": 0.001, "rho": 0.9})
    )
    assert found == same
    assert [row[1:] for row in found["hit@1"]] == [row[1:] for row in other["hit@1"]]


def test_a_trained_peer_without_a_grid_has_its_epochs_chosen(data):
    model = replace(STOPPING, grid={})
    options = {"grid": {}, "n_shot": 1, "n_trials": 2}
    found = select_few_shot(model, validation_view(data), data, **options)
    assert found["chosen"] == {"max_iter": 4, "n_iter_no_change": None}
    assert select_few_shot(model, None, data, **options)["chosen"] == {}


def test_transductive_peers_are_tuned_as_they_are_measured(data, monkeypatch):
    model = FewShotModel({}, {"shift": [9.0, 0.0]}, "raw", Adapting)
    assert model.record()["is_transductive"]
    options = {"grid": model.grid, "n_shot": 1, "n_trials": 3}
    found = select_few_shot(model, validation_view(data), data, **options)
    assert [len(point["scores"]) for point in found["points"]] == [6, 6]  # unbalanced ones too
    assert found["chosen"] == {"shift": 0.0}
    monkeypatch.setitem(FEW_SHOT, "adapting", model)
    trials = protocols.measure_unlabeled_trials(
        data, "adapting", {"shift": 9.0}, 0, n_shot=1, n_trials=3
    )
    assert {"balanced", "balanced_unlabeled", "queries_fixed"} <= trials.keys()


# What records tell


measure_all = protocols.measure_all_classes


def in_trials(data, model, **parameters):
    return protocols.measure_trials(data, model, parameters, 0, n_shot=1, n_trials=3)


def test_records_tell_what_the_guard_did(data):
    pushed = {"alpha": 0.9, "rho": 0.9, "mu": 0.9}
    guarded, printed, calm = (
        in_trials(data, name, **parameters)["steps"]
        for name, parameters in [
            ("BPL (SFSP1), unscaled", pushed),
            ("BPL (SFSP1), unscaled, as printed", pushed),
            ("BPL (SFSP1), unscaled", {**pushed, "mu": 0.0}),
        ]
    )
    assert 0 < guarded["n_lowered"] <= guarded["n"]
    assert guarded["least_mu"] <= guarded["mean_mu"] < 0.9
    assert guarded["n_indefinite"] == calm["n_indefinite"] == calm["n_lowered"] == 0
    assert printed["n_lowered"] == 0
    assert printed["least_mu"] == 0.9
    assert printed["mean_mu"] == pytest.approx(0.9)
    assert printed["n_indefinite"] > 0
    assert "steps" not in in_trials(data, "NN")
    assert "steps" not in in_trials(data, "SimpleShot")


def test_steps_of_all_fits_are_summed(data):
    shots = prepare_shots(data)
    steps, fitted = Steps(), []
    model = FewShotClassifier(shots.prototypes, base=shots.base, mu=0.9, alpha=0.9, n_episodes=2)
    models = {"few": model, "nearest": NearestSupport()}

    def watch(name, one):
        fitted.append((name, one))
        steps.add(name, one)

    samples = (shots.X, shots.y, shots.classes)
    with protocols.silence_warnings():
        n_way_k_shot(models, *samples, n_way=3, n_query=2, n_trials=4, watch=watch)
    assert [name for name, _ in fitted].count("nearest") == 4
    mu = np.concatenate([one.mu_ for name, one in fitted if name == "few"])
    found = steps.summary()
    assert (found["n"], found["n_lowered"]) == (len(mu), int((mu < 0.9).sum()))
    assert found["least_mu"] == mu.min()
    assert found["mean_mu"] == pytest.approx(mu.mean())


def test_all_classes_have_steps_for_every_number_of_shots(data):
    parameters = {"alpha": 0.9, "rho": 0.9, "mu": 0.9, "base_samples_per_class": 2}
    options = {"zero_parameters": {"alpha": 0.1}, "most_shots": 2, "n_repeats": 2}
    name = "BPL (SFSP1), sampled base"
    by_shots = dict.fromkeys("12", parameters)
    found = protocols.measure_all_classes(data, name, by_shots, 0, **options)
    assert found["shots"] == [0, 1, 2]
    assert [step["n"] > 0 for step in found["steps"]] == [True] * 3
    assert found["steps"][1]["mean_mu"] < 0.9
    none = {"1": {}, "2": {}}
    nothing = protocols.measure_all_classes(data, "NN", none, 0, most_shots=2, n_repeats=2)
    assert "steps" not in nothing


def test_records_tell_whether_queries_were_fixed(data, monkeypatch):
    assert in_trials(data, "NN")["queries_fixed"] is False
    novel = data.split.novel
    split = replace(data.split, query=novel[np.arange(len(novel)) % 9 > 3])
    fixed = type(data)("fixed", data.X, data.y, data.prototypes, split)
    assert in_trials(fixed, "NN")["queries_fixed"] is True
    options = {"most_shots": 1, "n_repeats": 1}
    assert measure_all(fixed, "NN", {"1": {}}, 0, **options)["queries_fixed"] is True
    monkeypatch.setitem(FEW_SHOT, "adapting", FewShotModel({}, {}, "raw", Adapting))
    unlabeled = protocols.measure_unlabeled_trials(fixed, "adapting", {}, 0, n_shot=1, n_trials=2)
    assert unlabeled["queries_fixed"] is True


# Time and memory


def test_times_are_from_base_samples_to_the_fitted_model(data, monkeypatch):
    monkeypatch.setitem(FEW_SHOT, "stopping", STOPPING)
    found = protocols.measure_runtime(
        data, "stopping", {"max_iter": 4}, 0, most_shots=2, n_timings=3
    )
    assert TRAININGS == [(0.0, 4, False)] * 6  # trained anew for every timing
    assert found["n_timings"] == [3, 3]
    assert found["shots"] == [1, 2]
    assert found["peak_mb"] is None  # torch would not be counted
    monkeypatch.setattr(protocols, "_LONG", 0.0)
    found = protocols.measure_runtime(data, "BPL (SFSP1)", {}, 0, most_shots=2, n_timings=3)
    assert found["n_timings"] == [1, 1]
    assert found["peak_mb"] is None
    assert QUICK.options("runtime") == {"most_shots": 3, "n_timings": 1}


def test_memory_is_that_of_what_must_be_stored(data):
    names = ("BPL (SFSP1)", "BPL (SFSP2)", "BPL (SFSP1), sampled base", "NN", "SimpleShot")
    parameters = {names[2]: {"base_samples_per_class": 2}}
    options = {"most_shots": 1, "n_timings": 2}
    found = {
        name: protocols.measure_runtime(data, name, parameters.get(name, {}), 0, **options)
        for name in names
    }
    moments, samples = 8 * (10 * 10 + 5 * 5 + 10 * 5), 8 * len(data.y_train) * 10
    expected = {
        "BPL (SFSP1)": moments,
        "BPL (SFSP2)": moments + samples,
        "BPL (SFSP1), sampled base": samples,
        "NN": 0,
        "SimpleShot": samples,
    }
    for name, n_bytes in expected.items():
        assert found[name]["base_mb"] == pytest.approx(n_bytes / 2**20, abs=5e-4)
        assert found[name]["peak_mb"] > 0


def test_what_the_recommended_model_stores_is_not_counted(data):
    found = protocols.measure_runtime(data, "recommended", {}, 0, most_shots=1, n_timings=1)
    assert found["base_mb"] is None
    assert stored_mb(NearestSupport()) == 0.0


# The catalog


def test_readings_are_tuned_on_the_same_points_up_to_a_weight_near_one():
    grids = [FEW_SHOT[name].grid for name in ("BPL (SFSP1)", *SHOT_READINGS[:3], *SYNTHESES)]
    assert all(grid == grids[0] for grid in grids)
    assert max(grids[0]["alpha"]) == 0.99
    assert len(ParameterGrid(grids[0])) == FULL.n_points
    assert all(FEW_SHOT[name].walks for name in ("BPL (SFSP1)", *SHOT_READINGS[:3], *SYNTHESES))
    # Base samples that every episode draws anew make a trial slow: a part of these points, alone.
    drawn = [FEW_SHOT[f"BPL (SFSP1), sampled base{each}"] for each in ("", ", unscaled")]
    assert drawn[0].grid == drawn[1].grid
    assert not any(spec.walks for spec in drawn)
    subsets = list(ParameterGrid(drawn[0].grid))
    for name, values in grids[0].items():
        assert {point[name] for point in subsets} <= set(values)
    assert {point["alpha"] for point in subsets} == {0.9, 0.99}
    assert {point["base_samples_per_class"] for point in subsets} == {1, 5}
    for name in (*SHOT_READINGS, *SYNTHESES):
        assert name in AT_ZERO_SHOTS
        fixed = FEW_SHOT[name].fixed
        assert ("unscaled" in name) == (fixed.get("scaling", "") is None)
        assert ("as printed" in name) == (fixed.get("guard") is False)


def test_systems_with_several_seeds_are_those_that_torch_trains():
    trained = {name for name, model in FEW_SHOT.items() if getattr(model, "uses_torch", False)}
    assert trained == {*TRAINED_SHOTS, *PUBLISHED_SIZES, *END_TO_END}
    stops_early = {name for name in trained if FEW_SHOT[name].is_trained}
    assert stops_early == trained - {"LSL", "LSL, published size"}
    experiments = [EXPERIMENTS["mini-imagenet"], EXPERIMENTS["large-scale-fsl"]]
    keys = runs_of(experiments, "emoji", FULL)
    for protocol in ("trials-1", "trials-5", "all-classes"):
        seeds = {
            model: {key.seed for key in keys if key.protocol == protocol and key.model == model}
            for model in ("PPA", "LSL", "NN", "BPL (SFSP1)")
        }
        assert seeds == {"PPA": {0, 1, 2}, "LSL": {0, 1, 2}, "NN": {0}, "BPL (SFSP1)": {0}}
    assert {key.seed for key in keys if key.protocol.startswith("selection")} == {0}
    few = runs_of(experiments, "emoji", replace(FULL, n_seeds=1))
    assert {key.seed for key in few} == {0}


def test_every_number_of_shots_has_its_own_choice():
    keys = runs_of([EXPERIMENTS["synthesis"], EXPERIMENTS["runtime"]], "emoji", FULL)
    (key,) = (k for k in keys if (k.protocol, k.model) == ("all-classes", "BPL (SFSP2)"))
    wanted = [f"selection-all-{n_shot}" for n_shot in range(1, 6)]
    assert [need.protocol for need in keys[key]] == [*wanted, "selection"]
    assert keys[key][-1].model == AT_ZERO_SHOTS["BPL (SFSP2)"]
    for need in keys[key]:
        assert keys[need] == ()
    (timed,) = (k for k in keys if (k.protocol, k.model) == ("runtime", "BPL (SFSP2)"))
    assert [need.protocol for need in keys[timed]] == ["selection-all-5"]
    (own,) = (k for k in keys if (k.protocol, k.model) == ("runtime", "recommended"))
    assert [need.protocol for need in keys[own]] == ["selection-1"]
    assert len(AT_ONCE) == 25
    timed = {k.model for k in keys if k.protocol == "runtime"}
    assert timed == {*AT_ONCE, *PUBLISHED_SIZES}
    tuned = {k.model for k in keys if k.protocol == "selection-all-5"}
    assert tuned >= {*PUBLISHED_SIZES}


@pytest.mark.parametrize("name", [*SHOT_PEERS, *TRANSDUCTIVE_SHOTS])
def test_systems_with_something_to_choose_are_tuned_on_as_many_points_as_all(name):
    spec = FEW_SHOT[name]
    points = list(ParameterGrid(spec.grid)) if spec.grid else []
    assert not points or len(points) >= FULL.n_points
    for point in points:
        spec.build(None, None, **point)
    assert not {*spec.fixed} & {*spec.grid}
    assert all(len({*values}) == len(values) > 1 for values in dict(spec.grid).values())
    has_nothing_to_choose = name == "SimpleShot"
    assert bool(points) != has_nothing_to_choose


@pytest.mark.parametrize("name", ["LSL", "PPA"])
def test_published_sizes_are_fixed(name):
    spec = FEW_SHOT[f"{name}, published size"]
    assert spec.classifier is FEW_SHOT[name].classifier
    assert not spec.grid
    assert {*spec.fixed} & {"n_steps", "n_batches"}


def test_every_model_of_an_experiment_is_in_the_catalog():
    for experiment in EXPERIMENTS.values():
        if "trials" in experiment.protocol or experiment.protocol in ("all-classes", "runtime"):
            assert {*experiment.models} <= {*FEW_SHOT}


def test_few_shots_are_chosen_with_as_many_episodes_as_are_tested(data, monkeypatch):
    built = []
    original = FewShotModel.build

    def noted(self, *given, **chosen):
        built.append(original(self, *given, **chosen))
        return built[-1]

    monkeypatch.setattr(FewShotModel, "build", noted)
    grid = {"alpha": [0.1], "max_iter": [1]}
    source = small_source()
    options = {"grid": grid, "n_shot": 1, "n_trials": 1}
    select_few_shot(FEW_SHOT["BPL (SFSP1)"], source.load_validation(), data, **options)
    assert [model.n_episodes for model in built] == [10]
