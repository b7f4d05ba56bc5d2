"""The recommended few-shot model: projected prototypes fused with the shots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from ..core.frame import BaseClasses
from ..core.labels import as_labels
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from ..estimators import FewShotClassifier
from ..evaluation import draw_trial, n_way_k_shot
from ..metrics import best_temperature
from .zero_shot import REGRESSION, STEPS, open_grids, preprocessing, prototype_transformer

_TRIALS = 100  # one-shot trials per tried parameter setting
_TEMPERATURE_TRIALS = 20


def recommended_few_shot(
    X_base: Any,
    y_base: Any,
    prototypes: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    candidates: Any = "novel",
    **parameters: Any,
) -> Pipeline:
    """Return the recommended few-shot model for given base classes, to be fitted on shots.

    Prototypes are projected by the regression of `recommended`, learned from the base classes. The
    center of a novel class is the weighted mean of its projected prototype and its shots.

    Parameters
    ----------
    X_base : array-like of shape (n_samples, n_features)
        Samples of base classes. Preprocessing is learned from them only.
    y_base : array-like of shape (n_samples,)
        Labels of base classes.
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every base, validation and novel class.
    validation : tuple of (X, y), default=None
        Samples of further classes, neither base nor novel. Preprocessing, kernel and ridge are
        chosen by one-shot trials on them; the weight of prototypes and the temperature of
        probabilities are estimated on them. Pass validation classes if the features were trained
        on the base classes: base samples then cluster more tightly than those of new classes.
        None uses fixed parameters and estimates the weight on shots or base classes.
    candidates : {"novel", "all"} or list of labels, default="novel"
        Classes that `predict` chooses from.
    **parameters : dict
        Further parameters of `FewShotClassifier`. They are fixed and not chosen.

    Returns
    -------
    Pipeline
        Frozen preprocessing and an unfitted `FewShotClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import presets
    >>> rng = np.random.default_rng(0)
    >>> prototypes = {label: rng.normal(size=4) for label in "abcdef"}
    >>> hidden = rng.normal(size=(4, 8))
    >>> y = np.repeat(list("abcd"), 10)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 3
    >>> model = presets.recommended_few_shot(X, y, prototypes)
    >>> shots = np.array([prototypes[label] for label in "ef"]) @ hidden
    >>> model.fit(shots, ["e", "f"]).predict(shots).tolist()
    ['e', 'f']
    """
    if "base" in parameters:
        raise TypeError("`base` is computed from X_base and y_base; got both. Leave it out.")
    prototypes = Prototypes.coerce(prototypes)
    fixed = {
        **REGRESSION,
        "gamma": 1.0,
        "beta": 0.1,
        "prototype_transformer": prototype_transformer(),
        "fusion": "auto",
        **parameters,
    }
    model = FewShotClassifier(prototypes, candidates=candidates, **fixed)
    data = FewShotData(X_base, y_base, prototypes, validation)
    of_steps: dict[str, Any] = {}
    if validation is not None:
        _check_validation(validation[1])
        of_steps = data.best([{}], list(ParameterGrid(STEPS)), model)[1]
        for grid in open_grids(parameters):
            model.set_params(**data.best(list(ParameterGrid(grid)), [of_steps], model)[0])
    steps, base = data.prepared(of_steps)
    model.set_params(base=base)
    if validation is not None and "fusion" not in parameters:
        X, y = validation
        model.set_params(fusion=model.worth_of_prototypes(steps.transform(X), y))
    if validation is not None and "temperature" not in parameters:
        model.set_params(temperature=data.temperature(steps, model))
    return Pipeline([("prepare", FrozenEstimator(steps)), ("classify", model)])


@dataclass(frozen=True, eq=False)
class FewShotData:
    """Base classes to learn from, and validation classes to choose parameters on."""

    X_base: Any
    y_base: Any
    prototypes: Any
    validation: tuple[Any, Any] | None = None

    def prepared(self, of_steps: dict[str, Any]) -> tuple[Pipeline, BaseClasses]:
        """Return preprocessing fitted on the base classes, and the preprocessed base classes."""
        steps = preprocessing().set_params(**of_steps).fit(self.X_base, self.y_base)
        moments = Moments(self.prototypes).update(steps.transform(self.X_base), self.y_base)
        return steps, BaseClasses(moments)

    def temperature(self, steps: Pipeline, model: Any) -> float:
        """Return the temperature of highest likelihood in one-shot trials."""
        assert self.validation is not None
        X, y = steps.transform(self.validation[0]), as_labels(self.validation[1])
        folds = []
        for number in range(_TEMPERATURE_TRIALS):
            rng = np.random.default_rng([0, number])
            trial = draw_trial(y, np.unique(y), **_trial_sizes(y), rng=rng)
            fitted: Any = clone(model)
            fitted.set_params(candidates="novel").fit(X[trial.support], y[trial.support])
            codes = np.searchsorted(fitted.classes_, y[trial.query])
            folds.append((fitted.decision_function(X[trial.query]), codes))
        return best_temperature(folds)

    def best(
        self, points: list[dict[str, Any]], all_steps: list[dict[str, Any]], model: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters with the best accuracy in one-shot trials on validation classes."""
        assert self.validation is not None
        scores = []
        for of_steps in all_steps:
            steps, base = self.prepared(of_steps)
            X, y = steps.transform(self.validation[0]), as_labels(self.validation[1])
            for point in points:
                tried: Any = clone(model)
                tried.set_params(**point, base=base, candidates="novel")
                if isinstance(tried.fusion, str):
                    tried.set_params(fusion=tried.worth_of_prototypes(X, y))
                trials = {"n_trials": _TRIALS, **_trial_sizes(y)}
                found = n_way_k_shot({"model": tried}, X, y, np.unique(y), **trials)
                scores.append((found["model"].mean(), point, of_steps))
        return max(scores, key=lambda score: score[0])[1:]


def _trial_sizes(y: np.ndarray) -> dict[str, Any]:
    classes, counts = np.unique(y, return_counts=True)
    n_query = min(15, int(counts.min()) - 1)
    return {"n_way": min(5, len(classes)), "n_shot": 1, "n_query": n_query}


def _check_validation(y: Any) -> None:
    classes, counts = np.unique(as_labels(y), return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        raise ValueError(
            "`validation` must have at least two classes of at least two samples; got "
            f"{len(classes)} classes, the smallest of {counts.min()}. Pass more, or None."
        )
