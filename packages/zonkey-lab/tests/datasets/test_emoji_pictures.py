"""Pictures of the emoji data set: the same samples as the embedded features."""

import io
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import build_emoji_pictures
import emoji_sources
from zonkey.errors import DataError
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets import load_emoji_pictures
from zonkey_lab.paper.bench.sources import find_source

KNOWN = load_emoji(split="few-shot")


def write(path, side=16, **changed):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (len(KNOWN.y), side, side, 3)).astype(np.uint8)
    arrays = {"pictures": pictures, "names": KNOWN.y, "styles": KNOWN.styles, **changed}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return pictures


@pytest.fixture
def path(tmp_path):
    return tmp_path / "emoji-pictures" / "pictures.npz"


@pytest.mark.parametrize("split", ["few-shot", "zero-shot"])
def test_rows_are_pictures_and_all_else_is_that_of_the_embedded_data(path, split):
    pictures = write(path)
    data, known = load_emoji_pictures(path, split=split), load_emoji(split=split)
    assert data.shape == (len(known.y), 3 * 16 * 16)
    assert data.X.dtype == np.float32
    for i in (0, 1234, 6679):
        for channel, top, left in ((0, 0, 0), (2, 3, 15), (1, 15, 4)):
            value = data.X[i, channel * 256 + 16 * top + left]
            assert_allclose(value, pictures[i, top, left, channel] / 255, rtol=1e-6)
    assert_array_equal(data.y, known.y)
    assert_array_equal(data.styles, known.styles)
    for part in ("train", "test_seen", "test_unseen", "query", "val_classes"):
        assert_array_equal(getattr(data.split, part), getattr(known.split, part))
    assert_array_equal(data.prototypes.matrix, known.prototypes.matrix)
    assert data.record()["features"] == "pictures of 16 x 16 pixels"
    copy = pickle.loads(pickle.dumps(data))
    assert_array_equal(copy.X, data.X)
    assert_array_equal(copy.styles, data.styles)
    assert copy.sha256 == data.sha256


def test_the_bench_finds_them_and_keeps_the_styles_of_validation_classes_apart(path, tmp_path):
    needed = r"needs pictures.npz in .*`python tools/build_emoji_pictures.py`"
    with pytest.raises(DataError, match=needed):
        find_source("Emoji-Pictures", tmp_path)
    write(path)
    source = find_source("emoji-pictures", tmp_path)
    view, expected = source.load_validation(), find_source("emoji").load_validation()
    assert_array_equal(view.y, expected.y)
    for part in ("train", "test_unseen", "query"):
        assert_array_equal(getattr(view.split, part), getattr(expected.split, part))
    shots = source.load_shots()
    assert_array_equal(shots.split.novel, find_source("emoji").load_shots().split.novel)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"names": None}, "must have 'names'"),
        ({"styles": KNOWN.styles[::-1]}, "The styles in .* must be those of the embedded data set"),
        ({"names": KNOWN.y[1:]}, "The names in .* must be those of the embedded data set"),
        (
            {"pictures": np.zeros((len(KNOWN.y), 16, 8, 3), np.uint8)},
            r"side, side, 3\); .*16, 8, 3",
        ),
        ({"pictures": np.zeros((len(KNOWN.y), 768), np.uint8)}, r"side, side, 3\); .*768"),
        ({"pictures": np.zeros((9, 16, 16, 3), np.uint8)}, r"side, side, 3\); .*\(9, 16"),
    ],
)
def test_other_files_are_refused(path, changed, message):
    write(path, **changed)
    with pytest.raises(DataError, match=f"{message}.*build_emoji_pictures"):
        load_emoji_pictures(path)


def test_pictures_are_drawn_class_by_class_in_every_style_on_white(tmp_path, monkeypatch):
    classes, colors = [], {}
    for i in range(2):
        places = {}
        for s, style in enumerate(emoji_sources.STYLES):
            color = (40 * i + 10, 30 * s, 200, 255)
            drawing = Image.new("RGBA", (64, 64), color)
            drawing.paste((0, 0, 0, 0), (0, 0, 64, 32))  # the upper half is transparent
            places[style] = tmp_path / f"{i}-{style}.png"
            drawing.save(places[style])
            colors[len(colors)] = color[:3]
        classes.append(emoji_sources.Emoji("x", f"class {i}", "group", (), places))
    monkeypatch.setattr(emoji_sources, "unpack", lambda *_: {})
    monkeypatch.setattr(emoji_sources, "choose", lambda *_: classes)
    arrays = np.load(io.BytesIO(build_emoji_pictures.build(tmp_path)))
    assert arrays["pictures"].shape == (10, 64, 64, 3)
    for n, color in colors.items():
        assert_array_equal(arrays["pictures"][n, 60, 10], color)
        assert_array_equal(arrays["pictures"][n, 3, 10], 255)
    assert arrays["names"].tolist() == ["class 0"] * 5 + ["class 1"] * 5
    assert arrays["styles"].tolist() == [*emoji_sources.STYLES] * 2
