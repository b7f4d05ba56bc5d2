"""What some samples say of each label: preprocessing, posterior centers, logistic regression.

After preprocessing, samples are taken relative to their mean. A label with n positives of sum S has
the posterior center c = (worth f + S) / (worth + n), with the prior f that follows from its
prototype, zero without one. The rest of the N samples then lie around -c n / (N - n), so with a
common scale the linear discriminant is

    s = scale d'(z - mid) + log odds of the label,   d = c N / (N - n),   mid = c - d / 2.

Logistic regression per label starts there and is pulled back to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..anyshot.evidence import Evidence, Placed, Regression, class_priors
from ..anyshot.logistic import fit_pulled_labels
from ..anyshot.posterior import slope
from ..anyshot.sources import weight_options
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from .calibrating import log_odds, sigmoid
from .marks import Marks

_FEW_LABELS = 1000  # whose effects are taken from samples before their covariance
_STEPS = 60
_TYPICAL_WORTH = 2.0  # samples, of how often a typical label applies
_MOST_RATIO = 20.0  # of N / (N - n), for labels that almost all samples have

Way = tuple[float, float] | None  # power and shrinkage; None is the preprocessing the user gave


@dataclass(frozen=True, eq=False)
class MarkedSamples:
    """Samples in an order that follows from their values, copies joined, with their marks."""

    X: np.ndarray
    marks: Marks
    weights: np.ndarray
    is_asked: np.ndarray  # of each label, whether samples tell of it, or prototypes alone name it

    def take(self, rows: np.ndarray) -> MarkedSamples:
        """Return some of the samples."""
        marks = self.marks.take(rows)
        return replace(self, X=self.X[rows], marks=marks, weights=self.weights[rows])

    def narrow(self, columns: np.ndarray) -> MarkedSamples:
        """Return the samples with some of the labels."""
        return replace(self, marks=self.marks.narrow(columns), is_asked=self.is_asked[columns])

    @property
    def n(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def positives(self) -> np.ndarray:
        """Return the weight of the positives of each label."""
        return self.weights @ self.marks.matrix

    def known(self) -> np.ndarray:
        """Return the weight of the samples of which each label is known."""
        unknown = self.marks.unknown
        lost = 0.0 if unknown is None else self.weights @ unknown
        return self.is_asked * self.n - lost

    def pair_weights(self) -> np.ndarray:
        """Return the weight of each sample and label (n x m), zero where it is unknown."""
        shape = len(self.weights), len(self.marks.labels)
        known = self.marks.known()
        weights = np.broadcast_to(self.weights[:, None], shape)
        return weights if known is None else weights * known


def fit_preprocessing(samples: MarkedSamples, way: Way, given: Any) -> Any:
    """Return the fitted preprocessing: power, center, whitening of residuals; or what was given.

    Residuals are what is left of samples after the effects of their labels, by ridge regression.
    """
    X, weights = samples.X, samples.weights
    if way is None:
        if given is None:
            return None
        fitted: Any = clone(given)
        fitted.fit(X, **weight_options(fitted, weights))
        return fitted
    power, shrinkage = way
    first = FeatureNormalizer(power=power, center=True).fit(X, sample_weight=weights)
    Z = first.transform(X)
    whitener = WithinClassWhitener(shrinkage)
    whitener.fit(_residuals(Z, samples), np.zeros(len(Z), int), sample_weight=weights)
    last = FeatureNormalizer().fit(Z[:1])
    return Pipeline([("power", first), ("whiten", whitener), ("unit", last)])


def _residuals(Z: np.ndarray, samples: MarkedSamples) -> np.ndarray:
    """Return samples less the effects of their labels, of the most frequent ones if very many."""
    matrix, counts = samples.marks.matrix, samples.positives()
    used = np.flatnonzero(counts > 0)
    used = used[np.argsort(-counts[used], kind="stable")[:_FEW_LABELS]]
    Y = sparse.csr_array(matrix[:, np.sort(used)])
    weighted = sparse.csr_array(Y * samples.weights[:, None])
    gram = (weighted.T @ Y).toarray() + np.eye(len(used))
    effects = np.linalg.solve(gram, weighted.T @ Z.astype(np.float64))
    return Z - (Y @ effects).astype(Z.dtype)


@dataclass(frozen=True, eq=False)
class LabelNames:
    """What is known of labels beside samples: the map of prototypes, and where these lie."""

    regression: Regression | None = None
    shift: np.ndarray | None = None  # places prototypes among raw samples, in a joint space

    @property
    def described(self) -> np.ndarray:
        """Labels with a prototype."""
        return np.empty(0) if self.regression is None else self.regression.prototypes.labels


@dataclass(frozen=True, eq=False)
class LearnedLabels:
    """What some samples say of labels, after one preprocessing."""

    preprocessing: Any
    mean: np.ndarray  # of preprocessed samples
    evidence: Evidence  # sums and numbers of positives, relative to the mean
    totals: np.ndarray  # number of samples of which each label is known
    prior: np.ndarray

    @classmethod
    def learn(cls, samples: MarkedSamples, preprocessing: Any, names: LabelNames) -> LearnedLabels:
        """Learn from samples with all their labels."""
        Z = prepare(preprocessing, samples.X).astype(np.float64)
        mean = samples.weights @ Z / samples.n
        Z = Z - mean
        labels, marks = samples.marks.labels, samples.marks.matrix
        weighted = sparse.csr_array(marks * samples.weights[:, None])
        evidence = Evidence(
            labels=labels,
            sums=weighted.T @ Z,
            counts=samples.positives(),
            squares=weighted.T @ np.einsum("ij,ij->i", Z, Z),
            is_described=np.isin(labels, names.described),
            is_hidden=np.zeros(len(labels), bool),
            is_foreign=np.zeros(len(labels), bool),
        )
        prior = predict_priors(evidence, names, preprocessing, mean)
        return cls(preprocessing, mean, evidence, samples.known(), prior)

    def prepare(self, X: np.ndarray) -> np.ndarray:
        """Return preprocessed samples relative to the mean, in float32."""
        Z = prepare(self.preprocessing, X)
        return (Z - self.mean.astype(Z.dtype)).astype(np.float32, copy=False)

    @cached_property
    def base(self) -> np.ndarray:
        """Log odds of each label.

        Without positives they are the typical ones, and less the more samples told that it does not
        apply.
        """
        n, total = self.evidence.counts, self.totals
        found = log_odds((n + 0.5) / (np.maximum(total, n) + 1))
        seen = n > 0
        if not seen.any():
            return found
        typical = float(sigmoid(np.asarray(self.typical)))
        share = typical * _TYPICAL_WORTH / (total + _TYPICAL_WORTH)
        return np.where(seen, found, log_odds(share))

    @property
    def typical(self) -> float:
        """Log odds of a typical label with samples, or of any if none has some."""
        n = self.evidence.counts
        seen = n > 0 if n.any() else n == 0
        total = np.maximum(self.totals, n)[seen]
        return float(np.median(log_odds((n[seen] + 0.5) / (total + 1))))

    def start(
        self, worth: float, trust: float = 1.0, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the directions (m x d) of the linear discriminants, and what they add."""
        n, total = self.evidence.counts, np.maximum(self.totals, 1e-12)
        c = (worth * trust * self.prior + self.evidence.sums) / np.maximum(worth + n, 1e-12)[
            :, None
        ]
        ratio = discriminant_ratio(n, total)
        d = scale * c * ratio[:, None]
        return d, -np.einsum("ij,ij->i", d, c * (1 - ratio / 2)[:, None])

    def start_of_names(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the same of labels as if they had no samples."""
        return self.prior, -np.einsum("ij,ij->i", self.prior, self.prior) / 2

    def narrow(self, columns: np.ndarray) -> LearnedLabels:
        """Return what is known of some labels."""
        e = self.evidence
        names = ("labels", "sums", "counts", "squares", "is_described", "is_hidden", "is_foreign")
        evidence = Evidence(**{name: getattr(e, name)[columns] for name in names})
        base = self.base[columns]
        few = replace(
            self, evidence=evidence, totals=self.totals[columns], prior=self.prior[columns]
        )
        vars(few)["base"] = base  # the typical one is that of all labels
        return few


def discriminant_ratio(n: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return N / (N - n), by which the center of n of N samples is farther from the others'."""
    return np.minimum(total / np.maximum(total - n, 1e-12), _MOST_RATIO)


def prepare(preprocessing: Any, X: np.ndarray) -> np.ndarray:
    """Return preprocessed samples."""
    return X if preprocessing is None else np.asarray(preprocessing.transform(X))


def predict_priors(
    evidence: Evidence, names: LabelNames, preprocessing: Any, mean: np.ndarray
) -> np.ndarray:
    """Return the prior of each label, learned from the others, times how far these can be trusted.

    The trust is the factor in [0, 1] that brings priors nearest to the means of labels.
    """
    if names.regression is None:
        return np.zeros_like(evidence.sums)
    placed = None
    if names.shift is not None:
        vectors = np.zeros_like(evidence.sums)
        known = names.regression.prototypes.subset(evidence.labels[evidence.is_described])
        Q = prepare(preprocessing, known.matrix.astype(np.float64) + names.shift)
        vectors[evidence.is_described] = Q - mean
        placed = Placed.learn(vectors, evidence)
    prior, _ = class_priors(evidence, names.regression, placed)
    if not evidence.is_anchor.any():
        return np.asarray(prior)
    return prior * slope(evidence.anchor_means(), evidence.take_anchors(prior))


def refine(
    Z: np.ndarray,
    samples: MarkedSamples,
    start: tuple[np.ndarray, np.ndarray],
    strength: float,
    guess: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and intercepts of logistic regression that is pulled to `start`.

    The pull is that of a prior: it does not grow with the number of samples.
    """
    W, b = start
    return fit_pulled_labels(
        Z,
        samples.marks.matrix,
        samples.weights / samples.n,
        W,
        b,
        strength / (2 * samples.n),
        unknown=samples.marks.unknown,
        guess=guess,
        most_steps=_STEPS,
    )
