"""Documents are correct: examples run, links lead somewhere, named files and equations exist."""

import doctest
import importlib
import pkgutil
import re
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import zonkey
from zonkey.cli import app
from zonkey.files.emoji import load_emoji

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "packages/zonkey/src/zonkey", ROOT / "packages/zonkey-lab/src")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(zonkey.__path__, "zonkey.")
    if "cli" not in module.name
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), re.S)


def test_readme_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks("README.md")
    names = {}
    for block in blocks:
        exec(block, names)
    assert {"page.html", "emoji.zonkey", "emoji.onnx"} <= {path.name for path in tmp_path.iterdir()}
    assert "zonkey" in names["wiser"].classes_
    assert "zebra" not in names["fewer"].classes_
    x = names["looks"][0] + names["looks"][1]
    assert names["paper"].predict([x]).tolist() == ["zebra"]
    assert names["novel"].predict([x]).tolist() == ["zebra"]
    assert len(np.unique(names["search"].cv_results_["mean_test_score"])) > 1
    assert names["adapted"].is_transductive_
    data, text = names["data"], "".join(blocks)
    score = names["zero"].score(data.X_test_unseen, data.y_test_unseen)
    promised = {
        r"zero\.score.*# ([\d.]+)": score,
        r'result\.scores\["hm"\]  # ([\d.]+)': names["result"].scores["hm"],
    }
    for pattern, found in promised.items():
        assert found == pytest.approx(
            float(re.search(pattern, text).group(1)), abs=0.015
        )  # near ties


def test_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_animals(tmp_path)
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.S)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "zonkey"
        outcome = CliRunner().invoke(app, arguments)
        assert outcome.exit_code == 0, f"{line}: {outcome.output}"
    answers = pd.read_csv("answers.csv")
    assert answers["id"].tolist() == [0, 1, 2]
    assert {"predicted", "top_3", "proba_3"} <= {*answers}
    assert "quagga" in zonkey.load("animals.zonkey").classes_


def write_animals(folder):
    """Write the files that the commands of the README read."""
    rng = np.random.default_rng(0)
    names = [f"animal {i}" for i in range(9)]
    known = pd.DataFrame(rng.uniform(size=(9, 4)), columns=["stripes", "mane", "ears", "size"])
    known.insert(0, "class", names)
    known.to_csv(folder / "prototypes.csv", index=False)
    new = pd.DataFrame([["quagga", 0.5, 1.0, 0.2, 0.7]], columns=[*known])
    new.to_csv(folder / "more-classes.csv", index=False)
    looks = rng.normal(size=(4, 8))
    for file, classes in {"features": 7, "test": 9, "new": 3}.items():
        of_row = np.arange(classes).repeat(1 if file == "new" else 10)
        X = known.iloc[of_row, 1:].to_numpy() @ looks + rng.normal(size=(len(of_row), 8)) / 5
        table = pd.DataFrame(X, columns=[f"f{i}" for i in range(8)])
        table.insert(0, "id", np.arange(len(table)))
        if file != "new":
            table.insert(1, "label", np.array(names)[of_row])
        table.to_csv(folder / f"{file}.csv", index=False)


def test_examples_of_the_page_about_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks("docs/models.md"):
        exec(block, names)
    assert names["model"].predict([[0.9, 0.9]]).tolist() == ["zebra"]


def test_examples_of_the_page_about_large_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks("docs/scale.md"):
        exec(block, names)
    answers = names["model"].predict(names["rows"]).compute()
    assert (answers == names["y"]).mean() > 0.9
    assert not Path("fit.progress").exists()


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    """Write the tables of docs/data.md to the current folder."""
    text = (ROOT / "docs" / "data.md").read_text("utf-8")
    for name, table in re.findall(r"`(\w+\.csv)`[^`]*?```csv\n(.*?)```", text, re.S):
        (tmp_path / name).write_text(table)
    monkeypatch.chdir(tmp_path)
    return text


def run_commands(text):
    """Run every line of a document that calls `zonkey` on files; return what was called."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    lines = [line for kind, block in blocks if kind in ("", "sh") for line in block.splitlines()]
    called = [
        line for line in lines if line.startswith("zonkey ") and re.search(r"\.(csv|onnx)", line)
    ]
    for line in called:
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"
    return called


def test_examples_of_the_data_page(own_files):
    names = {}
    for block in python_blocks("docs/data.md"):
        exec(block, names)
    assert names["data"].name == "emoji"
    assert names["own"].unseen_classes.tolist() == ["tiger"]
    printed = pd.read_csv("features.csv")
    answers = names["model"].predict(printed[["f1", "f2", "f3"]].to_numpy())
    assert answers.tolist() == printed["label"].tolist()
    assert len(run_commands(own_files)) == 3
    predicted = pd.read_csv("predictions.csv")
    assert predicted["predicted"].tolist() == predicted["label"].tolist()


def draw(folder, labels):
    """Draw two pictures per label to the current folder."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(len(folder))
    for label in labels:
        (Path(folder) / label).mkdir(parents=True)
        for i in range(2):
            pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            image.fromarray(pixels).save(Path(folder) / label / f"{i}.png")


@pytest.mark.usefixtures("own_files")
def test_examples_of_the_page_about_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    draw("photos", ["horse", "tiger", "cow"])
    draw("new-photos", ["zebra"])
    draw("more-photos", ["quagga", "zebra"])
    Path("classes.csv").write_text("label,text\nhorse,rides\ntiger,hunts\ncow,grazes\nzebra,\n")
    Path("more-classes.csv").write_text("label,text\nquagga,half a zebra\n")
    Path("new.csv").write_text("id,f3,f1,f2\n7,0.4,0.8,0.5\n")
    Path("test.csv").write_text("label,f1,f2,f3\nzebra,0.8,0.5,0.4\nokapi,0.5,0.3,0.2\n")
    Path("more-prototypes.csv").write_text("class,stripes,mane\nquagga,0.6,0.9\n")
    Path("features").mkdir()
    pd.read_csv("features.csv").to_parquet("features/part-0.parquet")
    called = run_commands((ROOT / "docs" / "cli.md").read_text("utf-8"))
    verbs = [line.split()[1] for line in called]
    road = ["fit", "predict", "evaluate", "explain", "classes", "export"]
    assert verbs == ["classify", "data", *road, "fit", "predict", "classes", "fit"]


# Classes of the guide to pictures -> the emoji that stand for them.
DRAWN = {"truck": "delivery truck"}
BATCH = ("cat", "dog", "truck", "zebra", "ship")


@pytest.fixture
def drawn_files(tmp_path, monkeypatch):
    """Write the folders and files that docs/pictures.md speaks of to the current folder."""
    from PIL import Image

    data, text = load_emoji(), (ROOT / "docs" / "pictures.md").read_text("utf-8")
    for name, table in re.findall(r"`(\w+\.csv)`[^`]*?```csv\n(.*?)```", text, re.S):
        (tmp_path / name).write_text(table)
    classes = pd.read_csv(tmp_path / "classes.csv")["class"].tolist()

    def draw(label, style, *place):
        path = tmp_path.joinpath(*place)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.thumbnail(DRAWN.get(label, label), style)).save(path)

    for label in classes:
        draw(label, "twemoji", "test", label, "0.png")
        if label not in ("zebra", "ship"):
            for style in ("noto", "fluent-flat"):
                draw(label, style, "labeled", label, f"{style}.png")
    for i, label in enumerate(BATCH):
        draw(label, "twemoji", "photos", f"{i}.png")
    weights = Path(str(files("zonkey.encoders"))) / "data" / "efficientnet-lite0"
    for ending in (".onnx", ".json"):
        shutil.copy(weights.with_suffix(ending), tmp_path / f"model{ending}")
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    # An eighth of the classes of ImageNet takes less time.
    module = importlib.import_module("zonkey.presets.pretraining")
    base = module._base("efficientnet-lite0")
    small = base.without(np.flatnonzero(np.arange(base.n_leaves) % 8))
    monkeypatch.setattr(module, "_base", {"efficientnet-lite0": small}.__getitem__)
    return text


def test_examples_of_the_guide_to_pictures(drawn_files):
    for block in re.findall(r"^```sh\n(.*?)^```$", drawn_files, re.S | re.M):
        for line in block.splitlines():
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}: {done.output}"
    answers = pd.read_csv("answers.csv")
    assert answers["file"].tolist() == [f"{i}.png" for i in range(len(BATCH))]
    assert {"predicted", "top_3"} <= {*answers}
    assert {"page.html", "photos.zonkey", "prototypes.npz"} <= {p.name for p in Path().iterdir()}
    names = {}
    for block in python_blocks("docs/pictures.md"):
        exec(block, names)
    assert names["names"][2] == "truck"
    assert names["few_shot"].predict(names["X_photos"]).tolist()[:3] == ["cat", "dog", "truck"]
    assert "donkey" in names["own"].classes_


def test_examples_of_the_guide_to_texts(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "texts.md").read_text("utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        if found[1] in ("csv", "") and not found[2].startswith("zonkey"):
            name = re.findall(r"`(\w+\.(?:csv|txt))`", text[: found.start()])[-1]
            (tmp_path / name).write_text(found[2])
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M):
        for line in block.splitlines():
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}: {done.output}"
    names = {}
    for block in python_blocks("docs/texts.md"):
        exec(block, names)
    expected = ["lost card", "exchange rate", "refund", "change pin"]
    assert names["answers"].tolist()[:4] == expected
    assert names["saved"].predict(["I want my money back"]).tolist() == ["refund"]
    assert pd.read_csv("answers.csv")["id"].tolist() == [1, 2, 3, 4, 5, 6]


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_files_named_in_the_notation_exist():
    text = (ROOT / "docs" / "notation.md").read_text("utf-8")
    for name in set(re.findall(r"`([\w/]+\.py)", text)):
        assert any((source / name).exists() for source in SOURCES), name


def test_functions_named_in_the_notation_exist():
    text = (ROOT / "docs" / "notation.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+)\.py: (\w+)(?:\.(\w+))?`", text)
    assert named
    for file, function, method in named:
        module = file.replace("/", ".") if file.startswith("zonkey_lab") else f"zonkey.{file}"
        found = getattr(importlib.import_module(module.replace("/", ".")), function)
        assert not method or hasattr(found, method), (file, function, method)


def test_every_equation_is_cited_by_number_and_label():
    text = (ROOT / "docs" / "notation.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (\w*) ?\|", text, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, 24))
    files = [path for source in SOURCES for path in source.rglob("*.py")]
    code = " ".join(re.sub(r"\s+", " ", path.read_text("utf-8")) for path in files)
    cited = cited_equations(code)
    missing = [row for row in rows if row not in cited]
    assert not missing, "not cited in src as 'Eq. NUMBER (LABEL)'"
    assert not [pair for pair in cited if pair[1] and pair not in rows], "not in docs/notation.md"


def cited_equations(code):
    """Return (number, label) of "Eq. 1 (generate)", "Eqs. 3 (a) and 16 (b)" and "Eqs. 5 to 7"."""
    found = set()
    one = r"\d+(?: \(\w+\))?"
    for citation in re.findall(rf"Eqs?\. ({one}(?:(?:,| and|, and| to) {one})*)", code):
        numbers = re.findall(r"(\d+)(?: \((\w+)\))?", citation)
        found.update(numbers)
        if " to " in citation:
            first, last = int(numbers[0][0]), int(numbers[-1][0])
            found.update((str(number), "") for number in range(first, last + 1))
    return found


def test_citations_of_equations_are_read():
    code = "Eq. 1 (generate) and Eqs. 3 (subgrad0) and 16 (subgrad01); Eqs. 5 to 7. Eq. 8."
    assert cited_equations(code) == {
        *{("1", "generate"), ("3", "subgrad0"), ("16", "subgrad01")},
        *{("5", ""), ("6", ""), ("7", ""), ("8", "")},
    }
