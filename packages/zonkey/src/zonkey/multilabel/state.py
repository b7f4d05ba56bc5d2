"""Everything that a `MultiLabelClassifier` has learned, frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ..anyshot.evidence import Evidence
from ..inference.scorer import Independence, LinearScores, Scorer
from ..persistence.checks import require_finite, require_number, require_shape, require_that
from ..prototypes import Prototypes
from .choosing import LabelChoice
from .learning import LabelNames, LearnedLabels, discriminant_ratio, predict_priors, prepare
from .settling import Common, Settled, WantedAnswers, settle_names


@dataclass(frozen=True, eq=False)
class MultiLabelState:
    """What `fit` has learned; `W` and `b` are final log odds of labels to be marked."""

    evidence: Evidence
    totals: np.ndarray  # number of samples of which each label is known
    mean: np.ndarray  # of preprocessed samples
    preprocessing: Any
    regression: Any  # None without prototypes
    shift: np.ndarray | None
    choice: LabelChoice
    common: Common
    typical: float  # log odds of a label without samples
    W: np.ndarray
    b: np.ndarray
    thresholds: np.ndarray  # log odds to be marked
    chances: np.ndarray  # that a true label is marked
    scales: np.ndarray  # of the calibrations
    wanted_threshold: float | None
    wanted_precision: float | None
    is_unknown: bool

    def __zonkey_validate__(self) -> None:
        m, d = self.evidence.sums.shape
        require_shape("W", self.W, m, d)
        require_shape("mean", self.mean, d)
        for name in ("totals", "b", "thresholds", "chances", "scales"):
            require_shape(name, getattr(self, name), m)
        require_number("typical", self.typical)
        chances = self.chances
        require_that(bool(((chances > 0) & (chances <= 1)).all()), "Chances must be in (0, 1].")
        known = self.evidence.labels[self.evidence.is_described]
        own = known[:0] if self.regression is None else self.regression.prototypes.labels
        require_that(np.array_equal(known, own), "Described labels must have a prototype each.")
        if self.regression is not None:
            row = self.regression.prototypes.matrix[:1]
            compute = partial(self.regression.transform, row, self.evidence.sums)
            require_finite("MultiLabelClassifier", compute)

    @property
    def wanted(self) -> WantedAnswers:
        """What the user asked for."""
        return WantedAnswers(self.wanted_threshold, self.wanted_precision, self.is_unknown)

    @property
    def names(self) -> LabelNames:
        """What is known of labels beside samples."""
        return LabelNames(self.regression, self.shift)

    @property
    def labels(self) -> np.ndarray:
        """All labels, sorted."""
        return self.evidence.labels

    @property
    def seen(self) -> np.ndarray:
        """Labels with positive samples."""
        return self.labels[self.evidence.counts > 0]

    @property
    def unseen(self) -> np.ndarray:
        """Labels without."""
        return self.labels[self.evidence.counts == 0]

    @property
    def prototypes(self) -> Prototypes | None:
        """Prototypes of the labels that have one."""
        return None if self.regression is None else self.regression.prototypes

    def prepare(self, X: Any) -> Any:
        """Return preprocessed samples."""
        return prepare(self.preprocessing, X)

    def priors(self) -> np.ndarray:
        """Return the prior of each label."""
        return predict_priors(self.evidence, self.names, self.preprocessing, self.mean)

    def settle(self, settled: Settled, common: Common) -> Self:
        """Return the state with what was learned of all labels."""
        return replace(self, common=common, **vars(settled))

    def add_labels(self, new: Prototypes) -> Self:
        """Return the state with further labels, known by their prototypes only."""
        if self.regression is None:
            raise ValueError(
                "Further labels need prototypes that `fit` knows how to read; this model was fitted"
                " with prototypes=None. Fit with prototypes."
            )
        prototypes = self.regression.prototypes.extended(new)
        known = np.intersect1d(self.labels, new.labels)
        if known.size:
            raise ValueError(
                f"New labels must not be known; {known.tolist()[:5]} are. Leave them out."
            )
        wider = replace(
            self,
            evidence=self.evidence.add_described(new.labels),
            regression=replace(self.regression, prototypes=prototypes),
        )
        rows = np.searchsorted(wider.labels, self.labels)
        totals = np.zeros(len(wider.labels))
        totals[rows] = self.totals
        learned = LearnedLabels(
            self.preprocessing, self.mean, wider.evidence, totals, wider.priors()
        )
        vars(learned)["base"] = np.full(len(totals), self.typical)
        fresh = np.flatnonzero(np.isin(wider.labels, new.labels))
        added = settle_names(learned.narrow(fresh), self.common, self.wanted)
        parts = {}
        for name, new_values in vars(added).items():
            old = getattr(self, name)
            whole = np.zeros((len(totals), *old.shape[1:]))
            whole[rows], whole[fresh] = old, new_values
            parts[name] = whole
        return replace(wider, totals=totals, **parts)

    def split_weights(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the weights of some labels as a sum: of prototype, samples and the regression."""
        e, choice, W = self.evidence, self.choice, self.W[rows]
        n, total = e.counts[rows, None], self.totals[rows, None]
        seen, ratio = n > 0, discriminant_ratio(n, total)
        factor = (
            self.scales[rows, None] * choice.scale * ratio / np.maximum(choice.worth + n, 1e-12)
        )
        prior = np.where(seen, factor * choice.worth * choice.trust * self.priors()[rows], W)
        samples = np.where(seen, factor * e.sums[rows], 0.0)
        rest = W - prior - samples
        return {"own prototype": prior, "own samples": samples, "logistic regression": rest}

    def make_scorer(self) -> Scorer:
        """Return what prediction reads: scores are log odds less those of the thresholds."""
        scores = LinearScores(self.W / 2, self.thresholds - self.b + self.W @ self.mean)
        # Labels that always apply together have the same scores, which still say something.
        scores = scores.check_finite() if self.W.any() else scores.check()
        return Scorer(
            self.labels,
            scores,
            penalties=np.zeros(len(self.labels)),
            seen=self.seen,
            temperature=1.0,
            has_centers=False,
            transform=None if self.preprocessing is None else self.prepare,
            independence=Independence(self.thresholds, self.chances),
        )
