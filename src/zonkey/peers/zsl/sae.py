"""SAE: the semantic autoencoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.moments import Moments
from ...core.prototypes import Prototypes
from ...estimators.scoring import LinearScores
from ...linalg.sylvester import Factor, solve
from ...validation import check_option
from .closed_form import ClosedFormPeer, value_of

_DIRECTIONS = ("feature-to-semantic", "semantic-to-feature")


class SAE(ClosedFormPeer):
    """Semantic autoencoder: a linear encoder to the semantic space whose transpose decodes.

    With the samples as columns of X and the prototypes of their classes as columns of S, the
    encoder W (k x d) minimizes ||X - W'S||^2 + lam ||W X - S||^2, which is the Sylvester equation
    (S S') W + lam W (X X') = (1 + lam) S X'. Where it leaves part of W open, that part is zero.

    A sample is compared with a class by the cosine, either of W x and s or of x and W's, as in the
    authors' programs; `decision_function` returns it. The regression shrinks W x and W's of
    unseen classes, some more than others, and the cosine does not depend on lengths. What the
    programs add for single data sets is left out: rows of W scaled to unit length, and scores
    standardized over all test samples, by which a prediction would depend on the others.

    Parameters
    ----------
    prototypes, candidates, seen_penalty :
        As of `ZeroShotClassifier`.
    direction : {"feature-to-semantic", "semantic-to-feature"}, default="feature-to-semantic"
        Where samples and classes meet: W x and s (F to S in the paper), or x and W's (S to F).
        The learned W is the same.
    lam : float >= 0, default=1.0
        Weight of the encoder against the decoder (lambda in the paper). 1 is balanced where
        features and prototypes have the same length.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The decoder W'.
    classes_, seen_classes_, unseen_classes_, prototypes_, n_features_in_ :
        As of `ZeroShotClassifier`.

    References
    ----------
    E. Kodirov, T. Xiang, S. Gong. Semantic autoencoder for zero-shot learning. CVPR 2017.

    Examples
    --------
    >>> from zonkey.peers.zsl import SAE
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [0.8, 0.6]}
    >>> model = SAE(prototypes, candidates="all").fit([[0, 2], [2, 0]], ["horse", "tiger"])
    >>> model.decision_function([[4, 3]]).round(2)
    array([[0.6, 0.8, 1. ]])
    """

    _at_least_zero = ("lam",)
    _in_semantic_space: bool

    def __init__(
        self,
        prototypes: Any = None,
        *,
        direction: str = "feature-to-semantic",
        lam: float = 1.0,
        candidates: Any = "unseen",
        seen_penalty: float = 0.0,
    ) -> None:
        super().__init__(prototypes, candidates=candidates, seen_penalty=seen_penalty)
        self.direction = direction
        self.lam = lam

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("direction", self.direction, _DIRECTIONS)

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        A = Factor.of(moments.A0).transformed(scale=self.lam)
        solution = solve(A, Factor.of(moments.B0), (1 + self.lam) * moments.C0)
        decoder = value_of(solution, "Leave out features that hardly vary, or change `lam`.")
        semantic = self.direction == "feature-to-semantic"
        return {"projection_": decoder.astype(dtype), "_in_semantic_space": semantic}

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = known.matrix.astype(dtype)
        if not self._in_semantic_space:
            centers = centers @ self.projection_.astype(dtype, copy=False).T
        return LinearScores(_unit_rows(centers) / 2, np.zeros(len(centers), dtype))

    def _score_blocks(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield cosines, so that a penalty weighs the same for every sample."""
        Z = X @ self.projection_.astype(X.dtype, copy=False) if self._in_semantic_space else X
        return super()._score_blocks(_unit_rows(Z))


def _unit_rows(Z: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; a zero row stays, and has the cosine 0 with everything."""
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(norms > 0, norms, 1)
