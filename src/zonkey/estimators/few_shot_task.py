"""One few-shot task: its shots, and the coordinates in which learning from them is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.frame import BaseClasses, Frame, frame_without_base
from ..core.fusion import within_class_variance
from ..core.moments import Moments, class_sums
from ..core.projection import NormalEquations
from ..core.prototypes import Prototypes
from ..linalg.arrays import Array, counts_by_code, namespace, placed_like
from .semantics import SemanticMap


@dataclass(frozen=True, eq=False)
class Problem:
    """A support set as it was given, and what is known of its classes.

    Attributes
    ----------
    X : array of shape (N_u, d)
    codes : array of shape (N_u,)
        Position in `labels` of each sample, where the samples are.
    labels : ndarray of shape (q,)
        Novel classes, in sorted order.
    known : Prototypes
        Of all classes.
    semantics : SemanticMap
        What is done to prototypes.
    Y_u : ndarray of shape (q, k)
        Those of the novel classes after it.
    base : BaseClasses or None
        After it, too.
    """

    X: Array
    codes: Array
    labels: np.ndarray
    known: Prototypes
    semantics: SemanticMap
    Y_u: np.ndarray
    base: BaseClasses | None


@dataclass(frozen=True, eq=False)
class Task:
    """One support set, in the coordinates of its frame; prototypes on the host."""

    frame: Frame
    X_u: Array
    codes: Array
    Y_u: np.ndarray
    base: BaseClasses | None

    @classmethod
    def of(cls, X_u: Array, codes: Array, Y_u: np.ndarray, base: BaseClasses | None) -> Task:
        """Express support samples, with their rows of Y_u, and prototypes in a fitting frame."""
        xp = namespace(X_u)
        X_u = xp.astype(X_u, xp.float64, copy=False)
        frame = frame_without_base(X_u, Y_u) if base is None else base.frame(Y_u)
        return cls(frame, frame.features(X_u), codes, frame.semantics(Y_u), base)

    def initial_equations(self) -> NormalEquations:
        """Return what W^(0) is learned from: the base classes, or the support set without any."""
        if self.base is not None:
            return self.frame.equations
        xp = namespace(self.X_u)
        Y = xp.take(self.placed(self.Y_u), self.codes, axis=0)
        X, mT = self.X_u, xp.matrix_transpose
        return NormalEquations(mT(X) @ X, mT(Y) @ Y, mT(X) @ Y)

    @cached_property
    def spread(self) -> float:
        """How far apart the prototypes are, those of base classes among them."""
        Y = self.Y_u
        if self.base is not None:
            of_base = self.base.prototypes.matrix.astype(np.float64)
            Y = np.concatenate([Y, self.frame.semantics(of_base)])
        return spread_of(Y)

    def placed(self, M: np.ndarray) -> Array:
        """Return numbers of the host where the samples are."""
        return placed_like(M, self.X_u)


@dataclass(frozen=True, eq=False)
class Shots:
    """Mean and number of the samples of each class that has some.

    Attributes
    ----------
    labels : ndarray of shape (m,)
        In sorted order.
    means : array of shape (m, d)
        Where the samples are.
    counts : ndarray of shape (m,)
    """

    labels: np.ndarray
    means: Array
    counts: np.ndarray

    @classmethod
    def of(cls, X: Array, codes: Array, labels: np.ndarray) -> Shots:
        """Take them from samples with their positions in the sorted `labels`."""
        counts = counts_by_code(codes, len(labels))
        xp = namespace(X)
        sums = class_sums(xp.astype(X, xp.float64, copy=False), codes, len(labels))
        return cls(labels, sums / placed_like(counts.astype(np.float64), sums)[:, None], counts)

    def joined(self, moments: Moments) -> Shots:
        """Return these and the classes of moments."""
        rows = np.flatnonzero(moments.counts)
        labels = np.concatenate([self.labels, moments.prototypes.labels[rows]])
        counts = np.concatenate([self.counts, moments.counts[rows]])
        xp = namespace(self.means)
        sums = xp.take(moments.class_sums, placed_like(rows, self.means), axis=0)
        of_moments = sums / placed_like(moments.counts[rows].astype(np.float64), sums)[:, None]
        order = np.argsort(labels, kind="stable")
        means = xp.concat([self.means, of_moments], axis=0)
        means = xp.take(means, placed_like(order, means), axis=0)
        return Shots(labels[order], means, counts[order])

    def variance(self, X: Array, codes: Array) -> float:
        """Return how far samples are from the mean of their class: a squared length."""
        xp = namespace(X)
        apart = xp.astype(X, xp.float64, copy=False) - xp.take(self.means, codes, axis=0)
        return within_class_variance(float(xp.sum(apart * apart)), self.counts)

    def aligned(self, labels: np.ndarray, dtype: Any) -> tuple[Array, np.ndarray]:
        """Return means and counts of these classes, zero for those without a sample."""
        rows = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        known = self.labels[rows] == labels
        xp = namespace(self.means)
        means = xp.take(self.means, placed_like(rows, self.means), axis=0)
        means = xp.where(placed_like(known, means)[:, None], means, xp.zeros_like(means))
        return xp.astype(means, dtype), np.where(known, self.counts[rows], 0)


def spread_of(Y: np.ndarray) -> float:
    """Return the root mean squared distance of prototypes from their mean.

    Of a single prototype, or of equal ones, it is their length, which is all there is to go by.
    """
    deviations = Y - Y.mean(axis=0)
    if not deviations.any():
        deviations = Y
    return float(np.sqrt(np.mean(np.sum(deviations**2, axis=1))))
