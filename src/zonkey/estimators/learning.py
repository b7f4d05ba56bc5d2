"""What zero-shot and few-shot learning share: semantic map, parameter checks and warnings.

A prototype may be transformed first (power, centering, unit length) and then lifted by a kernel.
Both are learned from the prototypes of the seen classes alone, so the same map serves classes that
become known later.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..core.frame import BaseClasses
from ..core.kernels import KERNELS, Lift
from ..core.labels import listed
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from ..linalg.sylvester import Status
from ..validation import check_count, check_interval, check_option, is_auto
from .scoring import ProbabilityMixin

# From `warnings.warn` to the caller of `fit`, if `fit` calls the caller of `warn_of_trouble`.
_STACK = 4


@dataclass(frozen=True, eq=False)
class SemanticMap:
    """A fitted transformer of prototypes and a kernel lift, each of which may be None.

    `columns` are the columns of the seen classes in a precomputed kernel, else None.
    """

    transformer: Any
    lift: Lift | None
    columns: np.ndarray | None

    @classmethod
    def of(cls, estimator: Any, prototypes: Prototypes, seen: np.ndarray) -> SemanticMap:
        """Learn the map that the parameters of `estimator` ask for from the seen prototypes."""
        columns: np.ndarray | None = None
        transformer: Any = None
        lift: Lift | None = None
        Y_s = prototypes.subset(seen).matrix.astype(np.float64)
        if estimator.kernel == "precomputed":
            require_square(prototypes)
            columns = prototypes.positions(seen)
            Y_s = Y_s[:, columns]
        if estimator.prototype_transformer is not None:
            transformer = clone(estimator.prototype_transformer)
            Y_s = np.asarray(transformer.fit_transform(Y_s))
        if estimator.kernel is not None:
            names = ("gamma", "degree", "coef0")
            shape = {name: getattr(estimator, name) for name in names}
            lift = Lift.of(Y_s, estimator.kernel, **shape)
        return cls(transformer, lift, columns)

    @property
    def is_identity(self) -> bool:
        """Whether prototypes stay as they are."""
        return self.transformer is None and self.lift is None

    def coordinates(self, Y: np.ndarray) -> np.ndarray:
        """Return the vectors that W is applied to, one per row."""
        if self.is_identity:
            return Y
        Y = Y.astype(np.float64)
        if self.columns is not None:
            Y = Y[:, self.columns]
        if self.transformer is not None:
            Y = np.asarray(self.transformer.transform(Y))
        return Y if self.lift is None else np.asarray(self.lift.transform(Y))

    def apply(self, prototypes: Prototypes) -> Prototypes:
        """Return the same classes with their coordinates."""
        if self.is_identity:
            return prototypes
        return Prototypes(prototypes.labels, self.coordinates(prototypes.matrix))


class ProjectionLearner(ProbabilityMixin, BaseEstimator):
    """Base class of the zero-shot and the few-shot classifier; `fit` sets `_semantics`."""

    competition: str | None
    mu: float
    random_state: Any
    _semantics: SemanticMap

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        return self._semantics.coordinates(prototypes.matrix)

    def _mu(self) -> float:
        """Return the weight of the push, which only "second-best" has."""
        return self.mu if self.competition == "second-best" else 0.0

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(2**31 - 1)


def moments_of(source: Moments | BaseClasses) -> Moments:
    """Return the moments themselves, or those of base classes."""
    return source.moments if isinstance(source, BaseClasses) else source


def mapped_classes(
    estimator: Any, known: Prototypes, source: Moments | BaseClasses, classes: Prototypes, key: Any
) -> tuple[SemanticMap, BaseClasses]:
    """Return the map of the known prototypes, and the seen classes under mapped `classes`.

    The decomposition of a given `BaseClasses` is reused if possible, and so is an earlier result
    for the same semantic parameters and `key`.
    """
    moments, per = moments_of(source), estimator.weight_per
    twin = source if isinstance(source, BaseClasses) and source.per == per else None

    def learned() -> tuple[SemanticMap, BaseClasses]:
        semantics = SemanticMap.of(estimator, known, moments.seen_labels)
        lifted = semantics.apply(classes)
        same = lifted is moments.prototypes or lifted == moments.prototypes
        if same and twin is not None:
            return semantics, twin
        under = moments if same else moments.with_prototypes(lifted)
        return semantics, BaseClasses(under, per, twin=twin)

    if isinstance(source, Moments):
        return learned()
    names = ("kernel", "gamma", "degree", "coef0", "prototype_transformer", "weight_per")
    try:
        key = joblib.hash([[getattr(estimator, name) for name in names], key])
    except PicklingError:  # a lambda, for instance, has no key
        return learned()
    return source.remembered(key, learned)


def require_samples(base: BaseClasses, remedy: str) -> None:
    """Reject seen classes without a raw sample to perturb."""
    labels = base.prototypes.labels
    kept = [base.moments.samples_of(label).shape[0] for label in labels.tolist()]
    empty = labels[[n == 0 for n in kept]]
    if empty.size:
        raise ValueError(
            "Synthesis needs a raw sample of every seen class; the moments keep none of "
            f"{listed(empty)} (n_reserve={base.moments.n_reserve}). Gather them again with a "
            f"larger `n_reserve`, or use {remedy}."
        )


def require_square(prototypes: Prototypes) -> None:
    """Reject prototypes that are not a kernel matrix of the classes."""
    if prototypes.n_dimensions != len(prototypes):
        raise ValueError(
            'kernel="precomputed" needs prototypes that are kernel values with all classes, in '
            f"sorted order of the labels: {len(prototypes)} each; got {prototypes.n_dimensions}. "
            "Pass a square kernel matrix."
        )


def restricted(prototypes: Prototypes, labels: Any, kernel: str | None) -> Prototypes:
    """Return the prototypes of these classes only; for a precomputed kernel, also the columns."""
    if kernel != "precomputed":
        return prototypes.subset(labels)
    require_square(prototypes)
    rows = np.unique(prototypes.positions(labels))
    return Prototypes(prototypes.labels[rows], prototypes.matrix[np.ix_(rows, rows)])


def check_shared_parameters(estimator: Any, *, may_be_auto: bool) -> None:
    """Check the parameters that the zero-shot and the few-shot classifier share."""
    check_interval("forward_weight", estimator.forward_weight, 0, 1)
    check_option("weight_per", estimator.weight_per, ("sample", "class"))
    check_option("scaling", estimator.scaling, ("squared-norm", None))
    check_interval("rho", estimator.rho, 0, 1)
    check_interval("alpha", estimator.alpha, 0, 1, open_above=True)
    check_interval("mu", estimator.mu, 0, 1, open_above=True)
    check_interval("beta", estimator.beta, 0)
    check_interval("tie_tol", estimator.tie_tol, 0)
    check_interval("tol", estimator.tol, 0)
    check_count("n_neighbors", estimator.n_neighbors, 1)
    check_count("n_synthetic", estimator.n_synthetic, 1)
    if estimator.max_iter is not None:
        check_count("max_iter", estimator.max_iter, 1)
    _check_semantics(estimator)
    _check_decision(estimator, may_be_auto)


def _check_semantics(estimator: Any) -> None:
    check_option("kernel", estimator.kernel, (*KERNELS, None))
    check_interval("gamma", estimator.gamma, 0)
    check_count("degree", estimator.degree, 1)
    check_interval("coef0", estimator.coef0, 0)
    transformer = estimator.prototype_transformer
    if transformer is not None and not hasattr(transformer, "transform"):
        raise TypeError(
            "`prototype_transformer` must be a scikit-learn transformer; got "
            f"{type(transformer).__name__}. Use for instance FeatureNormalizer(power=0.5)."
        )
    if estimator.kernel == "precomputed" and transformer is not None:
        raise ValueError(
            '`prototype_transformer` must be None with kernel="precomputed", whose prototypes are '
            f"kernel values; got {type(transformer).__name__}. Transform before the kernel."
        )


def _check_decision(estimator: Any, may_be_auto: bool) -> None:
    """Check the parameters that turn scores into decisions and probabilities."""
    check_interval("seen_penalty", estimator.seen_penalty, -math.inf, or_auto=may_be_auto)
    check_interval("temperature", estimator.temperature, 0, open_below=True, or_auto=may_be_auto)
    if estimator.reject_below is not None:
        check_interval("reject_below", estimator.reject_below, 0, 1)
    if estimator.seen_prior is None:
        return
    check_interval("seen_prior", estimator.seen_prior, 0, 1, open_below=True, open_above=True)
    if not is_auto(estimator.temperature) and estimator.temperature == 1.0:
        raise ValueError(
            "`seen_prior` shifts scores by the temperature, which must be fitted to them; got the "
            'default of 1.0, far from the scale of most scores. Use temperature="auto", or pass '
            "one that was."
        )


def warn_of_trouble(
    statuses: Iterable[Status], used: Sequence[float] | np.ndarray, *, beta: float, mu: float
) -> None:
    """Warn of ill-conditioned systems, and of steps with a smaller mu; `used` is mu per step."""
    trouble = next((status for status in statuses if status is not Status.SOLVED), None)
    if trouble is not None:
        warnings.warn(
            f"The projection is not well determined with beta={beta}: {trouble.value}. "
            "Increase `beta`.",
            LinAlgWarning,
            stacklevel=_STACK,
        )
    shrunk = [value for value in used if value < mu]
    if shrunk:
        warnings.warn(
            f"`mu` was lowered from {mu} to {min(shrunk):.3g} in {len(shrunk)} of "
            f"{len(used)} steps, because competition would have left less than a quarter of "
            "the curvature of the problem. Decrease `alpha` or `mu`.",
            ConvergenceWarning,
            stacklevel=_STACK,
        )
