"""DeViSE: the deep visual-semantic embedding of Frome et al."""

from __future__ import annotations

import numpy as np

from zonkey.parameters import Interval

from ..base import attribute, parameter
from ..training import Training
from .bilinear import BilinearPeer


class DeViSE(BilinearPeer):
    """Bilinear compatibility x'W y, learned by a hinge rank loss over all other classes.

    For a sample x of class c, W minimizes the mean over the samples of

        sum_{j != c} max(0, margin - x'W y_c + x'W y_j).

    The class with the largest x'W y is predicted; `decision_function` returns these values. Scores
    grow with the length of a prototype, so prototypes should have unit length, as in the
    publication, and features too.

    Differences. The sum is over all classes; the publication stops at the first violating class of
    a random order, which saves time in a loop, but not in matrix products. Features are fixed; the
    publication also tunes the network that makes them. W starts at zero and changes by steps of
    constant size, where the publication uses AdaGrad. The fitted W is a mean over the training,
    in which later steps have more weight: it depends less on the last batches.

    Parameters
    ----------
    margin : float, default=0.1
        Margin > 0 by which the own class should win, as printed. Only the ratio of `learning_rate`
        and `margin` matters for predictions, because W starts at zero.
    training : Training, default=None
        The learning rate is for a loss that is a sum over classes, relative to the mean squared
        lengths of features and prototypes. It was chosen on held-out classes of CUB, with 80 to 100
        others, where more epochs hardly change the accuracy; with many more classes take less. The
        publication takes one sample per step; a batch is much faster and as accurate.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Matrix W.

    See Also
    --------
    SJE : The same with the most violating class only.
    ALE : The same with weights that depend on the rank of the own class.

    References
    ----------
    A. Frome, G. S. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato, T. Mikolov. DeViSE: A deep
    visual-semantic embedding model. NIPS 2013.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import DeViSE
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = DeViSE({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    margin: float = parameter(default=0.1, within=Interval(0, open_below=True))

    projection_: np.ndarray = attribute()

    _own = Training(max_iter=15, n_iter_no_change=5, batch_size=32, learning_rate=0.2)
