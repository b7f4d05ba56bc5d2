"""A comparison on a small data set: figures, resuming, failures, budget, model files."""

import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from small_data import small_dataset

import zonkey
from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, Split
from zonkey.metrics import paired_bootstrap_interval, per_class_accuracy
from zonkey_lab.compare import budget, running
from zonkey_lab.compare.board import as_json, score_columns, tell_lead
from zonkey_lab.compare.comparing import compare
from zonkey_lab.compare.data import divide, parse_unseen
from zonkey_lab.compare.measuring import fit_system
from zonkey_lab.compare.page import describe_plan
from zonkey_lab.compare.running import DONE, FAILED, NOT_RUN, Plan, Task, saved_path
from zonkey_lab.compare.simple import NearestPrototype
from zonkey_lab.compare.standings import sort_of
from zonkey_lab.compare.systems import SHOTS, System, find_systems, has_torch, split_names
from zonkey_lab.paper.experiments import END_TO_END, PUBLISHED_SIZES
from zonkey_lab.paper.records import Records, unpack
from zonkey_lab.peers.zsl import ESZSL

QUICK = ["RPL", "ESZSL", "nearest mean", "exemplars"]


@pytest.fixture
def plan(tmp_path):
    return Plan(n_points=2, n_folds=2, n_seeds=2, n_draws=3, runs=tmp_path / "runs")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished comparison with model files."""
    folder = tmp_path_factory.mktemp("compared")
    wanted = Plan(n_points=2, n_folds=2, n_seeds=2, runs=folder / "runs", save=folder / "models")
    return compare([small_dataset(noise=2.0)], wanted, models=[*QUICK, "DeViSE", "recommended"])


def row_of(comparison, name):
    return next(row for row in comparison.boards[0].rows if row.system.name == name)


def test_rows_are_sorted_and_figures_are_those_of_the_fitted_system(compared):
    [board] = compared.boards
    values = [row.figures["zsl"].value for row in board.rows[:-1]]
    assert values == sorted(values, reverse=True)
    assert board.rows[-1].system.name == "nearest mean"
    assert "zsl" not in board.rows[-1].figures
    row, data = row_of(compared, "exemplars"), compared.datas[0]
    found = row.choices[0]["results"]
    model, _ = fit_system(row.system, data, found["chosen"], seen_penalty=found["seen_penalty"])
    X = model[:-1].transform(data.X_test_unseen)
    predicted = model[-1].with_candidates("unseen").predict(X)
    expected = per_class_accuracy(data.y_test_unseen, predicted)
    assert row.figures["zsl"].value == pytest.approx(expected)
    among_all = model[-1].with_candidates("all")
    s = per_class_accuracy(
        data.y_test_seen, among_all.predict(model[:-1].transform(data.X_test_seen))
    )
    u = per_class_accuracy(data.y_test_unseen, among_all.predict(X))
    for name, value in {"acc_s": s, "acc_u": u, "hm": 2 * s * u / (s + u)}.items():
        assert row.figures[name].value == pytest.approx(value)


def test_intervals_and_paired_differences_agree_with_the_paired_bootstrap(compared):
    first, second = row_of(compared, "ESZSL"), row_of(compared, "recommended")
    results = [row.runs[0][0]["results"] for row in (first, second)]
    truth = unpack(results[0]["truth_unseen"])
    predicted = [unpack(each["predicted_unseen"]) for each in results]
    expected = paired_bootstrap_interval(truth, *predicted)
    gap = first.gap
    assert gap.value == pytest.approx(expected.difference)
    assert_allclose([gap.low, gap.high], expected[1:], atol=0.03)
    never = np.full_like(truth, -1)
    alone = paired_bootstrap_interval(truth, predicted[0], never)
    figure = first.figures["zsl"]
    assert_allclose([figure.low, figure.high], alone[1:], atol=0.03)
    assert sort_of(gap) == (1 if expected.low > 0 else -1 if expected.high < 0 else 0)


def test_seeds_of_random_systems_have_a_spread_and_widen_the_interval(compared):
    row = row_of(compared, "DeViSE")
    assert len(row.runs[0]) == 2
    of_seeds = [run["results"]["zsl"] for run in row.runs[0]]
    assert row.figures["zsl"].value == pytest.approx(np.mean(of_seeds))
    assert row.figures["zsl"].spread == pytest.approx(np.std(of_seeds, ddof=1))
    assert row_of(compared, "RPL").figures["zsl"].spread is None


def test_costs_points_and_probabilities_are_reported(compared):
    own, peer = row_of(compared, "recommended"), row_of(compared, "RPL")
    assert own.n_points is None
    assert 2 <= peer.n_points <= 4
    assert row_of(compared, "nearest mean").n_points == 0
    for row in (own, peer):
        assert row.costs["choosing"] > 0
        assert row.costs["training"] > 0
        assert row.costs["prediction"] > 0
    assert 0 <= own.figures["ece"].value <= 1
    assert 0 <= own.figures["brier"].value <= 2
    assert "ece" not in peer.figures


def test_saved_models_predict_the_same(compared):
    data, plan = compared.datas[0], compared.plan
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    names = data.prototypes.labels
    for row in compared.boards[0].rows:
        results = row.runs[0][0]["results"]
        codes = np.concatenate([unpack(results["all_seen"]), unpack(results["all_unseen"])])
        model = zonkey.load(saved_path(plan, row.system, 0))
        assert_array_equal(model.predict(X), names[codes])


def test_model_files_of_other_data_are_replaced_and_others_kept(plan, tmp_path):
    wanted = replace(plan, save=tmp_path / "models", facts={"text_encoder": None})
    path = saved_path(wanted, System("RPL"), 0)
    first, second = small_dataset(), small_dataset(noise=2.0)
    compare([first], wanted, models=["RPL"])
    kept = path.read_bytes()
    compare([first], wanted, models=["RPL"])
    assert path.read_bytes() == kept
    found = compare([second], wanted, models=["RPL"])
    results = found.boards[0].rows[0].runs[0][0]["results"]
    predicted = zonkey.load(path).predict(second.X_test_unseen)
    assert_array_equal(predicted, second.prototypes.labels[unpack(results["all_unseen"])])
    path.write_bytes(b"cut off")
    compare([second], wanted, models=["RPL"])
    assert_array_equal(zonkey.load(path).predict(second.X_test_unseen), predicted)


def test_records_are_reused_and_only_what_is_missing_is_run(plan, monkeypatch):
    data = small_dataset()
    first = compare([data], plan, models=QUICK)
    before = {path: path.stat().st_mtime_ns for path, _ in Records(plan.runs).items()}
    assert len(before) == 2 * len(QUICK)
    missing = next(path for path in before if "compare" in str(path) and "eszsl" in path.name)
    missing.unlink()
    seen = []
    monkeypatch.setattr(running, "choose_parameters", lambda *_, **__: seen.append("chosen"))
    again = compare([data], plan, models=QUICK)
    assert not seen
    assert missing.exists()
    assert [one.system.name for one in again.outcomes if one.seconds] == ["ESZSL"]
    after = {path: path.stat().st_mtime_ns for path, _ in Records(plan.runs).items()}
    assert {path for path in after if after[path] != before[path]} == {missing}
    figures = [[row.figures["zsl"] for row in each.boards[0].rows[:-1]] for each in (first, again)]
    assert figures[0] == figures[1]


def test_a_choice_continues_with_the_points_that_an_interrupted_one_has_scored(plan, monkeypatch):
    data, fit, n_fits = small_dataset(), ESZSL.fit, []

    def count(self, X, y):
        n_fits.append(len(n_fits))
        if len(n_fits) > 5:  # two points on two folds, and a part of the third
            raise KeyboardInterrupt
        return fit(self, X, y)

    monkeypatch.setattr(ESZSL, "fit", count)
    wanted = replace(plan, n_points=4)
    with pytest.raises(KeyboardInterrupt):
        compare([data], wanted, models=["ESZSL"])
    [(_, record)] = Records(plan.runs).items()
    scored = record["results"]["points"]
    assert scored
    monkeypatch.setattr(ESZSL, "fit", fit)
    found = row_of(compare([data], wanted, models=["ESZSL"]), "ESZSL").choices[0]["results"]
    assert all(point in found["points"] for point in scored)
    alone = compare([data], replace(wanted, runs=plan.runs / "alone"), models=["ESZSL"])
    assert row_of(alone, "ESZSL").choices[0]["results"] == found


def test_other_settings_are_run_again(plan):
    data = small_dataset()
    compare([data], plan, models=["RPL"])
    again = compare([data], replace(plan, n_points=3), models=["RPL"])
    assert again.outcomes[0].seconds > 0
    assert row_of(again, "RPL").n_points > 2


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, ImportError])
def test_a_system_that_fails_is_listed_and_does_not_stop_the_others(plan, monkeypatch, error):
    def fail(self, X, y):
        raise error("no fit for these data")

    monkeypatch.setattr(ESZSL, "fit", fail)
    found = compare([small_dataset()], plan, models=QUICK)
    assert {one.system.name: one.status for one in found.outcomes} == {
        **dict.fromkeys(QUICK, DONE),
        "ESZSL": FAILED,
    }
    [absent] = found.boards[0].absent
    assert "no fit for these data" in absent.reason
    assert len(found.boards[0].rows) == len(QUICK) - 1
    assert as_json(found.boards[0])["absent"][0]["name"] == "ESZSL"


def test_parameters_are_chosen_without_test_samples(plan, monkeypatch):
    data, fit, fitted = small_dataset(), ESZSL.fit, []

    def spy(self, X, y):
        fitted.append((len(y), {*y.tolist()}))
        return fit(self, X, y)

    monkeypatch.setattr(ESZSL, "fit", spy)
    compare([data], plan, models=["ESZSL"])
    n_train, seen = len(data.split.train), {*data.seen_classes.tolist()}
    assert all(n <= n_train and labels <= seen for n, labels in fitted)
    *choosing, measuring = fitted
    assert measuring == (n_train, seen)
    # Folds hold out half of the classes, or some to choose the penalty.
    assert sum(labels < seen for _, labels in choosing) >= 2 * 2


def test_several_splits_hold_out_other_classes_and_figures_are_means(plan):
    datas = divide(small_dataset(), n_splits=2, seed=3)
    assert {*datas[0].unseen_classes} != {*datas[1].unseen_classes}
    found = compare(datas, plan, models=["RPL", "exemplars"])
    for row in found.boards[0].rows:
        of_splits = [runs[0]["results"]["zsl"] for runs in row.runs]
        assert len(of_splits) == 2
        assert row.figures["zsl"].value == pytest.approx(np.mean(of_splits))
        assert row.figures["zsl"].low <= row.figures["zsl"].value <= row.figures["zsl"].high


def test_systems_run_in_processes(plan):
    found = compare([small_dataset()], plan, models=QUICK, n_jobs=2)
    alone = compare([small_dataset()], replace(plan, runs=plan.runs / "alone"), models=QUICK)
    figures = [[row.figures for row in each.boards[0].rows] for each in (found, alone)]
    assert figures[0] == figures[1]


# Few shots


def test_few_shot_systems_are_compared_on_the_same_draws(plan):
    models = ["NN", "nearest mean", "GDA", "recommended", "BD-CSPN"]
    shots = replace(plan, shots=(1, 3))
    found = compare([small_dataset(noise=2.0)], shots, models=models)
    titles = [board.title for board in found.boards]
    assert titles[:2] == [
        "1 shot of each class",
        "1 shot of each class, and unlabeled test samples",
    ]
    inductive, transductive, more, _ = found.boards
    assert {row.system.name for row in inductive.rows} == {*models} - {"BD-CSPN"}
    assert [row.system.name for row in transductive.rows] == ["BD-CSPN"]
    for row in more.rows:
        draws = unpack(row.runs[0][0]["results"]["accuracies"])
        assert len(draws) == 3
        assert row.figures["accuracy"].value == pytest.approx(draws.mean())
    nn = next(row for row in more.rows if row.system.name == "NN")
    own = more.reference
    pairs = [unpack(row.runs[0][0]["results"]["accuracies"]) for row in (nn, own)]
    assert nn.gap.value == pytest.approx(np.mean(pairs[0] - pairs[1]))


def test_trials_of_some_classes(plan):
    found = compare(
        [small_dataset(noise=2.0)], replace(plan, shots=(1,), n_way=2, n_draws=6), models=["NN"]
    )
    results = found.boards[0].rows[0].runs[0][0]["results"]
    assert results["n_way"] == 2
    assert len(unpack(results["accuracies"])) == 6


# Names


def test_names_and_groups_of_systems():
    names = {one.name for one in find_systems(None)}
    assert {"recommended", "BPL, as printed", "ESZSL", "TF-VAEGAN", "nearest prototype"} <= names
    assert "DIPL" not in {one.name for one in find_systems(["all"])}  # transductive
    assert not any(one.uses_torch for one in find_systems(["numpy"]))
    assert all(one.uses_torch for one in find_systems(["torch"]))
    assert [one.name for one in find_systems(["eszsl", "ESZSL"])] == ["ESZSL"]
    assert split_names(["ESZSL,BPL, as printed,RPL", "SAE"]) == [
        *("ESZSL", "BPL, as printed", "RPL", "SAE")
    ]
    assert any(one.is_transductive for one in find_systems(None, SHOTS))
    names = {one.name for one in find_systems(["all"], SHOTS)}
    assert not names & {*END_TO_END, *PUBLISHED_SIZES}  # of pixels, and of hours


def test_systems_of_the_other_task_are_refused_as_such():
    with refused(ValueError, "few-shot systems; got 'RPL'. Leave out --shots"):
        find_systems(["RPL"], SHOTS)
    with refused(ValueError, "zero-shot systems; got 'TIM'. Add --shots"):
        find_systems(["TIM"])


def test_unknown_names_get_suggestions():
    with refused(ValueError, "got 'ESZLS'", r"Did you mean 'ESZSL'"):
        find_systems(["ESZLS"])
    with refused(ValueError, "got 'qqqq'", "zonkey methods"):
        find_systems(["qqqq"])


def test_systems_that_need_torch_are_not_run_without_it(plan, monkeypatch):
    monkeypatch.setattr("zonkey_lab.compare.systems.find_spec", lambda _: None)
    has_torch.cache_clear()
    try:
        found = compare([small_dataset()], plan, models=["CVAE", "RPL"])
    finally:
        has_torch.cache_clear()
    absent = found.outcomes[0]
    assert (absent.status, absent.reason) == (NOT_RUN, "needs torch, which is not installed")
    assert found.outcomes[1].status == DONE


# Budget


def test_times_are_read():
    assert [budget.parse_seconds(text) for text in ("90s", "10m", "1.5h")] == [90, 600, 5400]
    for wrong in ("10", "-1m", "m", "soon"):
        with refused(ValueError, "`budget` must be a positive time"):
            budget.parse_seconds(wrong)


def test_a_short_budget_leaves_systems_out_with_an_estimate_cheap_ones_first(plan, monkeypatch):
    costs = {"RPL": 1e-6, "ESZSL": 1e6}
    monkeypatch.setattr("zonkey_lab.compare.systems._COSTS", costs)
    found = compare(
        [small_dataset()], replace(plan, n_points=12), models=["ESZSL", "RPL"], budget=60.0
    )
    assert [(one.system.name, one.status) for one in found.outcomes] == [
        ("RPL", DONE),
        ("ESZSL", NOT_RUN),
    ]
    assert "no time left for it: about" in found.outcomes[1].reason
    assert found.plan.n_points == budget.FEWEST_POINTS
    # The same number for the cheap system, too.
    assert row_of(found, "RPL").choices[0]["results"]["n_start"] == budget.FEWEST_POINTS


def test_a_system_that_takes_too_long_is_ended(plan, monkeypatch):
    monkeypatch.setattr(ESZSL, "fit", lambda *_: time.sleep(60))
    start = time.monotonic()
    found = compare([small_dataset()], plan, models=["ESZSL"], budget=1.5)
    assert time.monotonic() - start < 30
    late = next(one for one in found.outcomes if one.system.name == "ESZSL")
    assert late.status == NOT_RUN
    assert "the budget was used up" in late.reason


def test_a_task_that_waits_until_the_budget_is_used_up_does_not_start(plan):
    task = Task(System("RPL"), small_dataset(), 0, plan, deadline=time.time() - 1)
    outcome = running.run_task(task)
    assert outcome.status == NOT_RUN
    assert "no time left for it: about" in outcome.reason
    assert not list(Records(plan.runs))


def test_estimates_learn_from_what_has_run():
    clock = budget.Clock(100.0)
    slow, network = System("SSE"), System("CVAE")
    assert clock.has_time_for(slow, 60.0)
    clock.learn(System("RPL"), 1.0, 3.0)
    assert not clock.has_time_for(slow, 60.0)
    assert clock.has_time_for(network, 60.0)  # of another kind
    assert budget.Clock(None).has_time_for(slow, 1e9)


# Data


def test_classes_are_held_out_as_asked():
    data = small_dataset()
    assert divide(data)[0] is data
    [named] = divide(data, ["c00", "c05"])
    assert named.unseen_classes.tolist() == ["c00", "c05"]
    assert not np.isin(named.split.val_classes, ["c00", "c05"]).any()
    [some] = divide(data, 3)
    assert len(some.unseen_classes) == 3
    assert {*some.split.train} | {*some.split.test_seen} | {*some.split.test_unseen} == {
        *range(len(data.y))
    }
    more = {**dict(zip(data.prototypes.labels, data.prototypes.matrix, strict=True))}
    wider = Dataset("wider", data.X, data.y, {**more, "never": [1.0] * 5}, data.split)
    assert divide(wider)[0].prototypes.labels.tolist() == data.prototypes.labels.tolist()
    plain = Dataset("plain", data.X, data.y, data.prototypes, Split(np.arange(len(data.y)), []))
    assert len(divide(plain)[0].unseen_classes) == 3  # a quarter
    with refused(DataError, "4 classes to learn from and 2 to hold out"):
        divide(plain, 10)


def test_texts_of_the_option_for_unseen_classes(tmp_path):
    listed = tmp_path / "held.txt"
    listed.write_text("cat\n dog\n\n")
    assert parse_unseen([str(listed)]) == ["cat", "dog"]
    assert parse_unseen(["cat, dog", "owl"]) == ["cat", "dog", "owl"]
    assert (parse_unseen(["3"]), parse_unseen(["0.3"]), parse_unseen(["cat"])) == (3, 0.3, ["cat"])
    assert parse_unseen(None) is None
    with refused(DataError, "missing.txt"):
        parse_unseen([str(tmp_path / "missing.txt")])


# The simplest system


def test_the_nearest_prototype_is_the_one_of_largest_cosine():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(6, 4)) + 3
    X = Y[rng.integers(0, 4, 40)] * rng.uniform(1, 5, (40, 1)) + rng.normal(size=(40, 4))
    y = rng.integers(0, 4, 40)
    for centered in (False, True):
        model = NearestPrototype(dict(enumerate(Y)), centered=centered, candidates="all").fit(X, y)
        centers = (X.mean(axis=0), Y[:4].mean(axis=0)) if centered else (0, 0)
        expected = np.empty((40, 6))
        for i, x in enumerate(X - centers[0]):
            for j, p in enumerate(Y - centers[1]):
                expected[i, j] = x @ p / np.linalg.norm(x) / np.linalg.norm(p)
        assert_allclose(model.decision_function(X), expected, atol=1e-12)


def test_the_nearest_prototype_needs_a_joint_space(plan):
    with refused(ValueError, "vectors of one space", "3 features and prototypes 2"):
        known = {"a": [1, 0], "b": [0, 1], "c": [1, 1]}
        NearestPrototype(known).fit(np.ones((2, 3)), ["a", "b"])
    [outcome] = compare([small_dataset()], plan, models=["nearest prototype"]).outcomes
    assert outcome.status == NOT_RUN


def test_the_words_say_who_is_ahead(compared):
    [board] = compared.boards
    text = tell_lead(board)
    assert board.rows[0].system.name in text or "The recommended model has" in text
    own = row_of(compared, "recommended")
    ahead = replace(row_of(compared, "RPL"), gap=replace(own.figures["zsl"], low=0.1, high=0.3))
    told = tell_lead(replace(board, rows=[ahead, replace(own, gap=None)]))
    assert "RPL has the highest accuracy" in told
    assert "Ahead of the recommended model: RPL" in told


def test_the_words_do_not_call_an_equal_accuracy_lower(compared):
    [board] = compared.boards
    own, other = row_of(compared, "recommended"), row_of(compared, "RPL")
    even = replace(own.figures["zsl"], value=1e-16, low=-0.1, high=0.1)
    rows = [replace(other, gap=even), replace(own, gap=None)]
    told = tell_lead(replace(board, rows=rows))
    assert told.startswith("The recommended model has the highest accuracy")
    assert "As accurate on these samples: RPL." in told
    assert "Lower" not in told
    rows[0] = replace(other, gap=replace(even, value=-0.05))
    assert "Lower, and the interval of the difference contains 0: RPL." in tell_lead(
        replace(board, rows=rows[::-1])
    )


def test_the_procedure_names_the_folds_and_points_that_were_used(plan):
    few = divide(small_dataset(), 0.5)
    wanted = replace(plan, n_folds=5, n_points=1)
    found = compare(few, wanted, models=["RPL"])
    n_folds = len(few[0].seen_classes) // 2
    assert n_folds < 5
    text = " ".join(describe_plan(found.plan, found.boards))
    assert f"chosen on {n_folds} folds" in text
    assert f"scored were {found.boards[0].rows[0].n_points} points" in text
    assert "recommended" not in text


@pytest.mark.skipif(not has_torch(), reason="torch trains them")
def test_trained_few_shot_systems_have_a_spread_over_seeds(plan):
    found = compare(
        [small_dataset(noise=2.0)], replace(plan, shots=(1,)), models=["Prototypical Net", "NN"]
    )
    [board] = found.boards
    trained, other = (
        next(r for r in board.rows if r.system.name == n) for n in ("Prototypical Net", "NN")
    )
    means = [np.mean(unpack(run["results"]["accuracies"])) for run in trained.runs[0]]
    assert trained.figures["accuracy"].spread == pytest.approx(np.std(means, ddof=1))
    assert other.figures["accuracy"].spread is None
    assert "± seeds" in [heading for heading, _ in score_columns(board)]


def test_a_task_that_has_no_records_is_not_read(plan):
    task = Task(System("RPL"), small_dataset(), 0, plan)
    assert running._read_outcome(task) is None
