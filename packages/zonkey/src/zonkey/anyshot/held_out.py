"""Training classes that are held out, to choose parameters on: samples, folds and their scores.

Whole classes are held out in random folds. A quarter of the samples of the others is held out too:
neither means nor whitening know them, so they represent new samples of seen classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, sums_by_code, take_rows, to_numpy
from ..hold_out import every_nth
from ..streaming.bottom_k import ranks_within
from ..threads import multiply
from .posterior import middle_of_rest, own_shares, placed_scale
from .preparing import Preparing
from .survey import KeptSamples

MOST_PARTITIONS = 3
_HELD_IN_ALL = 3000  # classes held out over all partitions, about: many classes need fewer
_FEWEST_FOLDS, _MOST_FOLDS = 5, 10
FEWEST_CLASSES = 4  # with fewer, no fold can hold out two and keep two
_MOST_UNSEEN = 2000  # classes without samples that compete
_HELD_OUT = 4  # every fourth sample


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Samples to choose on: some of the described classes, of at most 2,000 classes.

    `codes`, in ascending order, are positions in `classes`, the rows of `prototypes` that have
    samples. Rows of validation classes follow those of training classes and are all held out.
    `unseen` are rows of classes without samples, at most 2,000 of `n_unseen`, which compete.
    """

    X: Array
    codes: np.ndarray
    weights: np.ndarray
    is_held: np.ndarray
    prototypes: np.ndarray  # of all known classes
    classes: np.ndarray
    n_train: int  # classes that are learned from; those after it are for validation
    unseen: np.ndarray = field(default_factory=lambda: np.arange(0))
    n_unseen: int = 0
    placed: Array | None = None  # raw vectors of these classes, if they share the samples' space

    @classmethod
    def from_kept(
        cls,
        kept: KeptSamples,
        described: np.ndarray,
        prototypes: np.ndarray,
        validation: KeptSamples | None = None,
        placed: Array | None = None,
    ) -> TrainingData:
        """Take the kept samples of classes with a prototype.

        `described` is the row of each label in `prototypes`, or -1. The codes of validation
        samples are such rows. `placed` are prototypes among the samples, if they share a space.
        """
        of_label = np.where(kept.is_main, described, -1)
        rows = np.flatnonzero(of_label[kept.codes] >= 0)
        classes, position = np.unique(of_label[kept.codes[rows]], return_inverse=True)
        n_train = len(classes)
        xp = namespace(kept.X)
        X = take_rows(kept.X, rows)
        weights = kept.weights[rows]
        is_held = every_nth(kept.codes, kept.priorities, _HELD_OUT)[rows]
        if validation is not None:
            new, own = np.unique(validation.codes, return_inverse=True)
            X = xp.concat([X, xp.astype(place_like(validation.X, X), X.dtype)])
            position = np.concatenate([position, n_train + own])
            classes = np.concatenate([classes, new])
            weights = np.concatenate([weights, validation.weights])
            is_held = np.concatenate([is_held, np.ones(len(own), bool)])
        unseen = np.setdiff1d(np.arange(len(prototypes)), described)
        n_unseen = len(unseen)
        unseen = np.setdiff1d(unseen, classes)
        if len(unseen) > _MOST_UNSEEN:
            unseen = unseen[:: len(unseen) // _MOST_UNSEEN][:_MOST_UNSEEN]
        if placed is not None:
            every = np.concatenate([classes, unseen])
            placed = take_rows(placed, every)
        known = X, position, weights, is_held, prototypes, classes, n_train
        return cls(*known, unseen, n_unseen, placed)

    @property
    def all_classes(self) -> np.ndarray:
        """Rows of classes with samples, then of those without."""
        return np.concatenate([self.classes, self.unseen])

    @property
    def some_unseen(self) -> np.ndarray:
        """Positions of `unseen` in `all_classes`."""
        return np.arange(len(self.classes), len(self.classes) + len(self.unseen))

    def prepare(self) -> Preparing:
        """Return the preprocessing of all samples, without those held out to learn it from."""
        rows, X = np.flatnonzero(~self.is_held), self.X
        if self.placed is not None:
            xp = namespace(X)
            X = xp.concat([X, xp.astype(self.placed, X.dtype)])
        return Preparing(X, rows, self.codes[rows], self.weights[rows], self.n_train)

    def place(self, array: Any) -> Array:
        """Return an array on the device of the samples, floats in float32."""
        array = np.asarray(array)
        return place_like(array.astype(np.float32) if array.dtype.kind == "f" else array, self.X)


@dataclass(frozen=True, eq=False)
class View:
    """The samples under one preprocessing.

    All vectors are in r coordinates of the span of the means of p classes, or of all features if
    that is smaller or shots lie outside. There are v validation classes.
    """

    samples: Array  # (n, r), in float32
    means: Array  # (p, r), of the samples that are not held out
    squares: np.ndarray  # (n,), squared lengths of samples
    counts: np.ndarray  # (p,), samples behind each mean
    within: np.ndarray  # (p + v,), variance within each class; NaN for a single sample
    # Sums of a few samples of each class, and how many, per partition; empty without shots.
    shots: tuple[tuple[Array, Array], ...]
    n_features: int
    placed: Array | None = None  # (p + v, r), prototypes among the samples in a joint space

    @classmethod
    def from_samples(
        cls,
        X: Array,
        data: TrainingData,
        draws: list[np.ndarray],
        placed: Array | None = None,
    ) -> View:
        """Take preprocessed samples; `draws` say which samples are shots."""
        xp = namespace(X)
        X = xp.astype(X, xp.float32, copy=False)
        sums, counts = _weighted_sums(X, data, np.where(data.is_held, 0.0, data.weights))
        counts = counts[: data.n_train]
        means = sums[: data.n_train, :] / data.place(counts)[:, None]
        squares = to_numpy(xp.sum(X * X, axis=1)).astype(np.float64)
        shots = []
        for shot in draws:
            sums, n = _weighted_sums(X, data, np.where(shot, data.weights, 0.0))
            shots.append((sums, data.place(n)))
        within = _variances(X, squares, data)
        n_features = X.shape[1]
        if placed is not None:
            placed = xp.astype(placed, xp.float32, copy=False)
        elif data.n_train < n_features and not shots:
            basis = xp.linalg.qr(means.T)[0]
            X, means = multiply(X, basis), means @ basis
        return cls(X, means, squares, counts, within, tuple(shots), n_features, placed)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_taken", {})
        object.__setattr__(self, "_missed", {})

    def take(self, fold: Fold, which: str) -> Array:
        """Return the samples "every", "new" or "rows" of a fold.

        They are cached, because every point of the grids needs them.
        """
        kept: dict[tuple[int, str], Array] = vars(self)["_taken"]
        key = (fold.number, which)
        if key not in kept:
            kept[key] = take_rows(self.samples, getattr(fold, which))
        return kept[key]

    def forget(self) -> None:
        """Drop the samples of folds."""
        for kept in ("_taken", "_missed"):
            vars(self)[kept].clear()

    def predict(self, weights: Array, fold: Fold, classes: np.ndarray) -> Array:
        """Return the priors of some classes, given the weights of the class means."""
        xp = namespace(weights)
        missed, scale, middle, _ = self._miss(fold)
        weights = xp.astype(weights, missed.dtype)
        found = weights @ missed + (1 - xp.sum(weights, axis=1))[:, None] * middle[None, :]
        return found if self.placed is None else found + scale * take_rows(self.placed, classes)

    def predict_left_out(self, weights: Array, fold: Fold) -> Array:
        """Return the prior of each class that is learned from, given weights of the others."""
        xp = namespace(weights)
        missed, scale, middle, shares = self._miss(fold)
        weights, middle = xp.astype(weights, missed.dtype), middle[None, :]
        reach = xp.sum(weights, axis=1)[:, None]
        shares = place_like(shares, missed)
        own = xp.astype(shares, missed.dtype)[:, None] * (missed - middle)
        found = weights @ missed + reach * own + (1 - reach) * middle
        return found if self.placed is None else found + scale * self.placed[: found.shape[0], :]

    def _miss(self, fold: Fold) -> tuple[Array, float, Array, np.ndarray]:
        """Return what placed prototypes miss of class means, their scale, and what is left out.

        The last are `middle_of_rest` and `own_shares`: cached, as every kernel needs them.
        """
        kept: dict[int, tuple[float, Array, np.ndarray]] = vars(self)["_missed"]
        of_train = None if self.placed is None else self.placed[: self.means.shape[0], :]
        found = kept.get(fold.number)
        scale = 0.0 if found is None else found[0]
        if found is None and of_train is not None:
            is_out = np.isin(np.arange(self.means.shape[0]), fold.held)
            scale = placed_scale(self.means, of_train, is_out)
        missed = self.means if of_train is None else self.means - scale * of_train
        if found is None:
            held = fold.held[fold.held < len(self.counts)]  # of those that are learned from
            middle = middle_of_rest(missed, self.counts, held)
            shares = own_shares(missed, self.counts, held)
            found = kept[fold.number] = (scale, middle, shares)
        scale, middle, shares = found
        return missed, scale, middle, shares

    def mean_variance(self, classes: np.ndarray) -> float:
        """Return the mean variance within some classes, or within all if theirs is unknown."""
        for values in (self.within[classes], self.within):
            if np.isfinite(values).any():
                return float(np.nanmean(values))
        return float("nan")


def _weighted_sums(X: Array, data: TrainingData, weights: np.ndarray) -> tuple[Array, np.ndarray]:
    n = len(data.classes)
    codes = place_like(data.codes, X)
    sums = sums_by_code(X, codes, n, data.place(weights))
    return sums, np.bincount(data.codes, weights=weights, minlength=n)


def _variances(X: Array, squares: np.ndarray, data: TrainingData) -> np.ndarray:
    """Return the unbiased variance within each class, summed over the features."""
    xp = namespace(X)
    sums, counts = _weighted_sums(X, data, data.weights)
    total = np.bincount(data.codes, weights=data.weights * squares, minlength=len(data.classes))
    lengths = to_numpy(xp.sum(sums * sums, axis=1)).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 1, (total - lengths / counts) / (counts - 1), np.nan)


@dataclass(eq=False)
class Fold:
    """Classes that are held out together, and the samples that are scored.

    `held` may be validation classes, beyond the classes that are learned from. `every` are the
    samples of held-out classes, `new` those of them that whitening has not seen, and `old` such
    samples of the other classes.
    """

    number: int
    held: np.ndarray
    every: np.ndarray
    new: np.ndarray
    old: np.ndarray
    draw: int

    @cached_property
    def rows(self) -> np.ndarray:
        """All samples that are scored, those of held-out classes first."""
        return np.concatenate([self.new, self.old])


def draw_shots(data: TrainingData, n_shots: int, n_draws: int) -> list[np.ndarray]:
    """Return which samples are shots of their class, for each of several draws."""
    counts = np.bincount(data.codes)[data.codes]
    # Half of a class at most, so that some samples are left to score.
    n = np.minimum(n_shots, counts // 2)
    ranks = ranks_within(data.codes)
    return [(ranks - draw * n) % counts < n for draw in range(n_draws)]


def class_folds(
    data: TrainingData, draws: list[np.ndarray], *, n_unseen: int, seed: int
) -> Iterator[Fold]:
    """Yield folds that hold out about the share of classes that is unseen in the end.

    There is one partition of the classes per draw of shots. Validation classes are held out
    together. Fewer than four classes are held out one by one, and once.
    """
    rng, p = np.random.default_rng(seed), data.n_train
    everything = np.arange(len(data.classes))
    numbers = count()
    for draw, is_shot in enumerate(draws):
        if len(everything) > p:
            parts = [everything[p:]]
        elif p < FEWEST_CLASSES:
            parts = [np.array([j]) for j in range(p)] if p > 1 and draw == 0 else []
        else:
            n_folds = np.clip(round(p / max(1, n_unseen)), _FEWEST_FOLDS, _MOST_FOLDS)
            parts = np.array_split(rng.permutation(p), min(n_folds, p // 2))
        for held in parts:
            yield fold_of(data, np.sort(held), is_shot, next(numbers), draw)


def n_partitions(data: TrainingData) -> int:
    """Return the number of partitions: several, but one is enough for very many classes."""
    wanted = round(_HELD_IN_ALL / max(1, data.n_train))
    return min(MOST_PARTITIONS, max(1, wanted))


def fold_of(
    data: TrainingData, held: np.ndarray, is_shot: np.ndarray, number: int, draw: int
) -> Fold:
    """Return the fold that holds these classes out, which may be none."""
    in_fold = np.isin(data.codes, held)
    # A class without a held-out sample is scored on those it has.
    is_held = data.is_held & ~is_shot
    is_scored = is_held | ~np.isin(data.codes, data.codes[is_held])
    every = in_fold & ~is_shot
    old = ~in_fold & data.is_held & (data.codes < data.n_train)
    every, new, old = (np.flatnonzero(mask) for mask in (every, every & is_scored, old))
    return Fold(number, held, every, new, old, draw)
