import base64
import hashlib
import importlib.util
import io
import json
import pickle
import sys
import tarfile
import tomllib
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import refusal

from zonkey.files.dataset import DataError
from zonkey.files.emoji import DRAWN_STYLES, load_emoji

ROOT = Path(__file__).parents[4]
DATA = files("zonkey.files") / "data"
LICENSES = {
    "noto": "Apache License 2.0",
    "twemoji": "CC BY 4.0",
    "fluent-3d": "MIT",
    "fluent-flat": "MIT",
    "fluent-modern": "MIT",
}


@pytest.fixture(scope="module")
def data():
    return load_emoji()


@pytest.fixture(scope="module")
def few_shot():
    return load_emoji(split="few-shot")


@pytest.fixture(scope="module")
def arrays():
    """The arrays of the embedded file."""
    with (DATA / "emoji.npz").open("rb") as stream:
        return dict(np.load(stream, allow_pickle=False))


@pytest.fixture(scope="module")
def sheet(data):
    with Image.open(io.BytesIO(data.sheet)) as picture:
        return picture.format, np.asarray(picture.convert("RGB"))


@pytest.fixture(scope="module")
def sources():
    """The module tools/emoji_sources.py, which is no part of the package."""
    path = ROOT / "tools" / "emoji_sources.py"
    spec = importlib.util.spec_from_file_location("emoji_sources", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "emoji_sources", module)  # a data class looks itself up there
        spec.loader.exec_module(module)
    return module


def test_sizes_are_those_of_the_documentation(data):
    assert json.loads(json.dumps(data.record())) == {
        "name": "emoji",
        "sha256": data.sha256,
        "split": "emoji zero-shot v1",
        "n_features": 256,
        "n_samples": {"train": 4004, "test_seen": 1001, "test_unseen": 1675},
        "n_seen": 1001,
        "n_unseen": 335,
        "n_val_classes": len(data.split.val_classes),
        "spaces": {"text": 384, "name": 384},
        "license": data.license,
        "citation": data.citation,
        "features": "EfficientNet-Lite0, 256 principal components",
    }
    assert data.X.shape == (6680, 256)
    assert data.X.dtype == np.float32
    assert np.isfinite(data.X).all()
    assert len(np.unique(data.y)) == 1336
    assert 100 < len(data.split.val_classes) < 335


@pytest.mark.parametrize(
    ("drawn", "of", "share"), [("unseen", "all", 0.25), ("validation", "seen", 0.2)]
)
def test_every_group_gives_its_share_of_classes(data, drawn, of, share):
    chosen = {"unseen": data.unseen_classes, "validation": data.split.val_classes}[drawn]
    among = {"all": np.unique(data.y), "seen": data.seen_classes}[of]
    parts, wholes = (
        Counter(data.groups[name] for name in names.tolist()) for names in (chosen, among)
    )
    assert len(wholes) == 9
    for group, whole in wholes.items():
        assert abs(parts[group] - share * whole) < 1, group


def test_few_shot_queries_are_drawn_by_other_hands_than_shots(data, few_shot):
    split = few_shot.split
    assert few_shot.record()["split"] == "emoji few-shot v1"
    assert few_shot.unseen_classes.tolist() == data.unseen_classes.tolist()
    assert split.val_classes.tolist() == data.split.val_classes.tolist()
    assert set(few_shot.styles[split.query].tolist()) == {"twemoji"}
    shots = np.setdiff1d(split.novel, split.query)
    novel = few_shot.unseen_classes.tolist()
    assert Counter(few_shot.y[split.query].tolist()) == dict.fromkeys(novel, 1)
    assert Counter(few_shot.y[shots].tolist()) == dict.fromkeys(novel, 4)
    base = few_shot.seen_classes.tolist()
    assert Counter(few_shot.y[split.base].tolist()) == dict.fromkeys(base, 5)
    assert split.test_seen.size == 0
    assert few_shot.sha256 != data.sha256


def test_the_two_semantic_spaces_differ_and_hold_vectors_of_unit_length(data):
    text, name = (data.prototypes_of(space) for space in ("text", "name"))
    assert text is data.prototypes
    for prototypes in (text, name):
        assert len(prototypes) == 1336
        # Half precision rounds each entry by at most 2^-11 of itself.
        np.testing.assert_allclose(np.linalg.norm(prototypes.matrix, axis=1), 1, rtol=2**-11)
    cosines = (text.matrix * name.matrix).sum(axis=1)
    assert cosines.max() < 0.99
    assert cosines.mean() > 0.5  # they describe the same classes


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"split": "one-shot"}, '`split` must be "zero-shot" or "few-shot"; got \'one-shot\'.'),
        ({"space": "glove"}, '`space` must be "text" or "name"; got \'glove\'.'),
        (
            {"features": "vgg"},
            "`features` must be one of efficientnet-lite0, simple-cnn; got 'vgg'.",
        ),
    ],
)
def test_what_is_not_offered_is_refused_in_one_line(arguments, line):
    assert refusal(load_emoji, **arguments) == line


def test_features_are_principal_components_of_the_training_pictures_only(data):
    def shift_and_correlation(X):
        X = X.astype(np.float64)
        correlations = np.corrcoef(X.T) - np.eye(X.shape[1])
        return np.abs(X.mean(axis=0) / X.std(axis=0)).max(), np.abs(correlations).max()

    assert max(shift_and_correlation(data.X_train)) < 1e-3
    assert (np.diff(data.X_train.std(axis=0)) < 0).all()
    assert min(shift_and_correlation(data.X_test_unseen)) > 0.05
    assert min(shift_and_correlation(data.X_test_seen)) > 0.05
    # Nor are they components of all pictures.
    assert min(shift_and_correlation(data.X)) > 0.01


def test_features_belong_to_their_labels(data):
    codes = np.searchsorted(data.seen_classes, data.y_train)
    means = np.zeros((1001, 256))
    np.add.at(means, codes, data.X_train)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    guesses = data.seen_classes[(data.X_test_seen @ means.T).argmax(axis=1)]
    assert (guesses == data.y_test_seen).mean() > 0.5  # chance is 0.001


def test_every_class_is_described(data):
    assert len(set(data.characters.values())) == 1336
    assert data.characters["zebra"] == "\N{ZEBRA FACE}"
    assert data.groups["hot pepper"] == "Food & Drink"
    assert "stripe" in data.keywords["zebra"]
    assert data.keywords["tiger"] == ()
    assert all(name not in words for name, words in data.keywords.items())
    assert not [name for name in data.groups if name.startswith("flag ") or "button" in name]


def test_places_on_the_sheet_run_row_by_row_within_its_decoded_size(data, sheet, arrays):
    kind, pixels = sheet
    assert kind == "WEBP"
    assert data.sheet_size == (pixels.shape[1], pixels.shape[0]) == (40 * 48, 34 * 48)
    expected = [(48 * column, 48 * row) for row in range(34) for column in range(40)]
    assert [data.place(name) for name in arrays["names"].tolist()] == expected[:1336]
    assert (pixels[-48:, 16 * 48 + 16 :] > 250).all()  # past the last class the sheet is white


def test_every_class_is_drawn_by_three_artists(data, sheet):
    for name in data.groups:
        drawn = [data.thumbnail(name, style) for style in DRAWN_STYLES]
        assert {picture.shape for picture in drawn} == {(48, 48, 3)}
        assert min(picture.std() for picture in drawn) > 2, name  # some are nearly white
        assert data.thumbnail(name).std() > 5, name
    left, top = data.place("zebra")
    shown = data.thumbnail("zebra")
    np.testing.assert_array_equal(shown, sheet[1][top : top + 48, left : left + 48])
    assert (shown.dtype, shown.flags.writeable) == (np.uint8, False)
    with pytest.raises(DataError, match=r"`style` must be one of .*; got 'fluent-3d'"):
        data.thumbnail("zebra", "fluent-3d")


@pytest.mark.parametrize("style", ["noto", "twemoji"])
def test_pictures_of_other_artists_belong_to_their_labels(data, style):
    for channel, color in enumerate(("red", "green", "blue")):
        assert data.thumbnail(f"{color} circle", style)[24, 24].argmax() == channel
    # A picture is more like its own class than like the others in another style.
    names = [*data.groups][::4]
    own, other = (
        np.stack([data.thumbnail(name, s) for name in names]).reshape(len(names), -1) / 255.0
        for s in (style, "fluent-flat")
    )
    own, other = (A - A.mean(axis=1, keepdims=True) for A in (own, other))
    own, other = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (own, other))
    share = (np.argmax(own @ other.T, axis=1) == np.arange(len(names))).mean()
    assert share > 0.25  # chance is 0.003


def test_what_is_embedded_is_small():
    assert sum(len(path.read_bytes()) for path in DATA.iterdir() if path.is_file()) <= 9_000_000


def test_the_attribution_names_the_license_of_every_style(data):
    rows = [line for line in data.attribution.splitlines() if line.startswith("| pictures")]
    named = {style: row for row in rows for style in LICENSES if f"`{style}`" in row}
    assert {style: license in named[style] for style, license in LICENSES.items()} == (
        dict.fromkeys(LICENSES, True)
    )
    assert data.attribution == (DATA / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for license in ("MIT", "Apache-2.0", "CC BY 4.0", "Unicode-3.0"):
        assert license in data.license


@pytest.mark.parametrize(
    ("file", "texts"),
    [
        (
            "MIT.txt",
            [
                "(c) Microsoft Corporation",
                "(c) 2013 Cal Henderson",
                "(c) 2019 Mu-An Chiou",
                "(c) 2023 LobeHub",
                "this permission notice shall be included in all",
                'THE SOFTWARE IS PROVIDED "AS IS"',
            ],
        ),
        ("Apache-2.0.txt", ["Version 2.0, January 2004", "4. Redistribution", "END OF TERMS"]),
        ("Unicode-3.0.txt", ["UNICODE LICENSE V3", "Unicode, Inc.", "PERMISSION NOTICE"]),
        ("CC-BY-4.0.txt", ["Twitter, Inc.", "org/licenses/by/4.0/legalcode", "Changes made:"]),
    ],
)
def test_the_text_of_every_license_comes_with_the_data(file, texts):
    text = (DATA / "licenses" / file).read_text(encoding="utf-8")
    assert [part for part in texts if part not in text] == []
    assert f"({file})" in (DATA / "licenses" / "README.md").read_text(encoding="utf-8")


def test_the_texts_of_licenses_are_declared_for_the_wheel(data):
    home = ROOT / "packages" / "zonkey"
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {path for pattern in project["license-files"] for path in home.glob(pattern)}
    folder = home / "src" / "zonkey" / "files" / "data" / "licenses"
    wordnet = home / "src/zonkey/presets/data/WordNet-3.0.txt"
    assert declared == {home / "LICENSE", wordnet, *folder.iterdir()}
    assert "zonkey/datasets/data/licenses" in data.license


def test_the_file_says_what_it_was_built_with(arrays, sources):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = groups["dependency-groups"]["emoji"]
    # What follows a plus says which build of a version it was.
    built_with = [entry.split("+")[0] for entry in arrays["built_with"].tolist()]
    assert sorted(built_with) == sorted([*sources.PACKAGES, *pinned])
    assert arrays["style_names"].tolist() == list(sources.STYLES)


def test_a_code_lists_the_code_points_without_variation_selectors(sources, tmp_path):
    for character, code in {
        "\N{ZEBRA FACE}": "1f993",
        "\N{COPYRIGHT SIGN}": "00a9",
        "\N{HEAVY BLACK HEART}\ufe0f": "2764",
        "#\ufe0f\u20e3": "0023-20e3",
        "\U0001f441\ufe0f\u200d\U0001f5e8\ufe0f": "1f441-200d-1f5e8",
    }.items():
        assert sources._code(character) == code
    # Files of pictures may have the selectors in their names.
    names = ["1f993.svg", "2764-fe0f.png", "1f441-fe0f-200d-1f5e8-fe0f.png", "00a9.png"]
    for name in names:
        (tmp_path / name).touch()
    codes = "1f993", "2764", "1f441-200d-1f5e8", "00a9"
    expected = {code: tmp_path / name for code, name in zip(codes, names, strict=True)}
    assert sources._pictures(tmp_path) == expected


VARIANTS = {
    True: "flag Norway: 1f1f3-1f1f4, keycap 7: 0037-20e3, A button (blood type): 1f170, "
    "input numbers: 1f522, SOON arrow: 1f51c, anything by its code: 1f46e-200d-2642, "
    "anything by its code: 1f46e-200d-2640, man health worker: 1f468-200d-2695, "
    "woman health worker: 1f469-200d-2695, man juggling: 1f939",
    False: "zebra: 1f993, black flag: 1f3f4, pirate flag: 1f3f4-200d-2620, right arrow: 27a1, "
    "anything by its code: 1f46e-200d-2695, health worker: 1f9d1-200d-2695, "
    "person juggling: 1f939, woman dancing: 1f483, man: 1f468, mango: 1f96d",
}


@pytest.mark.parametrize("is_variant", VARIANTS)
def test_a_variant_is_known_by_its_name_or_its_code(sources, is_variant):
    for row in VARIANTS[is_variant].split(", "):
        name, code = row.split(": ")
        names = {"health worker", "person juggling", "man dancing", "go", name}
        assert sources._is_variant(code, name, names) is is_variant, row


def pack(cache, name):
    """Write an archive as npm packs it, with one file, and return its integrity."""
    cache.mkdir()
    with tarfile.open(cache / name, "w:gz") as tar:
        entry = tarfile.TarInfo("package/data.json")
        entry.size = 2
        tar.addfile(entry, io.BytesIO(b"{}"))
    return base64.b64encode(hashlib.sha512((cache / name).read_bytes()).digest()).decode()


def test_a_package_of_the_wrong_hash_is_refused_before_it_is_unpacked(sources, tmp_path):
    cache = tmp_path / "cache"
    pack(cache, "lobehub-fluent-emoji-3d-1.1.0.tgz")
    package = "@lobehub/fluent-emoji-3d@1.1.0"
    with pytest.raises(SystemExit, match=r"3d-1\.1\.0\.tgz does not match its pinned hash"):
        sources._unpack(package, sources.PACKAGES[package], cache)
    assert [path.name for path in cache.iterdir()] == ["lobehub-fluent-emoji-3d-1.1.0.tgz"]


def test_a_package_of_the_right_hash_is_unpacked_once(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(sources.subprocess, "run", None)  # nothing is fetched
    cache = tmp_path / "cache"
    integrity = pack(cache, "stripes-1.0.0.tgz")
    folder = sources._unpack("stripes@1.0.0", integrity, cache)
    assert (folder / "data.json").read_text() == "{}"
    (folder / "data.json").write_text("kept")
    assert sources._unpack("stripes@1.0.0", integrity, cache) == folder
    assert (folder / "data.json").read_text() == "kept"
    assert sorted(path.name for path in cache.iterdir()) == ["stripes-1.0.0", "stripes-1.0.0.tgz"]


@pytest.mark.parametrize("split", ["zero-shot", "few-shot"])
def test_a_pickle_is_loaded_from_the_package_again(data, split):
    named = load_emoji(split=split, space="name")
    text = pickle.dumps(named)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert again.record() == named.record()
    assert again.spaces == named.spaces == ("name", "text")
    assert named.prototypes == data.prototypes_of("name")
    assert named.prototypes_of("text") == data.prototypes


def test_features_of_the_simple_network(data):
    other = load_emoji(features="simple-cnn")
    assert other.X.shape == (len(data.y), 128)
    assert np.array_equal(other.y, data.y)
    assert np.array_equal(other.split.train, data.split.train)
    assert "four convolutional blocks" in other.about["features"]
    again = pickle.loads(pickle.dumps(other))
    assert np.array_equal(again.X, other.X)


def test_the_simple_network_knows_novel_classes():
    data = load_emoji(features="simple-cnn", split="few-shot")
    X = np.asarray(data.X, np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    queries = data.split.query
    shots = np.setdiff1d(data.split.novel, queries)
    found = (X[queries] @ X[shots].T).argmax(axis=1)
    accuracy = np.mean(data.y[shots][found] == data.y[queries])
    assert accuracy > 0.3  # of 335 classes; its base classes are others
