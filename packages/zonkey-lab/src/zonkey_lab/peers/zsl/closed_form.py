"""The base class of peers that are learned in closed form from class moments."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgWarning

from zonkey.bpl.moments import Moments
from zonkey.bpl.sylvester import Solution, Status
from zonkey.constraints import (
    check_classes,
    check_semantics,
    chunks_of,
    set_features,
    validate_labeled,
)
from zonkey.labels import as_labels, warn_user
from zonkey.parameters import is_auto
from zonkey.prototypes import Prototypes

from ..base import attribute
from .base import Peer


class ClosedFormPeer(Peer):
    """All parts of a peer except its equation.

    A subclass adds its parameters and fitted attributes as fields, and returns the latter from
    `_solve`. It predicts the class with the nearest W y; override
    `_linear_scores` to compare differently, and set `_compares_distances` to False if it compares
    no distances. Set `project` or `embed` to `refuse_method(reason)` if the method is meaningless
    for the peer, and `_needs_scatter` to False if `_solve` does not use A0, the most expensive
    moment.
    """

    _needs_scatter: ClassVar[bool] = True

    projection_: np.ndarray = attribute()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labeled samples of the seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training samples. Chunks are read once; they need prototypes, and a number as penalty.
        y : array-like of shape (n_samples,)
            Labels. Classes that have a prototype but no sample are the unseen ones. None for
            `Chunks`, which have their own labels.

        Returns
        -------
        self
            Fitted estimator.
        """
        with self._restore_on_failure():
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        one_hot, options = self.prototypes is None, {"n_reserve": 0, "scatter": self._needs_scatter}
        labels: Any = None
        needs_memory = one_hot or is_auto(self.seen_penalty)
        chunks = chunks_of(X, y, in_memory=needs_memory)
        if chunks is not None:
            if needs_memory:
                raise ValueError(
                    "Chunks must come with prototypes and a number as `seen_penalty`; got "
                    f"{'no ' if one_hot else ''}prototypes and {self.seen_penalty!r}. Pass both, "
                    "or arrays in memory."
                )
            known = Prototypes.coerce(self.prototypes)
            moments = Moments(known, **options).update(chunks)
            set_features(self, moments.n_features, chunks.feature_names)
            dtype = moments.class_sums.dtype
        else:
            X, y = validate_labeled(self, X, y)
            labels = as_labels(y)  # scikit-learn rejects integers in an object array
            check_classes(labels)
            known = Prototypes.one_hot(labels) if one_hot else Prototypes.coerce(self.prototypes)
            moments = Moments.from_arrays(X, labels, known, **options)
            dtype = X.dtype
        seen = moments.seen_labels
        check_semantics(known, seen, self._candidate_labels(known, seen))  # fails early
        penalty = self._penalty(X, labels)
        return self._settle(known, seen, self._solve(moments, dtype), penalty)

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        """Return the fitted attributes by name, `projection_` in the dtype of the samples."""
        raise NotImplementedError


def reduce_to_span(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return prototypes (m x k) in an orthonormal basis of their span, and that basis (k x m).

    If there are as many prototypes as dimensions, both stay: the basis is None. Outside the span
    projections are zero, so nothing larger than k x m is needed.
    """
    if Y.shape[1] <= Y.shape[0]:
        return Y, None
    basis, turned = np.linalg.qr(Y.T)
    return turned.T, basis


def value_of(solution: Solution, remedy: str) -> np.ndarray:
    """Return the value of a solution; warn if it is dominated by rounding errors.

    An exactly singular equation needs no warning: its minimum-norm solution is the limit of
    a vanishing ridge.
    """
    if solution.status is Status.NEAR_SINGULAR:
        warn_user(
            f"The model is not well determined: its equation is within "
            f"{solution.stats.gap / solution.stats.scale:.0e} of a singular one, so most digits "
            f"are lost. {remedy}",
            LinAlgWarning,
        )
    return np.asarray(solution.value)
