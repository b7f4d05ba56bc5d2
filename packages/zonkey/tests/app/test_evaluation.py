"""Evaluation and explanation of a model file are those of the library."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import FEATURES, N_EACH, SEEN, TEST, TRAIN, UNSEEN, files, table
from zonkey import app
from zonkey.errors import Problem

__all__ = ["files"]


def split_table(folder):
    """Write training and test samples to one table with a column `split`."""
    labels = [*TRAIN, *TEST]
    marks = ["train"] * len(TRAIN) + ["test"] * len(TEST)
    frame = table(labels, 3, split=marks)
    frame.to_parquet(folder / "split.parquet")
    return folder / "split.parquet", frame[FEATURES].to_numpy(), np.array(labels), np.array(marks)


def record(evaluation):
    found = json.loads(json.dumps(evaluation.to_dict()))
    return {name: value for name, value in found.items() if name not in ("provenance", "created")}


@pytest.mark.parametrize("name", ["model", "paper"])
def test_evaluate_is_the_library(files, name):
    path = files / f"{name}.zonkey"
    X = pd.read_csv(files / "test.csv")[FEATURES].to_numpy(np.float32)  # as the file is read
    found = app.evaluate(path, files / "test.csv")
    assert record(found) == record(zonkey.evaluate(zonkey.load(path), X, TEST))


def test_labels_of_no_class_are_strangers(files, tmp_path):
    labels = ["other", *TEST[1:3], "other", *TEST[4:]]
    frame = table(TEST, 3).assign(label=labels)
    frame.to_csv(tmp_path / "some.csv", index=False)
    with pytest.warns(UserWarning, match="Strangers: 2 of"):
        found = app.evaluate(files / "model.zonkey", tmp_path / "some.csv", reject_below=0.5)
    model = zonkey.load(files / "model.zonkey").with_rejection(0.5)
    X = frame[FEATURES].to_numpy()
    assert found.scores["rejected_strangers"] == np.mean(model.predict(X[[0, 3]]) == "unknown")
    assert 0 <= found.scores["auroc_novelty"] <= 1


def test_rows_marked_test_and_labels_that_are_there(files, tmp_path):
    path, X, y, marks = split_table(tmp_path)
    model, test = zonkey.load(files / "model.zonkey"), marks == "test"
    found = app.evaluate(files / "model.zonkey", path)
    X = X.astype(np.float32)  # as files are read
    assert record(found)["scores"] == record(zonkey.evaluate(model, X[test], y[test]))["scores"]
    frame = table(TEST, 3).assign(label=[None, *TEST[1:]])
    frame.to_csv(tmp_path / "gap.csv", index=False)
    found = app.evaluate(files / "model.zonkey", tmp_path / "gap.csv")
    X = pd.read_csv(tmp_path / "gap.csv")[FEATURES].to_numpy(np.float32)[1:]
    assert record(found)["scores"] == record(zonkey.evaluate(model, X, TEST[1:]))["scores"]


def test_baselines(files, tmp_path):
    path, X, y, marks = split_table(tmp_path)
    model, test = zonkey.load(files / "model.zonkey"), marks == "test"
    options = {"baselines": ("nearest-mean", "ridge")}
    found = record(app.evaluate(files / "model.zonkey", path, **options))["baselines"]
    same = zonkey.evaluate(model, X[test], y[test], **options, training=(X[~test], y[~test]))
    assert found == record(same)["baselines"]
    assert len(found) == 2
    shifted = table(TRAIN, 1).assign(label=np.roll(TRAIN, N_EACH))  # teaches the wrong thing
    shifted.to_parquet(tmp_path / "shifted.parquet")
    for training, is_same in ((files / "features.parquet", True), ("shifted.parquet", False)):
        options["training"] = tmp_path / training
        other = record(app.evaluate(files / "model.zonkey", path, **options))["baselines"]
        assert (other == found) == is_same
    with pytest.raises(Problem, match="need training samples"):
        app.evaluate(files / "model.zonkey", files / "test.csv", baselines=["ridge"])


def test_baselines_need_no_laboratory(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "zonkey_lab", None)  # as if it were not installed
    paths = [files / name for name in ("model.zonkey", "test.csv")]
    names = ["nearest-mean", "ridge", "logistic", "paper"]
    app.evaluate(*paths, baselines=names, training=files / "features.parquet")


@pytest.mark.parametrize("name", ["model", "paper"])
def test_explain_is_the_library(files, tmp_path, name):
    path, source = files / f"{name}.zonkey", files / "test.csv"
    x = pd.read_csv(source)[FEATURES].to_numpy(np.float32)[17]
    plot = tmp_path / "why.png" if name == "model" else None
    found = app.explain(path, source, 17, plot, top=3)
    assert found.columns == {"id": "17", "label": TEST[17], "file": "b.jpg"}
    same = zonkey.explain(zonkey.load(path), x, k=3)
    same = same.name_samples(dict.fromkeys(range(len(TRAIN)), "a.jpg"))
    assert found.explanation.to_dict() == same.to_dict()
    assert plot is None or plot.read_bytes().startswith(b"\x89PNG")
    with zonkey.config_context(working_memory=1e-3):  # in a later block
        again = app.explain(path, source, 17, top=3)
    assert again.explanation.to_dict() == found.explanation.to_dict()


def test_explain_among_candidates(files):
    found = app.explain(files / "model.zonkey", files / "test.csv", candidates=[SEEN[0], UNSEEN[0]])
    assert {row["label"] for row in found.explanation.to_dict()["classes"]} == {SEEN[0], UNSEEN[0]}
