"""Tip-Adapter: a cache of support samples beside a classifier from texts (Zhang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.parameters import Interval

from ..base import attribute, parameter
from .base import FewShotPeer, Support, center_of, center_rows
from .texts import LOGIT_SCALE, TextMixin, text_classifier


class TipAdapter(FewShotPeer, TextMixin):
    """Cache of support samples, plus a classifier from texts; nothing is trained.

    With samples x and support samples f_i of unit length, and texts t_k of the classes k, the
    scores are

        100 x't_k + alpha n mean_i exp(-beta (1 - x'f_i)),     i in class k,

    where n is the mean number of shots of a class.

    The first part is the zero-shot classifier of CLIP, and 100 its logit scale. The second is a
    cache: f_i are its keys and the labels its values.

    Differences from the publication:

    - The publication has the sum in place of n times the mean. They differ if some classes have
      more shots than others, which the sum would favor.
    - Features are centered by the mean of base samples before they are scaled to unit length.
    - Texts of another space are mapped to features by ridge regression of base class means on
      their prototypes.
    - The keys are not tuned (Tip-Adapter-F): without several views of each picture, the samples to
      learn from would be the keys themselves.

    Parameters
    ----------
    alpha : float, default=300.0
        Weight >= 0 of the cache. The publication has 1 to 10 for texts of CLIP, whose cosines
        differ little from class to class; 300 is chosen on validation classes of mini-ImageNet for
        texts that are mapped.
    beta : float, default=3.0
        Sharpness >= 0 of the cache. The publication chooses it on validation samples; 3 is chosen
        as `alpha`.

    Attributes
    ----------
    keys_ : ndarray of shape (n_samples, n_features)
        Support samples, centered and of unit length, class by class.
    texts_ : ndarray of shape (n_classes, n_features)
        Weights of the classifier from texts; all zero without.

    See Also
    --------
    GaussianDiscriminant : A covariance instead of a cache.
    MatchingNetwork : Attention over the support set, in a space that is learned.

    References
    ----------
    R. Zhang, W. Zhang, R. Fang, P. Gao, K. Li, J. Dai, Y. Qiao, H. Li. Tip-Adapter: training-free
    adaption of CLIP for few-shot classification. ECCV 2022.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import TipAdapter
    >>> texts = {"cat": [0.9, 0.1], "owl": [0.1, 0.9]}
    >>> model = TipAdapter(texts).fit([[4, 1], [8, 1], [1, 3]], ["cat", "cat", "owl"])
    >>> model.predict([[1, 0.5], [2, 3]])
    array(['cat', 'owl'], dtype='<U3')
    """

    alpha: float = parameter(default=300.0, within=Interval(0))
    beta: float = parameter(default=3.0, within=Interval(0))

    keys_: np.ndarray = attribute()
    texts_: np.ndarray = attribute()
    _cache: dict[str, Any] = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        dtype, center = support.X.dtype, center_of(support)
        counts = support.counts
        return {
            "keys_": center_rows(support.X, center),
            "texts_": text_classifier(self.prototypes, support).astype(dtype),
            "_cache": {
                "center": center.astype(dtype),
                "starts": np.cumsum(counts) - counts,
                "weights": (counts.mean() / counts).astype(dtype),
                "alpha": float(self.alpha),
                "beta": float(self.beta),
            },
        }

    def _scores(self, X: np.ndarray) -> np.ndarray:
        cache = self._cache
        X = center_rows(X, cache["center"])
        near = np.exp(cache["beta"] * (X @ self.keys_.T - 1))
        found = np.add.reduceat(near, cache["starts"], axis=1)
        return LOGIT_SCALE * X @ self.texts_.T + cache["alpha"] * cache["weights"] * found
