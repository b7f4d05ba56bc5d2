"""Metrics of answers in a tree agree with plain loops over paths."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refused
from tree_cases import PARENTS, TREE, naive_path

from zonkey.metrics import hierarchical_scores, level_accuracy, per_class_accuracy, tree_distance

RNG = np.random.default_rng(0)
TRUE = RNG.choice(TREE.leaves, 60)
ANSWERS = {
    "leaves": RNG.choice(TREE.leaves, 60),
    "nodes": RNG.choice(TREE.nodes, 60),
    "some rejected": RNG.choice([*TREE.nodes, "unknown"], 60),
    "near": np.array([naive_path(label)[-1 - (i % 2)] for i, label in enumerate(TRUE)]),
}


def path(label):
    return naive_path(label) if label in TREE.nodes else ()


@pytest.mark.parametrize("kind", ANSWERS)
def test_metrics_are_loops_over_paths(kind):
    answers = ANSWERS[kind]
    right, common, predicted, true, edges = np.zeros(5), 0, 0, 0, 0
    for label, answer in zip(TRUE, answers, strict=True):
        own, found = path(label), path(answer)
        for level in range(1, 6):
            node = own[: min(level, len(own))]
            right[level - 1] += found[: len(node)] == node
        both = len({*own} & {*found})
        common, predicted, true = common + both, predicted + len(found), true + len(own)
        edges += len(own) + len(found) - 2 * both
    assert_allclose(level_accuracy(TRUE, answers, TREE), right / 60)
    precision, recall = common / predicted, common / true
    expected = precision, recall, 2 * precision * recall / (precision + recall)
    assert_allclose(hierarchical_scores(TRUE, answers, PARENTS), expected)
    assert tree_distance(TRUE, answers, TREE) == pytest.approx(edges / 60)


def test_correct_answers():
    assert hierarchical_scores(TRUE, TRUE, TREE) == (1, 1, 1)
    assert level_accuracy(TRUE, TRUE, TREE).tolist() == [1] * 5
    assert tree_distance(TRUE, TRUE, TREE) == 0
    wrong = ANSWERS["leaves"]
    assert level_accuracy(TRUE, wrong, TREE)[-1] == (wrong == TRUE).mean()
    assert per_class_accuracy(TRUE, TRUE) == 1
    scores = hierarchical_scores(TRUE, np.full(60, "unknown"), TREE)
    assert np.isnan(scores.precision)
    assert (scores.recall, scores.f1) == (0, 0)


@pytest.mark.parametrize("metric", [level_accuracy, hierarchical_scores, tree_distance])
def test_faults_are_refused(metric):
    with refused(ValueError, "must be in the tree", "'yak'"):
        metric(["yak"], ["ant"], TREE)
    with refused(ValueError, "one kind"):
        metric(["ant"], [1], TREE)
    with refused(ValueError, "one entry for each"):
        metric(["ant"], ["ant", "bee"], TREE)
