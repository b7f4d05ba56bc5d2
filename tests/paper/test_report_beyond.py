"""What the report says of presets, peers, and of what is put on top of the recommended model."""

import numpy as np
import pytest
from made_up_records import CHOSEN, MadeUp

from zonkey.metrics import paired_bootstrap_interval
from zonkey.paper.experiments import EXPERIMENTS
from zonkey.paper.report.blocks import Text
from zonkey.paper.report.collection import read_collection
from zonkey.paper.report.comparisons import (
    HELPS,
    NO_HELP,
    UNCLEAR,
    Comparison,
    comparison_table,
    on_top_blocks,
    verdict_of,
)
from zonkey.paper.report.figures import experiment_drawing
from zonkey.paper.report.measures import points
from zonkey.paper.report.sections import (
    additions,
    chosen_parameters,
    experiment_blocks,
    preset_note,
)
from zonkey.paper.report.tables import experiment_table

BEYOND, ON_TOP = EXPERIMENTS["beyond"], EXPERIMENTS["on-top"]
VERDICTS = {  # by the made-up skill: 0.7 without anything on top
    "recommended + BPL": NO_HELP,
    "recommended + BPL, unscaled": HELPS,
}


def interval(made, first, second):
    sides = []
    for name in (first, second):
        runs = [made.results.get(("zero-shot", name, seed)) for seed in (0, 1)]
        sides.append(np.stack([run["predicted"] for run in runs if run]))
    return paired_bootstrap_interval(made.results["zero-shot", first, 0]["truth"], *sides)


def written(middle, low, high, digits=2):
    middle, low, high = (points(value, digits) for value in (middle, low, high))
    return f"{middle} [{low}, {high}]"


def test_a_table_of_what_the_paper_has_not_has_no_column_of_the_paper(collection):
    table = experiment_table(collection.study(BEYOND.name, "cub"))
    names = ("accuracy", "HM", "HM, calibrated", "AUSUC")
    assert table.headings == [
        "model",
        *(f"{name}, measured" for name in names),
        "features used",
        "note",
    ]
    assert [row[0] for row in table.rows] == list(BEYOND.models)
    assert list(table.numbers) == [1, 2, 3, 4]


def test_the_calibrated_harmonic_mean_is_told_of_models_that_have_one(made, collection):
    table = experiment_table(collection.study(BEYOND.name, "cub"))
    found = {row[0]: row[3] for row in table.rows}
    assert found["recommended"] == "50.0"
    assert found["BPL"] == "50.5 ± 0.7"
    assert {name for name, value in found.items() if value == "-"} == {
        name for name in BEYOND.models
        if "hm_calibrated" not in made.results["zero-shot", name, 0]
    } == {
        "SAE (F to S)", "SAE (S to F)", "ESZSL", "exemplars", "ESZSL, recommended features",
        "exemplars, recommended features",
    }  # fmt: skip


def test_a_system_of_the_paper_is_not_measured_by_a_peer_of_its_name(collection):
    table = experiment_table(collection.study("generalized-zsl", "cub"))
    (row,) = (row for row in table.rows if row[0] == "ESZSL")
    assert row[-1] == "as printed, on ResNet101 features"
    assert row[2] == "-"


def test_the_recommended_model_is_compared_with_all_others(made, collection):
    table = comparison_table(collection.study(BEYOND.name, "cub"))
    others = [name for name in BEYOND.models if name != "recommended"]
    assert [row[1] for row in table.rows] == [f"recommended - {name}" for name in others]
    for row in table.rows:
        expected = interval(made, *row[1].split(" - "))
        assert row[2].page == written(*expected)


def test_what_is_on_top_is_compared_with_the_recommended_model(made, collection):
    table = comparison_table(collection.study(ON_TOP.name, "cub"))
    models = ON_TOP.models[1:]
    assert [row[1] for row in table.rows] == [f"{name} - recommended" for name in models]
    for name, row in zip(models, table.rows, strict=True):
        expected = interval(made, name, "recommended")
        assert row[2].page == written(*expected)
        if name in VERDICTS:
            assert row[3] == VERDICTS[name]


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
    (sentence,) = (text for text in texts if text.startswith("Synthesis on top of"))
    assert "recommended + BPL does not help;" in sentence
    assert "recommended + BPL, unscaled helps;" in sentence
    assert any(text.startswith("Helps: the interval") for text in texts)
    of_others = experiment_blocks(collection.study(BEYOND.name, "cub"))
    assert not any("on top of" in getattr(block, "text", "") for block in of_others)


def test_what_cannot_be_told_is_said(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("recommended", 0.5)
    truth = made.results["zero-shot", "recommended", 0]["truth"]
    other = np.roll(made.results["zero-shot", "recommended", 0]["predicted"].reshape(5, 40), 20, 1)
    made.zero_shot("recommended + BPL", 0.5, predicted=other.reshape(-1), truth=truth)
    sentence, _ = on_top_blocks(read_collection(tmp_path).study("on-top", "cub"))
    assert sentence.text.endswith(": recommended + BPL is undecided.")
    assert on_top_blocks(read_collection(tmp_path).study("on-top", "sun")) == []


def test_the_preset_of_every_model_is_named(collection):
    for name in EXPERIMENTS:
        table = chosen_parameters(collection.study(name, "cub"))
        assert table.headings[1] == "preset"
        for row in table.rows:
            recommended = "recommended" in row[0] or "alone" in row[0]
            assert row[1] == ("recommended" if recommended else "paper"), row


def test_presets_are_described_if_some_model_has_not_the_papers(tmp_path):
    run = MadeUp(tmp_path).zero_shot("BPL", 0.5)
    assert preset_note([run]) is None
    run["settings"]["preset"] = "recommended"
    assert preset_note([run]).text.startswith("Preset paper: ")


def test_parameters_that_another_model_chose_are_told_apart(collection):
    table = chosen_parameters(collection.study(ON_TOP.name, "cub"))
    found = {row[0]: row[3] for row in table.rows}
    folds = "3 class-wise folds of the training classes, 27 points"
    assert found["recommended"] == folds
    assert found["recommended + BPL"] == f"{folds}; the rest as for recommended"


def test_a_worth_that_was_left_to_the_model_has_no_classes_it_was_chosen_on(tmp_path):
    made = MadeUp(tmp_path)
    chosen = {"fusion": "auto"}
    made.write(
        "selection-all", "recommended", settings={"n_trials": None}, chosen=chosen, points=[]
    )
    hits = {"hit@1": [[0.5], [0.6]], "hit@5": [[0.5], [0.6]]}
    for name, parameters in (("recommended", chosen), ("NN", {})):
        settings = {"parameters": parameters}
        made.write("all-classes", name, settings=settings, shots=[1], n_novel=5, **hits)
    table = chosen_parameters(read_collection(tmp_path).study("large-scale-fsl", "cub"))
    assert table.rows[-1] == [
        "recommended",
        "recommended",
        "fusion auto",
        "no classes to choose on",
    ]


@pytest.mark.parametrize("with_subject", [True, False])
def test_an_experiment_about_a_model_is_told_where_there_are_runs_of_it(tmp_path, with_subject):
    made = MadeUp(tmp_path)
    for model in ("BPL", "BPL0", *(["recommended"] if with_subject else [])):
        made.zero_shot(model, 0.5)
    found = set(read_collection(tmp_path).studies())
    assert ("beyond" in found) == with_subject
    assert "on-top" not in found
    assert "ablation" in found


def test_what_is_added_names_the_recommended_model(made, collection):
    found = {row[0]: row[2] for row in additions(collection)}
    difference = written(*interval(made, "recommended", "BPL"))
    accuracy = [
        100 * np.mean([made.results["zero-shot", name, seed]["zsl"] for seed in seeds])
        for name, seeds in (("recommended", (0,)), ("BPL", (0, 1)))
    ]
    text = found["Recommended model"].page
    assert text.startswith(f"accuracy {accuracy[0]:.1f}, that of BPL {accuracy[1]:.1f} ± ")
    assert "HM, calibrated 50.0, that of BPL 50.5 ± 0.7; " in text
    assert text.endswith(f"difference of accuracy {difference}")
    on_top = found["Synthesis and competition on top of it"]
    assert f"recommended + BPL does not help ({written(*interval(made, *PAIR))})" in on_top.page
    assert f"({written(*interval(made, *PAIR), digits=1)})" in on_top.markdown


PAIR = ("recommended + BPL", "recommended")


def test_bars_beside_names_are_as_long_as_the_means(made, collection):
    axis = experiment_drawing(collection.study(BEYOND.name, "cub")).draw().axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(BEYOND.models)
    widths = [bar.get_width() for bar in axis.containers[-1].patches]
    for name, width in zip(BEYOND.models, widths, strict=True):
        runs = [made.results.get(("zero-shot", name, seed)) for seed in (0, 1)]
        assert width == pytest.approx(100 * np.mean([run["zsl"] for run in runs if run]))
    assert axis.yaxis_inverted()


def test_intervals_of_what_is_on_top_are_drawn_with_a_line_at_none(made, collection):
    axis = experiment_drawing(collection.study(ON_TOP.name, "cub")).draw().axes[0]
    models = ON_TOP.models[1:]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(models)
    lines = [line.get_xydata() for line in axis.get_lines()]
    for row, name in enumerate(models):
        middle, low, high = interval(made, name, "recommended")
        ends, dot = lines[2 * row], lines[2 * row + 1]
        assert ends == pytest.approx(np.array([[100 * low, row], [100 * high, row]]))
        assert dot == pytest.approx(np.array([[100 * middle, row]]))
    assert list(axis.get_lines()[-1].get_xdata()) == [0, 0]


def test_there_is_no_figure_of_differences_where_nothing_pairs(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot("recommended", 0.5)
    made.zero_shot("recommended + BPL", 0.5, truth=np.zeros(200, np.int16))
    assert experiment_drawing(read_collection(tmp_path).study(ON_TOP.name, "cub")) is None


def test_a_choice_for_no_shot_is_the_one_of_the_models_own_kind(tmp_path):
    made = MadeUp(tmp_path)
    made.selection("selection", "BPL", {**CHOSEN, "mu": 0.5})
    made.selection("selection", "recommended")
    run = made.all_classes("recommended", 0.5, zero_parameters=CHOSEN)
    papers = made.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    collection = read_collection(tmp_path)
    assert collection.zero_selection_of(run)["model"] == "recommended"
    assert collection.zero_selection_of(papers) is None
