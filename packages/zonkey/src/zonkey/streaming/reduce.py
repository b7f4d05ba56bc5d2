"""Reductions: computations over chunks of samples, such as sums by class."""

from __future__ import annotations

import copy
from enum import StrEnum
from typing import Any, Protocol, Self

import numpy as np
from array_api_compat import device

from ..arrays import Array, namespace, place_like, sums_by_code, to_numpy
from ..labels import join_labels, places_among
from ..samples import sample_blocks
from ..threads import multiply
from .sources import Chunk, get_labels


class Pass(StrEnum):
    """What a pass over chunks is for: its name in progress and in checkpoints."""

    SURVEY = "survey"  # labels, means, and a few samples of each class
    MEAN = "mean"
    CLASS_MEANS = "means"
    SCATTER = "scatter"  # within classes
    STEP = "step"  # of a transformer that learns by `partial_fit`
    SUMS = "sums"  # over the samples of each class
    MORE = "more"  # such sums of further samples
    MOMENTS = "moments"
    LABELS = "labels"
    SCORE = "score"
    EVALUATION = "evaluation"


class Reduction(Protocol):
    """A computation over chunks that can be merged, stored and restored.

    It starts empty. Merging it with an empty one changes nothing.
    """

    def copy_empty(self) -> Self:
        """Return an empty reduction that shares everything that chunks never change."""
        ...

    def update(self, chunk: Chunk) -> None:
        """Add a chunk; the chunk is not modified."""
        ...

    def merge(self, other: Self) -> None:
        """Add another reduction to this one; `other` is not changed."""
        ...

    def parts(self) -> dict[str, Any]:
        """Return arrays, numbers and text that `restore` needs."""
        ...

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over the state in these parts."""
        ...


class ClassSums:
    """Sums over the samples of each class, in float64: a `Reduction`.

    Sorted labels come with the chunks, or are given; then the codes of `add` refer to them.

    A `shift` is a vector per class to subtract from its samples in sums and scatter. If it is near
    the mean of the class, the scatter within classes keeps its digits where classes are far apart.
    """

    counts: np.ndarray  # numbers of samples, or sums of their weights
    squares: np.ndarray  # sums of squared lengths, without the shift
    sums: Any  # of the samples less the shift, (classes, features)
    scatter: Any  # sum of the products of features, less the shift; None if not wanted

    def __init__(
        self,
        labels: np.ndarray | None = None,
        *,
        scatter: bool = False,
        shift: tuple[np.ndarray, Array] | None = None,
    ) -> None:
        self._given = labels
        self.labels = np.empty(0) if labels is None else labels
        self.counts, self.squares = np.zeros((2, len(self.labels)))
        self.sums = None
        self.scatter = None
        self._has_scatter = scatter
        self._shift = shift
        self._shifts: Any = None  # rows of the shift in the order of the labels, once needed

    def copy_empty(self) -> ClassSums:
        """Return empty sums with the same shift."""
        return ClassSums(self._given, scatter=self._has_scatter, shift=self._shift)

    def update(self, chunk: Chunk) -> None:
        """Add the samples of a chunk."""
        labels, codes = np.unique(get_labels(chunk), return_inverse=True)
        if not len(labels):
            return
        self._start(chunk.X)
        self._grow(labels)
        self.add(chunk.X, places_among(self.labels, labels)[codes])

    def add(self, X: Array, codes: Array, weights: Array | None = None) -> None:
        """Add samples whose classes are `codes`, times their weights."""
        self._start(X)
        for rows in sample_blocks(X):
            block, own = X[rows, :], codes[rows]
            self._add(block, own, None if weights is None else weights[rows])

    def merge(self, other: ClassSums) -> None:
        """Add the sums of other samples."""
        if other.sums is None:
            return
        self._start(other.sums)
        if self._given is None:
            self._grow(other.labels)
            places = places_among(self.labels, other.labels)
            self.counts[places] += other.counts
            self.squares[places] += other.squares
            self.sums[places] += other.sums
        else:
            self.counts, self.squares = self.counts + other.counts, self.squares + other.squares
            self.sums = self.sums + other.sums
        if self._has_scatter:
            self.scatter = self.scatter + other.scatter

    def subtract(self, other: ClassSums) -> None:
        """Remove samples of the same given labels; emptied classes become exactly zero."""
        self._start(other.sums)
        self.counts, self.squares = self.counts - other.counts, self.squares - other.squares
        is_filled = place_like(self.counts > 0, self.sums)[:, None]
        left = self.sums - other.sums
        xp = namespace(left)
        self.sums = xp.where(is_filled, left, xp.zeros_like(left))
        if self._has_scatter:
            self.scatter = self.scatter - other.scatter
        if not self.counts.any():
            self.squares = np.zeros_like(self.squares)
            self.scatter = xp.zeros_like(self.scatter) if self._has_scatter else None

    def copy(self) -> ClassSums:
        """Return independent sums; the scatter is shared, because it is never changed in place."""
        other = copy.copy(self)
        other.counts, other.squares = self.counts.copy(), self.squares.copy()
        if self.sums is not None:
            other.sums = namespace(self.sums).asarray(self.sums, copy=True)
        return other

    def relabel(self, labels: np.ndarray, old: np.ndarray, new: np.ndarray) -> ClassSums:
        """Return sums under other labels: class old[i] is new[i], others must be empty."""
        other = ClassSums(labels, scatter=self._has_scatter)
        other.counts[new], other.squares[new] = self.counts[old], self.squares[old]
        if self.sums is not None:
            xp = namespace(self.sums)
            source = np.full(len(labels), len(self.labels))
            source[new] = old
            zeros = xp.zeros_like(self.sums[:1, :])  # sum of a class without samples
            source = place_like(source, zeros)
            other.sums = xp.take(xp.concat([self.sums, zeros]), source, axis=0)
            other.scatter = self.scatter
        return other

    def parts(self) -> dict[str, Any]:
        """Return everything but the shift."""
        names = ("labels", "counts", "squares", "sums", "scatter")
        return {name: getattr(self, name) for name in names}

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over sums."""
        vars(self).update(parts)
        self._shifts = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.sums.shape[1]

    def totals(self) -> Array:
        """Return the sum of the samples of each class, with the shift."""
        shifts = self._align_shift()
        if shifts is None:
            return self.sums
        return self.sums + place_like(self.counts, self.sums)[:, None] * shifts

    def means(self) -> Array:
        """Return the mean of each class, zero without samples."""
        return self.totals() / place_like(np.maximum(self.counts, 1e-300), self.sums)[:, None]

    def covariance(self) -> Array:
        """Return the pooled within-class covariance."""
        roots = np.sqrt(np.where(self.counts > 0, self.counts, 1.0))
        R = self.sums / place_like(roots, self.sums)[:, None]
        return (self.scatter - multiply(R.T, R)) / float(self.counts.sum())

    def _add(self, X: Any, codes: Any, weights: Any) -> None:
        xp, m = namespace(X), len(self.labels)
        X = xp.astype(X, xp.float64, copy=False)
        ones = xp.ones_like(X[:, 0]) if weights is None else xp.astype(weights, xp.float64)
        numbers = sums_by_code(xp.stack([ones, ones * xp.vecdot(X, X)], axis=1), codes, m)
        self.counts += to_numpy(numbers[:, 0])
        self.squares += to_numpy(numbers[:, 1])
        shifts = self._align_shift()
        D = X if shifts is None else X - xp.take(shifts, codes, axis=0)
        if isinstance(D, np.ndarray):
            # A block holds few of the classes: sum only those.
            present, own = np.unique(codes, return_inverse=True)
            self.sums[present] += sums_by_code(D, own, len(present), ones)
        else:
            self.sums = self.sums + sums_by_code(D, codes, m, ones)
        if self._has_scatter:
            D = D if weights is None else D * xp.sqrt(ones)[:, None]
            self.scatter = self.scatter + multiply(D.T, D)

    def _start(self, like: Array) -> None:
        if self.sums is not None:
            return
        xp, d = namespace(like), like.shape[1]
        place = {"dtype": xp.float64, "device": device(like)}
        self.sums = xp.zeros((len(self.labels), d), **place)
        self.scatter = xp.zeros((d, d), **place) if self._has_scatter else None

    def _grow(self, labels: np.ndarray) -> None:
        """Make room for further classes."""
        every = join_labels(self.labels, labels)
        if len(every) == len(self.labels):
            return
        places = places_among(every, self.labels)
        for name in ("counts", "squares", "sums"):
            old = getattr(self, name)
            wider = np.zeros((len(every), *old.shape[1:]))
            wider[places] = old
            setattr(self, name, wider)
        self.labels, self._shifts = every, None

    def _align_shift(self) -> Any:
        """Return the shift of each label; merging sums needs none."""
        if self._shift is None or self._shifts is not None:
            return self._shifts
        known, shifts = self._shift
        if len(known) == len(self.labels) and bool((known == self.labels).all()):
            self._shifts = shifts
            return shifts
        places = np.minimum(np.searchsorted(known, self.labels), len(known) - 1)
        self._shifts = np.where((known[places] == self.labels)[:, None], shifts[places], 0.0)
        return self._shifts
