"""`zonkey embed` and `zonkey classify`: pictures and texts to files that other commands read."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from model_files import done, refused, zonkey_does
from zonkey import load, presets
from zonkey.app import classification
from zonkey.app.writing import open_output
from zonkey.encoders import ImageEncoder, Pictures, TextEncoder
from zonkey.files.classes import read_prototypes
from zonkey.files.emoji import load_emoji
from zonkey.files.own import load_features
from zonkey.files.readers import stored_arrays
from zonkey.files.streams import FeatureStream
from zonkey.persistence.model import model_info
from zonkey.presets import pretraining

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")

CLASSES = ("bus", "pizza", "zebra")
NAMES = ", ".join(CLASSES)
N_EACH = 3
SKIPPED = "Warning: Pictures should be readable; 2 of 11 are not and were skipped. The first: bus"
DAMAGED = b"\x89PNG\r\n\x1a\n and nothing else"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache, monkeypatch):
    monkeypatch.setenv("ZONKEY_CACHE", str(cache))


@pytest.fixture(scope="module")
def base():
    return pretraining._base("efficientnet-lite0")


@pytest.fixture
def small_base(base, monkeypatch):
    """Let the pretrained model know an eighth of the classes of ImageNet, which takes less time."""
    small = base.without(np.flatnonzero(np.arange(base.n_leaves) % 8))
    monkeypatch.setattr(pretraining, "_base", {"efficientnet-lite0": small}.__getitem__)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Draw some emoji in one folder per class; each picture of a class differs."""
    folder, emoji = tmp_path_factory.mktemp("files") / "photos", load_emoji()
    for label in CLASSES:
        (folder / label).mkdir(parents=True)
        for i in range(N_EACH):
            picture = Image.fromarray(emoji.thumbnail(label))
            picture.resize((200 + i, 200)).save(folder / label / f"{i}.png")
    return folder


@pytest.fixture
def damaged(photos, tmp_path):
    """Copy the pictures, and add two that cannot be read."""
    folder = tmp_path / "damaged"
    for path in photos.rglob("*.png"):
        target = folder / path.relative_to(photos)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for name in ("bus/bad.png", "zebra/bad.png"):
        (folder / name).write_bytes(DAMAGED)
    return folder


@pytest.fixture(scope="module")
def expected(photos):
    """Return the features and the names of the pictures."""
    pictures = Pictures.of(photos)
    return ImageEncoder().transform(pictures), pictures.names


def no_picture_is_read(monkeypatch):
    def read(self, i):
        raise AssertionError(f"{self.names[i]} was read")

    monkeypatch.setattr(Pictures, "read", read)


def rows_of(text):
    return [line.split(",") for line in text.splitlines()]


# embed: pictures


@pytest.mark.parametrize("ending", ["npz", "csv", "tsv", "parquet", "jsonl", "npy"])
def test_embedded_pictures_are_features(photos, expected, tmp_path, ending):
    output = tmp_path / f"x.{ending}"
    said = done("embed", photos, "-o", output)
    assert said.startswith(f"9 pictures in {output}: 1280 dimensions\nEncoder: efficientnet-lite0")
    X, names = expected
    is_npy = ending == "npy"
    blocks = list(FeatureStream(output, with_labels=not is_npy))
    np.testing.assert_allclose(np.concatenate([b.X for b in blocks]), X, rtol=1e-6, atol=1e-7)
    if not is_npy:
        found = [name for b in blocks for name in pd.Series(b.carried["file"]).tolist()]
        assert found == names
        labels = np.concatenate([b.labels for b in blocks])
        assert labels.tolist() == [name.split("/")[0] for name in names]


def test_from_pictures_and_texts_to_a_model(photos, tmp_path):
    x, p, model = tmp_path / "x.npz", tmp_path / "p.npz", tmp_path / "m.zonkey"
    (tmp_path / "classes.txt").write_text("\n".join([*CLASSES, "pie"]))
    done("embed", photos, "-o", x)
    done("embed", tmp_path / "classes.txt", "--classes", "-o", p)
    done("fit", x, p, "-o", model, "--candidates", "all")
    header, *rows = rows_of(done("predict", model, x))
    assert header[0] == "file"
    assert [row[-1] for row in rows] == [row[0].split("/")[0] for row in rows]
    again = rows_of(done("predict", model, photos))[1:]  # npz names the encoder
    assert [row[-1] for row in again] == [row[-1] for row in rows]


@pytest.mark.parametrize("ending", ["npz", "csv", "jsonl"])
def test_columns_of_a_table_are_kept(photos, tmp_path, ending):
    table = "file_name,label,split,caption,age\n"
    marks = ("train", "train", "test")
    for label in CLASSES:
        table += "".join(f"{label}/{i}.png,{label},{marks[i]},a {label},{i}\n" for i in range(3))
    (photos / "pictures.csv").write_text(table)
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    output, prototypes = tmp_path / f"x.{ending}", tmp_path / "p.csv"
    found = zonkey_does("embed", photos / "pictures.csv", "-o", output)
    assert found.exit_code == 0
    is_csv = ending == "csv"  # where a column of numbers would be a feature
    assert found.stderr.startswith("Left out: age.") == is_csv
    (block,) = FeatureStream(output)
    assert block.X.shape == (9, 1280)
    assert {"file", "split", "caption"} <= {*block.carried}
    assert ("age" in block.carried) != is_csv
    done("embed", tmp_path / "classes.txt", "--classes", "-o", prototypes)
    data = load_features(output, prototypes)
    assert len(data.split.train) == 6
    assert len(data.split.test_seen) == 3


def test_a_column_with_the_name_of_an_array_is_refused(photos, tmp_path):
    (photos / "named.csv").write_text("file,features\nbus/0.png,none\n")
    line = refused("embed", photos / "named.csv", "-o", tmp_path / "x.npz")
    assert line.startswith("Columns of the output must differ;")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("default")  # to stderr, as for users
def test_damaged_pictures(damaged, expected, tmp_path):
    output = tmp_path / "x.npz"
    assert "bus/bad.png" in refused("embed", damaged, "-o", output)
    assert not output.exists()
    found = zonkey_does("embed", damaged, "-o", output, "--on-error", "skip", "--json")
    record = json.loads(found.stdout)
    assert (record["rows"], len(record["skipped"])) == (9, 2)
    with np.load(output) as file:
        assert sorted(file) == ["encoder", "features", "file", "labels"]
        assert file["features"].dtype == np.float32
        assert np.array_equal(file["features"], expected[0])
        assert file["file"].tolist() == expected[1]
        assert json.loads(str(file["encoder"])) == ImageEncoder().spec_
    assert found.stderr.startswith(SKIPPED)


@pytest.mark.filterwarnings("default")  # to stderr, as for users
def test_all_pictures_are_damaged(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(DAMAGED)
    for ending in ("npz", "parquet", "csv"):
        output = tmp_path / f"x.{ending}"
        assert "a.png" in refused("embed", tmp_path / "photos", "-o", output, "--on-error", "skip")
        assert not output.exists()


def test_the_second_run_reads_no_picture(photos, tmp_path, monkeypatch):
    done("embed", photos, "-o", tmp_path / "x.npz")
    no_picture_is_read(monkeypatch)
    done("embed", photos, "-o", tmp_path / "y.npz")
    assert (tmp_path / "x.npz").read_bytes()[-200:] == (tmp_path / "y.npz").read_bytes()[-200:]
    found = zonkey_does("embed", photos, "-o", tmp_path / "z.npz", "--no-cache")
    assert str(found.exception).endswith("was read")


@pytest.mark.parametrize("ending", ["npz", "npy"])
def test_memory_does_not_depend_on_the_number_of_rows(tmp_path, ending):
    block, n_blocks = np.arange(64_000, dtype=np.float32).reshape(64, 1000), 200  # 51 MB in all
    tracemalloc.start()
    with open_output(tmp_path / f"x.{ending}") as write:
        for _ in range(n_blocks):
            write({"features": block})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    (array,) = stored_arrays(tmp_path / f"x.{ending}")
    assert array.shape == (64 * n_blocks, 1000)
    assert all(np.array_equal(found, block) for found in array.blocks(64))


# embed: texts


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz"])
def test_embedded_texts_are_prototypes(tmp_path, ending):
    source, output = tmp_path / "classes.csv", tmp_path / f"p.{ending}"
    source.write_text("label,looks,sound\nzebra,a striped horse,neigh\nbus,a long car,honk\n")
    first, second = templates = "a photo of a {}", "a drawing of a {}"
    options = "--classes", "--text", "looks", "--template", first, "--template", second
    record = json.loads(done("embed", source, "-o", output, *options, "--json"))
    encoder = TextEncoder(templates=[*templates])
    texts = {"zebra": ["zebra", "zebra: a striped horse"], "bus": ["bus", "bus: a long car"]}
    expected = encoder.prototypes(texts)
    found = read_prototypes(output)
    assert found.labels.tolist() == ["bus", "zebra"]
    np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-6)
    assert record["encoder"] == encoder.spec_
    assert record["rows"] == 2


# classify


def test_classes_by_name(photos):
    found = zonkey_does("classify", photos, "--classes", NAMES)
    header, *rows = rows_of(found.stdout)
    assert header == ["file", "label", "predicted"]
    assert len(rows) == 9
    agreeing = sum(label == predicted for _, label, predicted in rows)
    assert agreeing >= 6
    share = f"{agreeing / 9:.1%}".replace("%", " %")
    assert found.stderr == f"Labels of SOURCE agree with {share} of 9 predictions.\n"


@pytest.mark.usefixtures("small_base")
def test_one_picture(photos):
    picture = photos / "zebra" / "0.png"
    out = done("classify", picture, "--classes", "zebra, bus", "--top", 2, "--proba")
    header, row = rows_of(out)
    assert header == ["file", "predicted", "top_1", "top_2", "proba_1", "proba_2"]
    assert row[0] == "0.png"
    assert row[1] == row[2]
    assert {*row[2:4]} == {"bus", "zebra"}
    assert float(row[4]) + float(row[5]) == pytest.approx(1, abs=1e-5)


@pytest.mark.usefixtures("small_base")
def test_without_names_all_pretrained_classes_compete(photos):
    header, row = rows_of(done("classify", photos / "zebra" / "0.png", "--top", 3))
    assert len(header) == len(row) == 5


@pytest.mark.usefixtures("small_base")
def test_a_class_file_and_a_summary(photos, tmp_path):
    (tmp_path / "classes.csv").write_text(
        "label,text\nZebra,a striped horse\nBUS,a vehicle\npizza,food\n"
    )
    output = tmp_path / "answers.parquet"
    found = zonkey_does("classify", photos, "--classes", tmp_path / "classes.csv", "-o", output)
    table = pd.read_parquet(output)
    assert {*table["predicted"]} <= {"Zebra", "BUS", "pizza"}
    agreeing = (table["predicted"].str.lower() == table["label"]).mean()
    assert f"agree with {agreeing * 100:.1f} % of 9 predictions" in found.stderr
    lines = found.stdout.splitlines()
    counts = table["predicted"].value_counts()
    assert {line.split()[0]: int(line.split()[1]) for line in lines[:-1]} == counts.to_dict()
    assert lines[-1].startswith(f"9 rows in {output}")
    done_as_json = done("classify", photos, "--classes", NAMES, "-o", output, "--json")
    record = json.loads(done_as_json)
    assert (record["rows"], record["labeled"], record["skipped"]) == (9, 9, [])
    assert sum(record["counts"].values()) == 9


@pytest.mark.usefixtures("small_base")
def test_shots_teach_and_new_classes_join(photos, tmp_path):
    options = "--classes", "Bus, PIZZA, truck", "--shots", photos, "--json"
    found = zonkey_does("classify", photos, *options, "--save", tmp_path / "m.zonkey")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    spelled = {"bus": "Bus", "pizza": "PIZZA", "zebra": "zebra"}
    assert [row["predicted"] for row in rows] == [spelled[row["label"]] for row in rows]
    model = load(tmp_path / "m.zonkey")
    assert model.classes_.tolist() == ["Bus", "PIZZA", "truck", "zebra"]
    assert {"Bus", "PIZZA", "zebra"} <= {*model.seen_classes_.tolist()}
    training = model_info(tmp_path / "m.zonkey")["training"]
    image, text = presets.pretrained_encoders()
    assert training["encoder"] == image.spec_
    assert training["text_encoder"] == text.spec_
    again = zonkey_does("predict", tmp_path / "m.zonkey", photos, "--json")
    assert again.stdout == found.stdout


@pytest.mark.usefixtures("small_base")
def test_pictures_marked_test_are_no_shots(photos, tmp_path):
    marks = "file_name,label,split\nbus/2.png,,train\nbus/1.png,lorry,test\n"
    marks += "".join(f"{label}/0.png,{label},train\n" for label in CLASSES)
    shots, model, picture = photos / "marked.csv", tmp_path / "m.zonkey", photos / "bus" / "1.png"
    shots.write_text(marks)
    found = zonkey_does("classify", picture, "--shots", shots, "--save", model)
    assert rows_of(found.stdout)[1] == ["1.png", "bus"]
    assert found.stderr.startswith(f"Model: {model} (")
    assert load(model).classes_.tolist() == [*CLASSES]
    shots.write_text("file_name,label,split\nbus/1.png,bus,test\nzebra/1.png,,train\n")
    assert "has none" in refused("classify", picture, "--shots", shots)


@pytest.mark.parametrize("most", [1 << 16, 4])
@pytest.mark.usefixtures("small_base")
def test_adapt(photos, monkeypatch, most):
    """The pictures themselves are the unlabeled samples, or some of them if there are many."""
    monkeypatch.setattr(classification, "_MOST_KEPT", most)
    batches, adapt = [], presets.pretrained(classes=list(CLASSES)).__class__.adapt

    def noting(self, X):
        batches.append(X)
        return adapt(self, X)

    monkeypatch.setattr("zonkey.AnyShotClassifier.adapt", noting)
    found = zonkey_does("classify", photos, "--classes", NAMES, "--adapt")
    assert len(rows_of(found.stdout)) == 1 + 9
    X = ImageEncoder().transform(photos)
    assert np.array_equal(batches[0], X[:: 1 if most > 4 else 3])


@pytest.mark.filterwarnings("default")  # to stderr, as for users
@pytest.mark.usefixtures("small_base")
def test_damaged_pictures_are_refused_or_skipped(damaged):
    assert "bus/bad.png" in refused("classify", damaged, "--classes", NAMES)
    found = zonkey_does("classify", damaged, "--classes", NAMES, "--on-error", "skip")
    assert found.exit_code == 0
    assert len(rows_of(found.stdout)) == 1 + 9
    assert found.stderr.startswith(SKIPPED)


# What is refused, with names of files in the folder of the test; NAMES are three classes.
REFUSED = {
    "embed empty -o x.npz": "must hold pictures that end in .jpg, .png or the like",
    "embed nowhere -o x.npz": "does not exist",
    "embed photos -o x.txt": "--output must end in .npz or .csv",
    "embed photos -o no/x.npz": "--output must be a file to write to",
    "embed photos -o x.npz --template a{}": "--template is for texts",
    "embed photos -o x.npz --encoder resnet": "resnet",
    "embed classes.csv --classes -o x.jsonl": "--output must end in .csv",
    "embed classes.csv --classes -o x.csv --text story": "--text must name a column",
    "embed classes.csv -o x.csv --text label --text text": "--text must name one column, or "
    "describe classes; got label, text. Pass --classes",
    "embed classes.csv -o x.csv --template a": "--template must hold {}",
    "embed classes.csv -o classes.csv": "must not be a file to read from",
    "embed . -o metadata.csv": "--output must not be a file to read from",
    "classify . -o metadata.csv": "--output must not be a file to read from",
    "classify photos --classes classes.csv -o classes.csv": "--output must not be a file to read",
    "classify photos --classes cat": "--classes must name at least two classes; got cat",
    "classify photos --classes sea-lion,Sea_Lion": "are the same class after case",
    "classify photos --classes cat,dog,cat": "Names of classes must differ",
    "classify photos --classes ,": "Classes must be names with commas between them",
    "classify photos --classes missing.txt": "missing.txt does not exist",
    "classify photos --classes NAMES --top 4": "--top must be at most the 3 classes",
    "classify photos --classes NAMES -o x.txt": "--output must end in",
    "classify photos --classes NAMES -o no/x.csv": "--output must be a file to write to",
    "classify photos --classes NAMES --save no/m.zonkey": "--save must be a file to write",
    "classify photos --classes NAMES --shots photos/bus": "Pictures need labels",
    "classify empty --classes NAMES": "must hold pictures that end in .jpg",
    "classify nowhere --classes NAMES": "nowhere does not exist",
}


@pytest.mark.parametrize("arguments", REFUSED)
@pytest.mark.usefixtures("small_base")
def test_what_is_refused(photos, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "classes.csv").write_text("label,text\nzebra,a striped horse\nbus,a vehicle\n")
    (tmp_path / "metadata.csv").write_text("file_name,label\nphotos/bus/0.png,bus\n")
    before = sorted(tmp_path.iterdir())
    line = refused(*(NAMES if word == "NAMES" else word for word in arguments.split()))
    assert REFUSED[arguments] in line
    assert sorted(tmp_path.iterdir()) == before
