"""Learn from unlabeled samples; how strongly is chosen on simulated tasks of training classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..core.posterior import (
    SoftShots,
    class_scores,
    held_out_weights,
    inverse_without,
    left_out_weights,
    soft_shots,
)
from ..core.reservoir import row_priorities
from ..linalg.arrays import Array, namespace, placed_like, sums_by_code, to_numpy
from ..metrics import best_temperature
from ..validation import is_auto

TEMPERATURES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
WEIGHTS = (1.0, 0.3)
MULTIPLES = (1.0, 2.0, 4.0)  # of the worth of a prototype

_STEPS = 12
_SMOOTHING = 20.0
_MOST_PER_CLASS = 64
_MOST_SAMPLES = 2**14
_SIMULATIONS = 6
_SMALL_TASK = 400  # samples; smaller tasks are simulated more often
_SMALL_SIMULATIONS = 60
_HELD_OUT = 4  # of a class that keeps its samples, every fourth joins the pile


@dataclass(frozen=True, eq=False)
class Reserve:
    """Some preprocessed training samples of the classes that the regression learns from.

    `labels` are sorted; `X` is in float32.
    """

    X: Array
    labels: np.ndarray

    @classmethod
    def of(cls, X: Array, labels: np.ndarray, evidence: Any, seed: int) -> Reserve | None:
        """Keep the samples of lowest hash, at most 64 per class and 16,384 in all."""
        anchors = evidence.labels[evidence.is_anchor]
        if len(anchors) < 4:
            return None
        most = max(4, min(_MOST_PER_CLASS, _MOST_SAMPLES // len(anchors)))
        rows = np.flatnonzero(np.isin(labels, anchors))
        priorities = to_numpy(row_priorities(X, seed))[rows]
        order = np.lexsort((priorities, labels[rows]))
        rows = rows[order]
        rank = np.arange(len(rows)) - np.searchsorted(labels[rows], labels[rows])
        rows = rows[rank < most]
        xp = namespace(X)
        return cls(xp.astype(xp.take(X, placed_like(rows, X), axis=0), xp.float32), labels[rows])


@dataclass(frozen=True, eq=False)
class Adapted:
    """Centers and offsets of classes after unlabeled samples.

    `settings` are worth, temperature and weight in use; `temperature` is for probabilities.
    """

    labels: np.ndarray
    centers: Array
    offsets: Array
    settings: tuple[float, float, float]
    temperature: float | None

    def applied(self, labels: np.ndarray, centers: Array, offsets: Array) -> tuple[Array, Array]:
        """Return the centers and offsets of some classes, those that were adapted replaced."""
        xp = namespace(centers)
        places = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        is_here = placed_like(self.labels[places] == labels, centers)
        rows = placed_like(places, centers)
        moved = xp.take(self.centers, rows, axis=0)
        shifted = xp.take(self.offsets, rows, axis=0)
        return xp.where(is_here[:, None], moved, centers), xp.where(is_here, shifted, offsets)


@dataclass(frozen=True)
class Settings:
    """How strongly unlabeled samples act.

    Attributes
    ----------
    temperature : float
        Divisor of the scores.
    weight : float
        Weight of an unlabeled sample.
    multiple : float
        Factor of the worth of a prototype.
    relief : float
        Share of the penalty of classes with samples that stays: once unlabeled samples support
        the other classes too, less of it is needed.
    """

    temperature: float
    weight: float = 1.0
    multiple: float = 1.0
    relief: float = 1.0

    @property
    def boldness(self) -> float:
        """Weight of an unlabeled sample relative to a prototype."""
        return self.weight / self.multiple


@dataclass(frozen=True, eq=False)
class Task:
    """Centers and unlabeled samples, with the true classes if the task is simulated."""

    X: Array
    centers: Array
    counts: Array
    prior_worth: Array
    penalties: Array
    truth: np.ndarray | None = None
    is_old: np.ndarray | None = None

    def scores(self, settings: Settings) -> tuple[Array, SoftShots | None]:
        """Return the scores after adaptation, and what was learned."""
        offsets = settings.relief * self.penalties
        if settings.weight == 0:
            return class_scores(self.X, self.centers, self.penalties), None
        shots = soft_shots(
            self.X,
            self.centers,
            self.counts + settings.multiple * self.prior_worth,
            offsets=offsets,
            temperature=settings.temperature,
            weight=settings.weight,
            smoothing=_SMOOTHING,
            n_steps=_STEPS,
        )
        offsets = offsets - self.bonus(shots, settings)
        return class_scores(self.X, shots.centers, offsets), shots

    @staticmethod
    def bonus(shots: SoftShots, settings: Settings) -> Array:
        """Return what frequent classes gain: the temperature times their log proportion."""
        xp = namespace(shots.shares)
        return settings.temperature * xp.log(shots.shares * shots.shares.shape[0])

    def measure(self, settings: Settings) -> float:
        """Return the accuracy, or the harmonic mean if there are classes with samples."""
        assert self.truth is not None
        assert self.is_old is not None
        scores, _ = self.scores(settings)
        predicted = to_numpy(namespace(scores).argmax(scores, axis=1))
        n = len(self.is_old)
        hits = np.bincount(self.truth, weights=predicted == self.truth, minlength=n)
        totals = np.bincount(self.truth, minlength=n)
        found = hits / np.maximum(totals, 1)
        new, old = (found[(totals > 0) & mask] for mask in (~self.is_old, self.is_old))
        if not old.size or not new.size:
            return float(np.mean(found[totals > 0]))
        a, b = float(np.mean(new)), float(np.mean(old))
        return 2 * a * b / (a + b) if a + b else 0.0


@dataclass(frozen=True, eq=False)
class Adapting:
    """Adaptation of the candidates of a fitted model.

    `inverse` is G of the classes that the regression learns from, None if there are none.
    """

    evidence: Any
    candidates: np.ndarray
    centers: Array
    penalties: np.ndarray
    inverse: Array | None
    prior_worth: float
    reserve: Reserve | None

    def run(self, X: Array, *, temperature: Any, weight: Any, seed: int) -> Adapted:
        """Choose settings that are "auto", and learn from the rows of X."""
        xp = namespace(X)
        settings, tasks = Settings(1.0, weight=0.0), []
        if is_auto(temperature) or is_auto(weight):
            tasks = self._simulated(X, np.random.default_rng(seed))
            if tasks:
                settings = _chosen(tasks, self._grids(X, temperature, weight))
        else:
            settings = Settings(float(temperature), float(weight))
        counts = self.evidence.counts[self.candidates]
        described = self.evidence.is_described[self.candidates]
        task = Task(
            X,
            xp.astype(self.centers, X.dtype),
            _like(counts, X),
            _like(np.where(described, self.prior_worth, 0.0), X),
            _like(self.penalties, X),
        )
        _, shots = task.scores(settings)
        labels = self.evidence.labels[self.candidates]
        used = (settings.multiple * self.prior_worth, settings.temperature, settings.weight)
        fitted = _probability_temperature(tasks, settings)
        offsets = placed_like(self.penalties, self.centers)
        if shots is None:
            return Adapted(labels, self.centers, offsets, used, None)
        bonus = xp.astype(task.bonus(shots, settings), offsets.dtype)
        centers = xp.astype(shots.centers, self.centers.dtype)
        return Adapted(labels, centers, settings.relief * offsets - bonus, used, fitted)

    def _grids(self, X: Array, temperature: Any, weight: Any) -> list[list[dict[str, float]]]:
        """Return the grids, which are searched one after the other."""
        xp = namespace(X)
        scale = float(xp.mean(xp.sum(X * X, axis=1)))
        first = [t * scale for t in TEMPERATURES] if is_auto(temperature) else [float(temperature)]
        second = WEIGHTS if is_auto(weight) else (float(weight),)
        grids = [
            [{"temperature": t} for t in first],
            [{"weight": w, "multiple": m} for w, m in product(second, MULTIPLES)],
        ]
        if self._is_new().any() and not self._is_new().all():
            grids.insert(1, [{"relief": share} for share in (0.0, 1 / 3, 2 / 3, 1.0)])
        return grids

    def _is_new(self) -> np.ndarray:
        """Tell candidates with few samples from those with many: the middle on a log scale."""
        counts = 1 + self.evidence.counts[self.candidates]
        return counts <= np.sqrt(counts.min() * counts.max())

    def _simulated(self, X: Array, rng: np.random.Generator) -> list[Task]:
        """Return tasks of training classes that resemble the task at hand."""
        reserve, G = self.reserve, self.inverse
        if reserve is None or G is None:
            return []
        anchors = self.evidence.labels[self.evidence.is_anchor]
        is_new = self._is_new()
        n_new = min(int(is_new.sum()), len(anchors) // 2)
        n_old = min(int((~is_new).sum()), len(anchors) - n_new)
        shots = round(float(np.median(self.evidence.counts[self.candidates][is_new])))
        per_class = X.shape[0] / len(self.candidates)
        penalty = float(np.mean(self.penalties[~is_new])) if n_old else 0.0
        simulation = _Simulation(self, anchors, n_new, n_old, shots, per_class, penalty)
        n_tasks = _SIMULATIONS if X.shape[0] > _SMALL_TASK else _SMALL_SIMULATIONS
        return [task for task in (simulation.draw(rng) for _ in range(n_tasks)) if task]


@dataclass(frozen=True, eq=False)
class _Simulation:
    """Tasks with `n_new` held-out classes of `shots` samples, and `n_old` other classes."""

    source: Adapting
    anchors: np.ndarray
    n_new: int
    n_old: int
    shots: int
    per_class: float
    penalty: float

    def draw(self, rng: np.random.Generator) -> Task | None:
        """Return a task, or None if the classes have too few samples for one."""
        source, reserve, G = self.source, self.source.reserve, self.source.inverse
        assert reserve is not None
        assert G is not None
        order = rng.permutation(len(self.anchors))
        new, old = order[: self.n_new], np.sort(order[self.n_new : self.n_new + self.n_old])
        # Shares of a pile are never equal; a symmetric Dirichlet(2) is far from it.
        shares = rng.dirichlet(np.full(self.n_new + self.n_old, 2.0)) * (self.n_new + self.n_old)
        picks, truth, shot_rows = [], [], []
        for place, j in enumerate([*new, *old]):
            rows = self._rows(j)
            rows = rows[rng.permutation(len(rows))]
            n_shots = min(self.shots, len(rows) // 2) if place < self.n_new else 0
            size = max(1, round(self.per_class * shares[place]))
            size = min(size, len(rows) - n_shots)
            if place >= self.n_new:
                size = min(size, len(rows) // _HELD_OUT)
            shot_rows.append(rows[:n_shots])
            picks.append(rows[n_shots : n_shots + size])
            truth.append(np.full(size, place))
        pile, truth = np.concatenate(picks), np.concatenate(truth)
        if not len(pile):
            return None
        xp = namespace(reserve.X)
        X = xp.take(reserve.X, placed_like(pile, reserve.X), axis=0)
        centers, counts = self._centers(new, old, shot_rows, picks)
        is_old = np.arange(len(centers)) >= self.n_new
        penalties = np.where(is_old, self.penalty, 0.0)
        worth = np.full(len(is_old), source.prior_worth)
        return Task(
            X,
            xp.astype(centers, X.dtype),
            _like(counts, X),
            _like(worth, X),
            _like(penalties, X),
            truth,
            is_old,
        )

    def _rows(self, j: int) -> np.ndarray:
        """Return the reserved samples of an anchor."""
        reserve = self.source.reserve
        assert reserve is not None
        ends = [np.searchsorted(reserve.labels, self.anchors[j], side) for side in _SIDES]
        return np.arange(*ends)

    def _centers(
        self,
        new: np.ndarray,
        old: np.ndarray,
        shot_rows: list[np.ndarray],
        picks: list[np.ndarray],
    ) -> tuple[Array, np.ndarray]:
        """Return the centers of new and old classes, and the samples behind them."""
        source, G, n0 = self.source, self.source.inverse, self.source.prior_worth
        evidence, reserve = source.evidence, source.reserve
        assert reserve is not None
        assert G is not None
        xp = namespace(G)
        mask = evidence.is_anchor
        sums = xp.take(evidence.sums, placed_like(np.flatnonzero(mask), G), axis=0)
        counts = evidence.counts[mask]
        M = sums / placed_like(counts, G)[:, None]
        weights = held_out_weights(G, placed_like(new, G))
        prior = weights @ M
        n_shots = np.array([len(rows) for rows in shot_rows[: self.n_new]], float)
        gained = self._sums(shot_rows[: self.n_new], M)
        n = placed_like(n_shots, G)[:, None]
        parts, totals = [(n0 * prior + gained) / (n0 + n)], [n_shots]
        if len(old):
            places = placed_like(old, G)
            G_rest = inverse_without(G, placed_like(new, G), weights)
            prior = xp.take(left_out_weights(G_rest) @ M, places, axis=0)
            # Samples that joined the pile leave the class they came from.
            left = counts[old] - np.array([len(rows) for rows in picks[self.n_new :]], float)
            rest = xp.take(sums, places, axis=0) - self._sums(picks[self.n_new :], M)
            n = placed_like(left, G)[:, None]
            parts.append((n0 * prior + rest) / (n0 + n))
            totals.append(left)
        return xp.concat(parts), np.concatenate(totals)

    def _sums(self, groups: list[np.ndarray], like: Array) -> Array:
        """Return the sum of the reserved samples of each group."""
        reserve = self.source.reserve
        assert reserve is not None
        xp = namespace(like)
        rows = np.concatenate([np.empty(0, np.intp), *groups])
        codes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        X = xp.astype(xp.take(reserve.X, placed_like(rows, reserve.X), axis=0), like.dtype)
        return sums_by_code(X, placed_like(codes, like), len(groups))


_SIDES = ("left", "right")


def _chosen(tasks: list[Task], grids: list[list[dict[str, float]]]) -> Settings:
    """Return the most cautious settings within one standard error of the best.

    Doing nothing is among the choices.
    """
    results: dict[Settings, np.ndarray] = {}

    def mean(settings: Settings) -> float:
        if settings not in results:
            results[settings] = np.array([task.measure(settings) for task in tasks])
        return float(results[settings].mean())

    point = Settings(grids[0][0]["temperature"], relief=1 / 3 if len(grids) > 2 else 1.0)
    for grid in grids:
        point = max((replace(point, **values) for values in grid), key=mean)
    mean(replace(point, weight=0.0, relief=1.0))
    best = max(results, key=mean)
    lost = {settings: results[best] - found for settings, found in results.items()}
    near = [
        settings
        for settings, loss in lost.items()
        if loss.mean() <= loss.std() / max(1, len(loss) - 1) ** 0.5
    ]
    return min(near, key=lambda settings: (settings.boldness, -mean(settings)))


def _probability_temperature(tasks: list[Task], settings: Settings) -> float | None:
    """Return the temperature of highest likelihood in the simulated tasks."""
    if not tasks or settings.weight == 0:
        return None
    folds = [(to_numpy(task.scores(settings)[0]), task.truth) for task in tasks]
    folds = [(scores, truth) for scores, truth in folds if scores.shape[1] > 1]
    return best_temperature(folds) if folds else None


def _like(values: np.ndarray, X: Array) -> Array:
    return namespace(X).astype(placed_like(np.asarray(values, np.float64), X), X.dtype)
