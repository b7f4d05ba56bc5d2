"""Small problems for AnyShotClassifier, and its model as loops straight from the formulas."""

import math
from dataclasses import dataclass

import numpy as np
from reference_posterior import kernel_value, left_out_of_all, predicted, ridge_matrix, score, width

from zonkey import AnyShotClassifier

# Uneven on purpose: none, one, a few and many samples; "dog" has no prototype.
COUNTS = {"ant": 5, "bee": 0, "cow": 1, "dog": 6, "elk": 0, "fox": 12, "gnu": 3, "hen": 0, "jay": 4}
_RNG = np.random.default_rng(11)
PROTOTYPES = {label: _RNG.normal(size=4) + 1 for label in COUNTS if label != "dog"}
LABELS = sorted(COUNTS)
SEEN = [label for label in LABELS if COUNTS[label]]
UNSEEN = [label for label in LABELS if not COUNTS[label]]
Y = _RNG.permutation([label for label, n in COUNTS.items() for _ in range(n)])
X = (
    _RNG.normal(size=(len(Y), 6))
    + 2 * _RNG.normal(size=(len(LABELS), 6))[np.searchsorted(LABELS, Y)]
)
X_NEW = 2 * _RNG.normal(size=(9, 6))

# Every number off its default, so that nothing is chosen.
GIVEN = {
    "candidates": "all",
    "preprocessing": None,
    "prototype_transformer": None,
    "kernel": "rbf",
    "gamma": 0.7,
    "ridge": 0.2,
    "worth": 2.5,
    "seen_penalty": 0.6,
    "temperature": 1.7,
    "adapt_temperature": 0.9,
    "adapt_weight": 0.4,
}


def fitted(X=X, y=Y, sample_weight=None, prototypes=PROTOTYPES, **parameters):
    """Return a fitted model that chooses nothing but what `parameters` ask for."""
    model = AnyShotClassifier(prototypes, **(GIVEN | parameters))
    return model.fit(X, y, sample_weight)


class NaiveModel:
    """Centers and penalties by class, from samples in the preprocessed space."""

    def __init__(self, X, y, prototypes, *, kernel, gamma, ridge, worth, seen_penalty, **_):
        self.prototypes = {label: np.asarray(v, float) for label, v in prototypes.items()}
        known = sorted(self.prototypes)
        self.kernel = kernel
        self.gamma = width(np.stack([self.prototypes[j] for j in known]), kernel, gamma)
        self.sums, self.counts = {}, {}
        for x, label in zip(X, y, strict=True):
            self.sums[label] = self.sums.get(label, 0) + x
            self.counts[label] = self.counts.get(label, 0) + 1
        self.anchors = [label for label in known if self.counts.get(label)]
        self.order = {label: j for j, label in enumerate(known)}
        n = [self.counts[label] for label in self.anchors]
        self.K = np.array([[self.k(a, b) for b in self.anchors] for a in self.anchors])
        self.Lambda = ridge_matrix(self.K, n, ridge)
        self.M = np.stack([self.sums[j] / self.counts[j] for j in self.anchors])
        self.worth, self.seen_penalty = worth, seen_penalty
        self.labels = sorted({*known, *self.counts})

    def k(self, a, b):
        if self.kernel == "precomputed":
            return self.prototypes[a][self.order[b]]
        return kernel_value(self.kernel, self.prototypes[a], self.prototypes[b], self.gamma)

    def prior(self, label):
        """Return f of a class, learned from the others."""
        if label in self.anchors:
            counts = [self.counts[j] for j in self.anchors]
            return left_out_of_all(self.anchors.index(label), self.K, self.Lambda, self.M, counts)
        return self.predicted_mean(label)

    def predicted_mean(self, label):
        values = np.array([self.k(label, other) for other in self.anchors])
        return predicted(values, self.K, self.Lambda, self.M)

    def worth_of(self, label):
        return self.worth if label in self.prototypes else 0.0

    def center(self, label):
        n, n0 = self.counts.get(label, 0), self.worth_of(label)
        if not n0:
            return self.sums[label] / n
        return (n0 * self.prior(label) + self.sums.get(label, 0)) / (n0 + n)

    def penalty(self, label):
        n = self.counts.get(label, 0)
        return self.seen_penalty * n / (n + self.worth_of(label)) if n else 0.0

    def centers(self, labels=None):
        return np.stack([self.center(label) for label in labels or self.labels])

    def scores(self, X, labels=None):
        labels = labels or self.labels
        own = [(self.center(label), self.penalty(label)) for label in labels]
        return np.array([[score(x, c, o) for c, o in own] for x in X])


def naive_softmax(scores, temperature):
    rows = []
    for row in scores:
        odds = [math.exp((value - max(row)) / temperature) for value in row]
        rows.append([value / sum(odds) for value in odds])
    return np.array(rows)


@dataclass
class World:
    """Classes whose means depend on prototypes up to a deviation; numbers are labels.

    Features vary most along the last axes.
    """

    prototypes: dict
    means: np.ndarray
    spread: np.ndarray
    rng: np.random.Generator

    def draw(self, classes, n):
        """Return n samples of each class, or n[j] of class j."""
        y = np.repeat(classes, n)
        return self.means[y] + self.spread * self.rng.normal(size=(len(y), len(self.spread))), y


def world(seed=0, *, n_classes=24, d=12, k=6, deviation=0.4, noise=0.6, is_described=True):
    """Draw classes; without `is_described`, prototypes say nothing."""
    rng = np.random.default_rng(seed)
    described = rng.normal(size=(n_classes, k))
    means = described @ rng.normal(size=(k, d)) / math.sqrt(k)
    means += deviation * rng.normal(size=means.shape)
    if not is_described:
        described = rng.normal(size=(n_classes, k))
    spread = noise * np.linspace(0.4, 1.6, d)
    return World(dict(enumerate(described)), means, spread, rng)
