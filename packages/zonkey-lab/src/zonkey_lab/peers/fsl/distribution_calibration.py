"""Distribution calibration: novel classes borrow moments of similar base classes (Yang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from zonkey.parameters import Count, Interval

from ..base import attribute, class_means, parameter
from .base import BaseSamples, FewShotPeer, Support, negative_distances

_MOST_SAMPLES = 20_000  # sampled features of all classes: more make large problems very slow


class DistributionCalibration(FewShotPeer):
    """Logistic regression on features sampled around the support set.

    Features are transformed by Tukey's ladder of powers, x <- x^power, to be more like a Gaussian.
    Each support sample x then borrows the means m_j and covariances S_j of its N = `n_neighbors`
    nearest base classes, by distance from their means:

        m = (x + sum_j m_j) / (N + 1),     S = sum_j S_j / N + alpha 11',

    and features are sampled from the normal distribution (m, S). A logistic regression learns from
    them and from the support set. `decision_function` returns its logits.

    Differences from the publication:

    - Base samples are transformed, too. In the publication their statistics are those of raw
      features, which are of another scale than transformed shots.
    - Negative features keep their sign: sign(x) |x|^power.
    - At most 20,000 features are sampled for all classes together.
    - Without base samples, logistic regression learns from the transformed support set alone.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes.
    power : float, default=0.5
        Exponent > 0 of the transformation; 1 leaves features as they are. 0.5 as published.
    n_neighbors : int, default=2
        Number of base classes that a support sample borrows from. 2 as published.
    alpha : float, default=0.21
        Number >= 0 that is added to each entry of the covariances. 0.21 as published for
        mini-ImageNet.
    n_samples : int, default=100
        Number of features sampled per class, shared by its shots. The publication has 750, which
        takes seven times as long and was no better on validation classes of mini-ImageNet.
    C : float, default=0.01
        Inverse strength > 0 of the penalty of the logistic regression. The publication has 1;
        0.01 is chosen on validation classes of mini-ImageNet.
    random_state : int, RandomState or None, default=None
        Seed of the sampled features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of the logistic regression, for transformed features.
    intercept_ : ndarray of shape (n_classes,)
        Intercepts.

    See Also
    --------
    LSL : Samples by analogies between pairs of base samples.
    zonkey.FewShotClassifier : Synthesizes samples of novel classes from base classes, too.

    References
    ----------
    S. Yang, L. Liu, M. Xu. Free lunch for few-shot learning: distribution calibration. ICLR 2021.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import BaseSamples, DistributionCalibration
    >>> base = BaseSamples([[5, 0], [7, 0], [0, 4], [0, 6]], ["cow", "cow", "hen", "hen"])
    >>> model = DistributionCalibration(base, n_neighbors=1, alpha=0.01, random_state=0)
    >>> model.fit([[4, 1], [1, 3]], ["cat", "owl"]).predict([[9, 2], [2, 8]])
    array(['cat', 'owl'], dtype='<U3')
    """

    power: float = parameter(default=0.5, within=Interval(0, open_below=True))
    n_neighbors: int = parameter(default=2, within=Count())
    alpha: float = parameter(default=0.21, within=Interval(0))
    n_samples: int = parameter(default=100, within=Count())
    C: float = parameter(default=0.01, within=Interval(0, open_below=True))
    random_state: Any = None

    coef_: np.ndarray = attribute()
    intercept_: np.ndarray = attribute()
    _power: float = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        power = float(self.power)
        X, codes = _transform_power(support.X.astype(np.float64), power), support.codes
        if support.base is not None:
            sampled, sources = self._sample(X, support, support.base)
            X, codes = np.concatenate([X, sampled]), np.concatenate([codes, codes[sources]])
        coef, intercept = _fit_logistic(X, codes, support.n_classes, float(self.C))
        dtype = support.X.dtype
        return {
            "coef_": coef.astype(dtype),
            "intercept_": intercept.astype(dtype),
            "_power": power,
        }

    def _sample(
        self, X: np.ndarray, support: Support, base: BaseSamples
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return sampled features, and the support sample that each belongs to."""
        power, alpha = float(self.power), float(self.alpha)
        key = f"distribution calibration, power {power!r}"
        means, roots = base.learn_once(key, lambda: _statistics(base, power))
        near = np.argsort(-negative_distances(X, means), axis=1, kind="stable")
        near = near[:, : self.n_neighbors]
        n_each = min(int(self.n_samples), _MOST_SAMPLES // support.n_classes)
        shares = np.maximum(n_each // support.counts, 1)[support.codes]
        rng = np.random.default_rng(support.seed)
        drawn = []
        for x, classes, n in zip(X, near, shares, strict=True):
            mean = (x + means[classes].sum(axis=0)) / (len(classes) + 1)
            drawn.append(mean + _deviations([roots[j] for j in classes], alpha, int(n), rng))
        return np.concatenate(drawn), np.repeat(np.arange(len(X)), shares)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return _transform_power(X, self._power) @ self.coef_.T + self.intercept_


def _transform_power(X: np.ndarray, power: float) -> np.ndarray:
    """Return Tukey's transformation; negative numbers keep their sign."""
    return X if power == 1 else np.sign(X) * np.abs(X) ** power


def _statistics(base: BaseSamples, power: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return class means (m x d), and a root R of each covariance R'R."""
    X = _transform_power(base.X.astype(np.float64), power)
    means = class_means(X, base.codes)
    X -= means[base.codes]
    X /= np.sqrt(np.maximum(base.counts - 1, 1))[base.codes, None]
    return means, np.split(X, np.cumsum(base.counts)[:-1])


def _deviations(
    roots: list[np.ndarray], alpha: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw n vectors of mean 0, whose covariance is the mean of R'R over the roots, plus alpha.

    Roots are as thin as base classes have samples, so nothing needs to be factorized.
    """
    root = np.concatenate(roots) / np.sqrt(len(roots))
    drawn = rng.standard_normal((n, len(root))) @ root
    return drawn + np.sqrt(alpha) * rng.standard_normal((n, 1))


def _fit_logistic(
    X: np.ndarray, codes: np.ndarray, n_classes: int, C: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and intercepts, one per class."""
    if n_classes == 1:
        return np.zeros((1, X.shape[1])), np.zeros(1)
    model: Any = LogisticRegression(C=C, max_iter=1000).fit(X, codes)
    coef, intercept = model.coef_, model.intercept_
    if n_classes == 2:  # scikit-learn has the weights of the second class only
        coef, intercept = (
            np.concatenate([-coef, coef]) / 2,
            np.concatenate([-intercept, intercept]) / 2,
        )
    return coef, intercept
