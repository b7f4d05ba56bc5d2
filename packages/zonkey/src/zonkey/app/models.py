"""A loaded model, and the samples of a source for it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders.class_texts import split_names
from ..errors import Problem
from ..files.bins import read_bins
from ..files.classes import Samples
from ..files.formats import cells
from ..inference.bins import BinClassifier
from ..inference.scorer import Rejection, unwrap
from ..labels import format_labels
from ..persistence.model import load_for_features, model_info
from .progress import Progress, watch_blocks
from .sources import EncodedStream, Encoders, Stream

# Entries of the training facts of a model file
FEATURE_NAMES, SAMPLE_NAMES = "feature_names", "sample_names"


@contextmanager
def ignore_missing_names() -> Iterator[None]:
    """Let arrays have no names of features: they were found by their names in the source."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of a file."""

    model: Any  # a classifier, or a pipeline that ends with one
    info: dict[str, Any]
    encoders: Encoders

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> LoadedModel:
        """Load a model file; the options are those of `Encoders`."""
        path = Path(path)
        model, info = load_for_features(path), model_info(path)
        facts = dict(info.get("training", {}))
        return cls(model, info, Encoders(path.name, facts, **options))

    @property
    def last(self) -> Any:
        """The classifier."""
        return unwrap(self.model)[1]

    def replace_last(self, last: Any) -> LoadedModel:
        """Return the same with another classifier."""
        if last is self.last:
            return self
        if self.last is self.model:
            return replace(self, model=last)
        other = copy.copy(self.model)
        other.steps = [*self.model.steps[:-1], (self.model.steps[-1][0], last)]
        return replace(self, model=other)

    def choose_from(self, candidates: str | Sequence[str]) -> LoadedModel:
        """Return the same with other candidates: "unseen", "all" or labels, with commas between."""
        wanted = self._split_candidates(candidates)
        if not wanted:
            return self
        self.require("with_candidates", "Choosing candidates")
        if len(wanted) == 1 and wanted[0] in ("unseen", "all"):
            return self.replace_last(self.last.with_candidates(wanted[0]))
        labels = self.convert_labels(np.array(wanted)).tolist()
        return self.replace_last(self.last.with_candidates(labels))

    def reject(self, below: float | None) -> LoadedModel:
        """Return the same with another least probability of an answer; None changes nothing."""
        if below is None:
            return self
        self.require("with_rejection", "`reject_below`", option="reject_below")
        return self.replace_last(self.last.with_rejection(below))

    def _split_candidates(self, given: str | Sequence[str]) -> list[str]:
        """Return the names of candidates; a label may hold a comma itself."""
        known = {str(row["label"]) for row in self.rows()}
        found: list[str] = []
        for text in [given] if isinstance(given, str) else given:
            found += [text] if text in known or "," not in text else split_names(text)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return label, kind and whether it is a candidate for each class of the model."""
        last = self.last
        candidates = set(np.asarray(last.classes_).tolist())
        seen = set(np.asarray(getattr(last, "seen_classes_", last.classes_)).tolist())
        unseen = set(np.asarray(getattr(last, "unseen_classes_", [])).tolist())
        tree = getattr(getattr(last, "state_", None), "tree", None)
        rows, nodes = [], set() if tree is None else {*tree.nodes.tolist()}
        for label in sorted(seen | unseen | candidates):
            kind, is_candidate = "seen" if label in seen else "unseen", label in candidates
            rows.append({"label": label, "kind": kind, "candidate": is_candidate})
            if tree is not None:
                rows[-1]["above"] = [*tree.path(label)[:-1]] if label in nodes else []
        return rows

    def require(self, method: str, purpose: str, option: str | tuple[str, ...] = ()) -> None:
        """Refuse a model that cannot do something."""
        if not hasattr(self.last, method):
            what = f"{type(self.last).__name__} has no `{method}`"
            remedy = "Fit one with zonkey fit, without --preset."
            raise Problem(purpose, "needs the recommended model", what, remedy, option=option)

    @contextmanager
    def refuse_kind(self, purpose: str) -> Iterator[None]:
        """Refuse a model of a kind that is not supported."""
        try:
            yield
        except TypeError:
            raise Problem(
                f"{purpose} does not work with {type(self.last).__name__}, the model of "
                f"{self.encoders.model}. Pass one that zonkey fit has written."
            ) from None

    def stream(self, source: str | Path, **options: Any) -> Stream:
        """Return the samples of a source, with the features of the model."""
        # The first of a model that was fitted on a DataFrame, the second of `zonkey fit`.
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            names = self.info.get("training", {}).get(FEATURE_NAMES)
        return self.encoders.stream(
            source,
            n_features=self.info["summary"]["n_features"],
            feature_names=None if names is None else list(names),
            **options,
        )

    def convert_labels(self, labels: np.ndarray) -> np.ndarray:
        """Convert labels of a file, which are text, to the type of the model's labels."""
        known = np.asarray(self.last.classes_)
        if known.dtype.kind == "U":
            return labels
        try:
            return labels.astype(known.dtype)
        except ValueError:
            raise ValueError(
                "Labels must be numbers, as those of the model are; got "
                f"{format_labels(labels, 3)}. Use the labels of the training."
            ) from None


def bin_model(model: Any, bins: str | Path) -> BinClassifier:
    """Return a classifier that answers with the bins of a file."""
    if not hasattr(model, "predict_proba"):
        what = f"{type(model).__name__} has none"
        raise Problem("`bins`", "need probabilities", what, "Use another model.", option="bins")
    known, read = np.asarray(model.classes_), read_bins(bins)
    if known.dtype.kind != "U":  # labels of a file are text
        named = {str(label): label for label in known.tolist()}
        read = {name: [named.get(label, label) for label in own] for name, own in read.items()}
    rejection = model.scorer_.rejection if hasattr(model, "scorer_") else Rejection(None, None)
    found = BinClassifier(model, read, rejection.below, rejection.label)
    _ = found.members_  # refuses unknown classes before samples are read
    return found


def kept_rows(model: Any) -> list[int]:
    """Return the rows of the training samples that a model keeps."""
    reserve = getattr(getattr(model, "state_", None), "reserve", None)  # not in all models
    return [] if reserve is None else reserve.rows.tolist()


def read_rows(stream: Stream, doing: str, progress: Progress, *, labeled: bool = False) -> Samples:
    """Read all samples of a source. With `labeled`, those without a label are left out."""
    return Samples.of(watch_blocks(stream, doing, progress), labeled=labeled)


def require_labeled(y: np.ndarray | None, source: str | Path) -> np.ndarray:
    """Return labels, of which there must be one at least."""
    if y is None or not len(y):
        raise Problem(f"{source} must have rows with a label; it has none. Add some.")
    return y


def row_of(stream: Stream, row: int, source: str | Path) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the features of one row, and its other cells."""
    n, first = stream.total or 0, 0
    if isinstance(stream, EncodedStream) and row < n:  # others need not be encoded
        stream, first = replace(stream, source=stream.items.subset([row])), row
    for block in stream:
        if row < first + len(block.X):
            carried = {name: cells(c)[row - first] for name, c in block.carried.items()}
            return block.X[row - first], carried
        first += len(block.X)
    rule = f"must be below the {first} rows of {source}"
    raise Problem("`row`", rule, f"got {row}", "Rows are counted from 0.", option="row")
