"""Comparisons and classes of the report, against computations of their own."""

from collections import Counter

import numpy as np
import pytest
from made_up_records import SKILL, MadeUp
from scipy import stats

from zonkey.metrics import paired_bootstrap_interval
from zonkey_lab.paper.experiments import EXPERIMENTS, RANDOM
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.comparisons import (
    NO_DIFFERENCE,
    compare_predictions,
    comparison_table,
)
from zonkey_lab.paper.report.measures import points
from zonkey_lab.paper.report.sections import class_blocks

OVER_DRAWS = "over 3 draws of shots, queries fixed"


def table_of(collection, name):
    table = comparison_table(collection.study(name, "cub"))
    return {(row[0], row[1]): (row[2], row[3]) for row in table.rows}


def written(*interval, digits=2):
    middle, low, high = (points(value, digits) for value in interval)
    return f"{middle} [{low}, {high}]"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0123, 2, "+1.23"),
        (-0.0123, 2, "\N{MINUS SIGN}1.23"),
        (-0.0123, 1, "\N{MINUS SIGN}1.2"),
        (0.0, 2, "0.00"),
        (0.0, 1, "0.0"),
        (-1e-17, 2, "0.00"),  # what rounding leaves is nothing
        (-0.000049, 2, "\N{MINUS SIGN}0.005"),
        (0.0000021, 1, "+0.0002"),
        (0.0004, 1, "+0.04"),
    ],
)
def test_points_show_their_sign_however_small_they_are(value, digits, text):
    assert points(value, digits) == text


def test_models_are_compared_by_the_paired_bootstrap_of_all_seeds(made, collection):
    found = table_of(collection, "ablation")
    assert len(found) == 6 + 3
    for (_, pair), (cell, verdict) in found.items():
        names = pair.split(" - ")
        sides = []
        for name in names:
            runs = [made.results.get(("zero-shot", name, seed)) for seed in (0, 1)]
            sides.append([run["predicted"] for run in runs if run])
        assert [len(side) for side in sides] == [1 + (name in RANDOM) for name in names]
        truth = made.results["zero-shot", "BPL", 0]["truth"]
        interval = paired_bootstrap_interval(truth, *map(np.stack, sides))
        assert cell.page == written(*interval)
        assert cell.markdown == written(*interval, digits=1)
        is_better = SKILL[names[0]] > SKILL[names[1]]
        assert verdict == (f"{names[0]} is better" if is_better else NO_DIFFERENCE)


def test_the_difference_is_that_of_the_means_over_seeds(tmp_path):
    made = MadeUp(tmp_path)
    for seed, skill in enumerate((0.9, 0.5, 0.4)):
        made.zero_shot("BPL", skill, seed)
    made.zero_shot("BPL0", 0.6)
    runs = [read_collection(tmp_path).runs("zero-shot", "cub", name) for name in ("BPL", "BPL0")]
    comparison = compare_predictions(*runs)
    means = [np.mean([run["results"]["zsl"] for run in found]) for found in runs]
    assert comparison.difference == pytest.approx(means[0] - means[1])
    first = compare_predictions(runs[0][:1], runs[1])
    assert first.low > 0 > comparison.low  # seed 0 alone would have decided


def test_a_single_seed_of_a_random_model_is_told(tmp_path):
    made = MadeUp(tmp_path)
    runs = [[made.zero_shot(model, 0.5)] for model in ("BPL", "BPL0", "BPL1")]
    assert compare_predictions(runs[0], runs[1]).basis == "(a single seed of BPL)"
    assert compare_predictions(runs[0], runs[2]).basis == "(a single seed of BPL and of BPL1)"
    two = [*runs[0], made.zero_shot("BPL", 0.5, 1)]
    assert compare_predictions(two, runs[1]).basis == ""


def test_trials_are_compared_in_pairs(made, collection):
    found = table_of(collection, "mini-imagenet")
    n_models = len(EXPERIMENTS["mini-imagenet"].models)
    assert len(found) == 2 * (n_models - 1 + 2)
    assert ("1-shot", "recommended - shots alone") in found
    for (label, pair), (cell, verdict) in found.items():
        names, protocol = pair.split(" - "), f"trials-{label[0]}"
        first, second = (made.results[protocol, name, 0]["accuracies"] for name in names)
        test = stats.ttest_rel(first, second)
        low, high = test.confidence_interval(0.95)
        assert cell.page == f"{written(np.mean(first - second), low, high)} over 12 trials"
        assert (verdict == NO_DIFFERENCE) == (test.pvalue > 0.05)


def test_shots_are_compared_in_pairs_over_draws(made, collection):
    found = table_of(collection, "large-scale-fsl")
    n_models = len(EXPERIMENTS["large-scale-fsl"].models)
    assert len(found) == 2 * (n_models - 1 + 2)
    for (metric, pair), (cell, _) in found.items():
        runs = [made.results["all-classes", name, 0] for name in pair.split(" - ")]
        means = []
        for run in runs:
            columns = [run["shots"].index(K) for K in (1, 2, 3)]
            means.append(np.array(run[metric])[:, columns].mean(axis=1))
        low, high = stats.ttest_rel(*means).confidence_interval(0.95)
        assert cell.page == f"{written(np.mean(means[0] - means[1]), low, high)} {OVER_DRAWS}"


def test_any_shot_tells_what_each_shot_adds(made, collection):
    found = table_of(collection, "any-shot")
    hits = np.array(made.results["all-classes", "BPL (SFSP2)", 0]["hit@1"])
    low, high = stats.ttest_rel(hits[:, 1], hits[:, 0]).confidence_interval(0.95)
    cell, verdict = found["BPL (SFSP2), hit@1", "K = 1 - K = 0"]
    assert cell.page == f"{written(np.mean(hits[:, 1] - hits[:, 0]), low, high)} {OVER_DRAWS}"
    assert verdict == "K = 1 is better"
    assert len(found) == 9


@pytest.mark.parametrize("name", ["generalized-zsl", "runtime", "tsne", "convergence"])
def test_what_does_not_pair_is_not_compared(collection, name):
    assert comparison_table(collection.study(name, "cub")) is None


def test_different_samples_or_data_are_not_compared(tmp_path):
    made = MadeUp(tmp_path)
    first, second = [made.zero_shot("BPL", 0.9)], [made.zero_shot("BPL0", 0.1)]
    assert compare_predictions(first, second) is not None
    assert compare_predictions(first, []) is None
    other = [made.zero_shot("BPL0", 0.1, truth=np.zeros(200, np.int16))]
    assert compare_predictions(first, other) is None
    second[0]["data"]["sha256"] = "f" * 64
    assert compare_predictions(first, second) is None


# Classes


def test_best_and_worst_classes_and_frequent_confusions(tmp_path):
    truth = np.repeat(np.arange(25, dtype=np.int16), 10)
    right = np.tile(np.arange(10), 25) < np.repeat(np.arange(25) % 11, 10)
    predicted = np.where(right, truth, (truth + 1) % 25).astype(np.int16)
    names = [f"class {j:02d}" for j in range(25)]
    run = MadeUp(tmp_path).zero_shot("BPL", 0.5, truth=truth, predicted=predicted, classes=names)
    extremes, everyone, frequent, drawing = class_blocks(run, "map")
    accuracy = {name: np.mean(predicted[truth == j] == j) for j, name in enumerate(names)}
    best = sorted(names, key=lambda name: -accuracy[name])[:10]
    assert [row[0] for row in extremes.rows] == best
    worst = [row[3] for row in extremes.rows]
    assert [accuracy[name] for name in worst] == sorted(accuracy.values())[:10]
    for row in extremes.rows:
        assert row[1] == f"{100 * accuracy[row[0]]:.0f}"
        assert row[4] == f"{100 * accuracy[row[3]]:.0f}"
    assert everyone.rows == [[name, f"{100 * accuracy[name]:.0f}", "10"] for name in names]
    assert everyone.is_page_only
    assert everyone.is_folded
    counts = Counter((names[a], names[b]) for a, b in zip(truth, predicted, strict=True) if a != b)
    assert len(frequent.rows) == 20
    assert [row[2] for row in frequent.rows] == [f"{n} of 10" for _, n in counts.most_common(20)]
    for first, second, text in frequent.rows:
        assert text == f"{counts[first, second]} of 10"
    image = np.asarray(drawing.draw().axes[0].images[0].get_array())
    assert image.shape == (25, 25)
    assert np.diag(image) == pytest.approx([100 * accuracy[name] for name in names])
    assert image.sum(axis=1) == pytest.approx([100] * 25)


def test_a_matrix_of_many_classes_shows_the_most_confused_ones(tmp_path):
    names = [f"{j:03d}" for j in range(60)]
    truth = np.repeat(np.arange(60, dtype=np.int16), 2)
    predicted = truth.copy()
    predicted[:39] = 59  # one sample of class 19 stays right
    run = MadeUp(tmp_path).zero_shot("BPL", 1, truth=truth, predicted=predicted, classes=names)
    extremes, _, frequent, drawing = class_blocks(run, "map")
    assert len(extremes.rows) == 10
    assert len(frequent.rows) == 20
    assert drawing.caption.endswith("The 40 of 60 classes that are confused most often.")
    axis = drawing.draw().axes[0]
    labels = [label.get_text() for label in axis.get_xticklabels()]
    assert labels == [*names[:39], "059"]
    image = np.asarray(axis.images[0].get_array())
    assert image[:20, -1] == pytest.approx([100] * 19 + [50])
    assert np.diag(image) == pytest.approx([0] * 19 + [50] + [100] * 20)
