"""A problem of several labels: samples are sums of the directions of their labels, and noise."""

import numpy as np

from zonkey import Prototypes

NAMES = np.array([f"l{j:02d}" for j in range(12)])


def make_labeled(seed=0, n=300, d=24, *, joint=True, noise=0.5):
    """Return X, an indicator matrix and prototypes; means of labels follow from prototypes."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(len(NAMES), d if joint else 10))
    directions = P if joint else P @ rng.normal(size=(10, d)) / 10**0.5
    Y = (rng.random((n, len(NAMES))) < np.linspace(0.06, 0.3, len(NAMES))).astype(int)
    X = Y @ directions + noise * rng.normal(size=(n, d)) * np.linspace(0.5, 2, d)
    return X, Y, Prototypes(NAMES, P)


def as_lists(Y):
    """Return the labels of each sample."""
    return [[NAMES[j] for j in np.flatnonzero(row)] for row in Y]
