"""The search walks on from the best point of a grid to an optimum along every axis."""

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from zonkey.parameters import constraints_of
from zonkey_lab.paper.bench import walk
from zonkey_lab.paper.bench.axes import Axis, axes_of, axis_of, count, positive, share
from zonkey_lab.paper.bench.models import (
    FEW_SHOT,
    SENSITIVITY,
    ZERO_SHOT,
    AnyShotModel,
    as_dicts,
    parameter_name,
    sample_grid,
)
from zonkey_lab.paper.bench.walk import search
from zonkey_lab.paper.experiments import FULL
from zonkey_lab.peers import Training


class Recorder:
    """A score with its optimum at given values; it notes what is asked."""

    def __init__(self, height):
        self.height, self.asked = height, []

    def __call__(self, points):
        self.asked += points
        return [[self.height(point) - 0.1, self.height(point) + 0.1] for point in points]


def peak(**at):
    """Return a height that falls with the distance from a point, on a scale of powers of ten."""

    def height(point):
        return -sum(abs(np.log10(point[name]) - np.log10(value)) for name, value in at.items())

    return height


def in_logits(value):
    return np.log10(value / (1 - value))


# Axes


@pytest.mark.parametrize(
    ("axis", "value", "below", "above"),
    [
        (positive(), 1.0, 0.3, 3.0),
        (positive(), 0.025, 0.01, 0.1),  # 0.03 is hardly a step
        (positive(), 5.5, 3.0, 10.0),
        (positive(1.0), 2.0, 1.3, 4.0),
        (share(), 0.1, 0.03, 0.3),
        (share(), 0.9, 0.7, 0.97),
        (share(), 0.0001, None, 0.0003),
        (share(), 0.9999, 0.9997, None),
        (count(), 1, None, 2),
        (count(), 8, 5, 20),
        (count(2, 60), 50, 30, None),
        (count(0), 1, 0, 2),
        (count(16, 4096), 3000, 2000, 4096),
    ],
)
def test_a_step_goes_to_the_next_rung(axis, value, below, above):
    assert axis.step(value, up=False) == below
    assert axis.step(value, up=True) == above


def test_values_of_the_grid_that_are_nearer_come_first():
    axis = positive()
    assert axis.neighbor(0.1, {0.025, 0.05, 0.1, 1.0}, up=False) == 0.05
    assert axis.neighbor(0.1, {0.05, 0.1, 1.0}, up=True) == 0.3
    assert count(2, 60).neighbor(60, {60}, up=True) is None


@pytest.mark.parametrize("axis", [positive(), positive(1.0), share(), count(), count(16, 4096)])
def test_both_directions_reach_every_value_in_between(axis):
    rungs = axis.rungs
    assert all(low < high for low, high in pairwise(rungs))
    for value in rungs[1:-1]:
        up, down = axis.step(value, up=True), axis.step(value, up=False)
        assert down is None or down < value
        assert up is None or value < up


def grids():
    for zoo in (ZERO_SHOT, FEW_SHOT):
        for name, model in zoo.items():
            if not isinstance(model, AnyShotModel) and as_dicts(model.grid):
                yield pytest.param(model, id=name)


@pytest.mark.parametrize("model", list(grids()))
def test_every_number_of_a_grid_has_an_axis_and_its_values_fit_the_model(model):
    points = list(ParameterGrid(as_dicts(model.grid)))
    numeric = {
        name
        for point in points
        for name, value in point.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    axes = axes_of(model.classifier, points)
    assert numeric - axes.keys() <= {"negative"}  # the target of other classes in ESZSL: a choice
    for name, axis in axes.items():
        full = parameter_name(model.classifier, name)
        owner = Training if full.startswith("training__") else model.classifier
        numbers = [point[name] for point in points if point[name] is not None]
        if name in constraints_of(owner):
            for value in (axis.rungs[0], axis.rungs[-1], *numbers):
                kind = type(numbers[0])
                constraints_of(owner)[name].check(name, kind(value))
        whole = all(isinstance(value, int) for value in numbers)
        assert whole == all(rung == int(rung) for rung in axis.rungs)


def test_a_number_without_a_range_is_refused():
    class Unknown:
        def get_params(self):
            return {"strength": 1.0}

    with pytest.raises(LookupError, match=r"'strength' of Unknown declares no range"):
        axis_of(Unknown, "strength")


# The walk


@pytest.mark.parametrize("best", [1e-4, 1e-3, 0.3, 100.0, 3000.0])
def test_the_optimum_is_found_beyond_both_ends_of_the_grid(best):
    score = Recorder(peak(beta=best))
    starts = [{"beta": value} for value in (0.1, 1.0, 10.0)]
    found = search(starts, {"beta": positive()}, score, n_points_more=24)
    assert found["chosen"] == {"beta": best}
    assert (found["n_start"], found["edges"], found["limits"]) == (3, [], [])
    assert [point["parameters"] for point in found["points"]] == score.asked
    values = {point["beta"] for point in score.asked}
    axis = positive()
    assert {axis.step(best, up=up) for up in (False, True)} <= values


def test_several_axes_are_walked_and_names_stay():
    starts = [
        {"alpha": alpha, "kind": kind, "n": n, "rho": rho}
        for alpha, kind, n, rho in product([0.1, 0.9], ["a", None], [5, 20], [0.3, 0.7])
    ]

    def height(point):
        bonus = 1.0 if point["kind"] is None else 0.0
        return (
            bonus
            - abs(in_logits(point["alpha"]) - in_logits(0.003))
            - abs(np.log2(point["n"] / 2))
            - abs(in_logits(point["rho"]) - in_logits(0.97))
        )

    score = Recorder(height)
    axes = {"alpha": share(), "n": count(), "rho": share()}
    found = search(starts, axes, score, n_points_more=40)
    assert found["chosen"] == {"alpha": 0.003, "kind": None, "n": 2, "rho": 0.97}
    assert isinstance(found["chosen"]["n"], int)
    assert (found["edges"], found["limits"]) == ([], [])
    for name, axis in axes.items():  # an optimum along each axis
        for up in (False, True):
            other = {**found["chosen"], name: axis.step(found["chosen"][name], up=up)}
            assert other in score.asked
    assert len({frozenset(point.items()) for point in score.asked}) == len(score.asked)
    assert len(found["points"]) - found["n_start"] < 30


def test_a_bound_ends_the_walk_and_is_told():
    score = Recorder(lambda point: -point["n"])
    found = search([{"n": 5}, {"n": 8}], {"n": count()}, score, n_points_more=24)
    assert found["chosen"] == {"n": 1}
    assert (found["edges"], found["limits"]) == ([], ["n"])


def test_ties_go_to_the_point_that_came_first():
    score = Recorder(lambda _: 0.5)
    starts = [{"beta": 1.0}, {"beta": 10.0}]
    found = search(starts, {"beta": positive()}, score, n_points_more=24)
    assert found["chosen"] == {"beta": 1.0}
    assert [point["beta"] for point in score.asked] == [1.0, 10.0, 0.3, 3.0]
    assert found["edges"] == []


@pytest.mark.parametrize("n_more", [0, 1, 2, 5])
def test_no_more_points_than_allowed_are_scored_and_edges_are_told(n_more):
    score = Recorder(peak(beta=1e-6))
    starts = [{"beta": 1.0}, {"beta": 10.0}]
    found = search(starts, {"beta": positive()}, score, n_points_more=n_more)
    assert len(score.asked) == len(found["points"]) == 2 + n_more
    assert found["edges"] == ["beta"]
    assert found["n_start"] == 2
    assert found["chosen"]["beta"] == min(point["beta"] for point in score.asked)


def test_a_choice_between_values_that_were_tried_is_at_no_edge():
    axes, inside = {"beta": positive()}, [{"beta": 0.1}, {"beta": 1.0}, {"beta": 10.0}]
    assert search(inside, axes, Recorder(peak(beta=1.0)))["edges"] == []
    assert search(inside[1:], axes, Recorder(peak(beta=1.0)))["edges"] == ["beta"]
    found = search(inside[1:], axes, Recorder(peak(beta=1.0)), n_points_more=1)
    assert (found["edges"], len(found["points"])) == ([], 3)


def test_values_beyond_all_come_before_those_between():
    score = Recorder(lambda point: -point["a"])
    starts = [{"a": 0.1, "b": 1.0}, {"a": 1.0, "b": 0.01}, {"a": 1.0, "b": 100.0}]
    search(starts, {"b": positive(), "a": positive()}, score, n_points_more=1)
    assert score.asked[-1] == {"a": 0.03, "b": 1.0}


def test_points_of_an_earlier_run_are_not_scored_again():
    starts = [{"beta": value} for value in (0.1, 1.0, 10.0)]
    whole = Recorder(peak(beta=1e-3))
    axes, options = {"beta": positive()}, {"n_points_more": 24}
    expected = search(starts, axes, whole, **options)
    earlier = [*expected["points"][1:4], {"parameters": {"beta": 7.7}, "scores": [9.0]}]
    again = Recorder(peak(beta=1e-3))
    assert search(starts, axes, again, earlier=earlier, **options) == expected
    known = [point["parameters"] for point in earlier]
    assert again.asked == [point for point in whole.asked if point not in known]


def test_an_interrupted_search_resumes_with_what_was_saved():
    starts = [{"beta": value} for value in (0.1, 1.0, 10.0)]
    axes, saved = {"beta": positive()}, []
    whole = Recorder(peak(beta=1e-3))
    expected = search(starts, axes, whole, n_points_more=24)

    def breaks(points):
        if len(saved) > 0 and len(saved[-1]) >= 4:
            raise KeyboardInterrupt
        return Recorder(peak(beta=1e-3))(points)

    options = {"n_points_more": 24, "save": saved.append}
    with pytest.raises(KeyboardInterrupt):
        search(starts, axes, breaks, **options)
    rest, before = Recorder(peak(beta=1e-3)), saved[-1]
    assert search(starts, axes, rest, earlier=before, **options) == expected
    assert len(rest.asked) == len(whole.asked) - len(before) > 0
    # Points that the walk has not reached again are saved too.
    kept = [{"parameters": {"beta": 7.7}, "scores": [0.0]}]
    search(starts, axes, Recorder(peak(beta=1.0)), earlier=kept, **options)
    assert kept[0] in saved[-1]


def test_slow_points_are_saved_one_by_one_and_fast_ones_together(monkeypatch):
    seconds = iter(range(0, 10_000, 30))  # each call takes that long
    monkeypatch.setattr(walk.time, "perf_counter", lambda: next(seconds))
    saved = []
    starts = [{"beta": float(value)} for value in range(1, 31)]
    search(starts, {}, Recorder(peak(beta=1.0)), save=saved.append)
    assert [len(points) for points in saved] == [*range(1, 31)]
    monkeypatch.setattr(walk.time, "perf_counter", lambda: 0.0)
    saved.clear()
    search(starts, {}, Recorder(peak(beta=1.0)), save=saved.append)
    assert [len(points) for points in saved] == [1, 13, 25, 30]


def test_models_that_cannot_be_fitted_are_limits():
    def score(points):
        if any(point["rate"] > 5 for point in points):
            raise ValueError("The loss must stay finite")
        return [[point["rate"], point["rate"]] for point in points]

    starts = [{"rate": 1.0}, {"rate": 3.0}, {"rate": 30.0}]
    found = search(starts, {"rate": positive()}, score, n_points_more=9)
    assert found["chosen"] == {"rate": 3.0}
    assert (found["edges"], found["limits"], found["n_start"]) == ([], ["rate"], 2)
    reasons = {each["parameters"]["rate"]: each["error"] for each in found["failed"]}
    assert reasons == dict.fromkeys((30.0, 10.0), "The loss must stay finite")
    with pytest.raises(ValueError, match="must stay finite"):
        search(starts[-1:], {"rate": positive()}, score)


def test_all_models_have_the_same_budget():
    assert (FULL.n_points, FULL.n_points_more, FULL.n_trials) == (12, 12, 600)
    for model in (*ZERO_SHOT.values(), *FEW_SHOT.values()):
        points = list(ParameterGrid(as_dicts(sample_grid(model.grid, FULL.n_points)) or [{}]))
        assert len(points) <= FULL.n_points
    assert min(SENSITIVITY["alpha"]) < 0.003


def test_an_axis_of_one_value_ends_at_once():
    found = search([{"n": 4}], {"n": Axis((4,))}, Recorder(lambda _: 0.0), n_points_more=3)
    assert (found["edges"], found["limits"]) == ([], ["n"])
