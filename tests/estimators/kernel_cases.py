"""A small problem, kernels written out, and models fitted with them, for tests of prototypes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from zonkey import ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0)
KEPT = np.flatnonzero((np.arange(len(P.y)) % 4 > 0) | (P.y < "class 05"))
UNEVEN = replace(P, X=P.X[KEPT], y=P.y[KEPT])  # classes of different sizes
X_ALL = np.concatenate([P.X, P.X_new])
Y_ALL = np.stack(list(P.prototypes.values()))  # rows in the order of the labels
OF_SEEN = np.isin(list(P.prototypes), P.seen)

KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "poly"},
    {"kernel": "poly", "gamma": 0.4, "degree": 2, "coef0": 0.5},
    {"kernel": "arccos"},
]
DIRECTIONS = [
    {"direction": "forward"},
    {"direction": "reverse"},
    {"synthesis": None},
    {"synthesis": None, "forward_weight": 0.2},
]
REFINED = [
    {"competition": "second-best", "alpha": 0.3, "mu": 0.2},
    {"competition": None},
    {"competition": "assigned"},
    {"competition": "entropy", "max_iter": 5},
]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def fitted(p=P, **parameters):
    return p.fitted(ZeroShotClassifier(), **({"candidates": "all"} | parameters))


def assert_same_scores(model, expected, X=X_ALL, rtol=1e-7):
    scores = expected.decision_function(X)
    assert_allclose(model.decision_function(X), scores, rtol=rtol, atol=rtol * np.abs(scores).max())


def kernel_values(Y, Z, Y_s, *, kernel, gamma=1.0, degree=3, coef0=1.0):
    """k(y, z) one pair at a time; the unit of gamma is that of the seen prototypes Y_s."""
    if kernel == "rbf":
        unit = np.median(pdist(Y_s) ** 2)
        return np.array([[np.exp(-gamma / unit * np.sum((y - z) ** 2)) for z in Z] for y in Y])
    if kernel == "poly":
        unit = np.mean([y @ y for y in Y_s])
        return np.array([[(gamma / unit * (y @ z) + coef0) ** degree for z in Z] for y in Y])
    if kernel == "linear":
        return np.array([[y @ z for z in Z] for y in Y])
    return np.array([[_arc_cosine(y, z) for z in Z] for y in Y])


def _arc_cosine(y, z):
    lengths = np.linalg.norm(y) * np.linalg.norm(z)
    angle = np.arccos(np.clip(y @ z / lengths, -1, 1))
    return lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


def kernel_of_all(**kernel):
    """K over all classes, over the seen ones, and between all and seen ones."""
    K = kernel_values(Y_ALL, Y_ALL, Y_ALL[OF_SEEN], **kernel)
    return K, K[np.ix_(OF_SEEN, OF_SEEN)], K[:, OF_SEEN]


def as_prototypes(K, labels=tuple(P.prototypes)):
    return dict(zip(labels, K, strict=True))


def sums_and_counts(p):
    counts = np.array([np.sum(p.y == label) for label in p.seen])
    return np.stack([p.X[p.y == label].sum(axis=0) for label in p.seen]), counts
