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

    For CUB and ImageNet, the authors' code first replaces each x by P'x: what a ridge regression
    of the one-hot labels L of the seen classes predicts for it, P = (X X' + r I)^-1 X L. The
    parameter `reduction` is r. W then encodes P'x, and cosines are between W P'x and s, or P'x and
    W's.

    Differences from the authors' code: rows of W are not scaled to unit length (AWA), and neither
    scores nor coordinates are standardized over all test samples (CUB, ImageNet), which would let a
    prediction depend on the other test samples.

    Parameters
    ----------
    direction : {"feature-to-semantic", "semantic-to-feature"}, default="feature-to-semantic"
        Space of the comparison: W x and s (F to S in the paper), or x and W's (S to F). W is
        the same.
    lam : float, default=1.0
        Weight >= 0 of the encoder relative to the decoder (lambda in the paper). 1 is balanced if
        features and prototypes have the same length.
    reduction : float, default=None
        Ridge penalty r >= 0 of the supervised reduction, in the units of X X'. The authors' code
        has 50 for CUB and 150 for ImageNet. None: features are not reduced.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Decoder W'; with a reduction P W', so that samples times it are points in the semantic
        space.
    reduction_ : ndarray of shape (n_features, min(n_features, n_seen)) or None
        The reduction P. With more seen classes than features, in a basis of what it reaches.

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
    reduction: float | None = parameter(default=None, within=Interval(0, also=(None,)))

    _compares_distances = False
    reduction_: np.ndarray | None = attribute()
    _in_semantic_space: bool = attribute()
    _decoder: np.ndarray = attribute()  # to the features, or to the reduced ones

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Older files are without a reduction."""
        parts = super().__zonkey_upgrade__(parts)
        state = parts["state"]
        if not state or "_decoder" in state:
            return parts
        return {**parts, "state": {**state, "reduction_": None, "_decoder": state["projection_"]}}

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        A0, sums, reduction = np.asarray(moments.A0), moments.class_sums.T, None
        if self.reduction is not None:
            reduction = _reduce(A0, sums[:, moments.counts > 0], self.reduction)
            A0, sums = reduction.T @ A0 @ reduction, reduction.T @ sums
        A = Factor.from_matrix(A0).rescale(scale=self.lam)
        Y, basis = reduce_to_span(moments.prototypes.matrix.astype(np.float64))
        B0 = (Y.T * moments.counts[None, :]) @ Y
        solution = solve(A, Factor.from_matrix(B0), (1 + self.lam) * (sums @ Y))
        decoder = value_of(solution, "Remove features that hardly vary, or change `lam`.")
        decoder = decoder if basis is None else decoder @ basis.T
        whole = decoder if reduction is None else reduction @ decoder
        return {
            "projection_": whole.astype(dtype),
            "reduction_": None if reduction is None else reduction.astype(dtype),
            "_decoder": decoder.astype(dtype),
            "_in_semantic_space": self.direction == "feature-to-semantic",
        }

    def _project(self, prototypes: Prototypes) -> Array:
        return prototypes.matrix.astype(self._decoder.dtype) @ self._decoder.T

    def _list_widths(self) -> tuple[int, ...]:
        return (*self.projection_.shape, len(self._decoder))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = known.matrix.astype(dtype)
        if not self._in_semantic_space:
            centers = centers @ self._decoder.astype(dtype, copy=False).T
        return LinearScores(unit_rows(centers) / 2, np.zeros(len(centers), dtype))

    def _map_samples(self, X: Array) -> Array:
        """Return unit vectors: with cosines, a penalty has the same effect on every sample."""
        M = self.projection_ if self._in_semantic_space else self.reduction_
        return unit_rows(np.asarray(X if M is None else X @ M.astype(X.dtype, copy=False)))


def _reduce(A0: np.ndarray, sums: np.ndarray, ridge: float) -> np.ndarray:
    """Return the ridge regression P (d x m) of one-hot labels on samples, given X X' and X L.

    With more classes than features, P'x = Q R x has an orthonormal Q, which changes neither errors
    nor cosines; R' (d x d) is returned then.
    """
    values, vectors = np.linalg.eigh(A0)
    values = np.maximum(values, 0) + ridge
    least = values.max() * len(values) * np.finfo(values.dtype).eps
    inverses = np.where(values > least, 1 / np.maximum(values, least), 0)  # of the least norm
    P = (vectors * inverses) @ (vectors.T @ sums)
    if P.shape[1] <= P.shape[0]:
        return P
    _, R = np.linalg.qr(P.T)
    return R.T
