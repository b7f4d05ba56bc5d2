"""Choose the parameters of `AnyShotClassifier` on held-out training classes, without refits.

Whole classes are held out in random folds, several partitions of them, and predicted from the
others in closed form (`core.posterior`). One eigendecomposition of the within-class covariance
serves all shrinkages, one of the kernel all ridges. Samples enter through their products with class
means only. A quarter of the samples never takes part in means or whitening: these represent new
samples of seen classes.

The grids are searched one after the other, each from the best point so far.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, take_rows, to_numpy
from ..tree import Tree
from .choice import (
    JOINT_START,
    Choice,
    Point,
    Temperatures,
    find_tree_part,
    learn_kernel,
    steps_of,
)
from .held_out import (
    FEWEST_CLASSES,
    Fold,
    TrainingData,
    View,
    class_folds,
    draw_shots,
    fold_of,
    n_partitions,
)
from .outcomes import (
    LARGE_SHARE,
    Outcome,
    best_penalty,
    guard_penalty,
    likely_temperature,
    mean_right,
    round_digits,
    thin_samples,
    weight_of_unseen,
)
from .posterior import (
    KernelRidge,
    class_scores,
    held_out_weights,
    inverse_without,
    left_out_weights,
    placed_scale,
    posterior_centers,
    worth_of_prior,
)
from .refining import USUAL_TEMPERATURE
from .spaces import measure_names
from .usual import usual_temperature, usual_worth

POWERS = (0.5, 1.0)
SHRINKAGES = (0.25, 1.0, 4.0, 16.0)
PROTOTYPE_POWERS = (0.5, 0.7, 1.0)
PROTOTYPE_NORMS = ("l2", None)
GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0)
RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Of joint spaces, whose geometry carries meaning: little whitening, and a cautious correction.
TREE_WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0)  # in units of the kernel
JOINT_SHRINKAGES, JOINT_RIDGES = (64.0, 1024.0), (0.3, 1.0, 3.0, 10.0, 100.0)

_SHORTLIST = 4  # points of highest accuracy among which the harmonic mean decides
_ROUNDS = 2
DEFAULT_WORTH, _WORTH_OF_FEW = 8.0, 1.0  # of classes that are told apart on folds, else
# Of joint spaces: what squared errors count beside the usual worth of names, because these confuse
# classes less than samples of the same size; how many samples a penalty of 0 counts as.
_SHARE_OF_ERRORS, _EVEN = 0.125, 200.0
_MOST_NESTED = 200  # classes; among more, those of one fold hardly change the choice
_MOST_PARTS = 4  # of a fold that holds out more classes than are unseen
_GUARDED = 0.5  # of the share of unseen classes, if nothing else tells the penalty
_USUAL_MARGIN = -0.1  # of seen samples to unseen classes, in squared lengths of samples


class Choosing:
    """The search over the grids for one set of samples.

    `fixed` are the parameters that the user gave, transformers as such or None. `n_seen` classes
    have samples; with `transfer`, these are no candidates. The harmonic mean counts if `by_hm`,
    else the accuracy among held-out classes, each of which has `n_shots` samples. `tree` is that
    of all classes, and their labels.
    """

    def __init__(
        self,
        data: TrainingData,
        fixed: dict[str, Any],
        *,
        n_seen: int,
        transfer: bool,
        by_hm: bool,
        n_shots: int,
        seed: int,
        tree: tuple[Tree, np.ndarray] | None = None,
    ) -> None:
        self.data = data
        self.fixed = fixed
        self.by_hm = by_hm
        self.n_shots = n_shots
        is_known = data.n_unseen > 0 and not transfer
        self.share = data.n_unseen / (data.n_unseen + n_seen) if is_known else LARGE_SHARE
        self.draws = draw_shots(data, n_shots, n_partitions(data))
        folds = class_folds(data, self.draws, n_unseen=data.n_unseen, seed=seed)
        whole = fold_of(data, np.arange(0), self.draws[0], 0, 0)
        if fixed.get("worth") == 0:  # without prototypes only new samples can be scored
            folds = [whole]
        self.folds = list(folds)
        self._whole = replace(whole, number=len(self.folds))
        self._seed, self._tree = seed, tree
        self._views: dict[Any, View] = {}
        self._viewed: Any = None
        self._preparing = data.prepare()
        self._ridges: dict[Any, tuple[KernelRidge, Array | None]] = {}
        self._right: dict[tuple[Point, str], list[np.ndarray]] = {}
        self._balances: dict[Point, tuple[float, float]] = {}
        self._worths: dict[Any, float] = {}
        self._last: Any = None

    def run(self) -> Choice:
        """Search the grids, then compute worth, penalty and temperatures at the best point."""
        return self._measure(self._search())

    def _search(self, without: np.ndarray | None = None) -> Point:
        """Return the best point, for some classes as if they had not been held out."""
        point = self.start(self.fixed, joint=self.is_joint)
        rounds = _ROUNDS if self._holds_out else 0
        for _ in range(rounds):
            before = point
            for grid in self._grids():
                points = [point, *(replace(point, **values) for values in grid)]
                point = self._best(points, without)
            if point == before:
                break
        return point

    def _best(self, points: list[Point], without: np.ndarray | None) -> Point:
        """Return the best point; the harmonic mean decides between those of highest accuracy.

        Whitening fits the samples that it is learned from. So only samples that it has not seen can
        compare preprocessings; under one preprocessing, all samples are used.
        """
        same = len({(point.power, point.shrinkage) for point in points}) == 1
        points = list(dict.fromkeys(points))
        which = "every" if same else "new"
        ranked = sorted(points, key=lambda point: -self.accuracy(point, which, without))
        if not self.by_hm:
            return ranked[0]
        return max(ranked[:_SHORTLIST], key=self.harmonic_mean)

    def accuracy(
        self, point: Point, which: str = "new", without: np.ndarray | None = None
    ) -> float:
        """Return the accuracy among held-out classes, mean over the folds.

        Samples of the classes `without` do not count.
        """
        key = (point, which)
        if key not in self._right:
            self._right[key] = [self._count_right(point, fold, which) for fold in self.folds]
        return mean_right(self._right[key], [fold.held for fold in self.folds], without)

    @property
    def _holds_out(self) -> bool:
        """Whether classes are held out that can be told apart."""
        return any(len(fold.held) > 1 for fold in self.folds)

    @property
    def is_joint(self) -> bool:
        """Whether samples and prototypes share a space."""
        return self.data.placed is not None

    def harmonic_mean(self, point: Point) -> float:
        """Return the harmonic mean of accuracies of new and old classes."""
        return self._balance(point)[0]

    def _balance(self, point: Point) -> tuple[float, float]:
        """Return the highest harmonic mean at a point, and the penalty of old classes."""
        if point not in self._balances:
            self._balances[point] = self._find_balance(point)
        return self._balances[point]

    def _find_balance(self, point: Point) -> tuple[float, float]:
        of_old = [fold for fold in self.folds if len(fold.old)]
        found = (self.accuracy(point) if self._holds_out else float("nan"), 0.0)
        if self._holds_out and of_old:
            outcomes = [self._outcome(point, fold) for fold in of_old]
            found = best_penalty(outcomes, weight_of_unseen(self.share))
        if "seen_penalty" in self.fixed:
            counts = self._view(point).counts
            share = float(np.mean(counts / (counts + self._rough_worth(point))))
            return found[0], self.fixed["seen_penalty"] * share
        penalty = found[1]
        if not self._holds_out:
            penalty = self._guard(point, _GUARDED * self.share)
        elif self.share < LARGE_SHARE:
            penalty = min(penalty, self._guard(point, self.share))
        if self.is_joint:  # names alone are balanced, and few samples hardly tell
            n = float(self.data.weights.sum())
            penalty *= n / (n + _EVEN)
        return found[0], penalty

    def _guard(self, point: Point, most: float) -> float:
        """Return the penalty under which unseen classes take at most a share of seen samples."""
        unseen, fold = self.data.some_unseen, self._whole
        if not len(unseen):
            return 0.0
        margins = self._outcome(point, fold, unseen).margins if len(fold.old) else np.zeros(0)
        usual = _USUAL_MARGIN * self._length(point)
        n = float(self.data.weights[fold.old].sum())
        return guard_penalty(margins, self._balance_weights(fold.old), n, most, usual)

    def _length(self, point: Point) -> float:
        """Return the mean squared length of preprocessed samples."""
        return float(np.average(self._view(point).squares, weights=self.data.weights))

    @staticmethod
    def start(fixed: dict[str, Any], *, joint: bool = False) -> Point:
        """Return the point that the search starts from, with what the user gave."""
        point = JOINT_START if joint else Point()
        if "preprocessing" in fixed:
            point = replace(point, power=None, shrinkage=None)
        if "prototype_transformer" in fixed:
            point = replace(point, prototype_power=None, prototype_norm=None)
        names = ("kernel", "gamma", "ridge", "tree_weight")
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
        if self._tree is not None and "tree_weight" not in given:
            grids.append([{"tree_weight": weight} for weight in TREE_WEIGHTS])
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
        key = (*key, point.tree_weight)
        if key not in self._ridges:
            data, view = self.data, self._view(point)
            Y, _, kernel = learn_kernel(data.prototypes, steps_of(point, self.fixed))
            train, rest = np.split(data.all_classes, [data.n_train])
            like = namespace(view.means).astype(view.means[:1, :1], namespace(view.means).float64)
            K = kernel.compare(place_like(Y[train], like), place_like(Y[train], like), train)
            K_rest = None
            if len(rest):
                K_rest = kernel.compare(
                    place_like(Y[rest], like), place_like(Y[train], like), train
                )
            tree, labels = self._tree or (None, train)
            part = find_tree_part(tree, point.tree_weight, kernel, Y)
            if part is not None:
                K = K + place_like(part.compare(labels[train], labels[train]), K)
                if K_rest is not None:
                    K_rest = K_rest + place_like(part.compare(labels[rest], labels[train]), K)
            self._ridges[key] = (KernelRidge(K, view.counts), K_rest)
        return self._ridges[key]

    def _weights(self, point: Point, fold: Fold) -> tuple[Array, Array]:
        """Return the weights that predict the held-out classes, and G of all classes."""
        ridge, K_rest = self._regression(point)
        G = self._inverse(ridge, point)
        if not len(fold.held):
            return G[:0, :], G
        n_others = len(self.data.classes) - self.data.n_train
        if n_others and K_rest is not None:
            return K_rest[:n_others, :] @ G, G
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
        view, usual = self._view(point), None
        if self.is_joint:
            usual = usual_worth(*self._measure_names(point))
        within, errors = [], []
        for fold in (fold for fold in self.folds if fold.draw == 0):
            weights, _ = self._weights(point, fold)
            variance = view.mean_variance(fold.held)
            within.append(variance)
            errors.append(self._mean_distance(view, fold, weights) - variance)
        if not np.isfinite(within).any():
            return usual or (DEFAULT_WORTH if self._holds_out else _WORTH_OF_FEW)
        found = worth_of_prior(float(np.nanmean(within)), float(np.nanmean(errors)))
        if usual is not None:
            return found**_SHARE_OF_ERRORS * usual ** (1 - _SHARE_OF_ERRORS)
        return found if self.data.n_train >= FEWEST_CLASSES else min(found, DEFAULT_WORTH)

    def _mean_distance(self, view: View, fold: Fold, weights: Array) -> float:
        """Return the mean squared distance of samples from the prior of their held-out class."""
        centers, X = view.predict(weights, fold, fold.held), view.take(fold, "new")
        own = np.searchsorted(fold.held, self.data.codes[fold.new])
        of_own = take_rows(centers, own)
        closeness = to_numpy(namespace(X).sum((2 * X - of_own) * of_own, axis=1))
        distances = view.squares[fold.new] - closeness
        return float(np.average(distances, weights=self._balance_weights(fold.new)))

    def _new_scores(
        self, view: View, fold: Fold, which: str, weights: Array, worth: float
    ) -> Array:
        """Return the scores of samples among the held-out classes."""
        centers = view.predict(weights, fold, fold.held)
        if self.n_shots:
            sums, n = (take_rows(part, fold.held) for part in view.shots[fold.draw])
            centers = posterior_centers(centers, sums, n, worth)
        return _scores(view.take(fold, which), centers)

    def _old_scores(self, view: View, fold: Fold, G: Array, weights: Array, worth: float) -> Array:
        """Return the scores of "rows" of a fold among the classes that are learned from."""
        if len(fold.held) and int(fold.held.max()) < self.data.n_train:
            G = inverse_without(G, place_like(fold.held, G), weights)
        prior = view.predict_left_out(left_out_weights(G), fold)
        counts = self.data.place(view.counts)
        centers = posterior_centers(prior, counts[:, None] * view.means, counts, worth)
        scores = _scores(view.take(fold, "rows"), centers)
        is_out = place_like(np.isin(np.arange(self.data.n_train), fold.held), scores)
        xp = namespace(scores)
        return xp.where(is_out[None, :], xp.full_like(scores, -xp.inf), scores)

    def _other_scores(
        self, view: View, point: Point, fold: Fold, G: Array, weights: Array, others: np.ndarray
    ) -> Array:
        """Return the scores of "rows" of a fold among classes that have no samples at all."""
        K = self._regression(point)[1]
        assert K is not None
        if len(fold.held):
            G = inverse_without(G, place_like(fold.held, G), weights)
        K = take_rows(K, others - self.data.n_train)
        return _scores(view.take(fold, "rows"), view.predict(K @ G, fold, others))

    def _count_right(self, point: Point, fold: Fold, which: str) -> np.ndarray:
        """Return what each held-out class adds to the accuracy among those of its fold."""
        view, rows = self._view(point), getattr(fold, which)
        worth = self._rough_worth(point) if self.n_shots else 0.0
        scores = self._new_scores(view, fold, which, self._weights(point, fold)[0], worth)
        own = np.searchsorted(fold.held, self.data.codes[rows])
        right = to_numpy(namespace(scores).argmax(scores, axis=1)) == own
        weights = self._balance_weights(rows)
        return np.bincount(own, weights * right, minlength=len(fold.held))

    def _outcome(self, point: Point, fold: Fold, others: np.ndarray | None = None) -> Outcome:
        """Return the predictions of one fold among seen and unseen classes.

        `others` are classes without samples that compete with the held-out ones.
        """
        view, codes = self._view(point), self.data.codes[fold.rows]
        weights, G = self._weights(point, fold)
        worth = self._rough_worth(point)
        among_new = self._new_scores(view, fold, "rows", weights, worth)
        among_old = self._old_scores(view, fold, G, weights, worth)
        xp, labels = namespace(among_new), fold.held
        if others is not None and len(others):
            among_others = self._other_scores(view, point, fold, G, weights, others)
            among_new = xp.concat([among_new, among_others], axis=1)
            labels = np.concatenate([labels, np.full(len(others), -1)])
        right_new = labels[to_numpy(xp.argmax(among_new, axis=1))] == codes
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
        self._balances.pop(point, None)  # it depends on the worth
        penalty = self._balance(point)[1]
        score = self._estimate(point) if self._holds_out else float("nan")
        temperatures = self._temperatures(point, worth, penalty)
        held = np.concatenate([np.arange(0), *(fold.held for fold in self.folds)])
        within = self._view(point).mean_variance(np.unique(held))
        worth, penalty, within = (round_digits(value) for value in (worth, penalty, within))
        return Choice(point, worth, penalty, temperatures, within, score)

    def _estimate(self, chosen: Point) -> float:
        """Return what is reached on tasks like the one at hand, chosen without their classes."""
        found, data = [], self.data
        nests = data.n_unseen > 0 and len(data.classes) == data.n_train <= _MOST_NESTED
        for fold, others in self._tasks():
            if nests and fold.draw:  # a search per fold takes time: each class is held out once
                continue
            point = self._search(without=fold.held) if nests else chosen
            outcome = self._outcome(point, fold, others)
            if not self.by_hm:
                found.append(float(outcome.of_new.sum()))
            elif len(fold.old):
                found.append(outcome.harmonic_mean(self._balance(point)[1]))
        return float(np.mean(found)) if found else float("nan")

    def _tasks(self) -> list[tuple[Fold, np.ndarray]]:
        """Return folds, and unseen classes that make their new ones as many as the task has."""
        data, rng = self.data, np.random.default_rng(self._seed)
        if not data.n_unseen or self.n_shots or len(data.classes) > data.n_train:
            return [(fold, np.arange(0)) for fold in self.folds]
        tasks, number = [], len(self.folds) + 1
        for fold in self.folds:
            n_parts = -(-len(fold.held) // data.n_unseen)
            for held in np.array_split(rng.permutation(fold.held), n_parts)[:_MOST_PARTS]:
                part = fold
                if n_parts > 1:
                    part = fold_of(data, np.sort(held), self.draws[fold.draw], number, fold.draw)
                    number += 1
                n_others = min(data.n_unseen - len(held), len(data.some_unseen))
                others = rng.choice(data.some_unseen, n_others, replace=False)
                tasks.append((part, others))
        return tasks

    def _temperatures(self, point: Point, worth: float, penalty: float) -> Temperatures:
        """Return the temperatures of highest likelihood among new, old and all classes."""
        view, data = self._view(point), self.data
        everything = np.arange(data.n_train)
        folds: dict[str, list[Any]] = {"new": [], "old": [], "all": []}
        weight = weight_of_unseen(self.share)
        for fold in self.folds:
            weights, G = self._weights(point, fold)
            new = self._new_scores(view, fold, "rows", weights, worth)
            n_new, kept = len(fold.new), np.setdiff1d(everything, fold.held)
            codes = data.codes[fold.rows]
            if len(fold.held) > 1:
                truth = np.searchsorted(fold.held, codes[:n_new])
                folds["new"].append(
                    thin_samples(new[:n_new, :], truth, self._balance_weights(fold.new))
                )
            if not len(fold.old) or len(kept) < 2:
                continue
            old = self._old_scores(view, fold, G, weights, worth)
            xp = namespace(old)
            old = xp.take(old, place_like(kept, old), axis=1)
            truth = np.searchsorted(kept, codes[n_new:])
            shares = self._balance_weights(fold.old)
            folds["old"].append(thin_samples(old[n_new:, :], truth, shares))
            if len(fold.held) > 1:
                both = xp.concat([new, old - penalty], axis=1)
                places = np.searchsorted(fold.held, codes[:n_new]), len(fold.held) + truth
                own = weight * self._balance_weights(fold.new), (1 - weight) * shares
                folds["all"].append(thin_samples(both, np.concatenate(places), np.concatenate(own)))
        usual = self._usual_temperature(point, worth)
        scored = np.unique(np.concatenate([np.arange(0), *(fold.rows for fold in self.folds)]))
        n = float(data.weights[scored].sum())
        found = {name: likely_temperature(parts, usual, n)[0] for name, parts in folds.items()}
        return Temperatures(**found)

    def _measure_names(self, point: Point) -> tuple[float, float]:
        """Return how surely class means lie along their names, and how long these are."""
        view = self._view(point)
        assert view.placed is not None
        names, every = view.placed[: self.data.n_train, :], np.zeros(self.data.n_train, bool)
        names = placed_scale(view.means, names, every) * names
        return measure_names(view.means, names, view.counts, self._length(point))

    def _usual_temperature(self, point: Point, worth: float) -> float:
        """Return the usual temperature; names that share the space of samples tell more."""
        view, data, squared = self._view(point), self.data, self._length(point)
        if view.placed is None:
            return USUAL_TEMPERATURE * squared
        share, length = self._measure_names(point)
        n = float(np.median(view.counts))
        sizes = n, data.X.shape[1], len(data.codes), len(data.classes) + data.n_unseen
        of_names, of_samples = (usual_temperature(*sizes, (part, length))[0] for part in (share, 0))
        # Scores grow with the lengths of centers, which are of names and of samples.
        return squared * max(of_names, of_samples * n / (n + worth))


def _scores(X: Array, centers: Array) -> Array:
    """Return the scores of samples, the higher the nearer the center."""
    return class_scores(X, centers, namespace(centers).zeros_like(centers[:, 0]))
