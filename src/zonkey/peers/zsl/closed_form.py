"""The base of peers that are learned in closed form from the moments of the classes."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ...core.labels import as_labels
from ...core.moments import Moments
from ...core.prototypes import Prototypes
from ...estimators.calibration import calibrate
from ...estimators.scoring import NearestPrototypeMixin
from ...linalg.sylvester import Solution, Status
from ...validation import check_classes, check_interval, is_auto

_DTYPES: Any = [np.float64, np.float32]
# From `warnings.warn` up to the line that called `fit`.
_STACK = 4


class ClosedFormPeer(NearestPrototypeMixin, BaseEstimator):
    """All of a peer but its equation.

    A peer adds its parameters in `__init__`, names in `_at_least_zero` those that are numbers of
    at least 0, and returns from `_solve` what it learns. It compares with the nearest W y, unless
    `_coordinates` or `_linear_scores` say otherwise, and takes `project` or `embed` away by
    `not_offered` where they mean nothing.
    """

    _at_least_zero: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, prototypes: Any = None, *, candidates: Any = "unseen", seen_penalty: Any = 0.0
    ) -> None:
        self.prototypes = prototypes
        self.candidates = candidates
        self.seen_penalty = seen_penalty

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the samples X (n x d) of seen classes and their labels y."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=_DTYPES)
        labels = as_labels(y)  # scikit-learn rejects integers in an object array
        check_classes(labels)
        one_hot = self.prototypes is None
        known = Prototypes.one_hot(labels) if one_hot else Prototypes.coerce(self.prototypes)
        moments = Moments.from_arrays(X, labels, known, n_reserve=0)
        self._candidate_labels(known, moments.seen_labels)  # fails early
        learned = self._solve(moments, X.dtype)
        penalty = self.seen_penalty
        if is_auto(penalty):
            penalty = calibrate(self, X, labels)["seen_penalty"]
        self.seen_penalty_ = float(penalty)
        vars(self).update(learned)
        self._set_known(known, moments.seen_labels)
        return self

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        """Return the fitted attributes by name, `projection_` in the dtype of the samples."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_interval("seen_penalty", self.seen_penalty, float("-inf"), or_auto=True)
        for name in self._at_least_zero:
            check_interval(name, getattr(self, name), 0)


def seen_prototypes(moments: Moments) -> np.ndarray:
    """Return the prototypes of the classes with samples, one a row, in float64."""
    return moments.prototypes.matrix[moments.counts > 0].astype(np.float64)


def value_of(solution: Solution, remedy: str) -> np.ndarray:
    """Return the value, with a warning where rounding decides about part of it.

    A singular equation is no reason to warn: its solution of least norm is the limit of a
    vanishing ridge, and is exact.
    """
    if solution.status is Status.NEAR_SINGULAR:
        warnings.warn(
            f"The model is not well determined: its equation is within "
            f"{solution.stats.gap / solution.stats.scale:.0e} of a singular one, so that most "
            f"digits are lost. {remedy}",
            LinAlgWarning,
            stacklevel=_STACK,
        )
    return np.asarray(solution.value)


def not_offered(reason: str) -> Any:
    """Return what stands for an inherited method that means nothing here: `hasattr` is False."""

    def missing(_: object) -> Any:
        raise AttributeError(reason)

    return property(missing, doc=reason)
