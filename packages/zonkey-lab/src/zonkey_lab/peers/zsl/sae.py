"""SAE: the semantic autoencoder of Kodirov, Xiang and Gong."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.bpl.moments import Moments
from zonkey.bpl.sylvester import solve
from zonkey.bpl.symmetric import Factor
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Interval, Options
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter, unit_rows
from .closed_form import ClosedFormPeer, reduce_to_span, value_of

_DIRECTIONS = ("feature-to-semantic", "semantic-to-feature")


class SAE(ClosedFormPeer):
    """Semantic autoencoder: a linear encoder to the semantic space whose transpose decodes.

    With the samples as columns of X and the prototypes of their classes as columns of S, the
    encoder W (k x d) minimizes ||X - W'S||^2 + lam ||W X - S||^2. This leads to the Sylvester
    equation (S S') W + lam W (X X') = (1 + lam) S X', whose minimum-norm solution is taken.

    `decision_function` returns the cosine of W x and s, or of x and W's, as in the authors' code.
    The cosine is invariant to length, which the regression shrinks unevenly for unseen classes.
    Two steps that the authors' code applies to single data sets are omitted: scaling rows of W to
    unit length, and standardizing scores over all test samples.

    Parameters
    ----------
    direction : {"feature-to-semantic", "semantic-to-feature"}, default="feature-to-semantic"
        Space of the comparison: W x and s (F to S in the paper), or x and W's (S to F). W is
        the same.
    lam : float, default=1.0
        Weight >= 0 of the encoder relative to the decoder (lambda in the paper). 1 is balanced if
        features and prototypes have the same length.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Decoder W'.

    See Also
    --------
    ESZSL : Bilinear compatibility, also in closed form.
    zonkey.ZeroShotClassifier : The paper's model, which minimizes both errors too.

    References
    ----------
    E. Kodirov, T. Xiang, S. Gong. Semantic autoencoder for zero-shot learning. CVPR 2017.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import SAE
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [0.8, 0.6]}
    >>> model = SAE(prototypes, candidates="all").fit([[0, 2], [2, 0]], ["horse", "tiger"])
    >>> model.decision_function([[4, 3]]).round(2)
    array([[0.6, 0.8, 1. ]])
    """

    direction: str = parameter(default="feature-to-semantic", within=Options(*_DIRECTIONS))
    lam: float = parameter(default=1.0, within=Interval(0))

    _compares_distances = False
    _in_semantic_space: bool = attribute()

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        A = Factor.from_matrix(moments.A0).rescale(scale=self.lam)
        Y, basis = reduce_to_span(moments.prototypes.matrix.astype(np.float64))
        B0, C0 = (Y.T * moments.counts[None, :]) @ Y, moments.class_sums.T @ Y
        solution = solve(A, Factor.from_matrix(B0), (1 + self.lam) * C0)
        decoder = value_of(solution, "Remove features that hardly vary, or change `lam`.")
        decoder = decoder if basis is None else decoder @ basis.T
        semantic = self.direction == "feature-to-semantic"
        return {"projection_": decoder.astype(dtype), "_in_semantic_space": semantic}

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = known.matrix.astype(dtype)
        if not self._in_semantic_space:
            centers = centers @ self.projection_.astype(dtype, copy=False).T
        return LinearScores(unit_rows(centers) / 2, np.zeros(len(centers), dtype))

    def _map_samples(self, X: Array) -> Array:
        """Return unit vectors: with cosines, a penalty has the same effect on every sample."""
        Z = X @ self.projection_.astype(X.dtype, copy=False) if self._in_semantic_space else X
        return unit_rows(np.asarray(Z))
