"""Evaluations in chunks, searches by joblib's backend for Dask, bags of pictures: as in memory."""

import pickle

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof
from evaluated import X_TRAIN, Y_TRAIN, X, Y, fitted
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import Chunks, ZeroShotClassifier, evaluate
from zonkey.encoders import ImageEncoder, PictureError, Pictures
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.streaming import dask as engine
from zonkey.streaming.checkpoint import PassCheckpoint
from zonkey.streaming.dask import Shared
from zonkey.streaming.reduce import ClassSums
from zonkey.testing import linear_problem

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


def test_memory_maps_and_whole_numbers(tmp_path):
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    check_same(evaluate(fitted(), mapped, Y), evaluate(fitted(), X.astype(np.float32), Y))
    whole = np.round(10 * X).astype(np.int8)
    found = [evaluate(fitted(), Chunks(whole, Y, rows=9)), evaluate(fitted(), whole, Y)]
    assert found[0].provenance["data"] == found[1].provenance["data"]


def test_nothing_is_taken_from_a_checkpoint(tmp_path):
    whole = Chunks(X, Y, rows=9, checkpoint=tmp_path / "kept")
    whole.reduce(ClassSums(), "sums")
    evaluate(fitted(), whole)
    assert PassCheckpoint(tmp_path / "kept").names() == ["sums"]


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
    rows = da.from_array(X, chunks=(9, -1))
    with pytest.raises(ValueError, match="must have labels"):
        evaluate(fitted(), rows)
    with pytest.raises(ValueError, match="one kind"):
        evaluate(fitted(), rows, np.arange(len(Y)))


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


# Searches


def test_a_search_has_the_same_results(client):
    problem = linear_problem()
    model = ZeroShotClassifier(problem.prototypes, random_state=3)
    grid = [{"mu": [0.1, 0.05]}, {"alpha": [0.02, 0.1]}]

    def scores():
        search = ZeroShotSearchCV(model, grid, cv=ClassKFold(2), n_jobs=2)
        found = search.fit(problem.X, problem.y).cv_results_
        return {name: found[name] for name in found if "test_score" in name}

    expected = scores()
    with joblib.parallel_config(backend="dask"):
        found = scores()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_shared_functions_look_large():
    shared = Shared(max)
    assert Shared.run(shared, 3, 5) == 5
    assert shared.__sizeof__() > 1e3  # what joblib's backend sends once


# Bags of pictures


@pytest.fixture
def paths(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    found = [str(tmp_path / f"{number}.png") for number in range(5)]
    for path in found:
        image.fromarray(rng.integers(0, 255, (20, 24, 3), np.uint8)).save(path)
    return found


def test_features_of_a_bag_are_lazy_and_those_in_memory(client, paths, tmp_path):
    encoder = ImageEncoder(n_jobs=1, cache=tmp_path / "cache")
    bag = db.from_sequence(paths, npartitions=5)
    some = encoder.transform(bag.filter(lambda path: not path.endswith("2.png")))  # one is empty
    assert isinstance(some, da.Array)
    found = some.compute()
    assert sum(block.n_cached for block in encoder.blocks(Pictures.of(paths))) == 4
    features = encoder.transform(bag)  # from the cache
    expected = ImageEncoder(n_jobs=1).transform(paths)
    assert (features.dtype, features.shape[1]) == (expected.dtype, expected.shape[1])
    assert np.isnan(features.shape[0])
    np.testing.assert_allclose(features.compute(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found, np.delete(expected, 2, axis=0), rtol=1e-4, atol=1e-5)
    assert len(pickle.dumps(encoder)) < 2_000  # weights do not travel


def test_pictures_that_cannot_be_read(client, paths, tmp_path):
    (tmp_path / "3.png").write_bytes(b"no picture")
    bag = db.from_sequence(paths, npartitions=5)
    with pytest.raises(PictureError, match=r"3\.png"):
        ImageEncoder(n_jobs=1).transform(bag).compute()
    features = ImageEncoder(n_jobs=1, on_error="nan").transform(bag).compute()
    assert np.isnan(features).all(axis=1).tolist() == [False, False, False, True, False]
