"""Zero-shot models by name: the paper's, a one-way regression, and the recommended one."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

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
# The grids are searched one after the other, each starting from the best point so far.
STEPS: dict[str, list[Any]] = {
    "power__power": [0.5, 1.0],
    "whiten__shrinkage": [0.25, 1.0, 4.0, 16.0],
}
_BETAS = [0.01, 0.03, 0.1, 0.3, 1.0]
KERNEL_GRIDS: list[dict[str, list[Any]]] = [
    {"kernel": ["linear"], "beta": _BETAS},
    {"kernel": ["rbf"], "gamma": [0.25, 0.5, 1.0, 2.0, 4.0], "beta": _BETAS},
]
PROTOTYPES: dict[str, list[Any]] = {
    "prototype_transformer__power": [0.5, 0.7, 1.0],
    "prototype_transformer__norm": ["l2", None],
}


def paper(prototypes: Any, **parameters: Any) -> Pipeline:
    """Return the paper's zero-shot model: unit-length features and prototypes, then BPL.

    The paper does not specify the normalization; unit length is our reading. Choose `rho`,
    `alpha` and `mu` with `ZeroShotSearchCV`.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every class, seen and unseen.
    **parameters : dict
        Parameters of `ZeroShotClassifier`. Its defaults are those of the paper.

    Returns
    -------
    Pipeline
        Unfitted pipeline of a `FeatureNormalizer` and a `ZeroShotClassifier`. The latter does not
        normalize prototypes that are added later; use
        ``model[-1].with_classes(Prototypes(labels, matrix).normalized())``.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.paper({"horse": [0, 1], "zebra": [1, 1]}, candidates="all")
    >>> list(model.named_steps)
    ['featurenormalizer', 'zeroshotclassifier']
    """
    unit = Prototypes.coerce(prototypes).normalized()
    return make_pipeline(FeatureNormalizer(norm="l2"), ZeroShotClassifier(unit, **parameters))


def rpl(prototypes: Any, *, beta: float = 1.0, **parameters: Any) -> ZeroShotClassifier:
    """Return ridge regression from prototypes to features (RPL).

    W minimizes sum_i ||x_i - W y_i||^2 + beta ||W||^2, where y_i is the prototype of the class of
    sample i. The class with the nearest W y is predicted. The opposite direction, from features
    to prototypes, suffers more from hubs: prototypes that are nearest to samples of many classes.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every class, seen and unseen.
    beta : float, default=1.0
        Ridge penalty >= 0 (lambda in the reference), relative to a sum over samples.
    **parameters : dict
        Further parameters of `ZeroShotClassifier`.

    Returns
    -------
    ZeroShotClassifier
        Unfitted classifier with ``direction="reverse"``.

    References
    ----------
    Y. Shigeto, I. Suzuki, K. Hara, M. Shimbo, Y. Matsumoto. Ridge regression, hubness, and
    zero-shot learning. ECML PKDD 2015.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.rpl({"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}, beta=0.1)
    >>> model = model.fit([[0, 0.6, 0.8], [1, 0, 0]], ["horse", "tiger"])
    >>> model.project({"zebra": [1, 1]}).round(2)
    array([[0.91, 0.55, 0.73]])
    """
    return ZeroShotClassifier(prototypes, direction="reverse", beta=beta, **parameters)


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
    """Return the recommended zero-shot model, which chooses its parameters during `fit`.

    Features are power-transformed, centered, scaled to unit length and whitened within classes.
    Prototypes are transformed too, and class means are regressed on them by kernel ridge
    regression, all classes with the same weight. Powers, shrinkage, kernel and ridge are chosen by
    cross-validation that holds out whole training classes. The penalty of seen classes and the
    temperature of `predict_proba` are then chosen in the same way.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every class, seen and unseen.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    param_grid : dict, list of dicts, or tuple of these, default=None
        Grid of `ZeroShotSearchCV` over a pipeline with the steps "power", "whiten", "unit" and
        "classify". None searches powers, shrinkages, kernels and ridges, a few values each.
    cv : int or splitter, default=None
        Folds that hold out whole classes. None: five random folds.
    random_state : int, default=0
        Seed of the folds and of the classifier.
    n_jobs : int, default=None
        Number of points of the grid to fit at the same time.
    verbose : int, default=0
        Verbosity of `ZeroShotSearchCV`.
    **parameters : dict
        Further parameters of `ZeroShotClassifier`. They are fixed and leave the grid.

    Returns
    -------
    ZeroShotSearchCV
        Unfitted search over the pipeline.

    Notes
    -----
    The form of the model and the grids were chosen on training and validation classes of CUB,
    emoji and mini-ImageNet.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.recommended({"horse": [0, 1], "zebra": [1, 1]})
    >>> [name for name, _ in model.estimator.steps]
    ['power', 'whiten', 'unit', 'classify']
    """
    if parameters.get("kernel") == "precomputed":
        parameters = {"prototype_transformer": None, **parameters}
    classifier = ZeroShotClassifier(
        Prototypes.coerce(prototypes),
        candidates=candidates,
        random_state=random_state,
        **{
            **REGRESSION,
            "prototype_transformer": prototype_transformer(),
            "seen_penalty": "auto",
            "temperature": "auto",
            **parameters,
        },
    )
    pipeline = Pipeline([*preprocessing().steps, ("classify", classifier)])
    of_classifier = [
        [{f"classify__{name}": values for name, values in part.items()} for part in grid]
        for grid in open_grids(parameters)
    ]
    folds = ClassKFold(5, shuffle=True, random_state=random_state) if cv is None else cv
    grid = (STEPS, *of_classifier) if param_grid is None else param_grid
    return ZeroShotSearchCV(pipeline, grid, cv=folds, n_jobs=n_jobs, verbose=verbose)


def prototype_transformer() -> FeatureNormalizer:
    """Return the unfitted transformer of prototypes."""
    return FeatureNormalizer(power=0.7, center=True)


def open_grids(given: dict[str, Any]) -> list[list[dict[str, list[Any]]]]:
    """Return the grids of kernel and prototypes, without the parameters that the user fixed."""
    kernels = KERNEL_GRIDS
    if "kernel" in given:
        own = [part for part in KERNEL_GRIDS if given["kernel"] in part["kernel"]]
        kernels = own or KERNEL_GRIDS[:1]
    left = [
        [{name: v for name, v in part.items() if name.split("__")[0] not in given} for part in grid]
        for grid in (kernels, [PROTOTYPES])
    ]
    return [[part for part in grid if part] or [{}] for grid in left]


def preprocessing() -> Pipeline:
    """Return the unfitted steps before the classifier: power, center, unit length, whitening."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=0.5, center=True)),
            ("whiten", WithinClassWhitener(4.0)),
            ("unit", FeatureNormalizer()),
        ]
    )
