"""Choose parameters on training or validation classes; samples and classes for test are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from ...core.frame import BaseClasses
from ...core.moments import Moments
from ...core.prototypes import Prototypes
from ...datasets import DataError, Dataset
from ...evaluation import large_scale, n_way_k_shot
from ...model_selection import ClassKFold, ZeroShotSearchCV
from .models import (
    CLASSIFY,
    FewShotModel,
    Grid,
    Preset,
    ZeroShotModel,
    as_dicts,
    feature_steps,
    prefixed,
)
from .sources import NoValidationClasses

_N_WAY, _N_QUERY = 5, 15


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings that extreme points of a grid cause: guards, near-singular equations."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, LinAlgWarning):
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True, eq=False)
class NovelData:
    """Preprocessed samples of novel classes, and the moments of the base classes.

    `queries` are the positions in X of samples used as queries only; `prototypes` are those of
    base and novel classes.
    """

    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    queries: np.ndarray | None
    prototypes: Prototypes
    base: BaseClasses

    @cached_property
    def most_shots(self) -> int:
        """Number of shots that every class can give, with one query left."""
        spare = self.y if self.queries is None else np.delete(self.y, self.queries)
        least = int(np.unique(spare, return_counts=True)[1].min())
        return least - 1 if self.queries is None else least

    def in_trials(
        self, models: dict[str, Any], n_shot: int, n_trials: int, seed: int = 0
    ) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Return accuracies in trials by model, and ways, shots and queries of a trial.

        The number of samples limits these sizes.
        """
        n_shot = min(n_shot, self.most_shots)
        asked = self.y if self.queries is None else self.y[self.queries]
        least = int(np.unique(asked, return_counts=True)[1].min())
        n_query = min(_N_QUERY, least - n_shot if self.queries is None else least)
        sizes = {"n_way": min(_N_WAY, len(self.classes)), "n_shot": n_shot, "n_query": n_query}
        options = {"queries": self.queries, "n_trials": n_trials, "random_state": seed}
        with quiet():
            found = n_way_k_shot(models, self.X, self.y, self.classes, **sizes, **options)
        return found, sizes

    def at_once(self, models: dict[str, Any], **options: Any) -> dict[str, np.ndarray]:
        """Return hits among all classes by model: an array by repetition, shots and top k."""
        samples = (self.X, self.y, self.classes)
        with quiet():
            return large_scale(models, *samples, queries=self.queries, **options)


def prepared_shots(data: Dataset, preset: Preset = "paper") -> NovelData:
    """Return novel samples and base moments; preprocessing is learned from the base classes.

    The paper's preset brings prototypes to unit length. With the recommended one the model
    transforms them.
    """
    steps = feature_steps(preset).fit(data.X_train, data.y_train)
    prototypes = data.prototypes.normalized() if preset == "paper" else data.prototypes
    moments = Moments(prototypes).update(steps.transform(data.X_train), data.y_train)
    novel = data.split.novel
    asked = np.flatnonzero(np.isin(novel, data.split.query))
    return NovelData(
        X=steps.transform(data.X[novel]),
        y=data.y[novel],
        classes=data.unseen_classes,
        queries=asked if len(asked) else None,
        prototypes=prototypes,
        base=BaseClasses(moments),
    )


def refuse_test_samples(data: Dataset, positions: np.ndarray) -> None:
    """Raise an error if there are test samples or samples of unseen classes at `positions`."""
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
) -> dict[str, Any]:
    """Return the parameters of best accuracy on held-out training classes, and all scores.

    `start` are parameters chosen before: every point of the grid and the result include them.
    """
    given, parts = dict(start or {}), as_dicts(grid)
    if not parts:
        return {"chosen": given, "points": []}
    refuse_test_samples(data, data.split.train)
    known = data.prototypes.subset(np.unique(data.y_train))
    search = ZeroShotSearchCV(
        model.build(known, seed=0, **given),
        [prefixed(part) for part in parts],
        cv=ClassKFold(n_folds, shuffle=True, random_state=0),
        refit=False,
    )
    with quiet():
        search.fit(data.X_train, data.y_train)
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
    """Return parameters of a pipeline under the classifier's names."""
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

    The task is trials, or all classes at once if `n_trials` is None. Novel classes of `validation`
    must not be novel classes of `test`. If `validation` is None, only models that measure the worth
    of prototypes themselves can do without a selection.
    """
    if validation is not None:
        shared = np.intersect1d(validation.unseen_classes, test.unseen_classes)
        if shared.size:
            raise DataError(
                "Parameters must be chosen on validation classes; class "
                f"{str(shared[0])!r} is for test. Choose other classes."
            )
    parts = as_dicts(grid)
    if not parts:
        return {"chosen": {}, "points": []}
    if validation is None:
        if not model.measures_worth:
            raise NoValidationClasses(test.name)
        return {"chosen": {"fusion": "auto"}, "points": []}
    shots = prepared_shots(validation, model.preset)
    points, models = list(ParameterGrid(parts)), {}
    for i, point in enumerate(points):
        # One episode ranks points as well as ten, in a tenth of the time.
        tried: Any = model.build(shots.prototypes, shots.base, n_episodes=1, **point)
        if model.measures_worth:
            with quiet():
                worth = tried.worth_of_prototypes(shots.X, shots.y)
            point["fusion"] = float(f"{worth:.3g}")  # further digits depend on the machine
            tried.set_params(fusion=point["fusion"])
        models[str(i)] = tried
    if n_trials is None:
        options = {"shots": [min(n_shot, shots.most_shots)], "top": [1], "n_repeats": 2}
        scores = [hits[:, 0, 0] for hits in shots.at_once(models, **options).values()]
    else:
        scores = list(shots.in_trials(models, n_shot, n_trials)[0].values())
    best = int(np.argmax([float(np.mean(found)) for found in scores]))
    return {
        "chosen": points[best],
        "points": [
            {"parameters": point, "scores": np.asarray(found).tolist()}
            for point, found in zip(points, scores, strict=True)
        ],
    }
