"""Choose what labeled samples alone can tell: how to compare them, and how far to trust names.

Where all candidates have samples, some samples of each class are left out in turn, and everything
that `fit` does is done without them. The parameters under which they are most likely are taken:
power and whitening of features, the worth of a prototype, the pull of the logistic regression that
refines the centers, and the temperature. Each has a usual value, measured on many data sets, that
counts as prior knowledge: few samples move it little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..arrays import Array, namespace, place_like, sums_by_code
from ..streaming.bottom_k import ranks_within
from .choosing import POWERS, Choice
from .evidence import Regression
from .posterior import KernelRidge, left_out_means, placed_scale, posterior_centers, slope
from .preparing import Preparing
from .refining import (
    USUAL_TEMPERATURE,
    Refinement,
    center_scores,
    linear_scores,
    mean_square,
    pull_to_centers,
    take_rows,
)
from .survey import KeptSamples

SHRINKAGES = (256.0, 16.0, 4.0, 1.0, 0.25)
WORTHS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# Relative to the number of classes; from strong to weak.
STRENGTHS = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)

# Usual values and how many doublings from them are as common as a standard deviation.
_TEMPERATURE, _TEMPERATURE_SPREAD = USUAL_TEMPERATURE, 0.7
_SHRINKAGE, _SHRINKAGE_SPREAD = 16.0, 3.0
_JOINT_WORTH, _OTHER_WORTH, _WORTH_SPREAD = 8.0, 1.0, 2.0
_COST_OF_POWER = 1.0  # for the power that the samples do not suggest, in log-likelihood
# With one sample per class: share of the variance between classes over how far their means lie
# along their names (0.8 to 0.95 in five joint spaces), and temperatures with and without names.
_BETWEEN, _LEAST_ERROR = 0.9, 0.02
_NAMES_TEMPERATURE, _NAMES_SPREAD, _ONE_SHOT_TEMPERATURE = 0.2, 0.35, 0.1
_LONG_TAILS = 1.0  # excess kurtosis, above which a power of 0.5 is usual

_MOST_FOLDS, _FEW = 5, 3
_MOST_PER_CLASS, _MOST_CLASSES, _MOST_SCORED = 100, 200, 1000
_MOST_VALUES = 2**23  # numbers in all samples
_LEAST_GAIN = 0.005  # of the likelihood, relative: a refinement that gains less is not taken
_WORSE = 1.02  # times the best likelihood: weaker pulls would only overfit more


Way = tuple[float, float] | None  # power and shrinkage; None is the preprocessing the user gave


@dataclass(frozen=True, eq=False)
class ShotFold:
    """Samples to learn from, those left out, and the classes that these are told apart from."""

    fitted: np.ndarray
    out: np.ndarray
    classes: np.ndarray


def shot_folds(codes: np.ndarray, n_classes: int, seed: int) -> list[ShotFold]:
    """Return folds in which each class keeps a sample.

    Samples are in the order of their priority within classes. With two samples per class, whitening
    cannot be learned from what a class keeps. So half of the classes lose a sample, and compete
    with each other.
    """
    counts = np.bincount(codes, minlength=n_classes)
    several, every = np.flatnonzero(counts > 1), np.arange(n_classes)
    rank, rng = ranks_within(codes), np.random.default_rng(seed)
    if not len(several):
        return []
    typical = np.median(counts[several])
    if typical < _FEW and len(several) >= 4:
        halves = np.array_split(rng.permutation(several), 2)
        parts = product((np.sort(half) for half in halves), (0, 1))
        outs = [(np.isin(codes, half) & (rank % 2 == turn), half) for half, turn in parts]
    else:
        n_folds = int(np.clip(typical, 2, _MOST_FOLDS))
        place = np.where(counts[codes] > 1, rank % n_folds, -1)
        outs = [(place == turn, every) for turn in range(n_folds)]
    return [ShotFold(np.flatnonzero(~out), np.flatnonzero(out), half) for out, half in outs]


@dataclass(frozen=True, eq=False)
class LearnedFold:
    """What the samples that stay in a fold say of each class, under one preprocessing."""

    X: Array
    X_out: Array
    sums: Array
    counts: Array
    prior: Array

    def centers(self, worth: float) -> Array:
        """Return the posterior centers."""
        return posterior_centers(self.prior, self.sums, self.counts, worth)


@dataclass(frozen=True, eq=False)
class Names:
    """What is known of classes beside samples.

    Attributes
    ----------
    is_described : ndarray of bool of shape (m,)
        Whether a class has a prototype.
    kernel : array of shape (p, p) or None
        Kernel between the prototypes of the described classes; None without prototypes.
    counts : ndarray of shape (m,)
        Samples behind each mean.
    ridge : float
        Ridge of the regression.
    placed : array of shape (m, d) or None
        Raw prototypes among the samples, if they share a space.
    """

    is_described: np.ndarray
    kernel: Array | None
    counts: np.ndarray
    ridge: float
    placed: Array | None

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
        if G is None:
            return own
        if Q is not None:
            own = placed_scale(M, Q, ~self.is_described) * Q
        missed = take_rows(M - own, np.flatnonzero(self.is_described))
        found = left_out_means(place_like(G, M), missed)
        trust = slope(missed, found) if judges else 1.0
        found = xp.concat([trust * found, xp.zeros_like(M[:1, :])])
        places = np.where(self.is_described, np.cumsum(self.is_described) - 1, found.shape[0] - 1)
        return own + take_rows(found, places)


def select_classes(
    kept: KeptSamples, labels: np.ndarray, seed: int
) -> tuple[KeptSamples, np.ndarray]:
    """Return the samples of at most 200 of the classes with samples, and which these are."""
    used = np.unique(kept.codes)
    if len(used) > _MOST_CLASSES:
        used = np.sort(np.random.default_rng(seed).permutation(used)[:_MOST_CLASSES])
    rows = np.flatnonzero(np.isin(kept.codes, used))
    codes = np.searchsorted(used, kept.codes[rows])
    few = replace(kept, X=take_rows(kept.X, rows), codes=codes, weights=kept.weights[rows])
    return few, labels[used]


class ShotChoosing:
    """The choice for one set of samples, all of whose classes are candidates.

    Parameters
    ----------
    kept : KeptSamples
        Samples of the candidates.
    names : Names
        What is known of the candidates beside samples.
    choice : Choice
        What held-out classes chose.
    fixed : dict
        Parameters that the user gave.
    seed : int
        Seed of the folds.
    """

    def __init__(
        self, kept: KeptSamples, names: Names, choice: Choice, fixed: dict[str, Any], seed: int
    ) -> None:
        most = _MOST_VALUES // (kept.X.shape[1] * len(names.counts))
        most = min(_MOST_PER_CLASS, max(_MOST_FOLDS, most))
        rows = np.flatnonzero(ranks_within(kept.codes) < most)
        self.X = take_rows(kept.X, rows)
        self.codes = kept.codes[rows]
        self.weights = kept.weights[rows]
        self.balance = self.weights / np.bincount(self.codes, self.weights)[self.codes]
        self.names = names
        self.choice = choice
        self.fixed = fixed
        self.folds = shot_folds(self.codes, len(names.counts), seed)
        self.n_out = sum(len(fold.out) for fold in self.folds)
        self._preparings: tuple[float | None, list[Preparing]] = (None, [])
        self._learned: tuple[Any, list[LearnedFold]] = (None, [])

    def run(self) -> Choice:
        """Choose the way to compare samples and the worth of names, then the refinement."""
        if not self.n_out:
            return self._choose_without_folds()
        best, chosen = (np.inf, 0.0), (self._ways()[0], self.choice.worth)
        for way, worth in product(self._ways(), self._worths()):
            surprise, scale = self.judge(way, worth)
            surprise += self._surprise_of(way, worth)
            if surprise < best[0]:
                best, chosen = (surprise, scale), (way, worth)
        (way, worth), scale = chosen, best[1]
        return self._decide(way, worth, self._choose_strength(way, worth, scale))

    def _decide(self, way: Way, worth: float, refinement: Refinement) -> Choice:
        refinement = replace(refinement, judges=self.judges)
        point = self.choice.point
        if way is not None:
            point = replace(point, power=way[0], shrinkage=way[1])
        return replace(self.choice, point=point, worth=worth, refinement=refinement)

    def _choose_without_folds(self) -> Choice:
        """Choose with one sample per class, where the usual values decide.

        In a joint space, names alone classify the samples, which tells their temperature; how far
        class means lie along names tells how large they are.
        """
        every = ShotFold(np.arange(len(self.codes)), np.arange(len(self.codes)), self._every)
        joint, fixed = self.names.placed is not None, self.fixed
        power = 1.0 if joint else usual_power(self.X)
        way = None if "preprocessing" in fixed else (power, _SHRINKAGE)
        self.folds, self.n_out = [every], len(self.codes)
        (learned,) = self._learn(way)
        length = self._length
        worth, scale = _OTHER_WORTH, _ONE_SHOT_TEMPERATURE * length
        if joint:
            along = mean_square(learned.prior) / length
            between = _BETWEEN * along**0.5  # share of the variance of samples
            worth = (1 - between) / max(between - along, _LEAST_ERROR)
            usual = _NAMES_TEMPERATURE * along**0.5 * length
            scores = [center_scores(learned.X_out, learned.prior)]
            _, scale = self._best_temperature(scores, usual, _NAMES_SPREAD)
        worth = float(fixed.get("worth", worth if self.names.is_described.any() else 0.0))
        return self._decide(way, worth, Refinement(float("inf"), scale, scale))

    @property
    def judges(self) -> bool:
        """Whether samples judge what the regression predicts."""
        return "worth" not in self.fixed

    @property
    def _every(self) -> np.ndarray:
        return np.arange(self.n_classes)

    # What is chosen from.

    def _ways(self) -> list[Way]:
        if "preprocessing" in self.fixed:
            return [None]
        powers = POWERS if self.names.placed is None else (1.0,)
        return [*product(powers, SHRINKAGES)]

    def _worths(self) -> tuple[float, ...]:
        if "worth" in self.fixed:
            return (float(self.fixed["worth"]),)
        return WORTHS if self.names.is_described.any() else (0.0,)

    def _surprise_of(self, way: Way, worth: float) -> float:
        """Return how unusual parameters are, per left-out sample."""
        joint, cost = self.names.placed is not None, 0.0
        if way is not None:
            power, shrinkage = way
            cost += _count_doublings(shrinkage, _SHRINKAGE, _SHRINKAGE_SPREAD)
            cost += _COST_OF_POWER * (power != (1.0 if joint else usual_power(self.X)))
        if len(self._worths()) > 1:
            usual = _JOINT_WORTH if joint else _OTHER_WORTH
            cost += _count_doublings(max(worth, WORTHS[1] / 2), usual, _WORTH_SPREAD)
        return cost / self.n_out

    # How likely left-out samples are.

    def judge(self, way: Way, worth: float) -> tuple[float, float]:
        """Return the mean surprise of left-out samples by posterior centers, and the temperature.

        The surprise is minus the logarithm of the probability.
        """
        scores = []
        for fold, learned in zip(self.folds, self._learn(way), strict=True):
            C = take_rows(learned.centers(worth), fold.classes)
            scores.append(center_scores(learned.X_out, C))
        return self._best_temperature(scores)

    def _learn(self, way: Way) -> list[LearnedFold]:
        """Return all folds under a preprocessing, which never saw the samples left out."""
        if not self._learned[1] or self._learned[0] != way:
            power = None if way is None else way[0]
            if not self._preparings[1] or self._preparings[0] != power:
                self._preparings = power, [self._prepare(fold) for fold in self.folds]
            pairs = zip(self.folds, self._preparings[1], strict=True)
            self._learned = way, [self._learn_fold(fold, each, way) for fold, each in pairs]
        return self._learned[1]

    def _prepare(self, fold: ShotFold) -> Preparing:
        X, xp, placed, rows = self.X, namespace(self.X), self.names.placed, fold.fitted
        if placed is not None:
            X = xp.concat([X, xp.astype(placed, X.dtype)])
        return Preparing(X, rows, self.codes[rows], self.weights[rows], self.n_classes)

    def _learn_fold(self, fold: ShotFold, preparing: Preparing, way: Way) -> LearnedFold:
        Z = preparing.apply(self.fixed["preprocessing"]) if way is None else preparing.whiten(*way)
        xp, n = namespace(Z), len(self.codes)
        Z = xp.astype(Z, xp.float32, copy=False)
        X, weights = take_rows(Z, fold.fitted), self.weights[fold.fitted]
        codes, shares = self.codes[fold.fitted], xp.astype(place_like(weights, X), X.dtype)
        sums = sums_by_code(X, place_like(codes, X), self.n_classes, shares)
        sums = xp.astype(sums, xp.float64)
        counts = place_like(np.bincount(codes, weights, minlength=self.n_classes), sums)
        Q = None if self.names.placed is None else xp.astype(Z[n:, :], xp.float64)
        prior = self.names.predict(sums / counts[:, None], Q, judges=self.judges)
        return LearnedFold(X, take_rows(Z, fold.out), sums, counts, prior)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.names.is_described)

    def _best_temperature(
        self,
        scores: list[np.ndarray],
        usual: float | None = None,
        spread: float = _TEMPERATURE_SPREAD,
    ) -> tuple[float, float]:
        """Return the lowest mean surprise of left-out samples over temperatures, and where."""
        some, parts = slice(None, None, 1 + self.n_out // _MOST_SCORED), []
        for fold, S in zip(self.folds, scores, strict=True):
            truth = np.searchsorted(fold.classes, self.codes[fold.out])
            parts.append((S[some], truth[some], self.balance[fold.out][some]))
        total = sum(float(weights.sum()) for _, _, weights in parts)
        usual = _TEMPERATURE * self._length if usual is None else usual
        best = (np.inf, usual)
        for T in usual * 2.0 ** np.arange(-5, 5.01, 0.5):
            surprise = sum(_surprise_at(*part, T) for part in parts) / total
            surprise += _count_doublings(T, usual, spread) / self.n_out
            best = min(best, (surprise, float(T)))
        return best

    @property
    def _length(self) -> float:
        """Mean squared length of preprocessed samples: 1, unless the user gave a preprocessing."""
        return mean_square(self._learned[1][0].X)

    # The refinement.

    def _choose_strength(self, way: Way, worth: float, scale: float) -> Refinement:
        """Return the pull under which left-out samples are most likely, and the temperature."""
        usual, temperature = self.judge(way, worth)
        best, found = usual, Refinement(float("inf"), scale, temperature)
        folds = [*zip(self.folds, self._learn(way), strict=True)]
        guesses: list[Any] = [None] * len(folds)
        for strength in STRENGTHS:
            scores = []
            for i, (fold, learned) in enumerate(folds):
                guesses[i] = self._refine(fold, learned, worth, scale, strength, guesses[i])
                scores.append(scale * linear_scores(learned.X_out, *guesses[i]))
            surprise, temperature = self._best_temperature(scores)
            if surprise < min(best, usual * (1 - _LEAST_GAIN)):
                best, found = surprise, Refinement(strength, scale, temperature)
            elif surprise > _WORSE * best:
                break
        return found

    def _refine(
        self,
        fold: ShotFold,
        learned: LearnedFold,
        worth: float,
        scale: float,
        strength: float,
        guess: Any,
    ) -> tuple[Array, Array]:
        codes = self.codes[fold.fitted]
        rows = np.flatnonzero(np.isin(codes, fold.classes))
        return pull_to_centers(
            take_rows(learned.X, rows),
            np.searchsorted(fold.classes, codes[rows]),
            self.balance[fold.fitted][rows],
            take_rows(learned.centers(worth), fold.classes),
            Refinement(strength, scale),
            guess,
        )


def usual_power(X: Array) -> float:
    """Return 0.5 for features with long tails, as those of convolutional networks, else 1."""
    xp = namespace(X)
    X = xp.astype(X, xp.float64)
    lengths = xp.sqrt(xp.sum(X * X, axis=1))
    X = X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))[:, None]
    squares = X * X
    mean = float(xp.mean(squares))
    excess = float(xp.mean(squares * squares)) / mean**2 - 3 if mean > 0 else 0.0
    return 0.5 if excess > _LONG_TAILS else 1.0


def _surprise_at(S: np.ndarray, truth: np.ndarray, weights: np.ndarray, T: float) -> float:
    L = S / T
    return float(weights @ (logsumexp(L, axis=1) - L[np.arange(len(L)), truth]))


def _count_doublings(value: float, usual: float, spread: float) -> float:
    """Return minus the logarithm of a log-normal density, without its constant."""
    return float((np.log2(value / usual) / spread) ** 2 / 2)
