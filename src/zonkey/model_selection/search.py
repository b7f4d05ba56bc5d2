"""Choose the parameters of a zero-shot classifier by class-wise cross-validation, fast.

Whole classes are held out and play the unseen ones, as in the paper: the model is chosen for
what it will be asked to do, on training classes alone. A generic grid search would gather and
factorise the same data for every point of the grid; here the moments of a fold are those of all
data less those of the held-out classes, and one factorisation a fold serves the whole grid.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any, Self, cast

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.labels import as_labels
from ..core.moments import Moments
from ..core.projection import NormalEquations
from ..estimators import ZeroShotClassifier
from ..estimators.validation import check_count
from .splits import ClassKFold

# What is fixed by the protocol: the held-out classes are the candidates, none of them seen, and
# they are described by the prototypes that the estimator came with.
_FIXED = ("prototypes", "candidates", "seen_penalty", "random_state")


class ZeroShotSearchCV(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Grid search for `ZeroShotClassifier` over folds that hold out whole classes.

    Only classes with training samples take part: the prototypes of truly unseen classes, and
    so the test classes, have no influence on the choice. The score is the mean of the
    per-class accuracies among the held-out classes.

    Parameters
    ----------
    estimator : ZeroShotClassifier
        Parameters not in the grid are taken from it.
    param_grid : dict or list of dicts
        As in scikit-learn: ``{"alpha": [0.1, 0.5], "mu": [0.1, 0.3]}``.
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
    best_estimator_ : ZeroShotClassifier
        Fitted on everything; only with ``refit=True``.
    cv_results_ : dict of arrays
        In the layout of scikit-learn's ``GridSearchCV``.
    classes_, n_features_in_ :
        Of the best estimator.
    """

    def __init__(
        self,
        estimator: ZeroShotClassifier,
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
        points = self._points()
        given = X
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        labels = as_labels(y)
        judge = self._judge(labels)
        moments = _configured(judge, _largest_reserve(judge, points)).gather(X, labels)
        scores = np.column_stack(
            [
                self._score_fold(judge, moments, points, X[test], labels[test])
                for test in self._held_out(X, labels)
            ]
        )
        self._record(points, scores)
        if self.refit:
            best = _configured(self.estimator, self.best_params_)
            self.best_estimator_ = best.fit(given, y)
            self.classes_ = self.best_estimator_.classes_
        return self

    def _held_out(self, X: np.ndarray, labels: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the test samples of each fold: whole classes, all others being for training."""
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
            yield test

    def _score_fold(
        self,
        judge: ZeroShotClassifier,
        moments: Moments,
        points: list[dict[str, Any]],
        X_test: np.ndarray,
        y_test: np.ndarray,
    ) -> list[float]:
        """Score every point with the classes of y_test held out."""
        held_out = Moments.from_arrays(
            X_test,
            y_test,
            moments.prototypes,
            n_reserve=moments.n_reserve,
            seed=moments.seed,
        )
        kept = moments - held_out
        equations = NormalEquations.of(kept)
        _ = equations.factor  # computed here once, not by several threads at the same time

        def score(point: Mapping[str, Any]) -> float:
            model = _configured(judge, point).fit_moments(kept, equations=equations)
            return model.score(X_test, y_test)

        jobs = (delayed(score)(point) for point in points)
        return Parallel(n_jobs=self.n_jobs, prefer="threads", verbose=self.verbose)(jobs)  # type: ignore[return-value]

    def _judge(self, labels: np.ndarray) -> ZeroShotClassifier:
        """Return the estimator as every point of the grid starts from.

        All points share one seed, so that they differ by their parameters and by nothing else.
        """
        seed = check_random_state(self.estimator.random_state).randint(2**31 - 1)
        prototypes = self.estimator.training_prototypes(labels).subset(np.unique(labels))
        fixed = {"prototypes": prototypes, "candidates": "unseen", "random_state": seed}
        return _configured(self.estimator, fixed)

    def _points(self) -> list[dict[str, Any]]:
        if not isinstance(self.estimator, ZeroShotClassifier):
            raise TypeError(
                "`estimator` must be a ZeroShotClassifier; got "
                f"{type(self.estimator).__name__}. Put preprocessing before the search: "
                "make_pipeline(FeatureNormalizer(), ZeroShotSearchCV(...)), "
                "or use GridSearchCV with cv=ClassKFold()."
            )
        points = list(ParameterGrid(self.param_grid))
        fixed = [name for name in _FIXED if any(name in point for point in points)]
        if fixed:
            raise ValueError(
                f"`param_grid` must leave `{fixed[0]}` alone: the folds decide it. Search over "
                "it with GridSearchCV and cv=ClassKFold()."
            )
        return points

    def _record(self, points: list[dict[str, Any]], scores: np.ndarray) -> None:
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
        self.best_index_ = int(np.argmax(mean))
        self.best_params_ = points[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    def predict(self, X: Any) -> np.ndarray:
        """Predict with the best estimator."""
        return self._best().predict(X)

    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return the k best candidates of the best estimator."""
        return self._best().predict_top(X, k)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the best estimator."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the per-class accuracy of the best estimator."""
        return self._best().score(X, y, sample_weight)

    def _best(self) -> ZeroShotClassifier:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise AttributeError(
                "Predictions need a refitted model; got refit=False. Fit again with refit=True, "
                "or fit an estimator with `best_params_`."
            )
        return self.best_estimator_


def _configured(estimator: ZeroShotClassifier, point: Mapping[str, Any]) -> ZeroShotClassifier:
    """Return an unfitted copy with these parameters."""
    return cast(ZeroShotClassifier, clone(estimator)).set_params(**point)


def _largest_reserve(
    judge: ZeroShotClassifier, points: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the parameters with which `gather` keeps enough samples for every point."""
    models = [_configured(judge, point) for point in points]
    wanted = [m.n_synthetic for m in models if m.direction == "both" and m.synthesis is not None]
    for n_synthetic in wanted:
        check_count("n_synthetic", n_synthetic, 1)
    if not wanted:
        return {}
    return {"direction": "both", "synthesis": "perturb", "n_synthetic": max(wanted)}


def _column(points: list[dict[str, Any]], name: str) -> np.ma.MaskedArray:
    """Return one parameter over all points, masked where a point does not set it."""
    column = np.ma.MaskedArray(np.empty(len(points), dtype=object), mask=True)
    for i, point in enumerate(points):
        if name in point:
            column[i] = point[name]
    return column
