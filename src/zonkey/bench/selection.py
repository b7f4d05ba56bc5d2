"""Choose parameters on training or validation classes; test classes are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from ..datasets import DataError, Dataset
from ..evaluation import n_way_k_shot
from ..model_selection import ClassKFold, ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer
from .models import FewShotModel, Grid, ZeroShotModel
from .shots import prepared_shots


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
    n_jobs: int | None = None,
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
        n_jobs=n_jobs,
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
    n_trials: int,
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Return the parameters of best accuracy in trials of validation classes.

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
    models = {
        str(i): model.make(shots.prototypes, shots.base, **point) for i, point in enumerate(points)
    }
    for candidate in models.values():
        candidate.set_params(n_episodes=1)  # a fair comparison needs no average
    sizes = shots.trial_sizes(n_shot)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = n_way_k_shot(
            models, shots.X, shots.y, shots.classes, **sizes, n_trials=n_trials, n_jobs=n_jobs
        )
    means = [float(found[str(i)].mean()) for i in range(len(points))]
    return {
        "chosen": points[int(np.argmax(means))],
        "points": [
            {"parameters": point, "scores": [mean]}
            for point, mean in zip(points, means, strict=True)
        ],
    }
