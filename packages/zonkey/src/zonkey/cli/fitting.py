"""Fit a model to samples and classes: features or pictures, prototypes or texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..app.models import FEATURE_NAMES, read_rows
from ..app.sources import ENCODER, TEXT_COLUMNS, TEXT_ENCODER, Encoders
from ..encoders.class_texts import has_column
from ..encoders.collection import TABLES, Pictures
from ..encoders.stream import PictureStream
from ..files.dataset import DataError, Dataset, LazyMatrix
from ..files.own import Samples, dataset_of, missing_prototypes, read_samples, wrong_marks
from ..files.streams import FeatureStream
from ..inference.scorer import unwrap
from ..labels import format_labels, warn_user
from ..presets import paper, recommended
from .progress import show_progress, show_work

# Writes a model and the names of its features, None if they have none
Write = Callable[[Any, list[str] | None], Any]


@dataclass(frozen=True, eq=False)
class FitSummary:
    """What was learned from, for the summary of a command."""

    n_samples: int
    n_left_out: int | None  # None: nobody counted
    unused: Sequence[str] = ()  # columns
    skipped: Sequence[str] = ()  # errors of pictures


@dataclass(frozen=True, eq=False)
class FitInput:
    """What to learn from: samples and classes."""

    source: Path
    classes: Path
    encoders: Encoders
    unlabeled: Path | None = None
    label_column: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # where labels and features of arrays are

    def read(self) -> Dataset:
        """Read samples and classes; the entry `skipped` of `about` lists errors of pictures."""
        names = _name(self.source), self.classes.name
        stream = self.encoders.stream(
            self.source, with_labels=True, label_column=self._column_of_samples(), **self.keys
        )
        pictures = stream if isinstance(stream, PictureStream) else None
        with show_work("Reading"):
            samples = self._features() if pictures is None else Samples()
            known, columns = self.encoders.prototypes(
                self.classes, self.label_column, of_pictures=pictures is not None
            )
        about = {}
        if pictures is not None:
            # All that can be wrong is told before the pictures are encoded, which takes long.
            _check_pictures(pictures.pictures, known.labels, names)
            with show_progress() as progress:
                X, y, marks = read_rows(pictures, "Encoding pictures", progress, labeled=True)
            samples = Samples(LazyMatrix.of(X, names[0]), y, marks)
            _tell_lost_classes(pictures.pictures, y)
            about = {"skipped": [str(error) for error in pictures.skipped]}
        return dataset_of(samples, known, names, columns=columns, name=names[0], about=about)

    def _column_of_samples(self) -> str | None:
        """Return the column of the labels of samples; a folder without table has none."""
        has_table = any((self.source / name).exists() for name in TABLES)
        of_classes = self.label_column and has_column(self.classes, self.label_column)
        return None if self.source.is_dir() and not has_table and of_classes else self.label_column

    def _features(self) -> Samples:
        stream = FeatureStream(self.source, label_column=self.label_column, **self.keys)
        return read_samples(self.source, stream)

    def read_unlabeled(self, names: list[str] | None, n_features: int) -> np.ndarray:
        """Read the samples without labels."""
        assert self.unlabeled is not None
        stream = self.encoders.stream(self.unlabeled, n_features=n_features, feature_names=names)
        with show_progress() as progress:
            return read_rows(stream, "Reading unlabeled samples", progress)[0]

    def facts(self, names: list[str] | None) -> dict[str, Any]:
        """Return what a model file says about the training."""
        files = {"features": self.source, "prototypes": self.classes, "unlabeled": self.unlabeled}
        facts: dict[str, Any] = {
            name: _name(path) for name, path in files.items() if path is not None
        }
        used = {name: self.encoders.facts.get(name) for name in (ENCODER, TEXT_ENCODER)}
        used |= {TEXT_COLUMNS: self.encoders.facts.get(TEXT_COLUMNS), FEATURE_NAMES: names}
        return facts | {name: value for name, value in used.items() if value is not None}


def _name(path: Path) -> str:
    return path.name or path.resolve().name  # of "."


def _check_pictures(pictures: Pictures, known: np.ndarray, names: tuple[str, str]) -> None:
    """Refuse labels and marks that cannot be used."""
    assert pictures.labels is not None
    if (pictures.labels == "").any():
        missing = pictures.names[int(np.argmax(pictures.labels == ""))]
        raise DataError(
            f"Pictures need labels; {missing} of {names[0]} has none. Move it into the folder of "
            "its class, or fill in its label."
        )
    problems = missing_prototypes(
        np.unique(pictures.labels), known, *names, needed="name or description"
    )
    if pictures.split is not None:
        problems += wrong_marks(pictures.labels, pictures.split, names[0], 2)
    if problems:
        raise DataError(problems[0])


def _tell_lost_classes(pictures: Pictures, y: np.ndarray | None) -> None:
    """Warn of classes whose pictures were all skipped: the model would think them unseen."""
    assert pictures.labels is not None
    assert y is not None
    lost = np.setdiff1d(pictures.labels, y)
    if lost.size:
        warn_user(
            f"Classes should have a picture that can be read; {format_labels(lost)} has none, and "
            "counts as unseen. Replace its pictures, or drop the class."
        )


def learn(training: FitInput, preset: str, parameters: dict[str, Any], write: Write) -> FitSummary:
    """Fit a model to samples in memory, and write it."""
    data = training.read()
    names = data.about.get("feature_names")
    extra = None
    if training.unlabeled is not None:
        extra = training.read_unlabeled(names, data.shape[1])
    with show_work("Fitting") as say:
        model = PRESETS[preset](data, extra, say, **parameters)
        say("Writing")
        write(model, names)
    n, unused = len(data.split.train), data.about.get("unused_columns", ())
    return FitSummary(n, len(data.y) - n, unused, data.about.get("skipped", ()))


def fit_recommended(
    data: Dataset, unlabeled: np.ndarray | None, say: Callable[[str], Any], **parameters: Any
) -> Any:
    """Fit the recommended model; with rows `val`, parameters are chosen on their classes."""
    model = recommended(data.prototypes, **parameters)
    X, y = data.X_train, data.y_train
    is_val = np.isin(y, data.split.val_classes)
    say("Choosing parameters")
    if is_val.any():
        model.fit(X[~is_val], y[~is_val], validation=(X[is_val], y[is_val]))
        # Chosen: now their samples teach too, and their classes are seen.
        model = model.partial_fit(X[is_val], y[is_val]).with_candidates(model.candidates)
    else:
        model.fit(X, y)
    if unlabeled is None:
        return model
    say("Learning from unlabeled samples")
    return model.adapt(unlabeled)


def fit_paper(
    data: Dataset, unlabeled: np.ndarray | None, say: Callable[[str], Any], **parameters: Any
) -> Any:
    """Fit the paper's model with its default parameters; rows `val` are training samples."""
    model = paper(data.prototypes, **parameters)
    say("Learning the projection")
    if unlabeled is None:
        return model.fit(data.X_train, data.y_train)
    steps, last = unwrap(model)
    X = steps.fit_transform(data.X_train)
    last.fit_transductive(X, data.y_train, steps.transform(unlabeled))
    return model


PRESETS: dict[str, Callable[..., Any]] = {"recommended": fit_recommended, "paper": fit_paper}
