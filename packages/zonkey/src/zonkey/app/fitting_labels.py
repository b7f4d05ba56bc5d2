"""Fit a model of several labels per sample, which a column holds as `a|b`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..encoders.class_texts import class_texts
from ..errors import DataError, Problem
from ..files.classes import Samples
from ..files.own import missing_prototypes, wrong_marks
from ..multilabel.classifier import MultiLabelClassifier
from ..multilabel.marks import check_separable, split_marks
from ..prototypes import Prototypes
from .fitting_in_memory import FitInput, say_space
from .models import read_rows
from .progress import Step
from .sources import EncodedStream, Stream


def check_multi_label(**given: Any) -> None:
    """Refuse what a model of several labels does not have."""
    usual = {"candidates": "all", "preset": "recommended", "unlabeled": None, "chunks": False}
    for name, value in given.items():
        if value != usual[name]:
            rule, what = "must be left out with several labels per sample", f"got {value}"
            options = name, "multi_label"
            raise Problem(f"`{name}`", rule, what, "Leave it out.", option=options)


def refuse_multi_label(**given: Any) -> None:
    """Refuse what only a model of several labels has."""
    usual = {"missing": "negative", "precision": None}
    for name, value in given.items():
        if value != usual[name]:
            rule, remedy = "is of several labels per sample", "Pass `multi_label`, or leave it out."
            options = name, "multi_label"
            raise Problem(f"`{name}`", rule, f"got {value!r}", remedy, option=options)


def learn_labels(
    training: FitInput, preset: str, parameters: dict[str, Any], _: Path, write: Any
) -> dict[str, Any]:
    """Fit a model to samples in memory, each with any number of labels; return the samples.

    A sample without a label is one to which none applies.
    """
    assert preset == "recommended"
    stream, say = training.open(), training.progress
    read = read_rows(stream, "Reading", say)
    if read.labels is None:
        raise DataError(
            f"{training.source.name} must have a column of labels, such as a|b; it has none. Name "
            "it with `label_column`."
        )
    lists = [split_marks(text) for text in read.labels.tolist()]
    labels = np.unique([label for names in lists for label in names])
    known = _read_classes(training, stream, labels)
    kept = _training_rows(read, training.source.name)
    model = MultiLabelClassifier(known, **parameters)
    if known is not None:
        model = say_space(model, training.encoders.space)
    say(Step("Choosing parameters"))
    model.fit(read.matrix[kept], [lists[i] for i in kept])
    names = getattr(stream, "columns", None)
    write(model, None if names is None else list(names), ())
    return {
        "n_samples": len(kept),
        "n_left_out": len(lists) - len(kept),
        "columns": names or (),
        "unused": getattr(stream, "unused", ()),
        "skipped": [str(error) for error in getattr(stream, "skipped", ())],
    }


def _read_classes(training: FitInput, stream: Stream, labels: np.ndarray) -> Prototypes | None:
    """Return prototypes of a file, else of the names of the labels of pictures and texts."""
    if not labels.size:
        raise DataError(
            f"Some sample of {training.source.name} must have a label; none has. Check the column."
        )
    if training.classes is None:
        if not isinstance(stream, EncodedStream):
            return None
        return training.encoders.prototypes_of(class_texts(labels.tolist()), stream)
    known, columns = training.encoders.prototypes(
        training.classes, training.label_column, of=stream
    )
    files = training.source.name, training.classes.name
    check_separable(known.labels, f"Labels of {training.classes.name}")
    problems = missing_prototypes(labels, known.labels, *files, columns, "name or prototype")
    if problems:
        raise DataError(problems[0])
    return known


def _training_rows(read: Samples, file: str) -> np.ndarray:
    """Return the rows that are not marked `test`."""
    if read.marks is None:
        return np.arange(len(read.matrix))
    nothing = np.arange(len(read.marks)).astype(str)  # rows `val` need not be whole labels
    problems = wrong_marks(nothing, read.marks, file, read.first_row)
    if problems:
        raise DataError(problems[0])
    return np.flatnonzero(read.marks != "test")
