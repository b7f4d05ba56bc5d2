"""ExemplarRegression: predict the mean of a class from its prototype by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import pairwise_kernels

from ...core.moments import Moments
from ...core.prototypes import Prototypes
from ...linalg.sylvester import Factor, solve
from ...validation import check_count, check_option
from .closed_form import ClosedFormPeer, not_offered, seen_prototypes, value_of

_KERNELS = ("rbf", "poly", "linear", "cosine")


class ExemplarRegression(ClosedFormPeer):
    """Nearest exemplar, which kernel ridge regression predicts from the prototype of a class.

    The exemplar of a seen class is the mean of its samples. That of a class with prototype y is

        c(y) = sum_j w_j m_j,     w = (K + ridge I)^-1 k(y),

    where m_j and y_j are mean and prototype of seen class j, K_ij = k(y_i, y_j) and
    k(y)_j = k(y, y_j). Every class weighs the same, however many samples it has. A sample is
    given the class of the nearest exemplar. The original differs in its regressor: support
    vectors, one machine for each principal component of the features.

    Parameters
    ----------
    prototypes, candidates, seen_penalty :
        As of `ZeroShotClassifier`.
    kernel : {"rbf", "poly", "linear", "cosine"}, default="rbf"
        As of `sklearn.metrics.pairwise.pairwise_kernels`.
    gamma : float >= 0, default=1.0
        Coefficient of "rbf", in units of 1 / median squared distance between different
        prototypes of seen classes, or of "poly", in units of 1 / their mean squared length.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float >= 0, default=1.0
        Constant of the kernel "poly".
    ridge : float >= 0, default=0.1
        Ridge penalty of the regression; "rbf" and "cosine" have ones on the diagonal of K.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_seen)
        The means of the seen classes, one a column, in the order of `seen_classes_`.
    inverse_ : ndarray of shape (n_seen, n_seen)
        The matrix (K + ridge I)^-1, always in float64.
    gamma_ : float
        The coefficient as the kernel takes it.
    classes_, seen_classes_, unseen_classes_, prototypes_, n_features_in_ :
        As of `ZeroShotClassifier`.

    References
    ----------
    S. Changpinyo, W.-L. Chao, F. Sha. Predicting visual exemplars of unseen classes for
    zero-shot learning. ICCV 2017.

    Examples
    --------
    >>> from zonkey.peers.zsl import ExemplarRegression
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> model = ExemplarRegression(prototypes, candidates="all", ridge=0.0)
    >>> model = model.fit([[1, 4], [1, 6], [5, 1]], ["horse", "horse", "tiger"])
    >>> model.project({"horse": [0, 1], "zebra": [1, 1]}).round(2)
    array([[1.  , 5.  ],
           [2.66, 2.66]])
    """

    _at_least_zero = ("gamma", "coef0", "ridge")
    embed = not_offered("Exemplars are predicted from prototypes; there is no way back.")

    inverse_: np.ndarray
    gamma_: float
    _kernel_options: dict[str, Any]

    def __init__(
        self,
        prototypes: Any = None,
        *,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float = 0.1,
        candidates: Any = "unseen",
        seen_penalty: float = 0.0,
    ) -> None:
        super().__init__(prototypes, candidates=candidates, seen_penalty=seen_penalty)
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("kernel", self.kernel, _KERNELS)
        check_count("degree", self.degree, 1)

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        seen = moments.counts > 0
        means = moments.class_sums[seen].T / moments.counts[seen]
        Y = seen_prototypes(moments)
        gamma = float(self.gamma) / _squared_scale(Y, self.kernel)
        options = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        options = {"metric": self.kernel, "filter_params": True, **options}
        K = Factor.of(pairwise_kernels(Y, Y, **options)).transformed(shift=self.ridge)
        inverse = solve(K, Factor.zeros(len(Y), like=K.values), np.eye(len(Y)))
        return {
            "projection_": means.astype(dtype),
            "inverse_": value_of(inverse, "Use a larger `ridge`."),
            "gamma_": gamma,
            "_kernel_options": options,
        }

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        """Return the weights w of the seen classes, one row a prototype."""
        Y = self.prototypes_.subset(self.seen_classes_).matrix.astype(np.float64)
        k = pairwise_kernels(prototypes.matrix.astype(np.float64), Y, **self._kernel_options)
        return k @ self.inverse_


def _squared_scale(Y: np.ndarray, kernel: str) -> float:
    """Return the size of what `gamma` multiplies, or 1 where all of it is zero."""
    if kernel == "poly":
        return float((Y * Y).sum(axis=1).mean()) or 1.0
    distances = pdist(Y, "sqeuclidean")
    distances = distances[distances > 0]  # a prototype that classes share says nothing of widths
    return float(np.median(distances)) if distances.size else 1.0
