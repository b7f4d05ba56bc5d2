"""`zonkey suggest` and `zonkey learn`, of features, texts and pictures."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import UNSEEN, done, files, refused, table, zonkey_does
from zonkey.encoders import ImageEncoder, TextEncoder
from zonkey.files.emoji import load_emoji

__all__ = ["files"]

SAID = {
    "lost card": ["I lost my card", "my card was stolen", "where is my card? I cannot find it"],
    "refund": ["I want my money back", "please refund my payment", "give me a refund"],
}
OTHER = ["what is the weather in Zürich", "will it rain tomorrow"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path_factory.getbasetemp() / "labels"))


def fill(path, choose):
    """Fill in the column `accept` of a table by its rows."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.assign(accept=[choose(row) for _, row in frame.iterrows()]).to_csv(path, index=False)
    return frame


def test_features(files, tmp_path):
    model = shutil.copy(files / "model.zonkey", tmp_path / "m.zonkey")
    rows = table(np.repeat(UNSEEN, 6), 7).drop(columns="label")
    rows.to_csv(tmp_path / "new.csv", index=False)
    path = tmp_path / "t.csv"
    said = done("suggest", model, tmp_path / "new.csv", "-o", path, "--group-size", 4)
    frame = fill(path, lambda _: "yes")
    assert said.startswith(f"18 samples in {frame['group'].nunique()} groups in {path} (")
    source = "--source", tmp_path / "new.csv"
    said = done("learn", model, path, *source)
    assert said.startswith("Learned: 18 samples of ")
    assert done("learn", model, path, *source).startswith("Known:   18 samples, learned before\n")
    record = json.loads(done("learn", model, path, *source, "--json"))
    assert (record["learned"], record["known"]) == ({}, 18)
    said = refused("learn", model, path)  # features are not in the table
    assert "f0" in said
    assert "Or pass what the table was made of as --source." in said
    said = refused("suggest", model, tmp_path / "new.csv")
    assert "must have a sample to label" in said
    more = table(np.repeat(UNSEEN, 2), 8).drop(columns="label")
    pd.concat([rows.astype({"id": str}), more.assign(id=list("abcdef"))]).to_csv(
        tmp_path / "new.csv", index=False
    )
    options = "--groups", 1, "-o", path
    said = done("suggest", model, tmp_path / "new.csv", *options)
    assert "18 learned before left out" in said
    record = json.loads(done("suggest", model, tmp_path / "new.csv", *options, "--json"))
    assert record["groups"] == 1
    assert record["rows"] + record["left_out"] == 6
    lines = done("suggest", model, tmp_path / "new.csv", "--json").splitlines()
    assert {json.loads(line)["accept"] for line in lines} == {""}


def test_wrong_options(files, tmp_path):
    model = files / "model.zonkey"
    table(UNSEEN[:1], 7).to_csv(tmp_path / "new.csv", index=False)
    assert "--output must end in" in refused("suggest", model, tmp_path / "new.csv", "-o", "a.npz")
    assert zonkey_does("suggest", model, tmp_path / "new.csv", "--group-size", 0).exit_code == 2
    said = refused("learn", model, tmp_path / "new.csv")
    assert "must have the columns sample, suggested, accept; " in said
    said = refused("learn", model, tmp_path / "no.csv")
    assert "no.csv" in said


def test_texts_are_in_the_table(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    texts = [text for part in SAID.values() for text in part] + OTHER
    (tmp_path / "m.txt").write_text("\n".join(texts))
    names = zonkey.Prototypes([*SAID], TextEncoder().transform([*SAID]))
    model = zonkey.AnyShotClassifier(names, space="joint").fit()
    spec = TextEncoder().spec_
    model.save(tmp_path / "m.zonkey", training={"encoder": spec})
    path = tmp_path / "t.csv"
    zonkey_does("suggest", tmp_path / "m.zonkey", tmp_path / "m.txt", "-o", path)
    labels = {text: label for label, part in SAID.items() for text in part}
    frame = fill(path, lambda row: labels.get(row["text"], "weather"))
    assert sorted(frame["text"]) == sorted(texts)
    assert frame["sample"].str.startswith("s").all()
    encoded = []
    encode = TextEncoder.encode_texts

    def count(self, given):
        encoded.extend(given)
        return encode(self, given)

    monkeypatch.setattr(TextEncoder, "encode_texts", count)
    found = zonkey_does("learn", tmp_path / "m.zonkey", path)
    assert found.exit_code == 0, found.output
    assert "Added: weather\nLearned: 8 samples of lost card, refund, weather\n" in found.stdout
    assert zonkey.load(tmp_path / "m.zonkey").predict(["is it sunny or rainy?"]) == ["weather"]
    # Only accepted texts are encoded, once the model has samples.
    encoded.clear()
    fill(path, lambda row: "weather" if row["text"] in OTHER else "")
    assert zonkey_does("learn", tmp_path / "m.zonkey", path).stdout.startswith("Known:   2 samples")
    assert sorted(encoded) == sorted(OTHER)


def test_a_model_of_names_first_learns_where_samples_lie(tmp_path):
    pytest.importorskip("onnxruntime")
    words = ("today", "again", "please", "now", "at the bank", "in the shop", "on the train")
    texts = [f"{text} {word}" for part in SAID.values() for text in part for word in words]
    (tmp_path / "m.txt").write_text("\n".join(texts))
    names = zonkey.Prototypes([*SAID], TextEncoder().transform([*SAID]))
    same = zonkey.AnyShotClassifier(names, space="joint").fit()
    same.save(tmp_path / "m.zonkey", training={"encoder": TextEncoder().spec_})
    path = tmp_path / "t.csv"
    zonkey_does("suggest", tmp_path / "m.zonkey", tmp_path / "m.txt", "-o", path)
    frame = fill(path, lambda row: "yes" if row["group"] == "1" else "")
    assert zonkey_does("learn", tmp_path / "m.zonkey", path).exit_code == 0
    accepted = frame[frame["group"] == "1"]
    X = TextEncoder().transform(frame["text"])
    same = same.fit(X).partial_fit(X[accepted.index], accepted["suggested"].to_numpy(str))
    found = zonkey.load(tmp_path / "m.zonkey").predict_proba(X)
    np.testing.assert_allclose(found, same.predict_proba(X), atol=1e-3)


@pytest.fixture
def photos(tmp_path):
    """Draw some emoji in one folder, and fit a model of two classes."""
    pytest.importorskip("onnxruntime")
    image, emoji = pytest.importorskip("PIL.Image"), load_emoji()
    (tmp_path / "photos").mkdir()
    for label in ("bus", "pizza"):
        for i, style in enumerate(("twemoji", "noto", "fluent-flat")):
            picture = image.fromarray(emoji.thumbnail(label, style))
            picture.save(tmp_path / "photos" / f"{label}-{i}.png")
    paths = sorted(map(str, (tmp_path / "photos").iterdir()))
    encoder = ImageEncoder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = encoder.transform(paths[::3])
        zonkey.AnyShotClassifier().fit(X, ["bus", "pizza"]).save(
            tmp_path / "m.zonkey", training={"encoder": encoder.spec_}
        )
    return tmp_path


def test_pictures_are_found_by_their_paths(photos):
    model = photos / "m.zonkey"
    path = photos / "photos" / "t.csv"  # paths are relative to the table
    done("suggest", model, photos / "photos", "-o", path)
    frame = fill(path, lambda row: row["file"].split("-")[0])
    assert sorted(frame["sample"]) == sorted(p.name for p in (photos / "photos").glob("*.png"))
    assert done("learn", model, path).startswith("Learned: 6 samples of bus, pizza\n")
    elsewhere = photos / "t.csv"
    shutil.move(path, elsewhere)
    assert refused("learn", model, elsewhere)
    said = done("learn", model, elsewhere, "--source", photos / "photos")
    assert said.startswith("Known:   6 samples, learned before\n")
    Path(photos / "photos" / frame["sample"][0]).write_bytes(b"damaged")
    assert "--on-error skip" in refused("learn", model, elsewhere, "--source", photos / "photos")
    options = "--source", photos / "photos", "--on-error", "skip"
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        found = zonkey_does("learn", model, elsewhere, *options)
    assert found.stdout.startswith("Known:   5 samples, learned before\n")
    assert "1 of 6 is not and was skipped" in found.stderr
