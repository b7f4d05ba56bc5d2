"""ConSE: the convex combination of semantic embeddings of Norouzi and colleagues."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array, softmax
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter, unit_rows
from ..convex import linear_classifiers, softmax_loss
from .base import EmbeddingPeer, PeerTask, SamplePeer, refuse_method

_CURVATURE = 0.01  # of the loss: p (1 - p) with p near 1 / 100, as for many classes


class ConSE(EmbeddingPeer, SamplePeer):
    """Convex combination of the prototypes of the likeliest seen classes.

    Multinomial logistic regression gives p(j | x) for the seen classes j; with p_i of the class of
    sample i, it minimizes sum_i -log p_i + ridge / 2 ||W||^2. With the `n_top` likeliest classes T
    of a sample, its place in the semantic space is

        f(x) = sum_{j in T} p(j | x) y_j / sum_{j in T} p(j | x).

    The class with the largest cosine of f(x) and its prototype is predicted; `decision_function`
    returns the cosines.

    Differences from the reference: the classifier of seen classes is logistic regression on the
    given features, which is the last layer of the network that the reference uses.

    Parameters
    ----------
    n_top : int, default=10
        Number of seen classes in a combination (T in the reference, which compares 1, 10 and
        1,000); all of them if there are fewer.
    ridge : float, default=0.3
        Ridge penalty > 0, relative to a sum over samples. The default, chosen on held-out training
        classes of CUB, suits features of unit length; the network of the reference has none.

    Attributes
    ----------
    classifiers_ : ndarray of shape (n_features, n_seen_classes)
        Weights of the seen classes as columns.
    intercepts_ : ndarray of shape (n_seen_classes,)
        Their intercepts.

    See Also
    --------
    SSE : Learned similarities to seen classes instead of probabilities.
    SynC : Combines classifiers of seen classes instead of their prototypes.

    References
    ----------
    M. Norouzi, T. Mikolov, S. Bengio, Y. Singer, J. Shlens, A. Frome, G. S. Corrado, J. Dean.
    Zero-shot learning by convex combination of semantic embeddings. ICLR 2014.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import ConSE
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> model = ConSE(prototypes, candidates="all").fit([[0, 1], [1, 0]], ["horse", "tiger"])
    >>> model.decision_function([[0.5, 0.5]]).round(2)
    array([[0.71, 0.71, 1.  ]])
    """

    n_top: int = parameter(default=10, within=Count())
    ridge: float = parameter(default=0.3, within=Interval(0, open_below=True))

    _compares_distances = False
    project = refuse_method("Classifiers of seen classes map no prototype to the feature space.")

    classifiers_: np.ndarray = attribute()
    intercepts_: np.ndarray = attribute()
    _seen_matrix: np.ndarray = attribute()
    _n_top: int = attribute()

    def _embed(self, X: Array) -> Array:
        return self._combine(np.asarray(X))

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        loss, m = softmax_loss(task.codes), task.n_classes
        W, b = linear_classifiers(task.X, loss, m, ridge=self.ridge, curvature=_CURVATURE)
        dtype = task.X.dtype
        return {
            "classifiers_": W.astype(dtype),
            "intercepts_": b.astype(dtype),
            "_seen_matrix": task.Y.astype(dtype),
            "_n_top": min(int(self.n_top), m),
        }

    def _combine(self, X: np.ndarray) -> np.ndarray:
        dtype = X.dtype
        scores = X @ self.classifiers_.astype(dtype, copy=False)
        P = np.asarray(softmax(scores + self.intercepts_.astype(dtype, copy=False)))
        least = np.partition(P, -self._n_top, axis=1)[:, [-self._n_top]]
        P[least > P] = 0  # those that equal the last one stay
        P /= P.sum(axis=1, keepdims=True)
        return P @ self._seen_matrix.astype(dtype, copy=False)

    def _map_samples(self, X: Array) -> Array:
        """Return unit vectors, so that scores are cosines."""
        return unit_rows(self._combine(np.asarray(X)))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        Y = unit_rows(known.matrix.astype(dtype))
        return LinearScores(Y / 2, np.zeros(len(Y), dtype))

    def _get_learned(self) -> np.ndarray:
        return self.classifiers_
