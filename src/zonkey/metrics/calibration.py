"""Penalties and temperatures chosen on held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import root_scalar
from scipy.special import logsumexp
from scipy.stats import hmean

from .generalized import SeenUnseenCurve

__all__ = ["best_penalty", "best_temperature", "log_loss_at"]

# Mean harmonic means that differ by less are equal but for rounding.
_EQUAL_MEANS = 1e-12
# How far from the spread of the scores a temperature may go, either way.
_TEMPERATURE_RANGE = 1e3

Fold = tuple[ArrayLike, ArrayLike]


def best_penalty(curves: Sequence[SeenUnseenCurve]) -> float:
    """Penalty of seen classes with the highest mean harmonic mean over several curves.

    Parameters
    ----------
    curves : sequence of SeenUnseenCurve
        One a fold, as :func:`seen_unseen_curve` returns them. Each weighs the same.

    Returns
    -------
    float
        Always finite: the middle of the best interval, so that scores of new samples may differ
        a little. Of equally good intervals it is the widest, then the lowest.

    Notes
    -----
    No grid is involved. Each harmonic mean changes at the thresholds of its curve only, so that
    the mean is constant between neighbors in the union of all thresholds; neighboring
    intervals of equal mean are one. The outer two intervals have no end: they count as twice the
    median gap between thresholds wide. Where no penalty makes any difference, the middle
    between the lowest and the highest threshold is returned.

    Examples
    --------
    >>> from zonkey.metrics import best_penalty, seen_unseen_curve
    >>> curve = seen_unseen_curve(["cat", "owl"], [[5, 1], [2, 1]], ["cat", "owl"], ["cat"])
    >>> best_penalty([curve])
    2.5
    """
    _check_curves(curves)
    thresholds = np.unique(np.concatenate([curve.penalties for curve in curves]))
    means = np.zeros(thresholds.size)  # entry i: up to thresholds[i], above the one before
    for curve in curves:
        entry = np.searchsorted(curve.penalties, thresholds)
        means += hmean([curve.seen, curve.unseen], axis=0)[entry] / len(curves)
    # The first entry stands for -inf alone, where every curve is as it is below its thresholds.
    lows, highs = _runs(means[1:] >= means[1:].max() - _EQUAL_MEANS)
    ends = _finite_ends(thresholds)
    widest = np.argmax(ends[highs] - ends[lows])
    low, high = ends[lows[widest]], ends[highs[widest]]
    middle = low + (high - low) / 2
    # A penalty on the lower threshold is outside; between neighboring floats there is no middle.
    return float(middle if middle > low else high)


def best_temperature(folds: Sequence[Fold], *, weights: Sequence[ArrayLike] | None = None) -> float:
    """Temperature T whose softmax(scores / T) makes the true classes most likely.

    Parameters
    ----------
    folds : sequence of (scores, codes)
        `scores` of shape (n_samples, n_classes), higher is better, or (n_samples,) with two
        classes, the second score less the first, as `decision_function` returns them; `codes`
        of shape (n_samples,), the column of the true class of each sample. Folds may differ in
        samples and in classes; each weighs the same.
    weights : sequence of array-like of shape (n_samples,), optional
        Weights of the samples within their fold, one array a fold. Default: all the same.

    Returns
    -------
    float
        Between 1e-3 and 1e3 times the spread of the scores, which is the standard deviation of
        the scores of a sample about their mean. Samples that are all right would push it to 0,
        and scores that are worse than chance to infinity: the end of the range is returned. It
        is 1.0 where all classes of a sample score the same, as no temperature matters then.

    Notes
    -----
    The mean negative log-likelihood is convex in 1 / T. Its derivative, the mean over samples of
    the expected score less the score of the true class, is increasing: its only zero is found.

    Examples
    --------
    >>> from zonkey.metrics import best_temperature
    >>> scores = [[4, 0], [4, 0], [4, 0], [4, 0]]
    >>> temperature = best_temperature([(scores, [0, 0, 0, 1])])
    >>> round(temperature, 3)  # 3 of 4 are right: e^(4 / T) = 3
    3.641
    """
    _check_folds(folds, weights)
    checked = []
    for place, (scores, codes) in enumerate(folds):
        given = None if weights is None else weights[place]
        S, columns, share = _checked_fold(scores, codes, given, f" of fold {place}")
        below = S - S.max(axis=1, keepdims=True)
        checked.append((below, columns, share / len(folds)))
    spread = np.sqrt(sum(share @ below.var(axis=1) for below, _, share in checked))
    if spread == 0:
        return 1.0

    def slope(log_temperature: float) -> float:
        """Slope of the mean negative log-likelihood by 1 / T; it decreases in T."""
        inverse = np.exp(-log_temperature)
        return sum(share @ _excess(below, codes, inverse) for below, codes, share in checked)

    low, high = np.log(spread / _TEMPERATURE_RANGE), np.log(spread * _TEMPERATURE_RANGE)
    if slope(low) <= 0:
        return float(np.exp(low))
    if slope(high) >= 0:
        return float(np.exp(high))
    return float(np.exp(root_scalar(slope, bracket=(low, high), xtol=1e-10).root))


def log_loss_at(
    scores: ArrayLike, codes: ArrayLike, temperature: float, *, weights: ArrayLike | None = None
) -> float:
    """Mean negative log-likelihood of the true classes under softmax(scores / temperature).

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes) or (n_samples,)
        As in :func:`best_temperature`.
    codes : array-like of shape (n_samples,)
        The column of the true class of each sample.
    temperature : float
        Positive.
    weights : array-like of shape (n_samples,), optional
        Weights of the samples, not negative. Default: all the same.

    Returns
    -------
    float
        In nats; log(n_classes) where all classes score the same.

    Examples
    --------
    >>> from zonkey.metrics.calibration import log_loss_at
    >>> round(log_loss_at([[1.0, 1.0], [2.0, 2.0]], [0, 1], temperature=3.0), 3)
    0.693
    """
    S, columns, share = _checked_fold(scores, codes, weights, "")
    if not 0 < temperature < np.inf:
        raise ValueError(
            f"temperature must be positive and finite; got {temperature}. Use 1.0 for the scores "
            "as they are."
        )
    logits = (S - S.max(axis=1, keepdims=True)) / temperature
    true = logits[np.arange(len(logits)), columns]
    return float(share @ (logsumexp(logits, axis=1) - true))


def _check_curves(curves: Any) -> None:
    received = _no_list_of(curves, lambda entry: isinstance(entry, SeenUnseenCurve))
    if received:
        raise ValueError(
            f"curves must be a list of at least one SeenUnseenCurve; got {received}. Pass what "
            "seen_unseen_curve returns for each fold, a single one in a list."
        )


def _no_list_of(values: Any, accepts: Callable[[Any], bool]) -> str | None:
    """Say what came in place of a list of accepted entries; None where all is well."""
    if not isinstance(values, Sequence):
        return type(values).__name__
    if len(values) == 0:
        return "an empty one"
    others = (type(entry).__name__ for entry in values if not accepts(entry))
    return next((f"an entry of type {name}" for name in others), None)


def _runs(good: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First entries of the runs of True, and the entries after their last."""
    change = np.diff(good.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(change > 0), np.flatnonzero(change < 0)


def _finite_ends(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds with finite numbers in place of -inf and +inf, which come first and last."""
    finite = thresholds[1:-1]
    gap = np.median(np.diff(finite)) if finite.size > 1 else 1.0
    return np.concatenate([[finite[0] - 2 * gap], finite, [finite[-1] + 2 * gap]])


def _excess(
    below: NDArray[np.float64], codes: NDArray[np.intp], inverse: float
) -> NDArray[np.float64]:
    """How far the expected score at temperature 1 / inverse is above that of the true class."""
    mass = np.exp(below * inverse)
    expected = np.einsum("ij,ij->i", mass, below) / mass.sum(axis=1)
    return expected - below[np.arange(len(below)), codes]


def _check_folds(folds: Any, weights: Any) -> None:
    received = _no_list_of(folds, lambda fold: isinstance(fold, Sequence) and len(fold) == 2)
    if received:
        raise ValueError(
            f"folds must be a list of at least one pair (scores, codes); got {received}. Put a "
            "single pair into a list."
        )
    if weights is not None and len(weights) != len(folds):
        raise ValueError(
            f"weights must hold one array for each of the {len(folds)} folds; got {len(weights)}. "
            "Put a single array into a list."
        )


def _checked_fold(
    scores: Any, codes: Any, weights: Any, of_fold: str
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Scores as a matrix, columns of the true classes, and weights that sum to 1."""
    S = np.asarray(scores, dtype=np.float64)
    if S.ndim == 1:
        S = np.stack([np.zeros_like(S), S], axis=1)
    if S.ndim != 2 or S.size == 0 or not np.isfinite(S).all():
        raise ValueError(
            f"scores{of_fold} must be finite, with a row a sample and a column a class; got shape "
            f"{S.shape} with {int((~np.isfinite(S)).sum())} not finite. Drop those samples."
        )
    n, n_classes = S.shape
    columns = np.asarray(codes)
    whole = columns.dtype.kind in "iu" and columns.shape == (n,)
    if not whole or columns.min() < 0 or columns.max() >= n_classes:
        got = f"{columns.min()} to {columns.max()}" if whole else f"shape {columns.shape}"
        raise ValueError(
            f"codes{of_fold} must be {n} integers from 0 to {n_classes - 1}, one a row of scores; "
            f"got {got} of {columns.dtype}. Use np.searchsorted(classes, y)."
        )
    share = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (n,) or not (np.isfinite(share) & (share >= 0)).all() or share.sum() == 0:
        raise ValueError(
            f"weights{of_fold} must be {n} finite numbers, none negative and one positive; got "
            f"shape {share.shape} with sum {share.sum()}. Use 0 to leave a sample out."
        )
    return S, columns.astype(np.intp), share / share.sum()
