"""Choose the parameters of a zero-shot classifier by class-wise cross-validation, fast.

Whole classes are held out and play the unseen ones, as in the paper: the model is chosen for
what it will be asked to do, on training classes alone. A generic grid search would gather and
factorize the same data for every point of the grid; here the steps before the classifier are
learned once a fold for all points that agree on them, the moments of a fold are those of all data
less those of the held-out classes where nothing comes before, and one factorization a fold
serves all points.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from pickle import PicklingError
from typing import Any, Self, cast

import numpy as np
from joblib import Parallel, delayed
from joblib import hash as fingerprint
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, column_or_1d, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.labels import as_labels
from ..core.moments import Moments
from ..estimators import FewShotClassifier, ZeroShotClassifier
from ..estimators.calibration import calibrate
from ..estimators.scoring import NearestPrototypeMixin
from ..linalg.arrays import is_device_array, place_of
from ..validation import needs_calibration
from .splits import ClassKFold
from .subject import FIXED, FoldData, Point, Subject, gathered, scorer, with_parameters


class ZeroShotSearchCV(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Grid search for zero-shot classifiers over folds that hold out whole classes.

    Only classes with training samples take part: the prototypes of truly unseen classes, and
    so the test classes, have no influence on the choice. The score is the mean of the
    per-class accuracies among the held-out classes.

    Parameters
    ----------
    estimator : ZeroShotClassifier, peer, or Pipeline that ends in one
        Parameters not in the grid are taken from it. Steps before the classifier are learned anew
        in every fold, from the classes that stay. Where `seen_penalty` or `temperature` is
        "auto", they are chosen for the best point, on folds of the whole pipeline.
    param_grid : dict, list of dicts, or tuple of these
        As in scikit-learn: ``{"alpha": [0.1, 0.5], "mu": [0.1, 0.3]}``, with the names of steps
        in a pipeline: ``{"zeroshotclassifier__alpha": [0.1, 0.5]}``. The grids of a tuple are
        searched one after the other, each with the best of those before: many parameters for
        the price of a few, where they hardly depend on each other.
    cv : int or splitter, default=5
        Number of folds, or a splitter such as ``ClassKFold(3, shuffle=True, random_state=0)``.
        Every class must be wholly in or wholly out of a fold.
    refit : bool, default=True
        Fit the best parameters on all the data, with all the prototypes.
    n_jobs : int, default=None
        Points of the grid fitted at a time, in threads that share the data.
    verbose : int, default=0
        Passed to joblib.

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        Mean score of the best point over the folds.
    best_index_ : int
    best_estimator_ : estimator
        Fitted on everything; only with ``refit=True``.
    calibration_ : dict
        `seen_penalty` and `temperature` of the best estimator where they were "auto".
    cv_results_ : dict of arrays
        In the layout of scikit-learn's ``GridSearchCV``.
    classes_, n_features_in_ :
        Of the best estimator.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        cv: Any = 5,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Score every point of the grid on every fold, then refit the best."""
        subject, stages = self._checked()
        vars(self).pop("calibration_", None)  # of an earlier fit
        given = X
        X, y = self._validated(subject, X, y)
        labels = as_labels(y)
        judged = subject.judged(labels)
        everything = self._moments(judged, [p for points in stages for p in points], X, labels)
        folds = list(self._folds(X, labels))
        tried: list[Point] = []
        scores: list[np.ndarray] = []
        best: Point = {}
        for stage in stages:
            points = [{**best, **point} for point in stage]
            found = np.column_stack(
                [
                    self._score_fold(judged, points, X, labels, train, test, everything)
                    for train, test in folds
                ]
            )
            tried += points
            scores.append(found)
            best = tried[_best(scores)]
        self._record(tried, scores)
        if self.refit:
            self.best_estimator_ = self._calibrated(subject, X, labels).fit(given, y)
            self.classes_ = self.best_estimator_.classes_
        return self

    def _validated(self, subject: Subject, X: Any, y: Any) -> tuple[Any, Any]:
        """Return arrays, or what came where the first step of a pipeline is to look at it."""
        if is_device_array(X):
            raise TypeError(
                f"A search works on the host; got samples in {place_of(X)}. Search on NumPy "
                "arrays, and fit an estimator with `best_params_` where the samples are."
            )
        if not subject.has_steps:
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
            return X, y
        validate_data(self, X, y, skip_check_array=True)
        X, y = indexable(X, column_or_1d(y))
        return X, y

    def _moments(
        self, judged: Subject, points: list[Point], X: np.ndarray, labels: np.ndarray
    ) -> Moments | None:
        """Return the moments of all data, where folds can be had from them by subtraction."""
        last = judged.classifier
        if judged.has_steps or not isinstance(last, ZeroShotClassifier):
            return None
        models = [with_parameters(last, judged.divided(point)[1]) for point in points]
        return gathered(models, last, X, labels)

    def _calibrated(self, subject: Subject, X: np.ndarray, labels: np.ndarray) -> Any:
        """Return the best point, with numbers for what is to be chosen on held-out classes."""
        best = subject.configured(self.best_params_)
        last = Subject(best).classifier
        if not needs_calibration(last):
            return best
        has = last.get_params(deep=False)
        chosen = calibrate(best, X, labels)
        self.calibration_ = {name: value for name, value in chosen.items() if name in has}
        chosen = {f"{subject.prefix}{name}": v for name, v in self.calibration_.items()}
        return best.set_params(**chosen)

    def _folds(self, X: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield training and test samples of each fold, the latter being whole classes."""
        by_class = isinstance(self.cv, Integral)
        splitter: Any = ClassKFold(int(self.cv)) if by_class else check_cv(self.cv)
        for train, test in splitter.split(X, labels):
            shared = np.intersect1d(labels[train], labels[test])
            if shared.size:
                raise ValueError(
                    "`cv` must hold out whole classes; class "
                    f"{shared.tolist()[0]!r} is on both sides of a fold. Use ClassKFold."
                )
            if len(train) + len(test) != len(labels):
                raise ValueError(
                    f"`cv` must train on all that is not held out; a fold of {len(train)} and "
                    f"{len(test)} samples does not make {len(labels)}. Use ClassKFold."
                )
            if len(np.unique(labels[test])) < 2:
                warnings.warn(
                    "A fold holds out a single class, among which every guess is right: its score "
                    "of 1 tells nothing. Use fewer folds or more classes.",
                    UserWarning,
                    stacklevel=3,
                )
            yield train, test

    def _score_fold(
        self,
        judged: Subject,
        points: list[Point],
        X: np.ndarray,
        labels: np.ndarray,
        train: np.ndarray,
        test: np.ndarray,
        everything: Moments | None,
    ) -> list[float]:
        """Score every point with the classes of the test samples held out."""
        groups: dict[Any, list[int]] = {}
        divided = [judged.divided(point) for point in points]
        for i, (of_steps, _) in enumerate(divided):
            groups.setdefault(_key(of_steps, i), []).append(i)
        scores = np.empty(len(points))
        for members in groups.values():
            fold = _prepared(judged, divided[members[0]][0], X, labels, train, test, everything)
            own = [divided[i][1] for i in members]
            score = scorer(judged, own, fold)
            jobs = (delayed(score)(point) for point in own)
            pool = Parallel(n_jobs=self.n_jobs, prefer="threads", verbose=self.verbose)
            scores[members] = cast(list[float], pool(jobs))
        return scores.tolist()

    def _checked(self) -> tuple[Subject, list[list[Point]]]:
        subject = Subject(self.estimator)
        last = subject.classifier
        if not isinstance(last, NearestPrototypeMixin) or isinstance(last, FewShotClassifier):
            raise TypeError(
                "`estimator` must be a ZeroShotClassifier, one of zonkey.peers.zsl, or a Pipeline "
                f"that ends in one; got {type(last).__name__}. For others use "
                "GridSearchCV with cv=ClassKFold()."
            )
        grids = self.param_grid if isinstance(self.param_grid, tuple) else (self.param_grid,)
        stages = [list(ParameterGrid(grid)) for grid in grids]
        points = [point for stage in stages for point in stage]
        whole = {"steps", subject.prefix.removesuffix("__")} & {n for p in points for n in p}
        if isinstance(self.estimator, Pipeline) and whole:
            raise ValueError(
                f"`param_grid` must name parameters of the classifier, not {min(whole)!r} as a "
                "whole. Search over one classifier at a time."
            )
        if not points:
            raise ValueError("`param_grid` must have at least one point; got none. Pass {}.")
        for name in (*FIXED, "random_state"):
            if any(name in subject.divided(point)[1] for point in points):
                raise ValueError(
                    f"`param_grid` must leave `{name}` alone: the folds decide it. Set it on the "
                    'estimator; "auto" chooses a penalty or a temperature on held-out classes.'
                )
        return subject, stages

    def _record(self, points: list[Point], stages: list[np.ndarray]) -> None:
        scores = np.concatenate(stages)
        mean = scores.mean(axis=1)
        names = sorted({name for point in points for name in point})
        self.cv_results_: dict[str, Any] = {
            **{f"param_{name}": _column(points, name) for name in names},
            "params": points,
            **{f"split{i}_test_score": scores[:, i] for i in range(scores.shape[1])},
            "mean_test_score": mean,
            "std_test_score": scores.std(axis=1),
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
        }
        self.best_index_ = _best(stages)
        self.best_params_ = points[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    def predict(self, X: Any) -> np.ndarray:
        """Predict with the best estimator."""
        return self._best().predict(X)

    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return the k best candidates of the best estimator."""
        best = self._best()
        if isinstance(best, Pipeline):  # which hands on scikit-learn's own methods only
            last: Any = best[-1]
            return last.predict_top(best[:-1].transform(X) if len(best) > 1 else X, k)
        return best.predict_top(X, k)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the best estimator."""
        return self._best().decision_function(X)

    @available_if(lambda self: hasattr(Subject(self.estimator).classifier, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the best estimator."""
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the per-class accuracy of the best estimator."""
        return self._best().score(X, y, sample_weight)

    def _best(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise AttributeError(
                "Predictions need a refitted model; got refit=False. Fit again with refit=True, "
                "or fit an estimator with `best_params_`."
            )
        return self.best_estimator_


def _key(of_steps: Point, number: int) -> Any:
    """Return what tells settings of the steps apart; those that cannot be told stand alone."""
    try:
        return fingerprint(of_steps)
    except PicklingError:  # such as a lambda
        return number


def _best(stages: list[np.ndarray]) -> int:
    """Return the number of the best point; of equals the first of the last stage, all settled."""
    means = [scores.mean(axis=1) for scores in stages]
    highest = max(mean.max() for mean in means)
    last = max(i for i, mean in enumerate(means) if mean.max() == highest)
    return sum(len(mean) for mean in means[:last]) + int(np.argmax(means[last]))


def _prepared(
    judged: Subject,
    of_steps: Point,
    X: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    everything: Moments | None,
) -> FoldData:
    """Return the samples of a fold as the classifier will see them."""
    parts: Any = (
        _safe_indexing(X, train),
        labels[train],
        _safe_indexing(X, test),
        labels[test],
    )
    steps = judged.steps(of_steps)
    if steps is not None:
        X_train = steps.fit_transform(parts[0], parts[1])
        return FoldData(X_train, parts[1], steps.transform(parts[2]), parts[3])
    if everything is None:
        return FoldData(*parts)
    reserve = {"n_reserve": everything.n_reserve, "seed": everything.seed}
    held_out = Moments.from_arrays(parts[2], parts[3], everything.prototypes, **reserve)
    return FoldData(*parts, moments=everything - held_out)


def _column(points: list[dict[str, Any]], name: str) -> np.ma.MaskedArray:
    """Return one parameter over all points, masked where a point does not set it."""
    column = np.ma.MaskedArray(np.empty(len(points), dtype=object), mask=True)
    for i, point in enumerate(points):
        if name in point:
            column[i] = point[name]
    return column
