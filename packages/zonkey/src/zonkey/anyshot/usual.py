"""Usual temperatures, measured on many data sets, for what few samples cannot tell.

They are of samples of unit length and 20 classes. In joint spaces they are relative to the length
of names among the samples.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, namespace, to_numpy
from .refining import mean_square

NAMES_TEMPERATURE = 0.16  # of names alone, relative to their length
# Of one sample per class; how fast it falls with more; doublings that are as common as a standard
# deviation, without and with names.
_TEMPERATURE, _FALL, _SPREAD, _NAMES_SPREAD = 0.09, 0.2, 0.5, 0.35
_CLASSES, _LEAST_LENGTH = 20, 0.05
_ONE_SHOT = 1.7
OTHER_WORTH = 1.0  # of prototypes outside of joint spaces, in samples
# Share of the variance between classes over how far their means lie along their names (0.8 to 0.95
# in five joint spaces).
_BETWEEN, _LEAST_ERROR, _MOST_WORTH = 0.9, 0.02, 20.0
_SCATTER, _PAIRS = 0.1, 3.0  # usual scatter of products, and how many products tell as much


def usual_temperature(
    n: float, n_features: int, n_samples: int, n_classes: int, names: tuple[float, float]
) -> tuple[float, float]:
    """Return the usual temperature, and how many doublings from it are common.

    There are n samples of a typical class. `names` say how surely class means lie along their
    names, and how long these are.
    """
    share, length = names
    # Products of two samples scatter by at least 1 / sqrt(d), and scores with them.
    scatter = max(_SCATTER, n_features**-0.5)
    usual = _TEMPERATURE / n**_FALL * scatter / _SCATTER
    usual *= 1 + 1 / n_samples  # the mean of all samples is uncertain, too
    usual *= (NAMES_TEMPERATURE * max(length, _LEAST_LENGTH) / usual) ** share
    return usual * competition(n_classes), _SPREAD + share * (_NAMES_SPREAD - _SPREAD)


def usual_worth(share: float, length: float) -> float:
    """Return how many samples a name is usually worth in a joint space.

    `share` says how surely class means lie along their names, which have this length among samples.
    """
    between = _BETWEEN * length  # share of the variance of samples
    worth = (1 - between) / max(between - length**2, _LEAST_ERROR)
    # Errors of names confuse classes less than those of single samples of the same size.
    worth = min(worth * (1 + (1 - length) ** 2), _MOST_WORTH)
    return OTHER_WORTH + share * (worth - OTHER_WORTH)


def competition(n_classes: int) -> float:
    """Return the factor of temperatures: the best of very many wrong scores is higher."""
    return float(np.log(_CLASSES) / np.log(max(_CLASSES, n_classes))) ** 0.5


def usual_one_shot(X: Array) -> float:
    """Return the usual temperature of one sample per class, which are the rows of X.

    It is relative to how far products of two samples scatter.
    """
    xp, n, length = namespace(X), X.shape[0], mean_square(X)
    G = to_numpy(xp.astype(X @ X.T, xp.float64)) / length
    scatter = float(np.std(G[~np.eye(n, dtype=bool)])) if n > 1 else 0.0
    # Samples are centered: their products are tied to each other, those of two completely.
    free = max(0.0, n * (n - 3) / 2)
    usual = max(_SCATTER**2, 1 / X.shape[1])  # in all directions alike, it is 1 / d
    scatter = ((free * scatter**2 + _PAIRS * usual) / (free + _PAIRS)) ** 0.5
    return _ONE_SHOT * scatter * length * competition(n) / float(np.log(_CLASSES)) ** 0.5
