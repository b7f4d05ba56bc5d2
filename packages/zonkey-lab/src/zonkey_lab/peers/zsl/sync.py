"""SynC: the synthesized classifiers of Changpinyo, Chao, Gong and Sha."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import softmax, squared_distances
from zonkey.bpl.kernels import median_squared_distance
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from ..convex import linear_classifiers, squared_hinge_loss
from .base import PeerTask, SamplePeer, refuse_method

_CURVATURE = 2.0  # of the squared hinge: the first step is then a least-squares solution
_RANK = 1e-10  # singular values of S below this share count as zero


class SynC(SamplePeer):
    """Synthesized classifiers: every class is a mixture of phantom classes.

    A class c with prototype y_c has the classifier w_c = sum_r s_cr v_r of phantom classes r with
    classifiers v_r and places b_r in the semantic space, where

        s_cr = exp(-d(y_c, b_r)) / sum_q exp(-d(y_c, b_q)),   d(y, b) = ||y - b||^2 / (sigma^2 u),

    u the median squared distance between seen prototypes. The v_r minimize

        sum_c sum_i max(0, 1 - t_ic w_c'x_i)^2 + lam / 2 sum_c ||w_c||^2

    over the seen classes c, with t_ic = 1 if sample i is of class c, else -1. Phantom classes are
    placed at the seen prototypes, as in the experiments of the reference. S, with a row s_c for
    each seen class, is then square, so the w_c of seen classes are free: they are learned one
    against the others, and V = S^-1 W. The class with the largest w_c'x is predicted;
    `decision_function` returns these values.

    Differences from the reference: classifiers have an intercept, which is mixed as they are, and
    sigma is relative, so that 1 suits any semantic space. The variants with learned places b_r and
    with the loss of Crammer and Singer are omitted: the latter costs more and is not better on the
    features we have.

    Parameters
    ----------
    sigma : float, default=1.0
        Bandwidth > 0 of the similarities, chosen by cross-validation in the reference.
    lam : float, default=3.0
        Ridge penalty > 0 (lambda in the reference), relative to a sum over samples. The default,
        chosen on held-out training classes of CUB, suits features of unit length.

    Attributes
    ----------
    classifiers_ : ndarray of shape (n_features, n_seen_classes)
        Classifiers w_c of the seen classes as columns.
    intercepts_ : ndarray of shape (n_seen_classes,)
        Their intercepts.

    See Also
    --------
    EXEM : Predicts exemplars instead of classifiers, by the same authors.
    ConSE : Combines prototypes of seen classes instead of classifiers.

    References
    ----------
    S. Changpinyo, W.-L. Chao, B. Gong, F. Sha. Synthesized classifiers for zero-shot learning.
    CVPR 2016.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import SynC
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "snail": [-1, -1], "zebra": [1, 1]}
    >>> X = [[0, 1], [1, 0], [-1, -1]]
    >>> model = SynC(prototypes, lam=0.1).fit(X, ["horse", "tiger", "snail"])
    >>> model.with_candidates(["snail", "zebra"]).predict([[1, 1], [-1, -1]])
    array(['zebra', 'snail'], dtype='<U5')
    """

    sigma: float = parameter(default=1.0, within=Interval(0, open_below=True))
    lam: float = parameter(default=3.0, within=Interval(0, open_below=True))

    _compares_distances = False
    project = refuse_method("The classifier of a class is not a point in the feature space.")
    embed = refuse_method("Scores of seen classes are not a point in the semantic space.")

    classifiers_: np.ndarray = attribute()
    intercepts_: np.ndarray = attribute()
    _seen_matrix: np.ndarray = attribute()
    _inverse: np.ndarray = attribute()
    _unit: float = attribute()

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        Y, m, dtype = task.Y, task.n_classes, task.X.dtype
        loss = squared_hinge_loss(task.codes, m)
        W, b = linear_classifiers(task.X, loss, m, ridge=self.lam, curvature=_CURVATURE)
        unit = float(self.sigma) ** 2 * median_squared_distance(Y)
        return {
            "classifiers_": W.astype(dtype),
            "intercepts_": b.astype(dtype),
            "_seen_matrix": Y,
            "_inverse": np.linalg.pinv(_similarities(Y, Y, unit), rcond=_RANK),
            "_unit": unit,
        }

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        # The weights of the seen classifiers are moderate, unlike the inverse and V.
        S = _similarities(known.matrix.astype(np.float64), self._seen_matrix, self._unit)
        weights = S @ self._inverse
        centers = weights @ self.classifiers_.astype(np.float64).T / 2
        constants = -weights @ self.intercepts_.astype(np.float64)
        return LinearScores(centers.astype(dtype), constants.astype(dtype))

    def _get_learned(self) -> np.ndarray:
        return self.classifiers_


def _similarities(Y: np.ndarray, B: np.ndarray, unit: float) -> np.ndarray:
    """Return s_cr for the rows of Y and B."""
    return np.asarray(softmax(-np.asarray(squared_distances(Y, B)) / unit))
