"""Figures of the report: they show what was measured, without color, and alike on every run."""

import io

import numpy as np
import pytest
from made_up_records import CHANGES, CLASSES, SYSTEMS, MadeUp
from matplotlib.colors import to_hex
from PIL import Image

from zonkey.display.drawing import (
    bar_style,
    escape_dollars,
    file_bytes,
    line_style,
    new_figure,
)
from zonkey.metrics import paired_bootstrap_interval
from zonkey_lab.paper.experiments import EXPERIMENTS
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.figures import experiment_drawing


@pytest.fixture(scope="module")
def figures(collection):
    return {name: experiment_drawing(collection.study(name, "cub")).draw() for name in EXPERIMENTS}


def curves(axis):
    """Return the lines with a label, as lists of points."""
    found = {}
    for line in axis.containers:
        points = line.lines[0].get_xydata() if hasattr(line, "lines") else None
        if points is not None:
            found[line.get_label()] = points
    return found


@pytest.mark.parametrize("style", [line_style, bar_style])
def test_styles_differ_without_color(style):
    plain_styles = []
    for number in range(6):
        given = style(number)
        given.pop("color")
        plain_styles.append(str(given))
    assert len(set(plain_styles)) == 6
    assert len({str(style(number)) for number in range(24)}) == 24


def test_bars_are_as_high_as_the_means(figures, made):
    experiment = EXPERIMENTS["ablation"]
    heights = []
    for model in experiment.models:
        runs = [made.results.get(("zero-shot", model, seed)) for seed in (0, 1)]
        heights.append([np.mean([r[metric] for r in runs if r]) for metric in experiment.metrics])
    axis = figures["ablation"].axes[0]
    bars = [c for c in axis.containers if hasattr(c, "patches") and c.patches]
    drawn = [[bar.get_height() for bar in container.patches] for container in bars]
    assert np.asarray(drawn) == pytest.approx(100 * np.asarray(heights))
    hatches = [container.patches[0].get_hatch() for container in bars]
    assert len(set(hatches)) == len(hatches)


def test_many_models_of_trials_have_a_row_each(figures, made):
    models = EXPERIMENTS["mini-imagenet"].models
    first, _ = figures["mini-imagenet"].axes
    assert [label.get_text() for label in first.get_yticklabels()] == list(models)
    for axis, n_shot in zip(figures["mini-imagenet"].axes, (1, 5), strict=True):
        bars = next(c for c in axis.containers if hasattr(c, "patches") and c.patches).patches
        expected = [np.mean(made.results[f"trials-{n_shot}", m, 0]["accuracies"]) for m in models]
        assert [bar.get_width() for bar in bars] == pytest.approx(100 * np.asarray(expected))


def test_times_are_drawn_against_the_number_of_shots(figures):
    axis = figures["runtime"].axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axis.get_lines()}
    assert lines == {
        "BPL (SFSP1)": [[1, 0.5], [2, 1.0], [3, 1.5]],
        "BPL (SFSP2)": [[1, 0.75], [2, 1.25], [3, 1.75]],
        "LSL": [[1, 5.5], [2, 6.0], [3, 6.5]],
        "PPA": [[1, 5.5], [2, 6.0], [3, 6.5]],
        "LSL, published size": [[1, 5.5], [2, 6.0], [3, 6.5]],
        "PPA, published size": [[1, 5.5], [2, 6.0], [3, 6.5]],
    }
    assert axis.get_ylabel() == "seconds per fit"


@pytest.mark.parametrize(
    ("name", "least"), [("large-scale-fsl", 1), ("synthesis", 1), ("any-shot", 0)]
)
def test_curves_go_through_the_means_of_each_number_of_shots(figures, made, name, least):
    for axis, metric in zip(figures[name].axes, ("hit@1", "hit@5"), strict=True):
        found = curves(axis)
        models = list(EXPERIMENTS[name].models)
        if len(models) > 8:  # those of the paper's tables first
            assert len(found) == 8
            assert {"BPL (SFSP1)", "BPL (SFSP2)", "BPL (novel)", "NN", "LSL", "PPA"} < {*found}
        else:
            assert list(found) == models
        for model, points in found.items():
            run = made.results["all-classes", model, 0]
            means = 100 * np.mean(run[metric], axis=0)
            kept = [i for i, K in enumerate(run["shots"]) if least <= K]
            assert points[:, 0].tolist() == [run["shots"][i] for i in kept]
            assert points[:, 1] == pytest.approx(means[kept])
        lines = axis.get_lines()
        styles = {line.get_linestyle() for line in lines if line.get_linestyle() != "None"}
        assert len(styles) >= min(4, len(found))


def test_the_trade_off_has_a_curve_a_model_with_its_area(figures, made):
    axis = figures["generalized-zsl"].axes[0]
    lines = {line.get_label().split(" (")[0]: line for line in axis.get_lines()}
    assert list(lines) == list(EXPERIMENTS["generalized-zsl"].models[:8])  # of equal areas
    curve = made.results["zero-shot", "BPL", 0]["curve"]
    assert lines["BPL"].get_xdata() == pytest.approx(100 * np.array(curve["unseen"]))
    assert lines["BPL"].get_ydata() == pytest.approx(100 * np.array(curve["seen"]))
    assert "area 0.250" in lines["BPL"].get_label()


def test_curves_of_many_systems_are_those_of_the_largest_areas(fresh, tmp_path):
    names = ("BPL", *(name for name in SYSTEMS if name in EXPERIMENTS["generalized-zsl"].models))
    for model in names:
        fresh.zero_shot(model, 0.5, ausuc=0.2 + 0.01 * names.index(model))
    drawing = experiment_drawing(read_collection(tmp_path).study("generalized-zsl", "cub"))
    found = {line.get_label().split(" (")[0] for line in drawing.draw().axes[0].get_lines()}
    assert found == {"BPL", *names[-7:]}
    assert drawing.caption.endswith(" BPL, and the 7 other models of largest area.")


def test_intervals_of_what_is_on_top_are_drawn_with_a_line_at_none(figures, made):
    axis, experiment = figures["on-top"].axes[0], EXPERIMENTS["on-top"]
    models = experiment.models[1:]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(models)
    lines = [line.get_xydata() for line in axis.get_lines()]
    truth = made.results["zero-shot", experiment.subject, 0]["truth"]
    for row, name in enumerate(models):
        runs = (
            [made.results.get(("zero-shot", model, seed)) for seed in (0, 1)]
            for model in (name, experiment.subject)
        )
        sides = (np.stack([run["predicted"] for run in found if run]) for found in runs)
        middle, low, high = (100 * end for end in paired_bootstrap_interval(truth, *sides))
        assert lines[2 * row] == pytest.approx(np.array([[low, row], [high, row]]))
        assert lines[2 * row + 1] == pytest.approx(np.array([[middle, row]]))
    assert list(axis.get_lines()[-1].get_xdata()) == [0, 0]


def test_convergence_marks_the_fifth_step(figures):
    objective, change, accuracy = figures["convergence"].axes
    drawn = [axis.get_lines()[0].get_xydata().T for axis in (objective, change, accuracy)]
    steps = [0, 1, 2, 3, 4, 5, 6]
    assert [x.tolist() for x, _ in drawn] == [steps, steps[1:], [0, 2, 3, 4, 5, 6]]
    assert drawn[1][1] == pytest.approx(CHANGES)
    assert drawn[2][1] == pytest.approx([50, 52, 53, 54, 55, 56])
    assert change.get_yscale() == "log"
    for axis in (objective, change, accuracy):
        assert [line.get_label() for line in axis.get_lines()[:2]] == ["BPL", "BPL, unscaled"]
        assert list(axis.get_lines()[2].get_xdata()) == [5, 5]


def test_sensitivity_has_a_panel_a_parameter(figures, made):
    axes = figures["sensitivity"].axes
    names = [axis.get_xlabel() for axis in axes]
    assert names == ["alpha (chosen: 0.3)", "mu (chosen: 0.1)", "rho (chosen: 0.5)"]
    points = made.results["sensitivity", "BPL", 0]["points"]
    expected = [
        100 * np.mean(point["scores"])
        for point in points
        if (point["parameters"]["alpha"], point["parameters"]["rho"]) == (0.3, 0.5)
    ]
    drawn = axes[1].containers[0].lines[0].get_ydata()
    assert drawn == pytest.approx(expected)


def test_maps_mark_samples_by_prediction_and_prototypes_by_crosses(figures, made):
    figure = figures["tsne"]
    panels = [axis for axis in figure.axes if axis.axison]
    models = EXPERIMENTS["tsne"].models
    assert [axis.get_title().split(" (")[0] for axis in panels] == list(models)
    for axis, model in zip(panels, models, strict=True):
        results = made.results["map", model, 0]
        samples, predicted = np.array(results["samples"]), np.array(results["predicted"])
        dots, crosses = axis.get_lines()[: len(CLASSES)], axis.get_lines()[len(CLASSES) :]
        for j, line in enumerate(dots):
            assert np.array_equal(line.get_xydata(), samples[predicted == j])
        marks = {(line.get_marker(), to_hex(line.get_color())) for line in dots}
        assert len(marks) == len({mark for mark, _ in marks}) == len(CLASSES)
        places = {tuple(line.get_xydata()[0]) for line in crosses}
        assert {line.get_marker() for line in crosses} == {"x"}
        assert places == {tuple(place) for place in results["prototypes"]}
        assert [text.get_text() for text in axis.texts] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("n_classes", "n_names", "caption"),
    [(12, 12, "12 of 5"), (50, 50, "50 of 5"), (200, 0, "Marks repeat after 96 classes.")],
)
def test_maps_of_many_classes_stay_readable(tmp_path, n_classes, n_names, caption):
    made = MadeUp(tmp_path)
    classes = [f"class {j:03d}" for j in range(n_classes)]
    for model in ("BPL0", "BPL"):
        made.map(model, classes)
    drawing = experiment_drawing(read_collection(tmp_path).study("tsne", "cub"))
    assert caption in drawing.caption
    figure = drawing.draw()
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == n_names + 1
    assert texts[-1] == "projected prototype"
    for axis in figure.axes:
        assert len(axis.texts) == n_names
        places = {tuple(line.get_xydata()[0]) for line in axis.get_lines()[n_classes:]}
        assert len(places) == n_classes  # all prototypes
    width, height = figure.get_size_inches()
    figure.draw_without_rendering()
    assert all(axis.get_window_extent().height / figure.dpi > 0.5 * height for axis in figure.axes)
    assert width < 12


@pytest.mark.parametrize("name", ["ablation"])
def test_a_figure_gives_the_same_files_again(collection, name):
    def draw():
        return file_bytes(experiment_drawing(collection.study(name, "cub")).draw())

    first = draw()
    assert first == draw()
    assert first["svg"].startswith(b"<?xml")
    with Image.open(io.BytesIO(first["png"])) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300


def test_names_with_dollars_and_unknown_signs_can_be_drawn():
    assert escape_dollars("a $x$") == r"a \$x\$"
    figure = new_figure(2, 2)
    figure.subplots().set_title(escape_dollars("$\\frac \N{ZEBRA FACE} $ 1"))
    assert file_bytes(figure)["png"]


def test_a_record_without_curves_or_grid_has_no_figure(tmp_path):
    made = MadeUp(tmp_path)
    for model in ("BPL", "BPL0"):
        made.zero_shot(model, 0.5, curve=None)
    made.selection("sensitivity", "BPL", {})
    collection = read_collection(tmp_path)
    for name in ("generalized-zsl", "sensitivity", "on-top"):
        assert experiment_drawing(collection.study(name, "cub")) is None
