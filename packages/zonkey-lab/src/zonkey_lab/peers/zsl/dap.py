"""DAP: direct attribute prediction of Lampert, Nickisch and Harmeling."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from ..convex import linear_classifiers, logistic_loss
from .base import PeerTask, SamplePeer, refuse_method

_CURVATURE = 0.15  # of the logistic loss: at most a quarter


class DAP(SamplePeer):
    """Direct attribute prediction: one classifier per attribute, then the likeliest class.

    The prototype y of a class is turned into bits: a_m = 1 if y_m is above a threshold. Logistic
    regression gives p(a_m = 1 | x) = 1 / (1 + exp(-(w_m'x + b_m))); w_m and b_m minimize

        sum_i -log p(a_m of the class of x_i | x_i) + ridge / 2 ||w_m||^2.

    The class with the largest posterior is predicted, if attributes are independent:

        sum_m log p(a_m | x) - log p(a_m),

    where p(a_m = 1) is the share of seen classes with the attribute. `decision_function` returns
    sum_m a_m (w_m'x + b_m) - log p(a_m), which is this sum up to a number that all classes of a
    sample share, sum_m log p(a_m = 0 | x).

    Differences from the reference: logistic regression on the given features replaces support
    vector machines with several kernels, whose probabilities are calibrated afterwards. Attributes
    that all seen classes share cannot be learned and are left out.

    Parameters
    ----------
    threshold : float, default=None
        Values of a prototype above it are 1. None: the mean of each attribute over the seen
        classes. The reference uses the mean over all classes for attributes with real values.
    ridge : float, default=0.3
        Ridge penalty > 0, relative to a sum over samples: 1 / C of the reference, which chooses C
        by cross-validation. The default suits features of unit length.

    Attributes
    ----------
    classifiers_ : ndarray of shape (n_features, n_dimensions)
        Weights w_m as columns; zero for attributes that are left out.
    intercepts_ : ndarray of shape (n_dimensions,)
        Intercepts b_m.

    See Also
    --------
    ConSE : Classifiers of seen classes instead of attributes.
    ESZSL : Learns the compatibility of features and attributes at once.

    References
    ----------
    C. H. Lampert, H. Nickisch, S. Harmeling. Learning to detect unseen object classes by
    between-class attribute transfer. CVPR 2009. Attribute-based classification for zero-shot
    visual object categorization. TPAMI 36(3), 2014.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import DAP
    >>> prototypes = {"horse": [-1, 1], "tiger": [1, -1], "zebra": [1, 1], "snail": [-1, -1]}
    >>> X = [[-1, 1], [1, -1], [-1, -1]]
    >>> model = DAP(prototypes, ridge=0.01, candidates="all").fit(X, ["horse", "tiger", "snail"])
    >>> model.predict([[1, 1]])
    array(['zebra'], dtype='<U5')
    """

    threshold: float | None = parameter(default=None, within=Interval(also=(None,)))
    ridge: float = parameter(default=0.3, within=Interval(0, open_below=True))

    _compares_distances = False
    project = refuse_method("Classifiers of attributes map no prototype to the feature space.")
    embed = refuse_method("Log-odds of attributes are not a point in the space of the prototypes.")

    classifiers_: np.ndarray = attribute()
    intercepts_: np.ndarray = attribute()
    _thresholds: np.ndarray = attribute()
    _shares: np.ndarray = attribute()

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        Y = task.Y
        thresholds = Y.mean(axis=0)
        if self.threshold is not None:
            thresholds = np.full(Y.shape[1], float(self.threshold))
        bits = thresholds < Y
        shares = bits.mean(axis=0)
        varies = (shares > 0) & (shares < 1)
        W, b = np.zeros((task.X.shape[1], len(shares))), np.zeros(len(shares))
        if varies.any():
            targets = np.where(bits[:, varies], 1, -1).astype(np.float32)[task.codes]
            W[:, varies], b[varies] = linear_classifiers(
                task.X,
                logistic_loss(targets),
                targets.shape[1],
                ridge=self.ridge,
                curvature=_CURVATURE,
            )
        dtype = task.X.dtype
        learned = {"classifiers_": W.astype(dtype), "intercepts_": b.astype(dtype)}
        return {**learned, "_thresholds": thresholds, "_shares": shares}

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        bits = self._thresholds < known.matrix
        shares = np.where((self._shares > 0) & (self._shares < 1), self._shares, 0.5)
        prior = np.where(bits, np.log(shares), np.log1p(-shares)).sum(axis=1)
        constants = prior - bits @ self.intercepts_.astype(np.float64)
        W = self.classifiers_.astype(dtype, copy=False)
        return LinearScores(bits.astype(dtype) / 2, constants.astype(dtype), W)

    def _get_learned(self) -> np.ndarray:
        return self.classifiers_
