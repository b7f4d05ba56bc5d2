"""Exemplar regression: kernel ridge regression from prototypes to class means."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.bpl.kernels import PrototypeKernel
from zonkey.bpl.moments import Moments
from zonkey.bpl.sylvester import solve
from zonkey.bpl.symmetric import Factor
from zonkey.parameters import Interval, Options
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from .base import refuse_method
from .closed_form import ClosedFormPeer, value_of

_KERNELS = ("rbf", "linear", "poly", "arccos")


class ExemplarRegression(ClosedFormPeer):
    """Kernel ridge regression from prototypes to class means ("exemplars").

    The predicted mean of a class with prototype y is

        c(y) = sum_j w_j m_j,     w = (K + ridge I)^-1 k(y),

    where m_j and y_j are the mean and the prototype of seen class j, K_ij = k(y_i, y_j) and
    k(y)_j = k(y, y_j). All seen classes have equal weight, whatever their number of samples. The
    class with the nearest c(y) is predicted; seen classes, too, are compared at c(y), not at their
    means. The reference uses support vector regression per principal component instead.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "arccos"}, default="rbf"
        Kernel k(y, z): exp(-gamma ||y - z||^2 / u), y'z, (gamma y'z / u + 1)^3, or the arc-cosine
        kernel of order 1. For the cosine, use "linear" with prototypes of unit length.
    gamma : float, default=1.0
        Width >= 0 of the kernel, for "rbf" relative to the median squared distance u between seen
        prototypes, for "poly" to their mean squared length u. The other kernels ignore it.
    ridge : float, default=0.1
        Ridge penalty >= 0, relative to a sum over classes. With 0, c(y) of a seen class is its mean
        unless K is singular, in which case the limit of a vanishing ridge is taken.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_seen_classes)
        Means m_j of the seen classes as columns. `project` returns c(y), their sum with weights w.

    See Also
    --------
    ESZSL : Bilinear compatibility, also in closed form.
    zonkey.presets.rpl : Linear ridge regression from prototypes to samples.

    References
    ----------
    S. Changpinyo, W.-L. Chao, F. Sha. Predicting visual exemplars of unseen classes for zero-shot
    learning. ICCV 2017.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import ExemplarRegression
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> model = ExemplarRegression(prototypes, ridge=0.0)
    >>> model = model.fit([[1, 4], [1, 6], [5, 1]], ["horse", "horse", "tiger"])
    >>> model.project({"horse": [0, 1], "zebra": [1, 1]}).round(2)
    array([[1.  , 5.  ],
           [2.66, 2.66]])
    """

    kernel: str = parameter(default="rbf", within=Options(*_KERNELS))
    gamma: float = parameter(default=1.0, within=Interval(0))
    ridge: float = parameter(default=0.1, within=Interval(0))

    _needs_scatter = False
    embed = refuse_method("Samples have no point in the semantic space: c(y) is not linear in y.")

    _kernel: PrototypeKernel = attribute()
    _seen_matrix: np.ndarray = attribute()
    _inverse: np.ndarray = attribute()

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        seen = moments.counts > 0
        Y = moments.prototypes.matrix[seen].astype(np.float64)
        means = moments.class_sums[seen] / moments.counts[seen, None]
        kernel = PrototypeKernel.from_vectors(Y, self.kernel, self.gamma)
        K = Factor.from_matrix(kernel.compare(Y, Y, np.arange(len(Y)))).rescale(shift=self.ridge)
        # The inverse is a Sylvester equation without its second term.
        solution = solve(K, Factor.zeros(len(Y), like=Y), np.eye(len(Y)))
        inverse = value_of(solution, "Increase `ridge`.")
        learned = {"_kernel": kernel, "_seen_matrix": Y, "_inverse": inverse}
        return {"projection_": means.T.astype(dtype), **learned}

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        """Return the weights w of the seen classes, one row per prototype (m x p)."""
        # In float64, then rounded: weights are moderate, but the inverse may be as large as
        # 1 / ridge, so that float32 would lose most digits to cancellation.
        Y, Z = prototypes.matrix.astype(np.float64), self._seen_matrix
        return self._kernel.compare(Y, Z, np.arange(len(Z))) @ self._inverse
