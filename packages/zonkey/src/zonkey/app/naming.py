"""Models for `classify`: from the names of classes, and from labeled samples if there are any."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ..anyshot.classifier import AnyShotClassifier
from ..encoders import ClassTexts
from ..encoders.class_texts import fold_name, has_column
from ..encoders.stream import LABEL, PictureStream, TextStream
from ..encoders.text_encoder import NAME_TEMPLATES
from ..encoders.texts import is_texts
from ..errors import Problem
from ..presets import pretrained
from ..prototypes import Prototypes
from .fitting_in_memory import say_space
from .models import read_rows
from .prediction import require_top
from .progress import Progress, Step
from .sources import SAMPLE_COLUMN, EncodedStream, Encoders

_FOLDS = 5  # of labeled samples
_ENOUGH = 500  # left-out samples to choose a model on


@dataclass(frozen=True)
class NamingTask:
    """Samples to classify, labeled samples or None, and their encoders."""

    stream: EncodedStream
    labeled: EncodedStream | None
    encoders: Encoders
    held_out: EncodedStream | None = None  # labeled samples that a precision is chosen on

    @classmethod
    def open(
        cls,
        source: str | Path,
        shots: str | Path | None,
        encoders: Encoders,
        text_column: str | None = None,
        label_column: str | None = None,
        held_out: str | Path | None = None,
    ) -> NamingTask:
        """List the samples, and encode none."""
        wanted: dict[str, Any] = {"label_column": label_column, "on_error": encoders.on_error}
        make: Any = PictureStream
        if text_column is not None or is_texts(source, None, label_column):
            make, encoder = TextStream, encoders.texts()
            needed = label_column is not None and shots is None  # else the shots may have it alone
            stream = make(source, encoder, with_labels=needed, text_column=text_column, **wanted)
            encoders.facts[SAMPLE_COLUMN] = column = stream.items.column
            if shots is not None and has_column(shots, column):
                wanted["text_column"] = column
        else:
            encoder = encoders.images()
            stream = make(source, encoder, **wanted)
        given = {"shots": shots, "held_out": held_out}
        labeled = {
            name: _select_labeled(make(path, encoder, with_labels=True, **wanted), name)
            for name, path in given.items()
            if path is not None
        }
        return cls(stream, labeled.get("shots"), encoders, labeled.get("held_out"))

    @property
    def label(self) -> str:
        """Column of the labels of the samples."""
        column = self.stream.items.label_column if isinstance(self.stream, TextStream) else None
        return column or LABEL

    @property
    def is_pretrained(self) -> bool:
        """Whether a pretrained model knows what the names look like."""
        given = self.encoders.encoder, self.encoders.text_encoder
        return isinstance(self.stream, PictureStream) and given == (None, None)

    def make_model(self, texts: ClassTexts | None, top: int, progress: Progress) -> Any:
        """Return a model that chooses from the classes; refuse too few classes."""
        progress(Step("Loading the pretrained model" if self.is_pretrained else "Encoding names"))
        known = None
        if texts is not None:
            usual = NAME_TEMPLATES if self.is_pretrained else None
            known = self.encoders.prototypes_of(texts, self.stream, usual)
        if self.is_pretrained:
            model: Any = pretrained(classes=known)
            require_top(top, len(model.classes_), "classes")
            if texts is None or known is None or self.labeled is None:
                return model
            return learn_shots(model, known, *self._read_shots(texts, progress), progress)
        if texts is None or known is None:
            remedy = "Pass `classes` or `shots`."
            options = "classes", "shots"
            raise Problem("`classes`", "must be named", "got none", remedy, option=options)
        require_top(top, len(known), "classes")
        if self.labeled is not None:
            X, y = self._read_shots(texts, progress)
            model = AnyShotClassifier(known)
            return say_space(model, self.encoders.space).fit(X, y)
        self._require_joint(known)
        return fit_names(known)

    def adapt_model(self, model: Any, X: np.ndarray) -> Any:
        """Return a model after learning from samples without labels."""
        if model.prototypes is not None and not self.is_pretrained and self.labeled is None:
            model = fit_names(model.prototypes, X)  # where samples lie, as seen from the names
        return model.adapt(X)

    def _require_joint(self, known: Prototypes) -> None:
        """Refuse names alone if they cannot be compared with samples."""
        encoder, other = self.stream.encoder.spec_, self.encoders.text_encoder
        is_as_long = known.n_dimensions == encoder["dimension"]
        # Two graphs that were named together are a pair, even if they do not say so.
        are_named = None not in (self.encoders.encoder, other)
        if self.encoders.space == "joint" or (are_named and is_as_long):
            return
        rule = "must be one of a pair with one space, such as clip-vit-b32, to classify by names"
        what = f"{encoder['name']} {'is none' if encoder['space'] is None else 'is half of one'}"
        remedy = "Choose another, name its `text_encoder`, or pass labeled samples with `shots`."
        options = "encoder", "text_encoder", "shots"
        raise Problem("`encoder`", rule, what, remedy, option=options)

    def _read_shots(self, texts: ClassTexts, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        assert self.labeled is not None
        shots = read_rows(self.labeled, "Encoding labeled samples", progress, labeled=True)
        assert shots.labels is not None
        spelled = {fold_name(label): label for label in texts.labels.tolist()}
        y = [spelled[fold_name(label)] for label in shots.labels.tolist()]
        return shots.matrix, np.array(y)


def learn_shots(
    base: Any, known: Prototypes, X: np.ndarray, y: np.ndarray, progress: Progress
) -> Any:
    """Return the pretrained model after learning from shots, or a model of the shots alone.

    The pretrained model gains little from many shots of pictures unlike photos. The one that names
    more left-out shots is taken. Classes without shots need the pretrained model.
    """
    own: Any = AnyShotClassifier(known)
    labels, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = counts[inverse] > 1
    right, n_judged = [0, 0], 0
    if several.any() and len(labels) == len(known.at_leaves()):
        progress(Step("Choosing a model on left-out samples"))
        folds = _draw_folds(inverse, several)
        for fold in range(folds.max() + 1):
            if n_judged >= _ENOUGH:
                break
            kept, held = folds != fold, folds == fold
            alone: Any = clone(own)
            models = copy.copy(base).partial_fit(X[kept], y[kept]), alone.fit(X[kept], y[kept])
            for place, model in enumerate(models):
                right[place] += int((model.predict(X[held]) == y[held]).sum())
            n_judged += int(held.sum())
    if right[1] <= right[0]:
        return base.partial_fit(X, y)
    shares = [f"{100 * n / n_judged:.0f} %" for n in right]
    note = f"Learned from the shots alone: of left-out ones {shares[1]} are right, {shares[0]} with"
    progress(Step("Learning from labeled samples", note=f"{note} the pretrained model."))
    return own.fit(X, y)


def _draw_folds(classes: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Return the fold of each sample, in which it is left out; -1 if it never is."""
    folds = np.full(len(classes), -1)
    order = np.random.default_rng(0).permutation(len(classes))
    for label in np.unique(classes[several]):
        rows = order[classes[order] == label]
        folds[rows] = np.arange(len(rows)) % _FOLDS
    return folds


def fit_names(known: Prototypes, X: np.ndarray | None = None) -> Any:
    """Return a model that compares samples with the prototypes of classes, in one space."""
    return AnyShotClassifier(known, space="joint").fit(X)


def _select_labeled(stream: EncodedStream, name: str) -> EncodedStream:
    """Return the samples that have a label and are not marked `test`."""
    given: Any = stream.items
    used = given.labels != ""
    if given.split is not None:
        used &= given.split != "test"
    if not used.any():
        rule = "must hold labeled samples that are not marked `test`"
        raise Problem(f"`{name}`", rule, f"{given.source} has none", "Add some.", option=name)
    chosen = given.subset(np.flatnonzero(used))
    return replace(stream, source=chosen, label_column=None)
