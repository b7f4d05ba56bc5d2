"""ESZSL: an embarrassingly simple approach to zero-shot learning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.moments import Moments
from ...core.prototypes import Prototypes
from ...estimators.scoring import LinearScores
from ...linalg.sylvester import Factor, solve
from ...validation import check_interval
from .closed_form import ClosedFormPeer, not_offered, seen_prototypes, value_of


class ESZSL(ClosedFormPeer):
    """Bilinear compatibility x'V s of features and prototypes, by regularized least squares.

    With the samples as columns of X, the prototypes of the seen classes as columns of S, and
    Y_ij = 1 where sample i is of class j and -1 (`negative`) elsewhere, V minimizes

        ||X'V S - Y||^2 + gamma ||V S||^2 + lam ||X'V||^2 + gamma lam ||V||^2,

    so that V = (X X' + gamma I)^-1 X Y S' (S S' + lam I)^-1. A sample is given the class of the
    largest x'V s, which is also what `decision_function` returns. Long prototypes have large
    scores: the method expects them to be of one length.

    Parameters
    ----------
    prototypes, candidates, seen_penalty :
        As of `ZeroShotClassifier`.
    gamma : float >= 0, default=1.0
        Penalty in the feature space (gamma in the paper), against a sum over samples.
    lam : float >= 0, default=0.1
        Penalty in the semantic space (lambda in the paper), against a sum over classes.
    negative : float < 1, default=-1.0
        Target of the classes that a sample is not of. With -1, as printed, the many of them
        outweigh the one; 0 leaves the one alone, and is often better.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The matrix V.
    classes_, seen_classes_, unseen_classes_, prototypes_, n_features_in_ :
        As of `ZeroShotClassifier`.

    References
    ----------
    B. Romera-Paredes, P. H. S. Torr. An embarrassingly simple approach to zero-shot learning.
    ICML 2015.

    Examples
    --------
    >>> from zonkey.peers.zsl import ESZSL
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = ESZSL({**seen, **unseen}).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    _at_least_zero = ("gamma", "lam")
    project = not_offered("V s is no point of the feature space; ESZSL compares by x'V s.")

    def __init__(
        self,
        prototypes: Any = None,
        *,
        gamma: float = 1.0,
        lam: float = 0.1,
        negative: float = -1.0,
        candidates: Any = "unseen",
        seen_penalty: float = 0.0,
    ) -> None:
        super().__init__(prototypes, candidates=candidates, seen_penalty=seen_penalty)
        self.gamma = gamma
        self.lam = lam
        self.negative = negative

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_interval("negative", self.negative, -math.inf, 1, open_above=True)

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        S = seen_prototypes(moments).T
        sums = moments.class_sums[moments.counts > 0].T
        others = sums.sum(axis=1, keepdims=True) - sums
        XY = sums + self.negative * others  # 1 for the own class, `negative` for the others
        A = Factor.of(moments.A0).transformed(shift=self.gamma)
        B = Factor.of(S @ S.T).transformed(shift=self.lam)
        # Both inverses are Sylvester equations that lack one term.
        half = solve(A, Factor.zeros(len(S), like=A.values), XY @ S.T)
        V = value_of(half, "Use a larger `gamma`.")
        whole = solve(Factor.zeros(len(V), like=B.values), B, V)
        return {"projection_": value_of(whole, "Use a larger `lam`.").astype(dtype)}

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        V = self.projection_.astype(dtype, copy=False)
        S = known.matrix.astype(dtype)
        return LinearScores(S / 2, np.zeros(len(S), dtype), V)  # 2 z'(s / 2) = x'V s
