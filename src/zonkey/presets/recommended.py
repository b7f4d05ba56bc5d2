"""What we recommend for one's own features: chosen on held-out training classes, at every fit.

Features are power-transformed, centered, brought to unit length and whitened within classes;
prototypes are treated alike and lifted by a kernel; the class center is regressed on the
prototype, every class weighing the same. This form is fixed; powers, shrinkage, kernel and ridge
are chosen by class-wise cross-validation on the user's own training classes. The form and the grids
were chosen on training and validation classes of CUB, emoji and mini-ImageNet.
"""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ..core.prototypes import Prototypes
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
# Searched one after the other, each with the best of those before.
STEPS: dict[str, list[Any]] = {
    "power__power": [0.5, 1.0],
    "whiten__shrinkage": [0.25, 1.0, 4.0, 16.0],
}
_BETAS = [0.01, 0.03, 0.1, 0.3, 1.0]
KERNELS: list[dict[str, list[Any]]] = [
    {"kernel": ["linear"], "beta": _BETAS},
    {"kernel": ["rbf"], "gamma": [0.25, 0.5, 1.0, 2.0, 4.0], "beta": _BETAS},
]
PROTOTYPES: dict[str, list[Any]] = {
    "prototype_transformer__power": [0.5, 0.7, 1.0],
    "prototype_transformer__norm": ["l2", None],
}


def recommended(
    prototypes: Any,
    *,
    candidates: Any = "unseen",
    param_grid: Any = None,
    cv: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> ZeroShotSearchCV:
    """Return the recommended zero-shot model, which chooses its parameters when it is fitted.

    A search over preprocessing, kernel and ridge of a pipeline, on folds that hold out whole
    training classes. Then the penalty of seen classes and the temperature of probabilities
    are chosen in the same way, for the generalized setting and for `predict_proba`.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        A semantic vector for every class, seen and unseen.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    param_grid : as for `ZeroShotSearchCV`, default=None
        What is chosen from, in a pipeline of the steps "power", "whiten", "unit" and "classify".
        None: powers, shrinkages, kernels, ridges and powers of prototypes, a few of each.
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
    precomputed = parameters.get("kernel") == "precomputed"
    if precomputed:
        parameters = {"prototype_transformer": None, **parameters}
    classifier = ZeroShotClassifier(
        Prototypes.coerce(prototypes),
        candidates=candidates,
        random_state=random_state,
        **{
            **REGRESSION,
            "prototype_transformer": None if precomputed else prototype_transformer(),
            "seen_penalty": "auto",
            "temperature": "auto",
            **parameters,
        },
    )
    pipeline = Pipeline([*preprocessing().steps, ("classify", classifier)])
    full = (STEPS, *([_of_classifier(part) for part in grid] for grid in open_grids(parameters)))
    folds = ClassKFold(5, shuffle=True, random_state=random_state) if cv is None else cv
    grid = full if param_grid is None else param_grid
    return ZeroShotSearchCV(pipeline, grid, cv=folds, n_jobs=n_jobs, verbose=verbose)


def prototype_transformer() -> FeatureNormalizer:
    """Return what is done to prototypes, to be learned from those of seen classes."""
    return FeatureNormalizer(power=0.7, center=True)


def open_grids(given: dict[str, Any]) -> list[list[dict[str, list[Any]]]]:
    """Return the grids of the semantic side, less what the user has settled."""
    kernels = KERNELS
    if "kernel" in given:
        kernels = [part for part in KERNELS if given["kernel"] in part["kernel"]] or KERNELS[:1]
    left = [
        [{name: v for name, v in part.items() if name.split("__")[0] not in given} for part in grid]
        for grid in (kernels, [PROTOTYPES])
    ]
    return [[part for part in grid if part] or [{}] for grid in left]


def _of_classifier(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {f"classify__{name}": values for name, values in grid.items()}


def preprocessing() -> Pipeline:
    """Return the steps that make features ready: power, center, unit length, whitening."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=0.5, center=True)),
            ("whiten", WithinClassWhitener(4.0)),
            ("unit", FeatureNormalizer()),
        ]
    )
