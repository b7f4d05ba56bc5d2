"""ALE: the attribute label embedding of Akata et al."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..base import attribute
from ..training import Training
from .bilinear import BilinearPeer


class ALE(BilinearPeer):
    """Bilinear compatibility x'W y, learned by a weighted ranking loss.

    For a sample x of class c, W minimizes the mean over the samples of

        l_r / r  sum_{j != c} max(0, 1 + x'W y_j - x'W y_c),     l_r = 1 + 1/2 + ... + 1/r,

    where r is the number of positive terms, the rank of the own class within the margin. A sample
    whose class ranks low counts more, but less than in proportion: the top of the ranking matters
    most. The class with the largest x'W y is predicted; `decision_function` returns these values.
    Scores grow with the length of a prototype, so features and prototypes should have unit length.

    Differences. All classes are compared in every step, so r is exact; the publication draws
    classes until one violates and estimates r from the number of draws. As there, the weight
    l_r / r counts as a constant in the gradient. W starts at zero instead of random numbers, which
    would say something about directions that no seen class has. The fitted W is a mean over the
    training, in which later steps have more weight: it depends less on the last batches.

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
    DeViSE : The same with weight 1 for every violating class.
    SJE : The same with the most violating class only.

    References
    ----------
    Z. Akata, F. Perronnin, Z. Harchaoui, C. Schmid. Label-embedding for attribute-based
    classification. CVPR 2013.

    Z. Akata, F. Perronnin, Z. Harchaoui, C. Schmid. Label-embedding for image classification. IEEE
    Transactions on Pattern Analysis and Machine Intelligence, 2016.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import ALE
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = ALE({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    projection_: np.ndarray = attribute()

    _own = Training(max_iter=15, n_iter_no_change=5, batch_size=32, learning_rate=10.0)

    def _weights(self, violations: np.ndarray) -> np.ndarray:
        violates = violations > 0
        shares = _list_shares(violations.shape[1], violations.dtype)
        return violates * shares[np.count_nonzero(violates, axis=1)][:, None]


@lru_cache(maxsize=8)  # steps are many, and as short as this
def _list_shares(n: int, dtype: np.dtype) -> np.ndarray:
    """Return l_r / r for the ranks r from 0 to n; it is not written to."""
    ranks = np.arange(1, n + 1)
    return np.append(0, np.cumsum(1 / ranks) / ranks).astype(dtype)
