"""`zonkey evaluate`, `explain` and `export`: the figures, reasons and graphs of the library."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from PIL import Image
from sklearn.pipeline import make_pipeline

import zonkey
from model_files import (
    FEATURES,
    N_EACH,
    SEEN,
    TEST,
    TRAIN,
    UNSEEN,
    done,
    files,
    refused,
    samples,
    table,
)
from zonkey.encoders import ImageEncoder

__all__ = ["files"]


def split_table(folder):
    """Write training and test samples to one table with a column `split`."""
    labels = [*TRAIN, *TEST]
    marks = ["train"] * len(TRAIN) + ["test"] * len(TEST)
    frame = table(labels, 3, split=marks)
    frame.to_parquet(folder / "split.parquet")
    return folder / "split.parquet", frame[FEATURES].to_numpy(), np.array(labels), np.array(marks)


# evaluate


@pytest.mark.parametrize("name", ["model", "paper"])
def test_evaluate_is_the_library(files, name):
    model = zonkey.load(files / f"{name}.zonkey")
    found = json.loads(done("evaluate", files / f"{name}.zonkey", files / "test.csv", "--json"))
    X = pd.read_csv(files / "test.csv")[FEATURES].to_numpy()
    same = zonkey.evaluate(model, X, TEST).to_dict()
    for changing in ("provenance", "created"):
        found.pop(changing, None)
        same.pop(changing, None)
    assert found == json.loads(json.dumps(same))
    text = done("evaluate", files / f"{name}.zonkey", files / "test.csv")
    assert text.startswith(zonkey.evaluate(model, X, TEST).summary() + "\n\nhit@k: ")
    assert ("ECE: mean gap" in text) == (name == "model")


def test_evaluate_writes_a_page(files, tmp_path):
    page = tmp_path / "page.html"
    text = done("evaluate", files / "model.zonkey", files / "test.csv", "--html", page)
    assert text.endswith(f"\nPage: {page}\n")
    assert page.read_text("utf-8").lower().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_evaluate_uses_rows_marked_test_and_labels_that_are_there(files, tmp_path):
    path, X, y, marks = split_table(tmp_path)
    model = zonkey.load(files / "model.zonkey")
    test = marks == "test"
    found = json.loads(done("evaluate", files / "model.zonkey", path, "--json"))
    assert found["scores"] == zonkey.evaluate(model, X[test], y[test]).to_dict()["scores"]
    frame = table(TEST, 3).assign(label=[None, *TEST[1:]])
    frame.to_csv(tmp_path / "gap.csv", index=False)
    found = json.loads(done("evaluate", files / "model.zonkey", tmp_path / "gap.csv", "--json"))
    X = pd.read_csv(tmp_path / "gap.csv")[FEATURES].to_numpy()[1:]
    assert found["scores"] == zonkey.evaluate(model, X, TEST[1:]).to_dict()["scores"]


def test_evaluate_with_baselines(files, tmp_path):
    path, X, y, marks = split_table(tmp_path)
    model = zonkey.load(files / "model.zonkey")
    test = marks == "test"
    options = "--baselines", "nearest-mean, ridge", "--json"
    found = json.loads(done("evaluate", files / "model.zonkey", path, *options))
    same = zonkey.evaluate(
        model, X[test], y[test], baselines=("nearest-mean", "ridge"), training=(X[~test], y[~test])
    )
    assert found["baselines"] == json.loads(json.dumps(same.to_dict()["baselines"]))
    assert len(found["baselines"]) == 2
    training = "--training", files / "features.parquet"
    other = json.loads(done("evaluate", files / "model.zonkey", path, *options, *training))
    shifted = table(TRAIN, 1).assign(label=np.roll(TRAIN, N_EACH))  # teaches the wrong thing
    shifted.to_parquet(tmp_path / "shifted.parquet")
    training = "--training", tmp_path / "shifted.parquet"
    worse = json.loads(done("evaluate", files / "model.zonkey", path, *options, *training))
    assert worse["baselines"] != other["baselines"] == found["baselines"]
    assert "need training samples" in refused(
        "evaluate", files / "model.zonkey", files / "test.csv", "--baselines", "all"
    )


def test_evaluate_refuses_what_it_cannot_measure(files, tmp_path):
    model, test = files / "model.zonkey", files / "test.csv"
    table(TRAIN, 1, split="train").to_csv(tmp_path / "train.csv", index=False)
    table(TEST, 1).assign(label=None).to_csv(tmp_path / "none.csv", index=False)
    table(TEST, 1).assign(label="nobody").to_csv(tmp_path / "other.csv", index=False)
    table(TEST, 1).drop(columns="label").to_csv(tmp_path / "no.csv", index=False)
    for arguments, words in [
        ((tmp_path / "train.csv",), "must mark rows `test` to evaluate on; it marks none"),
        ((tmp_path / "none.csv",), "must have rows with a label; it has none"),
        ((tmp_path / "other.csv",), "nobody"),
        ((tmp_path / "no.csv",), "must have a column of labels"),
        ((test, "--html", tmp_path), "--html must be a file to write to"),
        ((tmp_path / "gone.csv",), "does not exist"),
        ((test, "--baselines", "rigde", "--training", test), "rigde"),
    ]:
        assert words in refused("evaluate", model, *arguments)


# explain


@pytest.mark.parametrize("name", ["model", "paper"])
def test_explain_is_the_library(files, tmp_path, name):
    model = zonkey.load(files / f"{name}.zonkey")
    x = pd.read_csv(files / "test.csv")[FEATURES].to_numpy(np.float32)[17]
    same = zonkey.explain(model, x, k=3)
    arguments = "explain", files / f"{name}.zonkey", files / "test.csv", "--row", 17, "--top", 3
    text = done(*arguments, "--plot", tmp_path / "why.png")
    assert text == (
        f"id: 17\nlabel: {TEST[17]}\nfile: b.jpg\n{same.table()}\nPicture: {tmp_path / 'why.png'}\n"
    )
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(done(*arguments, "--json"))
    assert found == {
        "row": 17,
        "columns": {"id": "17", "label": TEST[17], "file": "b.jpg"},
        **json.loads(json.dumps(same.to_dict())),
    }


def test_explain_finds_a_row_in_a_later_block(files, monkeypatch):
    arguments = "explain", files / "model.zonkey", files / "test.csv", "--row", 17
    text = done(*arguments)
    monkeypatch.setattr("zonkey.streaming.sources._MOST_ROWS", 5)
    assert done(*arguments) == text
    among = done(*arguments, "--candidates", SEEN[0], "--candidates", UNSEEN[0])
    assert UNSEEN[1] not in among


def test_explain_refuses_what_is_not_there(files, tmp_path):
    model, test = files / "model.zonkey", files / "test.csv"
    line = refused("explain", model, test, "--row", len(TEST))
    assert f"--row must be below the {len(TEST)} rows" in line
    line = refused("explain", model, test, "--row", 1, "--plot", tmp_path / "why.jpeg")
    assert "--plot must end in .png or .svg; got why.jpeg" in line


# export


@pytest.mark.parametrize("name", ["model", "paper"])
def test_export_agrees_with_predict(files, tmp_path, name):
    path = tmp_path / "m.onnx"
    record = json.loads(done("export", files / f"{name}.zonkey", "--onnx", path, "--json"))
    assert record["bytes"] == path.stat().st_size
    session = onnxruntime.InferenceSession(path)
    X = samples(TEST, 2)
    found = dict(zip(record["outputs"], session.run(None, {"features": X}), strict=True))
    model = zonkey.load(files / f"{name}.zonkey")
    assert found["label"].tolist() == model.predict(X).tolist()
    assert found["top_labels"].shape[1] == record["top"] == min(5, len(model.classes_))
    text = done("export", files / f"{name}.zonkey", "--onnx", path, "--top", 2)
    assert text.startswith(f"{path} (")
    assert "top_labels" in text


def test_export_refuses_a_target_before_the_work(files, tmp_path):
    line = refused("export", files / "model.zonkey", "--onnx", tmp_path / "no" / "m.onnx")
    assert "--onnx must be a file to write to" in line
    assert "no.zonkey" in refused("export", tmp_path / "no.zonkey", "--onnx", tmp_path / "m.onnx")
    assert not [*tmp_path.iterdir()]


def test_export_with_the_encoder(files, tmp_path):
    encoder, labels = ImageEncoder(), ["red", "green", "blue"]
    pictures = [Image.new("RGB", (30, 20), label) for label in labels]
    model = zonkey.NearestSupport().fit(encoder.transform(pictures), labels)
    file, path = tmp_path / "m.zonkey", tmp_path / "m.onnx"
    zonkey.save(model, file, training={"encoder": encoder.spec_})
    done("export", file, "--onnx", path, "--with-encoder")
    pixels = np.stack([np.asarray(picture.resize((224, 224))) for picture in pictures])
    assert (
        onnxruntime.InferenceSession(path).run(["label"], {"pixels": pixels})[0].tolist() == labels
    )
    pipeline = make_pipeline(encoder, model)
    zonkey.save(pipeline, file)
    graph = path.read_bytes()
    done("export", file, "--onnx", path, "--with-encoder")
    assert path.read_bytes() == graph
    done("export", file, "--onnx", path)
    assert onnxruntime.InferenceSession(path).get_inputs()[0].name == "features"


def test_export_refuses_an_encoder_that_is_unknown_or_has_changed(files, tmp_path):
    path = tmp_path / "m.onnx"
    line = refused("export", files / "model.zonkey", "--onnx", path, "--with-encoder")
    assert "model.zonkey was fitted on features, and names none" in line
    model, spec = zonkey.load(files / "model.zonkey"), ImageEncoder().spec_
    for changed, said in [
        ({"revision": "0" * 16}, "m.zonkey was fitted with efficientnet-lite0 (revision 0000000"),
        ({"name": "resnet"}, "got 'resnet'"),
    ]:
        zonkey.save(model, tmp_path / "m.zonkey", training={"encoder": spec | changed})
        line = refused("export", tmp_path / "m.zonkey", "--onnx", path, "--with-encoder")
        assert said in line
    zonkey.save(model, tmp_path / "m.zonkey", training={"encoder": spec})
    line = refused("export", tmp_path / "m.zonkey", "--onnx", path, "--with-encoder")
    assert "efficientnet-lite0 makes 1280" in line
    zonkey.save(model, tmp_path / "m.zonkey", training={"encoder": "efficientnet-lite0"})
    line = refused("export", tmp_path / "m.zonkey", "--onnx", path, "--with-encoder")
    assert "m.zonkey was fitted on features, and names none" in line
    assert not path.exists()
