"""What tables say of fits: the guard on mu, the distance moved, systems beside the paper's."""

from dataclasses import replace

import numpy as np
import pytest
from made_up_records import SYSTEMS, MadeUp

from zonkey_lab.paper.experiments import EXPERIMENTS
from zonkey_lab.paper.printed import PRINTED, contradiction
from zonkey_lab.paper.report.collection import Study, read_collection
from zonkey_lab.paper.report.figures import experiment_drawing
from zonkey_lab.paper.report.fits import guard_text
from zonkey_lab.paper.report.tables import experiment_table, unlabeled_table

GUARD = "guard on mu"
MOVED, EQUAL = "W moved from BPL0 (%)", "predictions equal to BPL0's (%)"
OFF = {"parameters": {}, "model": {"guard": False}}


def study_of(folder, name, models=None, data="cub"):
    """Return an experiment with other models than those of the catalog."""
    collection = read_collection(folder)
    experiment = EXPERIMENTS[name]
    models = models or experiment.models
    runs = {model: collection.runs(experiment.protocol, data, model) for model in models}
    known = {model: found for model, found in runs.items() if found}
    return Study(replace(experiment, models=tuple(models)), data, known, collection)


def rows_of(study):
    table = experiment_table(study)
    return {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.rows}


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
def test_the_guard_is_told_in_steps_and_seeds(tmp_path, fits, settings, text):
    made = MadeUp(tmp_path)
    runs = [
        made.zero_shot("BPL", 0.5, seed, settings=settings, mu=mu, n_lowered=low, n_indefinite=bad)
        for seed, (mu, low, bad) in enumerate(fits)
    ]
    assert guard_text(runs) == text


@pytest.mark.parametrize("name", ["pure-zsl", "generalized-zsl", "alternatives", "beyond"])
def test_guarded_and_printed_models_have_rows_that_tell_of_the_guard(tmp_path, name):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL0", 0.5, mu=[], n_lowered=0, n_indefinite=0)
    made.zero_shot("BPL", 0.6, mu=[0.2, 0.3], n_lowered=1, n_indefinite=0)
    as_printed = {"mu": [0.3, 0.3], "n_lowered": 0, "n_indefinite": 1}
    made.zero_shot("BPL, as printed", 0.4, settings=OFF, **as_printed)
    rows = rows_of(study_of(tmp_path, name, ("BPL0", "BPL", "BPL, as printed")))
    assert {model: row[GUARD] for model, row in rows.items() if row["features used"] != "-"} == {
        "BPL0": "-",
        "BPL": "lowered mu in 1 of 2 steps (1 of 1 seeds)",
        "BPL, as printed": "off; indefinite in 1 of 2 steps (1 of 1 seeds)",
    }
    assert {row[GUARD] for model, row in rows.items() if row["features used"] == "-"} <= {"-"}


def test_alternatives_tell_how_far_they_moved(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("BPL0", 0.5)
    predicted = made.results["zero-shot", "BPL0", 0]["predicted"]
    for seed, n_changed in enumerate((10, 20)):
        other = predicted.copy()
        other[:n_changed] = (other[:n_changed] + 1) % 5
        moved = {"predicted": other, "moved": 0.01 + 0.02 * seed}
        made.zero_shot("minimum entropy", 0.5, seed, **moved)
    made.zero_shot("BPL", 0.5, moved=1.249, predicted=predicted)
    rows = rows_of(study_of(tmp_path, "alternatives", ("minimum entropy", "BPL")))
    found = {model: (row[MOVED], row[EQUAL]) for model, row in rows.items()}
    assert found == {
        "minimum entropy": ("2", "92.5"),  # means of 1 and 3, of 95 and 90
        "BPL": ("125", "100.0"),
        "without ambiguity handling": ("-", "-"),  # printed only
    }


# Other systems


def test_measured_systems_stand_beside_their_printed_figures(tmp_path):
    made = MadeUp(tmp_path)
    later = ("EXEM", "CADA-VAE", "TF-VAEGAN")
    for model in ("BPL", *SYSTEMS, *later):
        made.zero_shot(model, 0.5)
    for name, metric, label in (("pure-zsl", "zsl", "accuracy"), ("generalized-zsl", "hm", "HM")):
        rows = rows_of(study_of(tmp_path, name, ("BPL", *SYSTEMS, *later)))
        assert list(rows) == ["BPL", *SYSTEMS, *later]
        source = EXPERIMENTS[name].source
        printed = {
            f.model: f"{f.value:.1f}"
            for f in PRINTED
            if (f.source, f.data, f.metric) == (source, "cub", metric)
        }
        for model, row in rows.items():
            assert row[f"{label}, paper"] == printed.get(model, "-")
            assert row[f"{label}, measured"] != "-"
            assert ("ResNet101" in row["note"]) == (model in printed)
        assert {rows[model][f"{label}, paper"] for model in later} == {"-"}


def test_one_printed_harmonic_mean_contradicts_its_accuracies():
    rows = {(f.data, f.model) for f in PRINTED if f.source == "gsrl"}
    assert len(rows) == 3 * 13
    found = {row: contradiction(*row) for row in rows}
    told = "the paper's HM of 43.5 contradicts its acc_s and acc_u, whose HM is 43.7"
    assert {row: text for row, text in found.items() if text} == {("awa1", "SAE"): told}
    assert contradiction("cub", "DAP") == contradiction("emoji", "BPL") == ""


def test_harmonic_means_follow_from_accuracies_up_to_rounding():
    values = {(f.data, f.model, f.metric): f.value for f in PRINTED if f.source == "gsrl"}
    for data, model in {(data, model) for data, model, _ in values} - {("awa1", "SAE")}:
        seen, unseen, mean = (values[data, model, metric] for metric in ("acc_s", "acc_u", "hm"))
        ends = np.linspace(-0.05, 0.05, 21)
        a, b = np.meshgrid(seen + ends, unseen + ends)
        assert np.abs(2 * a * b / (a + b) - mean).min() <= 0.05 + 1e-9


@pytest.mark.parametrize("is_measured", [True, False])
def test_the_contradiction_is_noted_at_its_row(tmp_path, is_measured):
    made = MadeUp(tmp_path, "awa1")
    for model in ("BPL", "RPL", *(["SAE"] if is_measured else [])):
        made.zero_shot(model, 0.5)
    rows = rows_of(study_of(tmp_path, "generalized-zsl", ("BPL", "RPL", "SAE"), "awa1"))
    noted = {model for model, row in rows.items() if "contradicts" in row["note"]}
    assert noted == {"SAE"}
    assert rows["SAE"]["HM, paper"] == "43.5"
    start = "not comparable: the paper used" if is_measured else "as printed, on"
    assert rows["SAE"]["note"].startswith(f"{start} ResNet101 features; ")
    pure = rows_of(study_of(tmp_path, "pure-zsl", ("BPL", "RPL", "SAE"), "awa1"))
    assert not any("contradicts" in row["note"] for row in pure.values())


def test_many_systems_are_ranked_by_name(tmp_path):
    made = MadeUp(tmp_path)
    names = ("BPL", *SYSTEMS)
    for model in names:
        made.zero_shot(model, 0.5, ausuc=0.2 + 0.01 * names.index(model))
    axis = experiment_drawing(study_of(tmp_path, "pure-zsl", names)).draw().axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(names)
    drawing = experiment_drawing(study_of(tmp_path, "generalized-zsl", names))
    curves = [line.get_label().split(" (")[0] for line in drawing.draw().axes[0].get_lines()]
    assert curves == ["BPL", *names[-7:]]  # of the largest areas
    assert drawing.caption.endswith(" BPL, and the 7 other models of largest area.")


# Transductive systems


def test_a_transductive_system_has_its_column_among_transductive_ones(tmp_path):
    made = MadeUp(tmp_path)
    made.unlabeled()
    made.write("unlabeled", "DIPL", zsl_unlabeled=0.55, hm_unlabeled=0.35)
    collection = read_collection(tmp_path)
    experiment = replace(EXPERIMENTS["unlabeled"], models=("recommended", "DIPL"))
    runs = {
        model: [run for name in experiment.protocols for run in collection.runs(name, "cub", model)]
        for model in experiment.models
    }
    study = Study(experiment, "cub", runs, collection)
    table = unlabeled_table(study)
    assert table.headings == [
        "task",
        "recommended",
        "recommended + unlabeled samples",
        "DIPL + unlabeled samples",
        "features used",
    ]
    assert table.rows[0] == ["accuracy, unseen classes", "50.0", "60.0", "55.0", "lite0.mat"]
    assert table.rows[1] == ["HM, all classes", "40.0", "45.0", "35.0", "lite0.mat"]
    assert {row[3] for row in table.rows[2:]} == {"-"}  # no trials
    assert table.caption.startswith("Transductive: ")
    bars = experiment_drawing(study).draw().axes[0].containers
    assert {bar.get_label() for bar in bars if bar.get_label()} >= {*table.headings[1:4]}
