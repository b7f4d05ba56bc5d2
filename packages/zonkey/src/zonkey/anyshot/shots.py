"""Choose what labeled samples alone can tell: how to compare them, and how far to trust names.

Where all candidates have samples, some samples of each class are left out in turn, and everything
that `fit` does is done without them. The parameters under which they are most likely are taken:
power and whitening of features, the worth of a prototype, the pull of the logistic regression that
refines the centers, and the temperature. Each has a usual value, measured on many data sets, that
counts as prior knowledge: few samples move it little.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax

from ..arrays import Array, namespace, place_like, sums_by_code, take_rows
from ..hold_out import rank_distinct
from .choice import JOINT_START, Choice, Temperatures
from .choosing import POWERS
from .left_out import LeftOut
from .outcomes import likely_temperature, round_digits
from .preparing import Preparing
from .refining import (
    Refinement,
    center_scores,
    linear_scores,
    mean_square,
    pull_to_centers,
)
from .shot_folds import LabeledRows, LearnedFold, Names, ShotFold, shot_folds
from .survey import KeptSamples
from .usual import (
    NAMES_TEMPERATURE,
    OTHER_WORTH,
    competition,
    usual_one_shot,
    usual_temperature,
    usual_worth,
)

SHRINKAGES = (256.0, 16.0, 4.0, 1.0, 0.25)
WORTHS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Relative to the number of classes; from strong to weak.
STRENGTHS = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)

# Usual values and how many doublings from them are as common as a standard deviation.
_NAMES_ALONE_SPREAD = 0.25  # of temperatures
_SHRINKAGE, _SHRINKAGE_SPREAD = 16.0, 3.0
_JOINT_WORTH = 16.0  # of names
_WORTH_SPREAD, _JOINT_SPREAD = 1.5, 0.75
_STRENGTH_SPREAD = 4.0  # from the strongest pull
_COST_OF_POWER = 1.0  # for the power that the samples do not suggest, in log-likelihood
_NO_SAMPLE_TEMPERATURE, _COSINE_TEMPERATURE = 0.045, 0.039
_LONG_TAILS = 1.0  # excess kurtosis, above which a power of 0.5 is usual

_MOST_PER_CLASS, _MOST_CLASSES, _MOST_SCORED = 100, 200, 1000
_MOST_VALUES = 2**23  # numbers in all samples
_MOST_PRODUCTS = 2**26  # to score all samples once, where a refinement is chosen
_FEWEST_PER_CLASS = 5
_LEAST_GAIN = 0.002  # of the likelihood, relative: a refinement that gains less is not taken
_WORSE = 1.02  # times the best likelihood: weaker pulls would only overfit more


Way = tuple[float, float] | None  # power and shrinkage; None is the preprocessing the user gave


def choose_for_names(fixed: dict[str, Any], length: float, *, centered: bool) -> Choice:
    """Return the usual parameters of names alone, of this mean squared length among samples."""
    temperature = length * (_NO_SAMPLE_TEMPERATURE if centered else _COSINE_TEMPERATURE)
    worth = float(fixed.get("worth", _JOINT_WORTH))
    judges = "worth" not in fixed
    return Choice(
        replace(JOINT_START, power=None, shrinkage=None),
        worth,
        temperatures=Temperatures(temperature, temperature, temperature),
        refinement=Refinement(float("inf"), temperature, temperature, worth, judges=judges),
    )


def select_classes(
    kept: KeptSamples, labels: np.ndarray, seed: int
) -> tuple[KeptSamples, np.ndarray]:
    """Return the samples of at most 200 of the classes with samples, and which these are."""
    used = np.unique(kept.codes)
    if len(used) > _MOST_CLASSES:
        used = np.sort(np.random.default_rng(seed).permutation(used)[:_MOST_CLASSES])
    rows = np.flatnonzero(np.isin(kept.codes, used))
    codes = np.searchsorted(used, kept.codes[rows])
    parts = {"weights": kept.weights[rows], "priorities": kept.priorities[rows]}
    few = replace(kept, X=take_rows(kept.X, rows), codes=codes, **parts)
    return few, labels[used]


class ShotChoosing:
    """The choice for one set of samples, all of whose classes are candidates.

    `names` are what is known beside samples, `choice` is what held-out classes chose, `fixed` are
    the parameters that the user gave, and `masses` are what classes count.
    """

    def __init__(
        self,
        kept: KeptSamples,
        names: Names,
        choice: Choice,
        fixed: dict[str, Any],
        seed: int,
        masses: np.ndarray | float = 1.0,
    ) -> None:
        self.n_classes = len(names.counts)
        most = _MOST_VALUES // (kept.X.shape[1] * self.n_classes)
        most = min(_MOST_PER_CLASS, max(_FEWEST_PER_CLASS, most))
        rank = rank_distinct(kept.codes, kept.priorities)
        # Copies count as one sample of more weight.
        places = np.stack([kept.codes, rank], axis=1)[rank < most]
        places, first, own = np.unique(places, axis=0, return_index=True, return_inverse=True)
        rows = np.flatnonzero(rank < most)
        self.X = take_rows(kept.X, rows[first])
        self.codes = places[:, 0]
        self.weights = np.bincount(own, kept.weights[rows])
        self.balance = self.weights / np.bincount(self.codes, self.weights)[self.codes]
        self.balance = self.balance * np.broadcast_to(masses, self.n_classes)[self.codes]
        self.names = names
        self.choice = choice
        self.fixed = fixed
        self.seed = seed
        self.folds = shot_folds(self.codes, places[:, 1], self.n_classes, seed)
        self.n_out = sum(float(self.weights[fold.out].sum()) for fold in self.folds)
        self._preparings: tuple[float | None, list[Preparing]] = (None, [])
        self._learned: tuple[Any, list[LearnedFold]] = (None, [])

    def run(self) -> Choice:
        """Choose the way to compare samples and the worth of names, then the refinement."""
        if not self.n_out:
            return self._choose_without_folds()
        found = {}
        for way, worth in product(self._ways(), self._worths()):
            surprise, _ = self.judge(self._learn(way), worth)
            found[way, worth] = surprise + self._surprise_of(way, worth)
        way, worth = min(found, key=lambda key: found[key])
        worths = np.array([each for each in self._worths() if each > 0])
        if worth > 0 and len(worths) > 1:
            worth = self._average(worths, np.array([found[way, each] for each in worths]))
        folds = self._learn(way)
        scale = self.judge(folds, worth)[1]
        return self._decide(way, worth, *self._choose_strength(folds, worth, scale))

    def _average(self, values: np.ndarray, surprises: np.ndarray) -> float:
        """Return the mean doubling of values under their posterior: few samples favor several."""
        shares = softmax(-self.n_out * surprises)
        # Two decimals: the others are rounding errors of float32, not information.
        return round_digits(2 ** round(float(shares @ np.log2(values)), 2))

    def _choose_without_folds(self) -> Choice:
        """Choose with one sample per class, where the usual values decide.

        In a joint space, names alone classify the samples, which tells their temperature; how far
        class means lie along names tells how large they are.
        """
        described = np.flatnonzero(self.names.is_described)
        joint, fixed, every = self.names.placed is not None, self.fixed, np.arange(len(self.codes))
        way = None if "preprocessing" in fixed else (self._usual_power, _SHRINKAGE)
        # The regression of a class is learned from samples that are centered together with its own.
        self.names = replace(self.names, kernel=None)
        self.folds = [ShotFold(every, every, np.arange(self.n_classes))]
        self.n_out = float(self.weights.sum())
        (learned,) = self._learn(way)
        worth, scale = OTHER_WORTH, usual_one_shot(learned.stay.X)
        if joint and len(described):
            by_names = self._choose_by_names(learned.narrow(described))
            if by_names is not None:
                share, worth, T = by_names
                scale *= (T / scale) ** share
        worth = float(fixed.get("worth", worth if len(described) else 0.0))
        return self._decide(way, worth, Refinement(float("inf"), scale, scale))

    def _choose_by_names(self, learned: LearnedFold) -> tuple[float, float, float] | None:
        """Return how surely samples lie along names, the worth of these, and the temperature.

        None if samples do not lie along names.
        """
        share, length = learned.names
        if not share:
            return None
        squared = mean_square(learned.out.X)
        usual = NAMES_TEMPERATURE * length * squared * competition(self.n_classes)
        scores = [center_scores(learned.out.X, learned.prior)]
        T = self._best_temperature([learned], scores, usual, _NAMES_ALONE_SPREAD)[1]
        # Scores grow with the lengths of centers, which are of names and one sample.
        worth = usual_worth(1.0, length)
        of_centers = float(np.hypot(worth * length, 1.0)) / (worth + 1)
        return share, usual_worth(share, length), T * of_centers / length

    def _decide(
        self, way: Way, worth: float, refinement: Refinement, left_out: LeftOut | None = None
    ) -> Choice:
        n = float(self.weights.sum()) / self.n_classes
        refinement = replace(refinement, worth=worth, n_samples=n, judges=self.judges)
        point = self.choice.point
        if way is not None:
            point = replace(point, power=way[0], shrinkage=way[1])
        return replace(self.choice, point=point, refinement=refinement, left_out=left_out)

    @property
    def judges(self) -> bool:
        """Whether samples judge what the regression predicts."""
        return "worth" not in self.fixed

    # What is chosen from.

    @cached_property
    def _usual_power(self) -> float:
        return usual_power(self.X) if self.names.placed is None else 1.0

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
            cost += _COST_OF_POWER * (power != self._usual_power)
        if len(self._worths()) > 1:
            share = float(np.mean(self.names.is_described)) if joint else 0.0
            usual = OTHER_WORTH * (_JOINT_WORTH / OTHER_WORTH) ** share
            spread = _WORTH_SPREAD + share * (_JOINT_SPREAD - _WORTH_SPREAD)
            cost += _count_doublings(max(worth, WORTHS[1] / 2), usual, spread)
        return cost / self.n_out

    # How likely left-out samples are.

    def judge(self, folds: list[LearnedFold], worth: float) -> tuple[float, float]:
        """Return the mean surprise of left-out samples by posterior centers, and the temperature.

        The surprise is minus the logarithm of the probability.
        """
        scores = [center_scores(fold.out.X, fold.centers(worth)) for fold in folds]
        return self._best_temperature(folds, scores, *self._usual_temperature(folds))

    def _best_temperature(
        self, folds: list[LearnedFold], scores: list[Array], usual: float, spread: float
    ) -> tuple[float, float]:
        """Return the mean surprise of left-out samples at the most likely temperature, and it."""
        n = sum(len(fold.out.codes) for fold in folds)
        some = slice(None, None, 1 + n // _MOST_SCORED)
        parts = [
            (S[some, :], fold.out.codes[some], fold.out.weights[some])
            for fold, S in zip(folds, scores, strict=True)
        ]
        T, surprise = likely_temperature(parts, usual, self.n_out, spread)
        return surprise, T

    def _usual_temperature(self, folds: list[LearnedFold]) -> tuple[float, float]:
        """Return the usual temperature, and how many doublings from it are common."""
        n = float(np.median(np.bincount(self.codes, self.weights)))
        share = length = 0.0
        if self.names.placed is not None:
            share, length = np.mean([fold.names for fold in folds], axis=0).tolist()
            share *= float(np.mean(self.names.is_described))
        X, names = folds[0].out.X, (share, length)
        usual, spread = usual_temperature(n, X.shape[1], len(self.codes), self.n_classes, names)
        return usual * mean_square(X), spread

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
        stay, out = (
            LabeledRows(
                take_rows(Z, rows), self.codes[rows], self.balance[rows], self.weights[rows]
            )
            for rows in (fold.fitted, fold.out)
        )
        weights = self.weights[fold.fitted]
        shares = xp.astype(place_like(weights, Z), Z.dtype)
        sums = sums_by_code(stay.X, place_like(stay.codes, Z), self.n_classes, shares)
        sums = xp.astype(sums, xp.float64)
        counts = place_like(np.bincount(stay.codes, weights, minlength=self.n_classes), sums)
        Q = None if self.names.placed is None else xp.astype(Z[n:, :], xp.float64)
        prior = self.names.predict(sums / counts[:, None], Q, judges=self.judges)
        described = xp.astype(place_like(self.names.is_described, sums), sums.dtype)
        return LearnedFold(stay, out, prior, sums, counts, described).narrow(fold.classes)

    # The refinement.

    def _choose_strength(
        self, folds: list[LearnedFold], worth: float, scale: float
    ) -> tuple[Refinement, LeftOut]:
        """Return the pull under which left-out samples are most likely, and answers to them.

        Some of many classes choose for all: the pull is relative to the number of classes.
        """
        folds = [self._narrow(fold) for fold in folds]
        usual, before = self.judge(folds, worth)
        usual_temperature = self._usual_temperature(folds)
        best, found = usual, Refinement(float("inf"), scale, scale)
        answers = [center_scores(fold.out.X, fold.centers(worth)) for fold in folds], before
        guesses: list[Any] = [None] * len(folds)
        for strength in STRENGTHS:
            scores, refinement = [], Refinement(strength, scale)
            for i, fold in enumerate(folds):
                X, codes, weights = fold.stay.X, fold.stay.codes, fold.stay.weights
                C, guess = fold.centers(worth), guesses[i]
                W, b = guesses[i] = pull_to_centers(X, codes, weights, C, refinement, guess)
                scores.append(linear_scores(fold.out.X, scale * W, scale * b))
            surprise, T = self._best_temperature(folds, scores, *usual_temperature)
            surprise += _count_doublings(strength, STRENGTHS[0], _STRENGTH_SPREAD) / self.n_out
            if surprise < min(best, usual * (1 - _LEAST_GAIN)):
                best, found = surprise, Refinement(strength, scale, scale * T / before)
                answers = scores, T
            elif surprise > _WORSE * best:
                break
        parts = [
            (S, fold.out.codes, fold.out.sizes) for fold, S in zip(folds, answers[0], strict=True)
        ]
        left_out = LeftOut.read(parts, answers[1], self.n_out)
        return found, replace(left_out, temperature=found.temperature)

    def _narrow(self, fold: LearnedFold) -> LearnedFold:
        """Return a fold of as many classes as can be scored quickly."""
        n, d = fold.stay.X.shape
        k = fold.counts.shape[0]
        most = int((_MOST_PRODUCTS * k / (n * d)) ** 0.5)
        if k <= most:
            return fold
        order = np.random.default_rng(self.seed).permutation(k)
        # Some sample must stay to be left out.
        order = order[np.argsort(~np.isin(order, fold.out.codes), kind="stable")]
        return fold.narrow(np.sort(order[: max(2, most)]))


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


def _count_doublings(value: float, usual: float, spread: float) -> float:
    """Return minus the logarithm of a log-normal density, without its constant."""
    return float((np.log2(value / usual) / spread) ** 2 / 2)
