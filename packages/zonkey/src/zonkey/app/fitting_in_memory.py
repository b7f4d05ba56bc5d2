"""Read samples and classes to fit a model to, and fit one to samples in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..anyshot.classifier import AnyShotClassifier
from ..encoders.class_texts import class_texts, has_column, is_code
from ..encoders.collection import TABLES
from ..encoders.stream import PictureStream, TextStream
from ..errors import DataError, Problem
from ..files.dataset import Dataset, LazyMatrix
from ..files.own import dataset_of, missing_prototypes, read_samples, wrong_marks
from ..inference.scorer import unwrap
from ..labels import format_labels, warn_user
from ..presets import paper, recommended
from ..prototypes import Prototypes
from .inputs import find_spellings
from .models import FEATURE_NAMES, SAMPLE_NAMES, kept_rows, read_rows
from .progress import Progress, Step, ignore
from .sources import (
    ENCODER,
    SAMPLE_COLUMN,
    TEXT_COLUMNS,
    TEXT_ENCODER,
    EncodedStream,
    Encoders,
    Stream,
)

PRESETS = {"recommended": recommended, "paper": paper}


@dataclass(frozen=True, eq=False)
class FitInput:
    """Samples and classes to learn from."""

    source: Path
    classes: Path | None  # None: those of the samples
    encoders: Encoders
    unlabeled: Path | None = None
    label_column: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # where labels and features are
    progress: Progress = ignore

    def open(self, **options: Any) -> Stream:
        """Return the samples, of which each needs a label."""
        column = self._column_of_samples()
        stream = self.encoders.stream(
            self.source, with_labels=True, label_column=column, **self.keys, **options
        )
        if isinstance(stream, TextStream):
            self.encoders.facts[SAMPLE_COLUMN] = stream.items.column
        return stream

    def read(self) -> tuple[Dataset, tuple[str, ...]]:
        """Read samples and classes; also return the names of the samples, if known.

        The entries `skipped` and `joined` of `about` are errors and respelled labels of pictures
        and texts.
        """
        names = _name(self.source), _name(self.classes or self.source)
        stream = self.open()
        self.progress(Step("Reading"))
        if not isinstance(stream, EncodedStream):
            samples = read_samples(self.source, stream)
            known, columns = self._read_classes(stream, samples.labels)
            return dataset_of(samples, known, names, columns=columns, name=names[0]), samples.names
        known, columns = self._read_classes(stream, stream.items.labels)
        joined = _join_labels(stream, known.labels)
        # Check everything before the samples are encoded, which takes long.
        _check_labels(stream, known.labels, names)
        what = "Encoding texts" if isinstance(stream, TextStream) else "Encoding pictures"
        samples = read_rows(stream, what, self.progress, labeled=True)
        samples = replace(samples, matrix=LazyMatrix.of(samples.matrix, names[0]))
        _tell_lost_classes(stream, samples.labels)
        about = {"skipped": [str(error) for error in stream.skipped], "joined": joined}
        data = dataset_of(samples, known, names, columns=columns, name=names[0], about=about)
        return data, samples.names

    def _read_classes(
        self, stream: Stream, labels: np.ndarray | None
    ) -> tuple[Prototypes, tuple[str, ...]]:
        """Return the prototypes of a file, else those of the names of the samples' classes."""
        if self.classes is not None:
            return self.encoders.prototypes(self.classes, self.label_column, of=stream)
        assert labels is not None
        found = np.unique(labels[labels != ""])
        if ENCODER in self.encoders.facts and not all(map(is_code, found.tolist())):
            return self.encoders.prototypes_of(class_texts(found.tolist()), stream), ()
        return Prototypes(found, np.arange(1.0, len(found) + 1)[:, None]), ()  # `has_semantics`

    @property
    def has_semantics(self) -> bool:
        """Whether prototypes describe the classes, instead of numbering them."""
        return self.classes is not None or TEXT_ENCODER in self.encoders.facts

    def _column_of_samples(self) -> str | None:
        """Return the column of the labels of samples; a folder without table has none."""
        if self.classes is None:
            return self.label_column
        has_table = any((self.source / name).exists() for name in TABLES)
        of_classes = self.label_column and has_column(self.classes, self.label_column)
        return None if self.source.is_dir() and not has_table and of_classes else self.label_column

    def read_unlabeled(self, names: list[str] | None, n_features: int) -> np.ndarray:
        """Read the samples without labels."""
        assert self.unlabeled is not None
        stream = self.encoders.stream(self.unlabeled, n_features=n_features, feature_names=names)
        return read_rows(stream, "Reading unlabeled samples", self.progress).matrix

    def facts(self, names: list[str] | None) -> dict[str, Any]:
        """Return what a model file says about the training."""
        files = {"features": self.source, "prototypes": self.classes, "unlabeled": self.unlabeled}
        facts: dict[str, Any] = {
            name: _name(path) for name, path in files.items() if path is not None
        }
        used = {name: self.encoders.facts.get(name) for name in (ENCODER, TEXT_ENCODER)}
        used |= {name: self.encoders.facts.get(name) for name in (SAMPLE_COLUMN, TEXT_COLUMNS)}
        used[FEATURE_NAMES] = names
        return facts | {name: value for name, value in used.items() if value is not None}


def _name(path: Path) -> str:
    return path.name or path.resolve().name  # of "."


def _join_labels(stream: EncodedStream, known: np.ndarray) -> dict[str, str]:
    """Give samples the labels of the classes, and return those in another spelling."""
    labels = stream.items.labels
    assert labels is not None
    joined = find_spellings("source", np.unique(labels).tolist(), known.tolist())
    spelled = np.array([joined.get(label, label) for label in labels.tolist()], dtype=str)
    given: Any = stream  # pictures or texts
    given.items = replace(given.items, labels=spelled)
    return joined


def _check_labels(stream: EncodedStream, known: np.ndarray, names: tuple[str, str]) -> None:
    """Refuse labels and marks that cannot be used."""
    given = stream.items
    assert given.labels is not None
    if (given.labels == "").any():
        missing = given.names[int(np.argmax(given.labels == ""))]
        kind, remedy = "Texts", "Fill it in"
        if isinstance(stream, PictureStream):
            kind, remedy = "Pictures", "Move it into the folder of its class, or fill in its label"
        raise DataError(f"{kind} need labels; {missing} of {names[0]} has none. {remedy}.")
    problems = missing_prototypes(
        np.unique(given.labels), known, *names, needed="name or description"
    )
    if given.split is not None:
        problems += wrong_marks(given.labels, given.split, names[0], 2)
    if problems:
        raise DataError(problems[0])


def _tell_lost_classes(stream: EncodedStream, y: np.ndarray | None) -> None:
    """Warn of classes whose samples were all skipped: they count as unseen."""
    assert stream.items.labels is not None
    assert y is not None
    lost = np.setdiff1d(stream.items.labels, y)
    if lost.size:
        kind = "picture" if isinstance(stream, PictureStream) else "text"
        warn_user(
            f"Classes should have a {kind} that can be read; {format_labels(lost)} has none, and "
            f"counts as unseen. Replace its {kind}s, or drop the class."
        )


def make_model(training: FitInput, preset: str, known: Any, parameters: dict[str, Any]) -> Any:
    """Return the model of a preset, which knows whether samples and classes share a space."""
    if preset != "recommended":
        if not training.has_semantics:
            what, remedy = f"{_name(training.source)} has none", "Pass `classes`."
            options = "preset", "classes"
            raise Problem(f"`preset` {preset}", "needs prototypes", what, remedy, option=options)
        return PRESETS[preset](known.at_leaves(), **parameters)  # it knows no tree
    if not training.has_semantics:
        return AnyShotClassifier(**parameters)
    return say_space(recommended(known, **parameters), training.encoders.space)


def say_space(model: Any, space: str) -> Any:
    """Tell a model whether samples and classes were encoded to one space."""
    return model.set_params(space=space) if "space" in model.get_params() else model


def learn_in_memory(
    training: FitInput, preset: str, parameters: dict[str, Any], _: Path, write: Any
) -> dict[str, Any]:
    """Fit a model to samples in memory, and write it; return the samples."""
    (data, called), say = training.read(), training.progress
    names = data.about.get("feature_names")
    extra = None
    if training.unlabeled is not None:
        extra = training.read_unlabeled(names, data.shape[1])
    model = make_model(training, preset, data.prototypes, parameters)
    X, y = data.X_train, data.y_train
    if preset == "paper":  # rows `val` are training samples
        say(Step("Learning the projection"))
        model = fit_paper(model, X, y, X, extra)
    else:
        say(Step("Choosing parameters"))
        is_val = np.isin(y, data.split.val_classes)
        if called:
            called = np.array(called, dtype=object)[data.split.train][~is_val]
        model = fit_recommended(model, X[~is_val], y[~is_val], X[is_val], y[is_val])
        model = adapt_model(model, extra, say)
    write(model, names, called)
    n = len(data.split.train)
    return {
        "n_samples": n,
        "n_left_out": len(data.y) - n,
        "columns": names or (),
        "unused": data.about.get("unused_columns", ()),
        "skipped": data.about.get("skipped", ()),
        "joined": data.about.get("joined", {}),
    }


def fit_recommended(model: Any, X: Any, y: Any, X_val: np.ndarray, y_val: np.ndarray) -> Any:
    """Fit the recommended model; with validation samples, parameters are chosen on their classes.

    X may be chunks, which have their labels.
    """
    if not len(y_val):
        return model.fit(X, y)
    model.fit(X, y, validation=(X_val, y_val))
    # Parameters are chosen: now learn from these samples too, so their classes are seen.
    return model.partial_fit(X_val, y_val).with_candidates(model.candidates)


def name_kept_samples(
    model: Any, called: Sequence[str] | Mapping[int, str]
) -> dict[str, list[str]]:
    """Return the names of the samples that a model keeps, for its file and `explain`."""
    rows = kept_rows(model) if len(called) else []
    return {SAMPLE_NAMES: [str(called[row]) for row in rows]} if rows else {}


def adapt_model(model: Any, unlabeled: np.ndarray | None, say: Progress) -> Any:
    """Return the recommended model, adapted to unlabeled samples if there are any."""
    if unlabeled is None:
        return model
    say(Step("Learning from unlabeled samples"))
    return model.adapt(unlabeled)


def fit_paper(model: Any, X: Any, y: Any, start: Any, unlabeled: np.ndarray | None) -> Any:
    """Fit the paper's model; its first step learns nothing, so the first rows are enough."""
    steps, last = unwrap(model)
    steps.fit(start)
    if unlabeled is None:
        last.fit(steps.transform(X), y)
    else:
        last.fit_transductive(steps.transform(X), y, steps.transform(unlabeled))
    return model
