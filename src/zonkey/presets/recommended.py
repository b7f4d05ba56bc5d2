"""What we recommend for one's own features: chosen on held-out training classes, at every fit.

Features are power-transformed, centred, brought to unit length and whitened within classes;
prototypes are treated alike and lifted by a kernel; the class centre is regressed on the
prototype, every class weighing the same. Each choice among these is made by class-wise
cross-validation on the user's own training classes, none is tuned to a data set of ours.
"""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ..estimators import ZeroShotClassifier
from ..model_selection import ClassKFold, ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer, WithinClassWhitener

REGRESSION: dict[str, Any] = {
    "forward_weight": 0.0,
    "weight_per": "class",
    "synthesis": None,
    "kernel": "rbf",
    "gamma": 0.5,
    "beta": 0.03,
}
STEPS: dict[str, list[Any]] = {
    "power__power": [0.5, 1.0],
    "whiten__shrinkage": [1.0, 4.0, 16.0],
}
SEMANTICS: dict[str, list[Any]] = {
    "prototype_transformer__power": [0.5, 0.7, 1.0],
    "prototype_transformer__norm": ["l2", None],
    "beta": [0.01, 0.03, 0.1, 0.3, 1.0],
}
KERNELS: list[dict[str, list[Any]]] = [
    {"kernel": ["linear"]},
    {"kernel": ["rbf"], "gamma": [0.25, 0.5, 1.0, 2.0]},
]


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
            **REGRESSION,
            "prototype_transformer": FeatureNormalizer(power=0.7, center=True),
            "seen_penalty": "auto",
            "temperature": "auto",
            **parameters,
        },
    )
    pipeline = Pipeline([*preprocessing().steps, ("classify", classifier)])
    shared = {
        **STEPS,
        **{f"classify__{name}": values for name, values in SEMANTICS.items()},
    }
    grid = [
        {**shared, **{f"classify__{name}": values for name, values in kernel.items()}}
        for kernel in KERNELS
    ]
    folds = ClassKFold(5, shuffle=True, random_state=random_state) if cv is None else cv
    return ZeroShotSearchCV(pipeline, grid, cv=folds, n_jobs=n_jobs, verbose=verbose)


def preprocessing() -> Pipeline:
    """Return the steps that make features ready: power, centre, unit length, whitening."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=0.5, center=True)),
            ("whiten", WithinClassWhitener(4.0)),
            ("unit", FeatureNormalizer()),
        ]
    )
