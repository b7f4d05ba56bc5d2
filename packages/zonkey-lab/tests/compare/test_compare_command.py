"""`zonkey compare`: from files to a table, a page and model files."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from small_data import small_dataset, small_source
from typer.testing import CliRunner

import zonkey
from zonkey.plugins import find_plugins
from zonkey_lab.compare import data as compare_data
from zonkey_lab.compare_command import compare

MODELS = ["--models", "RPL,nearest mean,recommended", "--points", "2", "--seeds", "1"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Call the command in a folder with features and prototypes."""
    monkeypatch.chdir(tmp_path)
    data = small_dataset(noise=2.0)
    columns = [f"f{i}" for i in range(data.shape[1])]
    table = pd.DataFrame(data.X, columns=columns)
    table.insert(0, "label", data.y)
    table.to_csv("features.csv", index=False)
    known = pd.DataFrame(data.prototypes.matrix, columns=[f"a{i}" for i in range(5)])
    known.insert(0, "class", data.prototypes.labels)
    known.to_csv("prototypes.csv", index=False)
    app = typer.Typer()
    app.command()(compare)
    return lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])


class Checked(HTMLParser):
    """Every element is closed in order."""

    VOID = ("meta", "link", "img", "br", "hr")

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_features_and_prototypes_give_a_table_a_page_and_model_files(call, tmp_path):
    files = ["--html", "page.html", "--markdown", "tables.md", "--save", "models"]
    done = call("features.csv", "prototypes.csv", *MODELS, *files)
    assert done.exit_code == 0, done.output
    assert re.search(r"tested on 27 samples of 3 held-out classes", done.stdout)
    for name in ("RPL", "nearest mean", "recommended"):
        assert name in done.stdout
    assert "ecommended model has" in " ".join(done.stdout.split())
    assert "[3/3]" in done.stderr
    html = (tmp_path / "page.html").read_text("utf-8")
    page = Checked()
    page.feed(html)
    assert page.open == []
    assert page.seen.count("img") == 3
    assert not re.search(r"https?://|@import|url\(", html)
    for text in ("Time and memory", "AUSUC", "How it was measured", "RPL"):
        assert text in html
    assert "| recommended |" in (tmp_path / "tables.md").read_text("utf-8")
    model = zonkey.load(tmp_path / "models" / "recommended.zonkey")
    X = pd.read_csv("features.csv").iloc[:, 1:].to_numpy()
    assert np.mean(model.predict(X) == pd.read_csv("features.csv")["label"]) > 0.3
    assert len(model.classes_) == 12


def test_a_second_call_uses_the_records(call):
    first = call("features.csv", "prototypes.csv", *MODELS, "--json")
    again = call("features.csv", "prototypes.csv", *MODELS, "--json")
    assert again.stderr.count("has records") == 3
    boards = [json.loads(done.stdout)["boards"] for done in (first, again)]
    assert boards[0] == boards[1]
    names = {one["name"] for one in boards[0][0]["systems"]}
    assert names == {"RPL", "nearest mean", "recommended"}
    record = next(iter(json.loads(p.read_text()) for p in list_records()))
    assert record["command"].startswith("zonkey")


def list_records():
    return sorted(Path("compare-runs").glob("*/*/*.json"))


def test_rows_may_be_marked_and_classes_named(call):
    table = pd.read_csv("features.csv")
    marks = np.where(table["label"].isin(["c00", "c01"]), "test", "train")
    table.assign(split=marks).to_csv("marked.csv", index=False)
    done = call("marked.csv", "prototypes.csv", "--models", "RPL", "--points", "2")
    assert "tested on 18 samples of 2 held-out classes and 0 other samples" in done.stdout
    named = ["--unseen", "c02,c03,c04", "--models", "RPL", "--points", "2"]
    done = call("features.csv", "prototypes.csv", *named)
    assert "tested on 27 samples of 3 held-out classes" in done.stdout
    assert "AUSUC" in done.stdout


def test_few_shots_and_trials(call):
    few = ["--models", "NN,recommended", "--points", "2", "--draws", "2"]
    done = call("features.csv", "prototypes.csv", "--shots", "1,2", *few)
    assert done.exit_code == 0, done.output
    assert "1 shot of each class" in done.stdout
    assert "2 shots of each class" in done.stdout
    done = call("features.csv", "prototypes.csv", "--shots", "1", "--ways", "2", *few)
    assert done.exit_code == 0, done.output


def test_benchmarks_by_name(call, monkeypatch):
    monkeypatch.setattr(compare_data, "find_source", lambda *_: small_source())
    done = call("--data", "small", "--models", "RPL", "--points", "2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["data"][0]["split"] == "small"
    assert found["boards"][0]["systems"][0]["figures"]["zsl"]["value"] > 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "SOURCE must be samples"),
        (("features.csv", "prototypes.csv", "--data", "emoji"), "--data must be left out"),
        (("features.csv", "prototypes.csv", "--models", "RLP"), "Did you mean 'RPL'"),
        (("features.csv", "prototypes.csv", "--budget", "soon"), "must be a positive time"),
        (("features.csv", "prototypes.csv", "--ways", "5"), "need --shots"),
        (("features.csv", "prototypes.csv", "--shots", "0"), "--shots must be whole numbers"),
        (("features.csv",), "CLASSES must describe the classes"),
    ],
)
def test_wrong_options_are_refused_in_one_line(call, arguments, message):
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_texts_are_encoded(call):
    words = {
        "cat": "purring kitten whiskers",
        "dog": "barking puppy leash",
        "owl": "night bird feathers",
        "fish": "water fins scales",
        "car": "engine wheels road",
        "ship": "harbor sails ocean",
        "plane": "wings airport sky",
        "train": "rails station wagon",
    }
    rows = [(f"{text} {i}", label) for label, text in words.items() for i in range(4)]
    pd.DataFrame(rows, columns=["text", "label"]).to_csv("texts.csv", index=False)
    few = ["--models", "nearest prototype,RPL", "--points", "2", "--save", "models"]
    done = call("texts.csv", *few, "--no-cache")
    assert done.exit_code == 0, done.output
    assert "nearest prototype" in done.stdout
    assert (
        "text"
        in zonkey.model_info("models/nearest-prototype.zonkey")["training"]["encoder"]["kind"]
    )


def test_the_command_and_its_model_class_are_entry_points():
    if "compare" not in find_plugins("commands"):
        pytest.skip("the installed metadata are older than these files")
    assert find_plugins("commands")["compare"].load() is compare
    assert "NearestPrototype" in find_plugins("models")["compare"].load()
