"""From files to answers through the command line: fit, predict, evaluate, info, classes."""

import json

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import (
    FEATURES,
    LOOKS,
    MATRIX,
    N_SEEN,
    N_UNSEEN,
    RNG,
    SEEN,
    TEST,
    TRAIN,
    UNSEEN,
    K,
    done,
    files,
    refused,
    samples,
    table,
)
from zonkey.files.classes import read_prototypes

__all__ = ["files"]

# fit


def test_fit_is_the_library(files):
    model = zonkey.load(files / "model.zonkey")
    prototypes = read_prototypes(files / "prototypes.csv")
    same = zonkey.presets.recommended(prototypes).fit(samples(TRAIN, 1), TRAIN)
    X = samples(TEST, 2)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    assert model.classes_.tolist() == UNSEEN
    assert model.prototypes_.dimension_names == tuple(f"attribute {i}" for i in range(K))


def test_fit_of_the_paper_is_the_library(files):
    model = zonkey.load(files / "paper.zonkey")
    same = zonkey.presets.paper(
        read_prototypes(files / "prototypes.csv"), candidates="all", random_state=0
    ).fit(samples(TRAIN, 1), TRAIN)
    X = samples(TEST, 2)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert len(model.classes_) == N_SEEN + N_UNSEEN


def test_fit_says_what_was_learned(files, tmp_path):
    paths = files / "features.parquet", files / "prototypes.csv"
    text = done("fit", *paths, "-o", tmp_path / "m", "--candidates", "all", "--seed", "3")
    assert "Samples:    48\n" in text
    assert "Not used:   id, file\n" in text
    assert "Classes:    8 seen, 3 unseen; 11 candidates\n" in text
    assert "Parameter:  kernel: " in text
    assert "(accuracy on held-out classes)" in text
    assert f"Model:      {tmp_path / 'm'} (" in text
    options = "--notes", "A <test>.", "--license", "CC0", "--json"
    record = json.loads(done("fit", *paths, "-o", tmp_path / "m", *options))
    assert record["seconds"] > 0
    assert (record["notes"], record["license"]) == ("A <test>.", "CC0")
    assert record["summary"]["labels"] == UNSEEN
    assert record["training"]["features"] == "features.parquet"
    assert record["training"]["feature_names"] == FEATURES
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_fit_with_a_column_split(files, tmp_path):
    labels = [*TRAIN, *TEST]
    is_val = np.isin(labels, SEEN[:3]) & (np.arange(len(labels)) < len(TRAIN))
    marks = np.where(np.arange(len(labels)) < len(TRAIN), "train", "test")
    marks = np.where(is_val, "val", marks)
    frame = table(labels, 1, split=marks)
    frame.to_csv(tmp_path / "x.csv", index=False)
    output = tmp_path / "m.zonkey"
    text = done("fit", tmp_path / "x.csv", files / "prototypes.csv", "-o", output)
    assert "Samples:    48; 44 marked `test` are left out\n" in text
    model = zonkey.load(output)
    assert model.classes_.tolist() == UNSEEN
    assert model.seen_classes_.tolist() == SEEN
    X = pd.read_csv(tmp_path / "x.csv")[FEATURES].to_numpy(np.float32)
    y = frame["label"].to_numpy(dtype=str)
    train = marks == "train"
    chosen = zonkey.presets.recommended(read_prototypes(files / "prototypes.csv"))
    chosen.fit(X[train], y[train], validation=(X[is_val], y[is_val]))
    chosen.partial_fit(X[is_val], y[is_val])
    assert model.best_params_["worth"] == chosen.best_params_["worth"]
    same = chosen.with_candidates("unseen")
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    paper = "fit", tmp_path / "x.csv", files / "prototypes.csv", "-o", output, "--preset", "paper"
    done(*paper)
    assert zonkey.load(output)[-1].seen_classes_.tolist() == SEEN


@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_fit_with_unlabeled_samples(files, tmp_path, preset):
    table(UNSEEN * 8, 5)[FEATURES].to_csv(tmp_path / "u.csv", index=False)
    output = tmp_path / "m.zonkey"
    paths = files / "features.parquet", files / "prototypes.csv"
    options = "--unlabeled", tmp_path / "u.csv", "--preset", preset
    text = done("fit", *paths, "-o", output, *options)
    assert "Adapted:    to unlabeled samples\n" in text
    assert zonkey.model_info(output)["training"]["unlabeled"] == "u.csv"
    X = samples(TEST, 2)
    model = zonkey.load(output)
    without = zonkey.load(files / f"{'model' if preset == 'recommended' else 'paper'}.zonkey")
    last = model if preset == "recommended" else model[-1]
    assert last.is_transductive_
    if preset == "recommended":
        same = without.adapt(samples(UNSEEN * 8, 5))
        np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-5)


def test_fit_of_arrays_with_labels_of_their_own(files, tmp_path):
    np.save(tmp_path / "x.npy", samples(TRAIN, 1))
    (tmp_path / "y.txt").write_text("\n".join(TRAIN))
    output = tmp_path / "m.zonkey"
    labels = "--labels", tmp_path / "y.txt"
    done("fit", tmp_path / "x.npy", files / "prototypes.csv", *labels, "-o", output)
    X, same = samples(TEST, 2), zonkey.load(files / "model.zonkey")
    np.testing.assert_array_equal(zonkey.load(output).predict(X), same.predict(X))
    np.savez(tmp_path / "x.npz", a=samples(TRAIN, 1), b=TRAIN, c=np.eye(3))
    keys = "--features-key", "a", "--labels-key", "b"
    done("fit", tmp_path / "x.npz", files / "prototypes.csv", *keys, "-o", output)
    np.testing.assert_array_equal(zonkey.load(output).predict(X), same.predict(X))


def test_fit_of_what_cannot_be_fitted(files, tmp_path):
    paths = files / "features.parquet", files / "prototypes.csv"
    for output, words in [
        (tmp_path, "is a folder. Add a name"),
        (tmp_path / "no" / "m", "--output must be a file to write to"),
    ]:
        assert words in refused("fit", *paths, "-o", output)
    line = refused("fit", "nowhere.csv", paths[1], "-o", tmp_path / "m")
    assert "nowhere.csv does not exist" in line
    only_seen = pd.read_csv(paths[1]).iloc[:N_SEEN]
    only_seen.to_csv(tmp_path / "p.csv", index=False)
    line = refused("fit", paths[0], tmp_path / "p.csv", "-o", tmp_path / "m")
    assert 'candidates="unseen" needs a class' in line
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv"}


# predict


def expected(files, name, k, **options):
    model = zonkey.load(files / f"{name}.zonkey")
    X = samples(TEST, 2)
    last = model if name == "model" else model[-1]
    X = X if name == "model" else model[:-1].transform(X)
    if options:
        last = last.with_candidates(**options)
    P = last.predict_proba(X) if name == "model" else np.zeros((len(X), k))
    return last.predict(X), last.predict_top(X, k), -np.sort(-P, axis=1)[:, :k]


@pytest.mark.parametrize("name", ["model", "paper"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "npz"])
def test_predict_writes_answers_beside_the_other_columns(files, tmp_path, name, ending):
    output = tmp_path / f"out.{ending}"
    options = "--top", 3, *(["--proba"] if name == "model" else [])
    text = done("predict", files / f"{name}.zonkey", files / "test.csv", "-o", output, *options)
    assert text.startswith(f"{len(TEST)} rows in {output} (")
    if ending == "npz":
        found = dict(np.load(output))
    else:
        read = {
            "csv": pd.read_csv,
            "tsv": lambda path: pd.read_csv(path, sep="\t"),
            "jsonl": lambda path: pd.read_json(path, lines=True),
            "parquet": pd.read_parquet,
        }[ending]
        found = {column: values.to_numpy() for column, values in read(output).items()}
    tops = [f"top_{i}" for i in (1, 2, 3)]
    probas = [f"proba_{i}" for i in (1, 2, 3)] if name == "model" else []
    assert [*found] == ["id", "label", "file", "predicted", *tops, *probas]
    predicted, best, P = expected(files, name, 3)
    assert found["label"].tolist() == TEST.tolist()
    assert [int(i) for i in found["id"]] == list(range(len(TEST)))
    assert found["predicted"].tolist() == predicted.tolist()
    assert np.stack([found[top] for top in tops], 1).tolist() == best.tolist()
    for i, column in enumerate(probas):
        np.testing.assert_allclose(found[column], P[:, i], atol=2e-6)
    assert {path.name for path in tmp_path.iterdir()} == {output.name}


def test_predict_reads_every_format_and_carries_what_it_finds(files, tmp_path):
    frame = table(TEST, 2, file=None).assign(day=pd.Timestamp("2020-01-02"))
    frame.to_parquet(tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", features=samples(TEST, 2), ids=np.arange(len(TEST)) + 7)
    np.save(tmp_path / "x.npy", samples(TEST, 2))
    rows = zip(range(len(TEST)), samples(TEST, 2).tolist(), strict=True)
    lines = [{"id": i, "box": [i, 2], "features": x} for i, x in rows]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    predicted, *_ = expected(files, "model", 1)
    for name, columns in {
        "x.parquet": ["id", "label", "file", "day"],
        "x.npz": ["ids"],
        "x.npy": [],
        "x.jsonl": ["id", "box"],
    }.items():
        for ending in ("csv", "jsonl", "parquet", "npz"):
            output = tmp_path / f"out.{ending}"
            done("predict", files / "model.zonkey", tmp_path / name, "-o", output)
            if ending == "csv":
                found = pd.read_csv(output, keep_default_na=False)
                assert [*found] == [*columns, "predicted"]
                assert found["predicted"].tolist() == predicted.tolist()
    assert pd.read_csv(tmp_path / "out.csv")["box"][3] == "[3, 2]"
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[3])["box"] == [3, 2]
    done("predict", files / "model.zonkey", tmp_path / "x.parquet", "-o", tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["day"].dtype.kind == "M"


def test_predict_from_standard_input_to_standard_output(files):
    content = (files / "test.csv").read_text()
    text = done("predict", files / "model.zonkey", "-", "--top", 2, input=content)
    predicted, *_ = expected(files, "model", 2)
    lines = [line.split(",") for line in text.splitlines()]
    assert lines[0] == ["id", "label", "file", "predicted", "top_1", "top_2"]
    assert [line[3] for line in lines[1:]] == predicted.tolist()
    records = done("predict", files / "model.zonkey", files / "test.csv", "--json").splitlines()
    assert [json.loads(line)["predicted"] for line in records] == predicted.tolist()
    lines = table(TEST, 2).to_json(orient="records", lines=True)
    text = done("predict", files / "model.zonkey", "-", "--format", "jsonl", input=lines)
    assert [json.loads(line)["predicted"] for line in text.splitlines()] == predicted.tolist()


def test_predict_among_other_candidates(files, tmp_path):
    output = tmp_path / "out.csv"
    arguments = "predict", files / "model.zonkey", files / "test.csv", "-o", output
    done(*arguments, "--candidates", "all")
    predicted, *_ = expected(files, "model", 1, candidates="all")
    assert pd.read_csv(output)["predicted"].tolist() == predicted.tolist()
    done(*arguments, "--candidates", SEEN[0], "--candidates", UNSEEN[2])
    assert set(pd.read_csv(output)["predicted"]) == {SEEN[0], UNSEEN[2]}
    assert "No prototype and no sample of the class 'unsen 1'" in refused(
        *arguments, "--candidates", "unsen 1"
    )


def test_predict_in_blocks_is_the_same(files, tmp_path, monkeypatch):
    arguments = "predict", files / "model.zonkey", files / "test.csv", "--top", 2, "--proba", "-o"
    done(*arguments, tmp_path / "one.csv")
    monkeypatch.setattr("zonkey.streaming.sources._MOST_ROWS", 7)
    for ending in ("csv", "parquet", "npz", "jsonl"):
        done(*arguments, tmp_path / f"many.{ending}")
    one = pd.read_csv(tmp_path / "one.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "many.csv"), one)
    for found in (
        pd.read_parquet(tmp_path / "many.parquet"),
        pd.DataFrame(dict(np.load(tmp_path / "many.npz"))),
        pd.read_json(tmp_path / "many.jsonl", lines=True),
    ):
        assert found["top_2"].tolist() == one["top_2"].tolist()
        np.testing.assert_allclose(found["proba_2"], one["proba_2"], atol=2e-6)


def test_predict_tells_in_json_what_was_written(files, tmp_path):
    output = tmp_path / "out.csv"
    text = done("predict", files / "model.zonkey", files / "test.csv", "-o", output, "--json")
    record = json.loads(text)
    assert (record["rows"], record["output"]) == (len(TEST), str(output))
    assert record["columns"] == ["id", "label", "file", "predicted"]


def test_predict_refuses_what_it_cannot_do(files, tmp_path):
    model, test = files / "model.zonkey", files / "test.csv"
    frame = pd.read_csv(test)
    frame.drop(columns="f3").to_csv(tmp_path / "few.csv", index=False)
    frame.rename(columns={"file": "predicted"}).to_csv(tmp_path / "taken.csv", index=False)
    frame.assign(f2=frame["f2"].where(frame.index != 30)).to_csv(tmp_path / "gap.csv", index=False)
    np.save(tmp_path / "x.npy", np.eye(7))
    (tmp_path / "m.zonkey").write_bytes(model.read_bytes()[:5000])
    (tmp_path / "text.zonkey").write_text("hello")
    before = {path.name for path in tmp_path.iterdir()}
    output = tmp_path / "out.csv"
    for arguments, words in [
        ((model, tmp_path / "few.csv"), "few.csv must have the 8 columns that"),
        ((model, tmp_path / "x.npy"), "x.npy must have the 8 features of the model; it has 7"),
        ((model, tmp_path / "gap.csv"), "Row 32, column 'f2' of gap.csv is empty"),
        ((model, tmp_path / "taken.csv"), "has 'predicted' already"),
        ((model, tmp_path / "no.csv"), "no.csv does not exist"),
        ((tmp_path / "no.zonkey", test), "no.zonkey"),
        ((tmp_path / "m.zonkey", test), "m.zonkey"),
        ((tmp_path / "text.zonkey", test), "text.zonkey"),
        ((files / "paper.zonkey", test, "--proba"), "--proba needs the recommended model; "),
        ((model, test, "--top", 4), "--top must be at most the 3 candidates; got 4"),
    ]:  # fmt: skip
        line = refused("predict", *arguments, "-o", output)
        assert words in line
    for arguments, words in [
        (("-o", tmp_path / "out.xlsx"), "--output must end in .csv or"),
        (("-o", test), "--output must not be a file to read from"),
        (("-o", tmp_path / "no" / "out.csv"), "--output must be a file to write to"),
        (("--format", "parquet"), "--format of standard output must be csv, tsv or jsonl"),
    ]:
        assert words in refused("predict", model, test, *arguments)
    assert {path.name for path in tmp_path.iterdir()} == before


# info


def test_info(files, tmp_path):
    text = done("info", files / "model.zonkey", "--card", tmp_path / "card.md")
    assert "Estimator:  AnyShotClassifier\n" in text
    assert "Training:   feature names: 8 names\n" in text
    card = (tmp_path / "card.md").read_text()
    assert card == zonkey.model_card(files / "model.zonkey")
    assert "- feature_names: 8, from f0 to f7\n" in card
    found = json.loads(done("info", files / "paper.zonkey", "--json"))
    assert found == zonkey.model_info(files / "paper.zonkey")
    assert "no.zonkey" in refused("info", tmp_path / "no.zonkey")


# classes


def listed(model):
    return {row["label"]: row for row in json.loads(done("classes", "list", model, "--json"))}


def test_classes_are_listed(files):
    rows = listed(files / "model.zonkey")
    assert [*rows] == [*SEEN, *UNSEEN]
    assert rows[SEEN[0]] == {"label": SEEN[0], "kind": "seen", "candidate": False}
    assert rows[UNSEEN[0]] == {"label": UNSEEN[0], "kind": "unseen", "candidate": True}
    text = done("classes", "list", files / "paper.zonkey")
    assert f"{SEEN[0]}\tseen\n" in text


NEW = {"new 1": RNG.normal(size=K).tolist(), "new 2": RNG.normal(size=K).tolist()}


@pytest.mark.parametrize("name", ["model", "paper"])
def test_classes_are_added_by_prototypes(files, tmp_path, name):
    (tmp_path / "p.json").write_text(json.dumps({**NEW, SEEN[1]: MATRIX[1].tolist()}))
    output = tmp_path / "m.zonkey"
    text = done("classes", "add", files / f"{name}.zonkey", tmp_path / "p.json", "-o", output)
    n = N_SEEN + N_UNSEEN + 2
    candidates = n if name == "paper" else N_UNSEEN + 2
    assert text == f"Added: new 1, new 2\n{output}: {n} classes, {candidates} candidates\n"
    model, old = zonkey.load(output), zonkey.load(files / f"{name}.zonkey")
    X = samples(TEST, 2)
    new = zonkey.Prototypes([*NEW], [*NEW.values()])
    if name == "model":
        same = old.with_classes(new)
    else:
        same, model, X = old[-1].with_classes(new.normalized()), model[-1], old[:-1].transform(X)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    assert zonkey.model_info(output)["training"]["features"] == "features.parquet"


def test_classes_are_added_by_samples(files, tmp_path):
    frame = table(UNSEEN[:1] * 3, 6).assign(label=["okapi", None, "okapi"])
    frame.to_csv(tmp_path / "shots.csv", index=False)
    output = tmp_path / "m.zonkey"
    output.write_bytes((files / "model.zonkey").read_bytes())
    record = json.loads(done("classes", "add", output, "--shots", tmp_path / "shots.csv", "--json"))
    assert (record["added"], record["output"]) == (["okapi"], str(output))
    assert listed(output)["okapi"] == {"label": "okapi", "kind": "seen", "candidate": True}
    model = zonkey.load(files / "model.zonkey")
    X = frame[FEATURES].to_numpy()[[0, 2]]
    same = model.partial_fit(X, ["okapi", "okapi"])
    np.testing.assert_allclose(zonkey.load(output).predict_proba(X), same.predict_proba(X))


def test_classes_are_removed(files, tmp_path):
    output = tmp_path / "m.zonkey"
    text = done("classes", "remove", files / "model.zonkey", UNSEEN[1], "-o", output)
    assert str(output) in text
    rows = listed(output)
    assert UNSEEN[1] not in rows
    assert text.startswith(f"Removed: {UNSEEN[1]}\n")
    assert rows[UNSEEN[0]]["candidate"]


def test_further_samples_of_known_classes_are_told(files, tmp_path):
    table([SEEN[0], *UNSEEN[:1] * 2], 6).to_csv(tmp_path / "shots.csv", index=False)
    output = tmp_path / "m.zonkey"
    arguments = "classes", "add", files / "model.zonkey", "--shots", tmp_path / "shots.csv"
    text = done(*arguments, "-o", output)
    assert text.startswith(f"Learned: 3 samples of {SEEN[0]}, {UNSEEN[0]}\n")
    record = json.loads(done(*arguments, "-o", output, "--json"))
    assert (record["learned"], record["added"]) == ({SEEN[0]: 1, UNSEEN[0]: 2}, [])


def test_columns_of_new_prototypes_are_known_by_name(files, tmp_path):
    columns = [f"attribute {i}" for i in range(K)]
    new = pd.DataFrame([NEW["new 1"]], index=pd.Index(["new 1"], name="class"), columns=columns)
    found = []
    for names in (columns, columns[::-1]):
        new[names].to_csv(tmp_path / "p.csv")
        done("classes", "add", files / "model.zonkey", tmp_path / "p.csv", "-o", tmp_path / "m")
        found.append(zonkey.load(tmp_path / "m").decision_function(samples(TEST, 2)))
    np.testing.assert_array_equal(*found)
    add = "classes", "add", files / "model.zonkey", tmp_path / "p.csv", "-o", tmp_path / "m"
    new.rename(columns={"attribute 3": "mane"}).to_csv(tmp_path / "p.csv")
    assert "p.csv must have the columns of the known prototypes; 'attribute 3' is" in refused(*add)
    new.assign(mane=1).to_csv(tmp_path / "p.csv")
    assert "it also has 'mane'" in refused(*add)


def test_classes_that_cannot_be_changed(files, tmp_path):
    model = tmp_path / "m.zonkey"
    model.write_bytes((files / "model.zonkey").read_bytes())
    before = model.read_bytes()
    (tmp_path / "same.json").write_text(json.dumps({SEEN[1]: MATRIX[1].tolist()}))
    (tmp_path / "other.json").write_text(json.dumps({SEEN[1]: MATRIX[2].tolist()}))
    (tmp_path / "short.json").write_text(json.dumps({"new": [1.0]}))
    table(UNSEEN, 6).assign(label=None).to_csv(tmp_path / "shots.csv", index=False)
    shots = tmp_path / "shots.csv"
    for arguments, words in [
        (("add", model), "CLASSES or --shots; got none"),
        (("add", model, tmp_path / "same.json"), "same.json must have a new class"),
        (("add", model, tmp_path / "other.json"), "that of 'seen 1' in other.json differs"),
        (("add", model, tmp_path / "short.json"), "must have the 5 dimensions"),
        (("add", model, "--shots", shots), "must have rows with a label"),
        (("add", files / "paper.zonkey", "--shots", files / "test.csv", "-o", tmp_path / "x"),
         "needs the recommended model; ZeroShotClassifier has no `partial_fit`"),
        (("remove", model, "nobody"), "LABEL must be a class of the model; got 'nobody', and it"),
        (("remove", files / "paper.zonkey", UNSEEN[1], "-o", tmp_path / "x"),
         "Removing classes needs the recommended model; ZeroShotClassifier has no"),
        (("remove", model, *SEEN, *UNSEEN), "At least one class must stay"),
    ]:  # fmt: skip
        assert words in refused("classes", *arguments)
    assert model.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name in ("x", "m.zonkey.part")]


@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_features_of_a_model_that_was_fitted_on_a_data_frame(files, tmp_path, preset):
    frame = table(TRAIN, 1)
    make = getattr(zonkey.presets, preset)
    model = make(read_prototypes(files / "prototypes.csv")).fit(frame[FEATURES], frame["label"])
    zonkey.save(model, tmp_path / "m.zonkey")
    test = table(TEST, 2).assign(width=640.0)  # a number that is no feature
    test[test.columns[::-1]].to_parquet(tmp_path / "x.parquet")
    done("predict", tmp_path / "m.zonkey", tmp_path / "x.parquet", "-o", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert [*found] == ["width", "label", "id", "predicted"]
    assert found["predicted"].tolist() == model.predict(test[FEATURES]).tolist()


def test_labels_that_are_numbers(tmp_path):
    prototypes = zonkey.Prototypes(np.arange(4), MATRIX[:4])
    y = np.repeat([0, 1, 2], 5)
    X = (MATRIX[y] @ LOOKS).astype(np.float32)
    model = zonkey.presets.rpl(prototypes, candidates="all").fit(X, y)
    model.save(tmp_path / "m.zonkey")
    np.savez(tmp_path / "x.npz", features=X, labels=y)
    done("predict", tmp_path / "m.zonkey", tmp_path / "x.npz", "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["predicted"].tolist() == model.predict(X).tolist()
    (tmp_path / "p.json").write_text(json.dumps({"7": MATRIX[7].tolist()}))
    done("classes", "add", tmp_path / "m.zonkey", tmp_path / "p.json")
    assert [*listed(tmp_path / "m.zonkey")] == [0, 1, 2, 3, 7]
    (tmp_path / "p.json").write_text(json.dumps({"eight": MATRIX[7].tolist()}))
    line = refused("classes", "add", tmp_path / "m.zonkey", tmp_path / "p.json")
    assert "Labels must be numbers" in line
