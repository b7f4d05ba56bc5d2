"""Models for `classify`: pairs of encoders with one space, and what learns from shots."""

import copy

import numpy as np
import pandas as pd
import pytest

from model_files import refused, zonkey_does
from zonkey import presets
from zonkey.app.naming import learn_shots
from zonkey.app.progress import ignore
from zonkey.encoders import image_encoder, registry, text_encoder
from zonkey.presets import pretraining

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")

COLORS = {"red": (250, 5, 5), "green": (5, 250, 5), "blue": (5, 5, 250)}
NAMES = ["cat", "dog", "truck"]


# The pretrained model, or one of the shots alone


@pytest.fixture
def base(monkeypatch):
    """Few of the classes of ImageNet takes less time."""
    found = pretraining._base("efficientnet-lite0")
    small = found.without(np.flatnonzero(np.arange(found.n_leaves) % 32))
    monkeypatch.setattr(pretraining, "_base", {"efficientnet-lite0": small}.__getitem__)
    return presets.pretrained(classes=NAMES)


def draw(rng, n, like_photos, base):
    """Features of n samples per class: where the base expects them, or anywhere else."""
    centers = rng.uniform(0, 1, (3, 1280))
    if like_photos:
        centers = (np.maximum(0.4 + 20 * base.centers_, 0)) ** 2
    y = np.repeat(NAMES, n)
    noise = rng.exponential(0.2, (3 * n, 1280))
    return centers.repeat(n, axis=0) + noise, y


class Guess:
    """A pretrained model that learns nothing."""

    def partial_fit(self, *_):
        return self

    def predict(self, X):
        return np.full(len(X), "cat")


@pytest.mark.parametrize(("n", "is_own"), [(2, True), (1, False)])
def test_left_out_shots_choose_the_model(base, n, is_own):
    X, y = draw(np.random.default_rng(0), n, False, base)
    known, told = base.prototypes_.subset(NAMES), []
    model = learn_shots(Guess(), known, X, y, told.append)
    assert isinstance(model, Guess) != is_own
    notes = [step.note for step in told if step.note]
    assert notes == is_own * [
        "Learned from the shots alone: of left-out ones 100 % are right, 33 % with the pretrained "
        "model."
    ]


def test_of_equals_the_pretrained_model_is_taken(base):
    X, y = draw(np.random.default_rng(0), 2, True, base)
    model = learn_shots(copy.copy(base), base.prototypes_.subset(NAMES), X, y, ignore)
    assert model.transfer  # it has learned from another domain
    assert np.mean(model.predict(X) == y) == 1


def test_classes_without_shots_need_the_pretrained_model(base):
    X, y = draw(np.random.default_rng(0), 2, False, base)
    known = base.prototypes_.subset(NAMES)
    model = learn_shots(copy.copy(base), known, X[y != "dog"], y[y != "dog"], ignore)
    assert model.transfer
    assert model.classes_.tolist() == NAMES


# Pairs of encoders


class Pair:
    """Pictures are their mean color, texts the color that they name."""

    revision, n_features, max_tokens, size = "0123456789abcdef", 3, 9, 8

    def __init__(self, name, space):
        self.name, self.space = name, space

    def prepare(self, image):
        return np.asarray(image.resize((1, 1)), np.float32)[0, 0] / 255

    def encode(self, batch):
        if isinstance(batch, np.ndarray):
            return batch
        colors = [next(c for name, c in COLORS.items() if name in text) for text in batch]
        return np.array(colors, np.float32) / 255

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Pictures in one color each, and encoders by name: `a` and `b` have one space."""
    for name, color in COLORS.items():
        Image.new("RGB", (8, 8), color).save(tmp_path / f"{name}.png")
    spaces = {"a": "shared", "b": "shared", "c": None, "d": None}
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image_encoder, "_backends", {})
    for kind in ("image", "text"):
        monkeypatch.setattr(
            registry, f"{kind}_backend", lambda name, _: Pair(f"{name} ", spaces.get(name[-1]))
        )
    text_encoder._load_backend.cache_clear()
    yield tmp_path
    text_encoder._load_backend.cache_clear()


@pytest.mark.parametrize(
    "encoders",
    [
        ["--encoder", "transformers:a"],
        ["--encoder", "onnx:a", "--text-encoder", "onnx:b"],
        ["--encoder", "onnx:c", "--text-encoder", "onnx:d"],  # named together: a pair
    ],
)
def test_names_alone_classify_with_a_pair_of_encoders(photos, encoders):
    output = photos / "answers.csv"
    options = "--classes", "a red thing, a green thing, a blue thing", "-o", output
    model = photos / "m.zonkey"
    found = zonkey_does("classify", photos, *options, *encoders, "--save", model)
    assert found.exit_code == 0, found.output
    answers = pd.read_csv(output)
    assert answers["file"].tolist() == ["blue.png", "green.png", "red.png"]
    assert answers["predicted"].tolist() == ["a blue thing", "a green thing", "a red thing"]


def test_an_encoder_without_a_pair_needs_shots(photos):
    options = "--classes", "red, green, blue", "--encoder", "onnx:c"
    line = refused("classify", photos, *options)
    assert line == (
        "--encoder must be one of a pair with one space, such as clip-vit-b32, to classify by "
        "names; onnx:c is none. Choose another, name its --text-encoder, or pass labeled samples "
        "with --shots."
    )
    for name in COLORS:
        (photos / "shots" / name).mkdir(parents=True)
        (photos / f"{name}.png").rename(photos / "shots" / name / "1.png")
    found = zonkey_does("classify", photos / "shots", *options, "--shots", photos / "shots")
    assert found.exit_code == 0, found.output
    assert "of 3 predictions" in found.stderr
