"""Pictures and texts of classes as input of fit, predict, evaluate, explain and classes."""

import csv
import io
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import done, few_simulations, refused, zonkey_does
from zonkey.encoders import ImageEncoder, TextEncoder, registry
from zonkey.encoders import image_encoder as image_module
from zonkey.encoders import text_encoder as text_module

onnx = pytest.importorskip("onnx")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

__all__ = ["few_simulations"]

N_EACH = 4
COLORS = {
    "red_square": (220, 30, 30),
    "green_square": (30, 200, 40),
    "blue_square": (30, 40, 220),
    "yellow_square": (220, 220, 40),
    "purple_square": (140, 30, 160),
    "orange_square": (240, 140, 20),
}
SEEN, UNSEEN = list(COLORS)[:4], list(COLORS)[4:]


def save_graph(path, seed=0):
    """Save a graph from 8 x 8 pixels to 12 features."""
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(12, 3, 1, 1)).astype(np.float32)
    bias = rng.normal(size=12).astype(np.float32)
    make, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node("Conv", ["pixels", "kernel", "bias"], ["map"]),
        make.make_node("Sigmoid", ["map"], ["bent"]),
        make.make_node("GlobalAveragePool", ["bent"], ["pooled"]),
        make.make_node("Flatten", ["pooled"], ["features"]),
    ]
    graph = make.make_graph(
        nodes,
        "colors",
        [make.make_tensor_value_info("pixels", kinds.FLOAT, ["n", 3, 8, 8])],
        [make.make_tensor_value_info("features", kinds.FLOAT, ["n", 12])],
        [
            onnx.numpy_helper.from_array(kernel, "kernel"),
            onnx.numpy_helper.from_array(bias, "bias"),
        ],
    )
    opset = [make.make_opsetid("", 18)]
    onnx.save(make.make_model(graph, opset_imports=opset, ir_version=10), path)


def draw(folder, labels, seed):
    rng = np.random.default_rng(seed)
    for label in labels:
        (folder / label).mkdir(parents=True)
        for i in range(N_EACH):
            color = np.clip(np.array(COLORS[label]) + rng.normal(0, 12, 3), 0, 255).astype(int)
            Image.new("RGB", (12, 10), tuple(color.tolist())).save(folder / label / f"{i}.png")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep features of the tests out of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ZONKEY_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Draw pictures, encode them too, write files of classes, and fit a model."""
    folder = tmp_path_factory.mktemp("road")
    save_graph(folder / "colors.onnx")
    draw(folder / "photos", SEEN, 0)
    draw(folder / "new", COLORS, 1)
    texts = {label: f"a {label.partition('_')[0]} colored square" for label in COLORS}
    pd.Series(texts, name="description").rename_axis("label").to_csv(folder / "classes.csv")
    (folder / "names.txt").write_text("\n".join(COLORS))
    prototypes = TextEncoder().prototypes(folder / "classes.csv")
    columns = [f"d{i}" for i in range(prototypes.n_dimensions)]
    vectors = pd.DataFrame(prototypes.matrix, prototypes.labels, columns).rename_axis("label")
    vectors.to_csv(folder / "vectors.csv")
    encoder = ImageEncoder(f"onnx:{folder / 'colors.onnx'}")
    for name in ("photos", "new"):
        pictures = sorted((folder / name).rglob("*.png"))
        y = np.array([path.parent.name for path in pictures])
        spec = np.array(json.dumps(encoder.spec_))
        X = encoder.transform(pictures)
        np.savez(folder / f"{name}.npz", features=X, labels=y, encoder=spec)
        np.savez(folder / f"{name}-plain.npz", features=X, labels=y)
    done("fit", folder / "photos", folder / "classes.csv", *by(folder), "-o", folder / "m.zonkey")
    return folder


def by(folder, source="photos"):
    """Options that choose the tiny encoder; files of features take none."""
    chosen = () if source.endswith(".npz") else ("--encoder", f"onnx:{folder / 'colors.onnx'}")
    return *chosen, "--no-cache"


def arrays(path):
    with np.load(path) as found:
        return found["features"], found["labels"]


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


# fit


@pytest.mark.parametrize(
    ("source", "classes"),
    [("photos", "vectors.csv"), ("photos.npz", "vectors.csv"), ("photos-plain.npz", "classes.csv")],
)
def test_pictures_and_texts_are_their_vectors(made, tmp_path, source, classes):
    output = tmp_path / "m.zonkey"
    done("fit", made / source, made / classes, *by(made, source), "-o", output)
    model, info = zonkey.load(output), zonkey.model_info(output)
    prototypes = TextEncoder().prototypes(made / "classes.csv")
    same = zonkey.presets.recommended(prototypes, candidates="all")
    same.fit(*arrays(made / "photos-plain.npz"))
    X, _ = arrays(made / "new-plain.npz")
    scores = model.decision_function(X), same.decision_function(X)
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-4)  # one of them was written as csv
    assert sorted(model.unseen_classes_) == sorted(UNSEEN)
    encoder = f"onnx:{made / 'colors.onnx'}"
    known = ImageEncoder(encoder).spec_ if source != "photos-plain.npz" else None
    assert info["training"].get("encoder") == known
    known = TextEncoder().spec_ if classes == "classes.csv" else None
    assert info["training"].get("text_encoder") == known
    assert info["training"]["features"] == source


def test_a_model_of_embedded_features_takes_pictures(made, tmp_path):
    done("fit", made / "photos.npz", made / "classes.csv", "-o", tmp_path / "m.zonkey")
    found = [
        done("predict", tmp_path / "m.zonkey", made / name, "--no-cache").splitlines()
        for name in ("new", "new.npz")
    ]
    predicted = [[line.rpartition(",")[2] for line in lines] for lines in found]
    assert predicted[0] == predicted[1]


def test_fit_and_info_say_what_was_encoded_how(made, tmp_path):
    said = done("fit", made / "photos", made / "names.txt", *by(made), "-o", tmp_path / "m")
    described = done("info", tmp_path / "m", "--card", tmp_path / "card.md")
    assert "{'" not in described
    assert "- text_encoder: name minilm-l6, revision " in (tmp_path / "card.md").read_text()
    assert "Samples:    16\n" in said
    for text in (said, described):
        assert f"Encoder:    onnx:{made / 'colors.onnx'} (12 features, revision " in text
        assert "Texts:      minilm-l6 (384 features, revision " in text
        assert '"{}", "a photo of a {}")\n' in text
    assert "Classes:    4 seen, 2 unseen; 6 candidates\n" in said


@pytest.mark.parametrize(
    ("source", "classes", "options", "templates"),
    [
        ("photos", "names.txt", [], ["{}", "a photo of a {}"]),
        ("photos", "names.txt", ["--template", "the {}"], ["the {}"]),
        ("photos", "classes.csv", [], None),
        ("photos.npz", "names.txt", [], None),
        ("photos", "classes.csv", ["--template", "the {}", "--template", "{}"], ["the {}", "{}"]),
    ],
)
def test_templates(made, tmp_path, source, classes, options, templates):
    paths = made / source, made / classes
    said = done("fit", *paths, *by(made, source), *options, "-o", tmp_path / "m", "--json")
    assert json.loads(said)["training"]["text_encoder"]["templates"] == templates


def test_columns_of_text_can_be_chosen(made, tmp_path):
    table = pd.read_csv(made / "classes.csv").assign(size=range(6), noise=list("zyxwvu"))
    table.to_csv(tmp_path / "classes.csv", index=False)
    arguments = "fit", made / "photos", tmp_path / "classes.csv", *by(made)
    done(*arguments, "--text", "description", "-o", tmp_path / "m.zonkey")
    found = zonkey.load(tmp_path / "m.zonkey").prototypes_
    expected = TextEncoder().prototypes(made / "classes.csv")
    np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-6)
    line = refused(*arguments, "--text", "colour", "-o", tmp_path / "m.zonkey")
    assert line.startswith("--text must name a column of classes.csv; got 'colour'")
    # New classes are described by the same columns.
    table = table.iloc[:1].assign(label="gray_square", description="a gray square")
    table.to_csv(tmp_path / "gray.csv", index=False)
    done("classes", "add", tmp_path / "m.zonkey", tmp_path / "gray.csv")
    expected = TextEncoder().prototypes({"g": ["gray square", "a gray square"]})
    found = zonkey.load(tmp_path / "m.zonkey").prototypes_["gray_square"]
    np.testing.assert_allclose(found, expected["g"], atol=1e-5)


def test_a_label_without_a_text_is_named_before_any_work(made, tmp_path, own_cache):
    shutil.copytree(made / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "red_square").rename(tmp_path / "photos" / "red_sqare")
    encoder = "--encoder", f"onnx:{made / 'colors.onnx'}"
    paths = tmp_path / "photos", made / "names.txt"
    line = refused("fit", *paths, *encoder, "-o", tmp_path / "m.zonkey")
    assert line == (
        "Every class needs a name or description; 'red_sqare' of photos has none in names.txt. Did "
        "you mean 'red_square'?"
    )
    assert not any(path.is_file() for path in own_cache.rglob("*"))
    assert not (tmp_path / "m.zonkey").exists()


def test_pictures_beside_the_folders_need_a_label(made, tmp_path):
    shutil.copytree(made / "photos", tmp_path / "photos")
    shutil.copy(tmp_path / "photos" / "red_square" / "0.png", tmp_path / "photos" / "odd.png")
    paths = tmp_path / "photos", made / "names.txt"
    line = refused("fit", *paths, *by(made), "-o", tmp_path / "m.zonkey")
    assert line.startswith("Pictures need labels; odd.png of photos has none.")
    line = refused("fit", made / "photos" / "red_square", made / "names.txt", "-o", tmp_path / "m")
    assert line.startswith("Pictures need labels; those of")


def test_a_table_splits_pictures(made, tmp_path):
    shutil.copytree(made / "photos", tmp_path / "photos")
    names = sorted(p.relative_to(tmp_path / "photos") for p in tmp_path.rglob("*.png"))
    table = pd.DataFrame({"file_name": names, "kind": [name.parent.name for name in names]})
    table["split"] = "train"
    table.loc[::N_EACH, "split"] = "test"
    table.loc[table.kind.isin(["blue_square", "green_square"]), "split"] = "val"
    table.to_csv(tmp_path / "photos" / "metadata.csv", index=False)
    arguments = "fit", tmp_path / "photos", made / "classes.csv", *by(made), "-o", tmp_path / "m"
    said = done(*arguments, "--label-column", "kind")
    assert "Samples:    14; 2 marked `test` are left out\n" in said
    table.loc[0, "split"] = "train"
    table.to_csv(tmp_path / "photos" / "metadata.csv", index=False)
    line = refused(*arguments, "--label-column", "kind")
    assert line.startswith("Rows `val` must be whole classes")


@pytest.mark.usefixtures("few_simulations")
def test_an_archive_and_unlabeled_pictures(made, tmp_path):
    shutil.make_archive(tmp_path / "photos", "zip", made / "photos")
    shutil.make_archive(tmp_path / "new", "gztar", made / "new")
    arguments = "fit", tmp_path / "photos.zip", made / "classes.csv", *by(made)
    said = done(*arguments, "--unlabeled", tmp_path / "new.tar.gz", "-o", tmp_path / "m.zonkey")
    assert "Adapted:    to unlabeled samples\n" in said
    np.savez(tmp_path / "x.npz", features=np.eye(16, 5), labels=np.repeat(SEEN, N_EACH))
    arguments = "fit", tmp_path / "x.npz", made / "classes.csv", *by(made)
    line = refused(*arguments, "--unlabeled", made / "new", "-o", tmp_path / "m.zonkey")
    assert line.startswith("Pictures must have the 5 features of the other samples; onnx:")


@pytest.mark.parametrize(
    ("classes", "options", "words"),
    [
        ("classes.csv", ["--encoder", "minilm-l6"], "--encoder must encode pictures; 'minilm-l6'"),
        ("classes.csv", ["--text-encoder", "bert"], "--text-encoder must be one of"),
        ("classes.csv", ["--template", "a photo"], "--template must hold {} exactly once"),
        ("classes.csv", ["--labels", "x"], "--labels must be left out for pictures; got 'x'."),
        ("classes.csv", ["--features-key", "x"], "--features-key must be left out for pictures;"),
        ("classes.csv", ["--labels-key", "x"], "--labels-key must be left out for pictures;"),
        ("vectors.csv", ["--template", "{}"], "--template must be left out for prototypes;"),
        ("vectors.csv", ["--text-encoder", "minilm-l6"], "--text-encoder must be left out for"),
    ],
)
def test_errors_name_options(made, tmp_path, classes, options, words):
    encoder = () if options[0] == "--encoder" else by(made)
    arguments = "fit", made / "photos", made / classes, *encoder, *options, "-o", tmp_path / "m"
    assert refused(*arguments).startswith(words)


def test_the_text_side_of_a_joint_encoder_is_the_default(made, tmp_path, monkeypatch):
    class Joint:
        name, revision, n_features, space = "transformers:clip", "0123456789abcdef", 3, "clip"

        def prepare(self, image):
            return np.asarray(image.resize((1, 1)), np.float32)[0, 0]

        def encode(self, batch):
            if not isinstance(batch, np.ndarray):
                batch = [COLORS[f"{text.split()[-2]}_square"] for text in batch]
            return np.asarray(batch, np.float32)

    monkeypatch.setattr(image_module, "_backends", {})
    monkeypatch.setattr(registry, "image_backend", lambda *_: Joint())
    monkeypatch.setattr(registry, "text_backend", lambda *_: Joint())
    text_module._load_backend.cache_clear()
    arguments = "fit", made / "photos", made / "names.txt", "--encoder", "clip-vit-b32"
    done(*arguments, "-o", tmp_path / "m.zonkey")
    facts = zonkey.model_info(tmp_path / "m.zonkey")["training"]
    assert facts["text_encoder"]["name"] == facts["encoder"]["name"] == "transformers:clip"
    assert zonkey.load(tmp_path / "m.zonkey").prototypes_.n_dimensions == 3
    text_module._load_backend.cache_clear()


def test_folders_in_another_spelling_are_the_same_classes(made, tmp_path):
    shutil.copytree(made / "photos", tmp_path / "photos")
    (tmp_path / "photos/red_square").rename(tmp_path / "photos/Red Square")
    arguments = "fit", tmp_path / "photos", made / "classes.csv", *by(made), "-o"
    found = zonkey_does(*arguments, tmp_path / "m.zonkey")
    said = "Same classes in another spelling: Red Square is red_square.\n"
    assert (found.exit_code, found.stderr) == (0, said)
    expected = zonkey.load(made / "m.zonkey")
    X, _ = arrays(made / "new-plain.npz")
    same = zonkey.load(tmp_path / "m.zonkey")
    np.testing.assert_allclose(same.decision_function(X), expected.decision_function(X), rtol=1e-5)
    record = json.loads(zonkey_does(*arguments, tmp_path / "m.zonkey", "--json").stdout)
    assert record["joined"] == {"Red Square": "red_square"}


# predict, evaluate, explain


def test_predictions_stand_beside_the_files(made, tmp_path):
    said = done("predict", made / "m.zonkey", made / "new", "--no-cache", "--top", 2, "--proba")
    found = rows(said)
    assert [*found[0]] == ["file", "label", "predicted", "top_1", "top_2", "proba_1", "proba_2"]
    names = sorted(p.relative_to(made / "new").as_posix() for p in made.glob("new/*/*"))
    assert [row["file"] for row in found] == names
    X, _ = arrays(made / "new-plain.npz")
    expected = zonkey.load(made / "m.zonkey").predict(X).tolist()
    assert [row["predicted"] for row in found] == expected


def test_explain_names_labeled_pictures(made, tmp_path):
    """Also of a file of their features, and after classes were added."""
    for source in ("photos", "x.npz", "x.parquet"):
        file = tmp_path / "m.zonkey"
        if source != "photos":
            done("embed", made / "photos", "-o", tmp_path / source, *by(made))
        folder = made if source == "photos" else tmp_path
        options = by(made) if source == "photos" else ()
        done("fit", folder / source, made / "classes.csv", *options, "-o", file)
        for _ in range(2 if source == "photos" else 1):
            arguments = "explain", file, made / "new.npz", "--row", 9
            record = json.loads(done(*arguments, "--json"))
            names = sorted(
                p.relative_to(made / "photos").as_posix() for p in made.glob("photos/*/*")
            )
            assert record["samples"]
            assert all(names[row["row"]] == row["name"] for row in record["samples"])
            assert f"  {record['samples'][0]['name']}  " in done(*arguments)
            done("classes", "add", file, "--shots", made / "new-plain.npz")


@pytest.mark.filterwarnings("ignore:`mu` was lowered")
@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_a_loaded_model_takes_paths(made, tmp_path, preset):
    """Of a picture or several, a folder or an archive, as far as its file names the encoder."""
    file, (X, y) = tmp_path / "m.zonkey", arrays(made / "new-plain.npz")
    done("fit", made / "photos", made / "classes.csv", *by(made), "--preset", preset, "-o", file)
    model = zonkey.load(file)
    assert model.predict(made / "new").tolist() == model.predict(X).tolist()
    scores = model.decision_function(str(made / "new")), model.decision_function(X)
    np.testing.assert_allclose(*scores, rtol=1e-5)
    (label,) = model.predict(made / "new/orange_square/1.png")
    assert label == model.predict(X[9:10])[0]
    several = sorted((made / "new/orange_square").iterdir())
    expected = model.predict(made / "new/orange_square").tolist()
    assert model.predict(several).tolist() == model.predict([*map(str, several)]).tolist()
    assert model.predict(several).tolist() == expected
    explained = zonkey.explain(model, str(several[1])), zonkey.explain(model, X[9])
    assert repr(explained[0]) == repr(explained[1])
    found = zonkey.evaluate(model, made / "new").scores
    assert found == pytest.approx(zonkey.evaluate(model, X, y).scores, abs=1e-5)
    assert found == zonkey.evaluate(model, str(made / "new"), y).scores
    with pytest.raises(ValueError, match="has no labels"):
        zonkey.evaluate(model, made / "new/orange_square")
    if preset == "recommended":
        assert repr(model.explain(several[1])) == repr(explained[1])
        assert model.with_candidates("all").predict(made / "new").shape == (len(X),)
    done("fit", made / "photos-plain.npz", made / "vectors.csv", "--preset", preset, "-o", file)
    with pytest.raises(ValueError, match="knows no encoder"):
        zonkey.load(file).predict(made / "new")


def test_evaluate_with_baselines(made):
    arguments = "evaluate", made / "m.zonkey", made / "new", "--no-cache", "--json"
    record = json.loads(done(*arguments))
    same = json.loads(done("evaluate", made / "m.zonkey", made / "new.npz", "--json"))
    for either in (record, same):
        either["provenance"].pop("date")
    assert record == same
    options = "--baselines", "nearest-mean", "--training", made / "photos"
    assert "nearest-mean" in done(*arguments, *options)


def test_evaluate_uses_the_folder_test(made, tmp_path):
    shutil.copytree(made / "photos", tmp_path / "photos" / "train")
    shutil.copytree(made / "new", tmp_path / "photos" / "test")
    arguments = "evaluate", made / "m.zonkey", tmp_path / "photos", "--no-cache"
    assert "24 samples of 6 classes" in done(*arguments, "--baselines", "nearest-mean")


def test_explain_encodes_one_picture(made, monkeypatch):
    read, n = image_module._read, []
    monkeypatch.setattr(image_module, "_read", lambda *given: n.append(1) or read(*given))
    said = done("explain", made / "m.zonkey", made / "new", "--row", 9, "--no-cache")
    assert said.startswith("file: orange_square/1.png\nlabel: orange_square\nwinner: ")
    assert len(n) == 1
    one = done("explain", made / "m.zonkey", made / "new/orange_square/1.png", "--no-cache")
    assert one.split("winner:")[1] == said.split("winner:")[1]
    line = refused("explain", made / "m.zonkey", made / "new", "--row", 24, "--no-cache")
    assert line.startswith("--row must be below the 24 rows of")


@pytest.mark.filterwarnings("default")  # to stderr, as for users
def test_damaged_pictures(made, tmp_path):
    for name in ("photos", "new"):
        shutil.copytree(made / name, tmp_path / name)
        (tmp_path / name / "red_square" / "1.png").write_bytes(b"no picture")
    fit = "fit", tmp_path / "photos", made / "classes.csv", *by(made), "-o", tmp_path / "m.zonkey"
    line = refused(*fit)
    assert line.startswith("red_square/1.png must be a picture")
    assert line.endswith(" Or pass --on-error skip.")
    warning = "Warning: Pictures should be readable; 1 of {} is not and was skipped. The first: red"
    found = zonkey_does(*fit, "--on-error", "skip")
    assert "Samples:    15; 1 skipped\n" in found.stdout
    assert found.stderr.startswith(warning.format(16))
    (skipped,) = json.loads(zonkey_does(*fit, "--on-error", "skip", "--json").stdout)["skipped"]
    assert skipped.startswith("red_square/1.png must be")
    use = tmp_path / "m.zonkey", tmp_path / "new", "--no-cache", "--on-error", "skip"
    found = zonkey_does("predict", *use, "-o", tmp_path / "p.csv", "--json")
    assert found.stderr.startswith(warning.format(24))
    assert json.loads(found.stdout)["rows"] == 23
    assert len(json.loads(found.stdout)["skipped"]) == 1
    assert "23 samples" in zonkey_does("evaluate", *use).stdout
    for picture in (tmp_path / "photos" / "red_square").iterdir():
        picture.write_bytes(b"no picture")
    lost = zonkey_does(*fit, "--on-error", "skip").stderr
    assert "Classes should have a picture that can be read; 'red_square' has none" in lost


# The encoder of the training


def test_another_revision_is_refused(made, tmp_path):
    shutil.copy(made / "colors.onnx", tmp_path)
    encoder = f"onnx:{tmp_path / 'colors.onnx'}"
    model = tmp_path / "m.zonkey"
    done("fit", made / "photos", made / "classes.csv", "--encoder", encoder, "-o", model)
    known = zonkey.model_info(model)["training"]["encoder"]["revision"]
    save_graph(tmp_path / "colors.onnx", seed=1)
    image_module._backends.clear()  # as in another process
    other = ImageEncoder(encoder).spec_["revision"]
    line = refused("predict", model, made / "new")
    assert line == (
        f"Pictures must be encoded as in training; m.zonkey was fitted with {encoder} (revision "
        f"{known}), and the one here is {encoder} (revision {other}). Use the files of the "
        "training, or fit again."
    )
    for command in ("evaluate", "explain"):
        assert refused(command, model, made / "new") == line
    assert refused("classes", "add", model, "--shots", made / "new") == line
    (tmp_path / "colors.onnx").unlink()
    image_module._backends.clear()
    line = refused("predict", model, made / "new")
    assert "does not exist" in line
    assert line.endswith(" If it is in another place now, pass --encoder.")
    # The files of the training in another place
    moved = "--encoder", f"onnx:{made / 'colors.onnx'}"
    assert done("predict", model, made / "new", *moved).startswith("file,label,predicted\n")
    # Features by another encoder, which the file names
    spec = np.array(json.dumps({"name": encoder, "revision": other, "dimension": 12}))
    X, _ = arrays(made / "new-plain.npz")
    np.savez(tmp_path / "other.npz", features=X, encoder=spec)
    line = refused("predict", model, tmp_path / "other.npz")
    assert f", and other.npz is {encoder} (revision {other})." in line
    done("predict", model, made / "new-plain.npz")


def test_a_model_of_features_takes_no_pictures_and_texts(made, tmp_path):
    model = tmp_path / "m.zonkey"
    done("fit", made / "photos-plain.npz", made / "vectors.csv", "-o", model)
    line = refused("predict", model, made / "new")
    assert line.startswith("Pictures need the encoder of the training; m.zonkey was fitted on feat")
    line = refused("classes", "add", model, made / "names.txt")
    assert line.startswith("Texts of classes need the text encoder of the training; m.zonkey was")
    done("predict", model, made / "new.npz")  # what encoded the training is not known
    zonkey.load(model).save(model, training={"encoder": "mine", "text_encoder": {"name": 1}})
    assert "Pictures need the encoder" in refused("predict", model, made / "new")
    done("info", model)


# classes


def test_classes_come_by_texts_and_pictures(made, tmp_path):
    model = tmp_path / "m.zonkey"
    few = pd.read_csv(made / "classes.csv").iloc[:5]
    few.to_csv(tmp_path / "few.csv", index=False)
    paths = made / "photos", tmp_path / "few.csv"
    done("fit", *paths, *by(made), "--candidates", "all", "-o", model)
    facts = zonkey.model_info(model)["training"]
    said = done("classes", "add", model, made / "classes.csv")
    assert said.startswith("Added: orange_square\n")
    other = pd.read_csv(made / "classes.csv").replace("a red colored square", "a cat")
    other.to_csv(tmp_path / "other.csv", index=False)
    line = refused("classes", "add", model, tmp_path / "other.csv")
    assert line.startswith("A known class keeps its prototype; that of 'red_square' in other.csv")
    expected = TextEncoder().prototypes(made / "classes.csv")["orange_square"]
    np.testing.assert_allclose(zonkey.load(model).prototypes_["orange_square"], expected, atol=1e-6)
    shots = tmp_path / "shots"
    shutil.copytree(made / "new" / "purple_square", shots / "purple_square")
    (shots / "purple_square").rename(shots / "Purple square")
    said = zonkey_does("classes", "add", model, "--shots", shots, "--no-cache")
    assert said.stderr == "Same classes in another spelling: Purple square is purple_square.\n"
    assert said.stdout.startswith("Learned: 4 samples of purple_square\n")
    assert "purple_square" in zonkey.load(model).seen_classes_
    done("classes", "remove", model, "red_square")
    assert zonkey.model_info(model)["training"] == facts
    assert len(rows(done("predict", model, shots, "--no-cache"))) == N_EACH


# Interruption


def test_ctrl_c_keeps_features(made, tmp_path, own_cache, monkeypatch):
    shutil.copytree(made / "new", tmp_path / "new")
    for i in range(20):
        shutil.copy(made / "new/red_square/0.png", tmp_path / "new/red_square" / f"{i + 9}.png")
    backend = ImageEncoder(f"onnx:{made / 'colors.onnx'}")._backend()
    encode, n = backend.encode, []

    def interrupted(batch):
        n.append(len(batch))
        if len(n) == 2:
            raise KeyboardInterrupt
        return encode(batch)

    monkeypatch.setattr(backend, "encode", interrupted)
    arguments = "predict", made / "m.zonkey", tmp_path / "new", "-o", tmp_path / "p.csv"
    found = zonkey_does(*arguments)
    assert (found.exit_code, found.stderr) == (
        130,
        "Interrupted; nothing was written; features so far are kept in the cache; run the same "
        "command again.\n",
    )
    assert not (tmp_path / "p.csv").exists()
    n.clear()
    found = zonkey_does(*arguments, "--no-cache")
    assert found.stderr == "Interrupted; nothing was written.\n"
    n[:] = [0, 0]
    assert done(*arguments).startswith("44 rows in ")
    assert 0 < sum(n) <= 12
    n.clear()
    monkeypatch.setenv("ZONKEY_CACHE", str(own_cache / "another"))
    found = zonkey_does("embed", tmp_path / "new", "-o", tmp_path / "x.npz", *by(made)[:2])
    assert found.stderr.startswith("Interrupted; nothing was written; features so far are kept")
    assert {path.name for path in tmp_path.iterdir()} == {"new", "p.csv"}


def test_features_need_no_package_for_pictures(made, monkeypatch):
    for package in ("PIL", "PIL.Image", "onnxruntime", "tokenizers"):
        monkeypatch.setitem(sys.modules, package, None)
    assert done("predict", made / "m.zonkey", made / "new.npz").startswith("labels,predicted\n")
    line = refused("predict", made / "m.zonkey", made / "new", "--no-cache")
    assert "zonkey[images]" in line


def test_a_picture_is_not_replaced_by_a_model(made):
    picture = next((made / "photos").rglob("*.png"))
    before = picture.read_bytes()
    line = refused("fit", made / "photos", made / "classes.csv", "-o", picture)
    assert "--output must not replace a picture" in line
    assert picture.read_bytes() == before


def test_the_column_of_labels_may_be_that_of_the_classes(made, tmp_path):
    table = pd.read_csv(made / "classes.csv").rename(columns={"label": "animal"})
    table.to_csv(tmp_path / "animals.csv", index=False)
    options = ("--label-column", "animal", *by(made), "-o", tmp_path / "m.zonkey")
    done("fit", made / "photos", tmp_path / "animals.csv", *options)
    assert zonkey.load(tmp_path / "m.zonkey").unseen_classes_.size
