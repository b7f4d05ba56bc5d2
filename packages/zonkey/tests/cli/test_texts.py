"""Texts as samples, from files to answers: classify, fit, predict, evaluate, explain, embed."""

import json
import sys
from io import BytesIO, StringIO, TextIOWrapper

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import few_simulations, zonkey_does
from zonkey import app
from zonkey.encoders import TextEncoder
from zonkey.files.own import load_features

pytest.importorskip("onnxruntime")

__all__ = ["few_simulations"]

SAID = {
    "lost card": ["I lost my card", "my card was stolen", "where is my card? I cannot find it"],
    "exchange rate": ["what is the rate for euros", "the exchange rate is wrong", "dollar rates"],
    "refund": ["I want my money back", "please refund my payment", "give me a refund"],
    "change pin": ["how do I set a new pin", "change my pin please", "I need another PIN"],
}
NEW = {
    "lost card": "somebody stole my card",
    "exchange rate": "how many dollars for one euro",
    "refund": "I would like a refund",
    "change pin": "let me pick a new pin",
}
NAMES = ", ".join(SAID)
LONG = "some words about cards " * 100


def run(*arguments):
    """Return what a command prints on stdout; the note about the column goes to stderr."""
    found = zonkey_does(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Tables of texts with labels, a file of lines, names of classes, and a fitted model."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [(text, label) for label, texts in SAID.items() for text in texts]
    pd.DataFrame(rows, columns=["text", "intent"]).to_csv(folder / "train.csv", index=False)
    new = pd.DataFrame({"id": range(4), "text": [*NEW.values()], "intent": [*NEW]})
    new.to_csv(folder / "new.csv", index=False)
    new.rename(columns={"text": "said"})[["id", "said"]].to_csv(folder / "said.csv", index=False)
    (folder / "lines.txt").write_text("\n".join(NEW.values()))
    (folder / "names.txt").write_text("\n".join(NEW))
    numbers = pd.DataFrame({"label": [*NEW], "f1": range(4), "f2": range(4)})
    numbers.to_csv(folder / "features.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZONKEY_CACHE", str(folder / "cache"))
        run("fit", folder / "train.csv", folder / "names.txt", "-o", folder / "m.zonkey")
    return folder


@pytest.fixture(autouse=True)
def own_cache(made, monkeypatch):
    monkeypatch.setenv("ZONKEY_CACHE", str(made / "cache"))


# Without labels


@pytest.mark.parametrize(
    ("source", "options"),
    [("new.csv", []), ("lines.txt", []), ("said.csv", []), ("new.csv", ["--text-column", "text"])],
)
def test_names_alone_classify_texts(made, tmp_path, source, options):
    output = tmp_path / "a.csv"
    named = "--classes", NAMES, *options, "--proba", "-o", output
    found = zonkey_does("classify", made / source, *named)
    assert found.exit_code == 0, found.output
    answers = pd.read_csv(output)
    assert answers["predicted"].tolist() == [*NEW]
    assert answers.columns[-1] == "proba_1"
    column = "said" if source == "said.csv" else "text"
    assert answers[column].tolist() == [*NEW.values()]
    told = f"Texts: column {column!r} of {made / source}."
    assert (told in found.stderr) == (source != "lines.txt")


def test_labels_of_texts_are_compared(made):
    found = zonkey_does(
        "classify", made / "new.csv", "--classes", NAMES, "--label-column", "intent"
    )
    assert "Labels of SOURCE agree with 100.0 % of 4 predictions." in found.stderr


@pytest.mark.usefixtures("few_simulations")
def test_shots_and_adapt_and_a_saved_model(made, tmp_path):
    model = tmp_path / "m.zonkey"
    shots = "--shots", made / "train.csv", "--save", model, "--adapt", "--reject-below", "0"
    found = zonkey_does("classify", made / "said.csv", *shots)
    assert found.exit_code == 0, found.output
    facts = zonkey.model_info(model)["training"]
    assert facts["encoder"]["kind"] == "text"
    assert facts["text_column"] == "said"
    assert pd.read_csv(BytesIO(found.stdout.encode()))["predicted"].tolist() == [*NEW]
    again = run("predict", model, made / "said.csv")
    assert again == found.stdout
    # Of two columns of text, that of the samples holds the shots.
    shots = [(text, "new", label) for label, texts in SAID.items() for text in texts]
    pd.DataFrame(shots, columns=["said", "note", "label"]).to_csv(tmp_path / "s.csv", index=False)
    said = run("classify", made / "said.csv", "--shots", tmp_path / "s.csv")
    assert pd.read_csv(StringIO(said))["predicted"].tolist() == [*NEW]


def test_the_least_probability_of_an_answer(made):
    options = "classify", made / "lines.txt", "--classes", NAMES, "--proba"
    sure = pd.read_csv(StringIO(run(*options)))["proba_1"]
    below = sorted(sure)[1]  # one answer is less sure
    found = pd.read_csv(StringIO(run(*options, "--reject-below", below - 1e-6)))["predicted"]
    assert (found == "unknown").tolist() == (sure < below).tolist()
    assert (found == "unknown").sum() == 1
    novelty = pd.read_csv(StringIO(run(*options, "--novelty")))["novelty"]
    assert (novelty > 0).all()


def test_a_precision_that_held_out_texts_show(made, tmp_path):
    options = "classify", made / "lines.txt", "--classes", NAMES, "--precision", "0.6"
    labeled = made / "train.csv"
    found = zonkey_does(*options, "--held-out", labeled, "--save", tmp_path / "m.zonkey")
    assert found.exit_code == 0, found.output
    assert "Answers are accepted from" in found.stderr
    model = zonkey.load(tmp_path / "m.zonkey")
    assert model.precision_.n_samples == len(pd.read_csv(labeled))
    assert model.precision_.wanted == 0.6
    refused = zonkey_does(*options)
    assert refused.exit_code == 2
    assert "each candidate has several" in refused.stderr
    assert "or --held-out" in refused.stderr


# With labels


def test_the_model_file_knows_the_encoder_and_the_column(made):
    facts = zonkey.model_info(made / "m.zonkey")["training"]
    assert facts["text_column"] == "text"
    assert facts["encoder"]["name"] == facts["text_encoder"]["name"] == "minilm-l6"
    for source in ("new.csv", "lines.txt", "said.csv"):
        found = app.predict(made / "m.zonkey", made / source).answers
        assert found is not None
        assert found["predicted"] == [*NEW]


def test_python_takes_texts_and_files_of_them(made):
    model = zonkey.load(made / "m.zonkey")
    assert model.predict([*NEW.values()]).tolist() == [*NEW]
    assert model.predict(str(made / "lines.txt")).tolist() == [*NEW]
    assert model.predict(made / "new.csv").tolist() == [*NEW]
    with pytest.raises(TypeError, match="Put it into a list"):
        model.predict("somebody stole my card")


def test_a_pipeline_from_texts_to_labels_is_saved(made, tmp_path):
    classifier = zonkey.load(made / "m.zonkey")
    pipeline = zonkey.presets.paper({"a": [1.0]})  # any pipeline
    pipeline.steps = [("texts", TextEncoder(templates="so: {}")), ("last", classifier)]
    zonkey.save(pipeline, tmp_path / "p.zonkey")
    again = zonkey.load(tmp_path / "p.zonkey")
    np.testing.assert_array_equal(again.predict(["a card"]), pipeline.predict(["a card"]))
    assert again[0].templates == ["so: {}"]


def test_evaluate_reports_rejected_samples(made):
    said = run("evaluate", made / "m.zonkey", made / "new.csv", "--reject-below", "0.3")
    assert "accuracy among seen  " in said
    assert "rejected among seen  " in said
    assert "accuracy of answered among seen  " in said
    assert "rejected" not in run("evaluate", made / "m.zonkey", made / "new.csv")


def test_explain_shows_the_text(made):
    said = run("explain", made / "m.zonkey", made / "new.csv", "--row", 1)
    assert said.startswith(f"id: 1\ntext: {NEW['exchange rate']}\n") or NEW["exchange rate"] in said
    assert "winner:    exchange rate" in said


def test_labels_are_names_if_no_classes_are_given(made, tmp_path):
    run("fit", made / "train.csv", "-o", tmp_path / "m.zonkey")
    model, same = zonkey.load(tmp_path / "m.zonkey"), zonkey.load(made / "m.zonkey")
    np.testing.assert_allclose(model.prototypes_.matrix, same.prototypes_.matrix, atol=1e-6)
    # Those of features are none.
    run("fit", made / "features.csv", "-o", tmp_path / "m.zonkey")
    model = zonkey.load(tmp_path / "m.zonkey")
    assert model.prototypes_ is None
    assert sorted(model.classes_) == sorted(NEW)


def test_classes_and_shots_join_a_model_of_texts(made, tmp_path):
    (tmp_path / "more.txt").write_text("weather\n")
    (tmp_path / "shots.csv").write_text("text,label\nclose my account now,close account\n")
    output = tmp_path / "m.zonkey"
    arguments = tmp_path / "more.txt", "--shots", tmp_path / "shots.csv", "-o", output
    said = run("classes", "add", made / "m.zonkey", *arguments)
    assert "Added: close account, weather\n" in said
    answers = zonkey.load(output).predict(["is the weather sunny or rainy", "close my account"])
    assert answers.tolist() == ["weather", "close account"]


def test_standard_input(made, monkeypatch):
    content = (made / "new.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))
    found = app.predict(made / "m.zonkey", "-").answers
    assert found is not None
    assert found["predicted"] == [*NEW]


# Vectors


def test_each_text_has_a_vector_and_classes_only_if_asked(made, tmp_path):
    rows, classes = tmp_path / "x.npz", tmp_path / "p.npz"
    labels = "--label-column", "intent"
    said = run("embed", made / "train.csv", "-o", rows, *labels)
    assert said.startswith(f"12 texts in {rows}: 384 dimensions, one vector per text\n")
    texts = [text for texts in SAID.values() for text in texts]
    with np.load(rows) as found:
        np.testing.assert_allclose(found["features"], TextEncoder().transform(texts), atol=1e-6)
        assert found["text"].tolist() == texts
        assert json.loads(str(found["encoder"]))["kind"] == "text"
    said = run("embed", made / "train.csv", "--classes", "-o", classes, *labels)
    assert said.startswith(f"4 classes in {classes}: 384 dimensions, one vector per class\n")
    data = load_features(rows, classes)
    assert data.shape == (12, 384)
    by_text = run("embed", made / "train.csv", "--text", "text", "-o", tmp_path / "y.npz")
    assert by_text.startswith("12 texts in ")
    run("fit", rows, classes, "-o", tmp_path / "m.zonkey")
    run("fit", rows, "-o", tmp_path / "n.zonkey")  # the file names its encoder
    same = (zonkey.load(tmp_path / f"{name}.zonkey").prototypes_.matrix for name in "mn")
    np.testing.assert_allclose(*same, atol=0.5)  # other texts of the same classes
    assert zonkey.model_info(tmp_path / "n.zonkey")["training"]["text_encoder"]["kind"] == "text"
    assert zonkey.load(tmp_path / "m.zonkey").predict([*NEW.values()]).tolist() == [*NEW]


@pytest.mark.filterwarnings("default")
def test_long_and_blank_texts_are_told(made, tmp_path):
    source, model = tmp_path / "x.csv", made / "m.zonkey"
    pd.DataFrame({"id": [1, 2, 3], "text": ["a card", LONG, None]}).to_csv(source, index=False)
    line = zonkey_does("predict", model, source).stderr
    assert f"'text' in row 4 of {source} is. Fill it in, drop it, or pass --on-error skip." in line
    found = zonkey_does("predict", model, source, "--on-error", "skip")
    assert len(found.stdout.splitlines()) == 3
    assert "Warning: Texts should not be blank; 1 of 3 is and was skipped." in found.stderr
    assert "at most 254 tokens for minilm-l6; 1 of 3 is longer" in found.stderr


# What is refused


REFUSED = {
    "predict {}/m.zonkey {}/new.csv --text-column story": "--text-column must name the column of "
    "texts of new.csv; got 'story'",
    "fit {}/lines.txt {}/names.txt": "Texts need labels; the lines of lines.txt have none.",
    "fit {}/train.csv --feature-columns text": "--feature-columns must be left out for texts",
    "fit {}/train.csv --chunks": "--chunks must be left out for texts",
    "fit {}/features.csv --chunks": "--chunks needs a file of classes",
    "fit {}/features.csv --preset paper": "--preset paper needs prototypes; features.csv has",
    "fit {}/features.csv --encoder minilm-l6": "--encoder must be left out for features; "
    "{}/features.csv holds no pictures or texts.",
    "fit {}/train.csv --encoder efficientnet-lite0": "--encoder must encode texts;",
    "classify {}/lines.txt": "--classes must be named; got none. Pass --classes or --shots.",
    "classify {}/new.csv --classes a,b --label-column story": "--label-column must name a column "
    "of new.csv; got 'story'",
    "embed {}/said.csv --label-column said -o x.npz": "Or pass --classes for one vector per",
    "evaluate {}/m.zonkey {}/said.csv": "must have a column of labels",
    "predict {}/m.zonkey {}/new.csv --reject-below 2": "less than or equal to 1",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refused(made, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    found = zonkey_does(*arguments.replace("{}", str(made)).split())
    assert found.exit_code == 2
    assert REFUSED[arguments].replace("{}", str(made)) in found.stderr
    assert not [*tmp_path.iterdir()]
