"""Comparisons, additions and classes of the report, against computations of their own."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from made_up_records import HASH
from scipy import stats

from zonkey.metrics import paired_bootstrap_interval
from zonkey_lab.paper.experiments import EXPERIMENTS, RANDOM
from zonkey_lab.paper.records import Key
from zonkey_lab.paper.report.blocks import TableBlock, Text
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.comparisons import (
    compare_predictions,
    compare_trials,
    comparison_table,
    difference_columns,
)
from zonkey_lab.paper.report.measures import points
from zonkey_lab.paper.report.provenance import provenance_blocks
from zonkey_lab.paper.report.sections import class_blocks, details_section, experiment_blocks
from zonkey_lab.paper.report.tables import unlabeled_table

PARTS = ["recommended - shots alone", "recommended - prototype alone"]
MINUS = "\N{MINUS SIGN}"


def differences_of(collection, name, metric=""):
    """Return the columns of differences by heading and model."""
    return difference_columns(collection.study(name, "cub"), metric)


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
    (found,) = differences_of(collection, "ablation").values()
    assert len(found) == 6
    for other, cell in found.items():
        expected = interval(made, "BPL", other)
        assert cell.page == written(*expected)
        assert cell.markdown == written(*expected, digits=1)
    assert comparison_table(collection.study("ablation", "cub")) is None


@pytest.mark.parametrize("name", ["beyond", "on-top"])
def test_all_models_are_compared_with_the_subject(made, collection, name):
    experiment = EXPERIMENTS[name]
    others = [model for model in experiment.models if model != experiment.subject]
    ((heading, found),) = differences_of(collection, name).items()
    first_is_ours = name == "beyond"
    ours = experiment.subject
    assert heading == (f"{ours} minus it" if first_is_ours else f"it minus {ours}")
    assert [*found] == others
    for other, cell in found.items():
        pair = (ours, other) if first_is_ours else (other, ours)
        assert cell.page == written(*interval(made, *pair))


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
    assert differences_of(collection, name) == {}


# Few shots


def test_trials_are_compared_in_pairs(made, collection):
    found = {
        (heading.rpartition(", ")[2], "BPL (SFSP1)", model): cell
        for heading, cells in differences_of(collection, "mini-imagenet").items()
        for model, cell in cells.items()
    }
    n_models = len(EXPERIMENTS["mini-imagenet"].models)
    assert len(found) == 2 * (n_models - 1)
    table = comparison_table(collection.study("mini-imagenet", "cub"))
    assert [row[0] for row in table.rows] == PARTS
    for pair, *cells in table.rows:
        for label, cell in zip(table.headings[1:], cells, strict=True):
            found[label, *pair.split(" - ")] = cell
    for (label, *names), cell in found.items():
        protocol = f"trials-{label[0]}"
        first, second = (made.results[protocol, name, 0]["accuracies"] for name in names)
        low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
        assert cell.page == written(np.mean(first - second), low, high)


def test_without_the_papers_model_the_first_one_is_compared(fresh, tmp_path):
    values = np.array([0.3, 0.4, 0.6, 0.5])
    for model, shift in {"NN": 0.1, "PPA": 0.0}.items():
        fresh.trials(model, 0, 1, values + shift)
    collection = read_collection(tmp_path)
    experiment = replace(EXPERIMENTS["mini-imagenet"], models=("NN", "PPA"))
    study = replace(collection.study("mini-imagenet", "cub"), experiment=experiment)
    ((heading, cells),) = difference_columns(study).items()
    assert heading == "NN minus it, 1-shot"
    assert cells["PPA"].page == "+10.00 [+10.00, +10.00]"


def test_shots_are_compared_in_pairs_over_draws(made, collection):
    n_models = len([m for p, m, _ in made.results if p == "all-classes"])
    for metric in ("hit@1", "hit@5"):
        (found,) = differences_of(collection, "large-scale-fsl", metric).values()
        assert 20 < len(found) < n_models
        for other, cell in found.items():
            means = []
            for name in ("BPL (SFSP1)", other):
                run = made.results["all-classes", name, 0]
                columns = [run["shots"].index(K) for K in (1, 2, 3)]
                means.append(np.array(run[metric])[:, columns].mean(axis=1))
            low, high = stats.ttest_rel(*means).confidence_interval(0.95)
            assert cell.page == written(np.mean(means[0] - means[1]), low, high)
    table = comparison_table(collection.study("large-scale-fsl", "cub"))
    assert [row[0] for row in table.rows] == PARTS
    assert table.headings == ["difference", "hit@1", "hit@5"]


def test_seeds_of_a_trained_system_widen_the_interval_of_a_difference(fresh):
    rng = np.random.default_rng(5)
    values = np.clip(0.5 + 0.05 * rng.normal(size=(3, 12)) + 0.1 * np.arange(3)[:, None], 0, 1)
    other = np.clip(0.4 + 0.05 * rng.normal(size=12), 0, 1)
    runs = [fresh.trials("PPA", 0, 1, each, seed=seed) for seed, each in enumerate(values)]
    comparison = compare_trials([fresh.trials("NN", 0, 1, other)], runs)
    by_trial = stats.ttest_rel(other, values.mean(axis=0)).confidence_interval(0.95)
    by_seed = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval(0.95)
    width = np.hypot(*((high - low) / 2 for low, high in (by_trial, by_seed)))
    assert comparison.difference == pytest.approx(np.mean(other) - values.mean())
    assert comparison.high - comparison.difference == pytest.approx(width)
    alone = compare_trials([fresh.trials("NN", 0, 1, other)], runs[:1])
    assert alone.high - alone.low < comparison.high - comparison.low


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
    for part in details_section(collection.studies()).parts:
        assert ("unlabeled" in str(part.blocks)) == part.title.startswith(titles)


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
    blocks = provenance_blocks(read_collection(tmp_path), "cub")
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
