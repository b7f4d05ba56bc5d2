"""How sure a mean over repeated trials is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

__all__ = ["MeanInterval", "mean_confidence_interval"]


class MeanInterval(NamedTuple):
    """A mean and the half width of its confidence interval."""

    mean: float
    half_width: float


def mean_confidence_interval(values: ArrayLike, confidence: float = 0.95) -> MeanInterval:
    """Mean over trials with its Student confidence interval.

    Parameters
    ----------
    values : array-like of shape (n_trials,)
        One figure a trial, at least two.
    confidence : float, default=0.95
        Between 0 and 1.

    Returns
    -------
    MeanInterval
        `mean` and `half_width`: the interval is mean ± half_width.

    Examples
    --------
    >>> from zonkey.metrics import mean_confidence_interval
    >>> mean, half_width = mean_confidence_interval([0.6, 0.7, 0.8])
    >>> round(mean, 3), round(half_width, 3)
    (0.7, 0.248)
    """
    figures = np.asarray(values, dtype=np.float64)
    if figures.ndim != 1 or figures.size < 2 or not np.isfinite(figures).all():
        raise ValueError(
            "values must be at least two finite figures, one a trial; got shape "
            f"{figures.shape}. Run more trials."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}. Use 0.95.")
    deviation = figures.std(ddof=1) / np.sqrt(figures.size)
    quantile = student.ppf((1 + confidence) / 2, figures.size - 1)
    return MeanInterval(float(figures.mean()), float(quantile * deviation))
