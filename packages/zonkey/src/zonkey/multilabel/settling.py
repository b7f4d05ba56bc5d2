"""Learn every label with the chosen parameters: weights, a calibration and a threshold each.

Labels are learned in blocks, so that memory holds the scores of some of them only. The first block,
of labels in random order, also tells what is common to all labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..config import rows_per_block
from ..persistence.checks import require_number
from .calibrating import (
    NEVER,
    OFFSET_SPREAD,
    SCALE_SPREAD,
    Curve,
    choose_thresholds,
    estimate_chances,
    fit_common,
    fit_sigmoids,
    log_odds,
    sigmoid,
    surprise_weights,
    typical_threshold,
)
from .choosing import LabelChoice, split_samples
from .learning import LabelNames, LearnedLabels, MarkedSamples, fit_preprocessing, refine

_COPIES = 64  # bytes for each score of a block that is held at a time
_MOST_LABELS = 512
# Of names alone, in the units of priors among samples of unit length.
_NAMES_SCALE, _NAMES_OFFSET, _NAMES_THRESHOLD = 60.0, 0.0, 0.2
_USUAL_THRESHOLD = 0.35
_USUAL_NUMBER = 2.0  # labels per sample, if no sample tells
_MOST_SCORES, _FARTHEST, _HALVINGS = 2**22, 20.0, 40


@dataclass(frozen=True)
class Common:
    """What is common to all labels.

    Scale and offset of a label lie between those of names alone and of many samples, by the share
    of its prior in its center. Thresholds are probabilities to be marked.
    """

    scale: float = 1.0
    offset: float = 0.0
    names_scale: float = _NAMES_SCALE
    names_offset: float = _NAMES_OFFSET
    names_threshold: float = _NAMES_THRESHOLD
    threshold: float = _USUAL_THRESHOLD
    chance: float = 1.0  # that a true label is marked

    @classmethod
    def usual(cls, wanted: WantedAnswers) -> Common:
        """Return what holds if no sample was left out.

        A wanted precision is then the threshold: probabilities above it are right that often.
        """
        if wanted.precision is None:
            return cls()
        found = min(wanted.precision, NEVER)
        return cls(threshold=found, names_threshold=found)

    def __zonkey_validate__(self) -> None:
        for name in ("scale", "names_scale", "chance"):
            require_number(name, getattr(self, name), np.finfo(float).tiny)
        for name in ("names_threshold", "threshold"):
            require_number(name, getattr(self, name), 0)


@dataclass(frozen=True)
class WantedAnswers:
    """What the user asked for."""

    threshold: float | None  # None: the best F1, or the precision
    precision: float | None
    is_unknown: bool  # whether labels that are not marked are unknown


@dataclass(frozen=True, eq=False)
class Settled:
    """Final log odds of labels to be marked, x'W + b, their thresholds in log odds, and chances."""

    W: np.ndarray
    b: np.ndarray
    thresholds: np.ndarray
    chances: np.ndarray
    scales: np.ndarray  # of the calibrations

    def put(self, rows: np.ndarray, part: Settled) -> None:
        """Write what was learned of some labels to their rows."""
        for name, values in vars(part).items():
            getattr(self, name)[rows] = values


@dataclass(frozen=True, eq=False)
class _Fold:
    stay: MarkedSamples
    out: np.ndarray
    learned: LearnedLabels
    Z: np.ndarray
    Z_out: np.ndarray


def settle(
    samples: MarkedSamples,
    learned: LearnedLabels,
    names: LabelNames,
    choice: LabelChoice,
    given: Any,
    wanted: WantedAnswers,
    seed: int,
) -> tuple[Settled, Common]:
    """Return what is learned of every label."""
    m, d = learned.evidence.sums.shape
    found = Settled(np.zeros((m, d)), np.zeros(m), np.zeros(m), np.ones(m), np.ones(m))
    folds = _learn_folds(samples, names, choice, given)
    seen = np.flatnonzero(learned.evidence.counts > 0)
    seen = np.random.default_rng(seed).permutation(seen)
    size = min(_MOST_LABELS, rows_per_block(_COPIES * len(samples.weights)))
    Z, common = learned.prepare(samples.X), None
    for first in range(0, len(seen), size):
        columns = np.sort(seen[first : first + size])
        block = _Block(samples.narrow(columns), folds, choice, wanted, columns)
        if common is None:
            common = block.measure_common()
        found.put(columns, block.settle(learned.narrow(columns), Z, common))
    common = Common.usual(wanted) if common is None else common
    rest = np.flatnonzero(learned.evidence.counts == 0)
    found.put(rest, settle_names(learned.narrow(rest), common, wanted))
    return found, common


def settle_names(learned: LearnedLabels, common: Common, wanted: WantedAnswers) -> Settled:
    """Return what is known of labels without samples, by their names if they have any."""
    W, b = learned.start_of_names()
    W, b = common.names_scale * W, common.names_scale * b + common.names_offset + learned.base
    bare = ~learned.evidence.is_described
    # Nothing is known of them but that they are rare, or as frequent as others if nobody knows.
    never = np.minimum(log_odds(0.5 / (learned.totals + 1)), learned.base)
    b = np.where(bare, never, b)
    n, found = len(b), common.names_threshold
    found = _given_threshold(wanted, common.chance) or found
    thresholds = np.full(n, float(log_odds(found)))
    return Settled(W, b, thresholds, np.full(n, common.chance), np.full(n, common.names_scale))


def usual_base(n_labels: int) -> float:
    """Return the log odds of a label if no sample tells: two labels apply, at most half of them."""
    share = min(0.5, _USUAL_NUMBER / max(1, n_labels))
    return float(log_odds(share))


def match_number(learned: LearnedLabels, common: Common, Z: np.ndarray) -> Common:
    """Return the offset of names under which as many labels as usual apply to unlabeled samples."""
    Z = Z[: max(1, _MOST_SCORES // len(learned.base))]
    W, b = learned.start_of_names()
    odds = common.names_scale * (Z @ W.T + b) + learned.base
    share = float(sigmoid(learned.base).mean())
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sigmoid(odds + middle).mean() > share else (middle, high)
    return replace(common, names_offset=(low + high) / 2)


def _given_threshold(wanted: WantedAnswers, chance: Any) -> Any:
    """Return the threshold of probabilities to be marked, None if it is chosen."""
    if wanted.threshold is None:
        return None
    return np.clip(wanted.threshold * chance, 1e-9, 1 - 1e-9)


def _learn_folds(
    samples: MarkedSamples, names: LabelNames, choice: LabelChoice, given: Any
) -> list[_Fold]:
    folds = []
    for stay, out in split_samples(samples):
        kept = samples.take(stay)
        learned = LearnedLabels.learn(kept, fit_preprocessing(kept, choice.way, given), names)
        parts = learned.prepare(kept.X), learned.prepare(samples.X[out])
        folds.append(_Fold(kept, out, learned, *parts))
    return folds


class _Block:
    """Some labels: scores of samples that were left out, with and without own positives."""

    def __init__(
        self,
        samples: MarkedSamples,
        folds: list[_Fold],
        choice: LabelChoice,
        wanted: WantedAnswers,
        columns: np.ndarray,
    ) -> None:
        self.samples, self.choice, self.wanted = samples, choice, wanted
        self.folds, self.columns = folds, columns
        rows = np.concatenate([np.arange(0), *(fold.out for fold in folds)])
        self.out = samples.take(rows)
        self.Y, self.pairs = self.out.marks.dense(), self.out.pair_weights()
        self.S, self.S_names, self.base = self._score()

    def _score(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nothing: Any = np.zeros((0, len(self.columns)))
        parts: tuple[list[Any], ...] = [nothing], [nothing], []
        for fold in self.folds:
            learned = fold.learned.narrow(self.columns)
            stay = fold.stay.narrow(self.columns)
            W, b = self._fit(learned, stay, fold.Z)
            parts[0].append(fold.Z_out @ W.T.astype(np.float32) + b)
            W, b = learned.start_of_names()
            parts[1].append(fold.Z_out @ W.T.astype(np.float32) + b)
            parts[2].append(np.full(len(fold.out), fold.learned.typical))
        base = np.concatenate([np.zeros(0), *parts[2]])
        return np.concatenate(parts[0]), np.concatenate(parts[1]), base

    def _fit(
        self, learned: LearnedLabels, samples: MarkedSamples, Z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        choice = self.choice
        W, b = learned.start(choice.worth, choice.trust, choice.scale)
        return refine(Z, samples, (W, b + learned.base), choice.strength)

    def measure_common(self) -> Common:
        """Return what the labels of this block have in common."""
        counts = self.out.positives()
        used = counts > 1 if (counts > 1).any() else counts > 0
        n_out = float(counts.sum())
        if not n_out or not self.folds:
            return Common.usual(self.wanted)
        weights = self.pairs * surprise_weights(self.Y, self.pairs) * used / used.sum()
        precision = 16 / n_out, 4 / n_out
        g, v = fit_common(self.S, self.Y, weights, (1.0, 0.0), precision)
        P = sigmoid(g * self.S + v)[:, used]
        Y, pairs = self.Y[:, used], self.pairs[:, used]
        chance = estimate_chances(P, Y, pairs)[1] if self.wanted.is_unknown else 1.0
        threshold = typical_threshold(Curve.measure(P, Y, pairs), chance, self.wanted.precision)
        names = self._measure_names(weights, used, n_out, chance)
        return Common(g, v, *names, threshold, chance)

    def _measure_names(
        self, weights: np.ndarray, used: np.ndarray, n_out: float, chance: float
    ) -> tuple[float, float, float]:
        """Return scale, offset and threshold of names alone."""
        if not self.S_names.any():
            return _NAMES_SCALE, _NAMES_OFFSET, Common.usual(self.wanted).names_threshold
        precision = (2 / _NAMES_SCALE) ** 2 / n_out, 4 / n_out
        base = self.base[:, None]
        start = _NAMES_SCALE, _NAMES_OFFSET
        g, v = fit_common(self.S_names, self.Y, weights, start, precision, base)
        P = sigmoid(g * self.S_names + base + v)[:, used]
        curve = Curve.measure(P, self.Y[:, used], self.pairs[:, used])
        return g, v, typical_threshold(curve, chance, self.wanted.precision)

    def settle(self, learned: LearnedLabels, Z: np.ndarray, common: Common) -> Settled:
        """Fit all samples; calibrate each label, and choose its threshold, on those left out."""
        W, b = self._fit(learned, self.samples, Z)
        n = len(self.columns)
        start = np.full(n, common.scale), np.full(n, common.offset)
        spread = SCALE_SPREAD * common.scale
        precision = 1 / spread**2, 1 / OFFSET_SPREAD**2
        g, v = fit_sigmoids(self.S, self.Y, self.pairs, start, precision)
        P = sigmoid(g * self.S + v)
        chances = np.ones(n)
        if self.wanted.is_unknown and len(P):
            chances = estimate_chances(P, self.Y, self.pairs)[0]
        given = _given_threshold(self.wanted, chances)
        if given is not None:
            thresholds = given
        elif len(P):
            used = self.out.positives() > 0
            some = used if used.any() else ~used
            curve = Curve.measure(P[:, some], self.Y[:, some], self.pairs[:, some])
            thresholds = choose_thresholds(
                P, self.Y, self.pairs, curve, chances, self.wanted.precision
            )
        else:
            thresholds = np.full(n, common.threshold)
        return Settled(g[:, None] * W, g * b + v, log_odds(thresholds), chances, g)
