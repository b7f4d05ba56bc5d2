"""Folds of labeled samples: some of each class are left out, and what the others say of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from ..arrays import Array, namespace, place_like, take_rows, to_numpy
from .evidence import Regression
from .posterior import (
    KernelRidge,
    even_lengths,
    left_out_means,
    own_shares,
    placed_scale,
    posterior_centers,
    pull_uneven,
    slope,
)
from .refining import mean_square, spread_rows
from .spaces import measure_names

_MOST_FOLDS, _FEW = 5, 3
_MANY = 20  # samples per class, from which on three folds will do
_SPLIT = 4  # classes, from which on half of them can be told apart


@dataclass(frozen=True, eq=False)
class ShotFold:
    """Rows to learn from, those left out, and the classes that these are told apart from."""

    fitted: np.ndarray
    out: np.ndarray
    classes: np.ndarray


def shot_folds(codes: np.ndarray, rank: np.ndarray, n_classes: int, seed: int) -> list[ShotFold]:
    """Return folds in which each class keeps a sample, none if no class has two.

    `rank` is that of each sample within its class. With two samples per class, whitening
    cannot be learned from what a class keeps. So half of the classes lose a sample, and compete
    with each other.
    """
    counts = np.zeros(n_classes, int)
    np.maximum.at(counts, codes, rank + 1)
    several, every = np.flatnonzero(counts > 1), np.arange(n_classes)
    if not len(several):
        return []
    rng = np.random.default_rng(seed)
    typical = np.median(counts[several])
    if typical < _FEW and len(several) >= _SPLIT:
        halves = np.array_split(rng.permutation(several), 2)
        parts = product((np.sort(half) for half in halves), (0, 1))
        outs = [(np.isin(codes, half) & (rank % 2 == turn), half) for half, turn in parts]
    else:
        n_folds = _FEW if typical >= _MANY else int(np.clip(typical, 2, _MOST_FOLDS))
        place = np.where(counts[codes] > 1, rank % n_folds, -1)
        outs = [(place == turn, every) for turn in range(n_folds)]
    return [ShotFold(np.flatnonzero(~out), np.flatnonzero(out), half) for out, half in outs]


@dataclass(frozen=True, eq=False)
class LabeledRows:
    """Preprocessed samples, the positions of their classes, and their weights.

    `sizes` are how many samples each stands for, `weights` what it counts in choices.
    """

    X: Array
    codes: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray

    def narrow(self, classes: np.ndarray) -> LabeledRows:
        """Return those of some classes, which are numbered anew."""
        rows = np.flatnonzero(np.isin(self.codes, classes))
        codes = np.searchsorted(classes, self.codes[rows])
        return LabeledRows(take_rows(self.X, rows), codes, self.weights[rows], self.sizes[rows])


@dataclass(frozen=True, eq=False)
class LearnedFold:
    """What the samples that stay in a fold say of each class, under one preprocessing."""

    stay: LabeledRows
    out: LabeledRows
    prior: Array
    sums: Array
    counts: Array
    described: Array  # 1 for classes with a prototype, else 0

    def centers(self, worth: float) -> Array:
        """Return the posterior centers."""
        found = posterior_centers(self.prior, self.sums, self.counts, worth * self.described)
        is_described = to_numpy(self.described) > 0
        found = pull_uneven(found, to_numpy(self.counts), ~is_described, self.within)
        return even_lengths(found, is_described, np.ones(len(is_described), bool))

    @cached_property
    def within(self) -> float:
        """Variance of the samples that stay within their classes, NaN if all are alone."""
        sums, n, xp = self.sums, to_numpy(self.counts), namespace(self.sums)
        squares = to_numpy(namespace(self.stay.X).sum(self.stay.X**2, axis=1))
        of_sums = to_numpy(xp.sum(sums * sums, axis=1)) / n
        away = np.bincount(self.stay.codes, self.stay.sizes * squares, minlength=len(n)) - of_sums
        several = n > 1
        return float(away[several].sum() / (n[several] - 1).sum()) if several.any() else np.nan

    @cached_property
    def names(self) -> tuple[float, float]:
        """How surely class means lie along their names, and how long these are."""
        parts = self.sums / self.counts[:, None], self.prior, self.counts
        described = to_numpy(self.described) > 0
        means, prior, counts = (to_numpy(part)[described] for part in parts)
        return measure_names(means, prior, counts, mean_square(self.out.X))

    def narrow(self, classes: np.ndarray) -> LearnedFold:
        """Return the fold of some classes alone."""
        if len(classes) == self.sums.shape[0]:
            return self
        parts = (self.prior, self.sums, self.counts, self.described)
        few = (take_rows(part, classes) for part in parts)
        return LearnedFold(self.stay.narrow(classes), self.out.narrow(classes), *few)


@dataclass(frozen=True, eq=False)
class Names:
    """What is known of m classes beside samples, of which p have a prototype."""

    is_described: np.ndarray
    kernel: Array | None  # (p, p) between the prototypes; None without a regression
    counts: np.ndarray  # (m,), samples behind each mean
    ridge: float
    placed: Array | None  # (m, d), raw prototypes among the samples, if they share a space

    @classmethod
    def read(
        cls,
        labels: np.ndarray,
        regression: Regression | None,
        like: Array,
        counts: np.ndarray,
        placed: Array | None,
    ) -> Names:
        """Take the prototypes of classes that a regression knows."""
        if regression is None:
            return cls(np.zeros(len(labels), bool), None, counts, 0.0, None)
        is_described = np.isin(labels, regression.prototypes.labels)
        K = regression.compare(labels[is_described], like)
        return cls(is_described, K, counts, regression.ridge, placed)

    @cached_property
    def inverse(self) -> Array | None:
        """G of the described classes."""
        if self.kernel is None or not self.is_described.any():
            return None
        return KernelRidge(self.kernel, self.counts[self.is_described]).inverse(self.ridge)

    def predict(self, M: Array, Q: Array | None, *, judges: bool) -> Array:
        """Return the prior of each class, each learned from the others.

        M are the means of the classes, Q their prototypes among the samples.
        """
        xp, G = namespace(M), self.inverse
        own = xp.zeros_like(M)
        if Q is not None and self.is_described.any():
            described = xp.astype(place_like(self.is_described, M), M.dtype)
            own = placed_scale(M, Q, ~self.is_described) * Q * described[:, None]
        if G is None:
            return own
        missed = take_rows(M - own, np.flatnonzero(self.is_described))
        G = place_like(G, M)
        found = left_out_means(G, missed)
        shares = place_like(own_shares(missed, self.counts[self.is_described]), M)
        reach = left_out_means(G, xp.ones_like(missed[:, :1]))
        found = found + reach * shares[:, None] * missed
        trust = slope(missed, found) if judges else 1.0
        return own + spread_rows(trust * found, self.is_described)
