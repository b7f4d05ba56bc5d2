"""Comparisons, classes and verdicts of the report, against computations of their own."""

from collections import Counter

import numpy as np
import pytest
from made_up_records import CLASSES, MadeUp
from scipy import stats

from zonkey.metrics import paired_bootstrap_interval
from zonkey.paper.report.claims import CLAIMS, FAILS, REPRODUCES, RULES, UNDECIDED, decide
from zonkey.paper.report.collection import Collection, read_collection
from zonkey.paper.report.comparisons import (
    NO_DIFFERENCE,
    Comparison,
    compare_predictions,
    comparison_table,
)
from zonkey.paper.report.measures import points
from zonkey.paper.report.sections import additions, class_blocks, findings, summary_section

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
    assert len(found) == 7
    for (_, pair), (cell, verdict) in found.items():
        names = pair.split(" - ")
        sides = []
        for name in names:
            runs = [made.results.get(("zero-shot", name, seed)) for seed in (0, 1)]
            sides.append([run["predicted"] for run in runs if run])
        assert [len(side) for side in sides] == [1 + (name in ("BPL1", "BPL")) for name in names]
        truth = made.results["zero-shot", "BPL", 0]["truth"]
        interval = paired_bootstrap_interval(truth, *map(np.stack, sides))
        assert cell.page == written(*interval)
        assert cell.markdown == written(*interval, digits=1)
        assert verdict == f"{names[0]} is better"  # as the made-up skill has it


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
    assert len(found) == 2 * (7 + 2)
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
    assert len(found) == 2 * (7 + 2)
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


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.2, "a is better"),
        (-0.2, -0.1, "b is better"),
        (-0.1, 0.1, NO_DIFFERENCE),
        (0, 0, NO_DIFFERENCE),
    ],
)
def test_a_verdict_follows_from_the_interval(low, high, verdict):
    assert Comparison("a", "b", (low + high) / 2, low, high).verdict == verdict


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


def test_a_few_classes_are_not_both_best_and_worst(tmp_path):
    extremes, *_ = class_blocks(MadeUp(tmp_path).zero_shot("BPL", 0.5), "map")
    assert sorted(row[0] for row in extremes.rows) == sorted(CLASSES)
    assert {row[3] for row in extremes.rows} == {""}


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


# Verdicts


@pytest.mark.parametrize(
    ("interval", "margin", "verdict"),
    [
        ((0.1, 0.3), 0, REPRODUCES),
        ((-0.1, 0.3), 0, UNDECIDED),
        ((0.0, 0.3), 0, UNDECIDED),
        ((-0.3, -0.1), 0, FAILS),
        ((-0.3, 0.1), 0.5, REPRODUCES),
        ((-0.6, -0.4), 0.5, UNDECIDED),  # worse, but maybe by less than the margin
        ((-0.6, 0.1), 0.5, UNDECIDED),
        ((-0.7, -0.6), 0.5, FAILS),
    ],
)
def test_the_interval_decides(interval, margin, verdict):
    comparison = Comparison("a", "b", sum(interval) / 2, *interval)
    assert decide(comparison, margin) == verdict
    if not margin:  # tables tell the same as the summary
        told = {REPRODUCES: "a is better", FAILS: "b is better", UNDECIDED: NO_DIFFERENCE}
        assert comparison.verdict == told[verdict]


def verdicts(made):
    found = findings(read_collection(made.records.folder))
    return {row[0]: verdict for verdict, rows in found.items() for row in rows}


def claim(start):
    (text,) = (claim.text for claim in CLAIMS if claim.text.startswith(start))
    return text


def test_every_claim_is_decided_on_full_records(made, collection):
    found = findings(collection)
    assert [len(found[verdict]) for verdict in (REPRODUCES, FAILS, UNDECIDED)] == [17, 0, 0]
    on_other_features = {claim("Accuracy of BPL"), claim("Harmonic mean")}
    texts = {c.text.format(n_way=5, n_shot=K) for c in CLAIMS for K in (1, 5)}
    assert {row[0] for row in found[REPRODUCES]} == texts - on_other_features
    assert {row[2] for row in found[REPRODUCES]} == {"cub"}


def test_convergence_is_judged_by_w_and_told_of_the_objective(collection):
    (row,) = (row for row in findings(collection)[REPRODUCES] if row[1] == "Algorithm 1")
    assert row[3] == (
        "relative change of W at step 5: 0.004; largest from there to step 6: 0.004; the "
        "objective falls by 83.3 % up to step 5 and moves by 2.38 % later"
    )  # 1 - 1/6, and 1/6 - 1/7


def test_claims_fail_where_the_order_is_the_other_one(tmp_path):
    made = MadeUp(tmp_path)
    for model, skill in {"FPL": 0.9, "RPL": 0.7, "BPL0": 0.5, "BPL1": 0.3, "BPL": 0.1}.items():
        made.zero_shot(model, skill)
    for model, skill in {
        "BPL (SFSP1)": 0.5,
        "BPL (SFSP2)": 0.65,
        "NN": 0.8,
        "BPL (novel)": 0.95,
    }.items():
        made.all_classes(model, skill, slope=-0.05)
        made.trials(model, skill, 1)
    made.convergence([0.5, 0.2, 0.1, 0.05, 0.004, 0.02])
    found = verdicts(made)
    assert set(found.values()) == {FAILS}
    assert len(found) == 5 + 5 + 2 + 1


def test_claims_without_a_visible_difference_are_undecided(tmp_path):
    made = MadeUp(tmp_path)
    for model in ("FPL", "RPL", "BPL0", "BPL1", "BPL"):
        made.zero_shot(model, 0.5)
    hits = [[0.5, 0.6, 0.5], [0.5, 0.4, 0.5], [0.5, 0.6, 0.6]]
    for model, columns in {
        "BPL (SFSP1)": [0, 1, 2],
        "BPL (SFSP2)": [1, 2, 0],
        "NN": [2, 0, 1],
    }.items():
        values = np.array(hits)[:, columns].tolist()
        made.write(
            "all-classes", model, shots=[0, 1, 2], n_novel=5, **{"hit@1": values, "hit@5": values}
        )
    found = verdicts(made)
    assert set(found.values()) == {UNDECIDED}
    assert len(found) == 5 + 4


@pytest.mark.parametrize(
    ("gap", "verdict"), [(0.02, REPRODUCES), (-0.003, REPRODUCES), (-0.02, FAILS)]
)
def test_half_a_point_less_is_not_worse(tmp_path, gap, verdict):
    made = MadeUp(tmp_path)
    for model, shift in {"BPL (SFSP1)": gap, "BPL (SFSP2)": 0.0}.items():
        values = [[0.5 + shift], [0.6 + shift], [0.7 + shift]]
        made.write("all-classes", model, shots=[1], n_novel=5, **{"hit@1": values, "hit@5": values})
    assert verdicts(made)[claim("Synthesis from shots")] == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.612, 0.613, 0.611], REPRODUCES),
        ([0.628, 0.628], REPRODUCES),
        ([0.631, 0.632, 0.630], FAILS),
        ([0.60, 0.65, 0.61], UNDECIDED),  # near, but the mean is not known to a point
        ([0.50, 0.55, 0.51], UNDECIDED),
        ([0.619], UNDECIDED),  # a single seed has no interval
    ],
)
def test_the_papers_figure_counts_on_its_own_features(tmp_path, values, verdict):
    made = MadeUp(tmp_path, features="res101.mat", split="PS v2", split_version="v2")
    for seed, value in enumerate(values):
        made.zero_shot("BPL", 0.5, seed, zsl=value, hm=None)  # the paper: 61.9
    (row,) = findings(read_collection(tmp_path))[verdict]
    assert row[0] == claim("Accuracy of BPL")
    assert row[3].endswith("; split PS v2; the paper's is the first release (PS v1, 2017)")


@pytest.mark.parametrize(("n_way", "n_shot", "n_claims"), [(5, 5, 1), (3, 5, 1), (5, 4, 0)])
def test_trials_are_claimed_of_the_papers_number_of_shots_only(tmp_path, n_way, n_shot, n_claims):
    made = MadeUp(tmp_path)
    for model, values in {"BPL (SFSP1)": [0.9, 0.8], "NN": [0.2, 0.1]}.items():
        sizes = {"n_way": n_way, "n_shot": n_shot, "n_query": 15, "n_trials": 2}
        made.write("trials-5", model, accuracies=np.array(values), **sizes)
    text = f"BPL is better than nearest neighbor in {n_way}-way trials, 5-shot"
    assert verdicts(made) == ({text: REPRODUCES} if n_claims else {})


def test_nothing_is_said_where_there_are_no_records():
    assert findings(Collection([])) == {REPRODUCES: [], FAILS: [], UNDECIDED: []}
    assert additions(Collection([])) == []


def test_what_is_added_comes_from_the_records(made, collection):
    found = {row[0]: row[2] for row in additions(collection)}
    hits = 100 * np.array(made.results["all-classes", "BPL (SFSP1)", 0]["hit@1"])
    mean, spread = hits.mean(axis=0), hits.std(axis=0, ddof=1)
    assert found["Any-shot curve"] == (
        f"one model from K = 0 (hit@1 {mean[0]:.1f}) to K = 3 "  # nothing to draw at K = 0
        f"(hit@1 {mean[3]:.1f} ± {spread[3]:.1f})"
    )
    area = found["Area under the seen-unseen curve (AUSUC)"]
    assert area.startswith("FPL 25.0, ")
    assert "BPL 25.1 ± 0.1" in area
    assert found["Accuracy step by step"] == (
        "accuracy 50.0 at t = 0, 55.0 at t = 5, 56.0 at t = 6"
    )
    assert found["Honest selection"].startswith("31 choices of parameters")  # 20, 3 x 3, 2


def test_the_summary_counts_what_it_lists(collection):
    section = summary_section(collection)
    first = section.parts[0].blocks[0].text
    assert first.endswith("reproduced 17, not reproduced 0, undecided 0.")
    assert [len(getattr(part.blocks[0], "rows", [])) for part in section.parts[1:4]] == [17, 0, 0]


def test_the_summary_states_its_rules_and_how_many_claims_are_judged(collection):
    texts = [block.text for block in summary_section(collection).parts[0].blocks]
    assert set(RULES) < set(texts)
    (number,) = (text for text in texts if text.startswith("About "))
    assert number.startswith("About 17 claims are tested at 95 % each, without correction for")
