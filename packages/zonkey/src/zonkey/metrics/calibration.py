"""Penalties and temperatures chosen on held-out scores, and how reliable confidences are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import root_scalar
from scipy.stats import hmean

from ..arrays import require_values, to_numpy
from ..constraints import check_weights
from .accuracy import check_columns, require_filled
from .generalized import SeenUnseenCurve

_EQUAL_MEANS = 1e-12  # mean harmonic means that differ by less are tied
_TEMPERATURE_RANGE = 1e3  # largest factor between a temperature and the spread of the scores
_SUM_TOLERANCE = 1e-3  # probabilities of a sample sum to 1 within this; softmax in float32 does

ScoredFold = tuple[ArrayLike, ArrayLike]


def best_penalty(curves: Sequence[SeenUnseenCurve]) -> float:
    """Return the penalty of seen classes with the highest mean harmonic mean over curves.

    Parameters
    ----------
    curves : sequence of SeenUnseenCurve
        One curve per fold, from :func:`seen_unseen_curve`. All have the same weight.

    Returns
    -------
    float
        Midpoint of the best interval of penalties; always finite. Ties: the widest interval,
        then the lowest.

    Notes
    -----
    No grid is involved. Each harmonic mean changes only at the thresholds of its curve, so the
    mean is constant between neighbors in the union of all thresholds. Neighboring intervals with
    the same mean are merged. The two unbounded intervals count as twice the median gap between
    thresholds wide. If the penalty has no effect, the result is the midpoint between the
    lowest and the highest threshold.

    Examples
    --------
    >>> from zonkey.metrics import best_penalty, seen_unseen_curve
    >>> curve = seen_unseen_curve(["cat", "owl"], [[5, 1], [2, 1]], ["cat", "owl"], ["cat"])
    >>> best_penalty([curve])
    2.5
    """
    received = _describe_wrong_list(curves, lambda entry: isinstance(entry, SeenUnseenCurve))
    if received:
        raise ValueError(
            f"curves must be a list of at least one SeenUnseenCurve; got {received}. Pass the "
            "output of seen_unseen_curve for each fold, a single one in a list."
        )
    thresholds = np.unique(np.concatenate([curve.penalties for curve in curves]))
    means = np.zeros(thresholds.size)  # entry i: penalties in (thresholds[i - 1], thresholds[i]]
    for curve in curves:
        entry = np.searchsorted(curve.penalties, thresholds)
        means += hmean([curve.seen, curve.unseen], axis=0)[entry] / len(curves)
    # The first entry is -inf alone; there every curve has its value below all thresholds.
    lows, highs = _runs(means[1:] >= means[1:].max() - _EQUAL_MEANS)
    ends = _make_ends_finite(thresholds)
    widest = np.argmax(ends[highs] - ends[lows])
    low, high = ends[lows[widest]], ends[highs[widest]]
    middle = low + (high - low) / 2
    # The interval excludes its lower end; neighboring floats have no midpoint between them.
    return float(middle if middle > low else high)


def best_temperature(
    folds: Sequence[ScoredFold], *, weights: Sequence[ArrayLike] | None = None
) -> float:
    """Return the temperature T that maximizes the likelihood under softmax(scores / T).

    Parameters
    ----------
    folds : sequence of (scores, codes)
        `scores` as `decision_function` returns them: shape (n_samples, n_classes), higher is
        better, or for two classes (n_samples,), the second score minus the first. `codes` of
        shape (n_samples,): the column of the true class of each sample. Folds may differ in
        samples and classes; all have the same weight.
    weights : sequence of array-like of shape (n_samples,), default=None
        Weights of the samples within their fold, one array per fold. None weights all equally.

    Returns
    -------
    float
        Temperature between 1e-3 and 1e3 times the spread of the scores, which is the standard
        deviation of the scores within a sample. If all samples are correct, or scores are worse
        than chance, it is the end of this range. It is 1.0 if all scores of each sample are equal.

    Notes
    -----
    The mean negative log-likelihood is convex in 1 / T. Its derivative, the mean over samples of
    the expected score minus the score of the true class, is increasing and has at most one root.

    Examples
    --------
    >>> from zonkey.metrics import best_temperature
    >>> scores = [[4, 0], [4, 0], [4, 0], [4, 0]]
    >>> temperature = best_temperature([(scores, [0, 0, 0, 1])])
    >>> round(temperature, 3)  # 3 of 4 are correct: e^(4 / T) = 3
    3.641
    """
    _check_folds(folds, weights)
    checked = []
    for place, (scores, codes) in enumerate(folds):
        given = None if weights is None else weights[place]
        S, columns, share = _check_fold(scores, codes, given, f" of fold {place}")
        below = S - S.max(axis=1, keepdims=True)
        checked.append((below, columns, share / len(folds)))
    spread = np.sqrt(sum(share @ below.var(axis=1) for below, _, share in checked))
    if spread == 0:
        return 1.0

    def slope(log_temperature: float) -> float:
        """Return the derivative of the mean negative log-likelihood by 1 / T."""
        inverse = np.exp(-log_temperature)
        return sum(share @ _excess(below, codes, inverse) for below, codes, share in checked)

    low, high = np.log(spread / _TEMPERATURE_RANGE), np.log(spread * _TEMPERATURE_RANGE)
    if slope(low) <= 0:
        return float(np.exp(low))
    if slope(high) >= 0:
        return float(np.exp(high))
    return float(np.exp(root_scalar(slope, bracket=(low, high), xtol=1e-10).root))


def expected_calibration_error(
    y_true: ArrayLike,
    probabilities: ArrayLike,
    classes: ArrayLike,
    *,
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error (ECE), the mean gap of confidence and accuracy.

    The confidence of a sample is the probability of its most likely class. Samples are binned by
    confidence into bins of equal width, open below and closed above. The gap between mean
    confidence and accuracy is averaged over the bins, weighted by their numbers of samples.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    probabilities : array-like of shape (n_samples, n_classes)
        Output of `predict_proba`; each row sums to 1.
    classes : array-like of shape (n_classes,)
        Class of each column of `probabilities`. Ties: the first column is the prediction.
    n_bins : int, default=15
        Number of bins between 0 and 1.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. None weights all equally.

    Returns
    -------
    float
        Error between 0 and 1; 0 is best. Few samples are never perfect: labels that are drawn from
        the probabilities themselves show what to expect of chance.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger. On calibration of modern neural networks.
    ICML 2017.

    Examples
    --------
    >>> from zonkey.metrics import expected_calibration_error
    >>> sure = [[0.75, 0.25]] * 4
    >>> expected_calibration_error(["cat", "cat", "cat", "owl"], sure, ["cat", "owl"])
    0.0
    """
    true, columns = require_filled(y_true, "y_true"), require_filled(classes, "classes")
    check_columns(true, columns)
    P = _as_probabilities(probabilities, (true.size, columns.size))
    check_bins(n_bins)
    confidence = np.clip(P.max(axis=1), 0.0, 1.0)
    right = columns[P.argmax(axis=1)] == true
    given = check_weights(sample_weight, P)
    shares = np.ones(true.size) if given is None else to_numpy(given)
    gaps = np.bincount(confidence_bins(confidence, int(n_bins)), shares * (right - confidence))
    return float(np.abs(gaps).sum() / shares.sum())


def check_bins(n_bins: Any) -> None:
    """Refuse a number of bins that is none."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be a positive integer; got {n_bins!r}. Use 15.")


def confidence_bins(confidence: NDArray[np.float64], n_bins: int = 15) -> NDArray[np.intp]:
    """Return the bin of each confidence: equal widths, open below and closed above."""
    inner_edges = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    return np.searchsorted(inner_edges, confidence)


def _describe_wrong_list(values: Any, accepts: Callable[[Any], bool]) -> str | None:
    """Describe what was passed instead of a list of accepted entries; None if it is valid."""
    if not isinstance(values, Sequence):
        return type(values).__name__
    if len(values) == 0:
        return "an empty one"
    others = (type(entry).__name__ for entry in values if not accepts(entry))
    return next((f"an entry of type {name}" for name in others), None)


def _runs(good: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first entry of each run of True, and the entry after its last."""
    change = np.diff(good.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(change > 0), np.flatnonzero(change < 0)


def _make_ends_finite(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return thresholds with finite numbers for the -inf and +inf at their ends."""
    finite = thresholds[1:-1]
    gap = np.median(np.diff(finite)) if finite.size > 1 else 1.0
    return np.concatenate([[finite[0] - 2 * gap], finite, [finite[-1] + 2 * gap]])


def _excess(
    below: NDArray[np.float64], codes: NDArray[np.intp], inverse: float
) -> NDArray[np.float64]:
    """Return the expected score at temperature 1 / inverse minus that of the true class."""
    mass = np.exp(below * inverse)
    expected = np.einsum("ij,ij->i", mass, below) / mass.sum(axis=1)
    return expected - below[np.arange(len(below)), codes]


def _check_folds(folds: Any, weights: Any) -> None:
    received = _describe_wrong_list(
        folds, lambda fold: isinstance(fold, Sequence) and len(fold) == 2
    )
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


def _check_fold(
    scores: Any, codes: Any, weights: Any, of_fold: str
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Return scores as a matrix, columns of the true classes, and weights that sum to 1."""
    S = np.asarray(scores, dtype=np.float64)
    if S.ndim == 1:
        S = np.stack([np.zeros_like(S), S], axis=1)
    if S.ndim != 2 or S.size == 0 or not np.isfinite(S).all():
        raise ValueError(
            f"scores{of_fold} must be finite, one row per sample, one column per class; got shape "
            f"{S.shape} with {int((~np.isfinite(S)).sum())} not finite. Drop those samples."
        )
    n, n_classes = S.shape
    columns = np.asarray(codes)
    whole = columns.dtype.kind in "iu" and columns.shape == (n,)
    if not whole or columns.min() < 0 or columns.max() >= n_classes:
        got = f"{columns.min()} to {columns.max()}" if whole else f"shape {columns.shape}"
        raise ValueError(
            f"codes{of_fold} must be {n} integers from 0 to {n_classes - 1}, one per score row; "
            f"got {got} of {columns.dtype}. Use np.searchsorted(classes, y)."
        )
    share = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (n,) or not (np.isfinite(share) & (share >= 0)).all() or share.sum() == 0:
        raise ValueError(
            f"weights{of_fold} must be {n} finite numbers, none negative and one positive; got "
            f"shape {share.shape} with sum {share.sum()}. Use 0 to leave a sample out."
        )
    return S, columns.astype(np.intp), share / share.sum()


def _as_probabilities(values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    require_values(values, "probabilities")
    P = to_numpy(values).astype(np.float64, copy=False)
    if P.shape != shape:
        raise ValueError(
            "probabilities must have a row for each label of y_true and a column for each of "
            f"`classes`, {shape}; got {P.shape}. Pass the probabilities of the same samples."
        )
    off = np.abs(P.sum(axis=1) - 1.0).max()
    if not (P.min() >= 0 and off <= _SUM_TOLERANCE):
        raise ValueError(
            f"probabilities must not be negative and sum to 1 for each sample; got a lowest of "
            f"{P.min()} and sums off by {off}. Pass the output of predict_proba, not scores."
        )
    return P
