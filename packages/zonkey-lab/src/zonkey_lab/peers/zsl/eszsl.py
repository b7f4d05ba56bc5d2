"""ESZSL: the embarrassingly simple approach of Romera-Paredes and Torr."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.bpl.moments import Moments
from zonkey.bpl.sylvester import solve
from zonkey.bpl.symmetric import Factor
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Interval
from zonkey.prototypes import Prototypes

from ..base import parameter
from .base import refuse_method
from .closed_form import ClosedFormPeer, reduce_to_span, value_of


class ESZSL(ClosedFormPeer):
    """Bilinear compatibility x'V s of features and prototypes, by regularized least squares.

    With the samples as columns of X, the prototypes of the seen classes as columns of S, and
    Y_ij = 1 if sample i is of class j, else -1 (`negative`), V minimizes

        ||X'V S - Y||^2 + gamma ||V S||^2 + lam ||X'V||^2 + gamma lam ||V||^2,

    so V = (X X' + gamma I)^-1 X Y S' (S S' + lam I)^-1. The class with the largest x'V s is
    predicted; `decision_function` returns these values. Scores grow with the length of a
    prototype, so prototypes should have the same length.

    Parameters
    ----------
    gamma : float, default=1.0
        Penalty >= 0 in the feature space (gamma in the paper), relative to a sum over samples.
    lam : float, default=0.1
        Penalty >= 0 in the semantic space (lambda in the paper), relative to a sum over classes.
    negative : float, default=-1.0
        Target < 1 of the other classes. -1 is printed in the paper; 0 is often better, since the
        many other classes then do not outweigh the one class of a sample.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Matrix V.

    See Also
    --------
    SAE : Semantic autoencoder, also in closed form.
    zonkey.ZeroShotClassifier : The paper's model.

    References
    ----------
    B. Romera-Paredes, P. H. S. Torr. An embarrassingly simple approach to zero-shot learning.
    ICML 2015.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import ESZSL
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = ESZSL({**seen, **unseen}).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    gamma: float = parameter(default=1.0, within=Interval(0))
    lam: float = parameter(default=0.1, within=Interval(0))
    negative: float = parameter(default=-1.0, within=Interval(high=1, open_above=True))

    _compares_distances = False
    project = refuse_method("V s is not a point in the feature space; ESZSL compares by x'V s.")

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        seen = moments.counts > 0
        rows, basis = reduce_to_span(moments.prototypes.matrix[seen].astype(np.float64))
        S = rows.T
        sums = moments.class_sums[seen].T
        others = sums.sum(axis=1, keepdims=True) - sums
        XY = sums + self.negative * others  # targets: 1 for the own class, `negative` for others
        A = Factor.from_matrix(moments.A0).rescale(shift=self.gamma)
        B = Factor.from_matrix(S @ S.T).rescale(shift=self.lam)
        # Each inverse is a Sylvester equation without one of its terms.
        half = solve(A, Factor.zeros(len(S), like=A.values), XY @ S.T)
        V = value_of(half, "Increase `gamma`.")
        whole = solve(Factor.zeros(len(V), like=B.values), B, V)
        V = value_of(whole, "Increase `lam`.")
        return {"projection_": (V if basis is None else V @ basis.T).astype(dtype)}

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        V = self.projection_.astype(dtype, copy=False)
        S = known.matrix.astype(dtype)
        return LinearScores(S / 2, np.zeros(len(S), dtype), V)  # 2 z'(s / 2) = x'V s
