"""From files to answers through the command line: fit, predict, evaluate, info, classes."""

import json

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import (
    FEATURES,
    N_SEEN,
    N_UNSEEN,
    SEEN,
    TEST,
    TRAIN,
    UNSEEN,
    K,
    done,
    few_simulations,
    files,
    refused,
    samples,
    table,
)
from zonkey import app
from zonkey.files.classes import read_prototypes

__all__ = ["few_simulations", "files"]

# fit


def test_fit_is_the_library(files):
    prototypes, X = read_prototypes(files / "prototypes.csv"), samples(TEST, 2)
    model = zonkey.load(files / "model.zonkey")
    same = zonkey.presets.recommended(prototypes, candidates="unseen").fit(samples(TRAIN, 1), TRAIN)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    assert model.classes_.tolist() == UNSEEN
    assert model.prototypes_.dimension_names == tuple(f"attribute {i}" for i in range(K))
    paper = zonkey.load(files / "paper.zonkey")
    same = zonkey.presets.paper(prototypes, candidates="all", random_state=0)
    same.fit(samples(TRAIN, 1), TRAIN)
    np.testing.assert_array_equal(paper.predict(X), same.predict(X))
    assert len(paper.classes_) == N_SEEN + N_UNSEEN


def test_fit_says_what_was_learned(files, tmp_path):
    paths = files / "features.parquet", files / "prototypes.csv"
    text = done("fit", *paths, "-o", tmp_path / "m", "--seed", "3")
    assert "Samples:    48\n" in text
    assert "Columns:    f0..f7 (8 columns); not used: id, file\n" in text
    assert "Classes:    8 seen, 3 unseen; 11 candidates\n" in text
    assert "Parameter:  kernel: " in text
    assert "(accuracy on held-out classes)" in text
    assert f"Model:      {tmp_path / 'm'} (" in text
    # Numbers are short, and long values are left out.
    values = [line.split(": ", 2)[-1] for line in text.splitlines() if "Parameter: " in line]
    assert all(len(value) <= 40 for value in values)
    assert all(len(value) <= 9 for value in values if value[0].isdigit())
    others = [line for line in text.splitlines() if not line.startswith("Columns:")]
    assert not [line for line in others if FEATURES[0] in line]
    options = "--notes", "A <test>.", "--license", "CC0", "--json", "--preset", "paper"
    record = json.loads(done("fit", *paths, "-o", tmp_path / "m", *options))
    assert record["seconds"] > 0
    assert (record["notes"], record["license"]) == ("A <test>.", "CC0")
    assert record["summary"]["labels"] == [*SEEN, *UNSEEN]
    assert record["training"]["features"] == "features.parquet"
    assert record["training"]["feature_names"] == FEATURES
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_fit_with_a_column_split(files, tmp_path):
    labels = [*TRAIN, *TEST]
    is_val = np.isin(labels, SEEN[:3]) & (np.arange(len(labels)) < len(TRAIN))
    marks = np.where(np.arange(len(labels)) < len(TRAIN), "train", "test")
    marks = np.where(is_val, "val", marks)
    frame = table(labels, 1, split=marks)
    frame.to_csv(tmp_path / "x.csv", index=False)
    output = tmp_path / "m.zonkey"
    options = "--candidates", "unseen", "-o", output
    text = done("fit", tmp_path / "x.csv", files / "prototypes.csv", *options)
    assert "Samples:    48; 44 marked `test` are left out\n" in text
    model = zonkey.load(output)
    assert model.classes_.tolist() == UNSEEN
    assert model.seen_classes_.tolist() == SEEN
    X = pd.read_csv(tmp_path / "x.csv")[FEATURES].to_numpy(np.float32)
    y = frame["label"].to_numpy(dtype=str)
    train = marks == "train"
    chosen = zonkey.presets.recommended(read_prototypes(files / "prototypes.csv"))
    chosen.fit(X[train], y[train], validation=(X[is_val], y[is_val]))
    chosen.partial_fit(X[is_val], y[is_val])
    assert model.best_params_["worth"] == chosen.best_params_["worth"]
    same = chosen.with_candidates("unseen")
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    paper = "fit", tmp_path / "x.csv", files / "prototypes.csv", "-o", output, "--preset", "paper"
    done(*paper)
    assert zonkey.load(output)[-1].seen_classes_.tolist() == SEEN


@pytest.mark.usefixtures("few_simulations")
def test_fit_with_unlabeled_samples(files, tmp_path):
    table(UNSEEN * 8, 5)[FEATURES].to_csv(tmp_path / "u.csv", index=False)
    output, paths = tmp_path / "m.zonkey", (files / "features.parquet", files / "prototypes.csv")
    options = "--unlabeled", tmp_path / "u.csv", "--candidates", "unseen"
    assert "Adapted:    to unlabeled samples\n" in done("fit", *paths, "-o", output, *options)
    assert zonkey.model_info(output)["training"]["unlabeled"] == "u.csv"
    X, model = samples(TEST, 2), zonkey.load(output)
    assert model.is_transductive_
    same = zonkey.load(files / "model.zonkey").adapt(samples(UNSEEN * 8, 5))
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-5)


def test_fit_of_some_arrays_of_a_file(files, tmp_path):
    np.savez(tmp_path / "x.npz", a=samples(TRAIN, 1), b=TRAIN, c=np.eye(3))
    keys = "--features-key", "a", "--labels-key", "b", "--candidates", "unseen"
    output = tmp_path / "m.zonkey"
    done("fit", tmp_path / "x.npz", files / "prototypes.csv", *keys, "-o", output)
    X, same = samples(TEST, 2), zonkey.load(files / "model.zonkey")
    np.testing.assert_array_equal(zonkey.load(output).predict(X), same.predict(X))


def test_fit_of_what_cannot_be_fitted(files, tmp_path):
    paths = files / "features.parquet", files / "prototypes.csv"
    for output, words in [
        (tmp_path, "is a folder. Add a name"),
        (tmp_path / "no" / "m", "--output must be a file to write to"),
    ]:
        assert words in refused("fit", *paths, "-o", output)
    line = refused("fit", "nowhere.csv", paths[1], "-o", tmp_path / "m")
    assert "nowhere.csv does not exist" in line
    only_seen = pd.read_csv(paths[1]).iloc[:N_SEEN]
    only_seen.to_csv(tmp_path / "p.csv", index=False)
    unseen = "--candidates", "unseen"
    line = refused("fit", paths[0], tmp_path / "p.csv", "-o", tmp_path / "m", *unseen)
    assert 'candidates="unseen" needs a class' in line
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv"}


# the other commands: what they print


def test_predict(files, tmp_path):
    model, test, output = files / "model.zonkey", files / "test.csv", tmp_path / "out.csv"
    assert done("predict", model, test, "-o", output).startswith(f"{len(TEST)} rows in {output} (")
    record = json.loads(done("predict", model, test, "-o", output, "--json"))
    assert (record["rows"], record["output"]) == (len(TEST), str(output))
    assert record["columns"] == ["id", "label", "file", "predicted"]


def test_predict_from_standard_input_to_standard_output(files):
    model, content = files / "model.zonkey", (files / "test.csv").read_text()
    predicted = app.predict(model, files / "test.csv").answers["predicted"]
    lines = [line.split(",") for line in done("predict", model, "-", input=content).splitlines()]
    assert lines[0] == ["id", "label", "file", "predicted"]
    assert [line[3] for line in lines[1:]] == predicted
    records = done("predict", model, "-", "--json", input=content).splitlines()
    assert [json.loads(line)["predicted"] for line in records] == predicted
    content = table(TEST, 2).to_json(orient="records", lines=True)
    records = done("predict", model, "-", "--format", "jsonl", input=content).splitlines()
    assert [json.loads(line)["predicted"] for line in records] == predicted


def test_evaluate(files, tmp_path):
    page = tmp_path / "page.html"
    for name, options in {"model": (), "paper": ("--html", page)}.items():
        arguments = files / f"{name}.zonkey", files / "test.csv"
        text = done("evaluate", *arguments, *options)
        assert text.startswith(app.evaluate(*arguments).summary() + "\n\nhit@k: ")
        assert text.endswith(f"\nPage: {page}\n") == bool(options)
        assert ("ECE: mean gap" in text) == (name == "model")
    assert page.read_text("utf-8").lower().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_explain(files, tmp_path):
    arguments = "explain", files / "model.zonkey", files / "test.csv", "--row", 17, "--top", 3
    same = app.explain(files / "model.zonkey", files / "test.csv", 17, top=3).explanation
    picture = tmp_path / "why.png"
    text = done(*arguments, "--plot", picture)
    assert text == f"id: 17\nlabel: {TEST[17]}\nfile: b.jpg\n{same.table()}\nPicture: {picture}\n"
    found = json.loads(done(*arguments, "--json"))
    columns = {"id": "17", "label": TEST[17], "file": "b.jpg"}
    assert found == {"row": 17, "columns": columns, **json.loads(json.dumps(same.to_dict()))}


def test_export(files, tmp_path):
    path = tmp_path / "m.onnx"
    text = done("export", files / "model.zonkey", "--onnx", path, "--top", 2)
    assert text.startswith(f"{path} (")
    assert "top_labels" in text
    record = json.loads(done("export", files / "model.zonkey", "--onnx", path, "--json"))
    assert (record["output"], record["bytes"]) == (str(path), path.stat().st_size)


def test_info(files, tmp_path):
    text = done("info", files / "model.zonkey", "--card", tmp_path / "card.md")
    assert "Estimator:  AnyShotClassifier\n" in text
    assert "Training:   feature names: 8 names\n" in text
    card = (tmp_path / "card.md").read_text()
    assert card == zonkey.model_card(files / "model.zonkey")
    assert "- feature_names: 8, from f0 to f7\n" in card
    found = json.loads(done("info", files / "paper.zonkey", "--json"))
    assert found == zonkey.model_info(files / "paper.zonkey")


def test_classes(files, tmp_path):
    model, output = files / "model.zonkey", tmp_path / "m.zonkey"
    assert json.loads(done("classes", "list", model, "--json")) == app.list_classes(model)
    text = done("classes", "list", model)
    assert f"{SEEN[0]}\tseen, no candidate\n" in text
    assert f"{UNSEEN[0]}\tunseen\n" in text
    text = done("classes", "remove", model, UNSEEN[1], "-o", output)
    n = N_SEEN + N_UNSEEN - 1
    counts = f"{n} classes, {N_UNSEEN - 1} candidates"
    assert text == f"Removed: {UNSEEN[1]}\n{output}: {counts}\n"
    table([SEEN[0], *UNSEEN[:1] * 2], 6).to_csv(tmp_path / "shots.csv", index=False)
    arguments = "classes", "add", model, "--shots", tmp_path / "shots.csv", "-o", output
    assert done(*arguments).startswith(f"Learned: 3 samples of {SEEN[0]}, {UNSEEN[0]}\n")
    record = json.loads(done(*arguments, "--json"))
    assert (record["learned"], record["added"]) == ({SEEN[0]: 1, UNSEEN[0]: 2}, [])
