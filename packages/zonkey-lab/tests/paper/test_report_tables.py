"""Every figure in a table of the report, against a computation of its own."""

from dataclasses import replace

import numpy as np
import pytest
from made_up_records import CHOSEN, N_REPEATS, SYSTEMS, MadeUp
from scipy import stats

from zonkey_lab.paper.experiments import AT_ZERO_SHOTS, EXPERIMENTS, RANDOM
from zonkey_lab.paper.printed import PRINTED, contradiction, find_printed
from zonkey_lab.paper.records import RecordError
from zonkey_lab.paper.report.collection import Study, read_collection
from zonkey_lab.paper.report.fits import guard_text
from zonkey_lab.paper.report.sections import chosen_parameters, describe_repetition
from zonkey_lab.paper.report.tables import (
    experiment_table,
    runtime_table,
    sensitivity_table,
    unlabeled_table,
)

OTHER = "not comparable: the paper used ResNet101 features"
FIRST = "the paper's is the first release (PS v1, 2017)"
SAME = "same features; split: the first release (PS v1, 2017), as the paper's"
FOLDS = "3 class-wise folds of the training classes, 27 points"
GUARD = "guard on mu"
OFF = {"parameters": {}, "model": {"guard": False}}


def rows_of(found, name="", data="cub"):
    """Return the headings and rows of a study, or of an experiment in a collection."""
    table = experiment_table(found.study(name, data) if name else found)
    return table.headings, [dict(zip(table.headings, row, strict=True)) for row in table.rows]


def by_model(study):
    return {row["model"]: row for row in rows_of(study)[1]}


def study_of(folder, name, models, data="cub"):
    """Return an experiment with other models than those of the catalog."""
    collection, experiment = read_collection(folder), EXPERIMENTS[name]
    runs = {
        model: [run for part in experiment.protocols for run in collection.runs(part, data, model)]
        for model in models
    }
    known = {model: found for model, found in runs.items() if found}
    return Study(replace(experiment, models=tuple(models)), data, known, collection)


def text(values, half_width=None):
    mean = f"{100 * np.mean(values):.1f}"
    if len(values) == 1:
        return mean
    spread = np.std(values, ddof=1) if half_width is None else half_width
    return f"{mean} ± {100 * spread:.1f}"


# Measured figures


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


def test_trials_come_with_the_interval_of_the_t_test(made, collection):
    headings, rows = rows_of(collection, "mini-imagenet")
    columns = [f"{K}-shot, {kind}" for K in (1, 5) for kind in ("paper", "measured")]
    assert headings[1:5] == columns
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
            made.trials(model, 0, asked, [0.25, 0.5], n_shot=1)
    collection = read_collection(tmp_path)
    headings, rows = rows_of(collection, "mini-imagenet", "mini-imagenet")
    few = "1-shot (5 asked for)"
    assert headings[1:5] == [f"{K}, {of}" for K in ("1-shot", few) for of in ("paper", "measured")]
    assert {row[f"{few}, paper"] for row in rows} == {"-"}
    table = chosen_parameters(collection.study("mini-imagenet", "mini-imagenet"))
    expected = {f"{name}, {K}" for name in ("BPL (SFSP1)", "NN") for K in ("1-shot", few)}
    assert {row[0] for row in table.rows} == expected


@pytest.mark.parametrize("name", ["large-scale-fsl", "synthesis", "any-shot"])
def test_figures_of_all_classes_are_told_for_each_number_of_shots(made, collection, name):
    _, rows = rows_of(collection, name)
    least = 0 if name == "any-shot" else 1
    assert [(row["model"], int(row["K"])) for row in rows] == [
        (model, n_shot)
        for model in EXPERIMENTS[name].models
        for n_shot in made.results["all-classes", model, 0]["shots"]
        if n_shot >= least
    ]
    for row in rows:
        run = made.results["all-classes", row["model"], 0]
        for metric in ("hit@1", "hit@5"):
            values = [hits[run["shots"].index(int(row["K"]))] for hits in run[metric]]
            assert len(values) == N_REPEATS
            # Without a shot there is nothing to draw, and nothing to spread.
            assert row[f"{metric}, measured"] == text(values if int(row["K"]) else values[:1])


def test_times_are_told_for_each_number_of_shots_in_units_that_can_be_read(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.runtime(model)
    table = runtime_table(read_collection(tmp_path).study("runtime", "imnet"))
    assert table.headings[:5] == ["model", "paper", *(f"K = {K}, measured" for K in (1, 2, 3))]
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


def test_a_transductive_system_has_its_column_among_transductive_ones(fresh, tmp_path):
    fresh.unlabeled()
    fresh.write("unlabeled", "DIPL", zsl_unlabeled=0.55, hm_unlabeled=0.35)
    table = unlabeled_table(study_of(tmp_path, "unlabeled", ("recommended", "DIPL")))
    both = ["recommended", "recommended + unlabeled samples", "DIPL + unlabeled samples"]
    assert table.headings == ["task", *both, "features used"]
    assert table.rows[0] == ["accuracy, unseen classes", "50.0", "60.0", "55.0", "lite0.mat"]
    assert table.rows[1] == ["HM, all classes", "40.0", "45.0", "35.0", "lite0.mat"]
    assert {row[3] for row in table.rows[2:]} == {"-"}  # no trials


# Printed figures beside them


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
    for model in ("BPL", "RPL"):
        made.zero_shot(model, 0.5)
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


def test_the_papers_figures_are_told_for_each_number_of_shots(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.all_classes(model, 0.5)
    _, rows = rows_of(read_collection(tmp_path), "synthesis", "imnet")
    found = {(row["model"], row["K"]): row for row in rows}
    assert found["BPL (SFSP1)", "3"]["hit@1, paper"] == "33.8"
    assert found["BPL (SFSP2)", "2"]["hit@5, paper"] == "51.3"
    assert {row["note"] for row in rows} == {"not comparable: the paper used ResNet50 features"}


def test_one_printed_harmonic_mean_contradicts_its_accuracies():
    values = {(f.data, f.model, f.metric): f.value for f in PRINTED if f.source == "gsrl"}
    rows = {(data, model) for data, model, _ in values}
    assert len(rows) == 3 * 13
    found = {row: contradiction(*row) for row in rows}
    told = "the paper's HM of 43.5 contradicts its acc_s and acc_u, whose HM is 43.7"
    assert {row: text for row, text in found.items() if text} == {("awa1", "SAE"): told}
    assert contradiction("cub", "DAP") == contradiction("emoji", "BPL") == ""
    for row in rows - {("awa1", "SAE")}:  # the others follow up to rounding
        seen, unseen, mean = (values[*row, metric] for metric in ("acc_s", "acc_u", "hm"))
        a, b = np.meshgrid(*(value + np.linspace(-0.05, 0.05, 21) for value in (seen, unseen)))
        assert np.abs(2 * a * b / (a + b) - mean).min() <= 0.05 + 1e-9


@pytest.mark.parametrize("is_measured", [True, False])
def test_the_contradiction_is_noted_at_its_row(tmp_path, is_measured):
    made = MadeUp(tmp_path, "awa1")
    for model in ("BPL", "RPL", *(["SAE"] if is_measured else [])):
        made.zero_shot(model, 0.5)
    models = ("BPL", "RPL", "SAE")
    rows = by_model(study_of(tmp_path, "generalized-zsl", models, "awa1"))
    assert {model for model, row in rows.items() if "contradicts" in row["note"]} == {"SAE"}
    assert rows["SAE"]["HM, paper"] == "43.5"
    start = "not comparable: the paper used" if is_measured else "as printed, on"
    assert rows["SAE"]["note"].startswith(f"{start} ResNet101 features; ")
    pure = by_model(study_of(tmp_path, "pure-zsl", models, "awa1"))
    assert not any("contradicts" in row["note"] for row in pure.values())


# What fits did


@pytest.mark.parametrize(
    ("fits", "settings", "text"),
    [
        ([([0.3] * 5, 0, 0)], None, "idle in all 5 steps"),
        (
            [([0.3] * 5, 0, 0), ([0.3, 0.1, 0.1], 2, 0), ([0.0], 1, 0)],
            None,
            "lowered mu in 3 of 9 steps (2 of 3 seeds)",
        ),
        ([([0.3] * 4, 0, 0)], OFF, "off; definite in all 4 steps"),
        (
            [([0.3] * 4, 0, 3), ([0.3] * 4, 0, 0)],
            OFF,
            "off; indefinite in 3 of 8 steps (1 of 2 seeds)",
        ),
        (
            [([0.3, 0.2], 1, 1)],
            None,
            "lowered mu in 1 of 2 steps (1 of 1 seeds); indefinite in 1 of 2 steps (1 of 1 seeds)",
        ),
        ([([], 0, 0)], None, None),  # a closed form
        ([([0.0] * 5, 0, 0)], None, None),  # no competition
        ([(None, None, None)], None, None),  # a record of an earlier version
    ],
)
def test_the_guard_is_told_in_steps_and_seeds(fresh, fits, settings, text):
    runs = [
        fresh.zero_shot("BPL", 0.5, seed, settings=settings, mu=mu, n_lowered=low, n_indefinite=bad)
        for seed, (mu, low, bad) in enumerate(fits)
    ]
    assert guard_text(runs) == text


@pytest.mark.parametrize("name", ["pure-zsl", "beyond"])
def test_guarded_and_printed_models_have_rows_that_tell_of_the_guard(fresh, tmp_path, name):
    fresh.zero_shot("BPL0", 0.5, mu=[], n_lowered=0, n_indefinite=0)
    fresh.zero_shot("BPL", 0.6, mu=[0.2, 0.3], n_lowered=1, n_indefinite=0)
    as_printed = {"mu": [0.3, 0.3], "n_lowered": 0, "n_indefinite": 1}
    fresh.zero_shot("BPL, as printed", 0.4, settings=OFF, **as_printed)
    rows = by_model(study_of(tmp_path, name, ("BPL0", "BPL", "BPL, as printed")))
    assert {model: row[GUARD] for model, row in rows.items() if row["features used"] != "-"} == {
        "BPL0": "-",
        "BPL": "lowered mu in 1 of 2 steps (1 of 1 seeds)",
        "BPL, as printed": "off; indefinite in 1 of 2 steps (1 of 1 seeds)",
    }
    assert {row[GUARD] for model, row in rows.items() if row["features used"] == "-"} <= {"-"}


def test_alternatives_tell_how_far_they_moved(fresh, tmp_path):
    fresh.zero_shot("BPL0", 0.5)
    predicted = fresh.results["zero-shot", "BPL0", 0]["predicted"]
    for seed, n_changed in enumerate((10, 20)):
        other = predicted.copy()
        other[:n_changed] = (other[:n_changed] + 1) % 5
        moved = {"predicted": other, "moved": 0.01 + 0.02 * seed}
        fresh.zero_shot("minimum entropy", 0.5, seed, **moved)
    fresh.zero_shot("BPL", 0.5, moved=1.249, predicted=predicted)
    rows = by_model(study_of(tmp_path, "alternatives", ("minimum entropy", "BPL")))
    columns = "W moved from BPL0 (%)", "predictions equal to BPL0's (%)"
    assert {model: tuple(row[column] for column in columns) for model, row in rows.items()} == {
        "minimum entropy": ("2", "92.5"),  # means of 1 and 3, of 95 and 90
        "BPL": ("125", "100.0"),
        "without ambiguity handling": ("-", "-"),  # printed only
    }


# Where figures come from


def test_chosen_parameters_name_the_folds_they_were_chosen_on(collection):
    def chosen(name):
        rows = chosen_parameters(collection.study(name, "cub")).rows
        return {row[0]: row[1:] for row in rows}

    values = ["paper", "alpha 0.3, mu 0.1, rho 0.5"]
    assert chosen("ablation")["BPL"] == [*values, FOLDS]
    found = chosen("mini-imagenet")
    assert len(found) == 2 * len(EXPERIMENTS["mini-imagenet"].models)
    assert found["BPL (novel), 5-shot"][2] == "5 trials of validation classes, 27 points"
    found = chosen("large-scale-fsl")
    assert found["BPL (novel)"][2] == "all validation classes at once, 27 points"
    assert found["BPL (SFSP1), K = 0, as for zero-shot learning"] == [*values, FOLDS]
    # The recommended model is one for any number of shots.
    assert len(found) == len(EXPERIMENTS["large-scale-fsl"].models) + len(AT_ZERO_SHOTS)
    assert found["recommended"][2] == "validation classes, by the model itself"


def test_a_choice_of_other_parameters_or_on_another_task_is_not_that_of_a_run(fresh, tmp_path):
    fresh.zero_shot("BPL", 0.5)
    fresh.zero_shot("BPL0", 0.5, settings={"parameters": {}})
    fresh.selection("selection", "BPL", {**CHOSEN, "mu": 0.5})
    run = fresh.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    fresh.selection("selection-5", "BPL (SFSP1)")
    collection = read_collection(tmp_path)
    assert collection.selection_of(collection.first("zero-shot", "cub", "BPL")) is None
    assert collection.selection_of(run) is None
    table = chosen_parameters(collection.study("any-shot", "cub"))
    assert [row[3] for row in table.rows] == ["not recorded"] * 2
    assert [row[2:] for row in chosen_parameters(collection.study("ablation", "cub")).rows] == [
        ["nothing to choose", "-"],
        ["alpha 0.3, mu 0.1, rho 0.5", "not recorded"],
    ]


def test_a_choice_for_no_shot_is_that_of_the_zero_shot_model_or_the_same(fresh, tmp_path):
    fresh.selection("selection", "BPL", CHOSEN)
    papers = fresh.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    changed = fresh.all_classes("BPL (SFSP2)", 0.5, zero_parameters={**CHOSEN, "mu": 0.5})
    fresh.all_classes("recommended", 0.5)
    collection = read_collection(tmp_path)
    assert collection.zero_selection_of(papers)["model"] == "BPL"
    assert collection.zero_selection_of(changed) is None
    table = chosen_parameters(collection.study("any-shot", "cub"))
    ours = [f"BPL (SFSP{i}), K = 0, as for zero-shot learning" for i in (1, 2)]
    assert [row[0] for row in table.rows if "K = 0" in row[0]] == ours


def test_runs_of_different_data_are_told_not_to_compare(fresh, tmp_path):
    fresh.zero_shot("BPL", 0.5)
    path = next(tmp_path.glob("zero-shot/*/*.json"))
    other = path.with_name("bpl0.0.json")
    other.write_text(path.read_text().replace("0123", "3210").replace('"BPL"', '"BPL0"'))
    blocks = describe_repetition(read_collection(tmp_path).study("ablation", "cub"))
    assert any("differ in data or version" in getattr(block, "text", "") for block in blocks)


# What is read


def test_seeds_of_other_settings_are_not_averaged(fresh, tmp_path):
    fresh.zero_shot("BPL0", 0.5)
    for seed, zsl in enumerate((0.25, 0.75, 0.99)):
        settings = {"parameters": {"alpha": 0.1 if seed < 2 else 0.9}}
        fresh.zero_shot("BPL", 0.5, seed, settings=settings, zsl=zsl)
    collection = read_collection(tmp_path)
    assert collection.n_left_out == 1
    _, rows = rows_of(collection, "ablation")
    assert rows[-1]["accuracy, measured"] == text([0.25, 0.75])


def test_one_model_alone_makes_no_table_nor_do_others_without_the_subject(fresh, tmp_path):
    fresh.zero_shot("BPL", 0.5)
    assert read_collection(tmp_path).studies() == {}
    fresh.zero_shot("minimum entropy", 0.5)
    ((name, (study,)),) = read_collection(tmp_path).studies().items()
    assert (name, study.data) == ("alternatives", "cub")
    fresh.zero_shot("BPL0", 0.5)
    assert not {"beyond", "on-top"} & {*read_collection(tmp_path).studies()}
    fresh.zero_shot("recommended", 0.5)
    assert "beyond" in read_collection(tmp_path).studies()


def test_experiments_with_quick_records_are_known(tmp_path):
    made = MadeUp(tmp_path, "emoji")
    for model in ("BPL", "BPL0"):
        made.zero_shot(model, 0.5)
    made.top = {"quick": True}
    for model in ("BPL (SFSP1)", "NN"):
        made.trials(model, 0.5, 1)
    collection = read_collection(tmp_path)
    studies = [study for found in collection.studies().values() for study in found]
    assert {study.experiment.name for study in studies if study.is_quick} == {"mini-imagenet"}
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


def test_many_systems_are_in_the_order_of_the_experiment(fresh, tmp_path):
    names = ("BPL", *SYSTEMS)
    for model in names:
        fresh.zero_shot(model, 0.5)
    assert list(by_model(study_of(tmp_path, "pure-zsl", names))) == list(names)
