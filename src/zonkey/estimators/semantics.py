"""From the prototypes that a user gives to the vectors that W is applied to.

A prototype may be transformed first (power, centering, unit length) and then lifted by a kernel;
both are learned from the prototypes of the seen classes alone, so that the same map serves classes
that become known later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any, TypeVar

import numpy as np
from joblib import hash as fingerprint
from sklearn.base import clone

from ..core.frame import BaseClasses
from ..core.kernels import KERNELS, Lift
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from .validation import check_count, check_interval, check_option

Learned = TypeVar("Learned")


@dataclass(frozen=True, eq=False)
class SemanticMap:
    """A fitted transformer of prototypes and a lift, either of which may be missing.

    Attributes
    ----------
    transformer : fitted scikit-learn transformer or None
    lift : Lift or None
    columns : ndarray or None
        For a precomputed kernel, the columns that belong to seen classes.
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
        """Return the vectors that W is applied to, one a row."""
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
        return Prototypes(prototypes.labels, self.coordinates(prototypes.matrix))


def seen_through(
    estimator: Any, known: Prototypes, source: Moments | BaseClasses
) -> tuple[SemanticMap, BaseClasses]:
    """Return what is done to the known prototypes, and the seen classes after it.

    What was diagonalized once, and is handed over as such, is used again wherever it can be.
    """
    shared = source if isinstance(source, BaseClasses) else None
    moments = source if isinstance(source, Moments) else source.moments
    per = estimator.weight_per
    twin = shared if shared is not None and shared.per == per else None

    def learned() -> tuple[SemanticMap, BaseClasses]:
        semantics = SemanticMap.of(estimator, known, moments.seen_labels)
        lifted = semantics.apply(known)
        same = lifted == moments.prototypes
        if same and twin is not None:
            return semantics, twin
        under = moments if same else moments.with_prototypes(lifted)
        return semantics, BaseClasses(under, per, twin=twin)

    if shared is None:
        return learned()
    return remembered_map(estimator, shared, [known.labels, known.matrix], learned)


def remembered_map(
    estimator: Any, base: BaseClasses, of_what: Any, learned: Callable[[], Learned]
) -> Learned:
    """Return what was learned of prototypes with the same parameters before, or is learned now.

    `of_what` is all else that it depends on.
    """
    names = ("kernel", "gamma", "degree", "coef0", "prototype_transformer", "weight_per")
    try:
        key = fingerprint([[getattr(estimator, name) for name in names], of_what])
    except PicklingError:  # such as a lambda: nothing to tell it by later
        return learned()
    return base.remembered(key, learned)


def check_semantics(estimator: Any) -> None:
    """Check the parameters that say what becomes of the prototypes."""
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


def require_square(prototypes: Prototypes) -> None:
    """Refuse prototypes that cannot be a kernel between the classes themselves."""
    if prototypes.n_dimensions != len(prototypes):
        raise ValueError(
            'kernel="precomputed" needs prototypes that are kernel values with all classes, in '
            f"sorted order of the labels: {len(prototypes)} each; got {prototypes.n_dimensions}. "
            "Pass a square kernel matrix."
        )


def restricted(prototypes: Prototypes, labels: Any, kernel: str | None) -> Prototypes:
    """Return the prototypes of these classes only, for a precomputed kernel their columns too."""
    if kernel != "precomputed":
        return prototypes.subset(labels)
    require_square(prototypes)
    rows = np.unique(prototypes.positions(labels))
    return Prototypes(prototypes.labels[rows], prototypes.matrix[np.ix_(rows, rows)])
