"""Evaluate a model of several labels per sample: figures, and how they vary with the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..arrays import to_numpy
from ..inference.scorer import find_scorer, unwrap
from ..labels import format_labels, format_value, warn_user
from ..metrics.intervals import class_bootstrap, interval_of
from ..metrics.multilabel import average_precisions, calibration_gaps
from ..multilabel.marks import read_marks
from ..preprocessing import FeatureNormalizer
from .label_result import LabelEvaluation
from .measures import N_BINS, Measured

_N_DRAWS = 500
_BASELINE = "logistic"
_NOTE = (
    "scikit-learn's LogisticRegression per label with its default parameters, on standardized "
    "features; a label is predicted from a probability of 0.5 on; labels without positive training "
    "samples never."
)


def is_multi_label(model: Any) -> bool:
    """Whether a fitted model predicts any number of labels for a sample."""
    _, last = unwrap(model)
    scorer = find_scorer(last) if hasattr(type(last), "scorer_") else None
    return scorer is not None and scorer.independence is not None


def evaluate_labels(
    model: Any,
    X: Any,
    y: Any,
    *,
    baselines: tuple[str, ...],
    training: Any,
    confidence: float,
    seed: int,
    describe: Callable[[int, int], dict[str, Any]],
) -> LabelEvaluation:
    """Return all figures of a model of several labels; `describe` tells how to repeat them.

    It takes the number of samples and the number of draws.
    """
    steps, last = unwrap(model)
    labels = last.classes_
    Z = X if steps is None else steps.transform(X)
    P = to_numpy(last.predict_proba(Z)).astype(np.float64)
    Y = _read_truth(y, labels, len(P))
    seen = np.isin(labels, last.seen_classes_)
    answers = [(type(last).__name__, P, last.predict(Z), ())]
    wrong = [name for name in baselines if name != _BASELINE]
    if wrong:
        raise ValueError(
            f'`baselines` of several labels must be "{_BASELINE}"; got {format_value(wrong[0])}. '
            "Leave it out."
        )
    if baselines:
        answers.append(_fit_baseline(last, X, training))
    models = []
    for name, found, predicted, notes in answers:
        figures = LabelFigures(Y, found, predicted, seen)
        models.append(figures.measure(name, notes, confidence, seed))
    return LabelEvaluation(
        models=tuple(models),
        labels=labels,
        is_seen=seen,
        truth=Y,
        proba=P,
        predicted=answers[0][2],
        thresholds=last.thresholds_,
        confidence=confidence,
        provenance=describe(len(Y), _N_DRAWS),
    )


def _read_truth(y: Any, labels: np.ndarray, n: int) -> np.ndarray:
    """Return true labels as an indicator matrix; warn of labels that the model does not know."""
    marks = read_marks(y, n, labels)
    others = np.setdiff1d(marks.list_used(), labels)
    if others.size:
        warn_user(
            f"Labels should be known to the model; {format_labels(others)} are not, and are left "
            "out. Add them by with_classes."
        )
    if not np.isin(marks.list_used(), labels).any():
        raise ValueError(
            f"`y` must mark labels of the model, {format_labels(labels)}; got none. Correct the "
            "labels."
        )
    return marks.widen(labels).truth()


def _fit_baseline(last: Any, X: Any, training: Any) -> tuple[str, np.ndarray, np.ndarray, Any]:
    is_pair = isinstance(training, tuple | list) and len(training) == 2
    if not is_pair:
        raise ValueError(
            "`training` must be a pair (X, y) that baselines learn from; got "
            f"{type(training).__name__}. Pass what the model was fitted on."
        )
    Y = np.maximum(last.read_labels(training[1]), 0)  # unknown labels count as not marked
    varies = (Y.min(axis=0) == 0) & (Y.max(axis=0) == 1)
    n = len(to_numpy(X))
    P = np.tile(Y.min(axis=0).astype(float), (n, 1))
    if varies.any():
        each = OneVsRestClassifier(LogisticRegression())
        model = make_pipeline(FeatureNormalizer(), StandardScaler(), each)
        model.fit(to_numpy(training[0]), Y[:, varies])
        found = model.predict_proba(to_numpy(X))
        P[:, varies] = found[:, -varies.sum() :]  # of one label, the first column is its absence
    return _BASELINE, P, (P > 0.5).astype(int), (_NOTE,)


class LabelFigures:
    """Figures of one model as functions of how often each sample counts."""

    def __init__(
        self, Y: np.ndarray, P: np.ndarray, predicted: np.ndarray, seen: np.ndarray
    ) -> None:
        self.Y, self.P = Y, P
        known = Y >= 0
        self.hits = ((Y == 1) & (predicted == 1)).astype(np.float64)
        self.answers = (known & (predicted == 1)).astype(np.float64)
        self.positives = (Y == 1).astype(np.float64)
        self.losses, self.ranked = ranking_losses(Y, P)
        self.groups: dict[str, np.ndarray] = {"": np.ones(len(seen), bool)}
        has = (Y == 1).any(axis=0)
        if (has & seen).any() and (has & ~seen).any():
            self.groups |= {"_seen": seen, "_unseen": ~seen}

    def values(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return each figure for each row of sample counts; NaN where it does not exist."""
        hits, answers, positives = (
            counts @ part for part in (self.hits, self.answers, self.positives)
        )
        precisions = average_precisions(self.Y, self.P, counts)
        found: dict[str, np.ndarray] = {}
        with np.errstate(invalid="ignore", divide="ignore"):
            found["micro_f1"] = 2 * hits.sum(axis=1) / (answers + positives).sum(axis=1)
            each = np.where(positives > 0, 2 * hits / (answers + positives), np.nan)
            for group, mask in self.groups.items():
                found[f"macro_f1{group}"] = _mean(each[:, mask])
            for group, mask in self.groups.items():
                found[f"mean_average_precision{group}"] = _mean(precisions[:, mask])
            ranked = counts @ self.ranked
            found["ranking_loss"] = (counts @ self.losses) / ranked
            gaps, totals = calibration_gaps(self.Y, self.P, counts, N_BINS)
            found["ece"] = np.abs(gaps).sum(axis=1) / totals
        return found

    def measure(self, name: str, notes: tuple[str, ...], confidence: float, seed: int) -> Measured:
        """Return all figures with their intervals, by resampling samples."""
        n = len(self.Y)
        now = {key: float(v[0]) for key, v in self.values(np.ones((1, n))).items()}
        draws = [self.values(counts) for counts in _draw(n, seed)]
        scores = {key: value for key, value in now.items() if not np.isnan(value)}
        intervals = {
            key: interval_of(value, np.concatenate([draw[key] for draw in draws]), confidence)
            for key, value in scores.items()
        }
        sizes = dict.fromkeys(scores, n)
        return Measured(name, {}, None, scores, intervals, sizes, notes)


def _draw(n: int, seed: int) -> Iterator[np.ndarray]:
    """Yield sample counts of resamples; all samples are one class, so only they vary."""
    one = partial(np.zeros, dtype=int)
    yield from class_bootstrap(one(n), one(1), _N_DRAWS, seed)


def ranking_losses(Y: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of wrongly ordered pairs of labels of each sample, and which have pairs.

    A pair has a label that applies and one that does not; equal probabilities are wrong.
    """
    on, known = Y == 1, Y >= 0
    # How many labels are at least as probable: all, and among those that apply.
    above = rankdata(np.where(known, -P, np.inf), method="max", axis=1)
    own = rankdata(np.where(on, -P, np.inf), method="max", axis=1)
    wrong = np.where(on, above - own, 0).sum(axis=1)
    pairs = on.sum(axis=1) * (Y == 0).sum(axis=1)
    return wrong / np.maximum(pairs, 1), (pairs > 0).astype(np.float64)


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of each row without NaN; NaN if there is nothing else."""
    used = ~np.isnan(values)
    total = np.where(used, values, 0).sum(axis=1)
    return total / used.sum(axis=1)
