"""Comparisons, additions and classes of the report, against computations of their own."""

from collections import Counter

import numpy as np
import pytest
from made_up_records import HASH, SKILL
from scipy import stats

from zonkey.metrics import paired_bootstrap_interval
from zonkey_lab.paper.experiments import EXPERIMENTS, RANDOM
from zonkey_lab.paper.records import Key
from zonkey_lab.paper.report.blocks import TableBlock, Text
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.comparisons import (
    HELPS,
    NO_DIFFERENCE,
    NO_HELP,
    UNCLEAR,
    Comparison,
    compare_predictions,
    comparison_table,
    on_top_blocks,
    verdict_of,
)
from zonkey_lab.paper.report.measures import points
from zonkey_lab.paper.report.sections import (
    additions,
    build_report,
    class_blocks,
    experiment_blocks,
)
from zonkey_lab.paper.report.tables import unlabeled_table

OVER_DRAWS = "over 3 draws of shots, queries fixed"
ON_TOP = EXPERIMENTS["on-top"]
PAIR = ("BPL, recommended features", ON_TOP.subject)
MINUS = "\N{MINUS SIGN}"


def table_of(collection, name):
    table = comparison_table(collection.study(name, "cub"))
    return {(row[0], row[1]): (row[2], row[3]) for row in table.rows}


def written(middle, low, high, digits=2):
    middle, low, high = (points(value, digits) for value in (middle, low, high))
    return f"{middle} [{low}, {high}]"


def interval(made, *names):
    """Return the paired bootstrap of all seeds of two models."""
    sides = []
    for name in names:
        runs = [made.results.get(("zero-shot", name, seed)) for seed in (0, 1)]
        sides.append(np.stack([run["predicted"] for run in runs if run]))
        assert len(sides[-1]) == 1 + (name in RANDOM)
    return paired_bootstrap_interval(made.results["zero-shot", names[0], 0]["truth"], *sides)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0123, 2, "+1.23"),
        (-0.0123, 2, f"{MINUS}1.23"),
        (-0.0123, 1, f"{MINUS}1.2"),
        (0.0, 2, "0.00"),
        (0.0, 1, "0.0"),
        (-1e-17, 2, "0.00"),  # what rounding leaves is nothing
        (-0.000049, 2, f"{MINUS}0.005"),
        (0.0000021, 1, "+0.0002"),
        (0.0004, 1, "+0.04"),
    ],
)
def test_points_show_their_sign_however_small_they_are(value, digits, text):
    assert points(value, digits) == text


# Zero-shot models


def test_models_are_compared_by_the_paired_bootstrap_of_all_seeds(made, collection):
    found = table_of(collection, "ablation")
    assert len(found) == 6 + 3
    for (_, pair), (cell, verdict) in found.items():
        names = pair.split(" - ")
        expected = interval(made, *names)
        assert cell.page == written(*expected)
        assert cell.markdown == written(*expected, digits=1)
        is_better = SKILL[names[0]] > SKILL[names[1]]
        assert verdict == (f"{names[0]} is better" if is_better else NO_DIFFERENCE)


@pytest.mark.parametrize("name", ["beyond", "on-top"])
def test_all_models_are_compared_with_the_subject(made, collection, name):
    experiment = EXPERIMENTS[name]
    others = [model for model in experiment.models if model != experiment.subject]
    pairs = [(experiment.subject, other) for other in others]
    if name == "on-top":
        pairs = [pair[::-1] for pair in pairs]
    rows = comparison_table(collection.study(name, "cub")).rows
    assert [row[1] for row in rows] == [" - ".join(pair) for pair in pairs]
    for pair, row in zip(pairs, rows, strict=True):
        assert row[2].page == written(*interval(made, *pair))
    if name == "on-top":
        verdicts = {row[1].split(" - ")[0]: row[3] for row in rows}
        assert verdicts["BPL, recommended features"] == NO_HELP
        assert verdicts["BPL, unscaled, recommended features"] == HELPS


def test_the_difference_is_that_of_the_means_over_seeds(fresh, tmp_path):
    for seed, skill in enumerate((0.9, 0.5, 0.4)):
        fresh.zero_shot("BPL", skill, seed)
    fresh.zero_shot("BPL0", 0.6)
    runs = [read_collection(tmp_path).runs("zero-shot", "cub", name) for name in ("BPL", "BPL0")]
    comparison = compare_predictions(*runs)
    means = [np.mean([run["results"]["zsl"] for run in found]) for found in runs]
    assert comparison.difference == pytest.approx(means[0] - means[1])
    first = compare_predictions(runs[0][:1], runs[1])
    assert first.low > 0 > comparison.low  # seed 0 alone would have decided


def test_a_single_seed_of_a_random_model_is_told(fresh):
    runs = [[fresh.zero_shot(model, 0.5)] for model in ("BPL", "BPL0", "BPL1")]
    assert compare_predictions(runs[0], runs[1]).basis == "(a single seed of BPL)"
    assert compare_predictions(runs[0], runs[2]).basis == "(a single seed of BPL and of BPL1)"
    two = [*runs[0], fresh.zero_shot("BPL", 0.5, 1)]
    assert compare_predictions(two, runs[1]).basis == ""


def test_different_samples_or_data_are_not_compared(fresh):
    first, second = [fresh.zero_shot("BPL", 0.9)], [fresh.zero_shot("BPL0", 0.1)]
    assert compare_predictions(first, second) is not None
    assert compare_predictions(first, []) is None
    other = [fresh.zero_shot("BPL0", 0.1, truth=np.zeros(200, np.int16))]
    assert compare_predictions(first, other) is None
    second[0]["data"]["sha256"] = "f" * 64
    assert compare_predictions(first, second) is None


@pytest.mark.parametrize("name", ["generalized-zsl", "runtime", "tsne", "convergence"])
def test_what_does_not_pair_is_not_compared(collection, name):
    assert comparison_table(collection.study(name, "cub")) is None


# Few shots


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


# What helps, and what is added


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.002, HELPS),
        (0.02, 0.08, HELPS),
        (0.0, 0.02, UNCLEAR),
        (-0.02, 0.02, UNCLEAR),
        (-0.001, 0.0051, UNCLEAR),
        (-0.001, 0.0049, NO_HELP),  # half a point is what would be worth it
        (0.0, 0.0, NO_HELP),
        (-0.08, -0.02, NO_HELP),
    ],
)
def test_whether_something_helps_follows_from_the_interval(low, high, verdict):
    assert verdict_of(Comparison("a", "b", (low + high) / 2, low, high)) == verdict


def test_the_section_says_in_one_sentence_what_helps(collection):
    blocks = experiment_blocks(collection.study(ON_TOP.name, "cub"))
    texts = [block.text for block in blocks if isinstance(block, Text)]
    (sentence,) = (text for text in texts if text.startswith("Synthesis and competition on"))
    assert " BPL, recommended features does not help;" in sentence
    assert " BPL, unscaled, recommended features helps;" in sentence
    assert any(text.startswith("Helps: the interval") for text in texts)
    of_others = experiment_blocks(collection.study("beyond", "cub"))
    assert not any("competition on" in getattr(block, "text", "") for block in of_others)


def test_what_cannot_be_told_is_said(fresh, tmp_path):
    fresh.zero_shot(ON_TOP.subject, 0.5)
    results = fresh.results["zero-shot", ON_TOP.subject, 0]
    other = np.roll(results["predicted"].reshape(5, 40), 20, 1)
    fresh.zero_shot(PAIR[0], 0.5, predicted=other.reshape(-1), truth=results["truth"])
    sentence, _ = on_top_blocks(read_collection(tmp_path).study("on-top", "cub"))
    assert sentence.text.endswith(": BPL, recommended features is undecided.")
    assert on_top_blocks(read_collection(tmp_path).study("on-top", "sun")) == []


def test_what_is_added_names_the_recommended_model(made, collection):
    found = {row[0]: row[2] for row in additions(collection)}
    accuracy = [
        100 * np.mean([made.results["zero-shot", name, seed]["zsl"] for seed in seeds])
        for name, seeds in (("recommended", (0,)), ("BPL", (0, 1)))
    ]
    text = found["Recommended model"].page
    assert text.startswith(f"accuracy {accuracy[0]:.1f}, that of BPL {accuracy[1]:.1f} ± ")
    assert "HM, calibrated 50.0, that of BPL 50.5 ± 0.7; " in text
    difference = written(*interval(made, "recommended", "BPL"))
    assert text.endswith(f"difference of accuracy {difference}")
    on_top = found["Synthesis and competition on recommended features"]
    assert f"{PAIR[0]} does not help ({written(*interval(made, *PAIR))})" in on_top.page
    assert f"({written(*interval(made, *PAIR), digits=1)})" in on_top.markdown


# Unlabeled samples


def test_figures_with_unlabeled_samples_have_a_table_of_their_own(made, collection):
    blocks = experiment_blocks(collection.study("unlabeled", "cub"))
    (table, *_) = (block for block in blocks if isinstance(block, TableBlock))
    assert table.caption.startswith("Transductive: ")
    assert table.caption.endswith("Not comparable with other tables")
    tasks = [f"5-way {k}-shot, {kind}" for k in (1, 5) for kind in ("balanced", "Dirichlet(2)")]
    assert [row[0] for row in table.rows] == ["accuracy, unseen classes", "HM, all classes", *tasks]
    assert table.rows[0][1:3] == ["50.0", "60.0"]
    assert table.rows[1][1:3] == ["40.0", "45.0"]
    for row, name in zip(table.rows[2:4], ("balanced", "unbalanced"), strict=True):
        for cell, ending in zip(row[1:3], ("", "_unlabeled"), strict=True):
            values = made.results["unlabeled-trials-1", "recommended", 0][f"{name}{ending}"]
            assert cell.startswith(f"{100 * values.mean():.1f} ± ")
    titles = ("Unlabeled samples", "Few shots and unlabeled queries")
    for section in build_report(collection).sections:
        assert ("unlabeled" in str(section.parts)) == (section.title in titles)


def test_trials_that_could_not_be_drawn_are_left_out(fresh, tmp_path):
    fresh.unlabeled(unbalanced=False)
    rows = unlabeled_table(read_collection(tmp_path).study("unlabeled", "cub")).rows
    assert not any("Dirichlet" in row[0] for row in rows)
    assert len(rows) == 4


@pytest.mark.parametrize("same_split", [True, False])
def test_two_splits_of_the_same_data_may_be_in_one_table(fresh, tmp_path, same_split):
    fresh.unlabeled()
    for n_shot in (1, 5) if same_split else (1,):
        key = Key(f"unlabeled-trials-{n_shot}", "cub", "recommended")
        path = tmp_path / key.path
        path.write_text(path.read_text().replace(HASH, HASH[::-1]))
    blocks = experiment_blocks(read_collection(tmp_path).study("unlabeled", "cub"))
    texts = [block.text for block in blocks if isinstance(block, Text)]
    assert any(text.startswith("These runs differ") for text in texts) == (not same_split)


# Classes


def test_best_and_worst_classes_and_frequent_confusions(fresh):
    truth = np.repeat(np.arange(25, dtype=np.int16), 10)
    right = np.tile(np.arange(10), 25) < np.repeat(np.arange(25) % 11, 10)
    predicted = np.where(right, truth, (truth + 1) % 25).astype(np.int16)
    names = [f"class {j:02d}" for j in range(25)]
    run = fresh.zero_shot("BPL", 0.5, truth=truth, predicted=predicted, classes=names)
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


def test_a_matrix_of_many_classes_shows_the_most_confused_ones(fresh):
    names = [f"{j:03d}" for j in range(60)]
    truth = np.repeat(np.arange(60, dtype=np.int16), 2)
    predicted = truth.copy()
    predicted[:39] = 59  # one sample of class 19 stays right
    run = fresh.zero_shot("BPL", 1, truth=truth, predicted=predicted, classes=names)
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
