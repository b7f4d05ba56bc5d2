"""Refined centers: the printed objective, later samples, copies, files, graphs and devices."""

import copy
import math
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from joint_cases import JointWorld, accuracy, joint, settled
from libraries import LIBRARIES, TORCH
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import zonkey
from zonkey import AnyShotClassifier, Chunks, to_onnx
from zonkey.anyshot.adapting import _keep_confidence
from zonkey.anyshot.choice import preprocessing
from zonkey.anyshot.refining import Refined, Refinement

WORLD = JointWorld(1, n_classes=6, d=9)
X, Y = WORLD.draw([30, 40, 25, 30, 35, 50])
X_NEW, Y_NEW = WORLD.draw(30)
MORE, Y_MORE = WORLD.draw(3)
NAMED = WORLD.prototypes


def refined(model, strength=3e-3):
    """Return a copy whose centers logistic regression moved, whatever was chosen."""
    state = model.state_
    samples = state.reserve.read().list_samples(state.seen)
    refinement = Refinement(strength, 0.4, 0.3, model.worth_)
    state = replace(state, choice=replace(state.choice, refinement=refinement))
    return settled(model, state.learn().refine(samples))


# Models that several tests share; what learns on is a copy.
MODELS = {
    "chosen": lambda place: joint(NAMED).fit(place(X), place(Y)),
    "refined": lambda place: refined(fit_once("chosen", place)),
    "without names": lambda place: AnyShotClassifier().fit(place(X), place(Y)),
    "names": lambda _: joint(NAMED).fit(),
    "unlabeled": lambda place: joint(NAMED).fit(place(X)),
    "single": lambda place: joint(NAMED).fit(place(MORE[::3]), place(Y_MORE[::3])),
}
all_models = pytest.mark.parametrize("kind", [*MODELS][1:])


@cache
def fit_once(kind, place=np.asarray):
    return MODELS[kind](place)


def learn_more(kind, place=np.asarray, later=np.asarray):
    model = copy.copy(fit_once(kind, place))
    return model.partial_fit(later(MORE), later(Y_MORE))


@pytest.fixture(scope="module")
def fitted():
    model = refined(joint(NAMED, seen_penalty=0.0).fit(X, Y))
    assert model.state_.refined.is_moved
    return model


def test_refined_scores_minimize_the_objective():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(40, 5)), np.arange(40) % 4
    Z += rng.normal(size=(4, 5))[codes]
    weights, C = rng.uniform(0.5, 2, size=40), rng.normal(size=(4, 5))
    strength, scale = 0.02, 0.8
    found = Refined.learn(np.arange(4), C, (Z, codes, weights), Refinement(strength, scale, 0.6))
    W, b = 2 * found.centers / scale, -(np.sum(found.centers**2, axis=1) + found.offsets) / scale
    totals, slopes = np.bincount(codes, weights), np.zeros((4, 6))
    for z, code, weight in zip(Z, codes, weights, strict=True):
        odds = np.exp(W @ z + b)
        away = odds / odds.sum() - (np.arange(4) == code)
        slopes += weight / totals[code] / 4 * np.outer(away, np.append(z, 1.0))
    slopes[:, :5] += 2 * strength / 4 * (W - 2 * C / scale)
    slopes[:, 5] += 2 * 10 * strength / 4 * (b + np.sum(C**2, axis=1) / scale)
    assert np.abs(slopes).max() < 1e-5
    assert np.abs(W - 2 * C / scale).max() > 0.1


def test_unlabeled_samples_and_refinement_add_up(fitted):
    given = {"adapt_temperature": 0.05, "adapt_weight": 0.5}
    settings = replace(fitted.state_.settings, **given)
    adapted = settled(fitted, replace(fitted.state_, settings=settings)).adapt(X_NEW)

    def gain(model):
        plain = settled(model, replace(model.state_, refined=None))
        return model.decision_function(X_NEW) - plain.decision_function(X_NEW)

    added, wanted = gain(adapted), gain(fitted)
    assert_allclose(added, wanted, atol=1e-9)
    assert np.abs(adapted.decision_function(X_NEW) - fitted.decision_function(X_NEW)).max() > 0.01


@pytest.mark.parametrize("factor", [0.2, 1, 7])
def test_confidence_is_kept(factor):
    before = np.random.default_rng(0).normal(size=(30, 5))
    after = factor * before + np.random.default_rng(1).normal(size=(30, 5))
    T = _keep_confidence(before, after, 0.7)

    def confidence(scores, T):
        tops = [1 / sum(math.exp((v - max(row)) / T) for v in row) for row in scores]
        return sum(tops) / len(tops)

    assert confidence(after, T) == pytest.approx(confidence(before, 0.7), abs=1e-4)


def test_many_samples_are_as_good_as_logistic_regression():
    rng, d, k = np.random.default_rng(3), 20, 6
    scale = np.geomspace(0.05, 3, d)

    def draw(n):
        y = np.repeat(np.arange(k), n)
        tails = rng.standard_t(1.5, size=(len(y), d)) * (rng.uniform(size=(len(y), 1)) < 0.2)
        return means[y] + scale * (0.5 * rng.normal(size=(len(y), d)) + tails), y

    means = rng.normal(size=(k, d)) * scale
    (X, y), (X_new, y_new) = draw(100), draw(300)
    other = LogisticRegression(max_iter=3000).fit(X / scale, y)
    found = accuracy(AnyShotClassifier().fit(X, y), X_new, y_new)
    assert found >= np.mean(other.predict(X_new / scale) == y_new) - 0.01


# Later samples and copies.


@pytest.mark.parametrize("given", [NAMED, None], ids=["joint", "none"])
def test_later_samples_are_those_of_one_fit(given):
    prepared = FrozenEstimator(preprocessing(1.0, 16.0).fit(X, Y))
    options = {"space": "auto" if given is None else "joint", "preprocessing": prepared}
    half = np.arange(len(Y)) % 2 == 0
    expected = AnyShotClassifier(given, **options).fit(X, Y)
    model = AnyShotClassifier(given, **options).fit(X[half], Y[half])
    model.partial_fit(X[~half], Y[~half])
    found, wanted = model.state_, expected.state_
    assert_allclose(found.evidence.sums, wanted.evidence.sums, atol=1e-9)
    assert np.mean(model.predict(X_NEW) == expected.predict(X_NEW)) > 0.95


def test_removed_classes_and_chunks_do_not_mix_up_classes():
    chosen = fit_once("chosen")
    model = chosen.without_classes([0, 1])
    more = MORE[Y_MORE > 1], Y_MORE[Y_MORE > 1]
    few = X_NEW[Y_NEW > 1], Y_NEW[Y_NEW > 1]
    before = accuracy(model, *few)
    assert accuracy(model.partial_fit(*more), *few) > before - 0.05
    assert accuracy(refined(model), *few) > before - 0.05

    early = Y < 3
    model = joint(NAMED).fit(X[early], Y[early])
    model.partial_fit(Chunks([(X[~early], Y[~early])])).partial_fit(MORE[:5], Y_MORE[:5])
    assert model.state_.refined is None  # samples of these classes were not kept
    assert accuracy(model, X_NEW, Y_NEW) > accuracy(chosen, X_NEW, Y_NEW) - 0.05


def test_a_class_without_weight_changes_nothing_later():
    weights = (Y != 3).astype(float)
    model = joint(NAMED).fit(X, Y, weights).partial_fit(X[Y == 3], Y[Y == 3])
    assert accuracy(model, X_NEW, Y_NEW) > accuracy(fit_once("chosen"), X_NEW, Y_NEW) - 0.05


@pytest.mark.parametrize("start", [(), (X_NEW,)], ids=["names", "unlabeled"])
@pytest.mark.parametrize("text", [True, False])
def test_shots_after_names(start, text):
    names = np.array([f"class {j}" for j in range(6)])
    prototypes = {names[j].item() if text else j: v for j, v in NAMED.items()}
    truth = names[Y_NEW] if text else Y_NEW
    model = joint(prototypes).fit(*start)
    before = accuracy(model, X_NEW, truth)
    model.partial_fit(MORE[:3], (names[Y_MORE] if text else Y_MORE)[:3])  # of one class
    assert np.isfinite(model.predict_proba(X_NEW)).all()
    model.partial_fit(X, names[Y] if text else Y)
    assert accuracy(model, X_NEW, truth) > max(before, 0.75)
    assert_array_equal(model.classes_, sorted(prototypes))


def test_copies_of_a_refined_model(fitted):
    few = fitted.with_candidates([1, 4])
    rows = fitted.decision_function(X_NEW)
    assert_allclose(few.decision_function(X_NEW), rows[:, 4] - rows[:, 1], atol=1e-9)
    fewer = fitted.without_classes([0, 2])
    assert_allclose(fewer.decision_function(X_NEW), rows[:, [1, 3, 4, 5]], atol=1e-9)

    wider = fitted.with_classes({6: -WORLD.vectors.mean(axis=0), 7: WORLD.vectors[0] * 0.5})
    state = wider.state_
    assert state.refined is not None
    assert_allclose(wider.centers_, state.centers, atol=1e-12)  # mixed candidates: the posterior
    back = wider.without_classes([6, 7])
    assert_allclose(back.decision_function(X_NEW), rows, atol=1e-9)

    shots = fitted.with_shots(MORE, Y_MORE)
    assert shots.state_.refined is not None
    other = fitted.with_shots(np.eye(2, 9), [9, 8])
    assert_array_equal(other.classes_, [8, 9])
    assert other.state_.refined is None


# Files, graphs, explanations and devices.


@all_models
def test_files_and_pickles(kind, tmp_path):
    model, wanted = fit_once(kind), learn_more(kind).predict_proba(X_NEW)
    model.save(tmp_path / "model.zonkey")
    for other in (zonkey.load(tmp_path / "model.zonkey"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict_proba(X_NEW), model.predict_proba(X_NEW))
        other.partial_fit(MORE, Y_MORE)
        assert_allclose(other.predict_proba(X_NEW), wanted, atol=1e-6)


@all_models
def test_explanations_add_up(kind):
    model = fit_once(kind)
    for row in X_NEW[::40]:
        explained = model.explain(row).to_dict()
        scores = {each["label"]: each["score"] for each in explained["classes"]}
        z = model.state_.prepare(row[None])[0]
        for name in ("winner", "runner_up"):
            label = explained["label" if name == "winner" else "runner_up"]
            pull = sum(each[f"pull_{name}"] for each in explained["seen_classes"])
            form = model.scorer_.form
            place = int(np.flatnonzero(model.classes_ == label)[0])
            assert pull == pytest.approx(2 * z @ form.centers[place], abs=1e-9)
            assert scores[label] == pytest.approx(model.decision_function(row[None])[0, place])


@pytest.mark.parametrize("kind", ["names", "unlabeled"])
def test_effects_of_names_are_those_of_changed_names(kind):
    model, row, mean = fit_once(kind), X_NEW[3], WORLD.vectors.mean(axis=0)
    explained, state = model.explain(row).to_dict(), model.state_
    label, z = explained["label"], state.prepare(row[None])[0]
    for part in explained["attributes"]:
        y = WORLD.vectors[label].copy()
        y[part["dimension"]] = mean[part["dimension"]]
        own, other = state.predict_priors(np.stack([WORLD.vectors[label], y]))
        wanted = (2 * z @ own - own @ own) - (2 * z @ other - other @ other)
        assert part["effect_winner"] == pytest.approx(wanted, abs=1e-9)


@all_models
def test_graphs_agree(kind):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model, rows = fit_once(kind), X_NEW.astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), options)
    (found,) = session.run(["probabilities"], {"features": rows})
    assert_allclose(found, model.predict_proba(rows), atol=2e-5)


@all_models
@pytest.mark.parametrize("library", [TORCH, LIBRARIES[-1]], ids=repr)
def test_devices_agree_with_numpy(kind, library):
    expected, model = fit_once(kind), fit_once(kind, library)
    batch = np.tile(X_NEW, (3, 1))  # more than 400 samples need few simulations
    atol = 3e-4 if kind == "single" else 1e-4
    for found, wanted in (
        (model, expected),
        (model.adapt(library(batch)), expected.adapt(batch)),
        (learn_more(kind, library, library), learn_more(kind)),
    ):
        shares = library.numpy(found.predict_proba(library(X_NEW)))
        assert_allclose(shares, wanted.predict_proba(X_NEW), atol=atol)
    wanted = learn_more(kind).predict_proba(X_NEW)
    for places in ((np.asarray, library), (library, np.asarray)):  # samples from elsewhere
        assert_allclose(learn_more(kind, *places).predict_proba(X_NEW), wanted, atol=atol)
