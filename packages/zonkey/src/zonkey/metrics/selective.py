"""Classifiers that may refuse to answer: risk against coverage, and thresholds for a precision."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from ..arrays import to_numpy
from ..constraints import check_weights
from ..labels import require_same_kind
from .accuracy import require_filled

_INTERVAL = 0.95  # level of the interval of a precision


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve:
    """Risk as a function of coverage for a classifier that may refuse to answer.

    Samples are answered in order of decreasing confidence. Samples of equal confidence are
    answered together, as no threshold can tell them apart.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Share of samples that are answered, increasing to 1.
    risk : ndarray of shape (n_points,)
        Share of wrong answers among them; the last entry is the error on all samples.
    thresholds : ndarray of shape (n_points,)
        Lowest confidence that is answered, decreasing.
    best : float
        Area under the curve of the best order of the same answers: all right ones first.

    See Also
    --------
    risk_coverage_curve : Computes the curve from predictions and confidences.
    expected_calibration_error : Gap between confidence and accuracy.

    Examples
    --------
    >>> from zonkey.metrics import risk_coverage_curve
    >>> risk_coverage_curve(["cat", "owl"], ["cat", "cat"], [0.9, 0.6]).area
    0.25
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    best: float

    @property
    def area(self) -> float:
        """Area under the curve (AURC): mean risk over all coverages; 0 is best.

        It is the error on all samples if all confidences are equal.
        """
        return float(np.diff(self.coverage, prepend=0.0) @ self.risk)

    @property
    def excess(self) -> float:
        """Area above that of the best order: what a better confidence could gain."""
        return self.area - self.best


def risk_coverage_curve(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    confidence: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> RiskCoverageCurve:
    """Return the share of wrong answers if the least confident samples are not answered.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Confidence of each prediction, on any scale; higher is more confident.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. None weights all equally.

    Returns
    -------
    RiskCoverageCurve
        Curve with `coverage`, `risk`, `thresholds`, and the `area` under it.

    References
    ----------
    Y. Geifman, G. Uziel, R. El-Yaniv. Bias-reduced uncertainty estimation for deep neural
    classifiers. ICLR 2019.

    Examples
    --------
    >>> from zonkey.metrics import risk_coverage_curve
    >>> found = risk_coverage_curve(["cat", "owl"], ["cat", "cat"], [0.9, 0.6])
    >>> found.coverage.tolist(), found.risk.tolist(), found.thresholds.tolist()
    ([0.5, 1.0], [0.0, 0.5], [0.9, 0.6])
    """
    right, sure, weights = _check_answers(y_true, y_pred, confidence, sample_weight)
    levels, answered, good = _accept_by_level(sure, weights, weights * right)
    wrong = np.sort(weights[~right])
    lost = np.cumsum(wrong)
    best = float(wrong @ (lost / np.maximum(lost + good[-1], 1e-300))) / float(answered[-1])
    return RiskCoverageCurve(answered / answered[-1], 1 - good / answered, levels, best)


def _accept_by_level(
    confidence: NDArray[np.float64], *parts: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return decreasing thresholds, and the sums of the parts of samples at or above each."""
    levels, level_of = np.unique(-confidence, return_inverse=True)
    sums = (np.cumsum(np.bincount(level_of, part)).astype(np.float64) for part in parts)
    return [-levels, *sums]


@dataclass(frozen=True)
class PrecisionThreshold:
    """Lowest confidence at which accepted answers have a wanted precision.

    Its text says threshold, precision and coverage in one line.

    Parameters
    ----------
    wanted : float
        The wanted precision.
    threshold : float
        Lowest confidence that is accepted.
    precision : float
        Share of right answers among the accepted ones of the samples.
    low, high : float
        95 % Clopper-Pearson interval of the precision.
    coverage : float
        Share of the samples whose answers are accepted.
    n_samples : int
        Number of samples.

    See Also
    --------
    precision_threshold : Chooses it.

    Examples
    --------
    >>> from zonkey.metrics import PrecisionThreshold
    >>> found = PrecisionThreshold(0.9, 0.7, 0.95, 0.88, 0.98, coverage=0.8, n_samples=100)
    >>> print(found)
    accepted from 0.7: precision 95.0 % [88.0, 98.0], coverage 80.0 % of 100 samples
    """

    wanted: float
    threshold: float
    precision: float
    low: float
    high: float
    coverage: float
    n_samples: int

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return (
            f"accepted from {self.threshold:.4g}: precision {100 * self.precision:.1f} % "
            f"[{low:.1f}, {high:.1f}], coverage {100 * self.coverage:.1f} % of "
            f"{self.n_samples} samples"
        )


def precision_threshold(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    confidence: ArrayLike,
    precision: float,
    *,
    certainty: float = 0.8,
    sample_weight: ArrayLike | None = None,
) -> PrecisionThreshold:
    """Return the lowest confidence at which accepted answers have a wanted precision.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of samples that the classifier has not learned from.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Confidence of each prediction, on any scale; higher is more confident.
    precision : float
        Wanted share of right answers among the accepted ones, between 0 and 1.
    certainty : float, default=0.8
        How certain the precision should be, between 0.5 and 1: the lower end of its one-sided
        Clopper-Pearson interval at this level must reach `precision`. The lowest threshold at
        which the share itself reaches it would be too low in more than half of all cases.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples; the interval takes them for as many samples of equal weight as
        are worth as much (Kish). None weights all equally.

    Returns
    -------
    PrecisionThreshold
        Threshold, precision, interval and coverage.

    Raises
    ------
    ValueError
        If no threshold has the precision; the message says which can be reached.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.metrics import precision_threshold
    >>> sure = np.linspace(0, 1, 200)
    >>> wrong = (sure < 0.5) & (np.arange(200) % 2 == 0)
    >>> found = precision_threshold(np.zeros(200, int), wrong.astype(int), sure, 0.95)
    >>> round(found.threshold, 2), round(found.precision, 2), round(found.coverage, 2)
    (0.48, 0.98, 0.53)
    """
    right, sure, weights = _check_answers(y_true, y_pred, confidence, sample_weight)
    parts = sure, weights * right, weights, weights**2
    return choose_threshold(parts, len(right), precision, certainty)


def choose_threshold(
    parts: tuple[NDArray[np.float64], ...], n_samples: int, precision: float, certainty: float
) -> PrecisionThreshold:
    """Return the lowest threshold of a wanted precision; see `precision_threshold`.

    `parts` are confidences, what right and all answers weigh, and squared weights.
    """
    _check_share("precision", precision, 0.0, "0.95")
    _check_share("certainty", certainty, 0.5, "0.8")
    levels, good, answered, squares = _accept_by_level(*parts)
    shares, n = np.minimum(good / answered, 1.0), answered**2 / squares  # samples of equal weight
    lows = _bound(shares * n, n, 1 - certainty)
    reached = np.flatnonzero(lows >= precision)
    if not reached.size:
        best = int(lows.argmax())
        raise ValueError(
            f"A precision of {100 * precision:g} % cannot be shown with these {n_samples} "
            f"samples: the highest is {100 * lows[best]:.1f} %, at a coverage of "
            f"{100 * answered[best] / answered[-1]:.1f} %. Ask for less, or pass more labeled "
            "samples."
        )
    last = reached[-1]
    tail = (1 - _INTERVAL) / 2
    k, m = shares[last] * n[last], n[last]
    return PrecisionThreshold(
        wanted=float(precision),
        threshold=float(levels[last]),
        precision=float(shares[last]),
        low=float(_bound(k, m, tail)),
        high=float(1 - _bound(m - k, m, tail)),
        coverage=float(answered[last] / answered[-1]),
        n_samples=n_samples,
    )


def _bound(k: NDArray[np.float64], n: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """Return the lower end of the Clopper-Pearson interval of k of n, with this tail below it."""
    k = np.maximum(k, 0.0)
    return np.where(k > 0, beta.ppf(tail, np.maximum(k, 1e-300), n - k + 1), 0.0)


def _check_share(name: str, value: float, low: float, usual: str) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not low < value < 1:
        raise ValueError(
            f"`{name}` must be a number between {low:g} and 1; got {value!r}. Pass {usual}."
        )


def _check_answers(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return which answers are right, how confident each is, and weights."""
    true, predicted = require_filled(y_true, "y_true"), require_filled(y_pred, "y_pred")
    require_same_kind(y_true=true, y_pred=predicted)
    sure = np.asarray(confidence, dtype=np.float64)
    if not true.shape == predicted.shape == sure.shape:
        raise ValueError(
            f"y_pred and confidence must have one entry for each of the {true.size} samples of "
            f"y_true; got shapes {predicted.shape} and {sure.shape}. Pass the same samples."
        )
    if np.isnan(sure).any():
        raise ValueError(
            f"confidence must not be missing; {int(np.isnan(sure).sum())} of {sure.size} are NaN. "
            "Use -inf for samples to be answered last."
        )
    given = check_weights(sample_weight, sure[:, None])
    weights = np.ones(true.size) if given is None else to_numpy(given).astype(np.float64)
    used = weights > 0
    return (true == predicted)[used], sure[used], weights[used]
