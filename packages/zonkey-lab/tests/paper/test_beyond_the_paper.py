"""Presets, peers and recommended models of the bench; the paper's models stay as they were."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from small_data import small_dataset, small_source, use_source

from zonkey import AnyShotClassifier, ZeroShotClassifier
from zonkey.files.dataset import DataError
from zonkey.metrics import generalized_scores, hit_at_k, per_class_accuracy
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.prototypes import Prototypes
from zonkey_lab.paper import experiments
from zonkey_lab.paper.bench import protocols, runner
from zonkey_lab.paper.bench.models import (
    FEW_SHOT,
    ZERO_SHOT,
    ZeroShotModel,
    prepare_prototypes,
    sample_grid,
)
from zonkey_lab.paper.bench.runner import run_experiments
from zonkey_lab.paper.bench.selection import prepare_shots, select_few_shot, select_zero_shot
from zonkey_lab.paper.bench.sources import NoValidationClasses, validation_view
from zonkey_lab.paper.experiments import EXPERIMENTS, Scale
from zonkey_lab.paper.records import Records, unpack
from zonkey_lab.peers.zsl import ESZSL
from zonkey_lab.protocols import large_scale, n_way_k_shot

OF_CLASSES = {
    name: model.classifier for name, model in ZERO_SHOT.items() if isinstance(model, ZeroShotModel)
}
PEERS = [name for name, kind in OF_CLASSES.items() if kind is not ZeroShotClassifier]
PAPERS = [n for n in OF_CLASSES if ZERO_SHOT[n].preset == "paper" and n not in PEERS]
CORNERS = ("FPL", "BPL0", "BPL", "BPL, unscaled, as printed", "minimum entropy")
SCALE = Scale(
    n_seeds=2, n_folds=2, n_points=4, n_points_more=0, n_trials=3, n_selection_trials=2,
    n_repeats=2, most_shots=2, quick=True,
)  # fmt: skip


# Nothing is chosen: that takes long, and has tests of its own.
GIVEN = {
    "preprocessing": FeatureNormalizer(center=True), "prototype_transformer": None,
    "kernel": "linear", "gamma": 1.0, "ridge": 0.1, "worth": 3.0, "seen_penalty": 0.1,
    "temperature": 0.1, "adapt_temperature": 0.1, "adapt_weight": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return small_dataset(noise=3.0)  # hard enough for models to differ


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run experiments on a small data set; return the steps by protocol, model and seed."""

    def run_it(*names, source=None, models=None):
        use_source(monkeypatch, source)
        experiments = [EXPERIMENTS[name] for name in names]
        if models:
            kept = [[name for name in each.models if name in models] for each in experiments]
            pairs = zip(experiments, kept, strict=True)
            experiments = [replace(each, models=tuple(names)) for each, names in pairs]
        steps = list(run_experiments(experiments, ["small"], Records(tmp_path), SCALE))
        return {(step.key.protocol, step.key.model, step.key.seed): step for step in steps}

    return run_it


def by_hand(X_train, y_train, *others):
    """Return features after power, center, unit length, whitening and unit length again."""
    first = FeatureNormalizer(power=0.5, center=True).fit(X_train)
    whiten = WithinClassWhitener(4.0).fit(first.transform(X_train), y_train)
    return [
        FeatureNormalizer().fit_transform(whiten.transform(first.transform(X)))
        for X in (X_train, *others)
    ]


def transformed(prototypes, seen):
    """Return prototypes as the recommended preset has them, learned from some classes."""
    powered = np.sign(prototypes.matrix) * np.abs(prototypes.matrix) ** 0.7
    centered = powered - powered[np.isin(prototypes.labels, seen)].mean(axis=0)
    return Prototypes(prototypes.labels, centered / np.linalg.norm(centered, axis=1, keepdims=True))


def nearest_exemplars(X, y, X_test, prototypes, gamma, ridge):
    """Return the unseen class of the nearest center, which kernel ridge regression predicts."""
    seen = np.unique(y)
    unseen = prototypes.labels[~np.isin(prototypes.labels, seen)]
    Y = prototypes.subset(seen).matrix
    means = np.stack([X[y == label].mean(axis=0) for label in seen])
    width = np.median(pdist(Y, "sqeuclidean"))
    regression = KernelRidge(alpha=ridge, kernel="rbf", gamma=gamma / width).fit(Y, means)
    centers = regression.predict(prototypes.subset(unseen).matrix)
    return unseen[cdist(X_test, centers).argmin(axis=1)]


def any_shot(data, candidates, **parameters):
    """Return a fitted model."""
    options = {"candidates": candidates, "random_state": 0, **parameters}
    return AnyShotClassifier(data.prototypes, **options).fit(data.X_train, data.y_train)


# The paper's models


@pytest.mark.parametrize(
    "name",
    [n if n in CORNERS else pytest.param(n, marks=pytest.mark.exhaustive) for n in PAPERS],
)
def test_the_papers_models_measure_what_they_did_without_a_pipeline(data, name):
    """Exactly: the search over bare classifiers, and a fit on features scaled beforehand."""
    model, unit = ZERO_SHOT[name], FeatureNormalizer().fit(data.X_train)
    X, y = unit.transform(data.X_train), data.y_train
    grid = sample_grid(model.grid, 4)
    chosen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if grid:
            known = data.prototypes.subset(np.unique(y)).normalized()
            bare = ZeroShotClassifier(known, random_state=0, **model.fixed)
            folds = ClassKFold(4, shuffle=True, random_state=0)
            search = ZeroShotSearchCV(bare, grid, cv=folds, refit=False).fit(X, y)
            found = select_zero_shot(model, data, grid=grid, n_folds=4)
            chosen = search.best_params_
            assert found["chosen"] == chosen
            for i, point in enumerate(found["points"]):
                assert point["parameters"] == search.cv_results_["params"][i]
                scores = [search.cv_results_[f"split{fold}_test_score"][i] for fold in range(4)]
                assert point["scores"] == scores
        bare = ZeroShotClassifier(
            data.prototypes.normalized(), random_state=1, **{**model.fixed, **chosen}
        ).fit(X, y)
    results = protocols.measure_zero_shot(data, name, chosen, 1)
    expected = bare.predict(unit.transform(data.X_test_unseen))
    assert np.array(results["classes"])[unpack(results["predicted"])].tolist() == expected.tolist()
    assert results["n_iter"] == bare.n_iter_
    pushed = bare.competition == "second-best"
    assert results["mu"] == bare.mu_.tolist()
    assert results["n_lowered"] == (sum(bare.mu_ < bare.mu) if pushed else 0)
    assert results["n_indefinite"] == bare.n_indefinite_
    assert results["moved"] == bare.moved_
    assert (results["moved"] > 0) is (bare.n_iter_ > 0)
    everything = bare.with_candidates("all").predict(
        unit.transform(np.concatenate([data.X_test_seen, data.X_test_unseen]))
    )
    truth = np.concatenate([data.y_test_seen, data.y_test_unseen])
    scores = generalized_scores(truth, everything, data.seen_classes)
    assert (results["acc_s"], results["acc_u"], results["hm"]) == scores


# What comes before a classifier


def test_a_pipeline_ends_in_the_classifier_of_the_model(data):
    for name, kind in OF_CLASSES.items():
        model = ZERO_SHOT[name]
        pipeline = model.build(data.prototypes, 3)
        names = ["unit"] if model.preset == "paper" else ["power", "whiten", "unit"]
        assert [step for step, _ in pipeline.steps] == [*names, "classify"], name
        assert type(pipeline[-1]) is kind
        assert pipeline[-1].get_params().get("random_state", 3) == 3


def test_the_recommended_model_is_built_from_what_it_has_chosen(data):
    """Features and prototypes as they are; a record is enough to build it again."""
    model = ZERO_SHOT["recommended"]
    pipeline = model.build(data.prototypes, 3)
    assert type(pipeline[-1]) is AnyShotClassifier
    assert (pipeline[-1].prototypes, pipeline[-1].candidates) == (data.prototypes, "all")
    assert pipeline[-1].random_state == 3
    fitted = pipeline.fit(data.X_train, data.y_train)[-1]
    chosen = json.loads(json.dumps(model.read_choice(fitted)))
    assert set(chosen) == {
        "power", "shrinkage", "prototype_power", "prototype_norm", "kernel", "gamma", "ridge",
        "worth", "seen_penalty", "temperature",
    }  # fmt: skip
    again = model.build(data.prototypes, 3, **chosen).fit(data.X_train, data.y_train)[-1]
    assert model.read_choice(again) == chosen
    assert again.predict(data.X_test_unseen).tolist() == fitted.predict(data.X_test_unseen).tolist()


def test_prototypes_are_transformed_by_what_seen_classes_say(data):
    name, seen = "ESZSL, recommended features", data.seen_classes
    given = ZERO_SHOT[name].build(data.prototypes, 0, seen=seen)[-1].prototypes
    expected = transformed(data.prototypes, seen)
    assert given.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(given.matrix, expected.matrix)
    labels, matrix = data.prototypes.labels, data.prototypes.matrix
    others = Prototypes(labels, matrix + 5 * ~np.isin(labels, seen)[:, None])
    again = prepare_prototypes(others, "recommended", seen)
    np.testing.assert_array_equal(given.subset(seen).matrix, again.subset(seen).matrix)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("ESZSL", {"gamma": 10.0, "lam": 0.1}),
        ("ESZSL, recommended features", {"gamma": 10.0, "lam": 0.1}),
        ("exemplars", {"gamma": 0.5, "ridge": 0.1}),
        ("exemplars, recommended features", {"gamma": 0.5, "ridge": 0.1}),
    ],
)
def test_the_record_of_a_peer_can_be_repeated_by_hand(data, name, chosen):
    if "recommended" in name:
        X, X_test = by_hand(data.X_train, data.y_train, data.X_test_unseen)
        prototypes = transformed(data.prototypes, data.seen_classes)
    else:
        X, X_test = (
            FeatureNormalizer().fit_transform(A) for A in (data.X_train, data.X_test_unseen)
        )
        prototypes = data.prototypes.normalized()
    if "ESZSL" in name:
        expected = ESZSL(prototypes, **chosen).fit(X, data.y_train).predict(X_test)
    else:
        expected = nearest_exemplars(X, data.y_train, X_test, prototypes, **chosen)
    results = protocols.measure_zero_shot(data, name, chosen, 0)
    predicted = np.array(results["classes"])[unpack(results["predicted"])]
    assert predicted.tolist() == expected.tolist()
    assert results["zsl"] == per_class_accuracy(data.y_test_unseen, expected)
    assert results["n_iter"] == 0
    assert not {"mu", "moved", "hm_calibrated"} & {*results}


def test_every_fold_learns_its_own_preprocessing(data):
    """The choice on recommended features, by hand: steps and classifier a fold."""
    model = ZERO_SHOT["exemplars, recommended features"]
    grid = {"gamma": [0.5], "ridge": [0.01, 0.3]}
    found = select_zero_shot(model, data, grid=grid, n_folds=4)
    X, y = data.X_train, data.y_train
    prototypes = transformed(data.prototypes.subset(data.seen_classes), data.seen_classes)
    for ridge, point in zip([0.01, 0.3], found["points"], strict=True):
        assert point["parameters"] == {"gamma": 0.5, "ridge": ridge}
        scores = []
        for train, test in ClassKFold(4, shuffle=True, random_state=0).split(X, y):
            X_train, X_test = by_hand(X[train], y[train], X[test])
            predicted = nearest_exemplars(X_train, y[train], X_test, prototypes, 0.5, ridge)
            scores.append(per_class_accuracy(y[test], predicted))
        assert point["scores"] == pytest.approx(scores)


# Calibration


def generalized(model, data):
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    y = np.concatenate([data.y_test_seen, data.y_test_unseen])
    return generalized_scores(y, model.predict(X), data.seen_classes)


def test_the_calibrated_harmonic_mean_is_that_of_a_model_with_the_penalty(data):
    options = {"grid": {"beta": [0.1]}, "n_folds": 4}
    found = select_zero_shot(ZERO_SHOT["RPL"], data, **options, calibrates=True)
    chosen, penalty = found["chosen"], found["seen_penalty"]
    results = protocols.measure_zero_shot(data, "RPL", chosen, 0, seen_penalty=penalty)
    pipeline = ZERO_SHOT["RPL"].build(data.prototypes, 0, beta=0.1)
    pipeline.set_params(
        classify__seen_penalty=results["seen_penalty"], classify__candidates="all"
    ).fit(data.X_train, data.y_train)
    assert results["hm_calibrated"] == pytest.approx(generalized(pipeline, data).harmonic_mean)
    assert results["seen_penalty"] != 0


def test_figures_of_the_recommended_model_by_hand(data):
    """Accuracy among unseen classes, HM with and without the penalty, by one model."""
    given = {name: value for name, value in GIVEN.items() if name != "seen_penalty"}
    results = protocols.measure_zero_shot(data, "recommended", given, 0)
    model = any_shot(data, "all", **given)
    unseen = model.with_candidates("unseen")
    assert results["classes"] == data.unseen_classes.tolist()
    assert results["zsl"] == unseen.score(data.X_test_unseen, data.y_test_unseen)
    assert results["seen_penalty"] == model.seen_penalty_
    assert results["hm_calibrated"] == generalized(model, data).harmonic_mean
    free = any_shot(data, "all", **{**given, "seen_penalty": 0.0})
    found = tuple(results[name] for name in ("acc_s", "acc_u", "hm"))
    assert found == tuple(generalized(free, data))


@pytest.mark.parametrize("name", ["generalized-zsl", "beyond"])
def test_every_model_of_a_generalized_table_calibrates(name):
    assert all(ZERO_SHOT[model].calibrates for model in EXPERIMENTS[name].models)


def test_the_penalty_is_chosen_once_and_serves_every_seed(run):
    steps = run("ablation", models=("BPL1",))
    chosen = steps["selection", "BPL1", 0].record["results"]["seen_penalty"]
    for seed in range(2):
        record = steps["zero-shot", "BPL1", seed].record
        assert record["settings"]["seen_penalty"] == chosen
        assert record["results"]["seen_penalty"] == chosen
        assert 0 <= record["results"]["hm_calibrated"] <= 1


# Models that learn from unlabeled samples


@pytest.fixture
def transductive(monkeypatch):
    """Let a transductive model be in the experiment on unlabeled samples."""
    model = ZeroShotModel({}, {"alpha": [0.3, 0.6], "mu": [0.2]}, is_transductive=True)
    monkeypatch.setitem(ZERO_SHOT, "dipl", model)
    monkeypatch.setattr(experiments, "TRANSDUCTIVE", ("dipl",))
    monkeypatch.setitem(
        EXPERIMENTS, "unlabeled", replace(EXPERIMENTS["unlabeled"], models=("dipl",))
    )
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_transductive_model_learns_from_the_samples_it_is_scored_on(run, transductive):
    data = small_dataset()
    steps = run("unlabeled")
    assert {protocol for protocol, _, _ in steps} == {"selection", "unlabeled"}
    found = steps["selection", "dipl", 0].record["results"]
    X, y = FeatureNormalizer().fit_transform(data.X_train), data.y_train
    known = data.prototypes.subset(data.seen_classes).normalized()
    for point in found["points"]:
        scores = []
        for train, test in ClassKFold(2, shuffle=True, random_state=0).split(X, y):
            bare = ZeroShotClassifier(known, random_state=0, **point["parameters"])
            bare.fit_transductive(X[train], y[train], X[test])
            scores.append(bare.score(X[test], y[test]))
        assert point["scores"] == pytest.approx(scores)
    results = steps["unlabeled", "dipl", 0].record["results"]
    X_test = FeatureNormalizer().fit_transform(data.X_test_unseen)
    model = ZeroShotClassifier(data.prototypes.normalized(), random_state=0, **found["chosen"])
    model.fit_transductive(X, y, X_test)
    assert results["zsl_unlabeled"] == model.score(X_test, data.y_test_unseen)
    assert set(results) == {"zsl_unlabeled", "hm_unlabeled"}


# Inductive models only


class Peeking(ZeroShotClassifier):
    """A classifier that has seen unlabeled samples."""

    def fit(self, X, y):
        return self.fit_transductive(X, y, X[:20])


def test_a_transductive_model_is_refused(data, monkeypatch):
    monkeypatch.setitem(ZERO_SHOT, "peeking", ZeroShotModel({}, {}, classifier=Peeking))
    with pytest.raises(ValueError, match=r"'peeking' has seen unlabeled.*Measure it separately\.$"):
        protocols.measure_zero_shot(data, "peeking", {}, 0)


# What starts from another choice


SUBJECT = EXPERIMENTS["on-top"].subject


def test_models_with_synthesis_start_from_the_ridge_chosen_without(run):
    steps = run("on-top")
    chosen = steps["selection", SUBJECT, 0].record["results"]["chosen"]
    assert set(chosen) == {"beta"}
    order = list(steps)
    for model in EXPERIMENTS["on-top"].models[1:]:
        key = ("selection", model, 0)
        assert order.index(key) > order.index(("selection", SUBJECT, 0))
        record = steps[key].record
        assert record["settings"]["start"] == chosen
        assert record["settings"]["start_of"] == SUBJECT
        own = record["results"]["points"][0]["parameters"]
        assert not set(own) & set(chosen)
        assert record["results"]["chosen"].items() >= chosen.items()
        assert set(record["results"]["chosen"]) == set(chosen) | set(own)
        for seed in (0, 1):
            measured = steps["zero-shot", model, seed].record
            assert measured["settings"]["parameters"] == record["results"]["chosen"]


def test_every_point_of_a_grid_has_the_parameters_it_starts_from(data):
    model = ZERO_SHOT["assigned, unscaled, recommended features"]
    grid = {"alpha": [0.1]}
    options = {"grid": grid, "n_folds": 4}
    (given,) = select_zero_shot(model, data, start={"beta": 3.0}, **options)["points"]
    spelled = replace(model, fixed={**model.fixed, "beta": 3.0})
    (fixed,) = select_zero_shot(spelled, data, **options)["points"]
    (other,) = select_zero_shot(model, data, **options)["points"]
    assert given == fixed
    assert given != other


def test_nothing_is_put_on_top_of_a_model_that_could_not_be_chosen(run, monkeypatch):
    def fails(model, *_, **__):
        raise ValueError("too hard")

    monkeypatch.setattr(runner, "select_zero_shot", fails)
    steps = run("on-top")
    assert steps["selection", SUBJECT, 0].error == "too hard"
    model = EXPERIMENTS["on-top"].models[1]
    assert "no parameters were chosen" in steps["selection", model, 0].error
    assert "no parameters were chosen" in steps["zero-shot", model, 1].error


def test_a_name_may_stand_for_a_zero_shot_and_a_few_shot_model(run):
    steps = run("beyond", "any-shot", models=("recommended",))
    zero = steps["zero-shot", "recommended", 0].record
    few = steps["all-classes", "recommended", 0].record
    for record in (zero, few):
        assert record["settings"]["classifier"] == "AnyShotClassifier"
        assert record["settings"]["preset"] == "recommended"
    assert zero["settings"]["model"] == {"candidates": "all"}
    assert few["settings"]["model"] == {"n_shots": 1}
    chosen, own = (
        steps[protocol, "recommended", 0].record["results"]["chosen"]
        for protocol in ("selection", "selection-1")
    )
    assert zero["settings"]["parameters"] == chosen
    assert few["settings"]["parameters_by_shots"] == {"1": own, "2": own}
    assert "zero_parameters" not in few["settings"]


# Few shots


def test_recommended_shots_are_prepared_by_the_base_classes(data):
    shots = prepare_shots(data, "recommended")
    X_base, X_novel = by_hand(data.X_train, data.y_train, data.X[data.split.novel])
    np.testing.assert_allclose(shots.X, X_novel)
    expected = transformed(data.prototypes, data.seen_classes)
    np.testing.assert_allclose(shots.prototypes.matrix, expected.matrix)
    np.testing.assert_allclose(shots.base.moments.A0, X_base.T @ X_base)


@pytest.mark.parametrize("name", ["recommended", "prototype alone"])
def test_the_any_shot_model_chooses_on_validation_classes(data, name):
    view = validation_view(data)
    found = select_few_shot(FEW_SHOT[name], view, data, grid={}, n_shot=5, n_trials=None)
    novel = view.split.novel
    fixed = {"worth": 1e6} if name == "prototype alone" else {}
    model = AnyShotClassifier(
        view.prototypes, candidates="unseen", n_shots=1, random_state=0, **fixed
    )
    model.fit(view.X_train, view.y_train, validation=(view.X[novel], view.y[novel]))
    assert found == {"chosen": FEW_SHOT[name].read_choice(model), "points": []}
    assert ("worth" in found["chosen"]) == (name == "recommended")


def test_without_validation_classes_the_any_shot_model_holds_out_base_classes(data, run):
    options = {"n_shot": 1, "n_trials": 2}
    found = select_few_shot(FEW_SHOT["recommended"], None, data, grid={}, **options)
    model = any_shot(data, "unseen", n_shots=1)
    assert found["chosen"] == FEW_SHOT["recommended"].read_choice(model)
    model = FEW_SHOT["BPL (SFSP1)"]
    with pytest.raises(NoValidationClasses, match="'small' names no validation classes"):
        select_few_shot(model, None, data, grid=model.grid, **options)

    def nothing():
        raise NoValidationClasses("small")

    source, measured = replace(small_source(), load_validation=nothing), ("NN", "recommended")
    steps = run("large-scale-fsl", source=source, models=("BPL (SFSP1)", *measured))
    assert "names no validation" in steps["selection-all-1", "BPL (SFSP1)", 0].error
    for model in measured:
        assert steps["all-classes", model, 0].record is not None


def test_a_source_that_is_damaged_is_not_one_without_validation_classes(run):
    def damaged():
        raise DataError("damaged")

    with pytest.raises(DataError, match="damaged"):
        run("synthesis", source=replace(small_source(), load_validation=damaged))


def test_shots_alone_are_class_means_and_prototypes_alone_need_no_shots(data):
    shots = prepare_shots(data, "recommended")
    asked = np.tile(np.arange(9) >= 2, 4)
    alone = FEW_SHOT["shots alone"].build(shots.prototypes, shots.base)
    alone.fit(shots.X[~asked], shots.y[~asked])
    means = np.stack([shots.X[~asked & (shots.y == label)].mean(axis=0) for label in shots.classes])
    distances = ((shots.X[asked][:, None] - means) ** 2).sum(axis=-1)
    nearest = shots.classes[distances.argmin(axis=1)]
    assert alone.predict(shots.X[asked]).tolist() == nearest.tolist()
    X, y = data.X[data.split.novel], data.y[data.split.novel]
    model = FEW_SHOT["prototype alone"].build(data.prototypes, 0)[-1]
    model.fit(data.X_train, data.y_train)
    with_shots = model.with_shots(X[~asked], y[~asked])
    assert with_shots.worth_ == 1e6
    without = with_shots.project(with_shots.prototypes_.subset(shots.classes))
    assert with_shots.centers_.shape == without.shape


def test_one_fitted_model_serves_every_number_of_shots(data):
    """At K = 0 too: hit@1 of `with_candidates`, then of `with_shots`."""
    given = {"1": GIVEN, "2": GIVEN}
    options = {"most_shots": 2, "n_repeats": 2}
    results = protocols.measure_all_classes(data, "recommended", given, 0, **options)
    assert results["shots"] == [0, 1, 2]
    model = any_shot(data, "unseen", n_shots=1, **GIVEN)
    novel = data.split.novel
    expected = large_scale(
        {"it": model},
        *(data.X[novel], data.y[novel], data.unseen_classes),
        **{"shots": (0, 1, 2), "top": (1, 4), "n_repeats": 2},
    )["it"]
    assert results["hit@1"] == expected[:, :, 0].tolist()
    zero = model.with_candidates(data.unseen_classes.tolist())
    assert results["hit@1"][0][0] == hit_at_k(data.y[novel], zero.predict_top(data.X[novel], 1), 1)


# Unlabeled samples


def test_unlabeled_samples_are_those_to_be_classified(data):
    results = protocols.measure_unlabeled(data, "recommended", GIVEN, 0)
    model = any_shot(data, "all", **GIVEN)
    unseen, X = model.with_candidates("unseen"), data.X_test_unseen
    everything = np.concatenate([data.X_test_seen, X])
    assert results == {
        "zsl": unseen.score(X, data.y_test_unseen),
        "zsl_unlabeled": unseen.adapt(X).score(X, data.y_test_unseen),
        "hm": generalized(model, data).harmonic_mean,
        "hm_unlabeled": generalized(model.adapt(everything), data).harmonic_mean,
    }


def test_unlabeled_queries_are_those_of_the_trial(data):
    options = {"n_shot": 1, "n_trials": 2}
    results = protocols.measure_unlabeled_trials(data, "recommended", GIVEN, 5, **options)
    sizes = {"n_way": 4, "n_shot": 1, "n_query": 8}
    assert {name: results[name] for name in sizes} == sizes
    model = any_shot(data, "unseen", n_shots=1, **GIVEN)
    novel = data.split.novel
    samples = (data.X[novel], data.y[novel], data.unseen_classes)
    for kind, given in (
        ("balanced", sizes),
        ("unbalanced", {**sizes, "n_query": 2, "concentration": 2.0}),
    ):
        for ending, adapt in (("", False), ("_unlabeled", True)):
            found = n_way_k_shot(
                {"it": model}, *samples, **given, n_trials=2, adapt=adapt, random_state=5
            )
            assert unpack(results[f"{kind}{ending}"]).tolist() == found["it"].tolist()


def test_trials_of_one_query_a_class_cannot_be_unbalanced(data):
    novel = data.split.novel
    split = replace(data.split, query=novel[8::9])  # one per class
    one = type(data)("one", data.X, data.y, data.prototypes, split)
    results = protocols.measure_unlabeled_trials(one, "recommended", GIVEN, 0, n_shot=1, n_trials=2)
    assert results["n_query"] == 1
    assert "balanced" in results
    assert "unbalanced" not in results
