"""Fast grid search for zero-shot classifiers over folds that hold out whole classes.

Held-out classes act as the unseen ones, as in the paper. A generic grid search would summarize and
factorize the same data for every point of the grid. Here the points share this work:

- Steps before the classifier are fitted once per fold and setting of their parameters.
- Without such steps, the moments of a fold are those of all data minus those of the held-out part.
- One factorization per fold serves all points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from pickle import PicklingError
from typing import Any, Self, cast

import joblib
import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d, indexable
from sklearn.utils.parallel import Parallel, delayed  # workers get the filters of warnings
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import is_device_array, place_of
from ..bpl.calibration import calibrate, held_out_setting
from ..bpl.few_shot import FewShotClassifier
from ..bpl.frame import BaseClasses
from ..bpl.moments import Moments
from ..bpl.zero_shot import ZeroShotClassifier
from ..constraints import plain_labels, plain_samples
from ..inference.projection import NearestPrototypeMixin
from ..labels import as_labels, check_count, warn_user
from ..metrics import per_class_accuracy
from ..parameters import is_auto
from ..streaming.dask import Shared
from ..threads import LimitThreadsMixin
from .splits import ClassKFold

Point = dict[str, Any]
Fold = tuple[np.ndarray, np.ndarray]

# Decided by the folds: the held-out classes are the candidates, none of them is seen, and the
# estimator's own prototypes describe them.
_FIXED = ("prototypes", "candidates", "seen_penalty")


class ZeroShotSearchCV(LimitThreadsMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Grid search for zero-shot classifiers over folds that hold out whole classes.

    Only classes with training samples take part. Prototypes of unseen classes, and so the test
    classes, have no influence on the choice. The score of a point is its mean per-class accuracy
    among the held-out classes.

    Parameters
    ----------
    estimator : ZeroShotClassifier, peer, or Pipeline that ends in one
        Estimator with the parameters that are not in the grid. Steps before the classifier are
        refitted in every fold, without the held-out classes. If `seen_penalty` is "auto", it is
        chosen for the best point, on folds of the whole pipeline.
    param_grid : dict, list of dicts, or tuple of these
        Same as in scikit-learn: ``{"alpha": [0.1, 0.5], "mu": [0.1, 0.3]}``, with step names in a
        pipeline: ``{"zeroshotclassifier__alpha": [0.1, 0.5]}``. The grids of a tuple are searched
        one after the other, each starting from the best point so far. This is cheaper than
        one large grid if the parameters hardly interact.
    cv : int or splitter, default=5
        Number of folds, or a splitter such as ``ClassKFold(3, shuffle=True, random_state=0)``. A
        fold must contain each class entirely in training or entirely in test.
    refit : bool, default=True
        Whether to fit the best point on all data, with all prototypes.
    n_jobs : int, default=None
        Number of points to fit at the same time, in threads that share the data.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best point. Ties: the first best point of the latest grid.
    best_score_ : float
        Mean score of the best point over the folds.
    best_index_ : int
        Index of the best point in `cv_results_`.
    best_estimator_ : estimator
        Best point, fitted on all data; only if ``refit=True``.
    calibration_ : dict
        Chosen `seen_penalty`; only if it was "auto".
    cv_results_ : dict of arrays
        Scores in the layout of scikit-learn's ``GridSearchCV``.
    classes_ : ndarray
        Candidates of the best estimator.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    ClassKFold : Folds that hold out whole classes.
    sklearn.model_selection.GridSearchCV : Generic grid search; use it with ``cv=ClassKFold()``
        for other estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import ZeroShotClassifier
    >>> from zonkey.model_selection import ZeroShotSearchCV
    >>> rng = np.random.default_rng(0)
    >>> prototypes = {label: rng.normal(size=3) for label in "abcdefgh"}
    >>> y = np.repeat(list("abcdef"), 10)  # "g" and "h" are unseen
    >>> X = np.array([prototypes[label] for label in y]) @ rng.normal(size=(3, 8))
    >>> model = ZeroShotClassifier(prototypes, synthesis=None)
    >>> search = ZeroShotSearchCV(model, {"beta": [0.01, 1000.0]}, cv=3).fit(X, y)
    >>> search.best_params_, search.best_score_
    ({'beta': 0.01}, 1.0)
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
        """Score every point of the grid on every fold, then refit the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples of seen classes.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self
            Fitted search.
        """
        subject = _Subject(self.estimator)
        stages = self._check_stages(subject)
        vars(self).pop("calibration_", None)  # left by an earlier fit
        given = X
        X, y = self._validate(subject, X, y)
        labels = as_labels(y)
        judged = subject.prepare(labels)
        moments = None
        if not judged.has_steps and isinstance(judged.classifier, ZeroShotClassifier):
            points = [judged.divide(point)[1] for stage in stages for point in stage]
            moments = _gather_moments(judged.classifier, points, X, labels)
        data = _Data(X, labels, judged, moments)
        folds = list(self._folds(X, labels))
        tried: list[Point] = []
        scores: list[np.ndarray] = []
        best: Point = {}
        for stage in stages:
            points = [{**best, **point} for point in stage]
            scores.append(
                np.column_stack([self._fold_scores(data, points, fold) for fold in folds])
            )
            tried += points
            best = tried[_best_index(scores)]
        self._record(tried, scores)
        if self.refit:
            self.best_estimator_ = self._calibrate(subject, X, labels).fit(given, y)
            self.classes_ = self.best_estimator_.classes_
        return self

    def _check_stages(self, subject: _Subject) -> list[list[Point]]:
        """Return the points of each grid."""
        last = subject.classifier
        if not isinstance(last, NearestPrototypeMixin) or isinstance(last, FewShotClassifier):
            raise TypeError(
                "`estimator` must be a ZeroShotClassifier, one of zonkey_lab.peers.zsl, or a "
                f"Pipeline that ends in one; got {type(last).__name__}. For others use "
                "GridSearchCV with cv=ClassKFold()."
            )
        grids = self.param_grid if isinstance(self.param_grid, tuple) else (self.param_grid,)
        stages = [list(ParameterGrid(grid)) for grid in grids]
        names = {name for stage in stages for point in stage for name in point}
        whole = {"steps", subject.prefix.removesuffix("__")} & names
        if isinstance(self.estimator, Pipeline) and whole:
            raise ValueError(
                f"`param_grid` must name parameters of the classifier, not {min(whole)!r} as a "
                "whole. Search over one classifier at a time."
            )
        if not any(stages):
            raise ValueError("`param_grid` must have at least one point; got none. Pass {}.")
        for name in (*_FIXED, "random_state"):
            if f"{subject.prefix}{name}" in names:
                raise ValueError(
                    f"`param_grid` must leave `{name}` alone: the folds decide it. Set it on the "
                    'estimator; seen_penalty="auto" is chosen on held-out classes.'
                )
        return stages

    def _validate(self, subject: _Subject, X: Any, y: Any) -> tuple[Any, Any]:
        """Return validated arrays; the first step of a pipeline gets X unchanged."""
        if is_device_array(X):
            raise TypeError(
                f"A search works on the host; got samples in {place_of(X)}. Search on NumPy "
                "arrays, then fit an estimator with `best_params_` on the device."
            )
        y = plain_labels(y)
        if not subject.has_steps:
            X, y = validate_data(self, plain_samples(X), y, dtype=[np.float64, np.float32])
            return X, y
        validate_data(self, X, y, skip_check_array=True)
        X, y = indexable(X, column_or_1d(y))
        return X, y

    def _folds(self, X: np.ndarray, labels: np.ndarray) -> Iterator[Fold]:
        """Yield training and test samples of each fold; the latter are whole classes."""
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
                    f"Training and test samples of a fold must be all {len(labels)} samples; "
                    f"got {len(train)} and {len(test)}. Use ClassKFold."
                )
            if len(np.unique(labels[test])) < 2:
                warn_user(
                    "A fold holds out a single class, so its score is always 1. Use fewer folds or "
                    "more classes.",
                )
            yield train, test

    def _fold_scores(self, data: _Data, points: list[Point], fold: Fold) -> np.ndarray:
        """Return the score of every point on one fold."""
        groups: dict[Any, list[int]] = {}
        divided = [data.judged.divide(point) for point in points]
        for i, (of_steps, _) in enumerate(divided):
            groups.setdefault(_group_key(of_steps, i), []).append(i)
        scores = np.empty(len(points))
        for members in groups.values():
            own = [divided[i][1] for i in members]
            score = Shared(data.scorer(divided[members[0]][0], own, fold))
            jobs = (delayed(Shared.run)(score, point) for point in own)
            pool = Parallel(n_jobs=self.n_jobs, prefer="threads", verbose=self.verbose)
            scores[members] = cast(list[float], pool(jobs))
        return scores

    def _calibrate(self, subject: _Subject, X: np.ndarray, labels: np.ndarray) -> Any:
        """Return the best point, unfitted, with a number in place of "auto"."""
        best = _copy_with(subject.model, self.best_params_)
        if not is_auto(_Subject(best).classifier.seen_penalty):
            return best
        penalty = calibrate(best, X, labels)
        self.calibration_ = {"seen_penalty": penalty}
        return best.set_params(**{f"{subject.prefix}seen_penalty": penalty})

    def _record(self, points: list[Point], stages: list[np.ndarray]) -> None:
        """Set the fitted attributes, except those of the refit."""
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
        self.best_index_ = _best_index(stages)
        self.best_params_ = points[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    def predict(self, X: Any) -> np.ndarray:
        """Predict classes with the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted class of each sample.
        """
        return self._get_refitted().predict(X)

    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return the k best candidates of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        k : int, default=None
            Number of candidates. None: five, or all if there are fewer.

        Returns
        -------
        ndarray of shape (n_samples, k)
            Candidates, best first.
        """
        best = self._get_refitted()
        if isinstance(best, Pipeline):  # which forwards only scikit-learn's own methods
            last: Any = best[-1]
            return last.predict_top(best[:-1].transform(X) if len(best) > 1 else X, k)
        return best.predict_top(X, k)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates) or (n_samples,)
            Score of each candidate; for two candidates the second score minus the first.
        """
        return self._get_refitted().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the per-class accuracy of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples within their class.

        Returns
        -------
        float
            Mean of the accuracies within the classes.
        """
        return self._get_refitted().score(X, y, sample_weight)

    def _get_refitted(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise AttributeError(
                "Predictions need a refitted model; got refit=False. Fit again with refit=True, "
                "or fit an estimator with `best_params_`."
            )
        return self.best_estimator_


@dataclass(frozen=True, eq=False)
class _Subject:
    """A zero-shot classifier, alone or at the end of a pipeline."""

    model: Any

    @property
    def classifier(self) -> Any:
        return self.model[-1] if isinstance(self.model, Pipeline) else self.model

    @property
    def prefix(self) -> str:
        """Prefix of the names of the classifier's parameters."""
        return f"{self.model.steps[-1][0]}__" if isinstance(self.model, Pipeline) else ""

    @property
    def has_steps(self) -> bool:
        """Whether there are steps before the classifier."""
        return isinstance(self.model, Pipeline) and len(self.model.steps) > 1

    def divide(self, point: Point) -> tuple[Point, Point]:
        """Return the parameters of the steps, and those of the classifier without prefix."""
        own = {name: value for name, value in point.items() if name.startswith(self.prefix)}
        of_steps = {name: value for name, value in point.items() if name not in own}
        return of_steps, {name.removeprefix(self.prefix): value for name, value in own.items()}

    def prepare(self, labels: np.ndarray) -> _Subject:
        """Return the subject that all points start from.

        It knows only classes with training samples. All points share one seed, so they differ only
        in their parameters.
        """
        last = self.classifier
        setting = held_out_setting(last, labels, candidates="unseen")
        if hasattr(last, "random_state"):
            setting["random_state"] = check_random_state(last.random_state).randint(2**31 - 1)
        changed = {f"{self.prefix}{name}": value for name, value in setting.items()}
        return _Subject(_copy_with(self.model, changed))


@dataclass(frozen=True, eq=False)
class _Data:
    """Training data of the search, with their moments if folds can use them."""

    X: Any
    labels: np.ndarray
    judged: _Subject
    moments: Moments | None

    def scorer(self, of_steps: Point, points: list[Point], fold: Fold) -> Callable[[Point], float]:
        """Return a function from a point to its score; shared parts are computed here."""
        classifier = self.judged.classifier
        X_train, X_test = (_safe_indexing(self.X, part) for part in fold)
        y_train, y_test = (self.labels[part] for part in fold)
        if self.judged.has_steps:
            steps = _copy_with(self.judged.model, of_steps)[:-1]
            X_train, X_test = steps.fit_transform(X_train, y_train), steps.transform(X_test)

        def score(point: Point) -> float:
            model = _copy_with(classifier, point).fit(X_train, y_train)
            return model.score(X_test, y_test)

        if not isinstance(classifier, ZeroShotClassifier):
            return score
        if self.moments is None:
            moments = _gather_moments(classifier, points, X_train, y_train)
        else:
            names = ("n_reserve", "seed", "scatter")
            options = {name: getattr(self.moments, name) for name in names}
            held_out: Any = Moments.from_arrays(X_test, y_test, self.moments.prototypes, **options)
            moments = self.moments - held_out
        return _shared_scorer(classifier, points, moments, X_test, y_test)


def _shared_scorer(
    classifier: Any, points: list[Point], moments: Moments, X_test: Any, y_test: np.ndarray
) -> Callable[[Point], float]:
    """Return the scorer of points that share the decomposition of these moments."""
    shared = BaseClasses(moments)
    if any(_copy_with(classifier, point).uses_scatter for point in points):
        _ = shared.equations.factor  # computed here, not by several threads at once
    X_test = np.asarray(X_test)  # moments know no feature names

    def score(point: Point) -> float:
        model = _copy_with(classifier, point).fit_moments(shared)
        return per_class_accuracy(y_test, model.predict(X_test))

    return score


def _copy_with(model: Any, parameters: Mapping[str, Any]) -> Any:
    """Return an unfitted copy with these parameters."""
    copy: Any = clone(model)
    # Cloned values: models must neither change nor share an estimator of the grid.
    return copy.set_params(**{name: clone(v, safe=False) for name, v in parameters.items()})


def _gather_moments(
    classifier: ZeroShotClassifier, points: list[Point], X: Any, labels: np.ndarray
) -> Moments:
    """Return moments with raw samples and scatter, if some point may need them.

    Points of later stages take parameters from earlier ones, so any values may come together.
    """

    def values(name: str) -> list[Any]:
        given = [point[name] for point in points if name in point]
        return given if len(given) == len(points) else [getattr(classifier, name), *given]

    directions = values("direction")
    most: Point = {"direction": "reverse"}
    if any(direction != "reverse" for direction in directions):
        most = {"direction": "both", "synthesis": None}
    if "both" in directions and any(values("synthesis")):
        counts = [check_count("n_synthetic", n, 1) for n in values("n_synthetic")]
        most.update(synthesis="perturb", n_synthetic=max(counts))
    offered = classifier.get_params(deep=False)  # a subclass may fix some of them
    most = {name: value for name, value in most.items() if name in offered}
    return _copy_with(classifier, most).gather(X, labels)


def _group_key(of_steps: Point, number: int) -> Any:
    """Return a key that is equal for equal parameters of the steps."""
    try:
        return joblib.hash(of_steps)
    except PicklingError:  # such as a lambda: not comparable, so in a group of its own
        return number


def _best_index(stages: list[np.ndarray]) -> int:
    """Return the index of the best point. Ties: first point of the latest stage."""
    means = [scores.mean(axis=1) for scores in stages]
    highest = max(mean.max() for mean in means)
    last = max(i for i, mean in enumerate(means) if mean.max() == highest)
    return sum(len(mean) for mean in means[:last]) + int(np.argmax(means[last]))


def _column(points: list[Point], name: str) -> np.ma.MaskedArray:
    """Return one parameter over all points, masked if a point does not set it."""
    column = np.ma.MaskedArray(np.empty(len(points), dtype=object), mask=True)
    for i, point in enumerate(points):
        if name in point:
            column[i] = point[name]
    return column
