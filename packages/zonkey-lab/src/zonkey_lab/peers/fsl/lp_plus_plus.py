"""LP++: a linear probe whose weights blend visual prototypes with texts (Huang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from zonkey.parameters import Count, Interval

from ..base import attribute, class_means, parameter
from .base import FewShotPeer, Support, center_of, center_rows
from .texts import TextMixin, text_classifier

_CYCLE = 10  # steps of the visual prototypes before one of the multipliers


class LPPlusPlus(FewShotPeer, TextMixin):
    """Linear probe whose class weights are w_k + alpha_k t_k, with texts t_k.

    Of n support samples f_i with labels y_i, all of unit length, visual prototypes w_k and
    multipliers alpha_k minimize the cross-entropy

        -1/n sum_i log softmax_k(f_i'(w_k + alpha_k t_k))[y_i],

    which is convex in both. They descend in turn, by steps that minimize quadratic upper bounds:
    1 / L_w for w, where L_w = lambda_max(F'F) / (2n), and 1 / L_k for alpha_k, where
    L_k = sum_i (f_i't_k)^2 / (2n). So no step size is searched, and the loss never rises. The
    start is the class means for w, and `text_scale` times the mean cosine of support samples with
    the texts of their classes for alpha. Support sets can often be separated, and then the loss has
    no minimum: the start and the number of steps decide.

    Differences from the publication:

    - The bounds are exact, and L_k is one per class. The publication has smaller, approximate
      bounds and momentum, which converge faster, but may raise the loss.
    - There is no intercept, as in the objective; the authors' code has one.
    - The number of steps is a parameter instead of the best one on validation samples.
    - Features are centered by the mean of base samples before they are scaled to unit length.
    - Texts of another space are mapped to features by ridge regression of base class means on
      their prototypes.

    Parameters
    ----------
    text_scale : float, default=25.0
        Initial multiplier >= 0, relative to the mean cosine. The publication has 250 for texts of
        CLIP; 25 is chosen on validation classes of mini-ImageNet for texts that are mapped.
    n_steps : int, default=30
        Number of steps of the visual prototypes; each tenth is followed by one of the multipliers,
        as in the authors' code, which takes at most 300. On validation classes of mini-ImageNet, 10
        to 30 are better with one shot, and equal with five; 30 leaves multipliers time to learn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Weights w_k + alpha_k t_k.
    alpha_ : ndarray of shape (n_classes,)
        Multipliers of the texts; 0 without.
    loss_ : float
        Loss after the last step.

    See Also
    --------
    TipAdapter : A cache instead of a linear probe.
    sklearn.linear_model.LogisticRegression : The probe without texts, with a penalty.

    References
    ----------
    Y. Huang, F. Shakeri, J. Dolz, M. Boudiaf, H. Bahig, I. Ben Ayed. LP++: a surprisingly strong
    linear probe for few-shot CLIP. CVPR 2024.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import LPPlusPlus
    >>> texts = {"cat": [0.9, 0.1], "owl": [0.1, 0.9]}
    >>> model = LPPlusPlus(texts).fit([[4, 1], [8, 1], [1, 3]], ["cat", "cat", "owl"])
    >>> model.predict([[1, 0.5], [2, 3]])
    array(['cat', 'owl'], dtype='<U3')
    """

    text_scale: float = parameter(default=25.0, within=Interval(0))
    n_steps: int = parameter(default=30, within=Count())

    coef_: np.ndarray = attribute()
    alpha_: np.ndarray = attribute()
    loss_: float = attribute()
    _center: np.ndarray = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        dtype, center = support.X.dtype, center_of(support)
        F = center_rows(support.X.astype(np.float64), center)
        T = text_classifier(self.prototypes, support)
        # Prototypes never leave the span of the samples: descend in its coordinates.
        Z, singular, axes = np.linalg.svd(F, full_matrices=False)
        Z *= singular
        probe = _Probe(Z, F @ T.T, support.codes, float(singular[0]), float(self.text_scale))
        probe.descend(int(self.n_steps))
        return {
            "coef_": (probe.W @ axes + probe.alpha[:, None] * T).astype(dtype),
            "alpha_": probe.alpha.astype(dtype),
            "loss_": probe.loss(),
            "_center": center.astype(dtype),
        }

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return center_rows(X, self._center) @ self.coef_.T


class _Probe:
    """Visual prototypes W (m x r) and multipliers (m), and how they descend.

    Z (n x r) are the samples, and U (n x m) their cosines with the texts; `norm` is the spectral
    norm of Z.
    """

    def __init__(
        self, Z: np.ndarray, U: np.ndarray, codes: np.ndarray, norm: float, text_scale: float
    ) -> None:
        n, m = U.shape
        self.Z, self.U, self.codes, self.n = Z, U, codes, n
        self.W = class_means(Z, codes)
        self.alpha = np.full(m, text_scale * max(U[np.arange(n), codes].mean(), 0.0))
        # Without samples or texts a gradient is 0, and any step size will do.
        self.step_w = 2 * n / (norm**2 or 1.0)
        squares = np.square(U).sum(axis=0)
        self.step_alpha = 2 * n / np.where(squares > 0, squares, 1.0)

    def logits(self) -> np.ndarray:
        return self.Z @ self.W.T + self.alpha * self.U

    def loss(self) -> float:
        return -float(log_softmax(self.logits(), axis=1)[np.arange(self.n), self.codes].mean())

    def descend(self, n_steps: int) -> None:
        """Take steps of the visual prototypes, and of the multipliers between."""
        for number in range(1, n_steps + 1):
            self.W -= self.step_w * self._errors().T @ self.Z
            if number % _CYCLE == 0:
                self.alpha -= self.step_alpha * (self._errors() * self.U).sum(axis=0)

    def _errors(self) -> np.ndarray:
        """Return the gradient of the loss by the logits (n x m)."""
        errors = softmax(self.logits(), axis=1)
        errors[np.arange(self.n), self.codes] -= 1
        return errors / self.n
