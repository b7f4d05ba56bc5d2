"""CandidateIndex against the exact predictions, and memory among very many candidates."""

import sys
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier, CandidateIndex, NearestSupport, ZeroShotClassifier
from zonkey.estimators import scoring
from zonkey.estimators.scoring import unwrapped
from zonkey.peers.zsl import ESZSL, SAE

Q, K, D, SEEN = 400, 5, 8, 60
RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(Q, K))
PROTOTYPES = {f"class {j:03d}": vector for j, vector in enumerate(VECTORS)}
HIDDEN = RNG.normal(size=(K, D))
Y = np.array(sorted(PROTOTYPES))[np.arange(3 * SEEN) % SEEN]
X = np.array([PROTOTYPES[label] for label in Y]) @ HIDDEN + RNG.normal(size=(3 * SEEN, D)) / 4
X_NEW = VECTORS[-90:] @ HIDDEN + RNG.normal(size=(90, D)) / 4
FIXED = {"preprocessing": None, "kernel": "linear", "gamma": 1.0, "ridge": 0.02, "worth": 3.0}

MODELS = {
    "recommended": lambda: AnyShotClassifier(
        PROTOTYPES, candidates="all", seen_penalty=4.0, temperature=1.0, **FIXED
    ),
    "preprocessed": lambda: AnyShotClassifier(
        PROTOTYPES,
        preprocessing=StandardScaler(),
        **{name: value for name, value in FIXED.items() if name != "preprocessing"},
    ),
    "paper": lambda: ZeroShotClassifier(
        PROTOTYPES, competition=None, candidates="all", seen_penalty=1.5
    ),
    "reverse": lambda: ZeroShotClassifier(PROTOTYPES, competition=None, direction="reverse"),
    "bilinear": lambda: ESZSL(PROTOTYPES, candidates="all"),
    "pipeline": lambda: make_pipeline(StandardScaler(), ESZSL(PROTOTYPES)),
}


@pytest.mark.parametrize("name", MODELS)
def test_with_full_effort_the_index_is_exact(name):
    model = MODELS[name]().fit(X, Y)
    index = CandidateIndex(model, effort=1.0)
    assert index.n_cells_ > 5
    assert_array_equal(index.predict(X_NEW), model.predict(X_NEW))
    steps, last = unwrapped(model)
    rows = X_NEW if steps is None else steps.transform(X_NEW)
    assert_array_equal(index.predict_top(X_NEW, 7), last.predict_top(rows, 7))
    assert index.recall(X_NEW, 7) == 1.0


def test_little_effort_finds_nearly_all():
    model = MODELS["recommended"]().fit(X, Y)
    index = CandidateIndex(model, effort=0.4)
    again = CandidateIndex(model, effort=0.4)
    assert_array_equal(index.predict_top(X_NEW), again.predict_top(X_NEW))
    exact, found = model.predict_top(X_NEW, 5), index.predict_top(X_NEW, 5)
    shares = [len({*a} & {*b}) / 5 for a, b in zip(exact, found, strict=True)]
    assert_allclose(index.recall(X_NEW, 5), np.mean(shares))
    assert 0.8 < index.recall(X_NEW, 1) <= 1.0
    assert CandidateIndex(model, effort=0.01).recall(X_NEW, 5) < index.recall(X_NEW, 5)


def test_more_candidates_than_the_searched_cells_hold_are_found():
    model = MODELS["recommended"]().fit(X, Y)
    found = CandidateIndex(model, effort=0.01).predict_top(X_NEW[:3], Q)
    assert_array_equal(np.sort(found, axis=1), np.tile(np.sort(model.classes_), (3, 1)))


def test_other_models_and_efforts_are_refused(monkeypatch):
    with pytest.raises(TypeError, match="got LogisticRegression"):
        CandidateIndex(LogisticRegression())
    for other in (NearestSupport().fit(X, Y), SAE(PROTOTYPES).fit(X, Y)):
        with pytest.raises(TypeError, match=f"got {type(other).__name__}"):
            CandidateIndex(other)
    model = AnyShotClassifier(PROTOTYPES, reject_below=0.3, **FIXED).fit(X, Y)
    with pytest.raises(ValueError, match=r"must not reject .*reject_below=0.3"):
        CandidateIndex(model)
    model = MODELS["bilinear"]().fit(X, Y)
    for effort in (0, 1.5, "much"):
        with pytest.raises((TypeError, ValueError), match="`effort` must be"):
            CandidateIndex(model, effort=effort)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"needs faiss; install .*zonkey\[index\]"):
        CandidateIndex(model)


def many_candidates(q=4000, n=300):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(q, K)).astype(np.float32)
    model = AnyShotClassifier(
        dict(enumerate(vectors)), temperature=0.7, seen_penalty=0.3, reject_below=0.001, **FIXED
    )
    model.fit(vectors[:50] @ HIDDEN, np.arange(50))
    return model, (vectors[-n:] @ HIDDEN).astype(np.float32)


def test_memory_does_not_grow_with_samples_times_candidates(monkeypatch):
    monkeypatch.setattr(scoring, "_BLOCK_SCORES", 2**16)
    model, X = many_candidates()
    whole = model.decision_function(X)
    P = model.predict_proba(X)
    columns = [sorted(range(len(row)), key=lambda j, row=row: -row[j])[:5] for row in whole]
    assert_array_equal(model.predict_top(X, 5), model.classes_[columns])
    entropy = -np.sum(P * np.log(np.maximum(P, 1e-30)), axis=1) / np.log(P.shape[1])
    assert_allclose(model.uncertainty(X), entropy, rtol=1e-4)
    for method in (model.predict, model.predict_top, model.uncertainty):
        tracemalloc.start()
        try:
            method(X)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < whole.nbytes / 2


def test_centers_are_converted_once():
    model, X = many_candidates(q=500)
    first = model._scores.like(X)
    assert first.centers.dtype == np.float32
    assert model._scores.like(X[:1]) is first
    assert model._scores.like(X.astype(np.float64)) is model._scores
    assert not any("kept" in name for name in model._scores.__getstate__())
