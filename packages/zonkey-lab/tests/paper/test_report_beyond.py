"""What the report says of presets, peers, synthesis on recommended features, unlabeled samples."""

import numpy as np
import pytest
from made_up_records import CHOSEN, HASH, MadeUp

from zonkey.metrics import paired_bootstrap_interval
from zonkey_lab.paper.experiments import EXPERIMENTS
from zonkey_lab.paper.records import Key
from zonkey_lab.paper.report.blocks import TableBlock, Text
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.comparisons import (
    HELPS,
    NO_HELP,
    UNCLEAR,
    Comparison,
    comparison_table,
    on_top_blocks,
    verdict_of,
)
from zonkey_lab.paper.report.figures import experiment_drawing
from zonkey_lab.paper.report.measures import points
from zonkey_lab.paper.report.sections import (
    additions,
    build_report,
    chosen_parameters,
    experiment_blocks,
)
from zonkey_lab.paper.report.tables import unlabeled_table

BEYOND, ON_TOP = EXPERIMENTS["beyond"], EXPERIMENTS["on-top"]
VERDICTS = {  # by the made-up skill: 0.65 without synthesis
    "BPL, recommended features": NO_HELP,
    "BPL, unscaled, recommended features": HELPS,
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


def test_the_recommended_model_is_compared_with_all_others(made, collection):
    table = comparison_table(collection.study(BEYOND.name, "cub"))
    others = [name for name in BEYOND.models if name != "recommended"]
    assert [row[1] for row in table.rows] == [f"recommended - {name}" for name in others]
    for row in table.rows:
        expected = interval(made, *row[1].split(" - "))
        assert row[2].page == written(*expected)


def test_synthesis_is_compared_with_the_same_features_without_it(made, collection):
    table = comparison_table(collection.study(ON_TOP.name, "cub"))
    models = ON_TOP.models[1:]
    assert [row[1] for row in table.rows] == [f"{name} - {ON_TOP.subject}" for name in models]
    for name, row in zip(models, table.rows, strict=True):
        expected = interval(made, name, ON_TOP.subject)
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
    (sentence,) = (text for text in texts if text.startswith("Synthesis and competition on"))
    assert " BPL, recommended features does not help;" in sentence
    assert " BPL, unscaled, recommended features helps;" in sentence
    assert any(text.startswith("Helps: the interval") for text in texts)
    of_others = experiment_blocks(collection.study(BEYOND.name, "cub"))
    assert not any("competition on" in getattr(block, "text", "") for block in of_others)


def test_what_cannot_be_told_is_said(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot(ON_TOP.subject, 0.5)
    results = made.results["zero-shot", ON_TOP.subject, 0]
    other = np.roll(results["predicted"].reshape(5, 40), 20, 1)
    made.zero_shot(PAIR[0], 0.5, predicted=other.reshape(-1), truth=results["truth"])
    sentence, _ = on_top_blocks(read_collection(tmp_path).study("on-top", "cub"))
    assert sentence.text.endswith(": BPL, recommended features is undecided.")
    assert on_top_blocks(read_collection(tmp_path).study("on-top", "sun")) == []


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
    on_top = found["Synthesis and competition on recommended features"]
    assert f"{PAIR[0]} does not help ({written(*interval(made, *PAIR))})" in on_top.page
    assert f"({written(*interval(made, *PAIR), digits=1)})" in on_top.markdown


PAIR = ("BPL, recommended features", ON_TOP.subject)


def test_intervals_of_what_is_on_top_are_drawn_with_a_line_at_none(made, collection):
    axis = experiment_drawing(collection.study(ON_TOP.name, "cub")).draw().axes[0]
    models = ON_TOP.models[1:]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(models)
    lines = [line.get_xydata() for line in axis.get_lines()]
    for row, name in enumerate(models):
        middle, low, high = interval(made, name, ON_TOP.subject)
        ends, dot = lines[2 * row], lines[2 * row + 1]
        assert ends == pytest.approx(np.array([[100 * low, row], [100 * high, row]]))
        assert dot == pytest.approx(np.array([[100 * middle, row]]))
    assert list(axis.get_lines()[-1].get_xdata()) == [0, 0]


def test_there_is_no_figure_of_differences_where_nothing_pairs(tmp_path):
    made = MadeUp(tmp_path)
    made.zero_shot(PAIR[1], 0.5)
    made.zero_shot(PAIR[0], 0.5, truth=np.zeros(200, np.int16))
    assert experiment_drawing(read_collection(tmp_path).study(ON_TOP.name, "cub")) is None


def test_a_choice_for_no_shot_is_that_of_the_zero_shot_model_or_the_same(tmp_path):
    made = MadeUp(tmp_path)
    made.selection("selection", "BPL", CHOSEN)
    papers = made.all_classes("BPL (SFSP1)", 0.5, zero_parameters=CHOSEN)
    changed = made.all_classes("BPL (SFSP2)", 0.5, zero_parameters={**CHOSEN, "mu": 0.5})
    made.all_classes("recommended", 0.5)
    collection = read_collection(tmp_path)
    assert collection.zero_selection_of(papers)["model"] == "BPL"
    assert collection.zero_selection_of(changed) is None
    table = chosen_parameters(collection.study("any-shot", "cub"))
    assert [row[0] for row in table.rows if "K = 0" in row[0]] == [
        "BPL (SFSP1), K = 0, as for zero-shot learning",
        "BPL (SFSP2), K = 0, as for zero-shot learning",
    ]


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


def test_no_other_table_has_figures_with_unlabeled_samples(collection):
    report = build_report(collection)
    for section in report.sections:
        text = str(section.parts)
        titles = ("Unlabeled samples", "Few shots and unlabeled queries")
        assert ("unlabeled" in text) == (section.title in titles)


def test_trials_that_could_not_be_drawn_are_left_out(tmp_path):
    MadeUp(tmp_path).unlabeled(unbalanced=False)
    study = read_collection(tmp_path).study("unlabeled", "cub")
    assert not any("Dirichlet" in row[0] for row in unlabeled_table(study).rows)
    assert len(unlabeled_table(study).rows) == 4
    axis = experiment_drawing(study).draw().axes[0]
    assert len(axis.get_xticklabels()) == 4


@pytest.mark.parametrize("same_split", [True, False])
def test_two_splits_of_the_same_data_may_be_in_one_table(tmp_path, same_split):
    made = MadeUp(tmp_path)
    made.unlabeled()
    for n_shot in (1, 5) if same_split else (1,):
        key = Key(f"unlabeled-trials-{n_shot}", "cub", "recommended")
        path = tmp_path / key.path
        path.write_text(path.read_text().replace(HASH, HASH[::-1]))
    blocks = experiment_blocks(read_collection(tmp_path).study("unlabeled", "cub"))
    texts = [block.text for block in blocks if isinstance(block, Text)]
    assert any(text.startswith("These runs differ") for text in texts) == (not same_split)
