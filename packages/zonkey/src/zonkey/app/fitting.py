"""Fit a model to samples and classes: features or pictures, prototypes or texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from ..persistence.model import model_info, save
from ..presets import paper, recommended
from .inputs import check_classes, check_sources
from .models import FEATURE_NAMES, SAMPLE_NAMES, read_rows
from .progress import Progress, Step, ignore
from .sources import ENCODER, TEXT_COLUMNS, TEXT_ENCODER, Encoders, Stream
from .targets import check_target

PRESETS = {"recommended": recommended, "paper": paper}


@dataclass(frozen=True)
class Fitted:
    """What `fit` has learned from and written.

    Attributes
    ----------
    output : str
        Model file.
    info : dict
        What the model file says, see `zonkey.model_info`.
    n_samples : int
        Samples learned from.
    n_left_out : int or None
        Rows marked `test`; None if nobody counted them.
    columns, unused : sequence of str
        Columns of a table that are features, and those that are neither features nor labels.
    skipped : sequence of str
        What was wrong with the pictures that could not be read.
    seconds : float
        Time it took.
    """

    output: str
    info: dict[str, Any]
    n_samples: int
    n_left_out: int | None
    columns: Sequence[str] = ()
    unused: Sequence[str] = ()
    skipped: Sequence[str] = ()
    seconds: float = 0.0


def fit(
    source: str | Path,
    classes: str | Path,
    output: str | Path,
    *,
    candidates: str = "unseen",
    preset: str = "recommended",
    unlabeled: str | Path | None = None,
    chunks: bool = False,
    encoder: str | None = None,
    text_encoder: str | None = None,
    text_columns: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    on_error: str = "raise",
    cache: bool = True,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    labels: str | Path | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
    notes: str | None = None,
    license: str | None = None,
    random_state: int = 0,
    progress: Progress = ignore,
) -> Fitted:
    """Learn from samples and classes, and write a model file.

    A column `split` of the samples may mark rows: those marked `test` are left out, and parameters
    of the recommended model are chosen on the classes marked `val`.

    Parameters
    ----------
    source : str or Path
        Pictures in one folder per class, or features with labels.
    classes : str or Path
        File of names, descriptions or prototypes.
    output : str or Path
        Model file to write.
    candidates : {"unseen", "all"}, default="unseen"
        Classes to choose from.
    preset : {"recommended", "paper"}, default="recommended"
        Recommended model, or the paper's with its default parameters.
    unlabeled : str or Path, default=None
        Unlabeled samples of the candidate classes to adapt to.
    chunks : bool, default=False
        Read features in chunks, for files larger than memory. After an interruption, the same call
        resumes from the folder `output` + ".progress".
    encoder, text_encoder, templates, text_columns
        Encoders of pictures and texts, sentences around the texts, columns of the texts.
    on_error, cache, progress
        As in `predict`.
    label_column : str, default=None
        Column of the labels in a table.
    feature_columns, id_columns : sequence of str, default=None and ()
        Columns of a table that are features, and that are not; see `zonkey.datasets.load_features`.
    labels : str or Path, default=None
        File of the labels, if the source holds arrays without labels.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.
    notes, license : str, default=None
        Texts for the model file.
    random_state : int, default=0
        Seed.

    Returns
    -------
    Fitted
        What was learned from, and written.
    """
    started = time.perf_counter()
    source, classes, output = Path(source), Path(classes), Path(output)
    check_classes(source, classes)
    check_sources(unlabeled=unlabeled)
    check_target("output", output, source, classes, unlabeled, labels)
    encoders = Encoders(
        encoder=encoder,
        text_encoder=text_encoder,
        templates=None if templates is None else list(templates),
        text_columns=None if text_columns is None else list(text_columns),
        on_error=on_error,
        cache=cache,
    )
    keys = {
        "labels": None if labels is None else Path(labels),
        "features_key": features_key,
        "labels_key": labels_key,
        "feature_columns": feature_columns,
        "id_columns": id_columns,
    }
    unlabeled = None if unlabeled is None else Path(unlabeled)
    training = FitInput(source, classes, encoders, unlabeled, label_column, keys, progress)
    parameters = {"candidates": candidates, "random_state": random_state}
    if chunks:
        from .fitting_in_chunks import learn_in_chunks

        learn: Any = learn_in_chunks
    else:
        learn = learn_in_memory

    def write(model: Any, names: list[str] | None, called: Sequence[str] = ()) -> None:
        progress(Step("Writing"))
        facts = training.facts(names) | name_kept_samples(model, called)
        save(model, output, notes=notes, license=license, training=facts)

    found = learn(training, preset, parameters, output, write)
    seconds = round(time.perf_counter() - started, 2)
    return Fitted(str(output), model_info(output), **found, seconds=seconds)


@dataclass(frozen=True, eq=False)
class FitInput:
    """What to learn from: samples and classes."""

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
        """Read samples and classes; also return what samples are called by, if that is known.

        The entry `skipped` of `about` lists errors of pictures.
        """
        names = _name(self.source), self.classes.name
        stream = self.open()
        pictures = stream if isinstance(stream, PictureStream) else None
        self.progress(Step("Reading"))
        samples = Samples() if pictures else read_samples(self.source, stream)
        known, columns = self.encoders.prototypes(
            self.classes, self.label_column, of_pictures=pictures is not None
        )
        about = {}
        if pictures is not None:
            # All that can be wrong is told before the pictures are encoded, which takes long.
            _check_pictures(pictures.pictures, known.labels, names)
            X, y, marks, files = read_rows(
                pictures, "Encoding pictures", self.progress, labeled=True
            )
            samples = Samples(LazyMatrix.of(X, names[0]), y, marks, names=files)
            _tell_lost_classes(pictures.pictures, y)
            about = {"skipped": [str(error) for error in pictures.skipped]}
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


def learn_in_memory(
    training: FitInput, preset: str, parameters: dict[str, Any], _: Path, write: Any
) -> dict[str, Any]:
    """Fit a model to samples in memory, and write it; return what was learned from."""
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
    }


def fit_recommended(model: Any, X: Any, y: Any, X_val: np.ndarray, y_val: np.ndarray) -> Any:
    """Fit the recommended model; with validation samples, parameters are chosen on their classes.

    X may be chunks, which have their labels.
    """
    if not len(y_val):
        return model.fit(X, y)
    model.fit(X, y, validation=(X_val, y_val))
    # Chosen: now their samples teach too, and their classes are seen.
    return model.partial_fit(X_val, y_val).with_candidates(model.candidates)


def name_kept_samples(model: Any, called: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the samples that a model keeps, for its file and `explain`."""
    reserve = model.state_.reserve if isinstance(model, AnyShotClassifier) else None
    if reserve is None or not len(called):
        return {}
    return {SAMPLE_NAMES: [str(called[row]) for row in reserve.rows.tolist()]}


def adapt_model(model: Any, unlabeled: np.ndarray | None, say: Progress) -> Any:
    """Return the recommended model, adapted to unlabeled samples if there are any."""
    if unlabeled is None:
        return model
    say(Step("Learning from unlabeled samples"))
    return model.adapt(unlabeled)


def fit_paper(model: Any, X: Any, y: Any, start: Any, unlabeled: np.ndarray | None) -> Any:
    """Fit the paper's model; its first step learns nothing that needs more rows than the start."""
    steps, last = unwrap(model)
    steps.fit(start)
    if unlabeled is None:
        last.fit(steps.transform(X), y)
    else:
        last.fit_transductive(steps.transform(X), y, steps.transform(unlabeled))
    return model
