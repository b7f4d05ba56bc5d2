"""How far the confidence of a classifier can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.labels import listed, require_same_kind
from .accuracy import filled_labels

__all__ = ["SelectiveAccuracy", "expected_calibration_error", "selective_accuracy"]

# How far from 1 the probabilities of a sample may sum: softmax in single precision, and more.
_SUM_TOLERANCE = 1e-3


def expected_calibration_error(
    y_true: ArrayLike, probabilities: ArrayLike, classes: ArrayLike, *, n_bins: int = 15
) -> float:
    """How far confidence is from accuracy on average: the expected calibration error (ECE).

    The confidence of a sample is the probability of its most likely class. Samples are put into
    bins of equal width by confidence, each open below and closed above; the gap between mean
    confidence and accuracy within a bin is averaged over the bins, weighted by their samples.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    probabilities : array-like of shape (n_samples, n_classes)
        Probability of each class, as `predict_proba` returns them; each row sums to 1.
    classes : array-like of shape (n_classes,)
        The class of each column of `probabilities`. Of equally likely ones the first counts.
    n_bins : int, default=15
        Number of bins between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1; 0 is best.

    Notes
    -----
    Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> from zonkey.metrics import expected_calibration_error
    >>> sure = [[0.75, 0.25]] * 4
    >>> expected_calibration_error(["cat", "cat", "cat", "owl"], sure, ["cat", "owl"])
    0.0
    """
    true, columns = filled_labels(y_true, "y_true"), filled_labels(classes, "classes")
    _check_classes(true, columns)
    P = _as_probabilities(probabilities, (true.size, columns.size))
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be a positive integer; got {n_bins!r}. Use 15.")
    confidence = np.clip(P.max(axis=1), 0.0, 1.0)
    right = columns[P.argmax(axis=1)] == true
    inner_edges = np.linspace(0.0, 1.0, int(n_bins) + 1)[1:-1]
    gaps = np.bincount(np.searchsorted(inner_edges, confidence), weights=right - confidence)
    return float(np.abs(gaps).sum() / true.size)


@dataclass(frozen=True, eq=False)
class SelectiveAccuracy:
    """Accuracy on the samples that are answered, as ever less confident ones are answered too.

    Attributes
    ----------
    coverage : ndarray of shape (n_points,)
        Share of samples that are answered, increasing to 1. Samples of equal confidence are
        answered together.
    accuracy : ndarray of shape (n_points,)
        Share of right answers among them; at the end, the accuracy on all samples.
    """

    coverage: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def area(self) -> float:
        """Mean accuracy over all coverages; the accuracy itself where confidence says nothing."""
        return float(np.diff(self.coverage, prepend=0.0) @ self.accuracy)


def selective_accuracy(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike
) -> SelectiveAccuracy:
    """Accuracy against coverage when the least confident samples are refused an answer.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        How sure each prediction is, on any scale; higher is surer.

    Returns
    -------
    SelectiveAccuracy
        `coverage`, `accuracy` and `area`. Every sample counts the same, whatever its class.

    Examples
    --------
    >>> from zonkey.metrics import selective_accuracy
    >>> found = selective_accuracy(["cat", "owl"], ["cat", "cat"], [0.9, 0.6])
    >>> found.coverage.tolist(), found.accuracy.tolist(), found.area
    ([0.5, 1.0], [1.0, 0.5], 0.75)
    """
    true, predicted = filled_labels(y_true, "y_true"), filled_labels(y_pred, "y_pred")
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
            "Use -inf for a sample to be answered last."
        )
    levels, level_of = np.unique(-sure, return_inverse=True)
    answered = np.cumsum(np.bincount(level_of, minlength=levels.size))
    right = np.cumsum(np.bincount(level_of, weights=true == predicted))
    return SelectiveAccuracy(answered / true.size, right / answered)


def _check_classes(true: NDArray[Any], columns: NDArray[Any]) -> None:
    require_same_kind(y_true=true, classes=columns)
    distinct = np.unique(columns)
    absent = np.setdiff1d(true, columns)
    if distinct.size < columns.size or absent.size:
        got = f"no {listed(absent)}" if absent.size else f"{distinct.size} of {columns.size}"
        raise ValueError(
            f"classes must name each column once and hold every label of y_true; got {got}. "
            "Pass `classes_` of the model, and samples of these classes."
        )


def _as_probabilities(values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    P = np.asarray(values, dtype=np.float64)
    if P.shape != shape:
        raise ValueError(
            "probabilities must have a row for each label of y_true and a column for each of "
            f"`classes`, {shape}; got {P.shape}. Pass the probabilities of the same samples."
        )
    off = np.abs(P.sum(axis=1) - 1.0).max()
    if not (P.min() >= 0 and off <= _SUM_TOLERANCE):
        raise ValueError(
            f"probabilities must not be negative and sum to 1 for each sample; got a lowest of "
            f"{P.min()} and sums off by {off}. Pass what predict_proba returns, not scores."
        )
    return P
