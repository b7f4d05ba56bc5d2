"""The base class of transductive peers: `adapt` also learns from unlabeled samples."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from zonkey.constraints import validate_samples
from zonkey.streaming.priorities import row_priorities

from ..base import attribute, class_means
from .base import FewShotPeer, Support, center_of, center_rows


class TransductivePeer(FewShotPeer):
    """A system that learns from unlabeled samples; it adds `_adapt`.

    `fit` keeps in `_start` what `adapt` needs: normalized support samples "X" with "codes", the
    "center" of the features, and the parameters as they were.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes, by whose mean features are centered. None: features are scaled to
        unit length only.
    """

    is_transductive = True

    _start: dict[str, Any] = attribute()

    def adapt(self, X_unlabeled: Any) -> Self:
        """Return a fitted copy that has learned from unlabeled samples of the classes as well.

        The copy is an ordinary classifier: it predicts any sample, and for the unlabeled ones it
        predicts what the publication does. Samples of an earlier call are forgotten.
        Accuracies on the same samples are not comparable with those of inductive models.

        Parameters
        ----------
        X_unlabeled : array-like of shape (n_unlabeled, n_features)
            Samples without labels.

        Returns
        -------
        estimator
            The copy.
        """
        check_is_fitted(self, "classes_")
        X = np.asarray(validate_samples(self, X_unlabeled, reset=False))
        X = X[np.argsort(np.asarray(row_priorities(X, 0)), kind="stable")]
        other = copy.copy(self)
        vars(other).update(self._adapt(X))
        return other

    def _adapt(self, X: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes that change; X is in an order of its values."""
        raise NotImplementedError


def center_support(support: Support, **parameters: Any) -> dict[str, Any]:
    """Return data of a support set for `adapt`, centered by the base mean, of unit length."""
    center = center_of(support).astype(support.X.dtype)
    X = center_rows(support.X, center)
    return {"X": X, "codes": support.codes, "center": center, **parameters}


def start_means(start: dict[str, Any]) -> np.ndarray:
    """Return the class means of the normalized support samples, float64."""
    return class_means(start["X"], start["codes"])
