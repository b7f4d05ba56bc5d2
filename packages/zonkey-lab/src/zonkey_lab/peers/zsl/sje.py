"""SJE: the structured joint embedding of Akata et al."""

from __future__ import annotations

import numpy as np

from ..base import attribute
from ..training import Training
from .bilinear import BilinearPeer


class SJE(BilinearPeer):
    """Bilinear compatibility x'W y, learned by a structured hinge loss.

    For a sample x of class c, W minimizes the mean over the samples of

        max_j (D(c, j) + x'W y_j - x'W y_c),     D(c, j) = 0 if j = c, else 1,

    so only the most violating class counts. The class with the largest x'W y is predicted;
    `decision_function` returns these values. Scores grow with the length of a prototype, so
    features and prototypes should have unit length.

    Differences. There is one kind of prototypes; the publication also combines several, each with a
    matrix of its own, which prototypes side by side give as well. W starts at zero instead of
    random numbers, which would say something about directions that no seen class has. The fitted W
    is a mean over the training, in which later steps have more weight: it depends less on the last
    batches.

    Parameters
    ----------
    training : Training, default=None
        The learning rate is relative to the mean squared lengths of features and prototypes,
        constant as in the publication, and chosen on held-out classes of CUB, where more epochs
        hardly change the accuracy. The publication takes one sample per step; a batch is much
        faster and as accurate.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Matrix W.

    See Also
    --------
    DeViSE : The same with the sum over all violating classes.
    ALE : The same with weights that depend on the rank of the own class.

    References
    ----------
    Z. Akata, S. Reed, D. Walter, H. Lee, B. Schiele. Evaluation of output embeddings for
    fine-grained image classification. CVPR 2015.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import SJE
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = SJE({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    projection_: np.ndarray = attribute()

    _own = Training(max_iter=15, n_iter_no_change=5, batch_size=32, learning_rate=20.0)

    def _weights(self, violations: np.ndarray) -> np.ndarray:
        rows, worst = np.arange(len(violations)), violations.argmax(axis=1)
        weights = np.zeros_like(violations)
        weights[rows, worst] = violations[rows, worst] > 0
        return weights
