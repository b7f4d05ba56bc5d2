"""Tables of suggested labels: written, filled in, learned, and learned again."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from refusals import refusal

import zonkey
from model_files import FEATURES, SEEN, TEST, UNSEEN, files, samples, table
from zonkey import app
from zonkey.app import learning, models
from zonkey.app.suggestion import SampleIds
from zonkey.errors import DataError, Problem

__all__ = ["files"]

NEW = ["sample", "group", "suggested", "probability", "accept_group", "accept"]


@pytest.fixture
def model(files, tmp_path):
    return shutil.copy(files / "model.zonkey", tmp_path / "m.zonkey")


@pytest.fixture
def source(tmp_path):
    """Features of unseen classes, with unicode ids."""
    frame = table(np.repeat(UNSEEN, 20), 5, note="a, b").drop(columns="label")
    frame["id"] = [f"é {i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def read(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def suggested(model, source, **options):
    """Return the path of a table, and the table."""
    path = source.with_name("table.csv")
    app.suggest(model, source, path, **options)
    return path, read(path)


def mark(path, frame, **marks):
    """Write columns of marks into a table."""
    frame.assign(**marks).to_csv(path, index=False)
    return path


def test_suggested_groups(model, source):
    found = app.suggest(model, source, group_size=7)
    assert [*found.answers] == [*NEW, "id", "note"]
    assert (found.rows, found.left_out, found.known, found.skipped) == (60, 0, 0, [])
    loaded, frame = zonkey.load(model), pd.DataFrame(found.answers)
    X = pd.read_csv(source).set_index("id").loc[frame["sample"], FEATURES].to_numpy()
    expected = zonkey.load(model).suggest(pd.read_csv(source)[FEATURES].to_numpy(), group_size=7)
    assert frame["group"].tolist() == (expected.group[expected.order] + 1).tolist()
    assert found.groups == len(expected.useful) == frame["group"].max()
    np.testing.assert_allclose(frame["probability"], loaded.predict_proba(X).max(1), atol=1e-4)
    is_answered = frame["suggested"] != ""
    assert (frame["suggested"] == loaded.predict(X))[is_answered].all()
    assert {*frame["accept"], *frame["accept_group"]} == {""}
    assert (frame["sample"] == frame["id"]).all()


def test_accepted_rows_are_not_written_over(model, source):
    path, frame = suggested(model, source)
    marks = ["no"] * 2 + [""] * (len(frame) - 2)
    app.suggest(model, source, mark(path, frame, accept=marks))  # nothing is lost
    assert not read(path)["accept"].any()
    marks[5] = UNSEEN[0]
    written = mark(path, frame, accept=marks).read_bytes()
    said = refusal(app.suggest, model, source, path, error=Problem)
    assert "it has 1, such as" in said
    assert frame["sample"][5] in said
    assert path.read_bytes() == written
    app.learn(model, path, source)
    assert app.suggest(model, source, path).known == 1
    other = source.with_name("other.csv")
    other.write_text("something,else\n1,2\n")
    assert app.suggest(model, source, other).rows == 59


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_every_format_goes_there_and_back(model, source, ending):
    path = source.with_name(f"table.{ending}")
    written = app.suggest(model, source, path, groups=2)
    assert written.left_out == 60 - written.rows > 0
    if ending == "parquet":
        frame = pd.read_parquet(path)
        frame.assign(accept=True).to_parquet(path)
    elif ending == "jsonl":
        frame = pd.read_json(path, lines=True)
        frame.assign(accept=1.0).to_json(path, orient="records", lines=True)
    else:
        mark = "\t" if ending == "tsv" else ","
        frame = pd.read_csv(path, sep=mark)
        frame.assign(accept="yes").to_csv(path, sep=mark, index=False)
    changed = app.learn(model, path, source)
    assert changed.learned == frame["suggested"].value_counts().to_dict()
    assert app.learn(model, path, source).known == written.rows


def test_learning_is_partial_fit_of_the_accepted_rows(files, model, source):
    path, frame = suggested(model, source)
    accept = ["yes", "no", "okapi", "X", " "] * 12
    mark(path, frame, accept=accept)
    changed = app.learn(model, path, source)
    kept = [a not in ("no", " ") for a in accept]
    y = np.where(np.array(accept) == "okapi", "okapi", frame["suggested"])[kept]
    assert changed.added == ["okapi"]
    assert changed.learned == dict(pd.Series(y).value_counts())
    X = pd.read_csv(source).set_index("id").loc[frame["sample"][kept], FEATURES].to_numpy()
    same = zonkey.load(files / "model.zonkey").partial_fit(X, y)
    probe = samples(TEST, 2)
    found = zonkey.load(model).predict_proba(probe)
    np.testing.assert_allclose(found, same.predict_proba(probe), rtol=1e-5)


def test_the_same_table_again_changes_nothing(model, source):
    path, frame = suggested(model, source)
    mark(path, pd.concat([frame, frame[:5]]), accept_group="yes")
    changed = app.learn(model, path, source)
    assert (sum(changed.learned.values()), changed.known) == (60, 0)
    content = model.read_bytes()
    changed = app.learn(model, path, source)
    assert (changed.learned, changed.known) == ({}, 60)
    assert model.read_bytes() == content
    # Classes that come and go leave that as it is; so does a copy of the model.
    shots = table(UNSEEN[:1] * 3, 6).assign(label="okapi")
    shots.to_csv(source.with_name("shots.csv"), index=False)
    app.add_classes(model, None, source.with_name("shots.csv"))
    app.remove_classes(model, ["okapi"])
    other = source.with_name("other.zonkey")
    assert app.learn(model, path, source, other).known == 60
    assert app.learn(other, path, source).known == 60
    assert "must have a sample to label" in refusal(app.suggest, model, source, error=Problem)


def test_what_was_learned_is_not_suggested_again(model, source):
    path, frame = suggested(model, source, groups=1)
    mark(path, frame, accept_group=["yes"] + [""] * (len(frame) - 1))
    app.learn(model, path, source)
    found = app.suggest(model, source)
    assert found.known == len(frame)
    assert not {*found.answers["sample"]} & {*frame["sample"]}


def test_a_label_that_was_learned_cannot_change(model, source):
    path, frame = suggested(model, source)
    app.learn(model, mark(path, frame[:2], accept=UNSEEN[0]), source)
    content = model.read_bytes()
    said = refusal(app.learn, model, mark(path, frame[:3], accept="kudu"), source, error=ValueError)
    assert "has 'kudu', and the model has learned it as 'unseen 0', and 1 more" in said
    assert model.read_bytes() == content
    # Its class can be removed, and learned under the right name.
    app.learn(model, mark(path, frame[2:4], accept="okapo"), source)
    app.remove_classes(model, ["okapo"])
    assert app.learn(model, mark(path, frame[2:4], accept="okapi"), source).added == ["okapi"]


def test_other_samples_of_the_same_ids_are_new(model, source):
    path, frame = suggested(model, source)
    app.learn(model, mark(path, frame, accept="yes"), source)
    later = pd.read_csv(source)
    later[FEATURES] += 0.01
    later.to_csv(source, index=False)
    changed = app.learn(model, path, source)
    assert (sum(changed.learned.values()), changed.known) == (60, 0)


def test_samples_without_a_name_are_known_by_their_content(model, source):
    frame = pd.read_csv(source).drop(columns=["id", "note"])
    frame.to_csv(source, index=False)
    path, written = suggested(model, source)
    assert written["sample"].str.fullmatch("s[0-9a-f]{16}").all()
    app.learn(model, mark(path, written, accept="yes"), source)
    frame.sample(frac=1, random_state=0).to_parquet(source.with_name("new.parquet"))
    with pytest.raises(Problem, match="must have a sample to label"):
        app.suggest(model, source.with_name("new.parquet"))


# Marks


def accepted(tmp_path, known=("cat", "dog"), **columns):
    frame = {"sample": ["a", "b", "c"], "group": [1, 1, 2], "suggested": ["cat", "cat", "dog"]}
    frame |= {"accept_group": [""] * 3, "accept": [""] * 3}
    pd.DataFrame({**frame, **columns}).to_csv(tmp_path / "t.csv", index=False)
    found = learning.read_accepted(tmp_path / "t.csv", known)
    return {name: label for name, (label, _) in found.items()}


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({}, {}),
        ({"accept": ["yes", "Y", "TRUE"]}, {"a": "cat", "b": "cat", "c": "dog"}),
        ({"accept": ["x", "0", "1"]}, {"a": "cat", "c": "dog"}),
        ({"accept": ["dog", "No", "eel"]}, {"a": "dog", "c": "eel"}),
        ({"accept_group": ["", "yes", ""]}, {"a": "cat", "b": "cat"}),
        ({"accept_group": ["dog", "dog", ""]}, {"a": "dog", "b": "dog"}),
        ({"accept_group": ["yes", "", "x"], "accept": ["", "no", "cat"]}, {"a": "cat", "c": "cat"}),
        ({"sample": ["a", "a", "c"], "accept": ["x", "cat", ""]}, {"a": "cat"}),
        ({"suggested": ["", "", "dog"], "accept": ["eel", "", "x"]}, {"a": "eel", "c": "dog"}),
    ],
)
def test_marks(tmp_path, marks, expected):
    assert accepted(tmp_path, **marks) == expected


def test_labels_that_look_like_marks_are_labels(tmp_path):
    marks = {"suggested": ["0", "yes", "no"], "accept": ["1", "no", "x"]}
    assert accepted(tmp_path, ("0", "1"), **marks) == {"a": "1", "c": "no"}
    found = accepted(tmp_path, ("yes", "no"), **marks)
    assert found == {"a": "0", "b": "no", "c": "no"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"sample": ["a", "a", "c"], "accept": ["yes", "dog", ""]},
            "A sample has one label; 'a' has 'cat' in row 2 of t.csv and 'dog' in row 3.",
        ),
        (
            {"accept_group": ["yes", "dog", ""]},
            "group 1 of t.csv has 'yes' in row 2 and 'dog' in row 3.",
        ),
        (
            {"suggested": ["cat", "", "dog"], "accept": ["", "yes", ""]},
            "Only a suggested label can be accepted; row 3 of t.csv is 'yes', and suggests none.",
        ),
        ({"sample": ["a", "", "c"], "accept": "x"}, "'sample' in row 3 of t.csv is empty."),
    ],
)
def test_contradictions_are_refused(tmp_path, columns, said):
    assert said in refusal(accepted, tmp_path, **columns)


@pytest.mark.parametrize("missing", ["sample", "suggested", "accept", "group"])
def test_missing_columns_are_named(model, source, missing):
    path, frame = suggested(model, source)
    frame.drop(columns=missing).to_csv(path, index=False)
    said = refusal(app.learn, model, path, source)
    assert f"{missing} is missing. Pass a table that zonkey suggest has written" in said


def test_unknown_samples_are_refused(model, source):
    path, frame = suggested(model, source)
    frame.loc[[3, 4], "sample"] = ["other", "and another"]
    said = refusal(app.learn, model, mark(path, frame, accept="yes"), source, error=Problem)
    assert "Every accepted sample must be in" in said
    assert "'other' in row 5 is not, nor are 1 more." in said


def test_empty_tables_teach_nothing(model, source):
    path, frame = suggested(model, source)
    content = model.read_bytes()
    for rows in (frame, frame[:0]):
        rows.to_csv(path, index=False)
        changed = app.learn(model, path, source)
        assert (changed.learned, changed.known, changed.added) == ({}, 0, [])
    assert model.read_bytes() == content


def test_features_are_not_in_the_table(model, source):
    path, frame = suggested(model, source)
    assert "f0" in refusal(app.learn, model, mark(path, frame, accept="yes"), error=DataError)


def test_inner_nodes_of_a_tree_are_labels(tmp_path):
    rng = np.random.default_rng(1)
    parents = {"a": "X", "b": "X", "c": "Wide Node", "d": "Wide Node"}
    P = zonkey.Prototypes(list("abcd"), rng.normal(size=(4, 3)), parents=parents)
    C, y = rng.normal(size=(4, 8)), np.repeat(np.arange(4), 6)
    X = C[y] + 0.1 * rng.normal(size=(24, 8))
    zonkey.AnyShotClassifier(P).fit(X, np.array(list("abcd"))[y]).save(tmp_path / "m.zonkey")
    np.savez(tmp_path / "new.npz", features=X[::3] + 0.01)
    path, frame = suggested(tmp_path / "m.zonkey", tmp_path / "new.npz")
    marked = mark(path, frame[:2], accept=["X", "wide_node"])
    changed = app.learn(tmp_path / "m.zonkey", marked, tmp_path / "new.npz")
    assert changed.learned == {"X": 1, "Wide Node": 1}
    assert (changed.joined, changed.added) == ({"wide_node": "Wide Node"}, [])


def test_spellings_are_joined(model, source):
    path, frame = suggested(model, source)
    changed = app.learn(model, mark(path, frame[:4], accept="UNSEEN_1"), source)
    assert (changed.joined, changed.learned) == ({"UNSEEN_1": "unseen 1"}, {"unseen 1": 4})


def test_a_model_of_names_is_placed_without_its_removed_classes(tmp_path):
    rng = np.random.default_rng(0)
    C, y = rng.normal(size=(4, 8)), np.repeat(np.arange(3), 10)
    X = C[y] + 5 + 0.1 * rng.normal(size=(30, 8))
    names = zonkey.AnyShotClassifier(zonkey.Prototypes(list("abcd"), C), space="joint").fit()
    names.without_classes(["d"]).save(tmp_path / "m.zonkey")
    source = tmp_path / "new.csv"
    pd.DataFrame(X).add_prefix("f").assign(id=range(30)).to_csv(source, index=False)
    path, _ = suggested(tmp_path / "m.zonkey", source)
    found = read(path)[:1]
    label = "abc"[y[int(found["sample"][0])]]
    changed = app.learn(tmp_path / "m.zonkey", mark(path, found, accept=label), source)
    assert (changed.added, changed.classes) == ([], 3)
    model = zonkey.load(tmp_path / "m.zonkey")
    assert not model.state_.knows_names_only
    assert (model.predict(X) == np.array(list("abc"))[y]).all()


def test_an_interrupted_run_leaves_the_model(model, source, monkeypatch):
    path, frame = suggested(model, source)
    content = model.read_bytes()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for module, name in ((learning, "write_changed"), (models.LoadedModel, "stream")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                app.learn(model, mark(path, frame, accept="yes"), source)
        assert model.read_bytes() == content
    assert sum(app.learn(model, path, source).learned.values()) == 60


def test_inputs_are_not_overwritten(files, model, source):
    path, _ = suggested(model, source)
    for target in (path, source):
        said = refusal(app.learn, model, path, source, target, error=Problem)
        assert "must not be a file to read from" in said
    assert "must not be" in refusal(app.suggest, model, source, source, error=Problem)
    assert "must end in" in refusal(app.suggest, model, source, "t.npz", error=Problem)
    paper = refusal(app.suggest, files / "paper.zonkey", source, error=Problem)
    assert "needs the recommended model" in paper
    source.write_text(source.read_text().replace("note", "group", 1))
    assert "has 'group' already" in refusal(app.suggest, model, source, error=ValueError)


def test_ids():
    ids = SampleIds("s.csv")
    assert ids.add({"id": [7.0, 8]}, ["s1", "s2"]) == ["7", "8"]
    assert ids.keys == ["7 (s1)", "8 (s2)"]
    assert ids.add({"id": ["7"]}, ["s1"]) == ["7"]
    assert "'7' is that of several in s.csv" in refusal(ids.add, {"id": ["7"]}, ["s9"])
    assert "row 4 of s.csv has none" in refusal(ids.add, {"id": [None]}, ["s1"])
    assert SampleIds("").add({"sample": ["u"], "file": ["a.png"], "id": [1]}, None) == ["u"]
    assert SampleIds("").add({"file": ["e\u0301.png"], "id": [1]}, None) == ["\u00e9.png"]
    named = SampleIds("")
    assert named.add({"other": [1]}, ["s1"]) == named.keys == ["s1"]


def test_numbers_as_labels(tmp_path):
    labels = np.repeat([3, 5, 7], 6)
    X = samples(np.repeat(SEEN[:3], 6), 1)
    model = zonkey.AnyShotClassifier(preprocessing=None).fit(X, labels)
    model.save(tmp_path / "m.zonkey")
    np.savez(tmp_path / "new.npz", features=samples(SEEN[:3], 2))
    app.suggest(tmp_path / "m.zonkey", tmp_path / "new.npz", tmp_path / "t.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    rows = [{**row, "accept": mark} for row, mark in zip(rows, ["yes", 9, "3"], strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = app.learn(tmp_path / "m.zonkey", tmp_path / "t.jsonl", tmp_path / "new.npz")
    assert found.added == [9]
    assert found.learned == {str(rows[0]["suggested"]): 1, "3": 1, "9": 1} or found.learned == {
        "3": 2,
        "9": 1,
    }
