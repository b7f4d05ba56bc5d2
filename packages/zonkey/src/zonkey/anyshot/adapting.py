"""Learn from unlabeled samples; their weight is chosen on simulated tasks of training classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, softmax, sums_by_code, take_rows, to_numpy
from ..metrics import best_temperature
from ..parameters import is_auto
from ..persistence.checks import require_labels, require_shape, require_that
from ..persistence.container import Stored
from ..streaming.bottom_k import ranks_within
from .evidence import Evidence, Placed
from .posterior import (
    SHARE_SMOOTHING,
    SoftShots,
    class_scores,
    middle_of_rest,
    own_shares,
    posterior_centers,
    soft_shots,
)
from .refining import mean_square
from .ridges import Ridge
from .survey import KeptSamples

# From cautious to bold. A high temperature blurs classes until all centers coincide.
TEMPERATURES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
WEIGHTS = (0.125, 0.25, 0.5, 1.0)
KEPT_PENALTIES = (1.0, 2 / 3, 1 / 3, 0.0)

_USUAL_TEMPERATURE, _NAMES_TEMPERATURE = 0.01, 0.005
_STEPS = 12
_FEWEST_PER_CLASS, _MOST_PER_CLASS = 4, 64
MOST_REFINED = 256  # samples per class that refine centers after further samples
_FEWEST_CLASSES = 4  # to simulate a task with two new ones
_MOST_SAMPLES = 2**14
_SIMULATIONS = 6
_SMALL_TASK = 400  # samples; smaller tasks are simulated more often
_SMALL_SIMULATIONS = 200
_GAP = 4  # between numbers of samples that count as few and many
_MARGIN = 0.1  # by which the largest class share may exceed those of simulated tasks
_FARTHEST, _HALVINGS = 100.0, 20  # from the temperature before, and in the search for another
_HELD_OUT = 4  # of a class that keeps its samples, every fourth joins the unlabeled batch


@dataclass(frozen=True, eq=False)
class Reserve:
    """Some preprocessed samples of each class, in float32, to simulate tasks with.

    The samples of class j of `labels` are those from bounds[j] to bounds[j + 1]. `rows` are their
    positions in the X of `fit`. `priors` are those of validation classes, which have no `rows`;
    None if the samples are of classes that the model learned from.
    """

    X: Any
    labels: np.ndarray
    bounds: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    priors: Array | None

    def __zonkey_validate__(self) -> None:
        require_labels("reserve/labels", self.labels)
        m, bounds = len(self.labels), self.bounds
        require_shape("reserve/X", self.X, None, None)
        n, d = self.X.shape
        require_shape("reserve/bounds", bounds, m + 1, kinds="i")
        require_shape("reserve/weights", self.weights, n)
        require_shape("reserve/rows", self.rows, n if self.priors is None else 0, kinds="i")
        if self.priors is not None:
            require_shape("reserve/priors", self.priors, m, d)
        fits = bounds[0] == 0 and bounds[-1] == n and (np.diff(bounds) >= 0).all()
        require_that(fits, "The bounds of the reserved samples contradict their number.")

    @classmethod
    def make_empty(cls, like: Array) -> Reserve:
        """Return a reserve without samples."""
        X = namespace(like).astype(like[:0, :], namespace(like).float32)
        none = np.zeros(0, np.int64)
        return cls(X, none, np.zeros(1, np.int64), np.zeros(0), none, None)

    @classmethod
    def from_kept(
        cls,
        kept: KeptSamples,
        prepare: Callable[[Array], Array],
        labels: np.ndarray,
        priors: Array | None = None,
        *,
        refines: bool = False,
    ) -> Reserve:
        """Preprocess the first of the kept samples, at most 64 per class and 16,384 in all.

        Four times as many per class are kept if they refine centers.
        """
        usual = MOST_REFINED if refines else _MOST_PER_CLASS
        most = max(_FEWEST_PER_CLASS, min(usual, _MOST_SAMPLES // len(labels)))
        some = np.flatnonzero(ranks_within(kept.codes) < most)
        bounds = np.searchsorted(kept.codes[some], np.arange(len(labels) + 1))
        xp = namespace(kept.X)
        X = prepare(take_rows(kept.X, some))
        origin = kept.rows[some if priors is None else some[:0]].astype(np.int64)
        weights = kept.weights[some]
        return cls(xp.astype(X, xp.float32), labels, bounds, weights, origin, priors)

    def add(self, X: Array, codes: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> Reserve:
        """Return the reserve with further samples, of these classes; each class keeps the first."""
        every = np.union1d(self.labels, labels)
        own = np.repeat(self.labels, np.diff(self.bounds))
        places = np.concatenate(
            [np.searchsorted(every, own), np.searchsorted(every, labels)[codes]]
        )
        order = np.argsort(places, kind="stable")
        order = order[ranks_within(places[order]) < MOST_REFINED]
        xp = namespace(X)
        X = xp.concat([place_like(self.X, X), xp.astype(X, self.X.dtype)])
        return replace(
            self,
            X=take_rows(X, order),
            labels=every,
            bounds=np.searchsorted(places[order], np.arange(len(every) + 1)),
            weights=np.concatenate([self.weights, weights])[order],
            rows=np.concatenate([self.rows, np.full(len(codes), -1)])[order],
        )

    def list_samples(self, labels: np.ndarray) -> tuple[Array, np.ndarray, np.ndarray]:
        """Return samples of some classes, the positions of these among the labels, and weights."""
        of_sample = np.repeat(self.labels, np.diff(self.bounds))
        rows = np.flatnonzero(np.isin(of_sample, labels))
        X = take_rows(self.X, rows)
        return X, np.searchsorted(labels, of_sample[rows]), self.weights[rows]

    def read(self) -> Reserve:
        """Return the reserve with its samples, which may still be in a file."""
        return replace(self, X=self.X.read()) if isinstance(self.X, Stored) else self

    def places(self, label: Any) -> np.ndarray:
        """Return the positions of the samples of a class, none if it was added after `fit`."""
        j = min(int(np.searchsorted(self.labels, label)), len(self.labels) - 1)
        if self.labels[j] != label:
            return np.arange(0)
        return np.arange(self.bounds[j], self.bounds[j + 1])


@dataclass(frozen=True, eq=False)
class Adapted:
    """Centers and offsets of classes after unlabeled samples.

    `chosen` are the parameters in use; `temperature` is for probabilities.
    """

    labels: np.ndarray
    centers: Array
    offsets: Array
    chosen: dict[str, float]
    temperature: float | None
    bonus: Any = None  # part of the offsets that is due to estimated shares of classes

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Fill in what older files do not have."""
        return {"bonus": None, **parts}

    def __zonkey_validate__(self) -> None:
        require_labels("adapted/labels", self.labels)
        if self.bonus is not None:
            require_shape("adapted/bonus", self.bonus, len(self.labels))
        require_shape("adapted/centers", self.centers, len(self.labels), None)
        require_shape("adapted/offsets", self.offsets, len(self.labels))

    def apply(self, labels: np.ndarray, centers: Array, offsets: Array) -> tuple[Array, Array]:
        """Return the centers and offsets of some classes, those that were adapted replaced."""
        xp = namespace(centers)
        places = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        is_here = place_like(self.labels[places] == labels, centers)
        moved, shifted = take_rows(self.centers, places), take_rows(self.offsets, places)
        return xp.where(is_here[:, None], moved, centers), xp.where(is_here, shifted, offsets)

    def drop_bonus(self) -> Adapted:
        """Return the same without the bonus of classes that were frequent among the samples."""
        if self.bonus is None:
            return self
        return replace(self, offsets=self.offsets + self.bonus, bonus=None)


@dataclass(frozen=True)
class Settings:
    """Strength of unlabeled samples."""

    temperature: float  # divisor of the scores
    weight: float = 1.0  # of an unlabeled sample
    # Share of the penalty of classes with samples that stays: once unlabeled samples support the
    # other classes too, less of it is needed.
    kept_penalty: float = 1.0


@dataclass(frozen=True, eq=False)
class AdaptTask:
    """Centers and unlabeled samples, with the true classes if the task is simulated."""

    X: Array
    centers: Array
    counts: Array
    prior_worth: Array
    penalties: Array
    truth: np.ndarray | None = None
    is_old: np.ndarray | None = None
    shift: bool = False
    shares: Array | None = None  # known ones of the classes; None: they are estimated

    def scores(self, settings: Settings) -> tuple[Array, SoftShots | None]:
        """Return the scores after adaptation, and what was learned."""
        if settings.weight == 0:
            return class_scores(self.X, self.centers, self.penalties), None
        offsets = settings.kept_penalty * self.penalties
        shots = soft_shots(
            self.X,
            self.centers,
            self.counts + self.prior_worth,
            offsets=offsets,
            temperature=settings.temperature,
            weight=settings.weight,
            smoothing=SHARE_SMOOTHING,
            n_steps=_STEPS,
            shift=self.shift,
            fixed=self.shares,
        )
        offsets = offsets - self.bonus(shots, settings)
        return class_scores(self.X, shots.centers, offsets), shots

    @staticmethod
    def bonus(shots: SoftShots, settings: Settings) -> Array:
        """Return the bonus of frequent classes: the temperature times their log proportion."""
        xp = namespace(shots.shares)
        return settings.temperature * xp.log(shots.shares * shots.shares.shape[0])

    def largest_share(self) -> float:
        """Return the share of samples initially assigned to the largest class."""
        scores = class_scores(self.X, self.centers, self.penalties)
        predicted = to_numpy(namespace(scores).argmax(scores, axis=1))
        return float(np.bincount(predicted).max()) / len(predicted)

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

    `ridge` is the fitted regression, None if it has no classes. `placed` are the prototypes among
    the samples, None in separate spaces; `trust` is the factor of what the regression predicts,
    `temperature` that of the candidates, and `shares` are known ones of these.
    """

    evidence: Evidence
    candidates: np.ndarray
    centers: Array
    penalties: np.ndarray
    ridge: Ridge | None
    prior_worth: float
    reserve: Reserve | None
    placed: Placed | None = None
    trust: float = 1.0
    temperature: float = 1.0
    shares: np.ndarray | None = None

    def run(self, X: Array, *, temperature: Any, weight: Any, seed: int) -> Adapted:
        """Choose settings that are "auto", and learn from the rows of X."""
        xp = namespace(X)
        counts = self.evidence.counts[self.candidates]
        described = self.evidence.is_described[self.candidates]
        task = AdaptTask(
            X,
            xp.astype(self.centers, X.dtype),
            _place_as(counts, X),
            _place_as(np.where(described, self.prior_worth, 0.0), X),
            _place_as(self.penalties, X),
            shift=self.evidence.is_transferred,
            shares=None if self.shares is None else _place_as(self.shares, X),
        )
        settings, tasks = Settings(1.0, weight=0.0), []
        if not is_auto(temperature) and not is_auto(weight):
            settings = Settings(float(temperature), float(weight))
        elif weight != 0:
            tasks = self._simulate(X, np.random.default_rng(seed))
            # The choice does not transfer to batches dominated by one class.
            most = max((each.largest_share() for each in tasks), default=0.0) + _MARGIN
            if tasks and task.largest_share() <= most:
                settings = _choose_settings(tasks, self._grids(X, temperature, weight))
            elif not tasks and not is_auto(weight):  # the user insists
                settings = Settings(mean_square(X) * _USUAL_TEMPERATURE, float(weight))
            elif not self.evidence.counts.any():  # names in the space of the samples
                usual = mean_square(X) * _NAMES_TEMPERATURE
                settings = Settings(usual if is_auto(temperature) else float(temperature))
        _, shots = task.scores(settings)
        labels = self.evidence.labels[self.candidates]
        used = {"adapt_weight": settings.weight}
        if settings.weight:
            used["adapt_temperature"] = settings.temperature
        fitted = _probability_temperature(tasks, settings)
        if fitted is None and shots is not None:
            before = class_scores(X, task.centers, task.penalties)
            fitted = _keep_confidence(before, task.scores(settings)[0], self.temperature)
        offsets = place_like(self.penalties, self.centers)
        if shots is None:
            return Adapted(labels, self.centers, offsets, used, None)
        bonus = xp.astype(task.bonus(shots, settings), offsets.dtype)
        centers = xp.astype(shots.centers, self.centers.dtype)
        offsets = settings.kept_penalty * offsets - bonus
        return Adapted(labels, centers, offsets, used, fitted, bonus)

    def _grids(self, X: Array, temperature: Any, weight: Any) -> list[list[dict[str, float]]]:
        """Return the grids, which are searched one after the other."""
        scale = mean_square(X)
        first = [t * scale for t in TEMPERATURES] if is_auto(temperature) else [float(temperature)]
        second = WEIGHTS if is_auto(weight) else (float(weight),)
        grids = [
            [{"temperature": t} for t in first],
            [{"weight": value} for value in second],
        ]
        if self._is_new().any() and not self._is_new().all():
            grids.insert(1, [{"kept_penalty": value} for value in KEPT_PENALTIES])
        return grids

    def _is_new(self) -> np.ndarray:
        """Separate candidates with few samples from those with many, if there are both."""
        counts = 1 + self.evidence.counts[self.candidates]
        if counts.max() < _GAP * counts.min():
            return np.ones(len(counts), bool)
        return counts <= np.sqrt(counts.min() * counts.max())

    def _simulate(self, X: Array, rng: np.random.Generator) -> list[AdaptTask]:
        """Return tasks of training classes that resemble the task at hand."""
        reserve, is_new = self.reserve, self._is_new()
        if reserve is None or self.ridge is None:
            return []
        apart = reserve.priors is not None  # validation classes: all may be new
        anchors = reserve.labels if apart else self.evidence.anchors
        if len(anchors) < _FEWEST_CLASSES:
            return []
        n_new = min(int(is_new.sum()), len(anchors) if apart else len(anchors) // 2)
        n_old = 0 if apart else min(int((~is_new).sum()), len(anchors) - n_new)
        shots = round(float(np.median(self.evidence.counts[self.candidates][is_new])))
        per_class = X.shape[0] / len(self.candidates)
        penalty = float(np.mean(self.penalties[~is_new])) if n_old else 0.0
        means = self.evidence.anchor_means()
        simulation = _Simulation(self, anchors, means, n_new, n_old, shots, per_class, penalty)
        n_tasks = _SIMULATIONS if X.shape[0] > _SMALL_TASK else _SMALL_SIMULATIONS
        return [task for task in (simulation.draw(rng) for _ in range(n_tasks)) if task]


@dataclass(frozen=True, eq=False)
class _Simulation:
    """Tasks with `n_new` held-out classes of `shots` samples, and `n_old` other classes."""

    source: Adapting
    anchors: np.ndarray
    means: Array  # of the classes that the model learned from
    n_new: int
    n_old: int
    shots: int
    per_class: float
    penalty: float

    def draw(self, rng: np.random.Generator) -> AdaptTask | None:
        """Return a task, or None if the classes have too few samples for one."""
        source, reserve = self.source, self.source.reserve
        assert reserve is not None
        order = rng.permutation(len(self.anchors))
        new, old = order[: self.n_new], np.sort(order[self.n_new : self.n_new + self.n_old])
        # Class shares of an unlabeled batch are never equal; a symmetric Dirichlet(2) is far from
        # it.
        shares = rng.dirichlet(np.full(self.n_new + self.n_old, 2.0)) * (self.n_new + self.n_old)
        picks, truth, shot_rows = [], [], []
        for place, j in enumerate([*new, *old]):
            rows = rng.permutation(reserve.places(self.anchors[j]))
            n_shots = min(self.shots, len(rows) // 2) if place < self.n_new else 0
            size = max(1, round(self.per_class * shares[place]))
            size = min(size, len(rows) - n_shots)
            if place >= self.n_new:
                size = min(size, len(rows) // _HELD_OUT)
            shot_rows.append(rows[:n_shots])
            picks.append(rows[n_shots : n_shots + size])
            truth.append(np.full(size, place))
        batch, truth = np.concatenate(picks), np.concatenate(truth)
        if not len(batch):
            return None
        xp = namespace(reserve.X)
        X = take_rows(reserve.X, batch)
        centers, counts = self._centers(new, old, shot_rows, picks)
        is_old = np.arange(len(counts)) >= self.n_new
        penalties = np.where(is_old, self.penalty, 0.0)
        worth = np.full(len(is_old), source.prior_worth)
        return AdaptTask(
            X,
            xp.astype(centers, X.dtype),
            _place_as(counts, X),
            _place_as(worth, X),
            _place_as(penalties, X),
            truth,
            is_old,
            source.evidence.is_transferred,
        )

    def _centers(
        self,
        new: np.ndarray,
        old: np.ndarray,
        shot_rows: list[np.ndarray],
        picks: list[np.ndarray],
    ) -> tuple[Array, np.ndarray]:
        """Return the centers of new and old classes, and the samples behind them."""
        source, n0 = self.source, self.source.prior_worth
        evidence, reserve = source.evidence, source.reserve
        assert reserve is not None
        xp, M = namespace(self.means), self.means
        if reserve.priors is None:
            prior, prior_of_old = self._predict(new, old)
        else:
            prior, prior_of_old = take_rows(reserve.priors, new), None
        n_shots = np.array([reserve.weights[rows].sum() for rows in shot_rows[: self.n_new]])
        gained = self._sums(shot_rows[: self.n_new], M)
        parts, totals = [posterior_centers(prior, gained, place_like(n_shots, M), n0)], [n_shots]
        if prior_of_old is not None and len(old):
            counts = evidence.counts[evidence.is_anchor][old]
            # Samples that joined the batch leave the class they came from.
            left = counts - [reserve.weights[rows].sum() for rows in picks[self.n_new :]]
            sums = take_rows(M, old) * place_like(counts, M)[:, None]
            rest = sums - self._sums(picks[self.n_new :], M)
            parts.append(posterior_centers(prior_of_old, rest, place_like(left, M), n0))
            totals.append(left)
        return xp.concat(parts), np.concatenate(totals)

    def _predict(self, new: np.ndarray, old: np.ndarray) -> tuple[Array, Array]:
        """Return the priors of new classes from the rest, and of old ones each from the rest."""
        ridge, placed, M = self.source.ridge, self.source.placed, self.means
        trust = self.source.trust
        assert ridge is not None
        evidence, xp = self.source.evidence, namespace(M)
        own = xp.zeros_like(M) if placed is None else evidence.take_anchors(placed.priors)
        missed, counts = M - own, evidence.counts[evidence.is_anchor]
        ones = xp.ones_like(M[:, :1])
        found = ridge.predict_held_out(new, old, xp.concat([missed, ones], axis=1))
        middle = middle_of_rest(missed, counts, new)[None, :]
        first, second = (part[:, :-1] + (1 - part[:, -1:]) * middle for part in found)
        shares = place_like(own_shares(missed, counts, new)[old], M)
        second = second + found[1][:, -1:] * shares[:, None] * (take_rows(missed, old) - middle)
        return take_rows(own, new) + trust * first, take_rows(own, old) + trust * second

    def _sums(self, groups: list[np.ndarray], like: Array) -> Array:
        """Return the sum of the reserved samples of each group."""
        reserve = self.source.reserve
        assert reserve is not None
        xp = namespace(like)
        rows = np.concatenate([np.empty(0, np.intp), *groups])
        codes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        X = xp.astype(take_rows(reserve.X, rows), like.dtype)
        weights = xp.astype(place_like(reserve.weights[rows], like), like.dtype)
        return sums_by_code(X, place_like(codes, like), len(groups), weights)


def _choose_settings(tasks: list[AdaptTask], grids: list[list[dict[str, float]]]) -> Settings:
    """Search the grids one after the other, each from the settings so far.

    Values of a grid go from cautious to bold: the first one within a standard error of the best is
    taken. Doing nothing is the most cautious of all.
    """
    results: dict[Settings, np.ndarray] = {}

    def measure_all(settings: Settings) -> np.ndarray:
        if settings not in results:
            results[settings] = np.array([task.measure(settings) for task in tasks])
        return results[settings]

    def find_first_good(points: list[Settings]) -> Settings:
        best = max(points, key=lambda point: measure_all(point).mean())
        for point in points:
            loss = measure_all(best) - measure_all(point)
            if loss.mean() <= loss.std() / max(1, len(loss) - 1) ** 0.5:
                return point
        return best

    kept_penalty = 1 / 3 if len(grids) > 2 else 1.0
    point = Settings(grids[0][0]["temperature"], grids[-1][-1]["weight"], kept_penalty)
    for grid in grids:
        point = find_first_good([replace(point, **values) for values in grid])
    if len(grids[-1]) == 1:  # the user chose the weight
        return point
    return find_first_good([replace(point, weight=0.0, kept_penalty=1.0), point])


def _probability_temperature(tasks: list[AdaptTask], settings: Settings) -> float | None:
    """Return the temperature of highest likelihood in the simulated tasks."""
    if not tasks or settings.weight == 0:
        return None
    folds: list[Any] = [(to_numpy(task.scores(settings)[0]), task.truth) for task in tasks]
    folds = [fold for fold in folds if fold[0].shape[1] > 1]
    return best_temperature(folds) if folds else None


def _keep_confidence(before: Array, after: Array, temperature: float) -> float:
    """Return the temperature under which the mean top probability stays what it was.

    Without simulated tasks nothing tells how often the moved centers are right, and scores of
    samples that moved them are higher than those of others.
    """

    def find_confidence(scores: Array, T: float) -> float:
        xp = namespace(scores)
        return float(xp.mean(xp.max(softmax(scores / T), axis=1)))

    wanted = find_confidence(before, temperature)
    low, high = temperature / _FARTHEST, temperature * _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if find_confidence(after, middle) > wanted else (low, middle)
    return (low * high) ** 0.5


def _place_as(values: np.ndarray, X: Array) -> Array:
    return namespace(X).astype(place_like(np.asarray(values, np.float64), X), X.dtype)
