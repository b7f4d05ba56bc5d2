"""Parameters are chosen on training and validation classes; test samples are refused."""

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid
from small_data import small_dataset, small_source

from zonkey.files.dataset import DataError
from zonkey.model_selection import ClassKFold
from zonkey.preprocessing import FeatureNormalizer
from zonkey_lab.paper.bench import selection
from zonkey_lab.paper.bench.models import FEW_SHOT, ZERO_SHOT, as_dicts, sample_grid
from zonkey_lab.paper.bench.selection import (
    prepare_shots,
    refuse_test_samples,
    select_few_shot,
    select_zero_shot,
)
from zonkey_lab.paper.bench.sources import validation_view
from zonkey_lab.protocols import large_scale

GRID = {"beta": [0.01, 10.0, 1000.0]}


@pytest.fixture(scope="module")
def data():
    return small_dataset()


def test_the_best_point_on_held_out_training_classes_is_chosen(data):
    found = select_zero_shot(ZERO_SHOT["RPL"], data, grid=GRID, n_folds=4)
    X = FeatureNormalizer().fit_transform(data.X_train)
    y = data.y_train
    means = []
    for beta in GRID["beta"]:
        scores = []
        for train, test in ClassKFold(4, shuffle=True, random_state=0).split(X, y):
            known = data.prototypes.subset(data.seen_classes)
            model = ZERO_SHOT["RPL"].build(known, seed=0, beta=beta).fit(X[train], y[train])
            scores.append(model.score(X[test], y[test]))
        means.append(np.mean(scores))
    assert [np.mean(point["scores"]) for point in found["points"]] == pytest.approx(means)
    assert found["chosen"] == {"beta": GRID["beta"][int(np.argmax(means))]}


@pytest.mark.parametrize("part", ["test_seen", "test_unseen"])
def test_samples_for_test_are_refused(data, part):
    positions = np.append(data.split.train, getattr(data.split, part)[0])
    with pytest.raises(DataError, match=r"must be chosen on training samples.*is for test"):
        refuse_test_samples(data, positions)
    refuse_test_samples(data, data.split.train)


@pytest.mark.parametrize("model", ["RPL", "recommended", "ESZSL", "BPL, recommended features"])
def test_every_selection_refuses_samples_for_test(data, model, monkeypatch):
    def refuse(given, positions):
        assert (given, positions.tolist()) == (data, data.split.train.tolist())
        raise DataError("refused")

    monkeypatch.setattr(selection, "refuse_test_samples", refuse)
    with pytest.raises(DataError, match="refused"):
        select_zero_shot(ZERO_SHOT[model], data, grid=ZERO_SHOT[model].grid, n_folds=2)


@pytest.mark.parametrize("model", ["BPL (SFSP1)", "recommended", "shots alone"])
def test_test_classes_are_refused_for_few_shots(data, model):
    spec = FEW_SHOT[model]
    with pytest.raises(DataError, match=r"chosen on validation classes; class 'c08' is for test"):
        select_few_shot(spec, data, data, grid=spec.grid, n_shot=1, n_trials=2)


def test_test_samples_have_no_influence_on_the_choice(data):
    """Test features may change at will; unseen prototypes too, but for the recommended model."""
    X = np.array(data.X)
    X[np.concatenate([data.split.test_seen, data.split.test_unseen])] = 7.0
    labels = data.prototypes.labels.tolist()
    prototypes = {
        label: data.prototypes[label] if label in data.seen_classes else np.full(5, 3.0) + i
        for i, label in enumerate(labels)
    }
    other = type(data)("other", X, data.y, prototypes, data.split)
    same_prototypes = type(data)("other", X, data.y, data.prototypes, data.split)
    for name in ("BPL", "RPL", "recommended", "exemplars, recommended features"):
        model = ZERO_SHOT[name]
        options = {"grid": sample_grid(model.grid, 3), "n_folds": 4, "calibrates": True}
        # It centers the prototypes of all classes, which are known in advance; a penalty too
        # depends on those of unseen ones.
        against = [same_prototypes] if name == "recommended" else [other, same_prototypes]
        first, *others = (select_zero_shot(model, d, **options) for d in (data, *against))
        assert first["chosen"] == others[0]["chosen"]
        assert first == others[-1]
        assert name == "recommended" or first["seen_penalty"] != 0
    for name in ("BPL (SFSP1)", "recommended"):
        model = FEW_SHOT[name]
        few = {"grid": sample_grid(model.grid, 4), "n_shot": 2, "n_trials": 3}
        first, second = (
            select_few_shot(model, validation_view(d), data, **few) for d in (data, other)
        )
        assert first == second


def test_the_best_point_in_trials_of_validation_classes_is_chosen():
    source = small_source()
    grid = {"alpha": [0.1, 0.9], "rho": [0.5]}
    found = select_few_shot(
        FEW_SHOT["BPL (SFSP1)"],
        source.load_validation(),
        source.load_shots(),
        grid=grid,
        n_shot=2,
        n_trials=4,
    )
    assert [point["parameters"] for point in found["points"]] == list(ParameterGrid(grid))
    assert all(len(point["scores"]) == 4 for point in found["points"])
    best = max(found["points"], key=lambda point: np.mean(point["scores"]))
    assert found["chosen"] == best["parameters"]


def test_all_classes_at_once_are_chosen_on_all_validation_classes_at_once():
    source = small_source()
    grid = {"alpha": [0.1, 0.9]}
    options = {"grid": grid, "n_shot": 9, "n_trials": None}
    model = FEW_SHOT["BPL (SFSP1)"]
    found = select_few_shot(model, source.load_validation(), source.load_shots(), **options)
    shots = prepare_shots(source.load_validation())
    for point in found["points"]:
        estimator = model.build(shots.prototypes, shots.base, **point["parameters"])
        hits = large_scale(
            {"model": estimator}, shots.X, shots.y, shots.classes, shots=[6], top=[1], n_repeats=2
        )
        assert point["scores"] == hits["model"][:, 0, 0].tolist()


def test_models_without_parameters_need_no_choice(data):
    nothing = {"chosen": {}, "points": []}
    assert select_zero_shot(ZERO_SHOT["BPL0"], data, grid={}, n_folds=3) == nothing
    calibrated = select_zero_shot(ZERO_SHOT["BPL0"], data, grid={}, n_folds=3, calibrates=True)
    assert {**nothing, "seen_penalty": calibrated["seen_penalty"]} == calibrated
    view = validation_view(data)
    options = {"grid": {}, "n_shot": 1, "n_trials": 1}
    assert select_few_shot(FEW_SHOT["NN"], view, data, **options) == nothing


def test_the_validation_view_holds_training_samples_only(data):
    view = validation_view(data)
    assert view.unseen_classes.tolist() == ["c02", "c03", "c04", "c05"]
    assert view.seen_classes.tolist() == ["c00", "c01", "c06", "c07"]
    assert len(view.y) == len(data.split.train)
    assert set(view.prototypes.labels) == set(data.seen_classes)
    np.testing.assert_array_equal(view.X, data.X_train)


def test_sampled_points_are_distinct_points_of_the_grid_and_can_be_built(data):
    for model in (*ZERO_SHOT.values(), *FEW_SHOT.values()):
        if not as_dicts(model.grid):
            assert sample_grid(model.grid, 3) == model.grid
            continue
        whole = list(ParameterGrid(as_dicts(model.grid)))
        for point in (whole[0], whole[-1]):
            model.build(data.prototypes, 0 if model in ZERO_SHOT.values() else None, **point)
        for n_points in (1, 5, 12, len(whole), len(whole) + 1):
            points = list(ParameterGrid(as_dicts(sample_grid(model.grid, n_points))))
            assert len(points) == min(n_points, len(whole))
            assert all(point in whole for point in points)
            assert all(points.count(point) == 1 for point in points)


def test_models_with_the_same_grid_are_tuned_on_the_same_points():
    drawn = [sample_grid(ZERO_SHOT[name].grid, 12) for name in ("BPL", "BPL, as printed")]
    assert drawn[0] == drawn[1] == sample_grid(ZERO_SHOT["BPL"].grid, 12)
    assert drawn[0] != sample_grid(ZERO_SHOT["BPL"].grid, 13)[:12]


def test_sampled_points_cover_the_paper_s_ranges():
    for name in ("rho", "alpha", "mu"):
        values = {point[name][0] for point in sample_grid(ZERO_SHOT["BPL"].grid, 12)}
        assert min(values) <= 0.1
        assert max(values) == 0.9
    assert min(point["alpha"][0] for point in sample_grid(ZERO_SHOT["BPL"].grid, 12)) < 0.01
