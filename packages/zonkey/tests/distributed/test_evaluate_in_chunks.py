"""Evaluation of samples in chunks: the figures, notes and hash of the same samples in memory."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof
from evaluated import X_TRAIN, Y_TRAIN, X, Y, fitted
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import Chunks, evaluate
from zonkey.streaming import dask as engine
from zonkey.streaming.checkpoint import PassCheckpoint
from zonkey.streaming.reduce import ClassSums

NAMES = [f"f{j}" for j in range(X.shape[1])]
OPTIONS = {"k": (1, 2, 3), "confidence": 0.9, "random_state": 3}


def frame():
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=5)


SOURCES = {
    "chunks": lambda: (Chunks(X, Y, rows=8), None),
    "dask array": lambda: (da.from_array(X, chunks=(11, 2)), Y),
    "dask arrays": lambda: (da.from_array(X, chunks=(11, -1)), da.from_array(Y, chunks=30)),
    "dask data frame": lambda: (frame()[NAMES], frame().y),
}


def check_same(found, expected):
    assert list(found.scores) == list(expected.scores)
    for name, score in expected.scores.items():
        assert found.scores[name] == pytest.approx(score, rel=1e-12, abs=1e-12)
        assert found.intervals[name] == pytest.approx(expected.intervals[name], abs=1e-12)
    assert found.provenance["data"] == expected.provenance["data"]
    for one, other in zip(found.models, expected.models, strict=True):
        assert (one.name, one.notes) == (other.name, other.notes)


@pytest.mark.parametrize("source", SOURCES)
def test_figures_and_hash_are_those_in_memory(source, client):
    model = fitted(reject_below=0.3)
    options = {**OPTIONS, "baselines": ("nearest-mean", "ridge"), "training": (X_TRAIN, Y_TRAIN)}
    X_given, y = SOURCES[source]()
    check_same(evaluate(model, X_given, y, **options), evaluate(model, X, Y, **options))


def test_memory_maps(tmp_path):
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    check_same(evaluate(fitted(), mapped, Y), evaluate(fitted(), X.astype(np.float32), Y))


def test_nothing_is_taken_from_a_checkpoint(tmp_path):
    whole = Chunks(X, Y, rows=9, checkpoint=tmp_path / "kept")
    whole.reduce(ClassSums(), "sums")
    evaluate(fitted(), whole)
    assert PassCheckpoint(tmp_path / "kept").names() == ["sums"]


def test_whole_numbers_have_the_same_hash():
    whole = np.round(10 * X).astype(np.int8)
    found = [evaluate(fitted(), Chunks(whole, Y, rows=9)), evaluate(fitted(), whole, Y)]
    assert found[0].provenance["data"] == found[1].provenance["data"]


def test_names_of_features_reach_the_model():
    model = fitted(X=pd.DataFrame(X_TRAIN, columns=NAMES))
    found = evaluate(model, frame()[NAMES], frame().y)
    check_same(found, evaluate(model, pd.DataFrame(X, columns=NAMES), Y))


def test_other_classifiers_and_pipelines():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_TRAIN, Y_TRAIN)
    known = np.isin(Y, Y_TRAIN)
    rows = da.from_array(X[known], chunks=(7, -1))
    check_same(evaluate(model, rows, Y[known]), evaluate(model, X[known], Y[known]))


def test_samples_of_other_classes_are_strangers():
    y = np.where(np.arange(len(Y)) % 9 == 2, "other", Y)
    with pytest.warns(UserWarning, match="Strangers: 7 of 57 samples"):
        expected = evaluate(fitted(), X, y)
    with pytest.warns(UserWarning, match="Strangers: 7 of 57 samples"):
        found = evaluate(fitted(), da.from_array(X, chunks=(4, -1)), y)
    check_same(found, expected)
    assert "auroc_novelty" in found.scores


def test_labels_are_needed():
    with pytest.raises(ValueError, match="must have labels"):
        evaluate(fitted(), da.from_array(X, chunks=(9, -1)))
    with pytest.raises(ValueError, match="one kind"):
        evaluate(fitted(), da.from_array(X, chunks=(9, -1)), np.arange(len(Y)))


def test_states_do_not_carry_the_models(monkeypatch):
    model, sizes, state = fitted(), [], engine._State
    model.extra_ = np.ones(100_000)
    assert len(pickle.dumps(model)) > 800_000

    def seen(parts):
        sizes.append(sizeof(state(parts)))
        return state(parts)

    monkeypatch.setattr(engine, "_State", seen)
    rows = da.from_array(X, chunks=(11, -1))
    check_same(evaluate(model, rows, Y), evaluate(model, X, Y))
    assert model.score(rows, Y) == model.score(X, Y)
    assert len(sizes) > 10
    assert max(sizes) < 50_000
