"""Gaussian discriminant with texts as a prior (Wang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from zonkey.parameters import Interval

from ..base import attribute, class_means, parameter
from .base import BaseSamples, FewShotPeer, Support, center_of, center_rows
from .texts import LOGIT_SCALE, TextMixin, text_classifier

_LEAST_SHARE = 1e-9  # keeps a covariance of few samples invertible


class GaussianDiscriminant(FewShotPeer, TextMixin):
    """Gaussian classes with one covariance, plus a classifier from texts; nothing is trained.

    With samples x of unit length, texts t_k, and means m_k of the classes k, the scores are

        100 x't_k + alpha (x'P m_k - m_k'P m_k / 2),     P = ((1 - s) S + s tr(S) / d I)^-1,

    where S is the covariance within classes, d the number of features, and s the shrinkage. The
    first part is the zero-shot classifier of CLIP, and 100 its logit scale. The second is the
    logarithm of the Gaussian density, up to terms that are equal for all classes.

    Differences from the publication:

    - S pools deviations of base samples from their class means with those of the support set. With
      one shot the support set alone has none; the publication takes several views of each picture.
      Without base samples and with one shot, S is I / d.
    - The shrinkage counts support samples only, whatever the number of base samples: the
      covariance of base classes is only similar to that of novel ones.
    - Features are centered by the mean of base samples before they are scaled to unit length.
    - Texts of another space are mapped to features by ridge regression of base class means on
      their prototypes.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes. None: features are not centered, prototypes must have their
        dimension, and S comes from the support set.
    alpha : float, default=0.2
        Weight >= 0 of the discriminant. The publication chooses it on validation samples, from
        1e-4 to 100; 0.2 is a compromise on validation classes of mini-ImageNet. With one shot 0.03
        to 0.1 are better, with five 0.3 to 1.
    shrinkage : float or None, default=None
        Share s, 0 < s <= 1, of a multiple of the identity in the covariance. None: s / (1 - s) =
        d / (n - 1) for n support samples, the estimator of Kubokawa and Srivastava that the
        publication takes, up to a factor.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of both parts together.
    intercept_ : ndarray of shape (n_classes,)
        Intercepts.
    shrinkage_ : float
        Shrinkage in use.

    See Also
    --------
    SimpleShot : The same with the identity as covariance, and without texts.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : Without texts and base samples.

    References
    ----------
    Z. Wang, J. Liang, L. Sheng, R. He, Z. Wang, T. Tan. A hard-to-beat baseline for training-free
    CLIP-based adaptation. ICLR 2024.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import GaussianDiscriminant
    >>> texts = {"cat": [0.9, 0.1], "owl": [0.1, 0.9]}
    >>> X, y = [[4, 1], [8, 1], [1, 3]], ["cat", "cat", "owl"]
    >>> GaussianDiscriminant(texts).fit(X, y).predict([[1, 0.5], [2, 3]])
    array(['cat', 'owl'], dtype='<U3')
    """

    alpha: float = parameter(default=0.2, within=Interval(0))
    shrinkage: float | None = parameter(
        default=None, within=Interval(0, 1, open_below=True, also=(None,))
    )

    coef_: np.ndarray = attribute()
    intercept_: np.ndarray = attribute()
    shrinkage_: float = attribute()
    _center: np.ndarray = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        dtype, center = support.X.dtype, center_of(support)
        X = center_rows(support.X.astype(np.float64), center)
        n, d = X.shape
        means = class_means(X, support.codes)
        share = d / (n - 1 + d) if self.shrinkage is None else float(self.shrinkage)
        weights = _divide(means, _covariance(X - means[support.codes], support), share)
        texts = text_classifier(self.prototypes, support)
        intercept = -0.5 * np.einsum("ij,ij->i", weights, means)
        return {
            "coef_": (LOGIT_SCALE * texts + self.alpha * weights).astype(dtype),
            "intercept_": (self.alpha * intercept).astype(dtype),
            "shrinkage_": share,
            "_center": center.astype(dtype),
        }

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return center_rows(X, self._center) @ self.coef_.T + self.intercept_


def _covariance(deviations: np.ndarray, support: Support) -> np.ndarray:
    """Return the covariance within classes, of base samples and the support set together."""
    scatter, n = deviations.T @ deviations, len(deviations)
    if support.base is not None:
        base = support.base
        scatter = scatter + base.learn_once("scatter within classes", lambda: _scatter(base))
        n += len(base.X)
    return scatter / max(n - 1, 1)


def _scatter(base: BaseSamples) -> np.ndarray:
    """Return the sum of squared deviations of normalized base samples from their class means."""
    X = center_rows(base.X.astype(np.float64), base.mean)
    X -= class_means(X, base.codes)[base.codes]
    return X.T @ X


def _divide(means: np.ndarray, covariance: np.ndarray, share: float) -> np.ndarray:
    """Return the means times the inverse of the shrunk covariance (m x d)."""
    d = len(covariance)
    variance = np.trace(covariance) / d
    if variance <= np.finfo(np.float64).eps / d:  # one sample per class
        return d * means
    shrunk = (1 - share) * covariance
    shrunk[np.diag_indices(d)] += max(share, _LEAST_SHARE) * variance
    return cho_solve(cho_factor(shrunk, lower=True), means.T).T
