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

    Samples are drawn again within each class, and both models are judged on the same draws, so
    that a sample which is hard for both adds no doubt.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, all text or all numbers.
    predicted_a, predicted_b : array-like of shape (n_samples,)
        Labels that the two models predict for the same samples.
    n_resamples : int, default=2000
        How often samples are drawn.
    confidence : float, default=0.95
        Between 0 and 1.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    PairedInterval
        `difference`, `low` and `high`: the percentile interval. Where 0 lies inside, the samples
        do not tell which model is better.

    Examples
    --------
    >>> from zonkey.metrics import paired_bootstrap_interval
    >>> truth = ["cat"] * 50 + ["owl"] * 50
    >>> better = paired_bootstrap_interval(truth, truth, ["cat"] * 100)
    >>> better.difference, better.low > 0
    (0.5, True)
    """
    true = filled_labels(y_true, "y_true")
    wins = _right(true, predicted_a, "predicted_a") - _right(true, predicted_b, "predicted_b")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise ValueError(f"n_resamples must be a positive integer; got {n_resamples!r}. Use 2000.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}. Use 0.95.")
    _, class_of = np.unique(true, return_inverse=True)
    sizes = np.bincount(class_of)
    # To draw samples is to draw how many are right for a only, for both or neither, for b only.
    counts = np.stack([np.bincount(class_of, weights=wins == kind) for kind in (1, 0, -1)], axis=1)
    rng = np.random.default_rng(random_state)
    shape = (int(n_resamples), len(sizes))
    draws = rng.multinomial(sizes, counts / sizes[:, None], size=shape)
    resampled = ((draws[..., 0] - draws[..., 2]) / sizes).mean(axis=1)
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    difference = ((counts[:, 0] - counts[:, 2]) / sizes).mean()
    return PairedInterval(float(difference), float(low), float(high))


def _right(true: np.ndarray, predicted: ArrayLike, name: str) -> np.ndarray:
    labels = filled_labels(predicted, name)
    require_same_kind(**{"y_true": true, name: labels})
    if true.shape != labels.shape:
        raise ValueError(
            f"{name} must have one label for each of the {true.size} samples of y_true, got "
            f"{labels.size}. Pass the predictions of the same samples."
        )
    return (true == labels).astype(np.int8)
