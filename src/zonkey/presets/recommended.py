"""What we recommend for one's own features: chosen on held-out training classes, at every fit.

Features are power-transformed, centred, brought to unit length and whitened within classes;
prototypes are treated alike and lifted by a kernel; the class centre is regressed on the
prototype, every class weighing the same. Each choice among these is made by class-wise
cross-validation on the user's own training classes, none is tuned to a data set of ours.
"""

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
from ..estimators import FewShotClassifier, ZeroShotClassifier
from ..evaluation import n_way_k_shot
from ..model_selection import ClassKFold, ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer, WithinClassWhitener

_REGRESSION: dict[str, Any] = {
    "forward_weight": 0.0,
    "weight_per": "class",
    "synthesis": None,
    "kernel": "rbf",
    "gamma": 0.5,
    "beta": 0.03,
}
_STEPS: dict[str, list[Any]] = {
    "power__power": [0.5, 1.0],
    "whiten__shrinkage": [1.0, 4.0, 16.0],
}
_SEMANTICS: dict[str, list[Any]] = {
    "prototype_transformer__power": [0.5, 0.7, 1.0],
    "prototype_transformer__norm": ["l2", None],
    "beta": [0.01, 0.03, 0.1, 0.3, 1.0],
}
_KERNELS: list[dict[str, list[Any]]] = [
    {"kernel": ["linear"]},
    {"kernel": ["rbf"], "gamma": [0.25, 0.5, 1.0, 2.0]},
]
_TRIALS = 100  # one-shot trials that parameters are chosen on


def recommended(
    prototypes: Any,
    *,
    candidates: Any = "unseen",
    cv: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> ZeroShotSearchCV:
    """Return the recommended zero-shot model, which chooses its parameters when it is fitted.

    A search over preprocessing, kernel and ridge of a pipeline, on folds that hold out whole
    training classes. Then the penalty of seen classes and the temperature of probabilities
    are chosen in the same way, for the generalised setting and for `predict_proba`.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        A semantic vector for every class, seen and unseen.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    cv : int or splitter, default=None
        None: five folds of classes, drawn at random.
    random_state : int, default=0
        Which classes go together in a fold.
    n_jobs, verbose : int
        As for `ZeroShotSearchCV`.
    **parameters
        Further parameters of `ZeroShotClassifier`.

    Examples
    --------
    >>> model = recommended({"horse": [0, 1], "zebra": [1, 1]})
    >>> [name for name, _ in model.estimator.steps]
    ['power', 'whiten', 'unit', 'classify']
    """
    classifier = ZeroShotClassifier(
        prototypes,
        candidates=candidates,
        random_state=random_state,
        **{
            **_REGRESSION,
            "prototype_transformer": FeatureNormalizer(power=0.7, center=True),
            "seen_penalty": "auto",
            "temperature": "auto",
            **parameters,
        },
    )
    pipeline = Pipeline([*preprocessing().steps, ("classify", classifier)])
    shared = {
        **_STEPS,
        **{f"classify__{name}": values for name, values in _SEMANTICS.items()},
    }
    grid = [
        {**shared, **{f"classify__{name}": values for name, values in kernel.items()}}
        for kernel in _KERNELS
    ]
    folds = ClassKFold(5, shuffle=True, random_state=random_state) if cv is None else cv
    return ZeroShotSearchCV(pipeline, grid, cv=folds, n_jobs=n_jobs, verbose=verbose)


def recommended_few_shot(
    X_base: Any,
    y_base: Any,
    prototypes: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    candidates: Any = "novel",
    **parameters: Any,
) -> Pipeline:
    """Return the recommended few-shot model for these base classes, to be fitted on shots.

    Prototypes are projected by the regression of `recommended`, learnt from the base classes, and
    weighed against the mean of the shots by how many shots a prototype is worth.

    Parameters
    ----------
    X_base, y_base : array-like of shape (n, d) and (n,)
        Samples of base classes; preprocessing is learnt from them, and stays as it is.
    prototypes : mapping, DataFrame or Prototypes
        Of base, validation and novel classes.
    validation : tuple (X, y), default=None
        Samples of further classes, neither base nor novel. Preprocessing, kernel and ridge are
        those that do best in one-shot trials among them, and the worth of a prototype is
        measured on them.
        Do pass some where the features were trained on the base classes, whose samples lie
        closer together then than those of any new class. None: fixed values, and a worth
        measured on shots or base classes.
    candidates : {"novel", "all"} or list of labels, default="novel"
    **parameters
        Further parameters of `FewShotClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> prototypes = {label: rng.normal(size=4) for label in "abcdef"}
    >>> hidden = rng.normal(size=(4, 8))
    >>> y = np.repeat(list("abcd"), 10)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 3
    >>> model = recommended_few_shot(X, y, prototypes)
    >>> shots = np.array([prototypes[label] for label in "ef"]) @ hidden
    >>> model.fit(shots, ["e", "f"]).predict(shots).tolist()
    ['e', 'f']
    """
    fixed = {
        **_REGRESSION,
        "gamma": 1.0,
        "beta": 0.1,
        "prototype_transformer": FeatureNormalizer(power=0.7, center=True),
        "fusion": "auto",
        **parameters,
    }
    model = FewShotClassifier(prototypes, candidates=candidates, **fixed)
    data = FewShotData(X_base, y_base, prototypes, validation)
    of_steps: dict[str, Any] = {}
    if validation is not None:
        of_steps = data.best([{}], list(ParameterGrid(_STEPS)), model)[1]
        points = [point for point in _points() if not set(point) & set(parameters)]
        model.set_params(**data.best(points or [{}], [of_steps], model)[0])
    steps, base = data.prepared(of_steps)
    model.set_params(base=base)
    if validation is not None and "fusion" not in parameters:
        X, y = validation
        model.set_params(fusion=model.worth_of_prototypes(steps.transform(X), y))
    return Pipeline([("prepare", FrozenEstimator(steps)), ("classify", model)])


@dataclass(frozen=True, eq=False)
class FewShotData:
    """Base classes to learn from, and validation classes to choose on."""

    X_base: Any
    y_base: Any
    prototypes: Any
    validation: tuple[Any, Any] | None

    def prepared(self, of_steps: dict[str, Any]) -> tuple[Pipeline, BaseClasses]:
        """Return preprocessing learnt from the base classes, and their moments after it."""
        steps = preprocessing().set_params(**of_steps).fit(self.X_base, self.y_base)
        moments = Moments(self.prototypes).update(steps.transform(self.X_base), self.y_base)
        return steps, BaseClasses(moments)

    def best(
        self, points: list[dict[str, Any]], all_steps: list[dict[str, Any]], model: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters that do best in one-shot trials of validation classes."""
        assert self.validation is not None
        scores = []
        for of_steps in all_steps:
            steps, base = self.prepared(of_steps)
            X, y = steps.transform(self.validation[0]), as_labels(self.validation[1])
            classes = np.unique(y)
            for point in points:
                tried: Any = clone(model)
                tried.set_params(**point, base=base, candidates="novel")
                if not isinstance(tried.fusion, float | int):
                    tried.set_params(fusion=tried.worth_of_prototypes(X, y))
                sizes = {"n_way": min(5, len(classes)), "n_shot": 1, "n_query": 15}
                found = n_way_k_shot({"model": tried}, X, y, classes, n_trials=_TRIALS, **sizes)
                scores.append((float(found["model"].mean()), point, of_steps))
        return max(scores, key=lambda score: score[0])[1:]


def _points() -> list[dict[str, Any]]:
    """Return what the semantic side is chosen from."""
    return [
        {**point, "prototype_transformer": FeatureNormalizer(power=power, center=True)}
        for point in ParameterGrid([{**kernel, "beta": _SEMANTICS["beta"]} for kernel in _KERNELS])
        for power in _SEMANTICS["prototype_transformer__power"]
    ]


def preprocessing() -> Pipeline:
    """Return the steps that make features ready: power, centre, unit length, whitening."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=0.5, center=True)),
            ("whiten", WithinClassWhitener(4.0)),
            ("unit", FeatureNormalizer()),
        ]
    )
