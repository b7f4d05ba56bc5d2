"""CandidateIndex against the exact predictions, and memory among very many candidates."""

import pickle
import sys
import tracemalloc
from functools import cache

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier, CandidateIndex, Chunks, NearestSupport, ZeroShotClassifier
from zonkey.config import config_context
from zonkey.inference.scorer import unwrap

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
    "pipeline": lambda: make_pipeline(StandardScaler(), MODELS["reverse"]()),
}


@cache
def fit_once(name):
    return MODELS[name]().fit(X, Y)


@pytest.mark.parametrize("name", MODELS)
def test_with_full_effort_the_index_is_exact(name):
    model = fit_once(name)
    index = CandidateIndex(model, effort=1.0)
    assert index.n_cells_ > 5
    assert_array_equal(index.predict(X_NEW), model.predict(X_NEW))
    steps, last = unwrap(model)
    rows = X_NEW if steps is None else steps.transform(X_NEW)
    expected = last.predict_top(rows, 7)
    assert_array_equal(index.predict_top(X_NEW, 7), expected)
    assert index.recall(X_NEW, 7) == 1.0
    assert_array_equal(pickle.loads(pickle.dumps(index)).predict_top(X_NEW, 7), expected)


def test_little_effort_finds_nearly_all():
    model = fit_once("recommended")
    index = CandidateIndex(model, effort=0.4)
    again = CandidateIndex(model, effort=0.4)
    assert_array_equal(index.predict_top(X_NEW), again.predict_top(X_NEW))
    exact, found = model.predict_top(X_NEW, 5), index.predict_top(X_NEW, 5)
    shares = [len({*a} & {*b}) / 5 for a, b in zip(exact, found, strict=True)]
    assert_allclose(index.recall(X_NEW, 5), np.mean(shares))
    assert 0.8 < index.recall(X_NEW, 1) <= 1.0
    assert CandidateIndex(model, effort=0.01).recall(X_NEW, 5) < index.recall(X_NEW, 5)


@pytest.mark.parametrize("kind", [AnyShotClassifier, ZeroShotClassifier])
def test_by_default_the_best_is_found_among_candidates_without_groups(kind):
    rng = np.random.default_rng(3)
    q, k, d = 2000, 32, 48
    vectors, hidden = rng.normal(size=(q, k)), rng.normal(size=(k, d)) / np.sqrt(k)
    drawn = np.concatenate([np.repeat(np.arange(60), 3), rng.integers(60, q, size=200)])
    samples = np.tanh(vectors[drawn] @ hidden) + 0.3 * rng.normal(size=(len(drawn), d))
    given = FIXED if kind is AnyShotClassifier else {"competition": None, "synthesis": None}
    model = kind(dict(enumerate(vectors)), **given).fit(samples[:180], drawn[:180])
    index = CandidateIndex(model)
    assert index.recall(samples[180:]) >= 0.95
    assert CandidateIndex(model, effort=0.05).recall(samples[180:]) < 0.95


@pytest.mark.parametrize("name", ["recommended", "paper"])
@pytest.mark.parametrize("factor", [1e5, 1e25])
def test_large_samples_are_compared_in_their_own_dtype(name, factor):
    model = fit_once(name)
    rows = np.where(np.arange(len(X_NEW))[:, None] % 2, factor, 1.0) * X_NEW
    index = CandidateIndex(model, effort=1.0)
    assert_array_equal(index.predict_top(rows, 7), model.predict_top(rows, 7))


@pytest.mark.parametrize("name", ["recommended", "paper"])
def test_digits_beyond_float32_tell_candidates_apart(name):
    twins = {label: row + (label > "class 200") * 1e-9 for label, row in PROTOTYPES.items()}
    twins |= {f"{label} again": (1 + 1e-9) * row for label, row in twins.items()}
    model = MODELS[name]().set_params(prototypes=twins).fit(X, Y)
    index = CandidateIndex(model, effort=1.0)
    assert_array_equal(index.predict_top(X_NEW, 3), model.predict_top(X_NEW, 3))
    narrow = model.set_params(prototypes=PROTOTYPES).fit(X.astype(np.float32), Y)
    index = CandidateIndex(narrow, effort=1.0)
    assert_array_equal(index.predict_top(X_NEW, 3), narrow.predict_top(X_NEW, 3))


@pytest.mark.parametrize("name", ["recommended", "paper", "pipeline"])
def test_later_changes_of_the_model_do_not_matter(name):
    model = MODELS[name]().fit(X, Y)
    index = CandidateIndex(model, effort=1.0)
    expected = index.predict_top(X_NEW, 3)
    model.fit(3 * X[:, ::-1] + 1, Y)
    if name == "recommended":
        model.partial_fit(X_NEW, np.repeat("new", len(X_NEW)))
    else:
        model.fit(X[:, :5], Y)
    assert_array_equal(index.predict_top(X_NEW, 3), expected)
    assert index.recall(X_NEW, 3) == 1.0


@pytest.mark.parametrize("name", ["paper", "pipeline"])
def test_samples_come_in_chunks(name):
    names = [f"x{i}" for i in range(D)]
    index = CandidateIndex(MODELS[name]().fit(pd.DataFrame(X, columns=names), Y))
    expected = index.predict_top(pd.DataFrame(X_NEW, columns=names), 3)
    assert_array_equal(index.predict_top(Chunks(X_NEW, rows=40), 3), expected)
    lazy = index.predict(da.from_array(X_NEW, chunks=(40, D)))
    assert isinstance(lazy, da.Array)
    assert_array_equal(lazy.compute(scheduler="synchronous"), expected[:, 0])


def test_few_candidates_make_one_cell_and_no_noise(capfd):
    few = {label: PROTOTYPES[label] for label in [*dict.fromkeys(Y)][:12]}
    rows = np.isin(Y, [*few])
    model = AnyShotClassifier(few, candidates="all", **FIXED).fit(X[rows], Y[rows])
    index = CandidateIndex(model)
    assert index.n_cells_ == 1
    assert_array_equal(index.predict_top(X_NEW, 12), model.predict_top(X_NEW, 12))
    assert capfd.readouterr() == ("", "")


def test_more_candidates_than_the_searched_cells_hold_are_found():
    model = fit_once("recommended")
    index = CandidateIndex(model, effort=0.01)
    found = index.predict_top(X_NEW[:3], Q)
    assert_array_equal(np.sort(found, axis=1), np.tile(np.sort(model.classes_), (3, 1)))
    with pytest.raises(ValueError, match="Scores of samples must be finite"):
        index.predict(np.full_like(X_NEW, 1e308))


def test_other_models_and_efforts_are_refused(monkeypatch):
    with pytest.raises(TypeError, match="got LogisticRegression"):
        CandidateIndex(LogisticRegression())
    with pytest.raises(TypeError, match="got NearestSupport"):
        CandidateIndex(NearestSupport().fit(X, Y))
    model = AnyShotClassifier(PROTOTYPES, reject_below=0.3, **FIXED).fit(X, Y)
    with pytest.raises(ValueError, match=r"must not reject .*reject_below=0.3"):
        CandidateIndex(model)
    model = fit_once("reverse")
    for effort in (0, 1.5, np.nan, True, "much"):
        with pytest.raises(ValueError, match=r"`effort` must be .*1 searches all cells"):
            CandidateIndex(model, effort=effort)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"needs faiss-cpu.*zonkey\[index\]"):
        CandidateIndex(model)


def many_candidates(q=4000, n=300):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(q, K)).astype(np.float32)
    given = {"temperature": 0.7, "seen_penalty": 0.3, "reject_below": 0.001, **FIXED}
    model = AnyShotClassifier(dict(enumerate(vectors)), **given)
    model.fit(vectors[:50] @ HIDDEN, np.arange(50))
    return model, (vectors[-n:] @ HIDDEN).astype(np.float32)


def test_memory_does_not_grow_with_samples_times_candidates():
    model, X = many_candidates()
    whole = model.decision_function(X)
    P = model.predict_proba(X)
    with config_context(working_memory=2**18 / 2**20):
        columns = np.argsort(-whole, axis=1, kind="stable")[:, :5]
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
    form = model.scorer_.form
    first = form.like(X)
    assert first.centers.dtype == np.float32
    assert form.like(X[:1]) is first
    assert form.like(X.astype(np.float64)) is form
    assert not any("kept" in name for name in form.__getstate__())
