"""Choose how to compare samples with labels, the worth of names, and the pull, on left-out samples.

Samples are left out in turn; everything that `fit` learns is learned from the others. Parameters
are taken under which labels of the samples left out are least surprising, after one common scale
and offset, each label relative to what its frequency alone says. Usual values count as prior
knowledge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..anyshot.shots import usual_power
from ..persistence.checks import require_number, require_that
from .calibrating import fit_common, relative_surprise, surprise_weights
from .learning import (
    LabelNames,
    LearnedLabels,
    MarkedSamples,
    Way,
    fit_preprocessing,
    refine,
)

SHRINKAGES = (16.0, 4.0, 1.0)
WORTHS = (0.5, 2.0, 8.0, 32.0)
TRUSTS = (1.0, 0.5, 0.0)  # of what prototypes say of labels with samples
STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)  # from strong to weak
USUAL_SCALE = 32.0  # of samples of unit length
# Usual values and how many doublings from them are as common as a standard deviation.
_SHRINKAGE, _SHRINKAGE_SPREAD = 8.0, 3.0
_WORTH, _WORTH_SPREAD = 8.0, 2.0
_STRENGTH, _STRENGTH_SPREAD = 1.0, 3.0
_MOST_SAMPLES, _MOST_LABELS = 3000, 100
_FOLDS, _FEW_FOLDS, _MANY = 5, 3, 2000
_LEAST_GAIN, _WORSE = 0.001, 1.02


@dataclass(frozen=True)
class LabelChoice:
    """How labels are learned. Scales and offsets make probabilities of scores."""

    power: float | None = 1.0  # None where the user gave the preprocessing
    shrinkage: float | None = 16.0
    worth: float = _WORTH  # positives that a prior is worth
    trust: float = 1.0  # factor of priors of labels with samples
    scale: float = USUAL_SCALE  # of the discriminants
    strength: float = 1.0  # of the pull to them; infinity keeps them

    def __zonkey_validate__(self) -> None:
        require_number("worth", self.worth, 0)
        require_number("trust", self.trust, 0)
        require_number("scale", self.scale, 0)
        require_that(self.strength > 0, "`strength` of the pull must be above 0.")

    @property
    def way(self) -> Way:
        """Power and shrinkage."""
        if self.power is None or self.shrinkage is None:
            return None
        return self.power, self.shrinkage


def split_samples(samples: MarkedSamples) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows that stay and rows that are left out, for each fold; none of too few samples.

    The order of the samples follows from a hash of their values, so every n-th one will do.
    """
    n = len(samples.weights)
    if n < 2 * _FEW_FOLDS or not (samples.positives() > 1).any():
        return []
    turn = np.arange(n) % (_FOLDS if n < _MANY else _FEW_FOLDS)
    return [(np.flatnonzero(turn != i), np.flatnonzero(turn == i)) for i in range(turn.max() + 1)]


def choose(
    samples: MarkedSamples, names: LabelNames, given: Any, *, is_auto: bool, joint: bool, seed: int
) -> LabelChoice:
    """Choose on some of the samples and labels."""
    usual = LabelChoice(None, None)
    if is_auto:
        usual = LabelChoice(1.0 if joint else usual_power(samples.X), 16.0)
    few = _select(samples, seed)
    folds = split_samples(few)
    if not folds:
        return usual
    return _Choosing(few, names, given, usual, folds).run()


def _select(samples: MarkedSamples, seed: int) -> MarkedSamples:
    """Return at most 3000 of the samples, and 100 of the labels with two of them."""
    if len(samples.weights) > _MOST_SAMPLES:
        samples = samples.take(np.arange(_MOST_SAMPLES))
    several = np.flatnonzero(samples.positives() > 1)
    if len(several) > _MOST_LABELS:
        rng = np.random.default_rng(seed)
        several = np.sort(rng.permutation(several)[:_MOST_LABELS])
    return samples.narrow(several)


@dataclass(frozen=True, eq=False)
class _Part:
    """One fold under a preprocessing."""

    stay: MarkedSamples
    learned: LearnedLabels
    Z: np.ndarray
    Z_out: np.ndarray


class _Choosing:
    def __init__(
        self,
        samples: MarkedSamples,
        names: LabelNames,
        given: Any,
        usual: LabelChoice,
        folds: list[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self.samples, self.names, self.given, self.usual = samples, names, given, usual
        self.folds = folds
        order = np.concatenate([out for _, out in folds])
        self.out = samples.take(order)
        self.Y, self.pairs = self.out.marks.dense(), self.out.pair_weights()
        self.n_out = float(self.out.positives().sum())
        self.used = self.out.positives() > 0
        self.relative = self.pairs * surprise_weights(self.Y, self.pairs) * self.used

    def run(self) -> LabelChoice:
        """Choose preprocessing and worth, then the pull."""
        best, found, parts = np.inf, self.usual, []
        ways: list[Any] = [None]
        if self.usual.power is not None:
            ways = [(self.usual.power, shrinkage) for shrinkage in SHRINKAGES]
        for way in ways:
            learned = [self._learn(way, *fold) for fold in self.folds]
            for worth, trust in product(WORTHS, self._trusts()):
                scale, surprise = self._judge(learned, worth, trust)
                surprise += _count_doublings(worth, _WORTH, _WORTH_SPREAD) / self.n_out
                if way is not None:
                    cost = _count_doublings(way[1], _SHRINKAGE, _SHRINKAGE_SPREAD)
                    surprise += cost / self.n_out
                if surprise < best:
                    best, parts = surprise, learned
                    shrinkage = None if way is None else way[1]
                    chosen = {"worth": worth, "trust": trust, "scale": scale}
                    found = replace(found, shrinkage=shrinkage, **chosen)
        strength = self._choose_strength(parts, found)
        return replace(found, strength=strength)

    def _trusts(self) -> tuple[float, ...]:
        return (0.0,) if self.names.regression is None else TRUSTS

    def _learn(self, way: Way, stay: np.ndarray, out: np.ndarray) -> _Part:
        kept = self.samples.take(stay)
        learned = LearnedLabels.learn(kept, fit_preprocessing(kept, way, self.given), self.names)
        X = self.samples.X
        return _Part(kept, learned, learned.prepare(kept.X), learned.prepare(X[out]))

    def _judge(self, parts: list[_Part], worth: float, trust: float) -> tuple[float, float]:
        """Return the most likely scale of the discriminants, and the surprise under it."""
        scores, base = [], []
        for part in parts:
            W, b = part.learned.start(worth, trust)
            scores.append(part.Z_out @ W.T.astype(np.float32) + b)
            base.append(np.broadcast_to(part.learned.base, scores[-1].shape))
        return self._calibrate(np.concatenate(scores), np.concatenate(base), USUAL_SCALE)

    def _calibrate(self, S: np.ndarray, base: Any, scale: float) -> tuple[float, float]:
        # Few samples move the scale little from the usual one.
        precision = (4 / scale**2) / self.n_out, 4 / self.n_out
        n_labels = max(1, np.count_nonzero(self.used))
        g, v = fit_common(S, self.Y, self.relative / n_labels, (scale, 0.0), precision, base)
        return g, relative_surprise(g * S + base + v, self.Y, self.pairs, self.used)

    def _choose_strength(self, parts: list[_Part], choice: LabelChoice) -> float:
        found = float("inf")
        unmoved: list[Any] = []
        guesses: list[Any] = [None] * len(parts)
        for part in parts:
            W, b = part.learned.start(choice.worth, choice.trust, choice.scale)
            unmoved.append((W, b + part.learned.base))
        best = self._surprise_of(parts, unmoved) * (1 - _LEAST_GAIN)
        for strength in STRENGTHS:
            for i, part in enumerate(parts):
                guesses[i] = refine(part.Z, part.stay, unmoved[i], strength, guesses[i])
            surprise = self._surprise_of(parts, guesses)
            surprise += _count_doublings(strength, _STRENGTH, _STRENGTH_SPREAD) / self.n_out
            if surprise < best:
                best, found = surprise, strength
            elif surprise > _WORSE * best:
                break
        return found

    def _surprise_of(self, parts: list[_Part], fitted: list[Any]) -> float:
        pairs = zip(parts, fitted, strict=True)
        scores = [part.Z_out @ W.T.astype(np.float32) + b for part, (W, b) in pairs]
        return self._calibrate(np.concatenate(scores), 0.0, 1.0)[1]


def _count_doublings(value: float, usual: float, spread: float) -> float:
    """Return minus the logarithm of a log-normal density, without its constant."""
    return float((np.log2(value / usual) / spread) ** 2 / 2)
