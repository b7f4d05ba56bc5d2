"""What a fitted classifier answers among its seen, its unseen and all its classes.

Samples are scored once, in blocks. Only a few numbers per sample are kept: the best class, the rank
of the true class, and two probabilities. Memory does not grow with the number of classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import softmax, to_numpy
from ..config import rows_per_block
from ..inference.bins import BinClassifier
from ..inference.nodes import choose_nodes
from ..inference.predict import ScoresMixin
from ..inference.scorer import unwrap
from ..labels import as_labels
from ..samples import pick_rows
from ..tree import Tree
from .tree_figures import find_nodes

SETS = ("unseen", "seen", "all")


def _refuse_rejection(model: Any) -> None:
    if isinstance(model, BinClassifier) and model.reject_below is not None:
        raise ValueError(
            "`model` must answer every sample with a bin to be evaluated; it rejects those below "
            f"{model.reject_below:g}. Pass model.with_rejection(None).with_bins(bins)."
        )


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted classifier and the classes it is evaluated on."""

    model: Any  # classifier, without preprocessing, whose candidates are `labels`
    preprocessing: Any  # fitted steps before it, or None
    labels: np.ndarray  # classes of the columns of its scores
    seen: np.ndarray  # those of them with training samples
    temperatures: Mapping[str, float]  # by set of candidates, for models of this library
    reject_below: float | None = None  # lowest accepted probability
    trees: Mapping[str, Tree] = field(default_factory=dict)  # by set of candidates

    @classmethod
    def from_model(cls, model: Any) -> Subject:
        """Return the subject of a fitted classifier, search or pipeline."""
        preprocessing, last = unwrap(unwrap_search(model))
        if not hasattr(last, "predict"):
            raise TypeError(
                "`model` must be a fitted classifier, or a Pipeline that ends in one; got "
                f"{type(last).__name__}, which cannot predict. Pass the classifier."
            )
        check_is_fitted(last)
        if not hasattr(last, "classes_"):
            raise TypeError(
                f"`model` must be a classifier, with `classes_`; got {type(last).__name__}. Pass "
                "a classifier."
            )
        _refuse_rejection(last)
        candidates = to_numpy(last.classes_)
        if not (hasattr(last, "with_candidates") and hasattr(last, "seen_classes_")):
            labels = as_labels(candidates, "classes_")
            return cls(last, preprocessing, labels, labels, {})
        seen = to_numpy(last.seen_classes_)
        labels = candidates
        # As fitted: parameters may have been set since.
        if isinstance(last.scorer_.candidates, str):
            new = getattr(last, "novel_classes_", last.unseen_classes_)
            labels = np.union1d(seen, to_numpy(new))
        seen = np.intersect1d(seen, labels)
        sets = {"unseen": np.setdiff1d(labels, seen), "seen": seen, "all": labels}
        copies = {
            name: last.with_candidates(chosen.tolist())
            for name, chosen in sets.items()
            if chosen.size
        }
        temperatures = {
            name: float(copy.temperature_)
            for name, copy in copies.items()
            if hasattr(copy, "temperature_")
        }
        below = last.scorer_.rejection.below
        model = copies["all"]
        trees = {name: getattr(copy, "tree_", None) for name, copy in copies.items()}
        trees = {name: tree for name, tree in trees.items() if tree is not None}
        labels = to_numpy(model.classes_)
        return cls(model, preprocessing, labels, seen, temperatures, below, trees)


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to some samples among one set of candidates; one entry per sample."""

    positions: np.ndarray  # of the samples
    predicted: np.ndarray  # column of the best class
    right: np.ndarray  # whether it is the true class
    rank: np.ndarray | None  # number of classes before the true one; None without scores
    confidence: np.ndarray | None  # highest probability; None without probabilities
    truth: np.ndarray | None  # probability of the true class
    rejected: np.ndarray | None  # whether the model rejects the sample; None if it rejects none
    n_candidates: int
    nodes: np.ndarray | None = None  # most probable nodes at the levels of a tree, then the answer

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the answers to the samples of all parts."""
        return cls(**_join_fields(parts), n_candidates=parts[0].n_candidates)


@dataclass(frozen=True, eq=False)
class Strangeness:
    """What a model says of samples whose class it may not know; one entry per sample.

    `novelty` is how unlike all classes a sample is: that of the model, or 1 less the highest
    probability for models of other libraries; None if the model has neither. `rejected` is None if
    the model rejects no sample. `doubt` is 1 less the highest probability; None if it is the
    novelty.
    """

    novelty: np.ndarray | None
    rejected: np.ndarray | None
    doubt: np.ndarray | None = None

    @classmethod
    def of(cls, subject: Subject, X: Any, n: int) -> Strangeness:
        """Return what a model says of n samples, in blocks."""
        model, is_own = subject.model, isinstance(subject.model, ScoresMixin)
        parts = [cls(None, None)]
        for _, block in _blocks(subject, X, n):
            novelty = rejected = doubt = None
            if hasattr(model, "novelty"):
                novelty = to_numpy(model.novelty(block)).astype(np.float64)
            if hasattr(model, "predict_proba") and (novelty is not None or not is_own):
                P = to_numpy(model.predict_proba(block))
                highest, tree = P.max(axis=1), subject.trees.get("all")
                doubt = 1 - highest.astype(np.float64)
                if subject.reject_below is not None:
                    rejected = highest < subject.reject_below
                    if tree is not None:
                        _, rejected = choose_nodes(tree, P, None, subject.reject_below)
            if novelty is None:
                novelty, doubt = doubt, None
            parts.append(cls(novelty, rejected, doubt))
        return cls.join(parts)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return what the model says of the samples of all parts; those of empty ones are None."""
        return cls(**_join_fields(parts))

    def put_last(self, is_stranger: np.ndarray) -> Strangeness:
        """Return the same with the strangers after the other samples."""
        order = np.argsort(is_stranger, kind="stable")
        parts = (self.novelty, self.rejected, self.doubt)
        return Strangeness(*(None if part is None else part[order] for part in parts))

    def rankings(self) -> dict[str, np.ndarray]:
        """Return what may tell strangers from others, the higher the stranger."""
        found = {"novelty": self.novelty, "doubt": self.doubt}
        return {name: values for name, values in found.items() if values is not None}


def _join_fields(parts: Sequence[Any]) -> dict[str, Any]:
    """Return the arrays of all parts, one after the other; those that no part has are None."""
    found: dict[str, Any] = {}
    for name in (one.name for one in fields(parts[0]) if one.name != "n_candidates"):
        filled = [own for part in parts if (own := getattr(part, name)) is not None]
        found[name] = np.concatenate(filled) if filled else None
    return found


def unwrap_search(model: Any) -> Any:
    """Return the best estimator of a search, and everything else as it is."""
    return unwrap_search(model.best_estimator_) if hasattr(model, "best_estimator_") else model


def answers_of(
    subject: Subject, X: Any, y: np.ndarray, seen: np.ndarray
) -> tuple[dict[str, Answers], np.ndarray | None]:
    """Return the answers by set of candidates, and the margins of the best seen class.

    `seen` are the classes that count as seen, for samples and for candidates. The margin is the
    best seen score less the best unseen one; None if the model knows one kind only.
    """
    is_seen_column, is_seen = np.isin(subject.labels, seen), np.isin(y, seen)
    every = np.ones(len(subject.labels), bool)
    masks = {"unseen": ~is_seen_column, "seen": is_seen_column, "all": every}
    columns = {name: np.flatnonzero(mask) for name, mask in masks.items() if mask.any()}
    true = positions_in(subject.labels, y)
    parts: dict[str, list[Answers]] = {name: [] for name in columns}
    margins: list[np.ndarray] = []
    for block in _score_blocks(subject, X, len(y)):
        here = is_seen[block.positions]
        rows = {"unseen": ~here, "seen": here, "all": np.ones_like(here)}
        for name, chosen in columns.items():
            if rows[name].any():
                parts[name].append(block.answer_among(name, chosen, rows[name], true, subject))
        if len(columns) == len(SETS) and block.scores is not None:
            best = [block.scores[:, columns[name]].max(axis=1) for name in ("seen", "unseen")]
            margins.append((best[0] - best[1]).astype(np.float64))
    answers = {name: Answers.join(found) for name, found in parts.items() if found}
    return answers, np.concatenate(margins) if margins else None


@dataclass(frozen=True, eq=False)
class _Scored:
    """Scores, probabilities and predicted columns of consecutive samples; None if unknown."""

    positions: np.ndarray
    scores: np.ndarray | None
    probabilities: np.ndarray | None
    predicted: np.ndarray | None

    def answer_among(
        self, name: str, columns: np.ndarray, rows: np.ndarray, true: np.ndarray, subject: Subject
    ) -> Answers:
        """Return the answers to some of the samples among some columns."""
        positions = self.positions[rows]
        places = positions_in(columns, true[positions])
        rank = confidence = truth = rejected = None
        probabilities: np.ndarray | None = None
        predicted = None if self.predicted is None else self.predicted[rows]
        if self.scores is not None:
            scores = self.scores[rows][:, columns]
            if predicted is None:
                predicted = columns[scores.argmax(axis=1)]
            rank = _ranks(scores, places)
            if name in subject.temperatures:
                probabilities = to_numpy(softmax(scores / subject.temperatures[name]))
        assert predicted is not None
        right = predicted == true[positions]
        if rank is not None:  # some classifiers predict another class than that of the best score
            rank = np.where(right, 0, np.maximum(rank, 1))
        if self.probabilities is not None:
            probabilities = self.probabilities[rows][:, columns]
        if probabilities is not None:
            confidence = np.clip(probabilities.max(axis=1), 0, 1).astype(np.float64)
            truth = np.take_along_axis(probabilities, places[:, None], axis=1)[:, 0]
            truth = np.where(places < 0, 0.0, truth.astype(np.float64))
            if subject.reject_below is not None:
                rejected = confidence < subject.reject_below
        n, nodes = len(columns), None
        if probabilities is not None and name in subject.trees:
            nodes = find_nodes(subject.trees[name], probabilities, subject.reject_below)
            if rejected is not None:
                rejected = nodes[:, -1] < 0
        return Answers(positions, predicted, right, rank, confidence, truth, rejected, n, nodes)


def _blocks(subject: Subject, X: Any, n: int) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield the positions and the preprocessed samples of blocks."""
    rows = rows_per_block(32 * len(subject.labels))
    for start in range(0, n, rows):
        positions = np.arange(start, min(start + rows, n))
        block = pick_rows(X, positions)
        if subject.preprocessing is not None:
            block = subject.preprocessing.transform(block)
        yield positions, block


def _score_blocks(subject: Subject, X: Any, n: int) -> Iterator[_Scored]:
    """Yield the scores of blocks of samples."""
    model, labels = subject.model, subject.labels
    # Models of this library predict the class of the best score; ask all other models.
    is_own = isinstance(model, ScoresMixin)
    by_pairs = getattr(model, "decision_function_shape", None) == "ovo"
    has_scores = hasattr(model, "decision_function") and not by_pairs
    for positions, block in _blocks(subject, X, n):
        scores = probabilities = predicted = None
        if has_scores:
            scores = _as_columns(to_numpy(model.decision_function(block)), len(labels))
        if not is_own:
            predicted = positions_in(labels, as_labels(to_numpy(model.predict(block))))
            if hasattr(model, "predict_proba"):
                probabilities = to_numpy(model.predict_proba(block))
                scores = probabilities if scores is None else scores
        yield _Scored(positions, scores, probabilities, predicted)


def positions_in(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the position of each value among the known ones, -1 for unknown values."""
    order = np.argsort(known, kind="stable")
    places = order[np.minimum(np.searchsorted(known[order], values), len(known) - 1)]
    return np.where(known[places] == values, places, -1)


def _as_columns(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return one column per class; of two classes, only the difference is given."""
    if scores.ndim == 1 and n_classes == 2:
        return np.stack([np.zeros_like(scores), scores], axis=1)
    return scores.reshape(len(scores), n_classes)


def _ranks(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return how many columns come before that of the true class; ties keep their order."""
    own = np.take_along_axis(scores, places[:, None], axis=1)
    before = (scores == own) & (np.arange(scores.shape[1]) < places[:, None])
    ranks = (scores > own).sum(axis=1) + before.sum(axis=1)
    return np.where(places < 0, scores.shape[1], ranks)
