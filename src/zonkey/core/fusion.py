"""Fusion of prototype and shots: the posterior center of a class.

The projected prototype W y is the prior of the center m of a class; the mean x_bar of its K shots
is the evidence. With the variance tau^2 of the prior and sigma^2 of samples around m, both summed
over the features, the posterior mean is

    m_hat = (K x_bar + n0 W y) / (K + n0),      n0 = sigma^2 / tau^2.

So a prototype is worth n0 shots. Both variances can be measured: on held-out base classes, or on
the shots if a class has several.
"""

from __future__ import annotations

import numpy as np

from ..linalg.arrays import Array, namespace, placed_like, to_numpy
from .moments import Moments
from .projection import NormalEquations, WeightPer, directed_projection, within_scatter

_FOLDS = 10
# Limits the weight of a prototype without measurable error.
_LARGEST = 1e6


def posterior_centers(prior: Array, means: Array, counts: np.ndarray, worth: float) -> Array:
    """Return m_hat of each class, one per row, from W y, x_bar, K and n0."""
    shots = np.asarray(counts, np.float64)[:, None]
    total = shots + float(worth)
    # A class without shots and with n0 = 0 takes its prototype.
    share = np.where(total > 0, shots / np.where(total > 0, total, 1), 0)
    share = namespace(prior).astype(placed_like(share, prior), prior.dtype)
    return share * means + (1 - share) * prior


def prototype_worth(prior: Array, means: Array, counts: np.ndarray, sigma2: float) -> float:
    """Return n0 from projected prototypes W y and the means of K samples of these classes.

    NaN if sigma^2 is unknown, because no class has two samples.
    """
    return _worth(sigma2, prototype_error(prior, means, counts, sigma2))


def prototype_error(prior: Array, means: Array, counts: np.ndarray, sigma2: float) -> float:
    """Return tau^2: the squared distance of the two is tau^2 + sigma^2 / K on average."""
    xp = namespace(prior)
    distances = to_numpy(xp.sum((prior - means) ** 2, axis=1))
    return float(np.mean(distances - sigma2 / counts))


def worth_of_shots(
    prior: Array,
    means: Array,
    counts: np.ndarray,
    sigma2: float,
    of_base: tuple[float, float],
) -> float:
    """Return n0 for a support set, given sigma^2 of its shots and both variances of base classes.

    A few shots estimate sigma^2 better than base classes, on which the features may have been
    trained. They say little about tau^2, for which the base counts as one more class. If no
    class has two shots, only the base can tell.
    """
    if np.isnan(sigma2):
        return _worth(*of_base)
    tau2, q = prototype_error(prior, means, counts, sigma2), means.shape[0]
    if np.isnan(of_base[1]):
        return _worth(sigma2, tau2)
    return _worth(sigma2, (q * max(tau2, 0.0) + of_base[1]) / (q + 1))


def _worth(sigma2: float, tau2: float) -> float:
    if np.isnan(sigma2) or np.isnan(tau2):
        return float("nan")
    return min(_LARGEST, sigma2 / tau2) if tau2 > 0 else _LARGEST


def within_class_variance(scatter: float, counts: np.ndarray) -> float:
    """Return sigma^2 from the summed squared distances of samples to the mean of their class."""
    freedom = int(np.sum(counts - 1))
    return max(scatter, 0.0) / freedom if freedom else float("nan")


def simulated_variances(
    moments: Moments, *, beta: float, forward: float, per: WeightPer
) -> tuple[float, float]:
    """Return sigma^2 and tau^2 of base classes, some of which are held out in turn.

    W is learned without a random tenth of the classes at a time, and compared with their means.
    sigma^2 is NaN if no class has two samples; tau^2 is NaN if there are fewer than two classes,
    or if sigma^2 is NaN.
    """
    rows = np.flatnonzero(moments.counts)
    counts = moments.counts[rows]
    means = moments.class_sums[rows] / counts[:, None]
    between = float(np.sum(counts[:, None] * means * means))
    sigma2 = within_class_variance(moments.trace - between, counts)
    if len(rows) < 2:
        return sigma2, float("nan")
    Y = moments.prototypes.matrix[rows].astype(np.float64)
    prior = np.empty_like(means)
    # Shuffle: neighbors in sorted order may be related, and would be held out together.
    order = np.random.default_rng(0).permutation(len(rows))
    # Moments keep one scatter for all classes; each class gets its share.
    share = within_scatter(moments) / counts.sum() if forward else np.zeros((means.shape[1],) * 2)
    weights = counts.astype(np.float64) if per == "sample" else np.ones(len(rows))
    for held in np.array_split(order, min(_FOLDS, len(rows))):
        kept = np.setdiff1d(order, held)
        equations = _equations_of(means[kept], Y[kept], weights[kept], share)
        W = directed_projection(equations, beta, forward).value
        prior[held] = Y[held] @ W.T
    return sigma2, prototype_error(prior, means, counts, sigma2)


def _equations_of(
    means: np.ndarray, Y: np.ndarray, weights: np.ndarray, share: np.ndarray
) -> NormalEquations:
    """Return the equations of classes by their means; `share` is the scatter of a weight of 1."""
    weighted = means.T * weights
    A0 = weighted @ means + share * weights.sum()
    return NormalEquations(A0, (Y.T * weights) @ Y, weighted @ Y)
