"""Every figure in a table of the report, against a computation of its own."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_up_records import CHOSEN, N_REPEATS, SYSTEMS, MadeUp
from scipy import stats

from zonkey_lab.paper.experiments import AT_ZERO_SHOTS, EXPERIMENTS, RANDOM
from zonkey_lab.paper.printed import PRINTED, contradiction, find_printed
from zonkey_lab.paper.records import Key, RecordError
from zonkey_lab.paper.report.blocks import TableBlock
from zonkey_lab.paper.report.collection import Study, read_collection
from zonkey_lab.paper.report.fits import guard_table
from zonkey_lab.paper.report.parameters import parameter_blocks
from zonkey_lab.paper.report.provenance import provenance_blocks
from zonkey_lab.paper.report.sections import build_report
from zonkey_lab.paper.report.tables import (
    experiment_tables,
    runtime_table,
    sensitivity_table,
    unlabeled_table,
)

OTHER = "not comparable: the paper used ResNet101 features"
FIRST = "the paper's is the first release (PS v1, 2017)"
SAME = "same features; split: the first release (PS v1, 2017), as the paper's"
FOLDS = "3 class-wise folds of the training classes"
OFF = {"parameters": {}, "model": {"guard": False}}


def rows_of(found, name="", data="cub"):
    """Return the headings and rows of a study, or of an experiment in a collection."""
    table, *_ = experiment_tables(found.study(name, data) if name else found)
    return table.headings, [dict(zip(table.headings, row, strict=True)) for row in table.rows]


def note_of(found, model, name="", data="cub"):
    """Return the remark about printed figures that names a model."""
    table, *_ = experiment_tables(found.study(name, data) if name else found)
    notes = [remark for remark in table.remarks if not remark.startswith(("Without", "Head"))]
    found = [note for note in notes if model in note.rpartition(": ")[2].rstrip(".").split("; ")]
    return found[0].rpartition(": ")[0] if found else ""


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
            figure = row[labels.get(metric, metric)]
            assert figure == text([run[metric] for run in runs if run])
            assert ("±" in figure) == (row["model"] in RANDOM)


def test_trials_come_with_the_interval_of_the_t_test(made, collection):
    headings, rows = rows_of(collection, "mini-imagenet")
    assert headings[1:3] == ["1-shot", "5-shot"]  # of no data set in the paper
    assert len(rows) == len(EXPERIMENTS["mini-imagenet"].models)
    for row in rows:
        for n_shot in (1, 5):
            values = made.results[f"trials-{n_shot}", row["model"], 0]["accuracies"]
            low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
            expected = text(values, half_width=(high - low) / 2)
            assert row[f"{n_shot}-shot"] == expected


def test_trials_with_fewer_shots_than_asked_for_say_so(tmp_path):
    made = MadeUp(tmp_path, "mini-imagenet")
    for model in ("BPL (SFSP1)", "NN"):
        for asked in (1, 5):
            made.trials(model, 0, asked, [0.25, 0.5], n_shot=1)
    collection = read_collection(tmp_path)
    headings, rows = rows_of(collection, "mini-imagenet", "mini-imagenet")
    few = "1-shot (5 asked for)"
    assert headings[1:4] == ["1-shot, paper", "1-shot", few]
    assert rows[0][few] == "37.5 ± 158.8"


@pytest.mark.parametrize("name", ["large-scale-fsl", "synthesis", "any-shot"])
def test_figures_of_all_classes_are_told_for_each_number_of_shots(made, collection, name):
    shots = [0, 1, 2, 3] if name == "any-shot" else [1, 2, 3]
    tables = experiment_tables(collection.study(name, "cub"))
    assert [table.caption for table in tables] == ["hit@1", "hit@5"]
    for table in tables:
        assert list(table.headings[1 : 1 + len(shots)]) == [f"K = {K}" for K in shots]
        assert [row[0] for row in table.rows] == [
            model for model in EXPERIMENTS[name].models if ("all-classes", model, 0) in made.results
        ]
        for row in table.rows:
            run = made.results["all-classes", row[0], 0]
            for K, cell in zip(shots, row[1:], strict=False):
                values = [hits[run["shots"].index(K)] for hits in run[table.caption]]
                assert len(values) == N_REPEATS
                # Without a shot there is nothing to draw, and nothing to spread.
                assert cell == text(values if K else values[:1])


def test_times_are_told_for_each_number_of_shots_in_units_that_can_be_read(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.runtime(model)
    table = runtime_table(read_collection(tmp_path).study("runtime", "imnet"))
    assert table.headings[:5] == ["model", "paper", *(f"K = {K}" for K in (1, 2, 3))]
    printed_only = ["-"] * 5
    assert table.rows == [
        ["BPL (SFSP1)", "1.2 min", "0.5 s", "1 s", "1.5 s", "1 MB", "-"],
        ["BPL (SFSP2)", "2.3 min", "0.75 s", "1.25 s", "1.75 s", "1.25 MB", "-"],
        ["LSL", "23 min", *printed_only],
        ["PPA", "1300 min", *printed_only],
    ]
    note = "not comparable: the paper used ResNet50 features"
    assert table.remarks[:2] == [
        f"{note}: BPL (SFSP1); BPL (SFSP2).",
        "as printed, on ResNet50 features: LSL; PPA.",
    ]


def test_sensitivity_moves_one_parameter_and_keeps_the_others(made, collection):
    table = sensitivity_table(collection.first("selection", "cub", "BPL"))
    points = made.results["selection", "BPL", 0]["points"]
    expected = []
    for name in sorted(CHOSEN):
        for value in (0.1, 0.3, 0.5):
            (scores,) = (p["scores"] for p in points if p["parameters"] == {**CHOSEN, name: value})
            mark = " (chosen)" if value == CHOSEN[name] else ""
            expected.append([name, f"{value}{mark}", text(scores)])
    assert table.rows == expected


def test_a_transductive_system_has_its_column_among_transductive_ones(fresh, tmp_path):
    fresh.unlabeled()
    fresh.write("unlabeled", "DIPL", zsl_unlabeled=0.55, hm_unlabeled=0.35)
    table = unlabeled_table(study_of(tmp_path, "unlabeled", ("recommended", "DIPL")))
    both = ["recommended", "recommended + unlabeled samples", "DIPL + unlabeled samples"]
    assert table.headings == ["task", *both]
    assert table.rows[0] == ["accuracy, unseen classes", "50.0", "60.0", "55.0"]
    assert table.rows[1] == ["HM, all classes", "40.0", "45.0", "35.0"]
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
            assert row[label] == "-"
            assert note_of(collection, model, name) == "as printed, on ResNet101 features"
    note = f"{OTHER}; split of an unknown release; {FIRST}"
    assert note_of(collection, "BPL", name) == note
    assert note_of(collection, "BPL0", name) == ""


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
    assert note_of(read_collection(tmp_path), "BPL", "pure-zsl", data) == note


def test_a_file_of_the_same_backbone_is_not_the_papers(tmp_path):
    made = MadeUp(tmp_path, "mini-imagenet", "wrn28_10.npz")
    for model in ("BPL (SFSP1)", "NN"):
        made.trials(model, 0.5, 1)
    collection = read_collection(tmp_path)
    _, rows = rows_of(collection, "mini-imagenet", "mini-imagenet")
    where = ("mini-imagenet", "mini-imagenet")
    other = "not comparable: the paper used other WRN features"
    assert note_of(collection, "BPL (SFSP1)", *where) == other
    assert note_of(collection, "NN", *where) == "not comparable: the paper used simple CNN features"
    assert note_of(collection, "SNAIL", *where) == "as printed, on ResNet20 features"
    papers = {row["model"]: row["1-shot, paper"] for row in rows}
    assert papers["BPL (SFSP1)"] == "58.5 ± 0.8"


def test_the_papers_figures_are_told_for_each_number_of_shots(tmp_path):
    made = MadeUp(tmp_path, "imnet", "res50.mat")
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):
        made.all_classes(model, 0.5)
    collection = read_collection(tmp_path)
    found = {
        (table.caption, row[0]): dict(zip(table.headings, row, strict=True))
        for table in experiment_tables(collection.study("synthesis", "imnet"))
        for row in table.rows
    }
    assert found["hit@1", "BPL (SFSP1)"]["K = 3, paper"] == "33.8"
    assert found["hit@5", "BPL (SFSP2)"]["K = 2, paper"] == "51.3"
    note = "not comparable: the paper used ResNet50 features"
    assert note_of(collection, "BPL (SFSP2)", "synthesis", "imnet") == note


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
    study = study_of(tmp_path, "generalized-zsl", models, "awa1")
    (table,) = experiment_tables(study)
    (note,) = (remark for remark in table.remarks if "contradicts" in remark)
    assert note.endswith(": SAE.")
    assert by_model(study)["SAE"]["HM, paper"] == "43.5"
    start = "not comparable: the paper used" if is_measured else "as printed, on"
    assert note.startswith(f"{start} ResNet101 features; ")
    pure = study_of(tmp_path, "pure-zsl", models, "awa1")
    assert "contradicts" not in str(experiment_tables(pure))


# What fits did


@pytest.mark.parametrize(
    ("fits", "settings", "text"),
    [
        ([([0.3] * 5, 0, 0)], None, "0 of 5"),
        ([([0.3] * 5, 0, 0), ([0.3, 0.1, 0.1], 2, 0), ([0.0], 1, 0)], None,
         "3 of 9 (2 of 3 seeds)"),
        ([([0.3] * 4, 0, 0)], OFF, "off, 0 of 4 indefinite"),
        ([([0.3] * 4, 0, 3), ([0.3] * 4, 0, 0)], OFF, "off, 3 of 8 indefinite (1 of 2 seeds)"),
        ([([0.3, 0.2], 1, 1)], None, "1 of 2, 1 indefinite (1 of 1 seeds)"),
        ([([], 0, 0)], None, None),  # a closed form
        ([([0.0] * 5, 0, 0)], None, None),  # no competition
        ([(None, None, None)], None, None),  # a record of an earlier version
    ],
)  # fmt: skip
def test_the_guard_is_told_in_steps_and_seeds(fresh, tmp_path, fits, settings, text):
    for seed, (mu, low, bad) in enumerate(fits):
        about = {"mu": mu, "n_lowered": low, "n_indefinite": bad}
        fresh.zero_shot("BPL", 0.5, seed, settings=settings, **about)
    table = guard_table(study_of(tmp_path, "pure-zsl", ("BPL",)))
    assert (table and table.rows) == (text and [["BPL", text]])


def test_the_guard_is_told_for_every_number_of_shots(fresh, tmp_path):
    def steps(n, n_lowered, n_indefinite=0, mean_mu=0.1):
        counts = {"n": n, "n_lowered": n_lowered, "n_indefinite": n_indefinite}
        return {**counts, "least_mu": 0.0, "mean_mu": mean_mu}

    hits = [[0.5, 0.6, 0.7], [0.4, 0.6, 0.8]]
    ours, printed, free = "BPL (SFSP1)", "BPL (SFSP1), as printed", "NN"
    fresh.hits(ours, hits, [0, 1, 2], steps=[steps(25, 0), steps(250, 250), steps(250, 0)])
    found = [None, steps(250, 0, 120), steps(250, 0, 0)]
    fresh.hits(printed, hits, [0, 1, 2], settings=OFF, steps=found)
    fresh.hits(free, hits, [0, 1, 2])
    table = guard_table(study_of(tmp_path, "large-scale-fsl", (ours, printed, free)))
    assert table.headings == ["model", "K = 0", "K = 1", "K = 2"]
    assert table.rows == [
        [ours, "0 of 25", "250 of 250", "0 of 250"],
        [printed, "-", "off, 120 of 250 indefinite", "off, 0 of 250 indefinite"],
    ]


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


def chosen(collection, data="cub"):
    """Return captions and rows of the tables of parameters, by task."""
    blocks = parameter_blocks(collection, data)
    tables = [block for block in blocks if isinstance(block, TableBlock)]
    assert all(table.is_page_only for table in tables)
    return {table.caption.partition(":")[0]: (table, dict(table.rows)) for table in tables}


def test_chosen_parameters_name_the_classes_they_were_chosen_on(collection):
    found = chosen(collection)
    values = "alpha 0.3, mu 0.1, rho 0.5"
    table, rows = found["Zero-shot learning"]
    assert table.caption.startswith(f"Zero-shot learning: parameters chosen on {FOLDS}; held-out")
    assert rows["BPL"] == values
    points = parameter_blocks(collection, "cub")[0].text
    assert ", 27 beside those of BPL0, recommended features (" in points
    assert points.endswith(", by the model itself (recommended). Edges are not recorded.")
    assert "5 trials of validation classes" in found["5-shot trials"][0].caption
    assert found["5-shot trials"][1]["BPL (novel)"] == values
    table, rows = found["All novel classes"]
    assert "all validation classes at once" in table.caption
    assert rows["BPL (SFSP1), K = 0, as for zero-shot learning"] == values
    assert {name for name in rows if "K = 0" in name} == {
        f"{name}, K = 0, as for zero-shot learning" for name in AT_ZERO_SHOTS
    }


def test_every_number_of_shots_may_have_parameters_of_its_own(fresh, tmp_path):
    by_shots = {"1": CHOSEN, "2": {**CHOSEN, "mu": 0.5}}
    hits = [[0.5, 0.6], [0.4, 0.6]]
    fresh.hits("BPL (SFSP1)", hits, [1, 2], settings={"parameters_by_shots": by_shots})
    fresh.selection("selection-all-1", "BPL (SFSP1)", CHOSEN, n_start=20, edges=["alpha"])
    fresh.selection("selection-all-2", "BPL (SFSP1)", by_shots["2"], limits=["rho"])
    table, rows = chosen(read_collection(tmp_path))["All novel classes"]
    assert rows == {
        "BPL (SFSP1), K = 1": "alpha 0.3 (at edge), mu 0.1, rho 0.5",
        "BPL (SFSP1), K = 2": "alpha 0.3, mu 0.5, rho 0.5 (at limit)",
    }
    assert any(remark.startswith("At edge: ") for remark in table.remarks)
    text, _ = parameter_blocks(read_collection(tmp_path), "cub")
    points = "Points tried: 20 + 7, 27 (BPL (SFSP1), K = 2)."
    edges = "At an edge of what was tried: 1 of 2 choices: BPL (SFSP1), K = 1 (alpha)."
    assert text.text == f"{table.caption}. {points} {edges}"


def test_what_was_not_searched_and_is_none_is_not_listed(fresh, tmp_path):
    found = {"C": None, "max_iter": 5, "n_iter_no_change": None}
    fresh.zero_shot("DEM", 0.5, settings={"parameters": found})
    points = [{"parameters": {"C": None}, "scores": [0.5]}]
    about = {"grid": {}, "n_folds": 1}
    fresh.write("selection", "DEM", settings=about, chosen=found, points=points)
    _, rows = chosen(read_collection(tmp_path))["Zero-shot learning"]
    assert rows == {"DEM": "C None, max_iter 5"}


def test_a_choice_on_another_task_is_not_that_of_a_run(fresh, tmp_path):
    fresh.zero_shot("BPL", 0.5)
    fresh.zero_shot("BPL0", 0.5, settings={"parameters": {}})
    fresh.all_classes("BPL (SFSP1)", 0.5)
    fresh.selection("selection-5", "BPL (SFSP1)", {**CHOSEN, "mu": 0.5})
    collection = read_collection(tmp_path)
    found = chosen(collection)
    for _, rows in found.values():
        assert set(rows.values()) == {"alpha 0.3, mu 0.1, rho 0.5"}
    assert "Points tried: not recorded." in parameter_blocks(collection, "cub")[0].text
    assert found["Zero-shot learning"][0].remarks == ["Nothing to choose: BPL0."]


def test_a_choice_for_no_shot_is_that_of_the_zero_shot_model(fresh, tmp_path):
    fresh.selection("selection", "BPL", CHOSEN, edges=["mu"])
    fresh.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    fresh.all_classes("BPL (SFSP2)", 0.5, zero_parameters={**CHOSEN, "mu": 0.5})
    fresh.all_classes("recommended", 0.5)
    collection = read_collection(tmp_path)
    _, rows = chosen(collection)["All novel classes"]
    values = "alpha 0.3, mu 0.1 (at edge), rho 0.5"
    name = "BPL (SFSP1), K = 0, as for zero-shot learning"
    assert {name: text for name, text in rows.items() if "K = 0" in name} == {name: values}
    assert collection.n_outdated == 1  # no shots with other parameters than those chosen


def test_runs_of_different_data_are_told_not_to_compare(fresh, tmp_path):
    fresh.zero_shot("BPL", 0.5)
    path = next(tmp_path.glob("zero-shot/*/*.json"))
    other = path.with_name("bpl0.0.json")
    other.write_text(path.read_text().replace("0123", "3210").replace('"BPL"', '"BPL0"'))
    blocks = provenance_blocks(read_collection(tmp_path), "cub")
    assert any("differ in data or version" in getattr(block, "text", "") for block in blocks)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_torch_and_gpu_are_named_where_they_are_recorded(fresh, tmp_path, is_recorded):
    fresh.zero_shot("DEM", 0.5)
    path = next(tmp_path.glob("zero-shot/*/*.json"))
    if is_recorded:
        record = json.loads(path.read_text())
        record["versions"]["torch"], record["machine"]["gpu"] = "2.9.1", "H200"
        path.write_text(json.dumps(record))
    blocks = provenance_blocks(read_collection(tmp_path), "cub")
    text = " ".join(getattr(block, "text", "") for block in blocks)
    expected = "torch 2.9.1; GPU: H200." if is_recorded else "no version of torch recorded."
    assert expected in text


# Trained systems


def test_seeds_of_a_trained_system_are_averaged_and_widen_the_interval(fresh, tmp_path):
    rng = np.random.default_rng(3)
    values = np.clip(0.5 + 0.1 * rng.normal(size=(3, 12)) + 0.05 * np.arange(3)[:, None], 0, 1)
    for seed, accuracies in enumerate(values):
        fresh.trials("PPA", 0, 1, accuracies, seed=seed)
    fresh.trials("NN", 0.4, 1)
    rows = by_model(study_of(tmp_path, "mini-imagenet", ("PPA", "NN")))
    widths = [
        (stop - start) / 2
        for each in (values.mean(axis=0), values.mean(axis=1))
        for start, stop in [stats.ttest_1samp(each, 0).confidence_interval(0.95)]
    ]
    assert rows["PPA"]["1-shot"] == text(values.ravel(), half_width=np.hypot(*widths))


def test_hits_of_several_seeds_spread_over_draws(fresh, tmp_path):
    hits = np.array([[[0.1, 0.2], [0.3, 0.5]], [[0.2, 0.4], [0.4, 0.8]]])  # seed, draw, K
    for seed, each in enumerate(hits):
        fresh.hits("PPA", each, [1, 2], seed=seed)
    fresh.hits("NN", hits[0], [1, 2])
    rows = by_model(study_of(tmp_path, "large-scale-fsl", ("PPA", "NN")))
    assert rows["PPA"]["K = 1"] == text(hits[:, :, 0].mean(axis=0))
    assert rows["PPA"]["K = 2"] == text(hits[:, :, 1].mean(axis=0))


def test_heads_are_named_with_what_they_are_without_training(fresh, tmp_path):
    for n_shot, epochs in ((1, 4), (5, 0)):
        settings = {"parameters": {"max_iter": epochs}}
        fresh.trials("MAML", 0.5, n_shot, settings=settings)
        fresh.trials("SNAIL", 0.5, n_shot, settings={"parameters": {"max_iter": 2}})
        fresh.trials("NN", 0.5, n_shot)
    study = study_of(tmp_path, "mini-imagenet", ("MAML", "SNAIL", "NN"))
    systems = {model: row["system"] for model, row in by_model(study).items()}
    untrained = "head; untrained, 5-shot: close to SimpleShot"
    assert systems == {"MAML": untrained, "SNAIL": "head", "NN": ""}
    (table,) = experiment_tables(study)
    assert any(remark.startswith("Head: trained on frozen features") for remark in table.remarks)


def test_models_without_records_are_named(fresh, tmp_path):
    fresh.trials("BPL (SFSP1)", 0.5, 1)
    study = study_of(tmp_path, "mini-imagenet", ("BPL (SFSP1)", "NN", "PPA"))
    (table,) = experiment_tables(study)
    assert table.remarks[-1].startswith("Without current records: NN; PPA. zonkey bench mini")


# What is read


def test_seeds_of_other_settings_are_not_averaged(fresh, tmp_path):
    fresh.zero_shot("BPL0", 0.5)
    for seed, zsl in enumerate((0.25, 0.75, 0.99)):
        settings = {"parameters": {"alpha": 0.1 if seed < 2 else 0.9}}
        fresh.zero_shot("BPL", 0.5, seed, settings=settings, zsl=zsl)
    collection = read_collection(tmp_path)
    assert collection.n_left_out == 1
    _, rows = rows_of(collection, "ablation")
    assert rows[-1]["accuracy"] == text([0.25, 0.75])


@pytest.mark.parametrize("n_shot", ["1", "3"])
def test_runs_with_other_parameters_than_those_chosen_since_are_left_out(fresh, tmp_path, n_shot):
    later = {**CHOSEN, "alpha": 0.003}
    for seed in range(3):  # measured again up to the second seed
        settings = {"parameters": later if seed < 2 else CHOSEN}
        fresh.zero_shot("BPL", 0.5, seed, settings=settings, zsl=(0.25, 0.75, 0.99)[seed])
    fresh.zero_shot("BPL1", 0.5)
    for model in ("BPL", "BPL1"):
        fresh.selection("selection", model, later)
    fresh.zero_shot("BPL0", 0.5)
    by_shots = dict.fromkeys("123", CHOSEN)
    hits = [[0.5, 0.6, 0.7], [0.4, 0.6, 0.8]]
    fresh.hits("BPL (SFSP1)", hits, [1, 2, 3], settings={"parameters_by_shots": by_shots})
    for model in ("BPL (SFSP1)", "BPL (SFSP2)"):  # with the most shots
        fresh.write("runtime", model, shots=[1, 2, 3], seconds=[1.0, 1.0, 1.0])
    fresh.selection(f"selection-all-{n_shot}", "BPL (SFSP1)", later)
    collection = read_collection(tmp_path)
    _, rows = rows_of(collection, "ablation")
    assert {row["model"]: row["accuracy"] for row in rows} == {
        "BPL0": text([0.5]),
        "BPL": text([0.25, 0.75]),
    }
    assert collection.runs("all-classes", "cub", "BPL (SFSP1)") == []
    assert ("BPL (SFSP1)" in collection.firsts("runtime", "cub")) == (n_shot == "1")
    assert collection.n_outdated == 3 + (n_shot == "3")
    page = str(build_report(collection))
    assert f"{collection.n_outdated} measurements with other parameters than those" in page


def test_unfinished_choices_are_counted_and_not_shown(fresh, tmp_path):
    points = [{"parameters": {"alpha": 0.9, "rho": 0.1, "mu": 0.5}, "scores": [0.5, 0.6]}]
    fresh.zero_shot("BPL0", 0.5)
    run = fresh.zero_shot("BPL", 0.5, settings={"parameters": CHOSEN})
    fresh.selection("selection", "BPL0", {})
    for protocol in ("selection", "sensitivity"):
        settings = {"n_folds": 3, "grid": {"alpha": [0.9]}, "n_points_more": 2}
        known = {"protocol": protocol, "data": "cub", "model": "BPL"}
        record = fresh.write(protocol, "BPL", settings=settings, chosen=CHOSEN, points=points)
        about = {name: record[name] for name in ("data", "results", "seconds", "command")}
        fresh.records.write_points(Key(**known), record["settings"], **about)
    collection = read_collection(tmp_path)
    assert collection.n_unfinished == 2
    assert collection.runs("zero-shot", "cub", "BPL") == [run]
    assert collection.first("selection", "cub", "BPL") is None
    assert "sensitivity" not in collection.studies()
    page = str(build_report(collection))
    assert "2 choices of parameters are unfinished, and left out." in page
    assert "not recorded" in page
    fresh.selection("selection", "BPL")
    found = read_collection(tmp_path)
    assert found.n_unfinished == 1
    assert found.first("selection", "cub", "BPL") is not None


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
