"""Whether one model is better than another on the same samples, or only luckier."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.labels import require_same_kind
from .accuracy import filled_labels

__all__ = ["PairedInterval", "paired_bootstrap_interval"]


class PairedInterval(NamedTuple):
    """A difference and the ends of its confidence interval, between -1 and 1."""

    difference: float
    low: float
    high: float


def paired_bootstrap_interval(
    y_true: ArrayLike,
    predicted_a: ArrayLike,
    predicted_b: ArrayLike,
    *,
    n_resamples: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> PairedInterval:
    """Difference of per-class accuracy of two models (a - b), with its bootstrap interval.

    Classes are held fixed and samples are drawn again within each class; both models are judged
    on the same draws, so that a sample which is hard for both adds no doubt. Where a model was
    run several times (with several seeds), a sample counts by the share of runs that get it
    right, and the runs are drawn again too.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, all text or all numbers; of two samples at least.
    predicted_a, predicted_b : array-like of shape (n_samples,) or (n_runs, n_samples)
        Labels that the two models predict for the same samples, a row a run where there are
        several. The two may have different numbers of runs.
    n_resamples : int, default=2000
        How often samples and runs are drawn.
    confidence : float, default=0.95
        Between 0 and 1.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    PairedInterval
        `difference`, `low` and `high`: the percentile interval. Where 0 lies inside, the samples
        do not tell which model is better.

    Notes
    -----
    To draw n samples from n themselves makes their mean vary by (n - 1) / n of what it should,
    which tells where classes are small: deviations are widened by sqrt(n / (n - 1)), class by
    class, and those of runs likewise. Classes of one sample are drawn from each other; if there
    is but one of these, it is drawn together with the smallest other class. A single run adds no
    doubt of its own: its interval is that of the samples alone.

    Examples
    --------
    >>> from zonkey.metrics import paired_bootstrap_interval
    >>> truth = ["cat"] * 50 + ["owl"] * 50
    >>> better = paired_bootstrap_interval(truth, truth, ["cat"] * 100)
    >>> round(better.difference, 6), better.low > 0
    (0.5, True)
    """
    true = filled_labels(y_true, "y_true")
    right_a = _right(true, predicted_a, "predicted_a")
    right_b = _right(true, predicted_b, "predicted_b")
    if true.size < 2:
        raise ValueError("y_true must have at least 2 samples to draw from; got 1. Pass more.")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise ValueError(f"n_resamples must be a positive integer; got {n_resamples!r}. Use 2000.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}. Use 0.95.")
    _, class_of = np.unique(true, return_inverse=True)
    sizes = np.bincount(class_of)
    weights = 1 / (len(sizes) * sizes[class_of])  # each class counts the same
    gains = weights * (right_a.mean(axis=0) - right_b.mean(axis=0))
    rng = np.random.default_rng(random_state)
    deviations = np.zeros(int(n_resamples))
    strata = _strata(class_of, sizes)
    for stratum in np.unique(strata):
        deviations += _drawn_again(gains[strata == stratum], int(n_resamples), rng)
    for right, sign in ((right_a, 1), (right_b, -1)):
        accuracies = right @ weights
        deviations += sign * _drawn_again(accuracies / len(accuracies), int(n_resamples), rng)
    difference = float(gains.sum())
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = difference + np.quantile(deviations, tails)
    return PairedInterval(difference, float(low), float(high))


def _strata(class_of: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return what each sample is drawn again among: its class, or the classes of one sample."""
    strata = np.arange(len(sizes))
    singles = np.flatnonzero(sizes == 1)
    if len(singles) == 1:  # it needs company, or it would seem certain
        singles = np.argsort(sizes, kind="stable")[:2]
    if len(singles):
        strata[singles] = singles[0]
    return strata[class_of]


def _drawn_again(values: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return how far the sum moves when as many values are drawn again, widened for their number.

    To draw values is to draw how often each distinct one comes up.
    """
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return np.zeros(n_resamples)
    draws = rng.multinomial(n, counts / n, size=n_resamples)
    return np.sqrt(n / (n - 1)) * ((draws - counts) @ distinct)


def _right(true: np.ndarray, predicted: ArrayLike, name: str) -> np.ndarray:
    """Return a row a run: 1.0 where the label is right, else 0.0."""
    ndim = 2 if np.ndim(predicted) == 2 else 1
    labels = np.atleast_2d(filled_labels(predicted, name, ndim=ndim))
    require_same_kind(**{"y_true": true, name: labels})
    if true.size != labels.shape[1]:
        raise ValueError(
            f"{name} must have one label for each of the {true.size} samples of y_true, got "
            f"{labels.shape[1]}. Pass the predictions of the same samples."
        )
    return (true == labels).astype(float)
