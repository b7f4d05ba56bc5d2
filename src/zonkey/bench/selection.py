"""Choose parameters on training or validation classes; test classes are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from ..datasets import DataError, Dataset
from ..evaluation import large_scale, n_way_k_shot
from ..model_selection import ClassKFold, ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer
from .models import FewShotModel, Grid, ZeroShotModel
from .shots import Shots, prepared_shots


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
    positions: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return the parameters of best accuracy on held-out training classes, and all scores.

    `positions` are the samples to choose on, by default all for training; samples for test are
    refused.
    """
    if not grid:
        return {"chosen": {}, "points": []}
    chosen_on: np.ndarray = data.split.train if positions is None else np.asarray(positions)
    refuse_test_samples(data, chosen_on)
    X, y = FeatureNormalizer().fit_transform(data.X[chosen_on]), data.y[chosen_on]
    known = data.prototypes.subset(np.unique(y))
    search = ZeroShotSearchCV(
        model.build(known, seed=0),
        grid,
        cv=ClassKFold(n_folds, shuffle=True, random_state=0),
        refit=False,
    )
    with warnings.catch_warnings():  # the guard may act at extreme points of a grid
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, y)
    results = search.cv_results_
    scores = [results[f"split{fold}_test_score"] for fold in range(n_folds)]
    return {
        "chosen": search.best_params_,
        "points": [
            {"parameters": point, "scores": [float(score[i]) for score in scores]}
            for i, point in enumerate(results["params"])
        ],
    }


def select_few_shot(
    model: FewShotModel,
    validation: Dataset,
    test: Dataset,
    *,
    grid: Grid,
    n_shot: int,
    n_trials: int | None,
) -> dict[str, Any]:
    """Return the parameters of best accuracy on validation classes, and all scores.

    The task is the one that will be asked: small trials, or (`n_trials` None) all classes at once.
    The novel classes of `validation` must be none of those of `test`.
    """
    shared = np.intersect1d(validation.unseen_classes, test.unseen_classes)
    if shared.size:
        raise DataError(
            "Parameters must be chosen on validation classes; class "
            f"{str(shared[0])!r} is for test. Take other classes."
        )
    points = list(ParameterGrid(grid)) if grid else []
    if not points:
        return {"chosen": {}, "points": []}
    shots = prepared_shots(validation)
    # Without an average over episodes points compare as well, in a tenth of the time.
    models = {
        str(i): model.build(shots.prototypes, shots.base, n_episodes=1, **point)
        for i, point in enumerate(points)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _scores(models, shots, n_shot, n_trials)
    means = [float(np.mean(found[name])) for name in models]
    return {
        "chosen": points[int(np.argmax(means))],
        "points": [
            {"parameters": point, "scores": np.asarray(found[str(i)]).tolist()}
            for i, point in enumerate(points)
        ],
    }


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
