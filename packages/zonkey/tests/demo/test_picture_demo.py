"""The demonstration on picture files: files, figures, typed names, page and command."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from html_page import Page
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey.demo import pictures as module
from zonkey.demo.pictures import run_picture_demo, write_picture_demo
from zonkey.encoders import ImageEncoder, Pictures
from zonkey.files.emoji import load_emoji
from zonkey.presets import recommended

GROUP = "Activities"
ATTACK = "<script>alert('hi')</script> & [bold]"
# Some parameters are given: choosing all takes seconds.
CHOSEN = {
    "kernel": "rbf",
    "gamma": 2.0,
    "ridge": 0.1,
    "worth": 1.0,
    "seen_penalty": 0.2,
    "temperature": 0.1,
}
TYPED = ["a round ball", ATTACK, "soccer ball"]  # the last is a class already


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def demo(folder):
    """Return the demonstration of one group of emoji."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GROUPS", (GROUP,))
        patch.setattr(module, "recommended", partial(recommended, **CHOSEN))
        result = run_picture_demo(TYPED, folder, seed=0)
    write_picture_demo(result, folder)
    return result


def classes_of(data, labels):
    return {str(name) for name in labels if data.groups[name] == GROUP}


def test_seen_classes_are_drawn_in_three_styles_and_unseen_ones_in_one(demo):
    data, pictures = load_emoji(), Pictures.of(demo.pictures)
    counts = Counter(pictures.labels.tolist())
    seen, unseen = (classes_of(data, c) for c in (data.seen_classes, data.unseen_classes))
    assert counts == {**dict.fromkeys(seen, 3), **dict.fromkeys(unseen, 1)}
    assert {Path(n).name for n in pictures.names if Path(n).parent.name in unseen} == {
        "twemoji.png"
    }
    name = sorted(seen)[0]
    shown = pictures.open(pictures.names.index(f"{name}/noto.png"))
    np.testing.assert_array_equal(np.asarray(shown), data.thumbnail(name, "noto"))


def test_unseen_classes_are_named_far_above_chance(demo):
    record = demo.record
    unseen, general, seen = record["scores"]
    assert record["n_train"] == 2 * record["n_seen"]
    assert unseen["n_classes"] == unseen["n_pictures"] == record["n_unseen"]
    assert general["n_classes"] == record["n_seen"] + record["n_unseen"]
    assert unseen["chance"] == 1 / record["n_unseen"]
    for row in record["scores"]:
        assert row["accuracy"] > 2 * row["chance"]
        assert row["accuracy"] <= row["hit@5"]
    assert seen["accuracy"] > 10 * seen["chance"]


def test_typed_names_find_pictures(demo):
    found = {entry["name"]: entry["best"] for entry in demo.record["names"]}
    assert list(found) == TYPED
    balls = [row["label"] for row in found["a round ball"]]
    assert len(set(balls)) == 8
    assert sum("ball" in label for label in balls) >= 2, balls
    unseen = set(load_emoji().unseen_classes)
    rows = [row for best in found.values() for row in best]
    assert all(row["is_unseen"] == (row["label"] in unseen) for row in rows)
    assert all(row["file"] == f"{row['label']}/twemoji.png" for row in rows)


def test_the_page_shows_what_was_typed_as_text_and_loads_nothing(demo, folder):
    page = Page(folder / "index.html")
    page.assert_loads_nothing()
    assert f"“{ATTACK}”" in page.words
    assert page.tags["img"] == 8 * len(TYPED) + len(demo.record["guesses"])
    for row in demo.record["scores"]:
        assert f"{100 * row['accuracy']:.1f}" in page.words
    assert json.loads((folder / "record.json").read_text("utf-8")) == demo.record


def test_the_page_opens_without_errors_in_a_browser(demo, folder, open_in_browser):
    assert demo.record["guesses"][0]["label"] in open_in_browser(folder / "index.html")


def test_a_second_run_encodes_no_picture(demo, folder):
    encoder = ImageEncoder(cache=folder / "features")
    module.draw_pictures(
        load_emoji(), sorted({p.name for p in demo.pictures.iterdir()}), demo.pictures
    )
    pictures = Pictures.of(demo.pictures)
    assert sum(block.n_cached for block in encoder.blocks(pictures)) == len(pictures)


def test_a_damaged_file_of_an_earlier_run_is_drawn_again(tmp_path):
    data = load_emoji()
    module.draw_pictures(data, ["zebra"], tmp_path)
    files = {path: path.read_bytes() for path in (tmp_path / "zebra").iterdir()}
    for path in files:
        path.write_bytes(b"")
    module.draw_pictures(data, ["zebra"], tmp_path)
    assert {path: path.read_bytes() for path in files} == files


# The command


@pytest.fixture
def command(demo, monkeypatch):
    """Call the command, with the demonstration computed already."""
    asked = []

    def recall(names, folder, seed, say):
        asked.append((names, folder, seed))
        say("Recalling")
        return demo

    monkeypatch.setattr(module, "run_picture_demo", recall)
    return asked, lambda *arguments: CliRunner().invoke(app, ["demo", *arguments])


def test_the_command_prints_figures_and_what_fits(command, tmp_path):
    asked, call = command
    done = call("pictures", "--name", "a", "--name", "b", "--out", str(tmp_path), "--seed", "3")
    assert done.exit_code == 0, done.output
    assert asked == [(["a", "b"], tmp_path, 3)]
    for text in ("accuracy", "a round ball: ", "[bold]", "index.html"):
        assert text in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "record.json"}


def test_names_are_refused_without_pictures(command, tmp_path):
    _, call = command
    done = call("--name", "a striped horse", "--out", str(tmp_path / "new"))
    assert done.exit_code == 2
    assert "Call `zonkey demo pictures`." in done.output
    assert not (tmp_path / "new").exists()


def test_a_blank_name_is_refused_in_one_line_before_anything_is_drawn(tmp_path):
    done = CliRunner().invoke(app, ["demo", "pictures", "--name", " ", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "Traceback" not in done.output
    assert not [*tmp_path.iterdir()]
