"""SimpleShot: nearest class means of centered features of unit length (Wang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.parameters import Options

from ..base import attribute, class_means, parameter, unit_rows
from .base import FewShotPeer, Support, center_of, center_rows, negative_distances

_NORMALIZATIONS = ("centered", "unit", None)


class SimpleShot(FewShotPeer):
    """Nearest class mean, after a normalization of the features.

    A sample x belongs to the class whose mean over the support set is nearest. The normalization
    is x / ||x|| ("unit") or (x - m) / ||x - m|| ("centered"), where m is the mean of the base
    samples. `decision_function` returns minus the squared distances.

    Differences from the publication: none for features of a fixed backbone. Without base samples
    nothing is subtracted.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes, of which the mean is used.
    normalization : {"centered", "unit"} or None, default="centered"
        Normalization of features: CL2N, L2N and UN of the publication, which recommends the
        first.

    Attributes
    ----------
    centers_ : ndarray of shape (n_classes, n_features)
        Means of the normalized support samples.

    See Also
    --------
    zonkey.NearestSupport : Nearest samples or means of raw features.
    PrototypicalNetwork : Learns the space in which means are compared.

    References
    ----------
    Y. Wang, W.-L. Chao, K. Q. Weinberger, L. van der Maaten. SimpleShot: revisiting
    nearest-neighbor classification for few-shot learning. arXiv 1911.04623, 2019.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import SimpleShot
    >>> model = SimpleShot().fit([[4, 1], [8, 1], [1, 3]], ["cat", "cat", "owl"])
    >>> model.predict([[1, 0.5], [2, 3]])
    array(['cat', 'owl'], dtype='<U3')
    """

    normalization: str | None = parameter(default="centered", within=Options(*_NORMALIZATIONS))

    centers_: np.ndarray = attribute()
    _steps: dict[str, Any] = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        dtype = support.X.dtype
        steps = {"center": center_of(support).astype(dtype), "normalization": self.normalization}
        centers = class_means(_normalize(support.X, **steps), support.codes)
        return {"centers_": centers.astype(dtype), "_steps": steps}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return negative_distances(_normalize(X, **self._steps), self.centers_)


def _normalize(X: np.ndarray, center: np.ndarray, normalization: str | None) -> np.ndarray:
    if normalization is None:
        return X
    return unit_rows(X) if normalization == "unit" else center_rows(X, center)
