"""Tests of the sweep behind docs/synthesis.md: generated problems, measures, tables of the page."""

import importlib
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

ROOT = Path(__file__).parents[3]
SUMMARY = ROOT / "benchmarks" / "results" / "when_synthesis_helps.json"


@pytest.fixture
def benchmark_module(monkeypatch):
    """Return a function that imports a module of the folder benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def rectified(benchmark_module):
    return benchmark_module("rectified")


@pytest.fixture
def models(benchmark_module):
    return benchmark_module("synthesis_models")


def class_means(problem):
    X, y = np.vstack([problem.X, problem.X_unseen]), np.append(problem.y, problem.y_unseen)
    return np.array([X[y == j].mean(axis=0) for j in range(len(problem.Y))])


def within(problem):
    return np.mean((problem.X - class_means(problem)[problem.y]) ** 2)


def unexplained(problem):
    """Return the share of class means that no linear map of prototypes with a constant explains."""
    M = class_means(problem)
    Y = np.column_stack([problem.Y, np.ones(len(M))])
    rest = M - Y @ np.linalg.lstsq(Y, M, rcond=None)[0]
    return np.sum(rest**2) / np.sum((M - M.mean(axis=0)) ** 2)


def feature_mean(problem):
    return np.sum(problem.X.mean(axis=0) ** 2)


def common_part(problem):
    return np.sum(problem.Y[: problem.n_seen].mean(axis=0) ** 2)


def step(problem):
    seen, unseen = np.split(problem.Y, [problem.n_seen])
    return np.linalg.norm(seen.mean(axis=0) - unseen.mean(axis=0))


def test_a_problem_has_the_shape_of_its_setting(rectified):
    setting = rectified.Setting(n_seen=9, n_dimensions=11, n_unseen=4, noise=0.7)
    problem = rectified.generate(setting, seed=3, n_samples=5)
    assert problem.X.shape == (45, rectified.N_FEATURES)
    assert problem.X_unseen.shape == (20, rectified.N_FEATURES)
    assert problem.Y.shape == (13, 11)
    assert_array_equal(np.unique(problem.y), np.arange(9))
    assert_array_equal(np.unique(problem.y_unseen), np.arange(9, 13))
    for rows in (problem.X, problem.X_unseen, problem.Y):
        assert_allclose(np.linalg.norm(rows, axis=1), 1)
    assert problem.X.min() == 0
    assert_array_equal(problem.prototypes.matrix, problem.Y)


@pytest.mark.parametrize(
    ("factor", "values", "measure"),
    [
        ("noise", (0.3, 0.6, 1.2), within),
        ("offset", (0.0, 0.5, 1.0), unexplained),
        ("common", (0.0, 0.3, 1.0), common_part),
        ("shift", (0.0, 0.5, 2.0), step),
        ("rectified", (False, True), feature_mean),
        ("prototypes", ("gaussian", "binary", "uniform"), common_part),
    ],
)
def test_a_factor_does_what_it_says(rectified, factor, values, measure):
    base = rectified.Setting(n_seen=40, n_dimensions=24, n_unseen=20, noise=0.4)
    problems = [rectified.generate(replace(base, **{factor: value}), seed=1) for value in values]
    found = [measure(problem) for problem in problems]
    assert all(late > early + 0.02 * abs(early) for early, late in pairwise(found)), found
    if factor in ("noise", "offset", "rectified"):
        assert_array_equal(problems[0].Y, problems[-1].Y)


def test_forms_of_prototypes(rectified):
    base = rectified.Setting(n_seen=6, n_dimensions=24, n_unseen=3)
    forms = {
        name: rectified.generate(replace(base, prototypes=name), seed=0).Y
        for name in ("gaussian", "uniform", "binary")
    }
    assert forms["gaussian"].min() < 0 < forms["uniform"].min()
    assert all(len(np.unique(row)) == 2 for row in forms["binary"])
    assert len(np.unique(forms["uniform"])) == forms["uniform"].size


def test_a_wider_class_of_problems_keeps_its_spread(rectified):
    """Noise means the same for every form of prototypes: V y has variance 1 between classes."""
    base = rectified.Setting(n_seen=200, n_dimensions=24, n_unseen=2, noise=0, rectified=False)
    base = replace(base, offset=0.0)
    found = []
    for name in ("gaussian", "binary"):
        M = class_means(rectified.generate(replace(base, prototypes=name), 0, n_samples=1))
        # Unit length divides a sample by the length of center and common part together.
        found.append(np.var(M, axis=0).sum() / np.sum(M.mean(axis=0) ** 2 + np.var(M, axis=0)))
    assert found[0] > 0.9
    assert 0.3 < found[1] < 0.7


def test_geometry_agrees_with_loops(models):
    rng = np.random.default_rng(0)
    centers, mean = rng.normal(size=(4, 6)), rng.normal(size=6)
    y = np.repeat([3, 5, 6, 9], 7)
    X = np.repeat(centers, 7, axis=0) + 2 * rng.normal(size=(28, 6))
    found = models.judged(centers, mean, X, y)
    labels = [3, 5, 6, 9]
    bias = [-np.sum((mean - c) ** 2) + mean @ mean for c in centers]
    plain = [labels[np.argmin([np.sum((x - c) ** 2) for c in centers])] for x in X]
    corrected = [[-np.sum((x - centers[j]) ** 2) - bias[j] for j in range(4)] for x in X]
    balanced = [labels[np.argmax(row)] for row in corrected]
    assert found["score"] == pytest.approx(np.mean(np.array(plain) == y))
    assert found["balanced"] == pytest.approx(np.mean(np.array(balanced) == y))
    assert found["score"] != found["balanced"]
    assert found["bias"] == pytest.approx(np.std(bias, ddof=1))
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(centers) for b in centers[:i]]
    assert found["tilt"] == pytest.approx(np.std(bias, ddof=1) / np.mean(pairs))
    assert found["largest class"] == max(plain.count(label) for label in labels) / 7
    turned = models.judged(-centers, mean, X, y)
    assert turned["alignment"] == pytest.approx(-found["alignment"])


def test_points_are_as_many_as_asked_for(models):
    assert len(models.points_of(models.COMPETING, 8)) == 8
    assert len(models.points_of(models.RIDGE, 3)) == 3
    assert models.points_of({}, 8) == [{}]
    for model in models.MODELS.values():
        assert len(models.points_of(model.grid, models.N_POINTS)) in (1, models.N_POINTS)


def test_unscaled_samples_reach_their_class_and_printed_ones_do_not(models, rectified):
    found = models.data_measures(rectified.generate(rectified.Setting(), seed=0))
    assert found["own share, unscaled"] > 0.9 > 0.6 > found["own share, printed"]
    assert found["length, unscaled"] > 10 * found["length, printed"]
    assert found["rank"] == 40


def page_with(names):
    return "".join(f"# {name}\n<!-- {name} -->\nstale\n<!-- end -->\n" for name in names)


@pytest.mark.exhaustive  # half a minute
def test_a_tiny_sweep_writes_the_page(benchmark_module, monkeypatch, tmp_path):
    sweep = benchmark_module("when_synthesis_helps")
    page = benchmark_module("synthesis_page")
    records = sweep.sweep(sweep.QUICK, 2, tmp_path / "records", 1)
    assert (
        len(records) == len(list((tmp_path / "records").iterdir())) == 6
    )  # twice as many if ablated

    def refuse(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(sweep, "tried", refuse)
    assert sweep.sweep(sweep.QUICK, 2, tmp_path / "records", 1) == records
    summary = sweep.summary(sweep.QUICK, records)
    names = ("run", "pairs", "law", "ablation", "geometry", "samples", "bias", "rule", "factors")
    path = tmp_path / "page.md"
    path.write_text(page_with(names), "utf-8")
    page.write_page(summary, page.Places(tmp_path, path, tmp_path))
    text = path.read_text("utf-8")
    assert "stale" not in text
    for model in (*page.ABLATION_ROWS, *page.GEOMETRY_ROWS):
        assert f"| {model} |" in text
    assert json.loads((tmp_path / "when_synthesis_helps.json").read_text("utf-8")) == json.loads(
        json.dumps(summary)
    )
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures == ["synthesis-factors.png", "synthesis-map.png", "synthesis-rule.png"]
    ablated = [record for record in records if record["setting"] == records[0]["setting"]]
    score = 100 * np.mean([record["models"]["BPL0"]["score"] for record in ablated])
    assert len(ablated) == 4
    assert f"| BPL0 (accuracy) | {score:.1f} ±" in text


def test_a_page_without_a_place_for_a_table_is_refused(benchmark_module):
    page = benchmark_module("synthesis_page")
    with pytest.raises(ValueError, match="got none for 'rule'"):
        page.filled(page_with(["run"]), {"run": "new", "rule": "new"})


def test_the_page_shows_the_recorded_run(benchmark_module):
    page = benchmark_module("synthesis_page")
    text = (ROOT / "docs" / "synthesis.md").read_text("utf-8")
    summary = json.loads(SUMMARY.read_text("utf-8"))
    assert page.filled(text, page.tables(summary)) == text


def test_the_example_of_the_page(capsys):
    text = (ROOT / "docs" / "synthesis.md").read_text("utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, names)
    printed = capsys.readouterr().out.strip()
    assert f"# {printed}\n" in text
