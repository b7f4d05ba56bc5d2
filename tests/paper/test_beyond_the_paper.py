"""Presets, peers and recommended models of the bench; the paper's models stay as they were."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from small_data import small_dataset, small_source

from zonkey import FewShotClassifier, ZeroShotClassifier
from zonkey.core.frame import BaseClasses
from zonkey.core.moments import Moments
from zonkey.core.prototypes import Prototypes
from zonkey.datasets import DataError
from zonkey.metrics import generalized_scores, per_class_accuracy
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.paper.bench import protocols, runner
from zonkey.paper.bench.models import (
    FEW_SHOT,
    ZERO_SHOT,
    ZeroShotModel,
    as_dicts,
    prepared_prototypes,
    thinned,
)
from zonkey.paper.bench.runner import run_experiments
from zonkey.paper.bench.selection import prepared_shots, select_few_shot, select_zero_shot
from zonkey.paper.bench.sources import NoValidationClasses, validation_view
from zonkey.paper.experiments import EXPERIMENTS, Scale
from zonkey.paper.records import Records, unpack
from zonkey.peers.zsl import ESZSL
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener

PAPERS = [name for name, m in ZERO_SHOT.items() if m.preset == "paper" and not m.is_peer]
PEERS = [name for name, model in ZERO_SHOT.items() if model.is_peer]
SCALE = Scale(
    n_seeds=2, n_folds=2, n_trials=3, n_selection_trials=2, n_repeats=2, most_shots=2, quick=True
)


@pytest.fixture(scope="module")
def data():
    return small_dataset(noise=3.0)  # hard enough for models to differ


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run experiments on a small data set; return the steps by protocol, model and seed."""

    def run_it(*names, source=None):
        monkeypatch.setattr(runner, "find_source", lambda *_: source or small_source())
        for cached in (runner._load_data, runner._load_validation):
            cached.cache_clear()
        experiments = [EXPERIMENTS[name] for name in names]
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


# The paper's models


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_models_measure_what_they_did_without_a_pipeline(data, name):
    """Exactly: the search over bare classifiers, and a fit on features scaled beforehand."""
    model, unit = ZERO_SHOT[name], FeatureNormalizer().fit(data.X_train)
    X, y = unit.transform(data.X_train), data.y_train
    grid = thinned(model.grid)
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
    results = protocols.zero_shot(data, name, chosen, 1)
    expected = bare.predict(unit.transform(data.X_test_unseen))
    assert np.array(results["classes"])[unpack(results["predicted"])].tolist() == expected.tolist()
    assert results["n_iter"] == bare.n_iter_
    everything = bare.with_candidates("all").predict(
        unit.transform(np.concatenate([data.X_test_seen, data.X_test_unseen]))
    )
    truth = np.concatenate([data.y_test_seen, data.y_test_unseen])
    scores = generalized_scores(truth, everything, data.seen_classes)
    assert (results["acc_s"], results["acc_u"], results["hm"]) == scores


# What comes before a classifier


def test_a_pipeline_ends_in_the_classifier_of_the_model(data):
    for name, model in ZERO_SHOT.items():
        pipeline = model.build(data.prototypes, 3)
        names = ["unit"] if model.preset == "paper" else ["power", "whiten", "unit"]
        assert [step for step, _ in pipeline.steps] == [*names, "classify"], name
        assert type(pipeline[-1]) is model.classifier
        assert pipeline[-1].get_params().get("random_state", 3) == 3


def test_a_classifier_that_transforms_prototypes_gets_them_as_they_are(data):
    pipeline = ZERO_SHOT["recommended"].build(
        data.prototypes, 0, prototype_transformer__power=0.5, kernel="linear"
    )
    assert pipeline[-1].prototypes == data.prototypes
    assert pipeline[-1].prototype_transformer.get_params() == {
        "power": 0.5,
        "center": True,
        "norm": "l2",
    }
    assert pipeline[-1].kernel == "linear"


@pytest.mark.parametrize("name", ["ESZSL, recommended features"])
def test_prototypes_of_peers_are_transformed_by_what_seen_classes_say(data, name):
    given = ZERO_SHOT[name].build(data.prototypes, 0, seen=data.seen_classes)[-1].prototypes
    expected = transformed(data.prototypes, data.seen_classes)
    assert given.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(given.matrix, expected.matrix)
    others = Prototypes(
        data.prototypes.labels,
        np.where(
            np.isin(data.prototypes.labels, data.seen_classes)[:, None],
            data.prototypes.matrix,
            data.prototypes.matrix + 5,
        ),
    )
    again = prepared_prototypes(others, "recommended", data.seen_classes)
    seen = [given.subset(data.seen_classes), again.subset(data.seen_classes)]
    np.testing.assert_array_equal(seen[0].matrix, seen[1].matrix)


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
    results = protocols.zero_shot(data, name, chosen, 0)
    predicted = np.array(results["classes"])[unpack(results["predicted"])]
    assert predicted.tolist() == expected.tolist()
    assert results["zsl"] == per_class_accuracy(data.y_test_unseen, expected)
    assert (results["n_iter"], results["least_mu"]) == (0, None)
    assert "hm_calibrated" not in results


def test_every_fold_learns_its_own_preprocessing(data):
    """The choice for the recommended model, by hand: steps, prototypes and classifier a fold."""
    grid = {"kernel": ["rbf"], "beta": [0.01, 0.3], "prototype_transformer__power": [0.7]}
    found = select_zero_shot(ZERO_SHOT["recommended"], data, grid=grid, n_folds=4)
    X, y = data.X_train, data.y_train
    known = data.prototypes.subset(data.seen_classes)
    for beta, point in zip([0.01, 0.3], found["points"], strict=True):
        assert point["parameters"] == {
            "kernel": "rbf",
            "beta": beta,
            "prototype_transformer__power": 0.7,
        }
        scores = []
        for train, test in ClassKFold(4, shuffle=True, random_state=0).split(X, y):
            X_train, X_test = by_hand(X[train], y[train], X[test])
            prototypes = transformed(known, np.unique(y[train]))
            # The regression of class means on prototypes is that of exemplars.
            predicted = nearest_exemplars(X_train, y[train], X_test, prototypes, 0.5, beta)
            scores.append(per_class_accuracy(y[test], predicted))
        assert point["scores"] == pytest.approx(scores)


def test_the_grid_of_the_recommended_model_has_a_width_where_there_is_a_kernel_to_widen():
    linear, rbf = as_dicts(ZERO_SHOT["recommended"].grid)
    assert (linear["kernel"], rbf["kernel"]) == (["linear"], ["rbf"])
    assert "gamma" not in linear
    assert rbf["gamma"] == [0.25, 0.5, 1.0]


# Calibration


def test_the_calibrated_harmonic_mean_is_that_of_a_model_with_the_penalty(data):
    results = protocols.zero_shot(data, "recommended", {"beta": 0.1}, 0)
    pipeline = ZERO_SHOT["recommended"].build(data.prototypes, 0, beta=0.1)
    pipeline.set_params(
        classify__seen_penalty=results["seen_penalty"], classify__candidates="all"
    ).fit(data.X_train, data.y_train)
    predicted = pipeline.predict(np.concatenate([data.X_test_seen, data.X_test_unseen]))
    truth = np.concatenate([data.y_test_seen, data.y_test_unseen])
    expected = generalized_scores(truth, predicted, data.seen_classes).harmonic_mean
    assert results["hm_calibrated"] == pytest.approx(expected)
    assert results["seen_penalty"] != 0


def test_the_penalty_is_chosen_without_test_samples(data):
    X = np.array(data.X)
    X[np.concatenate([data.split.test_seen, data.split.test_unseen])] = 7.0
    other = type(data)("other", X, data.y, data.prototypes, data.split)
    first, second = (protocols.zero_shot(d, "recommended", {}, 0) for d in (data, other))
    assert first["seen_penalty"] == second["seen_penalty"]


def test_only_models_of_the_experiment_calibrate_and_no_peer_does():
    calibrating = {name for name, model in ZERO_SHOT.items() if model.calibrates}
    assert calibrating <= set(EXPERIMENTS["beyond"].models) - set(PEERS)
    assert "recommended" in calibrating
    assert set(EXPERIMENTS["beyond"].models) <= calibrating | set(PEERS)


# Inductive models only


class Peeking(ZeroShotClassifier):
    """A classifier that has seen unlabeled samples."""

    def fit(self, X, y):
        return self.fit_transductive(X, y, X[:20])


def test_a_transductive_model_is_refused(data, monkeypatch):
    monkeypatch.setitem(ZERO_SHOT, "peeking", ZeroShotModel({}, {}, classifier=Peeking))
    with pytest.raises(ValueError, match=r"'peeking' has seen unlabeled.*Measure it separately\.$"):
        protocols.zero_shot(data, "peeking", {}, 0)


# What starts from another choice


def test_models_on_top_start_from_what_the_recommended_one_has_chosen(run):
    steps = run("on-top")
    chosen = steps["selection", "recommended", 0].record["results"]["chosen"]
    assert set(chosen) >= {"kernel", "beta", "prototype_transformer__power"}
    order = list(steps)
    for model in EXPERIMENTS["on-top"].models[1:]:
        key = ("selection", model, 0)
        assert order.index(key) > order.index(("selection", "recommended", 0))
        record = steps[key].record
        assert record["settings"]["start"] == chosen
        assert record["settings"]["start_of"] == "recommended"
        own = record["results"]["points"][0]["parameters"]
        assert not set(own) & set(chosen)
        assert record["results"]["chosen"].items() >= chosen.items()
        assert set(record["results"]["chosen"]) == set(chosen) | set(own)
        for seed in (0, 1):
            measured = steps["zero-shot", model, seed].record
            assert measured["settings"]["parameters"] == record["results"]["chosen"]


def test_every_point_of_a_grid_has_the_parameters_it_starts_from(data):
    model = ZERO_SHOT["recommended + assigned, unscaled"]
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
    assert steps["selection", "recommended", 0].error == "too hard"
    assert "no parameters were chosen" in steps["selection", "recommended + BPL", 0].error
    assert "no parameters were chosen" in steps["zero-shot", "recommended + BPL", 1].error


def test_a_name_may_stand_for_a_zero_shot_and_a_few_shot_model(run):
    steps = run("beyond", "any-shot")
    zero = steps["zero-shot", "recommended", 0].record
    few = steps["all-classes", "recommended", 0].record
    assert zero["settings"]["classifier"] == "ZeroShotClassifier"
    assert "fusion" in few["settings"]["model"]
    assert {zero["settings"]["preset"], few["settings"]["preset"]} == {"recommended"}
    chosen = steps["selection", "recommended", 0].record["results"]["chosen"]
    assert few["settings"]["zero_parameters"] == chosen


# Few shots


def test_recommended_shots_are_prepared_by_the_base_classes(data):
    shots = prepared_shots(data, "recommended")
    X_base, X_novel = by_hand(data.X_train, data.y_train, data.X[data.split.novel])
    np.testing.assert_allclose(shots.X, X_novel)
    assert shots.prototypes == data.prototypes
    np.testing.assert_allclose(shots.base.moments.A0, X_base.T @ X_base)


def test_the_worth_of_prototypes_is_measured_on_validation_classes_for_each_point(data):
    view = validation_view(data)
    options = {"grid": {"gamma": [0.5, 2.0], "beta": [0.1]}, "n_shot": 2, "n_trials": 3}
    found = select_few_shot(FEW_SHOT["recommended"], view, data, **options)
    X_base, X = by_hand(view.X_train, view.y_train, view.X[view.split.novel])
    base = BaseClasses(Moments(view.prototypes).update(X_base, view.y_train))
    for gamma, point in zip((0.5, 2.0), found["points"], strict=True):
        model = FewShotClassifier(
            view.prototypes,
            base=base,
            forward_weight=0.0,
            weight_per="class",
            synthesis=None,
            kernel="rbf",
            gamma=gamma,
            beta=0.1,
            prototype_transformer=FeatureNormalizer(power=0.7, center=True),
        )
        worth = model.worth_of_prototypes(X, view.y[view.split.novel])
        assert point["parameters"] == {
            "gamma": gamma,
            "beta": 0.1,
            "fusion": pytest.approx(worth, rel=0.005),
        }
    best = max(found["points"], key=lambda point: np.mean(point["scores"]))
    assert found["chosen"] == best["parameters"]


def test_without_validation_classes_the_worth_is_left_to_the_model(data, run):
    options = {"n_shot": 1, "n_trials": 2}
    model = FEW_SHOT["recommended"]
    found = select_few_shot(model, None, data, grid=model.grid, **options)
    assert found == {"chosen": {"fusion": "auto"}, "points": []}
    model = FEW_SHOT["BPL (SFSP1)"]
    with pytest.raises(NoValidationClasses, match="'small' names no validation classes"):
        select_few_shot(model, None, data, grid=model.grid, **options)

    def nothing():
        raise NoValidationClasses("small")

    steps = run("large-scale-fsl", source=replace(small_source(), load_validation=nothing))
    assert "names no validation" in steps["selection-all", "BPL (SFSP1)", 0].error
    for model in ("NN", "shots alone", "recommended"):
        assert steps["all-classes", model, 0].record is not None
    settings = steps["all-classes", "recommended", 0].record["settings"]
    assert settings["parameters"] == {"fusion": "auto"}


def test_a_source_that_is_damaged_is_not_one_without_validation_classes(run):
    def damaged():
        raise DataError("damaged")

    with pytest.raises(DataError, match="damaged"):
        run("synthesis", source=replace(small_source(), load_validation=damaged))


def fitted(name, shots, **chosen):
    """Return a few-shot model of the bench fitted on two shots a class, and the rest to ask for."""
    asked = np.tile(np.arange(9) >= 2, 4)
    model = FEW_SHOT[name].build(shots.prototypes, shots.base, **chosen)
    return model.fit(shots.X[~asked], shots.y[~asked]), asked


def test_shots_alone_are_class_means_and_prototypes_alone_need_no_shots(data):
    shots = prepared_shots(data, "recommended")
    alone, asked = fitted("shots alone", shots)
    means = np.stack([shots.X[~asked & (shots.y == label)].mean(axis=0) for label in shots.classes])
    distances = ((shots.X[asked][:, None] - means) ** 2).sum(axis=-1)
    nearest = shots.classes[distances.argmin(axis=1)]
    assert alone.predict(shots.X[asked]).tolist() == nearest.tolist()
    chosen = {"gamma": 0.5, "beta": 0.1}
    prototype, _ = fitted("prototype alone", shots, **chosen)
    without = FEW_SHOT["recommended"].build(shots.prototypes, shots.base, **chosen)
    expected = without.zero_shot(shots.classes).predict(shots.X[asked])
    assert prototype.predict(shots.X[asked]).tolist() == expected.tolist()
    both, _ = fitted("recommended", shots, **chosen, fusion=0.0)
    assert both.predict(shots.X[asked]).tolist() == nearest.tolist()
