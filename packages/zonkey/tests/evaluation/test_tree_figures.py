"""Figures of an evaluation in a tree agree with plain loops."""

import json

import any_shot_cases as cases
import numpy as np
import pytest
from refusals import refused
from tree_cases import PARENTS, TREE, naive_answer, naive_path

from zonkey import Chunks, evaluate
from zonkey.metrics import hierarchical_scores, tree_distance

# All classes have samples in one model, some have none in the other.
MIXED = cases.fitted().with_tree(PARENTS)
RNG = np.random.default_rng(4)
SEEN_Y = RNG.choice(cases.SEEN, 80)
MIXED_Y = RNG.choice(cases.LABELS, 80)
X = 2 * RNG.normal(size=(80, 6))
SEEN = MIXED.with_candidates(cases.SEEN)
MODELS = {"seen": (SEEN, SEEN_Y), "all": (MIXED, MIXED_Y)}


def naive_figures(model, y, below):
    """Return the figures, from probabilities and paths."""
    rows = [dict(zip(model.classes_, p, strict=True)) for p in model.predict_proba(X)]
    figures = {}
    for level in (1, 2, 3, 4):
        right = 0
        for row, label in zip(rows, y, strict=True):
            path = naive_path(label)
            right += naive_answer(row, level) == path[min(level, len(path)) - 1]
        figures[f"level@{level}"] = right / len(y)
    answers = [naive_answer(row, None, below) for row in rows]
    named = np.array(["unknown" if answer is None else answer for answer in answers])
    scores = hierarchical_scores(y, named, TREE)
    figures |= dict(zip(("tree_precision", "tree_recall", "tree_f1"), scores, strict=True))
    figures["tree_distance"] = tree_distance(y, named, TREE)
    if below is not None:
        held = [a in naive_path(label) for a, label in zip(answers, y, strict=True) if a]
        figures["tree_held"] = np.mean(held)
        figures["rejected"] = np.mean([answer is None for answer in answers])
    return figures


@pytest.mark.parametrize("below", [None, 0.6, 0.9])
@pytest.mark.parametrize("among", MODELS)
def test_figures_are_loops_over_paths(among, below):
    model, y = MODELS[among]
    model = model if below is None else model.with_rejection(below)
    result = evaluate(model, X, y)
    expected = naive_figures(model, y, below)
    for name, value in expected.items():
        assert result.scores[f"{name}_{among}"] == pytest.approx(value), name
        low, high = result.intervals[f"{name}_{among}"]
        assert low <= value + 1e-12
        assert value <= high + 1e-12
    assert ("tree_held_" + among in result.scores) == (below is not None)
    assert result.scores[f"tree_distance_{among}"] > 1  # edges, not clipped as shares are
    in_chunks = evaluate(model, Chunks(X, y, rows=17))
    assert in_chunks.scores == pytest.approx(result.scores)


@pytest.mark.filterwarnings("ignore:Strangers")
def test_strangers_are_rejected_where_no_node_is_sure():
    model, y = MIXED.with_rejection(0.9), np.where(np.arange(80) % 2, MIXED_Y, "other")
    strange = y == "other"
    rejected = model.predict(X)[strange] == "unknown"
    flat = model.with_tree(None).predict(X)[strange] == "unknown"
    assert 0 < rejected.mean() < flat.mean()
    for samples in ((X, y), (Chunks(X, y, rows=17),)):
        result = evaluate(model, *samples)
        assert result.scores["rejected_strangers"] == pytest.approx(rejected.mean())


def test_labels_of_inner_nodes_are_no_strangers():
    y = np.where(np.arange(80) % 2, MIXED_Y, "mammal")
    for samples in ((X, y), (Chunks(X, y, rows=17),)):
        with refused(ValueError, "labels of classes", "got 'mammal'", "Leave those samples out"):
            evaluate(MIXED, *samples)


def test_nodes_are_listed_in_the_order_of_reading():
    result = evaluate(MIXED, X, MIXED_Y)
    rows = result.per_node().to_dict("records")
    predicted = MIXED.predict(X)
    expected = sorted({naive_path(label)[:i] for label in MIXED_Y for i in range(1, 6)})
    assert [row["node"] for row in rows] == [path[-1] for path in expected]
    for row in rows:
        inside = [row["node"] in naive_path(label) for label in MIXED_Y]
        right = [row["node"] in naive_path(label) for label in predicted]
        assert row["n"] == sum(inside)
        assert row["accuracy"] == pytest.approx(np.mean(np.array(right)[inside]))
        assert row["level"] == len(naive_path(row["node"]))
        others = {}
        for label, answer in zip(MIXED_Y, predicted, strict=True):
            path = naive_path(answer)
            found = path[min(row["level"], len(path)) - 1]
            if row["node"] in naive_path(label) and found != row["node"]:
                others[found] = others.get(found, 0) + 1
        assert row["wrong_count"] == max(others.values(), default=0)
        assert others.get(row["wrong_answer"], 0) == row["wrong_count"]


def test_the_page_and_the_table_show_the_tree(tmp_path):
    result = evaluate(MIXED.with_rejection(0.6), X, MIXED_Y)
    text = result.summary()
    for words in ("accuracy at level 1 among all", "hierarchical F1", "(edges) among all"):
        assert words in text
    (line,) = [line for line in text.splitlines() if "(edges)" in line]
    assert f"{result.scores['tree_distance_all']:.2f}" in line
    page = result.to_html(tmp_path / "page.html").read_text()
    assert ">Tree</a>" in page
    assert "\N{NO-BREAK SPACE}" * 4 + "insect" in page
    nodes = json.loads(json.dumps(result.to_dict()))["nodes"]
    assert nodes[0]["node"] == "animal"


def test_without_a_tree_nothing_changes(tmp_path):
    flat = cases.fitted()
    result, other = evaluate(flat, X, MIXED_Y), evaluate(MIXED, X, MIXED_Y)
    assert result.scores == {name: other.scores[name] for name in result.scores}
    assert not [name for name in result.scores if name.startswith(("level", "tree"))]
    assert "nodes" not in result.to_dict()
    assert ">Tree</a>" not in result.to_html(tmp_path / "page.html").read_text()
    with refused(ValueError, "need a tree of classes"):
        result.per_node()
