"""Read samples and classes to fit a model to, and fit one to samples in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..anyshot.classifier import AnyShotClassifier
from ..encoders.class_texts import has_column
from ..encoders.collection import TABLES, Pictures
from ..encoders.stream import PictureStream
from ..errors import DataError
from ..files.dataset import Dataset, LazyMatrix
from ..files.own import Samples, dataset_of, missing_prototypes, read_samples, wrong_marks
from ..inference.scorer import unwrap
from ..labels import format_labels, warn_user
from ..presets import paper, recommended
from .inputs import find_spellings
from .models import FEATURE_NAMES, SAMPLE_NAMES, read_rows
from .progress import Progress, Step, ignore
from .sources import ENCODER, TEXT_COLUMNS, TEXT_ENCODER, Encoders, Stream

PRESETS = {"recommended": recommended, "paper": paper}


@dataclass(frozen=True, eq=False)
class FitInput:
    """Samples and classes to learn from."""

    source: Path
    classes: Path
    encoders: Encoders
    unlabeled: Path | None = None
    label_column: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # where labels and features are
    progress: Progress = ignore

    def open(self, **options: Any) -> Stream:
        """Return the samples, of which each needs a label."""
        column = self._column_of_samples()
        return self.encoders.stream(
            self.source, with_labels=True, label_column=column, **self.keys, **options
        )

    def read(self) -> tuple[Dataset, tuple[str, ...]]:
        """Read samples and classes; also return the names of the samples, if known.

        The entries `skipped` and `joined` of `about` are errors and respelled labels of pictures.
        """
        names = _name(self.source), self.classes.name
        stream = self.open()
        pictures = stream if isinstance(stream, PictureStream) else None
        self.progress(Step("Reading"))
        samples = Samples()
        if not isinstance(stream, PictureStream):
            samples = read_samples(self.source, stream)
        known, columns = self.encoders.prototypes(
            self.classes, self.label_column, of_pictures=pictures is not None
        )
        about = {}
        if pictures is not None:
            joined = _join_labels(pictures, known.labels)
            # Check everything before the pictures are encoded, which takes long.
            _check_pictures(pictures.pictures, known.labels, names)
            X, y, marks, files = read_rows(
                pictures, "Encoding pictures", self.progress, labeled=True
            )
            samples = Samples(LazyMatrix.of(X, names[0]), y, marks, names=files)
            _tell_lost_classes(pictures.pictures, y)
            about = {"skipped": [str(error) for error in pictures.skipped], "joined": joined}
        data = dataset_of(samples, known, names, columns=columns, name=names[0], about=about)
        return data, samples.names

    def _column_of_samples(self) -> str | None:
        """Return the column of the labels of samples; a folder without table has none."""
        has_table = any((self.source / name).exists() for name in TABLES)
        of_classes = self.label_column and has_column(self.classes, self.label_column)
        return None if self.source.is_dir() and not has_table and of_classes else self.label_column

    def read_unlabeled(self, names: list[str] | None, n_features: int) -> np.ndarray:
        """Read the samples without labels."""
        assert self.unlabeled is not None
        stream = self.encoders.stream(self.unlabeled, n_features=n_features, feature_names=names)
        return read_rows(stream, "Reading unlabeled samples", self.progress)[0]

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


def _join_labels(stream: PictureStream, known: np.ndarray) -> dict[str, str]:
    """Give pictures the labels of the classes, and return those in another spelling."""
    labels = stream.pictures.labels
    assert labels is not None
    joined = find_spellings("source", np.unique(labels).tolist(), known.tolist())
    spelled = np.array([joined.get(label, label) for label in labels.tolist()], dtype=str)
    stream.pictures = replace(stream.pictures, labels=spelled)
    return joined


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
    """Warn of classes whose pictures were all skipped: they count as unseen."""
    assert pictures.labels is not None
    assert y is not None
    lost = np.setdiff1d(pictures.labels, y)
    if lost.size:
        warn_user(
            f"Classes should have a picture that can be read; {format_labels(lost)} has none, and "
            "counts as unseen. Replace its pictures, or drop the class."
        )


def learn_in_memory(
    training: FitInput, preset: str, parameters: dict[str, Any], _: Path, write: Any
) -> dict[str, Any]:
    """Fit a model to samples in memory, and write it; return the samples."""
    (data, called), say = training.read(), training.progress
    names = data.about.get("feature_names")
    extra = None
    if training.unlabeled is not None:
        extra = training.read_unlabeled(names, data.shape[1])
    model, X, y = PRESETS[preset](data.prototypes, **parameters), data.X_train, data.y_train
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


def kept_rows(model: Any) -> list[int]:
    """Return the rows of the training samples that a model keeps."""
    reserve = model.state_.reserve if isinstance(model, AnyShotClassifier) else None
    return [] if reserve is None else reserve.rows.tolist()


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
