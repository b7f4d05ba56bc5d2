"""Choose parameters on training or validation classes; test classes are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from ..datasets import DataError, Dataset
from ..evaluation import large_scale, n_way_k_shot
from ..model_selection import ClassKFold, ZeroShotSearchCV
from .models import CLASSIFY, FewShotModel, Grid, ZeroShotModel, as_dicts, prefixed
from .quiet import quiet
from .shots import Shots, prepared_shots
from .sources import NoValidationClasses


def refuse_test_samples(data: Dataset, positions: np.ndarray) -> None:
    """Refuse samples of the test, and all samples of unseen classes, for choosing parameters."""
    tested = np.concatenate([data.split.test_seen, data.split.test_unseen])
    unseen = np.isin(data.y[positions], data.unseen_classes)
    stray = np.isin(positions, tested) | unseen
    if stray.any():
        first = positions[np.argmax(stray)]
        raise DataError(
            "Parameters must be chosen on training samples of seen classes; sample "
            f"{first} (class {str(data.y[first])!r}) is for test. Use `data.split.train`."
        )


def select_zero_shot(
    model: ZeroShotModel,
    data: Dataset,
    *,
    grid: Grid,
    n_folds: int,
    start: Mapping[str, Any] | None = None,
    positions: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return the parameters of best accuracy on held-out training classes, and all scores.

    `start` are parameters that are chosen already: every point of the grid has them, and so has
    the choice. `positions` are the samples to choose on, by default all for training; samples for
    test are refused.
    """
    given, parts = dict(start or {}), as_dicts(grid)
    if not parts:
        return {"chosen": given, "points": []}
    chosen_on: np.ndarray = data.split.train if positions is None else np.asarray(positions)
    refuse_test_samples(data, chosen_on)
    X, y = data.X[chosen_on], data.y[chosen_on]
    known = data.prototypes.subset(np.unique(y))
    search = ZeroShotSearchCV(
        model.build(known, seed=0, **given),
        [prefixed(part) for part in parts],
        cv=ClassKFold(n_folds, shuffle=True, random_state=0),
        refit=False,
    )
    with quiet():  # the guard may act at extreme points of a grid
        search.fit(X, y)
    results = search.cv_results_
    scores = [results[f"split{fold}_test_score"] for fold in range(n_folds)]
    return {
        "chosen": {**given, **_own_names(search.best_params_)},
        "points": [
            {"parameters": _own_names(point), "scores": [float(score[i]) for score in scores]}
            for i, point in enumerate(results["params"])
        ],
    }


def _own_names(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a pipeline under the classifier's own names."""
    return {name.removeprefix(f"{CLASSIFY}__"): value for name, value in point.items()}


def select_few_shot(
    model: FewShotModel,
    validation: Dataset | None,
    test: Dataset,
    *,
    grid: Grid,
    n_shot: int,
    n_trials: int | None,
) -> dict[str, Any]:
    """Return the parameters of best accuracy on validation classes, and all scores.

    The task is the one that will be asked: small trials, or (`n_trials` None) all classes at once.
    The novel classes of `validation` must be none of those of `test`. Where there are none, only a
    model that can measure the worth of prototypes by itself does without a choice.
    """
    if validation is not None:
        _refuse_test_classes(validation, test)
    parts = as_dicts(grid)
    if not parts:
        return {"chosen": {}, "points": []}
    if validation is None:
        return _without_validation(model, test)
    shots = prepared_shots(validation, model.preset)
    # Without an average over episodes points compare as well, in a tenth of the time.
    models: dict[str, Any] = {}
    points: list[dict[str, Any]] = []
    with quiet():
        for i, point in enumerate(ParameterGrid(parts)):
            tried: Any = model.build(shots.prototypes, shots.base, n_episodes=1, **point)
            if model.measures_worth:
                # As it will be recorded: the digits beyond hang on the machine.
                point["fusion"] = float(f"{tried.worth_of_prototypes(shots.X, shots.y):.3g}")
                tried.set_params(fusion=point["fusion"])
            models[str(i)] = tried
            points.append(point)
        found = _scores(models, shots, n_shot, n_trials)
    means = [float(np.mean(found[name])) for name in models]
    return {
        "chosen": points[int(np.argmax(means))],
        "points": [
            {"parameters": point, "scores": np.asarray(found[str(i)]).tolist()}
            for i, point in enumerate(points)
        ],
    }


def _refuse_test_classes(validation: Dataset, test: Dataset) -> None:
    shared = np.intersect1d(validation.unseen_classes, test.unseen_classes)
    if shared.size:
        raise DataError(
            "Parameters must be chosen on validation classes; class "
            f"{str(shared[0])!r} is for test. Take other classes."
        )


def _without_validation(model: FewShotModel, test: Dataset) -> dict[str, Any]:
    if not model.measures_worth:
        raise NoValidationClasses(test.name)
    return {"chosen": {"fusion": "auto"}, "points": []}


def _scores(
    models: dict[str, Any], shots: Shots, n_shot: int, n_trials: int | None
) -> dict[str, np.ndarray]:
    """Return accuracies of every model, in trials or among all classes."""
    samples = (shots.X, shots.y, shots.classes)
    if n_trials is not None:
        return n_way_k_shot(models, *samples, **shots.trial_sizes(n_shot), n_trials=n_trials)
    options = {"shots": [min(n_shot, shots.most_shots)], "top": [1], "n_repeats": 2}
    hits = large_scale(models, *samples, queries=shots.queries, **options)
    return {name: values[:, 0, 0] for name, values in hits.items()}
