"""Generalized zero-shot scores: seen against unseen classes, at one penalty or at all of them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ..arrays import is_device_array, require_values, to_numpy
from ..labels import require_same_kind
from .accuracy import check_columns, check_same_length, per_class_accuracy, require_filled


class GeneralizedScores(NamedTuple):
    """Per-class accuracy on seen classes (acc_s) and unseen classes (acc_u), and their HM."""

    seen: float
    unseen: float
    harmonic_mean: float


def generalized_scores(
    y_true: ArrayLike, y_pred: ArrayLike, seen_classes: ArrayLike
) -> GeneralizedScores:
    """Return the per-class accuracy on seen and on unseen classes, and their harmonic mean.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of both seen and unseen classes.
    y_pred : array-like of shape (n_samples,)
        Labels predicted among all classes, seen and unseen.
    seen_classes : array-like or set
        Classes with training samples. All other classes are unseen.

    Returns
    -------
    GeneralizedScores
        Named tuple of `seen` (acc_s), `unseen` (acc_u) and `harmonic_mean` (HM), which is
        2 acc_s acc_u / (acc_s + acc_u), or 0 if both are 0.

    Examples
    --------
    >>> from zonkey.metrics import generalized_scores
    >>> generalized_scores(["cat", "owl", "owl"], ["cat", "owl", "cat"], ["cat"]).unseen
    0.5
    """
    true, predicted = require_filled(y_true, "y_true"), require_filled(y_pred, "y_pred")
    is_seen = _seen_mask(true, require_filled(seen_classes, "seen_classes"))
    check_same_length(true, predicted, "y_pred")
    return _add_harmonic_mean(
        per_class_accuracy(true[is_seen], predicted[is_seen]),
        per_class_accuracy(true[~is_seen], predicted[~is_seen]),
    )


@dataclass(frozen=True, eq=False)
class SeenUnseenCurve:
    """Accuracy on seen and on unseen classes as a function of the penalty of seen classes.

    Both accuracies are piecewise constant. Entry `i` holds for every penalty above
    ``penalties[i - 1]`` and up to ``penalties[i]``, so the curve is exact.

    Parameters
    ----------
    penalties : ndarray of shape (n_points,)
        Increasing, from -inf (all samples go to seen classes) to +inf (all go to unseen ones).
    seen : ndarray of shape (n_points,)
        Accuracy on seen classes (acc_s); non-increasing, 0 at the end.
    unseen : ndarray of shape (n_points,)
        Accuracy on unseen classes (acc_u); non-decreasing, 0 at the start.

    See Also
    --------
    seen_unseen_curve : Computes the curve from scores.
    best_penalty : Penalty with the best mean harmonic mean over several curves.

    Examples
    --------
    >>> from zonkey.metrics import seen_unseen_curve
    >>> curve = seen_unseen_curve(["cat", "owl"], [[5, 1], [2, 1]], ["cat", "owl"], ["cat"])
    >>> curve.area, curve.at(2.5).harmonic_mean
    (1.0, 1.0)
    """

    penalties: NDArray[np.float64]
    seen: NDArray[np.float64]
    unseen: NDArray[np.float64]

    @property
    def area(self) -> float:
        """Area under the seen-unseen curve (AUSUC), by the trapezoid rule."""
        return float(np.trapezoid(self.seen, self.unseen))

    @property
    def best_harmonic_mean(self) -> float:
        """Highest harmonic mean over all penalties."""
        return float(np.max(harmonic_mean(self.seen, self.unseen)))

    def at(self, penalty: float) -> GeneralizedScores:
        """Return the scores if `penalty` is subtracted from the scores of seen classes.

        Parameters
        ----------
        penalty : float
            Any number, including -inf and +inf.

        Returns
        -------
        GeneralizedScores
            Same as :func:`generalized_scores` of the predictions under this penalty.
        """
        if np.isnan(penalty):
            raise ValueError("penalty must be a number, got NaN. Pass 0.0 for no penalty.")
        i = np.searchsorted(self.penalties, penalty, side="left")
        return _add_harmonic_mean(float(self.seen[i]), float(self.unseen[i]))


def seen_unseen_curve(
    y_true: ArrayLike, scores: ArrayLike, classes: ArrayLike, seen_classes: ArrayLike
) -> SeenUnseenCurve:
    """Return the accuracies on seen and unseen classes at every penalty of the seen classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of both seen and unseen classes.
    scores : array-like of shape (n_samples, n_classes)
        Score of each sample for each class, higher is better, without penalty: the output of
        `decision_function` with all classes as candidates and ``seen_penalty=0``. For two classes
        the shape (n_samples,) is accepted too: the second score minus the first.
    classes : array-like of shape (n_classes,)
        Class of each column of `scores`.
    seen_classes : array-like or set
        Classes with training samples. All other classes are unseen.

    Returns
    -------
    SeenUnseenCurve
        The exact curve; no grid of penalties is involved.

    Notes
    -----
    A penalty shifts all seen scores of a sample equally. Only the best seen and the best unseen
    class of a sample can be its prediction, and the unseen one wins if and only if ::

        penalty > (best seen score) - (best unseen score).

    On ties the seen class wins, and within each group the first column. Sorting the differences
    once gives every change of the curve in O(n log n). Samples that change sides at the same
    penalty form one straight segment.

    References
    ----------
    W.-L. Chao, S. Changpinyo, B. Gong, F. Sha. An empirical study and analysis of generalized
    zero-shot learning for object recognition in the wild. ECCV 2016.
    """
    true, columns = require_filled(y_true, "y_true"), require_filled(classes, "classes")
    seen_labels = require_filled(seen_classes, "seen_classes")
    is_seen = _seen_mask(true, seen_labels)
    S = _score_matrix(scores, (true.size, columns.size))
    check_columns(true, columns)
    seen_column = np.isin(columns, seen_labels)

    best_seen, seen_pick = _find_best(S, np.flatnonzero(seen_column))
    best_unseen, unseen_pick = _find_best(S, np.flatnonzero(~seen_column))

    # A seen sample adds its share to acc_s until it moves to the unseen classes; an unseen sample
    # adds its share to acc_u from then on.
    seen_gain, unseen_gain = np.zeros(true.size), np.zeros(true.size)
    seen_gain[is_seen] = class_shares(true[is_seen])
    unseen_gain[~is_seen] = class_shares(true[~is_seen])
    lost = seen_gain * (columns[seen_pick] == true)
    won = unseen_gain * (columns[unseen_pick] == true)
    return curve_of_margins(best_seen - best_unseen, lost, won)


def curve_of_margins(
    margins: NDArray[np.float64], lost: NDArray[np.float64], won: NDArray[np.float64]
) -> SeenUnseenCurve:
    """Return the curve from the best seen score minus the best unseen score of each sample.

    `lost` is what acc_s loses and `won` what acc_u wins if a penalty moves the sample from seen to
    unseen classes.
    """
    thresholds, step = np.unique(margins, return_inverse=True)
    lost_there, won_there = (np.bincount(step, weights=gain) for gain in (lost, won))
    # Seen samples with a difference of at least thresholds[i].
    kept = np.cumsum(lost_there[::-1])[::-1]
    # The sums of 1 / count may exceed 1 by rounding.
    seen = np.minimum(np.concatenate([kept[:1], kept, [0.0]]), 1.0)
    unseen = np.minimum(np.concatenate([[0.0, 0.0], np.cumsum(won_there)]), 1.0)
    return SeenUnseenCurve(np.concatenate([[-np.inf], thresholds, [np.inf]]), seen, unseen)


def harmonic_mean(seen: Any, unseen: Any) -> Any:
    """Return 2 s u / (s + u) of numbers or of arrays, 0 if both are 0."""
    total = seen + unseen
    return 2.0 * seen * unseen / np.where(total > 0, total, 1.0)


def _add_harmonic_mean(seen: float, unseen: float) -> GeneralizedScores:
    return GeneralizedScores(seen, unseen, float(harmonic_mean(seen, unseen)))


def _seen_mask(true: NDArray[Any], seen_classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which samples are of seen classes; both kinds must be present."""
    require_same_kind(y_true=true, seen_classes=seen_classes)
    is_seen = np.isin(true, seen_classes)
    if is_seen.all() or not is_seen.any():
        absent = "unseen" if is_seen.all() else "seen"
        raise ValueError(
            f"y_true must have samples of seen and of unseen classes, got none of {absent} "
            f"classes among {true.size}. Check `seen_classes`, or use per_class_accuracy for a "
            "test set of one sort."
        )
    return is_seen


def _score_matrix(scores: Any, shape: tuple[int, int]) -> NDArray[Any]:
    """Return scores as a matrix; for two classes scikit-learn returns only the difference."""
    require_values(scores, "scores")
    scores = to_numpy(scores) if is_device_array(scores) else scores
    if shape[1] == 2 and np.ndim(scores) == 1:
        difference = np.asarray(scores)
        scores = np.stack([np.zeros_like(difference), difference], axis=1)
    S = np.asarray(check_array(scores, input_name="scores"))
    if S.shape != shape:
        raise ValueError(
            "scores must have a row for each label of y_true and a column for each of `classes`, "
            f"{shape}, got {S.shape}. Pass the scores of the same samples over all classes."
        )
    return S


def _find_best(
    scores: NDArray[Any], group: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the best score of each row among the columns of `group`, and that column."""
    within = scores[:, group]
    pick = within.argmax(axis=1)
    best = np.take_along_axis(within, pick[:, None], axis=1)[:, 0]
    return best.astype(np.float64), group[pick]


def class_shares(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each sample in the per-class accuracy; the weights sum to 1."""
    classes, class_of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / (counts[class_of] * classes.size)
