"""LATEM: the latent embeddings of Xian et al."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from ..training import Training
from .base import PeerTask, refuse_method
from .bilinear import BilinearPeer, RankingLearner


class LATEM(BilinearPeer):
    """Piecewise bilinear compatibility: the largest of x'W_1 y, ..., x'W_K y, learned by ranking.

    For a sample x of class c, the matrices minimize the mean over the samples of

        sum_{j != c} max(0, 1 + F(x, y_j) - F(x, y_c)),     F(x, y) = max_i x'W_i y.

    In a step, y_j changes only the matrix that gives F(x, y_j), and y_c the one that gives
    F(x, y_c). The class with the largest F is predicted; `decision_function` returns these values.
    Scores grow with the length of a prototype, so prototypes should have unit length.

    As in the authors' code, each feature is centered and divided by its standard deviation among
    the training samples. With a common part of all samples one matrix would win nearly always, and
    the model would nearly be that of DeViSE.

    Differences. The authors' code also divides all features by the largest value; steps are
    relative to the size of the features here, so that it would change nothing. All classes are
    compared in every step; the publication draws one, and its expected step is this one up to a
    factor. The matrices start at random in the span of the seen prototypes and stay there; in the
    publication they keep their random part outside of it, which says nothing about classes. The
    fitted matrices are means over the training, in which later steps have more weight: they depend
    less on the last batches. K is a parameter; the publication also removes matrices that rarely
    win.

    Parameters
    ----------
    n_matrices : int, default=2
        Number K of matrices. The publication chooses 2 to 10 by validation; time grows with K.
    training : Training, default=None
        The learning rate is for a loss that is a sum over classes, relative to the mean squared
        lengths of features and prototypes. It was chosen on held-out classes of CUB, with 80 to 100
        others, where more epochs hardly change the accuracy; with many more classes take less. The
        publication takes one sample per step; a batch is much faster.
    random_state : int, RandomState or None, default=None
        Seed of the first matrices, of the order of samples and of the choice of held-out classes.

    Attributes
    ----------
    projections_ : ndarray of shape (n_matrices, n_features, n_dimensions)
        Matrices W_i, divided by the standard deviations, so that they apply to centered samples.
    center_ : ndarray of shape (n_features,)
        Mean of the training samples.

    See Also
    --------
    DeViSE : The same with one matrix.

    References
    ----------
    Y. Xian, Z. Akata, G. Sharma, Q. Nguyen, M. Hein, B. Schiele. Latent embeddings for zero-shot
    classification. CVPR 2016.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import LATEM
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = LATEM({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    n_matrices: int = parameter(default=2, within=Count())

    embed = refuse_method("A sample has K points W_i'x in the semantic space, one per matrix.")

    projections_: np.ndarray = attribute()
    center_: np.ndarray = attribute()

    _own = Training(max_iter=10, n_iter_no_change=5, batch_size=32, learning_rate=2.0)

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Older files are of models that did not center."""
        parts = super().__zonkey_upgrade__(parts)
        state = parts["state"]
        if not state or "center_" in state:
            return parts
        W = state["projections_"]
        return {**parts, "state": {**state, "center_": np.zeros(W.shape[1], W.dtype)}}

    def _learner(self, task: PeerTask) -> RankingLearner:
        return _LatentLearner(task, self)

    def _get_learned(self) -> np.ndarray:
        return self.projections_

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        """Return the scores of z = W_i'x, for any i, without the part of the center."""
        Y = known.matrix.astype(dtype)
        return LinearScores(Y / 2, np.zeros(len(Y), dtype))

    def _score_blocks(self, form: Any, X: Array) -> Iterator[Array]:
        matrices, center = (
            part.astype(X.dtype, copy=False) for part in (self.projections_, self.center_)
        )
        forms = [
            replace(form, M=W, constants=form.constants + 2 * form.centers @ (center @ W))
            for W in matrices
        ]
        for blocks in zip(*(each.blocks(X) for each in forms), strict=True):
            yield np.maximum.reduce(blocks)


class _LatentLearner(RankingLearner):
    """Several matrices for standardized samples.

    They start at random; from zero, all would stay the same.
    """

    peer: LATEM

    def __init__(self, task: PeerTask, peer: LATEM) -> None:
        self.center = task.X.mean(axis=0, dtype=np.float64).astype(np.float32)
        spread = task.X.std(axis=0, dtype=np.float64).astype(np.float32)
        self.spread = np.where(spread > 0, spread, np.float32(1))
        super().__init__(replace(task, X=self._standardize(task.X)), peer)

    def _standardize(self, X: np.ndarray) -> np.ndarray:
        return (X - self.center) / self.spread

    def _start(self, rng: np.random.Generator) -> np.ndarray:
        d, r = self.X.shape[1], self.R.shape[1]
        W = rng.standard_normal((d, self.peer.n_matrices * r), np.float32)
        # As printed, the deviation is 1 / sqrt(d), for features and prototypes of unit length.
        return W / np.sqrt(d * self.size, dtype=np.float32)

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return F(x, y)."""
        return super().scores(self._standardize(X), Y)

    def export(self) -> dict[str, Any]:
        """Return the matrices (K x d x k) for centered samples, and the center."""
        return {"projections_": self.matrices() / self.spread[:, None], "center_": self.center}
