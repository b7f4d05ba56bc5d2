"""Metrics of several labels per sample, where scikit-learn's do not tell labels without positives.

Labels without positive samples have no average precision and no F1: they are left out of means over
labels, not counted as zero. Entries of -1 are unknown and left out, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import require_values
from ..constraints import check_weights
from .calibration import check_bins, confidence_bins


def mean_average_precision(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Any = None
) -> float:
    """Return the mean over labels of the area under the curve of precision and recall.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_labels)
        1 where a label applies, 0 where it does not, -1 where nobody knows.
    y_score : array-like of shape (n_samples, n_labels)
        Scores or probabilities, the higher the more likely the label.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. None weights all equally.

    Returns
    -------
    float
        Mean over the labels with positive samples.

    Examples
    --------
    >>> from zonkey.metrics import mean_average_precision
    >>> mean_average_precision([[1, 0], [0, 0], [1, 0]], [[0.9, 0.2], [0.1, 0.3], [0.8, 0.9]])
    1.0
    """
    Y, S, weights = _check(y_true, y_score, sample_weight)
    found = average_precisions(Y, S, weights[None, :])[0]
    if np.isnan(found).all():
        raise ValueError("y_true must mark at least one label; got none. Pass other samples.")
    return float(np.nanmean(found))


def multilabel_calibration_error(
    y_true: ArrayLike, y_prob: ArrayLike, *, n_bins: int = 15, sample_weight: Any = None
) -> float:
    """Return the mean gap between the probability of a label and how often it applies.

    Pairs of sample and label are sorted into bins of equal width of their probability, all labels
    together.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_labels)
        1 where a label applies, 0 where it does not, -1 where nobody knows.
    y_prob : array-like of shape (n_samples, n_labels)
        Probabilities of the labels.
    n_bins : int, default=15
        Number of bins.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. None weights all equally.

    Returns
    -------
    float
        Expected calibration error over all pairs; 0 is best.

    Examples
    --------
    >>> from zonkey.metrics import multilabel_calibration_error
    >>> round(multilabel_calibration_error([[1, 0], [1, 0]], [[0.8, 0.0], [0.8, 0.0]]), 3)
    0.1
    """
    Y, P, weights = _check(y_true, y_prob, sample_weight)
    if P.min() < 0 or P.max() > 1:
        raise ValueError(
            f"y_prob must be probabilities; got values from {P.min():.3g} to {P.max():.3g}. Pass "
            "the result of predict_proba."
        )
    check_bins(n_bins)
    if Y.max() < 0:
        raise ValueError("y_true must know at least one label; got -1 only. Pass other samples.")
    gaps, totals = calibration_gaps(Y, P, weights[None, :], n_bins)
    return float(np.abs(gaps[0]).sum() / totals[0])


def average_precisions(
    Y: NDArray[Any], S: NDArray[Any], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the average precision of each label for each row of sample counts, NaN without one."""
    found = np.full((len(counts), Y.shape[1]), np.nan)
    for j in range(Y.shape[1]):
        known = np.flatnonzero(Y[:, j] >= 0)
        if not known.size:
            continue
        order = known[np.argsort(-S[known, j], kind="stable")]
        is_last = np.append(S[order[1:], j] != S[order[:-1], j], True)  # of equal scores
        ordered = counts[:, order]
        hits = (ordered * (Y[order, j] == 1)).cumsum(axis=1)[:, is_last]
        answers = ordered.cumsum(axis=1)[:, is_last]
        gains = np.diff(hits, axis=1, prepend=0)
        area = (gains * hits / np.maximum(answers, 1e-300)).sum(axis=1)
        has = hits[:, -1] > 0
        found[has, j] = area[has] / hits[has, -1]
    return found


def calibration_gaps(
    Y: NDArray[Any], P: NDArray[Any], counts: NDArray[np.float64], n_bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each row of sample counts the gap of each bin, and the number of all pairs."""
    n, m = Y.shape
    known = Y >= 0
    bins = confidence_bins(P.ravel(), n_bins).reshape(n, m)
    flat = (np.arange(n)[:, None] * n_bins + bins)[known]
    gaps = np.bincount(flat, (Y - P)[known], minlength=n * n_bins).reshape(n, n_bins)
    return counts @ gaps, counts @ known.sum(axis=1)


def _check(
    y_true: ArrayLike, values: ArrayLike, sample_weight: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    for name, given in (("y_true", y_true), ("scores", values)):
        require_values(given, name)
    Y, S = np.asarray(y_true), np.asarray(values, np.float64)
    if Y.ndim != 2 or Y.shape != S.shape or not Y.size:
        raise ValueError(
            "y_true and scores must be matrices of samples and labels of one shape; got "
            f"{Y.shape} and {S.shape}. Pass an indicator matrix, and one score for each entry."
        )
    if not np.isin(Y, (-1, 0, 1)).all():
        raise ValueError(
            f"y_true must hold 0, 1, or -1 for unknown; got {Y[~np.isin(Y, (-1, 0, 1))][0]}. Pass "
            "an indicator matrix."
        )
    if not np.isfinite(S).all():
        raise ValueError("Scores must be finite; some are not. Check the model.")
    weights = check_weights(sample_weight, S)
    return Y, S, np.ones(len(S)) if weights is None else np.asarray(weights, np.float64)
