"""Answers beside the other columns of a source, in every format, whole and in blocks."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import FEATURES, LOOKS, MATRIX, SEEN, TEST, TRAIN, UNSEEN, files, samples, table
from zonkey import app
from zonkey.errors import Problem
from zonkey.files.classes import read_prototypes

__all__ = ["files"]

READERS = {
    ".csv": pd.read_csv,
    ".tsv": lambda path: pd.read_csv(path, sep="\t"),
    ".jsonl": lambda path: pd.read_json(path, lines=True),
    ".parquet": pd.read_parquet,
    ".npz": lambda path: pd.DataFrame(dict(np.load(path))),
}


def expect(files, name, k):
    """Return predictions, best classes and their probabilities by the library itself."""
    model, X = zonkey.load(files / f"{name}.zonkey"), samples(TEST, 2)
    last = model if name == "model" else model[-1]
    X = X if name == "model" else model[:-1].transform(X)
    P = last.predict_proba(X) if name == "model" else np.zeros((len(X), k))
    return last.predict(X), last.predict_top(X, k), -np.sort(-P, axis=1)[:, :k]


@pytest.mark.parametrize("name", ["model", "paper"])
def test_answers_stand_beside_the_other_columns(files, tmp_path, name):
    tops, has_proba = [f"top_{i}" for i in (1, 2, 3)], name == "model"
    probas = [f"proba_{i}" for i in (1, 2, 3)] if has_proba else []
    columns = ["id", "label", "file", "predicted", *tops, *probas]
    predicted, best, P = expect(files, name, 3)
    arguments = files / f"{name}.zonkey", files / "test.csv"
    for ending, read in {**READERS, None: None}.items():
        output = None if ending is None else tmp_path / f"out{ending}"
        written = app.predict(*arguments, output, top=3, proba=has_proba)
        assert (written.rows, written.columns, written.skipped) == (len(TEST), columns, [])
        found = pd.DataFrame(written.answers) if ending is None else read(output)
        assert [*found] == columns
        assert found["label"].tolist() == TEST.tolist()
        assert [int(i) for i in found["id"]] == list(range(len(TEST)))
        assert found["predicted"].tolist() == predicted.tolist()
        assert found[tops].to_numpy().tolist() == best.tolist()
        for i, column in enumerate(probas):
            np.testing.assert_allclose(found[column], P[:, i], atol=2e-6)
    assert {path.suffix for path in tmp_path.iterdir()} == {*READERS}


@pytest.mark.parametrize("options", [{}, {"top": 2}, {"proba": True}], ids=str)
def test_novelty_is_the_last_column(files, options):
    found = app.predict(files / "model.zonkey", files / "test.csv", novelty=True, **options)
    assert found.columns[-1] == "novelty"
    assert len(found.columns) == 5 + 2 * ("top" in options) + ("proba" in options)
    expected = zonkey.load(files / "model.zonkey").novelty(samples(TEST, 2))
    np.testing.assert_allclose(found.answers["novelty"], expected, atol=2e-6)
    with pytest.raises(Problem, match="`novelty` needs the recommended model"):
        app.predict(files / "paper.zonkey", files / "test.csv", novelty=True)


def test_blocks_are_the_same(files, tmp_path):
    arguments = files / "model.zonkey", files / "test.csv"
    one = app.predict(*arguments, top=2, proba=True).answers
    steps = []
    with zonkey.config_context(working_memory=1e-3):
        for ending, read in READERS.items():
            output = tmp_path / f"many{ending}"
            app.predict(*arguments, output, top=2, proba=True, progress=steps.append)
            found = read(output)
            assert found["top_2"].tolist() == one["top_2"]
            np.testing.assert_allclose(found["proba_2"], one["proba_2"], atol=2e-6)
    assert {step.doing for step in steps} == {"Predicting"}
    assert (steps[0].rows, steps[-1].rows) == (0, len(TEST))
    assert steps[-1].done == steps[-1].total


def test_every_format_is_read_and_carried(files, tmp_path):
    frame = table(TEST, 2, file=None).assign(day=pd.Timestamp("2020-01-02"))
    frame.to_parquet(tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", features=samples(TEST, 2), ids=np.arange(len(TEST)) + 7)
    np.save(tmp_path / "x.npy", samples(TEST, 2))
    rows = zip(range(len(TEST)), samples(TEST, 2).tolist(), strict=True)
    lines = [{"id": i, "box": [i, 2], "features": x} for i, x in rows]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    predicted = expect(files, "model", 1)[0].tolist()
    for name, columns in {
        "x.parquet": ["id", "label", "file", "day"],
        "x.npz": ["ids"],
        "x.npy": [],
        "x.jsonl": ["id", "box"],
    }.items():
        for ending in (".csv", ".jsonl", ".parquet"):
            app.predict(files / "model.zonkey", tmp_path / name, tmp_path / f"out{ending}")
            found = READERS[ending](tmp_path / f"out{ending}")
            assert [*found] == [*columns, "predicted"]
            assert found["predicted"].tolist() == predicted
        if name == "x.parquet":
            assert found["day"].dtype.kind == "M"
    assert pd.read_csv(tmp_path / "out.csv")["box"][3] == "[3, 2]"
    assert READERS[".jsonl"](tmp_path / "out.jsonl")["box"][3] == [3, 2]


def test_an_open_file(files):
    target = io.BytesIO()
    app.predict(files / "model.zonkey", files / "test.csv", target, output_format="jsonl")
    lines = [json.loads(line) for line in target.getvalue().splitlines()]
    assert [line["predicted"] for line in lines] == expect(files, "model", 1)[0].tolist()


def test_other_candidates(files):
    arguments = files / "model.zonkey", files / "test.csv"
    model, X = zonkey.load(arguments[0]), samples(TEST, 2)
    found = app.predict(*arguments, candidates=["all"]).answers["predicted"]
    assert found == model.with_candidates("all").predict(X).tolist()
    found = app.predict(*arguments, candidates=[SEEN[0], UNSEEN[2]]).answers["predicted"]
    assert {*found} == {SEEN[0], UNSEEN[2]}


@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_a_model_that_was_fitted_on_a_data_frame(files, tmp_path, preset):
    frame = table(TRAIN, 1)
    make = getattr(zonkey.presets, preset)
    model = make(read_prototypes(files / "prototypes.csv")).fit(frame[FEATURES], frame["label"])
    zonkey.save(model, tmp_path / "m.zonkey")
    test = table(TEST, 2).assign(width=640.0)  # a number that is not a feature
    test[test.columns[::-1]].to_parquet(tmp_path / "x.parquet")
    found = app.predict(tmp_path / "m.zonkey", tmp_path / "x.parquet").answers
    assert [*found] == ["width", "label", "id", "predicted"]
    assert found["predicted"] == model.predict(test[FEATURES]).tolist()


def test_labels_that_are_numbers(tmp_path):
    y = np.repeat([0, 1, 2], 5)
    X = (MATRIX[y] @ LOOKS).astype(np.float32)
    prototypes = zonkey.Prototypes(np.arange(4), MATRIX[:4])
    model = zonkey.presets.rpl(prototypes, candidates="all").fit(X, y)
    path = tmp_path / "m.zonkey"
    model.save(path)
    np.savez(tmp_path / "x.npz", features=X, labels=y)
    found = app.predict(path, tmp_path / "x.npz").answers["predicted"]
    assert found == model.predict(X).tolist()
    (tmp_path / "p.json").write_text(json.dumps({"7": MATRIX[7].tolist()}))
    app.add_classes(path, tmp_path / "p.json")
    assert [row["label"] for row in app.list_classes(path)] == [0, 1, 2, 3, 7]
    (tmp_path / "p.json").write_text(json.dumps({"eight": MATRIX[7].tolist()}))
    with pytest.raises(ValueError, match="Labels must be numbers"):
        app.add_classes(path, tmp_path / "p.json")
