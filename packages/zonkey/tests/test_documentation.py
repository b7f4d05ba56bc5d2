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
from zonkey.datasets import Dataset, Split, load_emoji

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "packages/zonkey/src/zonkey", ROOT / "packages/zonkey-lab/src")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(zonkey.__path__, "zonkey.")
    if "cli" not in module.name
)
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)  # language and content


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


def read(name):
    return (ROOT / name).read_text("utf-8")


def run_python(name):
    """Run the examples of a document in Python; return their names."""
    names = {}
    for language, block in BLOCKS.findall(read(name)):
        if language == "python":
            exec(block, names)
    return names


def run_commands(name, languages=("sh",), wanted=bool):
    """Run the commands in blocks of a document; return them."""
    lines = [
        line
        for language, block in BLOCKS.findall(read(name))
        if language in languages
        for line in block.splitlines()
        if wanted(line)
    ]
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "zonkey"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}: {done.output}"
    return lines


def is_call_on_files(line):
    return line.startswith("zonkey ") and re.search(r"\.(csv|onnx)", line)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run examples in a folder of their own, with a cache of their own."""
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def some_emoji():
    """Return every twelfth class of the emoji, and those of the examples."""
    data = load_emoji()
    labels = data.prototypes.labels
    kept = np.union1d(labels[::12], ["zebra", "donkey"])
    rows = np.flatnonzero(np.isin(data.y, kept))
    parts = (np.flatnonzero(np.isin(rows, getattr(data.split, part))) for part in PARTS)
    split = Split(**dict(zip(PARTS, parts, strict=True)))
    return Dataset("emoji", data.X[rows], data.y[rows], data.prototypes.subset(kept), split)


PARTS = ("train", "test_unseen", "test_seen")


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_readme_examples(folder, monkeypatch, some):
    """With all emoji, which takes long, the figures are those in the comments."""
    if some:
        monkeypatch.setattr(zonkey.datasets, "load_emoji", some_emoji)
        monkeypatch.setattr("zonkey.anyshot.adapting._SMALL_SIMULATIONS", 10)
    names = run_python("README.md")
    assert {"page.html", "emoji.zonkey", "emoji.onnx"} <= {path.name for path in folder.iterdir()}
    assert "zonkey" in names["wiser"].classes_
    assert "zebra" not in names["fewer"].classes_
    x = names["looks"][0] + names["looks"][1]
    assert names["paper"].predict([x]).tolist() == ["zebra"]
    assert names["novel"].predict([x]).tolist() == ["zebra"]
    assert len(np.unique(names["search"].cv_results_["mean_test_score"])) > 1
    assert names["adapted"].is_transductive_
    data, text = names["data"], read("README.md")
    promised = {
        r"zero\.score.*# ([\d.]+)": names["zero"].score(data.X_test_unseen, data.y_test_unseen),
        r'result\.scores\["hm"\]  # ([\d.]+)': names["result"].scores["hm"],
    }
    for pattern, found in promised.items():
        figure = float(re.search(pattern, text).group(1))
        # Near ties; some classes are learned from fewer others.
        assert found > figure / 2 if some else found == pytest.approx(figure, abs=0.015)


def test_commands_of_the_readme(folder):
    write_animals(folder)
    run_commands("README.md")
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


def test_examples_of_the_page_about_models():
    names = run_python("docs/models.md")
    assert names["model"].predict([[0.9, 0.9]]).tolist() == ["zebra"]


def test_examples_of_the_page_about_large_data():
    names = run_python("docs/scale.md")
    answers = names["model"].predict(names["rows"]).compute()
    assert (answers == names["y"]).mean() > 0.9
    assert not Path("fit.progress").exists()


def write_tables(name):
    """Write the tables of a document to the current folder."""
    for file, table in re.findall(r"`(\w+\.csv)`[^`]*?```csv\n(.*?)```", read(name), re.S):
        Path(file).write_text(table)


def test_examples_of_the_data_page():
    write_tables("docs/data.md")
    names = run_python("docs/data.md")
    assert names["data"].name == "emoji"
    assert names["own"].unseen_classes.tolist() == ["tiger"]
    printed = pd.read_csv("features.csv")
    answers = names["model"].predict(printed[["f1", "f2", "f3"]].to_numpy())
    assert answers.tolist() == printed["label"].tolist()
    assert len(run_commands("docs/data.md", ("", "sh"), is_call_on_files)) == 3
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


def test_examples_of_the_page_about_the_command_line():
    write_tables("docs/data.md")
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
    called = run_commands("docs/cli.md", ("", "sh"), is_call_on_files)
    verbs = [line.split()[1] for line in called]
    road = ["fit", "predict", "evaluate", "explain", "classes", "export"]
    assert verbs == ["classify", "data", *road, "fit", "predict", "classes", "fit"]


# Classes of the guide to pictures -> the emoji that stand for them.
DRAWN = {"truck": "delivery truck"}
BATCH = ("cat", "dog", "truck", "zebra", "ship")


def write_pictures(folder):
    """Write the folders and files that docs/pictures.md speaks of."""
    from PIL import Image

    data = load_emoji()
    write_tables("docs/pictures.md")

    def draw(label, style, *place):
        path = folder.joinpath(*place)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.thumbnail(DRAWN.get(label, label), style)).save(path)

    for label in pd.read_csv("classes.csv")["class"].tolist():
        draw(label, "twemoji", "test", label, "0.png")
        if label not in ("zebra", "ship"):
            for style in ("noto", "fluent-flat"):
                draw(label, style, "labeled", label, f"{style}.png")
    for i, label in enumerate(BATCH):
        draw(label, "twemoji", "photos", f"{i}.png")
    weights = Path(str(files("zonkey.encoders"))) / "data" / "efficientnet-lite0"
    for ending in (".onnx", ".json"):
        shutil.copy(weights.with_suffix(ending), folder / f"model{ending}")


def test_examples_of_the_guide_to_pictures(folder, monkeypatch):
    write_pictures(folder)
    # A sixteenth of the classes of ImageNet takes less time.
    module = importlib.import_module("zonkey.presets.pretraining")
    base = module._base("efficientnet-lite0")
    small = base.without(np.flatnonzero(np.arange(base.n_leaves) % 16))
    monkeypatch.setattr(module, "_base", {"efficientnet-lite0": small}.__getitem__)
    run_commands("docs/pictures.md")
    answers = pd.read_csv("answers.csv")
    assert answers["file"].tolist() == [f"{i}.png" for i in range(len(BATCH))]
    assert {"predicted", "top_3"} <= {*answers}
    assert {"page.html", "photos.zonkey", "prototypes.npz"} <= {p.name for p in Path().iterdir()}
    names = run_python("docs/pictures.md")
    assert names["names"][2] == "truck"
    assert names["few_shot"].predict(names["X_photos"]).tolist()[:3] == ["cat", "dog", "truck"]
    assert "donkey" in names["own"].classes_


def test_examples_of_the_guide_to_texts():
    text = read("docs/texts.md")
    for found in BLOCKS.finditer(text):
        if found[1] in ("csv", "") and not found[2].startswith("zonkey"):
            name = re.findall(r"`(\w+\.(?:csv|txt))`", text[: found.start()])[-1]
            Path(name).write_text(found[2])
    run_commands("docs/texts.md")
    names = run_python("docs/texts.md")
    expected = ["lost card", "exchange rate", "refund", "change pin"]
    assert names["answers"].tolist()[:4] == expected
    assert names["saved"].predict(["I want my money back"]).tolist() == ["refund"]
    assert pd.read_csv("answers.csv")["id"].tolist() == [1, 2, 3, 4, 5, 6]


def test_examples_of_the_guide_to_unsure_answers():
    names = run_python("docs/unsure.md")
    assert str(names["careful"].precision_) in read("docs/unsure.md")
    for answers in (names["answers"], names["also_careful"].predict(names["X_new"])):
        accepted = answers != "unknown"
        assert np.mean(answers[accepted] == names["y_new"][accepted]) > 0.9
        assert 0.2 < accepted.mean() < 0.4
    assert names["curve"].area == pytest.approx(names["result"].scores["aurc_seen"])
    animals = names["y_new"] == "Animals & Nature"
    assert names["strange"][animals].mean() > 2 * names["strange"][~animals].mean()
    run_commands("docs/unsure.md")
    written = pd.read_csv("answers.csv")["predicted"]
    assert np.mean(written == names["answers"]) > 0.99  # csv holds single precision


def test_examples_of_the_guide_to_priors():
    names = run_python("docs/priors.md")
    plain, told, estimated = (names[name] for name in ("plain", "told", "estimated"))
    assert f"from {100 * plain:.0f} to {100 * told:.0f} %" in read("docs/priors.md")
    assert plain + 0.05 < estimated
    is_seen = np.isin(names["mixed"].classes_, names["seen"])
    assert names["mostly_seen"].priors_[is_seen].sum() == pytest.approx(0.95)
    assert names["found"].shape == (9,)


def test_examples_of_the_guide_to_trees():
    write_tables("docs/trees.md")
    run_commands("docs/trees.md")
    groups = pd.read_csv("groups.csv")["predicted"].tolist()
    assert groups == ["card", "money", "card", "change pin"]
    answers = pd.read_csv("answers.csv")
    assert answers["path"][0] == "card > lost card"
    assert answers["predicted"][2] == "card"
    assert set(pd.read_csv("binned.csv")["predicted"]) <= {"urgent", "about cards"}
    names = run_python("docs/trees.md")
    assert {*names["tops"]} == {"animal", "plant"}
    assert names["probabilities"].shape[1] == len(names["model"].tree_.at_level(2))
    assert {len(path) for path in names["paths"]} >= {2, 3}
    assert {*names["where"]} == {"at home", "on a farm"}


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_files_and_functions_named_in_the_notation_exist():
    text = read("docs/notation.md")
    for name in set(re.findall(r"`([\w/]+\.py)", text)):
        assert any((source / name).exists() for source in SOURCES), name
    named = re.findall(r"`([\w/]+)\.py: (\w+)(?:\.(\w+))?`", text)
    assert named
    for file, function, method in named:
        module = file.replace("/", ".") if file.startswith("zonkey_lab") else f"zonkey.{file}"
        found = getattr(importlib.import_module(module.replace("/", ".")), function)
        assert not method or hasattr(found, method), (file, function, method)


def test_every_equation_is_cited_by_number_and_label():
    rows = re.findall(r"^\| (\d+) \| (\w*) ?\|", read("docs/notation.md"), re.M)
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
