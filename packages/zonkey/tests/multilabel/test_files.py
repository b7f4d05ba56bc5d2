"""From tables with a column a|b to answers: fit, predict, evaluate, explain, classes, export."""

import numpy as np
import pandas as pd
import pytest
from label_cases import NAMES, as_lists, make_labeled

import zonkey
from zonkey import app
from zonkey.errors import DataError, Problem


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    X, Y, P = make_labeled(40, n=200)
    lists = [[name for name in row if name != NAMES[2]] for row in as_lists(Y)]
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    table.insert(0, "tags", ["|".join(names) for names in lists])
    table.insert(0, "id", np.arange(200))
    table["split"] = ["train"] * 150 + ["test"] * 50
    table.to_csv(folder / "rows.csv", index=False)
    prototypes = pd.DataFrame(P.matrix, columns=[f"f{i}" for i in range(X.shape[1])])
    prototypes.insert(0, "label", NAMES)
    prototypes.to_csv(folder / "names.csv", index=False)
    fitted = app.fit(
        folder / "rows.csv",
        folder / "names.csv",
        folder / "m.zonkey",
        multi_label=True,
        label_column="tags",
        id_columns=["id"],
    )
    return folder, fitted, X, lists, P


def test_fit(made):
    _, fitted, _, _, _ = made
    assert (fitted.n_samples, fitted.n_left_out) == (150, 50)
    summary = fitted.info["summary"]
    assert (summary["n_seen"], summary["n_unseen"]) == (11, 1)
    assert summary["estimator"] == "MultiLabelClassifier"


def test_the_file_holds_the_model_of_python(made):
    folder, _, X, lists, P = made
    loaded = zonkey.load(folder / "m.zonkey")
    model = zonkey.MultiLabelClassifier(P).fit(X[:150], lists[:150])
    assert np.allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-4)


def test_predict(made):
    folder, _, X, _, _ = made
    found = app.predict(folder / "m.zonkey", folder / "rows.csv", top=2, proba=True)
    model = zonkey.load(folder / "m.zonkey")
    assert found.columns[-5:] == ["predicted", "top_1", "top_2", "proba_1", "proba_2"]
    assert found.answers["predicted"] == model.predict_texts(X).tolist()
    assert found.answers["top_2"] == model.predict_top(X, 2)[:, 1].tolist()
    assert np.allclose(found.answers["proba_1"], model.predict_proba(X).max(axis=1), atol=1e-5)
    assert "" in found.answers["predicted"]


def test_evaluate_uses_the_rows_marked_test(made):
    folder, _, X, lists, _ = made
    found = app.evaluate(
        folder / "m.zonkey",
        folder / "rows.csv",
        folder / "page.html",
        label_column="tags",
        baselines=("logistic",),
    )
    assert len(found.truth) == 50
    expected = zonkey.evaluate(zonkey.load(folder / "m.zonkey"), X[150:], lists[150:])
    assert found.scores == pytest.approx(expected.scores, abs=1e-6)
    assert [model.name for model in found.models] == ["MultiLabelClassifier", "logistic"]
    assert "micro F1" in (folder / "page.html").read_text()


def test_explain_classes_and_export(made, tmp_path):
    folder, _, _, _, _ = made
    row = app.explain(folder / "m.zonkey", folder / "rows.csv", row=3)
    assert isinstance(row.explanation.answer, list)
    kinds = {row["label"]: row["kind"] for row in app.list_classes(folder / "m.zonkey")}
    assert kinds[NAMES[2]] == "unseen"
    more = pd.read_csv(folder / "names.csv").tail(1).assign(label="more")
    more.to_csv(tmp_path / "more.csv", index=False)
    changed = app.add_classes(folder / "m.zonkey", tmp_path / "more.csv", output=tmp_path / "n")
    assert changed.added == ["more"]
    assert zonkey.load(tmp_path / "n").classes_.tolist() == [*NAMES, "more"]


def test_without_classes_the_labels_are_those_of_the_samples(made, tmp_path):
    folder, _, _, _, _ = made
    options = {"label_column": "tags", "id_columns": ["id"], "multi_label": True}
    options |= {"missing": "unknown", "precision": 0.8}
    found = app.fit(folder / "rows.csv", None, tmp_path / "m", **options)
    assert found.info["summary"]["n_seen"] == 11
    model = zonkey.load(tmp_path / "m")
    assert (model.missing, model.precision) == ("unknown", 0.8)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"preset": "paper"}, Problem, "several labels"),
        ({"chunks": True}, Problem, "several labels"),
        ({"candidates": "unseen"}, Problem, "several labels"),
        ({"multi_label": False}, DataError, "tags"),
        ({"multi_label": False, "missing": "unknown"}, Problem, "`missing` is of several labels"),
        ({"multi_label": False, "precision": 0.8}, Problem, "`precision` is of several labels"),
    ],
)
def test_refusals(made, tmp_path, options, error, says):
    folder = made[0]
    given = {"multi_label": True, "label_column": "tags", "id_columns": ["id"], **options}
    with pytest.raises(error, match=says):
        app.fit(folder / "rows.csv", folder / "names.csv", tmp_path / "m", **given)
    assert not (tmp_path / "m").exists()


def test_labels_that_look_like_several_are_refused(made, tmp_path):
    folder, _, X, lists, _ = made
    names = pd.read_csv(folder / "names.csv")
    names["label"] = names["label"].replace(NAMES[2], f"{NAMES[2]}|{NAMES[3]}")
    names.to_csv(tmp_path / "names.csv", index=False)
    options = {"label_column": "tags", "id_columns": ["id"], "multi_label": True}
    with pytest.raises(DataError, match=r"names.csv must not contain '\|'.*'l02\|l03'. Rename"):
        app.fit(folder / "rows.csv", tmp_path / "names.csv", tmp_path / "m", **options)
    model = zonkey.MultiLabelClassifier().fit(X, [[*names, "a|b"] for names in lists])
    assert "a|b" in model.predict_sets(X[:1])[0]
    with pytest.raises(ValueError, match=r"'a\|b'\. Rename"):
        model.predict_texts(X)


def test_labels_without_a_description_are_named(made, tmp_path):
    folder = made[0]
    pd.read_csv(folder / "names.csv").iloc[1:].to_csv(tmp_path / "names.csv", index=False)
    options = {"label_column": "tags", "id_columns": ["id"], "multi_label": True}
    with pytest.raises(DataError, match="l00"):
        app.fit(folder / "rows.csv", tmp_path / "names.csv", tmp_path / "m", **options)
