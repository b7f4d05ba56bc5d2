"""Comparisons, classes and verdicts of the report, against computations of their own."""

from collections import Counter

import numpy as np
import pytest
from made_up_records import CLASSES, MadeUp
from scipy import stats

from zonkey.bench import EXPERIMENTS
from zonkey.metrics import paired_bootstrap_interval
from zonkey.report.claims import CLAIMS
from zonkey.report.classes import class_blocks
from zonkey.report.collection import Collection, read_collection
from zonkey.report.comparisons import comparison_table
from zonkey.report.confidence import NO_DIFFERENCE, Comparison, compare_predictions
from zonkey.report.measures import Measurement, points
from zonkey.report.rules import FAILS, REPRODUCES, UNDECIDED, decide
from zonkey.report.summary import additions, findings, summary_section


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return MadeUp(tmp_path_factory.mktemp("runs")).everything()


@pytest.fixture(scope="module")
def collection(made):
    return read_collection(made.records.folder)


def table_of(collection, name):
    table = comparison_table(EXPERIMENTS[name], "cub", collection)
    return {(row[0], row[1]): (row[2], row[3]) for row in table.rows}


def written(difference, low, high):
    return f"{points(difference)} [{points(low)}, {points(high)}]"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "+1.23"), (-0.0123, "\N{MINUS SIGN}1.23"), (0.0, "0.00"), (-0.00001, "0.00")],
)
def test_points_carry_their_sign(value, text):
    assert points(value) == text


def test_models_are_compared_by_the_paired_bootstrap_of_the_first_seed(made, collection):
    found = table_of(collection, "ablation")
    assert len(found) == 7
    for (_, pair), (text, verdict) in found.items():
        names = pair.split(" - ")
        first, second = (made.results["zero-shot", name, 0] for name in names)
        interval = paired_bootstrap_interval(
            first["truth"], first["predicted"], second["predicted"]
        )
        assert text == written(*interval)
        assert verdict == f"{names[0]} is better"  # as the made-up skill has it


def test_trials_are_compared_in_pairs(made, collection):
    found = table_of(collection, "mini-imagenet")
    assert len(found) == 8
    for (label, pair), (text, verdict) in found.items():
        names, protocol = pair.split(" - "), f"trials-{label[0]}"
        first, second = (made.results[protocol, name, 0]["accuracies"] for name in names)
        test = stats.ttest_rel(first, second)
        low, high = test.confidence_interval(0.95)
        assert text == written(np.mean(first - second), low, high)
        assert (verdict == NO_DIFFERENCE) == (test.pvalue > 0.05)


def test_shots_are_compared_in_pairs_over_draws(made, collection):
    found = table_of(collection, "large-scale-fsl")
    assert len(found) == 8
    for (metric, pair), (text, _) in found.items():
        runs = [made.results["all-classes", name, 0] for name in pair.split(" - ")]
        means = []
        for run in runs:
            columns = [run["shots"].index(K) for K in (1, 2, 3)]
            means.append(np.array(run[metric])[:, columns].mean(axis=1))
        low, high = stats.ttest_rel(*means).confidence_interval(0.95)
        assert text == written(np.mean(means[0] - means[1]), low, high)


def test_any_shot_tells_what_each_shot_adds(made, collection):
    found = table_of(collection, "any-shot")
    hits = np.array(made.results["all-classes", "BPL (SFSP2)", 0]["hit@1"])
    low, high = stats.ttest_rel(hits[:, 1], hits[:, 0]).confidence_interval(0.95)
    text, verdict = found["BPL (SFSP2), hit@1", "K = 1 - K = 0"]
    assert text == written(np.mean(hits[:, 1] - hits[:, 0]), low, high)
    assert verdict == "K = 1 is better"
    assert len(found) == 6


@pytest.mark.parametrize("name", ["generalised-zsl", "runtime", "tsne", "convergence"])
def test_what_does_not_pair_is_not_compared(collection, name):
    assert comparison_table(EXPERIMENTS[name], "cub", collection) is None


def test_different_samples_are_not_compared(tmp_path):
    made = MadeUp(tmp_path)
    first = made.zero_shot("BPL", 0.9)
    second = made.zero_shot("BPL0", 0.1, truth=np.zeros(200, np.int16))
    assert compare_predictions(first, second) is None
    assert compare_predictions(first, None) is None


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
    extremes, frequent, drawing = class_blocks(run, "map")
    accuracy = {name: np.mean(predicted[truth == j] == j) for j, name in enumerate(names)}
    best = sorted(names, key=lambda name: -accuracy[name])[:10]
    assert [row[0] for row in extremes.rows] == best
    worst = [row[3] for row in extremes.rows]
    assert [accuracy[name] for name in worst] == sorted(accuracy.values())[:10]
    for row in extremes.rows:
        assert row[1] == f"{100 * accuracy[row[0]]:.0f}"
        assert row[4] == f"{100 * accuracy[row[3]]:.0f}"
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


def test_a_matrix_of_many_classes_is_not_drawn(tmp_path):
    names = [f"{j:03d}" for j in range(51)]
    codes = np.arange(51, dtype=np.int16)
    run = MadeUp(tmp_path).zero_shot("BPL", 1, truth=codes, predicted=codes, classes=names)
    extremes, frequent = class_blocks(run, "map")
    assert len(extremes.rows) == 10
    assert frequent.rows == []


# Verdicts


@pytest.mark.parametrize(
    ("interval", "first", "second", "verdict"),
    [
        ((0.1, 0.3), (0.5, 0.05), (0.3, 0.05), REPRODUCES),
        ((0.1, 0.3), (0.5, 0.15), (0.3, 0.05), UNDECIDED),  # spreads overlap
        ((-0.1, 0.3), (0.5, None), (0.3, None), UNDECIDED),  # 0 inside
        ((-0.3, -0.1), (0.3, None), (0.5, 0.1), FAILS),
        ((-0.3, -0.1), (0.3, None), (0.5, 0.3), UNDECIDED),
        ((0.1, 0.3), (0.3, None), (0.5, None), UNDECIDED),  # the first seed is no rule
    ],
)
def test_interval_and_spread_decide_together(interval, first, second, verdict):
    comparison = Comparison("a", "b", sum(interval) / 2, *interval)
    assert decide(comparison, Measurement(*first), Measurement(*second)) == verdict


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
    assert {row[0] for row in found[REPRODUCES]} == {c.text for c in CLAIMS} - on_other_features
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
        "BPL (SFSP1)": 0.3,
        "BPL (SFSP2)": 0.5,
        "NN": 0.7,
        "BPL (novel)": 0.9,
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
    ("zsl", "verdict"), [(0.612, REPRODUCES), (0.625, REPRODUCES), (0.63, FAILS)]
)
def test_the_papers_figure_counts_on_its_own_features(tmp_path, zsl, verdict):
    made = MadeUp(tmp_path, features="res101.mat")
    made.write("zero-shot", "BPL", zsl=zsl)  # the paper: 61.9
    assert verdicts(made) == {claim("Accuracy of BPL"): verdict}


def test_nothing_is_said_where_there_are_no_records():
    assert findings(Collection([])) == {REPRODUCES: [], FAILS: [], UNDECIDED: []}
    assert additions(Collection([])) == []


def test_what_is_added_comes_from_the_records(made, collection):
    found = {row[0]: row[2] for row in additions(collection)}
    hits = 100 * np.array(made.results["all-classes", "BPL (SFSP1)", 0]["hit@1"])
    mean, spread = hits.mean(axis=0), hits.std(axis=0, ddof=1)
    assert found["Any-shot curve"] == (
        f"one model from K = 0 (hit@1 {mean[0]:.1f} ± {spread[0]:.1f}) to K = 3 "
        f"(hit@1 {mean[3]:.1f} ± {spread[3]:.1f})"
    )
    area = found["Area under the seen-unseen curve (AUSUC)"]
    assert area.startswith("FPL 25.0, ")
    assert "BPL 25.1 ± 0.1" in area
    assert found["Accuracy step by step"] == (
        "accuracy 50.0 at t = 0, 55.0 at t = 5, 56.0 at t = 6"
    )
    assert found["Honest selection"].startswith("13 choices of parameters")  # 7 and 3 x 2


def test_the_summary_counts_what_it_lists(collection):
    section = summary_section(collection)
    first = section.parts[0].blocks[0].text
    assert first.endswith("reproduced 17, not reproduced 0, undecided 0.")
    assert [len(getattr(part.blocks[0], "rows", [])) for part in section.parts[1:4]] == [17, 0, 0]
