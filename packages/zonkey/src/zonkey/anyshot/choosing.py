"""Choose the parameters of `AnyShotClassifier` on held-out training classes, without refits.

Whole classes are held out in random folds, several partitions of them, and predicted from the
others in closed form (`core.posterior`). One eigendecomposition of the within-class covariance
serves all shrinkages, one of the kernel all ridges. Samples enter through their products with class
means only. A quarter of the samples never takes part in means or whitening: these represent new
samples of seen classes.

The grids are searched one after the other, each from the best point so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..arrays import Array, namespace, place_like, to_numpy
from ..bpl.kernels import PrototypeKernel
from ..metrics import best_temperature
from ..persistence.checks import require_number
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from .held_out import Fold, TrainingData, View, class_folds, draw_shots, fold_of, n_partitions
from .posterior import (
    KernelRidge,
    class_scores,
    held_out_weights,
    inverse_without,
    left_out_weights,
    posterior_centers,
    worth_of_prior,
)
from .refining import Refinement

POWERS = (0.5, 1.0)
SHRINKAGES = (0.25, 1.0, 4.0, 16.0)
PROTOTYPE_POWERS = (0.5, 0.7, 1.0)
PROTOTYPE_NORMS = ("l2", None)
GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0)
RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Of joint spaces, whose geometry carries meaning: little whitening, and a cautious correction.
JOINT_SHRINKAGES = (64.0, 1024.0)
JOINT_RIDGES = (0.3, 1.0, 3.0, 10.0, 100.0)

_SHORTLIST = 4  # points of highest accuracy among which the harmonic mean decides
_ROUNDS = 2
_DECIMALS = 6
_PENALTIES = 201  # evenly spaced quantiles of the margins
DEFAULT_WORTH = 8.0
_MOST_SCORED = 1000  # samples per fold whose likelihood chooses the temperature


def preprocessing(power: float = 0.5, shrinkage: float = 4.0) -> Pipeline:
    """Return unfitted steps: power, center, unit length, within-class whitening, unit length."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=power, center=True)),
            ("whiten", WithinClassWhitener(shrinkage)),
            ("unit", FeatureNormalizer()),
        ]
    )


def prototype_transformer(power: float = 0.7, norm: str | None = "l2") -> FeatureNormalizer:
    """Return the unfitted transformer of prototypes: power, center, unit length."""
    return FeatureNormalizer(power=power, center=True, norm=norm)


@dataclass(frozen=True)
class Point:
    """A point of the grids; None where the user gave the transformer."""

    power: float | None = 0.5
    shrinkage: float | None = 4.0
    prototype_power: float | None = 0.7
    prototype_norm: str | None = "l2"
    kernel: str = "rbf"
    gamma: float = 0.5
    ridge: float = 0.03


@dataclass(frozen=True)
class Temperatures:
    """Temperatures among classes without samples, with many, and both together."""

    new: float = 1.0
    old: float = 1.0
    all: float = 1.0

    def __zonkey_validate__(self) -> None:
        for name in ("new", "old", "all"):
            require_number(name, getattr(self, name), np.finfo(float).tiny)


@dataclass(frozen=True)
class Choice:
    """All chosen parameters, and the score on held-out classes (NaN if nothing was chosen).

    `penalty` is the mean over classes with samples.
    """

    point: Point
    worth: float
    penalty: float = 0.0
    temperatures: Temperatures = Temperatures()
    within: float = float("nan")  # variance within classes
    score: float = float("nan")
    refinement: Refinement | None = None  # None: not chosen by shots

    @property
    def worth_in_use(self) -> float:
        """Number of samples that a prototype is worth."""
        return self.worth if self.refinement is None else self.refinement.worth

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Fill in what older files do not have."""
        return {"refinement": None, **parts}

    def __zonkey_validate__(self) -> None:
        require_number("worth", self.worth, 0)
        require_number("penalty", self.penalty)


JOINT_START = Point(1.0, 64.0, 1.0, "l2", "linear", 1.0, 1.0)


def steps_of(point: Point, fixed: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `fit` that a point denotes; `fixed` are those the user gave."""
    names = ("preprocessing", "prototype_transformer")
    steps = {name: fixed[name] for name in names if name in fixed}
    if point.power is not None and point.shrinkage is not None:
        steps["preprocessing"] = preprocessing(point.power, point.shrinkage)
    if point.prototype_power is not None:
        form = prototype_transformer(point.prototype_power, point.prototype_norm)
        steps["prototype_transformer"] = form
    return {**steps, "kernel": point.kernel, "gamma": point.gamma, "ridge": point.ridge}


def learn_kernel(Y: np.ndarray, steps: dict[str, Any]) -> tuple[np.ndarray, Any, PrototypeKernel]:
    """Return transformed prototypes, the fitted transformer (or None) and the kernel of them."""
    transformer: Any = steps["prototype_transformer"]
    if transformer is not None:
        transformer = clone(transformer)
        transformer.fit(Y)
        Y = np.asarray(transformer.transform(Y))
    return Y, transformer, PrototypeKernel.from_vectors(Y, steps["kernel"], steps["gamma"])


class Choosing:
    """The search over the grids for one set of samples.

    Parameters
    ----------
    data : TrainingData
        Samples and prototypes.
    fixed : dict
        Values of parameters that the user gave: "preprocessing" and "prototype_transformer" as
        transformers or None, "kernel", "gamma", "ridge", "worth", "seen_penalty".
    n_unseen : int
        Number of classes without samples: folds hold out about the same share.
    by_hm : bool
        Whether the harmonic mean counts, else the accuracy among held-out classes.
    n_shots : int
        Samples that each held-out class has.
    seed : int
        Seed of the folds.
    """

    def __init__(
        self,
        data: TrainingData,
        fixed: dict[str, Any],
        *,
        n_unseen: int,
        by_hm: bool,
        n_shots: int,
        seed: int,
    ) -> None:
        self.data = data
        self.fixed = fixed
        self.by_hm = by_hm
        self.n_shots = n_shots
        self.draws = draw_shots(data, n_shots, n_partitions(data))
        folds = class_folds(data, self.draws, n_unseen=n_unseen, seed=seed)
        if fixed.get("worth") == 0:  # without prototypes only new samples can be scored
            folds = [fold_of(data, np.arange(0), self.draws[0], 0, 0)]
        self.folds = list(folds)
        self._views: dict[Any, View] = {}
        self._viewed: Any = None
        self._preparing = data.prepare()
        self._ridges: dict[Any, tuple[KernelRidge, Array | None]] = {}
        self._scores: dict[tuple[Point, str], float] = {}
        self._worths: dict[Any, float] = {}
        self._last: Any = None

    def run(self) -> Choice:
        """Search the grids, then compute worth, penalty and temperatures at the best point."""
        point = self.start(self.fixed, joint=self.is_joint)
        rounds = _ROUNDS if any(len(fold.held) > 1 for fold in self.folds) else 0
        for _ in range(rounds):
            before = point
            for grid in self._grids():
                point = self._best([point, *(replace(point, **values) for values in grid)])
            if point == before:
                break
        return self._measure(point)

    def _best(self, points: list[Point]) -> Point:
        """Return the best point; the harmonic mean decides between those of highest accuracy.

        Whitening fits the samples that it is learned from. So only samples that it has not seen can
        compare preprocessings; under one preprocessing, all samples are used.
        """
        same = len({(point.power, point.shrinkage) for point in points}) == 1
        points = list(dict.fromkeys(points))
        which = "every" if same else "new"
        ranked = sorted(points, key=lambda point: -self.accuracy(point, which))
        if not self.by_hm:
            return ranked[0]
        return max(ranked[:_SHORTLIST], key=self.harmonic_mean)

    def accuracy(self, point: Point, which: str = "new") -> float:
        """Return the accuracy among held-out classes, mean over the folds."""
        key = (point, which)
        if key not in self._scores:
            found = [self._accuracy(point, fold, which) for fold in self.folds]
            self._scores[key] = float(np.mean(found))
        return self._scores[key]

    @property
    def is_joint(self) -> bool:
        """Whether samples and prototypes share a space."""
        return self.data.placed is not None

    def harmonic_mean(self, point: Point) -> float:
        """Return the harmonic mean of accuracies of new and old classes."""
        key = (point, "hm")
        if key not in self._scores:
            outcomes = [self._outcome(point, fold) for fold in self.folds if len(fold.old)]
            found = best_harmonic_mean(outcomes)[0] if outcomes else self.accuracy(point)
            self._scores[key] = found
        return self._scores[key]

    @staticmethod
    def start(fixed: dict[str, Any], *, joint: bool = False) -> Point:
        """Return the point that the search starts from, with what the user gave."""
        point = JOINT_START if joint else Point()
        if "preprocessing" in fixed:
            point = replace(point, power=None, shrinkage=None)
        if "prototype_transformer" in fixed:
            point = replace(point, prototype_power=None, prototype_norm=None)
        names = ("kernel", "gamma", "ridge")
        return replace(point, **{name: fixed[name] for name in names if name in fixed})

    def _grids(self) -> list[list[dict[str, Any]]]:
        """Return the grids of kernels, features and prototypes, without what the user gave."""
        given, joint = self.fixed, self.is_joint
        kernels: list[dict[str, Any]] = []
        usual = ("linear",) if joint else ("rbf", "linear")
        for kernel in (given["kernel"],) if "kernel" in given else usual:
            has_width = kernel in ("rbf", "poly")
            gammas = (given["gamma"],) if "gamma" in given else GAMMAS
            ridges = JOINT_RIDGES if joint else RIDGES
            ridges = (given["ridge"],) if "ridge" in given else ridges
            widths = gammas if has_width else gammas[:1]
            kernels += [
                {"kernel": kernel, "gamma": gamma, "ridge": ridge}
                for gamma, ridge in product(widths, ridges)
            ]
        grids = []
        if "preprocessing" not in given:
            shrinkages = JOINT_SHRINKAGES if joint else SHRINKAGES
            grids.append([{"shrinkage": value} for value in shrinkages])
            if not joint:
                grids.append([{"power": value} for value in POWERS])
        grids.append(kernels)
        if "prototype_transformer" not in given and not joint:
            forms = product(PROTOTYPE_POWERS, PROTOTYPE_NORMS)
            grids.append([{"prototype_power": a, "prototype_norm": b} for a, b in forms])
        return grids

    def _view(self, point: Point) -> View:
        """Return the samples under a preprocessing."""
        key = (point.power, point.shrinkage)
        if key not in self._views:
            X, placed = self._preprocess(point)
            draws = self.draws if self.n_shots else []
            self._views[key] = View.from_samples(X, self.data, draws, placed)
        if key != self._viewed:  # the samples of folds are copies: keep those in use
            if self._viewed in self._views:
                self._views[self._viewed].forget()
            self._viewed = key
        return self._views[key]

    def _preprocess(self, point: Point) -> tuple[Array, Array | None]:
        """Preprocess all samples, and the prototypes among them, without held-out samples."""
        if point.power is None:
            X = self._preparing.apply(self.fixed["preprocessing"])
        else:
            X = self._preparing.whiten(point.power, point.shrinkage or 0.0)
        n = len(self.data.codes)
        return X[:n, :], None if self.data.placed is None else X[n:, :]

    def _regression(self, point: Point) -> tuple[KernelRidge, Array | None]:
        """Return the regression under a kernel, and the kernel of validation classes."""
        key = (point.prototype_power, point.prototype_norm, point.kernel, point.gamma)
        if key not in self._ridges:
            data, view = self.data, self._view(point)
            Y, _, kernel = learn_kernel(data.prototypes, steps_of(point, self.fixed))
            train, rest = np.split(data.classes, [data.n_train])
            like = namespace(view.means).astype(view.means[:1, :1], namespace(view.means).float64)
            K = kernel.compare(place_like(Y[train], like), place_like(Y[train], like), train)
            K_rest = None
            if len(rest):
                K_rest = kernel.compare(
                    place_like(Y[rest], like), place_like(Y[train], like), train
                )
            self._ridges[key] = (KernelRidge(K, view.counts), K_rest)
        return self._ridges[key]

    def _weights(self, point: Point, fold: Fold) -> tuple[Array, Array]:
        """Return the weights that predict the held-out classes, and G of all classes."""
        ridge, K_rest = self._regression(point)
        G = self._inverse(ridge, point)
        if not len(fold.held):
            return G[:0, :], G
        if K_rest is not None:
            return K_rest @ G, G
        return held_out_weights(G, place_like(fold.held, G)), G

    def _inverse(self, ridge: KernelRidge, point: Point) -> Array:
        """Return G; the last one is cached, because all folds need it."""
        if self._last is None or self._last[0] != (id(ridge), point.ridge):
            self._last = ((id(ridge), point.ridge), ridge.inverse(point.ridge))
        return self._last[1]

    def _worth(self, point: Point) -> float:
        """Return n0 from the squared error of the priors of held-out classes."""
        if "worth" in self.fixed:
            return float(self.fixed["worth"])
        view = self._view(point)
        within, errors = [], []
        for fold in (fold for fold in self.folds if fold.draw == 0):
            weights, _ = self._weights(point, fold)
            variance = view.mean_variance(fold.held)
            within.append(variance)
            errors.append(self._mean_distance(view, fold, weights) - variance)
        if not np.isfinite(within).any():
            return DEFAULT_WORTH
        return worth_of_prior(float(np.nanmean(within)), float(np.nanmean(errors)))

    def _mean_distance(self, view: View, fold: Fold, weights: Array) -> float:
        """Return the mean squared distance of samples from the prior of their held-out class."""
        centers, X = view.predict_held(weights, fold), view.take(fold, "new")
        own = np.searchsorted(fold.held, self.data.codes[fold.new])
        of_own = namespace(centers).take(centers, place_like(own, centers), axis=0)
        closeness = to_numpy(namespace(X).sum((2 * X - of_own) * of_own, axis=1))
        distances = view.squares[fold.new] - closeness
        return float(np.average(distances, weights=self._balance_weights(fold.new)))

    def _new_scores(
        self, view: View, fold: Fold, which: str, weights: Array, worth: float
    ) -> Array:
        """Return the scores of samples among the held-out classes."""
        centers = view.predict_held(weights, fold)
        if self.n_shots:
            held, xp = place_like(fold.held, centers), namespace(centers)
            sums, n = (xp.take(part, held, axis=0) for part in view.shots[fold.draw])
            centers = posterior_centers(centers, sums, n, worth)
        return _scores(view.take(fold, which), centers)

    def _old_scores(self, view: View, fold: Fold, G: Array, weights: Array, worth: float) -> Array:
        """Return the scores of "rows" of a fold among the classes that are learned from."""
        if len(fold.held) and int(fold.held.max()) < self.data.n_train:
            G = inverse_without(G, place_like(fold.held, G), weights)
        prior = view.predict_rest(left_out_weights(G), fold)
        counts = self.data.place(view.counts)
        centers = posterior_centers(prior, counts[:, None] * view.means, counts, worth)
        scores = _scores(view.take(fold, "rows"), centers)
        is_out = place_like(np.isin(np.arange(self.data.n_train), fold.held), scores)
        xp = namespace(scores)
        return xp.where(is_out[None, :], xp.full_like(scores, -xp.inf), scores)

    def _accuracy(self, point: Point, fold: Fold, which: str) -> float:
        """Return the accuracy of samples of a fold among its held-out classes."""
        view, rows = self._view(point), getattr(fold, which)
        worth = self._rough_worth(point) if self.n_shots else 0.0
        scores = self._new_scores(view, fold, which, self._weights(point, fold)[0], worth)
        predicted = fold.held[to_numpy(namespace(scores).argmax(scores, axis=1))]
        return float(self._balance_weights(rows) @ (predicted == self.data.codes[rows]))

    def _outcome(self, point: Point, fold: Fold) -> Outcome:
        """Return the predictions of one fold among seen and unseen classes."""
        view, codes = self._view(point), self.data.codes[fold.rows]
        weights, G = self._weights(point, fold)
        worth = self._rough_worth(point)
        among_new = self._new_scores(view, fold, "rows", weights, worth)
        among_old = self._old_scores(view, fold, G, weights, worth)
        xp = namespace(among_new)
        right_new = fold.held[to_numpy(xp.argmax(among_new, axis=1))] == codes
        right_old = to_numpy(xp.argmax(among_old, axis=1)) == codes
        margins = to_numpy(xp.max(among_old, axis=1) - xp.max(among_new, axis=1))
        n_new = len(fold.new)
        of_new, of_old = np.zeros((2, len(codes)))
        of_new[:n_new] = self._balance_weights(fold.new) * right_new[:n_new]
        of_old[n_new:] = self._balance_weights(fold.old) * right_old[n_new:]
        return Outcome(margins, of_new, of_old)

    def _rough_worth(self, point: Point) -> float:
        """Return n0 at the preprocessing of a point; kernel and ridge have less influence."""
        key = (point.power, point.shrinkage)
        if key not in self._worths:
            self._worths[key] = self._worth(point)
        return self._worths[key]

    def _balance_weights(self, rows: np.ndarray) -> np.ndarray:
        """Return weights of samples that sum to 1, and to the same for every class."""
        codes, weights = self.data.codes[rows], self.data.weights[rows]
        totals = np.bincount(codes, weights=weights, minlength=1)
        return weights / totals[codes] / max(1, np.count_nonzero(totals))

    def _measure(self, point: Point) -> Choice:
        """Return worth, penalty and temperatures at the chosen point."""
        worth = self._worth(point)
        self._worths[point.power, point.shrinkage] = worth
        score, penalty = float("nan"), 0.0
        of_old = [fold for fold in self.folds if len(fold.old)]
        if any(len(fold.held) > 1 for fold in self.folds):
            score = self.harmonic_mean(point) if self.by_hm else self.accuracy(point)
            if of_old:
                outcomes = [self._outcome(point, fold) for fold in of_old]
                penalty = best_harmonic_mean(outcomes)[1]
        if "seen_penalty" in self.fixed:
            counts = self._view(point).counts
            penalty = self.fixed["seen_penalty"] * float(np.mean(counts / (counts + worth)))
        temperatures = self._temperatures(point, worth, penalty)
        held = np.concatenate([np.arange(0), *(fold.held for fold in self.folds)])
        within = self._view(point).mean_variance(np.unique(held))
        worth, penalty, within = (_round_digits(value) for value in (worth, penalty, within))
        return Choice(point, worth, penalty, temperatures, within, score)

    def _temperatures(self, point: Point, worth: float, penalty: float) -> Temperatures:
        """Return the temperatures of highest likelihood among new, old and all classes."""
        view, data = self._view(point), self.data
        everything = np.arange(data.n_train)
        folds: dict[str, list[Any]] = {"new": [], "old": [], "all": []}
        for fold in self.folds:
            weights, G = self._weights(point, fold)
            new = self._new_scores(view, fold, "rows", weights, worth)
            n_new, kept = len(fold.new), np.setdiff1d(everything, fold.held)
            codes = data.codes[fold.rows]
            if len(fold.held) > 1:
                truth = np.searchsorted(fold.held, codes[:n_new])
                folds["new"].append(
                    _thin_samples(new[:n_new, :], truth, self._balance_weights(fold.new))
                )
            if not len(fold.old) or len(kept) < 2:
                continue
            old = self._old_scores(view, fold, G, weights, worth)
            xp = namespace(old)
            old = xp.take(old, place_like(kept, old), axis=1)
            truth = np.searchsorted(kept, codes[n_new:])
            shares = self._balance_weights(fold.old)
            folds["old"].append(_thin_samples(old[n_new:, :], truth, shares))
            if len(fold.held) > 1:
                both = xp.concat([new, old - penalty], axis=1)
                places = np.searchsorted(fold.held, codes[:n_new]), len(fold.held) + truth
                balanced = np.concatenate([self._balance_weights(fold.new), shares])
                folds["all"].append(_thin_samples(both, np.concatenate(places), balanced))
        spread = view.mean_variance(np.arange(len(data.classes)))
        # Two classes with equal round covariances have log odds of scores over this.
        fallback = 2 * spread / view.n_features if spread > 0 else 1.0
        found = {name: _temperature(parts, fallback) for name, parts in folds.items() if parts}
        default = next(iter(found.values()), fallback)
        return Temperatures(**{name: _round_digits(found.get(name, default)) for name in folds})


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of one fold among seen and unseen classes.

    Attributes
    ----------
    margins : ndarray
        Best score of old classes less that of new ones, for each sample.
    of_new, of_old : ndarray
        Contribution of each sample to the accuracies of new and of old classes if it is assigned to
        one of them.
    """

    margins: np.ndarray
    of_new: np.ndarray
    of_old: np.ndarray


def best_harmonic_mean(outcomes: list[Outcome]) -> tuple[float, float]:
    """Return the highest harmonic mean over folds, and the penalty of old classes that gives it."""
    pooled = np.concatenate([outcome.margins for outcome in outcomes])
    # Distinct values, so that copies of a sample do not shift the grid.
    distinct = np.unique(np.round(pooled.astype(np.float64), _DECIMALS))
    penalties = np.unique(np.quantile(distinct, np.linspace(0, 1, _PENALTIES)))
    total = np.zeros(len(penalties))
    for outcome in outcomes:
        order = np.argsort(outcome.margins)
        place = np.searchsorted(outcome.margins[order], penalties, side="right")
        new = np.concatenate([[0.0], np.cumsum(outcome.of_new[order])])[place]
        old = np.concatenate([[0.0], np.cumsum(outcome.of_old[order])])
        old = old[-1] - old[place]
        total += 2 * new * old / np.maximum(new + old, 1e-12)
    total /= len(outcomes)
    # A plateau of equal means has its middle as the most stable choice.
    best = np.flatnonzero(total >= total.max() - 1e-12)
    return float(total.max()), float(penalties[best[len(best) // 2]])


def _scores(X: Array, centers: Array) -> Array:
    """Return the scores of samples, the higher the nearer the center."""
    return class_scores(X, centers, namespace(centers).zeros_like(centers[:, 0]))


def _round_digits(value: float) -> float:
    """Return four digits: the others are rounding errors of float32, not information."""
    return float(f"{value:.4g}")


def _thin_samples(
    scores: Array, codes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return evenly spaced samples on the host, few enough to find a temperature quickly."""
    some = slice(None, None, 1 + len(codes) // _MOST_SCORED)
    return to_numpy(scores[some, :]), codes[some], weights[some]


def _temperature(folds: list[tuple[np.ndarray, np.ndarray, np.ndarray]], least: float) -> float:
    """Return the temperature of highest likelihood; without any error it would be zero."""
    scored, weights = [fold[:2] for fold in folds], [fold[2] for fold in folds]
    return max(least, best_temperature(scored, weights=weights))
