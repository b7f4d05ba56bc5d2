"""Every figure in a table of the report, against a computation of its own."""

import numpy as np
import pytest
from made_up_records import CHOSEN, N_REPEATS, MadeUp
from scipy import stats

from zonkey_lab.paper.experiments import AT_ZERO_SHOTS, EXPERIMENTS, RANDOM
from zonkey_lab.paper.printed import find_printed
from zonkey_lab.paper.records import RecordError
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.sections import chosen_parameters, describe_repetition
from zonkey_lab.paper.report.tables import (
    experiment_table,
    runtime_table,
    sensitivity_table,
)

OTHER = "not comparable: the paper used ResNet101 features"
FIRST = "the paper's is the first release (PS v1, 2017)"
SAME = "same features; split: the first release (PS v1, 2017), as the paper's"


def rows_of(collection, name, data="cub"):
    table = experiment_table(collection.study(name, data))
    return table.headings, [dict(zip(table.headings, row, strict=True)) for row in table.rows]


def text(values, half_width=None):
    mean = f"{100 * np.mean(values):.1f}"
    if len(values) == 1:
        return mean
    spread = np.std(values, ddof=1) if half_width is None else half_width
    return f"{mean} ± {100 * spread:.1f}"


@pytest.mark.parametrize("name", ["pure-zsl", "generalized-zsl", "ablation", "alternatives"])
def test_zero_shot_figures_are_mean_and_deviation_over_seeds(made, collection, name):
    experiment = EXPERIMENTS[name]
    labels = {"zsl": "accuracy", "hm": "HM", "hm_calibrated": "HM, calibrated", "ausuc": "AUSUC"}
    _, rows = rows_of(collection, name)
    ours = rows[: len(experiment.models)]
    assert [row["model"] for row in ours] == list(experiment.models)
    for row in ours:
        runs = [made.results.get(("zero-shot", row["model"], seed)) for seed in (0, 1)]
        for metric in experiment.metrics:
            figure = row[f"{labels.get(metric, metric)}, measured"]
            assert figure == text([run[metric] for run in runs if run])
            assert ("±" in figure) == (row["model"] in RANDOM)
        assert row["features used"] == "lite0.mat"


@pytest.mark.parametrize(
    ("name", "metric", "label"),
    [
        ("pure-zsl", "zsl", "accuracy"),
        ("generalized-zsl", "hm", "HM"),
        ("alternatives", "zsl", "accuracy"),
    ],
)
def test_the_paper_stands_beside_and_other_systems_below(collection, name, metric, label):
    _, rows = rows_of(collection, name)
    expected = find_printed(EXPERIMENTS[name].source, "cub", metric)
    found = {row["model"]: row for row in rows}
    assert set(expected) <= set(found)
    for model, row in found.items():
        paper = f"{expected[model].value:.1f}" if model in expected else "-"
        assert row[f"{label}, paper"] == paper
        if model not in EXPERIMENTS[name].models:
            assert row[f"{label}, measured"] == row["features used"] == "-"
            assert row["note"] == "as printed, on ResNet101 features"
    assert found["BPL"]["note"] == f"{OTHER}; split of an unknown release; {FIRST}"
    if "BPL0" in found:
        assert found["BPL0"]["note"] == ""


@pytest.mark.parametrize(
    ("data", "features", "split", "note"),
    [
        ("cub", "res101.mat", "v1", SAME),
        ("awa1", "res101.mat", "v1", SAME),
        ("sun", "res101.mat", "v2", f"same features; split PS v2; {FIRST}"),
        ("cub", "vgg.mat", "v2", f"{OTHER}; split PS v2; {FIRST}"),
        ("imnet", "res101.mat", "v1", "not comparable: the paper used GoogLeNet features"),
    ],
)
def test_figures_compare_on_the_papers_features_only(tmp_path, data, features, split, note):
    made = MadeUp(tmp_path, data, features, split=f"PS {split}", split_version=split)
    made.zero_shot("BPL", 0.5)
    made.zero_shot("RPL", 0.4)
    _, rows = rows_of(read_collection(tmp_path), "pure-zsl", data)
    (row,) = (row for row in rows if row["model"] == "BPL")
    assert row["note"] == note


def test_a_file_of_the_same_backbone_is_not_the_papers(tmp_path):
    made = MadeUp(tmp_path, "mini-imagenet", "wrn28_10.npz")
    for model in ("BPL (SFSP1)", "NN"):
        made.trials(model, 0.5, 1)
    _, rows = rows_of(read_collection(tmp_path), "mini-imagenet", "mini-imagenet")
    notes = {row["model"]: row["note"] for row in rows}
    assert notes["BPL (SFSP1)"] == "not comparable: the paper used other WRN features"
    assert notes["NN"] == "not comparable: the paper used simple CNN features"
    assert notes["SNAIL"] == "as printed, on ResNet20 features"
    papers = {row["model"]: row["1-shot, paper"] for row in rows}
    assert papers["BPL (SFSP1)"] == "58.5 ± 0.8"


def test_trials_come_with_the_interval_of_the_t_test(made, collection):
    headings, rows = rows_of(collection, "mini-imagenet")
    assert headings[1:5] == [
        "1-shot, paper",
        "1-shot, measured",
        "5-shot, paper",
        "5-shot, measured",
    ]
    assert len(rows) == len(EXPERIMENTS["mini-imagenet"].models)
    for row in rows:
        for n_shot in (1, 5):
            values = made.results[f"trials-{n_shot}", row["model"], 0]["accuracies"]
            low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
            expected = text(values, half_width=(high - low) / 2)
            assert row[f"{n_shot}-shot, measured"] == expected


def test_trials_with_fewer_shots_than_asked_for_say_so(tmp_path):
    made = MadeUp(tmp_path, "mini-imagenet")
    for model in ("BPL (SFSP1)", "NN"):
        for asked in (1, 5):
            sizes = {"n_way": 5, "n_shot": 1, "n_query": 15, "n_trials": 2}
            made.write(f"trials-{asked}", model, accuracies=np.array([0.25, 0.5]), **sizes)
    collection = read_collection(tmp_path)
    headings, rows = rows_of(collection, "mini-imagenet", "mini-imagenet")
    few = "1-shot (5 asked for)"
    assert headings[1:5] == [
        "1-shot, paper",
        "1-shot, measured",
        f"{few}, paper",
        f"{few}, measured",
    ]
    assert {row[f"{few}, paper"] for row in rows} == {"-"}
    models = {
        row[0] for row in chosen_parameters(collection.study("mini-imagenet", "mini-imagenet")).rows
    }
    assert models == {f"{name}, {K}" for name in ("BPL (SFSP1)", "NN") for K in ("1-shot", few)}


@pytest.mark.parametrize("name", ["large-scale-fsl", "synthesis", "any-shot"])
def test_figures_of_all_classes_are_told_for_each_number_of_shots(made, collection, name):
    _, rows = rows_of(collection, name)
    least = 0 if name == "any-shot" else 1
    expected = [
        (model, n_shot)
        for model in EXPERIMENTS[name].models
        for n_shot in made.results["all-classes", model, 0]["shots"]
        if n_shot >= least
    ]
    assert [(row["model"], int(row["K"])) for row in rows] == expected
    for row in rows:
        run = made.results["all-classes", row["model"], 0]
        for metric in ("hit@1", "hit@5"):
            values = [hits[run["shots"].index(int(row["K"]))] for hits in run[metric]]
            assert len(values) == N_REPEATS
            # Without a shot there is nothing to draw, and nothing to spread.
            assert row[f"{metric}, measured"] == text(values if int(row["K"]) else values[:1])


def test_the_papers_figures_are_told_for_each_number_of_shots(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.all_classes(model, 0.5)
    _, rows = rows_of(read_collection(tmp_path), "synthesis", "imnet")
    found = {(row["model"], row["K"]): row for row in rows}
    assert found["BPL (SFSP1)", "3"]["hit@1, paper"] == "33.8"
    assert found["BPL (SFSP2)", "2"]["hit@5, paper"] == "51.3"
    assert {row["note"] for row in rows} == {"not comparable: the paper used ResNet50 features"}


def test_times_are_told_for_each_number_of_shots_in_units_that_can_be_read(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.runtime(model)
    table = runtime_table(read_collection(tmp_path).study("runtime", "imnet"))
    assert table.headings[:5] == [
        "model",
        "paper",
        *(f"K = {K}, measured" for K in (1, 2, 3)),
    ]
    note = "not comparable: the paper used ResNet50 features"
    printed_only = ["-"] * 6 + ["as printed, on ResNet50 features"]
    assert table.rows == [
        ["BPL (SFSP1)", "1.2 min", "0.5 s", "1 s", "1.5 s", "1 MB", "-", "res50.mat", note],
        ["BPL (SFSP2)", "2.3 min", "0.75 s", "1.25 s", "1.75 s", "1.25 MB", "-", "res50.mat", note],
        ["LSL", "23 min", *printed_only],
        ["PPA", "1300 min", *printed_only],
    ]
    assert table.is_page_only


def test_sensitivity_moves_one_parameter_and_keeps_the_others(made, collection):
    table = sensitivity_table(collection.first("selection", "cub", "BPL"))
    points = made.results["selection", "BPL", 0]["points"]
    expected = []
    for name in sorted(CHOSEN):
        for value in (0.1, 0.3, 0.5):
            (scores,) = (p["scores"] for p in points if p["parameters"] == {**CHOSEN, name: value})
            mark = " (chosen)" if value == CHOSEN[name] else ""
            expected.append([name, f"{value}{mark}", "-", text(scores), "lite0.mat"])
    assert table.rows == expected


# Where figures come from


def test_chosen_parameters_name_the_folds_they_were_chosen_on(collection):
    table = chosen_parameters(collection.study("ablation", "cub"))
    found = {row[0]: row[1:] for row in table.rows}
    folds = "3 class-wise folds of the training classes, 27 points"
    assert found["BPL"] == ["paper", "alpha 0.3, mu 0.1, rho 0.5", folds]
    table = chosen_parameters(collection.study("mini-imagenet", "cub"))
    found = {row[0]: row[1:] for row in table.rows}
    assert len(found) == 2 * len(EXPERIMENTS["mini-imagenet"].models)
    assert found["BPL (novel), 5-shot"][2] == "5 trials of validation classes, 27 points"
    table = chosen_parameters(collection.study("large-scale-fsl", "cub"))
    found = {row[0]: row[1:] for row in table.rows}
    assert found["BPL (novel)"][2] == "all validation classes at once, 27 points"
    assert found["BPL (SFSP1), K = 0, as for zero-shot learning"] == [
        "paper",
        "alpha 0.3, mu 0.1, rho 0.5",
        folds,
    ]
    n_models = len(EXPERIMENTS["large-scale-fsl"].models)
    # The recommended model is one for any number of shots.
    assert len(found) == n_models + len(AT_ZERO_SHOTS)
    assert found["recommended"][2] == "validation classes, by the model itself"


def test_a_choice_of_other_parameters_is_not_the_one_of_a_run(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL", 0.5)
    made.selection("selection", "BPL", {**CHOSEN, "mu": 0.5})
    made.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    collection = read_collection(tmp_path)
    assert collection.selection_of(collection.first("zero-shot", "cub", "BPL")) is None
    table = chosen_parameters(collection.study("any-shot", "cub"))
    assert [row[3] for row in table.rows] == ["not recorded"] * 2


def test_a_selection_on_another_task_is_not_that_of_a_run(tmp_path):
    made = MadeUp(tmp_path)
    run = made.all_classes("BPL (SFSP1)", 0.5)
    made.selection("selection-5", "BPL (SFSP1)")
    assert read_collection(tmp_path).selection_of(run) is None


def test_parameters_that_are_not_there_are_not_made_up(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL", 0.5)
    made.zero_shot("BPL0", 0.5, settings={"parameters": {}})
    table = chosen_parameters(read_collection(tmp_path).study("ablation", "cub"))
    assert [row[2:] for row in table.rows] == [
        ["nothing to choose", "-"],
        ["alpha 0.3, mu 0.1, rho 0.5", "not recorded"],
    ]


def test_runs_of_different_data_are_told_not_to_compare(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL", 0.5)
    path = next(tmp_path.glob("zero-shot/*/*.json"))
    other = path.with_name("bpl0.0.json")
    other.write_text(path.read_text().replace("0123", "3210").replace('"BPL"', '"BPL0"'))
    blocks = describe_repetition(read_collection(tmp_path).study("ablation", "cub"))
    assert any("differ in data or version" in getattr(block, "text", "") for block in blocks)


# What is read


def test_seeds_of_other_settings_are_not_averaged(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL0", 0.5)
    for seed, zsl in enumerate((0.25, 0.75, 0.99)):
        settings = {"parameters": {"alpha": 0.1 if seed < 2 else 0.9}}
        made.zero_shot("BPL", 0.5, seed, settings=settings, zsl=zsl)
    collection = read_collection(tmp_path)
    assert collection.n_left_out == 1
    _, rows = rows_of(collection, "ablation")
    assert rows[-1]["accuracy, measured"] == text([0.25, 0.75])


def test_one_model_alone_makes_no_table(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL", 0.5)
    assert read_collection(tmp_path).studies() == {}
    made.zero_shot("minimum entropy", 0.5)
    ((name, (study,)),) = read_collection(tmp_path).studies().items()
    assert (name, study.data) == ("alternatives", "cub")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"protocol": "zero', r"must be JSON; it is damaged\. Delete it"),
        ("{}", r"must be one of `zonkey bench`; it has no `protocol`\. Delete it"),
        ("[]", r"must be one of `zonkey bench`; it is not a JSON object\. Delete it"),
        ("3", r"must be one of `zonkey bench`; it is not a JSON object\. Delete it"),
    ],
)
def test_a_damaged_record_is_refused_in_one_line_that_names_it(tmp_path, content, message):
    made = MadeUp(tmp_path)
    for model in ("BPL", "RPL"):
        made.zero_shot(model, 0.5)
    path = tmp_path / "zero-shot" / "cub" / "bpl0.0.json"
    path.write_text(content)
    with pytest.raises(RecordError, match=message) as caught:
        read_collection(tmp_path)
    assert f"The record {path} must" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_experiments_with_quick_records_are_known(tmp_path):
    made = MadeUp(tmp_path, "emoji")
    for model in ("BPL", "BPL0"):
        made.zero_shot(model, 0.5)
    made.top = {"quick": True}
    for model in ("BPL (SFSP1)", "NN"):
        made.trials(model, 0.5, 1)
    collection = read_collection(tmp_path)
    quick = {
        name
        for name, studies in collection.studies().items()
        if any(study.is_quick for study in studies)
    }
    assert quick == {"mini-imagenet"}
    assert collection.is_quick("trials", "emoji")
    assert not collection.is_quick("trials", "cub")
    assert not collection.is_quick("zero-shot", "emoji")


def test_data_sets_can_be_picked(tmp_path):
    for data in ("cub", "emoji"):
        MadeUp(tmp_path, data).zero_shot("BPL", 0.5)
    assert read_collection(tmp_path).data_names == ["cub", "emoji"]
    assert read_collection(tmp_path, ["emoji"]).data_names == ["emoji"]
    with pytest.raises(RecordError, match=r"have records: cub, emoji; got 'sun'\. Run `zonkey"):
        read_collection(tmp_path, ["emoji", "sun"])
