"""Graphs and explanations of a model of several labels agree with its answers."""

import json

import numpy as np
import pytest
from label_cases import NAMES, as_lists, make_labeled
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zonkey
from zonkey import MultiLabelClassifier


@pytest.fixture(scope="module")
def problem():
    X, Y, P = make_labeled(20)
    X = X.astype(np.float32)
    few = [[name for name in row if name != NAMES[5]] for row in as_lists(Y)]
    return X, MultiLabelClassifier(P, missing="unknown").fit(X, few), P


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_graph_gives_the_same_answers(problem, in_pipeline):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, model, _ = problem
    if in_pipeline:
        steps = make_pipeline(StandardScaler(), MultiLabelClassifier(preprocessing=None))
        model = steps.fit(X, model.predict(X))
    graph = zonkey.to_onnx(model, k=4)
    session = runtime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    assert names == ["indicator", "probabilities", "scores", "top_labels", "top_probabilities"]
    found = dict(zip(names, session.run(None, {"features": X}), strict=True))
    assert np.array_equal(found["indicator"], model.predict(X))
    assert np.allclose(found["probabilities"], model.predict_proba(X), atol=1e-5)
    assert np.allclose(found["scores"], model.decision_function(X), atol=1e-4)
    last = model[-1] if in_pipeline else model
    top = last.predict_top(model[:-1].transform(X) if in_pipeline else X, 4)
    assert np.mean(found["top_labels"] == top) > 0.99


def test_explanation_adds_up(problem):
    X, model, _ = problem
    for i in range(5):
        found = model.explain(X[i], k=12)
        scores, proba = model.decision_function(X[[i]])[0], model.predict_proba(X[[i]])[0]
        best = int(np.argmax(proba))
        assert found.label == NAMES[best]
        assert found.answer == NAMES[scores > 0].tolist()
        assert not found.rejected
        rows = found.parts["seen_classes"]
        assert np.isclose(sum(row["pull_winner"] for row in rows), scores[best], atol=1e-3)
        assert {row["label"]: row["kind"] for row in found.parts["classes"]}[NAMES[5]] == "unseen"
        chances = [row["probability"] for row in found.parts["classes"]]
        assert chances == sorted(chances, reverse=True)
    assert found.label in found.table()
    assert json.dumps(found.to_dict())
    assert found.plot() is not None


def test_an_index_is_refused_and_a_card_written(problem, tmp_path):
    _, model, _ = problem
    with pytest.raises(TypeError, match="predict_top"):
        zonkey.CandidateIndex(model)
    model.save(tmp_path / "m.zonkey")
    assert "any of 12 labels" in zonkey.model_card(tmp_path / "m.zonkey")


def test_an_unseen_label_owes_everything_to_its_name(problem):
    X, _, P = problem
    alone = MultiLabelClassifier(P.subset(NAMES[:2]), space="joint").fit(X)
    rows = {row["kind"]: row for row in alone.explain(X[0]).parts["seen_classes"]}
    assert rows["own samples"]["pull_winner"] == 0
    assert abs(rows["logistic regression"]["pull_winner"]) < 1e-12
