"""What is known of each class, and its center: `anyshot.posterior` for a set of classes.

A class has a prototype, samples, or both. Classes with both are anchors: kernel ridge regression
learns from them to predict the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..arrays import Array, identity_like, namespace, place_like, squared_norm, take_rows, to_numpy
from ..bpl.kernels import PrototypeKernel
from ..config import rows_per_block
from ..persistence.checks import require_labels, require_number, require_shape, require_that
from ..prototypes import Prototypes
from ..streaming.priorities import row_priorities
from .posterior import own_shares, placed_scale, posterior_centers, ridge_inverse, slope
from .ridges import ExactRidge, LandmarkRidge, Ridge
from .tree_part import TreePart


@dataclass(frozen=True, eq=False)
class Evidence:
    """Samples of m classes with a prototype or samples, in sorted order of the labels."""

    labels: np.ndarray
    sums: Array  # (m, d), of the samples, in float64
    counts: np.ndarray  # of samples, or sums of their weights
    squares: np.ndarray  # sums of the squared lengths of the samples
    is_described: np.ndarray  # whether a class has a prototype
    is_hidden: np.ndarray  # whether it was removed; the regression still learns from it
    # Whether samples of a class come from another domain than the samples to classify. If there
    # are such classes, the regression learns only from them, and uses directions, not lengths.
    is_foreign: np.ndarray

    def __zonkey_validate__(self) -> None:
        require_labels("evidence/labels", self.labels)
        m, n = len(self.labels), self.counts
        require_shape("evidence/sums", self.sums, m, None)
        for name in ("counts", "squares"):
            require_shape(f"evidence/{name}", getattr(self, name), m)
        for name in ("is_described", "is_hidden", "is_foreign"):
            require_shape(f"evidence/{name}", getattr(self, name), m, kinds="b")
        sums = to_numpy(self.sums)
        lengths = np.einsum("ij,ij->i", sums, sums)
        fits = (n >= 0).all() and not lengths[n == 0].any()
        fits = fits and (self.squares * n >= lengths * (1 - 1e-6)).all()
        require_that(fits, "Counts, sums and squares of the classes contradict each other.")

    @classmethod
    def make_empty(cls, described: np.ndarray, like: Array) -> Self:
        """Return evidence of described classes without samples, with the features of `like`."""
        no, zeros = np.zeros(len(described), bool), np.zeros(len(described))
        sums = place_like(np.zeros((len(described), like.shape[1])), like)
        return cls(described, sums, zeros, zeros, ~no, no, no)

    def add(self, labels: np.ndarray, sums: Array, counts: np.ndarray, squares: np.ndarray) -> Self:
        """Return the evidence with more samples, of known and of new classes."""
        every = np.union1d(self.labels, labels) if len(self.labels) else labels
        xp = namespace(sums)
        own, other = (np.isin(every, known) for known in (self.labels, labels))

        def spread(rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
            filled = np.zeros((len(every), *rows.shape[1:]), rows.dtype)
            filled[mask] = rows
            return filled

        def spread_sums(rows: Array, mask: np.ndarray) -> Array:
            # The row after the last is for classes that one side does not have.
            places = np.where(mask, np.cumsum(mask) - 1, rows.shape[0])
            padded = xp.concat([rows, xp.zeros_like(sums[:1, :])])
            return take_rows(padded, places)

        return replace(
            self,
            labels=every,
            sums=spread_sums(self.sums, own) + spread_sums(sums, other),
            counts=spread(self.counts, own) + spread(counts, other),
            squares=spread(self.squares, own) + spread(squares, other),
            is_described=spread(self.is_described, own),
            is_hidden=spread(self.is_hidden, own),
            is_foreign=spread(self.is_foreign, own),
        )

    def add_described(self, labels: np.ndarray) -> Self:
        """Return the evidence with further classes that have a prototype and no samples."""
        new = self.make_empty(labels, self.sums)
        wider = self.add(labels, new.sums, new.counts, new.squares)
        return replace(wider, is_described=wider.is_described | np.isin(wider.labels, labels))

    def without(self, labels: np.ndarray) -> Self:
        """Return the evidence with some classes hidden."""
        return replace(self, is_hidden=self.is_hidden | np.isin(self.labels, labels))

    def known(self, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the labels that are not hidden, or those of them in the mask."""
        return self.labels[~self.is_hidden if mask is None else ~self.is_hidden & mask]

    @property
    def is_anchor(self) -> np.ndarray:
        """Whether the regression learns from a class: it has a prototype and samples."""
        with_samples = self.is_described & (self.counts > 0)
        return with_samples & self.is_foreign if self.is_transferred else with_samples

    @property
    def is_transferred(self) -> bool:
        """Whether the regression learns from samples of another domain."""
        return bool(self.is_foreign.any())

    @property
    def anchors(self) -> np.ndarray:
        """Labels of the classes that the regression learns from."""
        return self.labels[self.is_anchor]

    def take_anchors(self, rows: Array) -> Array:
        """Return those rows of an array, one per class, that belong to anchors."""
        return take_rows(rows, np.flatnonzero(self.is_anchor))

    def anchor_means(self) -> Array:
        """Return the means of the classes that the regression learns from."""
        counts = place_like(self.counts[self.is_anchor], self.sums)
        return self.take_anchors(self.sums) / counts[:, None]

    def own_shares(self) -> np.ndarray:
        """Return the shares of the means of anchors in their own priors (`own_shares`)."""
        return own_shares(self.anchor_means(), self.counts[self.is_anchor])

    def variance(self, rows: np.ndarray) -> float:
        """Return the variance of samples within some classes, NaN if none has two samples."""
        n, xp = self.counts[rows], namespace(self.sums)
        S = take_rows(self.sums, rows)
        several = n > 1
        if not several.any():
            return float("nan")
        lengths = to_numpy(xp.sum(S * S, axis=1))[several]
        away = self.squares[rows][several] - lengths / n[several]
        return max(0.0, float(np.sum(away))) / float(np.sum(n[several] - 1))

    def totals(self, worth: float) -> np.ndarray:
        """Return how many samples each center is worth, prior and samples together.

        A class without samples has nothing but its prior, even if that is worth nothing.
        """
        total = self.counts + np.where(self.is_described, worth, 0.0)
        return np.where(self.is_described & (total == 0), 1.0, total)


@dataclass(frozen=True, eq=False)
class Regression:
    """Kernel ridge regression of class means on prototypes.

    `transformer`, which may be None, and `kernel` are learned from the prototypes given to `fit`,
    whose labels are `known`; `prototypes` also has those of classes that came later. If
    `n_components` are fewer than nine tenths of the anchors, that many of them are landmarks, drawn
    with the seed. A `tree_part` is added to the kernel of classes whose labels are known.
    """

    prototypes: Prototypes
    known: np.ndarray
    transformer: Any
    kernel: PrototypeKernel
    ridge: float
    n_components: int | None = None
    seed: int = 0
    tree_part: TreePart | None = None

    def __zonkey_validate__(self) -> None:
        require_labels("regression/known", self.known)
        inside = np.isin(self.known, self.prototypes.labels).all()
        require_that(inside, "Every known class of the regression must have a prototype.")
        require_number("gamma", self.kernel.gamma, 0)
        require_number("ridge", self.ridge, 0)
        require_number("seed", self.seed, 0)
        if self.n_components is not None:
            require_number("n_components", self.n_components, 1)

    def compare(self, labels: np.ndarray, like: Array) -> Array:
        """Return the kernel between the prototypes of some classes."""
        Y = self.transform(self.prototypes.matrix[self.prototypes.positions(labels)], like)
        K = self.kernel.compare(Y, Y, np.searchsorted(self.known, labels))
        return self._add_tree(K, labels, labels)

    def solve(self, evidence: Evidence) -> Ridge:
        """Return the regression that is learned from the anchors."""
        Y, columns = self._anchors(evidence)
        counts = evidence.counts[evidence.is_anchor]
        landmarks = self._landmarks(evidence)
        K = self.kernel.compare(Y, *self._basis(evidence))
        K = self._add_tree(K, evidence.anchors, self._basis_labels(evidence))
        if landmarks is None:
            return ExactRidge(ridge_inverse(K, counts, self.ridge))
        unit = self.kernel.mean_of_own(Y, columns) or 1.0
        if self.tree_part is not None:
            unit += self.tree_part.mean_of_own(evidence.anchors)
        return LandmarkRidge.from_kernel(K, landmarks, counts, self.ridge, unit)

    def predict(
        self,
        Y: np.ndarray,
        evidence: Evidence,
        ridge: Ridge | None = None,
        labels: np.ndarray | None = None,
    ) -> Array:
        """Return f(y) for each row of Y, of classes with these labels.

        If the anchors are of another domain, all f(y) have the root mean square length of the
        means: how far a prediction is from the origin depends on how certain it is, not on where
        pictures are.
        """
        ridge = self.solve(evidence) if ridge is None else ridge
        M = evidence.anchor_means()
        C, basis = ridge.coefficients(M), self._basis(evidence)
        others, parts = self._basis_labels(evidence), []
        size = rows_per_block(8 * C.shape[0])
        for start in range(0, max(1, len(Y)), size):
            rows = slice(start, start + size)
            K = self.kernel.compare(self.transform(Y[rows], M), *basis)
            parts.append(self._add_tree(K, None if labels is None else labels[rows], others) @ C)
        f = parts[0] if len(parts) == 1 else namespace(M).concat(parts)
        return f * _lengthen(f, M) if evidence.is_transferred else f

    def weights(
        self,
        Y: np.ndarray,
        evidence: Evidence,
        ridge: Ridge,
        labels: np.ndarray | None = None,
    ) -> Array:
        """Return the weights of the means of the anchors in f(y)."""
        k = self.kernel.compare(self.transform(Y, evidence.sums), *self._basis(evidence))
        weights = ridge.weights(self._add_tree(k, labels, self._basis_labels(evidence)))
        if not evidence.is_transferred:
            return weights
        M = evidence.anchor_means()
        return weights * _lengthen(weights @ M, M)

    def priors(self, evidence: Evidence) -> Array:
        """Return the prior of each class, zero for classes without a prototype.

        That of an anchor is learned from the other anchors.
        """
        xp, ridge = namespace(evidence.sums), self.solve(evidence)
        rest = evidence.is_described & ~evidence.is_anchor
        means = evidence.anchor_means()
        # Foreign classes are never candidates, so their priors are not computed.
        parts = [xp.zeros_like(means)]
        if not evidence.is_transferred:
            reach = ridge.left_out(xp.ones_like(means[:, :1]))
            own = place_like(evidence.own_shares(), means)[:, None] * means
            parts = [ridge.left_out(means) + reach * own]
        if rest.any():
            labels = evidence.labels[rest]
            Y = self.prototypes.subset(labels).matrix
            parts.append(self.predict(Y, evidence, ridge, labels))
        parts.append(xp.zeros_like(evidence.sums[:1, :]))
        order = np.concatenate([np.flatnonzero(evidence.is_anchor), np.flatnonzero(rest)])
        places = np.full(len(evidence.labels), len(order))
        places[order] = np.arange(len(order))
        return take_rows(xp.concat(parts), places)

    def embedding(self, evidence: Evidence) -> tuple[Array, Array]:
        """Return W and b of the ridge regression W'x + b of prototypes on class means."""
        M = evidence.anchor_means()
        xp = namespace(M)
        Y = place_like(self.prototypes.subset(evidence.anchors).matrix.astype(np.float64), M)
        center, level = xp.mean(M, axis=0), xp.mean(Y, axis=0)
        M = M - center
        ridge = max(self.ridge, _LEAST_RIDGE) * (squared_norm(M) / M.shape[0] or 1.0)
        # (M'M + ridge I)^-1 M' = M' (MM' + ridge I)^-1: the smaller of the two is solved.
        is_wide = M.shape[0] <= M.shape[1]
        gram = M @ M.T if is_wide else M.T @ M
        gram = gram + ridge * identity_like(gram)
        Y = Y - level
        W = M.T @ xp.linalg.solve(gram, Y) if is_wide else xp.linalg.solve(gram, M.T @ Y)
        return W, level - center @ W

    def _landmarks(self, evidence: Evidence) -> np.ndarray | None:
        """Return the landmarks among the anchors, None if there are none.

        They are chosen by a hash of their prototypes, invariant to the order of classes.
        """
        anchors = evidence.anchors
        if self.n_components is None or _FEWER * len(anchors) <= self.n_components:
            return None
        rows = self.prototypes.matrix[self.prototypes.positions(anchors)]
        order = np.argsort(to_numpy(row_priorities(rows, self.seed)), kind="stable")
        return np.sort(order[: self.n_components])

    def _add_tree(self, K: Array, own: np.ndarray | None, others: np.ndarray) -> Array:
        """Return the kernel between classes with the part of the tree, if labels are known."""
        if self.tree_part is None or own is None:
            return K
        return K + place_like(self.tree_part.compare(own, others), K)

    def _basis_labels(self, evidence: Evidence) -> np.ndarray:
        landmarks = self._landmarks(evidence)
        return evidence.anchors if landmarks is None else evidence.anchors[landmarks]

    def _basis(self, evidence: Evidence) -> tuple[Array, np.ndarray]:
        """Return coordinates and places of the landmarks, or of all anchors."""
        Y, columns = self._anchors(evidence)
        landmarks = self._landmarks(evidence)
        if landmarks is None:
            return Y, columns
        return take_rows(Y, landmarks), columns[landmarks]

    def _anchors(self, evidence: Evidence) -> tuple[Array, np.ndarray]:
        """Return the coordinates of the anchors, and their places among all prototypes."""
        anchors = evidence.anchors
        Y = self.prototypes.matrix[self.prototypes.positions(anchors)]
        return self.transform(Y, evidence.sums), np.searchsorted(self.known, anchors)

    def transform(self, Y: np.ndarray, like: Array) -> Array:
        """Return transformed prototypes in float64, on the device of `like`."""
        Y = np.asarray(Y, np.float64)
        if self.transformer is not None:
            Y = np.asarray(self.transformer.transform(Y), np.float64)
        return place_like(Y, like)


_LEAST_RIDGE = 1e-6
# With more landmarks nothing is saved, and without a ridge the few other classes, each left out in
# turn, are predicted by differences of nearly equal numbers.
_FEWER = 0.9


def _lengthen(f: Array, M: Array) -> Array:
    """Return the factors that scale each f to the root mean square length of the means."""
    xp = namespace(M)
    length = xp.sqrt(xp.mean(xp.sum(M * M, axis=1)))
    own = xp.sqrt(xp.sum(f * f, axis=1))
    return (length / xp.where(own > 0, own, xp.ones_like(own)))[:, None]


@dataclass(frozen=True, eq=False)
class Placed:
    """Prototypes among the samples, for spaces that samples and prototypes share.

    There, the prior of a class is s q + f: its prototype q among the samples, scaled by s, and the
    regression of what s q misses of class means, which is learned like that of means.
    """

    vectors: Array  # (m, d): q of each class of the evidence, zero without a prototype
    scale: float  # s

    @classmethod
    def learn(cls, vectors: Array, evidence: Evidence) -> Self:
        """Learn the scale from the classes with prototype and samples."""
        if not evidence.is_anchor.any():
            return cls(vectors, USUAL_SCALE)
        M, Q = evidence.anchor_means(), evidence.take_anchors(vectors)
        return cls(vectors, placed_scale(M, Q, np.zeros(M.shape[0], bool)))

    @property
    def priors(self) -> Array:
        """Priors of the classes, without the regression."""
        return self.scale * self.vectors

    def subtract_from(self, evidence: Evidence) -> Evidence:
        """Return the evidence of what these priors miss; squares do not matter there."""
        counts = place_like(evidence.counts, evidence.sums)
        return replace(evidence, sums=evidence.sums - counts[:, None] * self.priors)


# Of prototypes among samples of unit length, where no sample tells: 0.2 to 0.5 in several spaces.
USUAL_SCALE = 0.3


def class_priors(
    evidence: Evidence,
    regression: Regression | None,
    placed: Placed | None = None,
    *,
    judge: bool = False,
) -> tuple[Array, float]:
    """Return the prior of each class, and the trust in what the regression predicts of anchors.

    Priors are zero if there are neither anchors nor placed prototypes. If `judge`, predictions for
    anchors are multiplied by the trust: the factor in [0, 1] that brings them nearest to the class
    means, so that prototypes that say nothing of samples do not matter.
    """
    xp = namespace(evidence.sums)
    prior = xp.zeros_like(evidence.sums) if placed is None else placed.priors
    if regression is None or not evidence.is_anchor.any():
        return prior, 1.0
    rest = evidence if placed is None else placed.subtract_from(evidence)
    found, trust = regression.priors(rest), 1.0
    if judge:
        trust = slope(rest.anchor_means(), evidence.take_anchors(found))
        factors = np.where(evidence.is_anchor, trust, 1.0)
        found = found * place_like(factors, found)[:, None]
    return found if placed is None else prior + found, trust


def class_centers(evidence: Evidence, prior: Array, worth: float) -> Array:
    """Return the posterior center of each class, given its prior.

    If the anchors are of another domain, priors move by the `common_shift` of the samples.
    """
    if evidence.is_transferred:
        prior = prior + common_shift(evidence, prior, worth)[None, :]
    counts = place_like(evidence.counts, evidence.sums)
    of_prior = place_like(evidence.totals(worth) - evidence.counts, evidence.sums)
    return posterior_centers(prior, evidence.sums, counts, of_prior)


def common_shift(evidence: Evidence, prior: Array, worth: float) -> Array:
    """Return by how much samples of described classes differ from their priors, on average.

    It has a prior of its own: zero, which is worth as many samples.
    """
    used = (evidence.is_described & ~evidence.is_hidden).astype(np.float64)
    n = place_like(used * evidence.counts, prior)
    xp = namespace(prior)
    gaps = evidence.sums * place_like(used, prior)[:, None] - n[:, None] * prior
    return xp.sum(gaps, axis=0) / (xp.sum(n) + worth)
