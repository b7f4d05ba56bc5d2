"""Choose parameters on training or validation classes; samples and classes for test are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Unpack

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from zonkey.bpl.calibration import calibrate
from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.errors import DataError
from zonkey.evaluation.protocols import draw_trial
from zonkey.files.dataset import Dataset
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.prototypes import Prototypes

from ...peers.fsl import BaseSamples
from ...protocols import large_scale, n_way_k_shot
from .axes import axes_of
from .models import (
    CLASSIFY,
    AnyShotModel,
    Base,
    FewShotModel,
    Grid,
    Preset,
    ZeroShotModel,
    as_dicts,
    feature_steps,
    move_to_device,
    prefix_names,
    prepare_prototypes,
    set_by_record,
)
from .sources import NoValidationClasses
from .walk import Parameters, SearchOptions, search

CONCENTRATION = 2.0  # of the Dirichlet distribution behind unbalanced trials
_N_WAY, _N_QUERY = 5, 15


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Suppress warnings that extreme points of a grid cause: guards, near-singular equations."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, LinAlgWarning):
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True, eq=False)
class NovelData:
    """Preprocessed samples of novel classes, and the base classes in the form that models need.

    `queries` are the positions in X of samples used as queries only; `prototypes` are those of
    base and novel classes.
    """

    X: Any
    y: np.ndarray
    classes: np.ndarray
    queries: np.ndarray | None
    prototypes: Prototypes
    base: BaseClasses | BaseSamples | None = None  # of preprocessed samples

    @property
    def queries_are_fixed(self) -> bool:
        """Whether all trials share their queries; else queries are drawn like shots."""
        return self.queries is not None

    @cached_property
    def most_shots(self) -> int:
        """Number of shots that every class can give, with one query left."""
        return count_shots(self.y, self.queries)

    def sizes(self, n_shot: int, *, balanced: bool = True) -> dict[str, int]:
        """Return ways, shots and queries of a trial, as far as there are samples.

        In a trial that is not balanced a class may get the queries of all. 0 queries: there are
        too few samples for such trials.
        """
        n_way, n_shot = min(_N_WAY, len(self.classes)), min(n_shot, self.most_shots)
        asked = self.y if self.queries is None else self.y[self.queries]
        least = int(np.unique(asked, return_counts=True)[1].min())
        least -= n_shot if self.queries is None else 0
        n_query = min(_N_QUERY, least if balanced else least // n_way)
        return {"n_way": n_way, "n_shot": n_shot, "n_query": n_query}

    def score_trials(
        self, models: dict[str, Any], sizes: dict[str, int], n_trials: int, **options: Any
    ) -> dict[str, np.ndarray]:
        """Return accuracies in trials of these sizes by model."""
        options = {**sizes, "queries": self.queries, "n_trials": n_trials, **options}
        with silence_warnings():
            return n_way_k_shot(models, self.X, self.y, self.classes, **options)

    def score_all_classes(self, models: dict[str, Any], **options: Any) -> dict[str, np.ndarray]:
        """Return hits among all classes by model: an array by repetition, shots and top k."""
        samples = (self.X, self.y, self.classes)
        with silence_warnings():
            return large_scale(models, *samples, queries=self.queries, **options)


def count_shots(y: np.ndarray, queries: np.ndarray | None) -> int:
    """Return the number of shots that every class can give, with one query left."""
    spare = y if queries is None else np.delete(y, queries)
    least = min(np.unique(spare, return_counts=True)[1].tolist(), default=0)
    return least - 1 if queries is None else least


def most_shots(data: Dataset) -> int:
    """Return the number of shots that every novel class of a data set can give."""
    return count_shots(data.y[data.split.novel], _find_queries(data))


def _find_queries(data: Dataset) -> np.ndarray | None:
    """Return the positions among novel samples of those used as queries only, if there are any."""
    asked = np.flatnonzero(np.isin(data.split.novel, data.split.query))
    return asked if len(asked) else None


def novel_data(data: Dataset) -> NovelData:
    """Return novel samples as they are."""
    novel = data.split.novel
    return NovelData(
        X=move_to_device(np.asarray(data.X[novel])),
        y=data.y[novel],
        classes=data.unseen_classes,
        queries=_find_queries(data),
        prototypes=data.prototypes,
    )


@dataclass(frozen=True, eq=False)
class Prepared:
    """Base classes, preprocessed before there is a support set."""

    preset: Preset
    steps: Pipeline  # preprocessing of features
    prototypes: Prototypes
    base: BaseClasses | BaseSamples | None = None

    def features(self, X: np.ndarray) -> Any:
        """Return preprocessed samples, on the device of the run; raw ones stay on the host."""
        X = self.steps.transform(X)
        return X if self.preset == "raw" else move_to_device(X)


def prepare(data: Dataset, preset: Preset = "paper", base: Base | None = "moments") -> Prepared:
    """Learn preprocessing from the base classes, and gather what models need of them."""
    steps = feature_steps(preset).fit(data.X_train, data.y_train)
    prototypes = prepare_prototypes(data.prototypes, preset, data.seen_classes)
    found = Prepared(preset, steps, prototypes)
    if base is None:
        return found
    X = steps.transform(data.X_train)
    if base == "samples":
        return replace(found, base=BaseSamples(X, data.y_train))
    moments = Moments(prototypes).update(move_to_device(X), data.y_train)
    return replace(found, base=BaseClasses(moments))


def prepare_shots(
    data: Dataset,
    preset: Preset = "paper",
    base: Base | None = "moments",
    *,
    stops: bool = False,
    seed: int = 0,
) -> NovelData:
    """Return novel samples, and the base classes in the form that models need.

    With `stops` the novel classes are validation classes, by which trained models stop early.
    `seed` is that of the training on base samples.
    """
    known = prepare(data, preset, None if base == "samples" else base)
    if base == "samples":
        known = replace(known, base=_share_samples(data, preset, stops, seed))
    X = known.features(np.asarray(data.X[data.split.novel]))
    return replace(novel_data(data), X=X, prototypes=known.prototypes, base=known.base)


@lru_cache(maxsize=2)
def _share_samples(data: Dataset, preset: Preset, stops: bool, seed: int) -> BaseSamples:
    """Return base samples, the same for all runs with a seed: a model is trained on them once."""
    steps = feature_steps(preset).fit(data.X_train, data.y_train)
    novel = data.split.novel
    validation = (steps.transform(np.asarray(data.X[novel])), data.y[novel]) if stops else None
    X = steps.transform(data.X_train)
    return BaseSamples(X, data.y_train, validation=validation, random_state=seed)


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
    model: ZeroShotModel | AnyShotModel,
    data: Dataset,
    *,
    grid: Grid,
    n_folds: int,
    start: Mapping[str, Any] | None = None,
    calibrates: bool = False,
    **options: Unpack[SearchOptions],
) -> dict[str, Any]:
    """Return the parameters of best accuracy on held-out training classes, and all scores.

    `start` are parameters chosen before: every point of the grid and the result include them. With
    `calibrates`, held-out training classes also choose the penalty of seen classes. The other
    options are those of `search`.
    """
    refuse_test_samples(data, data.split.train)
    if isinstance(model, AnyShotModel):
        return _own_choice(model, data)
    given, parts = dict(start or {}), as_dicts(grid)
    found: dict[str, Any] = {"chosen": given, "points": []}
    if parts:
        cv = ClassKFold(n_folds, shuffle=True, random_state=0)
        known = data.prototypes.subset(np.unique(data.y_train))
        pipeline = model.build(known, seed=0, **given)
        starts = list(ParameterGrid(parts))
        score = _score_transductive if model.is_transductive else _score_on_folds
        with silence_warnings():
            found = search(
                starts,
                axes_of(model.classifier, starts),
                lambda points: score(pipeline, points, cv, data),
                **options,
            )
        found["chosen"] = {**given, **found["chosen"]}
    if calibrates:
        found["seen_penalty"] = _choose_penalty(model, data, found["chosen"])
    return found


def _score_on_folds(
    pipeline: Pipeline, points: list[Parameters], cv: ClassKFold, data: Dataset
) -> list[list[float]]:
    """Return the scores of every point on the folds, which share their work."""
    kind = type(pipeline[-1])
    grids = [
        {name: [value] for name, value in prefix_names(kind, point).items()} for point in points
    ]
    found = ZeroShotSearchCV(pipeline, grids, cv=cv, refit=False).fit(data.X_train, data.y_train)
    scores = [found.cv_results_[f"split{fold}_test_score"] for fold in range(cv.n_splits)]
    return np.transpose(scores).tolist()


def _score_transductive(
    pipeline: Pipeline, points: list[Parameters], cv: ClassKFold, data: Dataset
) -> list[list[float]]:
    """Return the scores of every point on the folds, whose test samples it learns from."""
    X, y = np.asarray(data.X_train), data.y_train
    scores: list[list[float]] = [[] for _ in points]
    for train, test in cv.split(X, y):
        steps: Any = clone(pipeline[:-1])
        steps.fit(X[train], y[train])
        seen, unlabeled = steps.transform(X[train]), steps.transform(X[test])
        for point, found in zip(points, scores, strict=True):
            classifier: Any = clone(pipeline[-1])
            set_by_record(classifier, point)
            classifier.fit_transductive(seen, y[train], unlabeled)
            found.append(float(classifier.score(unlabeled, y[test])))
    return scores


def _choose_penalty(model: ZeroShotModel, data: Dataset, chosen: dict[str, Any]) -> float:
    """Return the penalty of seen classes with the best harmonic mean on held-out classes."""
    pipeline = model.build(data.prototypes, seed=0, seen=data.seen_classes, **chosen)
    pipeline.set_params(**{f"{CLASSIFY}__seen_penalty": "auto"})
    with silence_warnings():
        return float(calibrate(pipeline, data.X_train, data.y_train))


def _own_choice(model: AnyShotModel, data: Dataset, validation: Any = None) -> dict[str, Any]:
    """Return parameters that a model chooses itself, on held-out training or validation classes."""
    classifier: Any = model.build(data.prototypes, seed=0)[-1]
    with silence_warnings():
        classifier.fit(data.X_train, data.y_train, validation=validation)
    return {"chosen": model.read_choice(classifier), "points": []}


def select_few_shot(
    model: FewShotModel | AnyShotModel,
    validation: Dataset | None,
    test: Dataset,
    *,
    grid: Grid,
    n_shot: int,
    n_trials: int | None,
    **options: Unpack[SearchOptions],
) -> dict[str, Any]:
    """Return the parameters of best accuracy on validation classes, and all scores.

    The task is trials, or all classes at once if `n_trials` is None. Novel classes of `validation`
    must not be novel classes of `test`. `validation` may be None only for models that choose their
    own parameters: they hold out base classes. The other options are those of `search`.
    """
    if validation is not None:
        shared = np.intersect1d(validation.unseen_classes, test.unseen_classes)
        if shared.size:
            raise DataError(
                "Parameters must be chosen on validation classes; class "
                f"{str(shared[0])!r} is for test. Choose other classes."
            )
    if isinstance(model, AnyShotModel):
        if validation is None:
            return _own_choice(model, test)
        novel = validation.split.novel
        return _own_choice(model, validation, (validation.X[novel], validation.y[novel]))
    parts = as_dicts(grid)
    if not parts and (validation is None or not model.is_trained):
        return {"chosen": {}, "points": []}
    if validation is None:
        raise NoValidationClasses(test.name)
    shots = prepare_shots(validation, model.preset, model.base, stops=True)
    starts = list(ParameterGrid(parts or [{}]))

    def score(points: list[Parameters]) -> list[np.ndarray]:
        models = {
            str(i): model.build(shots.prototypes, shots.base, **point)
            for i, point in enumerate(points)
        }
        if n_trials is None:
            return _scores_at_once(shots, models, n_shot)
        score_all = _scores_in_adapted_trials if model.is_transductive else _scores_in_trials
        return score_all(shots, models, n_shot, n_trials)

    found = search(starts, axes_of(model.classifier, starts), score, **options)
    if model.is_trained:
        best = model.build(shots.prototypes, shots.base, **found["chosen"])
        found["chosen"] |= _find_epochs(best, shots, n_shot, in_trials=n_trials is not None)
    return found


def _scores_at_once(shots: NovelData, models: dict[str, Any], n_shot: int) -> list[np.ndarray]:
    options = {"shots": [min(n_shot, shots.most_shots)], "top": [1], "n_repeats": 2}
    return [hits[:, 0, 0] for hits in shots.score_all_classes(models, **options).values()]


def _scores_in_trials(
    shots: NovelData, models: dict[str, Any], n_shot: int, n_trials: int
) -> list[np.ndarray]:
    return list(shots.score_trials(models, shots.sizes(n_shot), n_trials).values())


def _scores_in_adapted_trials(
    shots: NovelData, models: dict[str, Any], n_shot: int, n_trials: int
) -> list[np.ndarray]:
    """Return scores after learning from the queries, in balanced and in unbalanced trials alike.

    The same parameters serve both: a model does not know which of them it is in.
    """
    found = []
    for concentration in (None, CONCENTRATION):
        sizes = shots.sizes(n_shot, balanced=concentration is None)
        if sizes["n_query"]:
            options = {"adapt": True, "concentration": concentration}
            found.append(shots.score_trials(models, sizes, n_trials, **options))
    return [np.concatenate([scores[name] for scores in found]) for name in models]


def _find_epochs(
    estimator: Any, shots: NovelData, n_shot: int, *, in_trials: bool
) -> dict[str, Any]:
    """Return the number of epochs after which validation classes stopped the training.

    The backbone of the test has other features: there it is trained anew on all base classes, for
    as many epochs. Base samples keep what was trained for this task, so nothing is trained here
    unless an earlier run has scored the point.
    """
    n_way = shots.sizes(n_shot)["n_way"] if in_trials else None
    n_shot = min(n_shot, shots.most_shots)
    sizes = {"n_way": n_way, "n_shot": n_shot, "n_query": 1, "queries": shots.queries}
    trial = draw_trial(shots.y, shots.classes, **sizes, rng=np.random.default_rng(0))
    with silence_warnings():
        fitted: Any = clone(estimator)
        fitted.fit(shots.X[trial.support], shots.y[trial.support])
    return {"max_iter": int(fitted.n_iter_), "n_iter_no_change": None}
