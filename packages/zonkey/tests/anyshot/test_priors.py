"""Shares of classes among the samples to classify: Bayes' rule, and estimates of the shares."""

import copy

import numpy as np
import pandas as pd
import pytest
from any_shot_cases import (
    GIVEN,
    LABELS,
    PROTOTYPES,
    SEEN,
    UNSEEN,
    X_NEW,
    NaiveModel,
    X,
    Y,
    fitted,
    naive_softmax,
    world,
)
from libraries import TORCH
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone

import zonkey
from zonkey import AnyShotClassifier, Chunks
from zonkey.anyshot.posterior import SHARE_SMOOTHING, likely_shares

MANY = np.random.default_rng(3).normal(size=(60, 6)) * 2
SHARES = dict(zip(LABELS, [0.3, 0.05, 0.1, 0.02, 0.2, 0.03, 0.1, 0.15, 0.05], strict=True))


def naive_bayes(P, shares):
    """Return probabilities of even shares under other shares, by Bayes' rule."""
    rows = []
    for row in P:
        odds = [p * share for p, share in zip(row, shares, strict=True)]
        rows.append([value / sum(odds) for value in odds])
    return np.array(rows)


def naive_shares(P, groups, smoothing, steps):
    """Estimate shares of classes by steps of expectation maximization, in loops."""
    n, k = len(P), len(P[0])
    shares = [1 / k] * k
    for _ in range(steps):
        found = [0.0] * k
        for row in naive_bayes(P, shares):
            for j, p in enumerate(row):
                found[j] += p
        for j in range(k):
            group = [i for i in range(k) if groups[i] == groups[j]]
            more = smoothing * len({*groups}) / k
            mean = sum(found[i] for i in group) / len(group)
            shares[j] = (mean + more) / (n + more * k)
    return shares


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_probabilities_follow_bayes_rule(dtype):
    naive = NaiveModel(X, Y, PROTOTYPES, **GIVEN)
    P = naive_softmax(naive.scores(X_NEW), GIVEN["temperature"])
    model = fitted(priors=SHARES)
    digits = 1e-9 if dtype == np.float64 else 1e-4
    expected = naive_bayes(P, SHARES.values())
    found = model.predict_proba(X_NEW.astype(dtype))
    assert_allclose(found, expected, rtol=digits)
    assert_array_equal(model.predict(X_NEW), np.array(LABELS)[expected.argmax(axis=1)])
    assert_array_equal(model.predict_top(X_NEW, 1)[:, 0], model.predict(X_NEW))
    scores = naive.scores(X_NEW) + GIVEN["temperature"] * np.log(9 * np.array([*SHARES.values()]))
    assert_allclose(model.decision_function(X_NEW), scores, rtol=1e-9)
    assert_allclose(model.priors_, [*SHARES.values()])


def test_all_forms_of_shares_say_the_same():
    plain, values = fitted(), [*SHARES.values()]
    expected = plain.with_priors(SHARES)
    assert_array_equal(fitted(priors=SHARES).predict_proba(X_NEW), expected.predict_proba(X_NEW))
    for form in (values, np.array(values), pd.Series(SHARES), dict(reversed(SHARES.items()))):
        found = plain.with_priors(form).predict_proba(X_NEW)
        assert_allclose(found, expected.predict_proba(X_NEW), rtol=1e-12)
    assert_array_equal(
        plain.with_priors("uniform").predict_proba(X_NEW), plain.predict_proba(X_NEW)
    )
    assert_array_equal(expected.with_priors(None).predict_proba(X_NEW), plain.predict_proba(X_NEW))
    some = plain.with_priors({"bee": 0.6})
    assert_allclose(some.priors_, [0.6 if label == "bee" else 0.05 for label in LABELS])
    assert plain.priors is None
    assert some.priors == {"bee": 0.6}


def test_the_share_of_seen_classes():
    model = fitted().with_priors(SHARES, seen=0.9)
    is_seen = np.isin(model.classes_, SEEN)
    assert_allclose(model.priors_[is_seen].sum(), 0.9)
    of_seen = np.array([SHARES[label] for label in SEEN])
    assert_allclose(model.priors_[is_seen], 0.9 * of_seen / of_seen.sum())
    in_single = fitted().with_priors(SHARES, seen=np.float32(0.9))
    assert_allclose(in_single.priors_, model.priors_, rtol=1e-6)
    again = fitted(priors=model.priors)
    assert_allclose(again.predict_proba(X_NEW), model.predict_proba(X_NEW), rtol=1e-10)
    with refused(ValueError, "candidates of both kinds", "all without samples", "candidates"):
        fitted(candidates="unseen").with_priors(None, seen=0.9)
    for wrong in (0, 1, True, "0.5"):
        with refused(ValueError, "`seen` must be a share", repr(wrong), "Pass 0.9"):
            fitted().with_priors(None, seen=wrong)


@pytest.mark.parametrize(
    ("priors", "parts"),
    [
        ({"bee": 0.4, "ape": 0.1}, ["must name candidates", "'ape'", "Correct"]),
        ({1: 0.4}, ["one kind", "Convert"]),
        ({"bee": -0.1}, ["not below 0", "-0.1", "Pass {label: number}"]),
        ({"bee": "many"}, ["not below 0", "many", "Pass {label: number}"]),
        ({"bee": 0.9, "cow": 0.5}, ["sum to 1", "1.4", "Divide"]),
        ({"bee": 1.0}, ["above 0", "'ant'", "with_candidates"]),
        ({"bee": 0.0}, ["above 0", "'bee'", "with_candidates"]),
        (dict.fromkeys(LABELS, 1.0), ["sum to 1", "9", "Divide"]),
        ([0.5, 0.5], ["each of the 9 candidates", "(2,)", "classes_"]),
        ("equal", ["priors", "uniform", "equal"]),
    ],
)
def test_what_is_refused(priors, parts):
    with refused(ValueError, *parts):
        fitted().with_priors(priors)
    with refused(ValueError, *parts):
        fitted(priors=priors)


def test_copies_can_be_fitted_again():
    """Their parameters name the candidates that they have."""
    model = fitted(priors=SHARES)
    some = ["bee", "cow", "elk"]
    for copied in (
        model.with_candidates(some),
        model.with_candidates(some).with_candidates("all"),
        model.with_candidates(some).without_classes(["cow"]),
        model.without_classes(["elk"]),
        fitted().with_priors([SHARES[label] for label in LABELS]).with_candidates(some),
    ):
        again = clone(copied).fit(X, Y)
        ratios = again.priors_ / [SHARES[label] for label in again.classes_]
        assert_allclose(ratios, ratios[0])
    wider = fitted().with_priors([1 / 9] * 9).with_classes({"yak": np.ones(4)})
    assert_allclose(clone(wider).fit(X, Y).priors_, 0.1)
    names = dict(zip("abc", np.eye(3), strict=True))
    named = AnyShotClassifier(names, space="joint", priors={"a": 0.6}).fit()
    adapted = named.with_candidates(["a", "b"]).adapt(np.eye(3))
    assert_allclose(adapted.priors_, [0.75, 0.25])


def test_shares_survive_what_changes_the_classes():
    model = fitted(priors=SHARES)
    P = fitted().with_candidates(["bee", "cow", "elk"]).predict_proba(X_NEW)
    fewer = model.with_candidates(["bee", "cow", "elk"])
    expected = naive_bayes(P, [SHARES[label] for label in ("bee", "cow", "elk")])
    assert_allclose(fewer.predict_proba(X_NEW), expected, rtol=1e-9)
    # A new class is as frequent as the others on average.
    rows, labels = MANY[:4], ["kid", "kid", "bee", "kid"]
    later, plain = (copy.copy(m).partial_fit(rows, labels) for m in (model, fitted()))
    shares = [0.9 * SHARES.get(label, 1 / 9) for label in later.classes_]
    expected = naive_bayes(plain.predict_proba(X_NEW), shares)
    assert_allclose(later.predict_proba(X_NEW), expected, rtol=1e-9)
    more = model.with_classes({"yak": [1, 2, 0, 1]})
    assert_allclose(more.priors_[more.classes_ == "yak"], 0.1)


def test_adapt_takes_known_shares_and_estimates_others():
    model, shares = fitted(), np.array([*SHARES.values()])
    adapted = model.adapt(MANY)
    assert not np.allclose(adapted.priors_, 1 / 9, rtol=0.01)
    state = adapted.state_.adapted
    bonus = np.exp(state.bonus / adapted.temperature_)
    assert_allclose(adapted.priors_, bonus / bonus.sum())
    # Shares that are given later replace the estimate, at the same centers.
    even = adapted.with_priors("uniform")
    assert_allclose(even.decision_function(X_NEW), adapted.decision_function(X_NEW) - state.bonus)
    known = naive_bayes(even.predict_proba(X_NEW), shares)
    assert_allclose(adapted.with_priors(SHARES).predict_proba(X_NEW), known, rtol=1e-8)
    # Those given before are kept: no step estimates them.
    told = model.with_priors(SHARES).adapt(MANY)
    assert_allclose(told.priors_, shares)
    again = fitted(priors=SHARES).adapt(MANY)
    assert_array_equal(again.predict_proba(X_NEW), told.predict_proba(X_NEW))
    C = model.centers_
    counts = np.array([sum(label == Y) for label in LABELS]) + np.where(
        np.array(LABELS) == "dog", 0.0, GIVEN["worth"]
    )
    penalties, T = model.scorer_.penalties, GIVEN["adapt_temperature"]
    for _ in range(12):
        S = 2 * MANY @ C.T - (C**2).sum(axis=1) - penalties
        r = naive_bayes(naive_softmax(S, T), shares)
        gained = GIVEN["adapt_weight"] * r.sum(axis=0)
        C = counts[:, None] * model.centers_ + GIVEN["adapt_weight"] * r.T @ MANY
        C = C / (counts + gained)[:, None]
    assert_allclose(told.centers_, C, rtol=1e-7)


def test_estimates_are_those_of_the_loops():
    rng = np.random.default_rng(0)
    S = 2 * rng.normal(size=(40, 5)) + [2, 0, 0, -1, 0]
    P = naive_softmax(S, 1.0)
    for groups, smoothing in (([0, 1, 2, 3, 4], 0.7), ([0, 0, 1, 1, 1], 3.0)):
        expected = naive_shares(P, groups, smoothing, 150)
        found = likely_shares(S, np.array(groups), smoothing)
        assert_allclose(found, expected, atol=1e-5)
        assert_allclose(found.sum(), 1)


def test_shares_are_estimated_from_what_even_shares_say():
    plain = fitted()
    P, model = plain.predict_proba(MANY), fitted(priors=SHARES)
    expected = naive_shares(P, range(9), SHARE_SMOOTHING, 100)
    for one in (plain, model):
        assert_allclose(one.estimate_priors(MANY), expected, atol=1e-5)
    is_seen = np.isin(LABELS, SEEN)
    expected = naive_shares(P, is_seen.tolist(), SHARE_SMOOTHING, 100)
    found = model.estimate_priors(MANY, by="kind")
    assert_allclose(found, expected, atol=1e-5)
    assert len(np.unique(found)) == 2
    with refused(ValueError, "candidates of both kinds", "all without samples"):
        model.with_candidates(UNSEEN).estimate_priors(MANY, by="kind")
    with refused(ValueError, "by", "kind"):
        model.estimate_priors(MANY, by="group")


def test_estimates_help_where_shares_are_uneven():
    here = world(6, n_classes=12, deviation=0.3)
    rng = np.random.default_rng(0)
    counts = rng.permutation([300, 200, 100, 20, 10, 10, 5, 5, 5, 5, 5, 5])
    parts = [here.draw([j], int(n)) for j, n in enumerate(counts)]
    batch, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    batch = batch + 0.8 * rng.normal(size=batch.shape)  # harder than the training samples
    model = AnyShotClassifier(here.prototypes, candidates="all").fit(*here.draw(np.arange(12), 20))
    found = model.estimate_priors(batch)
    true = counts / counts.sum()
    assert np.abs(found - true).sum() < 0.5 * np.abs(1 / 12 - true).sum()
    plain, told, known = (
        np.mean(m.predict(batch) == y)
        for m in (model, model.with_priors(found), model.with_priors(true))
    )
    assert plain < told
    assert plain < known
    few = model.estimate_priors(batch[:3])
    assert np.abs(few - 1 / 12).max() < 0.02


def test_files_onnx_chunks_and_tensors_keep_shares(tmp_path):
    model = fitted(priors=SHARES)
    model.save(tmp_path / "a.zonkey")
    again = zonkey.load(tmp_path / "a.zonkey")
    assert again.priors == SHARES
    assert_array_equal(again.predict_proba(X_NEW), model.predict_proba(X_NEW))
    assert_array_equal(again.fit(X, Y).predict_proba(X_NEW), model.predict_proba(X_NEW))
    array = fitted(priors=[*SHARES.values()])
    array.save(tmp_path / "b.zonkey")
    assert zonkey.load(tmp_path / "b.zonkey").priors == [*SHARES.values()]
    fitted().with_priors(pd.Series(SHARES)).save(tmp_path / "c.zonkey")
    assert zonkey.load(tmp_path / "c.zonkey").priors == SHARES
    chunks = Chunks([(X_NEW[:4], Y[:4]), (X_NEW[4:], Y[4:9])])
    found = model.predict_proba(chunks)
    assert_allclose(found, model.predict_proba(X_NEW), rtol=1e-12)
    numbers = {i: PROTOTYPES[label] for i, label in enumerate(LABELS) if label in PROTOTYPES}
    y = np.searchsorted(LABELS, Y)
    shares = dict(enumerate(SHARES.values()))
    there = fitted(TORCH(X), TORCH(y), prototypes=numbers, priors=shares)
    P = TORCH.numpy(there.predict_proba(TORCH(X_NEW)))
    assert_allclose(P, model.predict_proba(X_NEW), rtol=1e-9)
    found = there.estimate_priors(TORCH(MANY))
    assert_allclose(found, model.estimate_priors(MANY), rtol=1e-6)


def test_onnx_has_the_shares_in_it():
    pytest.importorskip("onnx", reason="graphs are built with onnx")
    runtime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    model = fitted(priors=SHARES)
    session = runtime.InferenceSession(zonkey.to_onnx(model).SerializeToString())
    (P,) = session.run(["probabilities"], {"features": X_NEW.astype(np.float32)})
    assert_allclose(P, model.predict_proba(X_NEW.astype(np.float32)), atol=1e-5)


def test_an_explanation_counts_shares_as_part_of_the_penalty():
    plain, model = (m.explain(X_NEW[0], 9) for m in (fitted(), fitted(priors=SHARES)))
    off = {row["label"]: row["penalty"] for row in plain.parts["classes"]}
    for row in model.parts["classes"]:
        bonus = GIVEN["temperature"] * np.log(9 * SHARES[row["label"]])
        assert_allclose(row["penalty"], off[row["label"]] - bonus)
    assert model.penalty["label_without"] == plain.penalty["label_without"]


def test_novelty_weighs_distances_by_the_probabilities():
    model, C = fitted(priors=SHARES), fitted().centers_
    middle = C[np.isin(LABELS, SEEN)].mean(axis=0)
    distances = ((X_NEW[:, None, :] - C) ** 2).sum(axis=2)
    expected = (model.predict_proba(X_NEW) * distances).sum(axis=1)
    assert_allclose(model.novelty(X_NEW), expected / ((X_NEW - middle) ** 2).sum(axis=1))
