"""Classes whose samples and prototypes are vectors of one space, with a gap between the kinds."""

import copy

import numpy as np

from zonkey import AnyShotClassifier


class JointWorld:
    """Prototypes are class means, blurred, and moved by a gap."""

    def __init__(self, seed=0, n_classes=8, d=12, noise=1.0, blur=0.6, gap=3.0):
        self.rng = np.random.default_rng(seed)
        self.means = self.rng.normal(size=(n_classes, d))
        self.noise = noise
        vectors = self.means + blur * self.rng.normal(size=(n_classes, d))
        self.vectors = vectors + gap * self.rng.normal(size=d)
        self.prototypes = dict(enumerate(self.vectors))

    def draw(self, n, classes=None):
        """Return n samples of each class, or n[j] of class j."""
        y = np.repeat(np.arange(len(self.means)) if classes is None else classes, n)
        return self.means[y] + self.noise * self.rng.normal(size=(len(y), self.means.shape[1])), y


def joint(prototypes, **parameters):
    return AnyShotClassifier(prototypes, space="joint", **parameters)


def settled(model, state):
    """Return a copy of a model that answers by another state."""
    other = copy.copy(model)
    other._settle(state)
    return other


def accuracy(model, X, y):
    return float(np.mean(model.predict(X) == y))
