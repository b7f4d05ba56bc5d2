"""One few-shot task: its shots, and the coordinates in which learning from them is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.frame import BaseClasses, Frame, frame_without_base
from ..core.fusion import within_class_variance
from ..core.moments import Moments, class_sums
from ..core.projection import NormalEquations


@dataclass(frozen=True, eq=False)
class Task:
    """One support set, in the coordinates of its frame."""

    frame: Frame
    X_u: np.ndarray
    codes: np.ndarray
    Y_u: np.ndarray
    base: BaseClasses | None

    @classmethod
    def of(
        cls, X_u: np.ndarray, codes: np.ndarray, Y_u: np.ndarray, base: BaseClasses | None
    ) -> Task:
        """Express support samples, with their rows of Y_u, and prototypes in a fitting frame."""
        frame = frame_without_base(X_u, Y_u) if base is None else base.frame(Y_u)
        return cls(frame, frame.features(X_u), codes, frame.semantics(Y_u), base)

    def initial_equations(self) -> NormalEquations:
        """Return what W^(0) is learnt from: the base classes, or the support set without any."""
        if self.base is not None:
            return self.frame.equations
        Y = self.Y_u[self.codes]
        return NormalEquations(self.X_u.T @ self.X_u, Y.T @ Y, self.X_u.T @ Y)


@dataclass(frozen=True, eq=False)
class Shots:
    """Mean and number of the samples of each class that has some.

    Attributes
    ----------
    labels : ndarray of shape (m,)
        In sorted order.
    means : ndarray of shape (m, d)
    counts : ndarray of shape (m,)
    """

    labels: np.ndarray
    means: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, codes: np.ndarray, labels: np.ndarray) -> Shots:
        """Take them from samples with their positions in the sorted `labels`."""
        counts = np.bincount(codes, minlength=len(labels))
        sums = class_sums(np.asarray(X, np.float64), codes, len(labels))
        return cls(labels, sums / counts[:, None], counts)

    def joined(self, moments: Moments) -> Shots:
        """Return these and the classes of moments."""
        rows = np.flatnonzero(moments.counts)
        labels = np.concatenate([self.labels, moments.prototypes.labels[rows]])
        counts = np.concatenate([self.counts, moments.counts[rows]])
        of_moments = moments.class_sums[rows] / moments.counts[rows, None]
        means = np.concatenate([self.means, of_moments])
        order = np.argsort(labels, kind="stable")
        return Shots(labels[order], means[order], counts[order])

    def variance(self, X: np.ndarray, codes: np.ndarray) -> float:
        """Return how far samples are from the mean of their class: a squared length."""
        return within_class_variance(float(((X - self.means[codes]) ** 2).sum()), self.counts)

    def aligned(self, labels: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return means and counts of these classes, zero for those without a sample."""
        rows = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        known = self.labels[rows] == labels
        means = np.where(known[:, None], self.means[rows], 0.0)
        return means.astype(dtype), np.where(known, self.counts[rows], 0)


def spread_of(Y: np.ndarray) -> float:
    """Return the root mean squared distance of prototypes from their mean.

    Of a single prototype, or of equal ones, it is their length, which is all there is to go by.
    """
    deviations = Y - Y.mean(axis=0)
    if not deviations.any():
        deviations = Y
    return float(np.sqrt(np.mean(np.sum(deviations**2, axis=1))))
