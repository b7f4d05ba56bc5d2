"""The data of a comparison: samples and classes of the user, and which classes are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.app.fitting_in_memory import FitInput
from zonkey.app.inputs import check_classes, check_sources, hint_at_swapped_tables
from zonkey.app.progress import Progress, ignore
from zonkey.app.sources import Encoders, check_encoder
from zonkey.errors import DataError, Problem
from zonkey.files.dataset import Dataset, Split
from zonkey.files.own import hold_out
from zonkey.files.tables import read_labels
from zonkey.hold_out import draw_classes

from ..paper.bench.sources import NoValidationClasses, find_source

UNSEEN, TEST_SIZE = 0.25, 0.2  # shares of classes, and of samples of the others, to test on
_VALIDATION = 0.25  # share of seen classes to choose few-shot parameters on
_LEAST_SEEN = 4  # classes, of which folds hold out two or more


@dataclass(frozen=True, eq=False)
class Given:
    """Samples and classes to compare systems on."""

    data: Dataset
    facts: dict[str, Any] = field(default_factory=dict)  # for model files: encoders and columns
    validation: Dataset | None = None  # of a benchmark with other features for validation classes


def read_given(
    source: str | Path,
    classes: str | Path | None,
    *,
    encoder: str | None = None,
    text_encoder: str | None = None,
    text_column: str | None = None,
    text_columns: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    on_error: str = "raise",
    cache: bool = True,
    label_column: str | None = None,
    progress: Progress = ignore,
    **keys: Any,
) -> Given:
    """Read features and prototypes, or encode pictures or texts, as `zonkey.app.fit` does."""
    source, classes = Path(source), None if classes is None else Path(classes)
    check_classes(source, classes)
    check_sources(source=source)
    if text_column is None:
        check_encoder(encoder, source)
    encoders = Encoders(
        encoder=encoder,
        text_encoder=text_encoder,
        templates=templates,
        text_columns=text_columns,
        on_error=on_error,
        cache=cache,
    )
    keys = {**keys, "text_column": text_column, "id_columns": keys.get("id_columns") or ()}
    training = FitInput(source, classes, encoders, None, label_column, keys, progress)
    if classes is None:
        data, _ = training.read()
    else:
        with hint_at_swapped_tables(source, classes):
            data, _ = training.read()
    if not training.has_semantics:
        rule, what = "must describe the classes", f"{source.name} has labels only"
        raise Problem("`classes`", rule, what, "Pass prototypes or names.", option="classes")
    return Given(data, training.facts(data.about.get("feature_names")))


def read_benchmark(name: str, folder: Path | None, *, shots: bool = False) -> Given:
    """Read a data set of the bench by name."""
    source = find_source(name, folder)
    if not shots:
        return Given(source.load())
    try:
        return Given(source.load_shots(), validation=source.load_validation())
    except NoValidationClasses:  # some are drawn
        return Given(source.load_shots())


def divide(data: Dataset, unseen: Any = None, *, n_splits: int = 1, seed: int = 0) -> list[Dataset]:
    """Return the data with classes held out, once for each split.

    The classes that the data hold out themselves, for a single split and if `unseen` is None; else
    those of `unseen`, as of `load_features`: labels, a number, or a share of the classes, drawn
    from all classes with samples. Prototypes of classes without samples are left out.
    """
    has_own = len(data.split.test_unseen) > 0
    splits = [data.split]
    if unseen is not None or n_splits > 1 or not has_own:
        wanted = UNSEEN if unseen is None else unseen
        is_drawn = isinstance(wanted, int | float)
        seeds = range(seed, seed + (n_splits if is_drawn else 1))
        splits = [hold_out(data.y, wanted, TEST_SIZE, each) for each in seeds]
    return [_with_split(data, split, seed + i) for i, split in enumerate(splits)]


def _with_split(data: Dataset, split: Split, seed: int) -> Dataset:
    """Return the data with another split, which also names validation classes."""
    has_samples = np.isin(data.prototypes.labels, data.y).all()
    if split is data.split and len(split.val_classes) and has_samples:
        return data
    seen, unseen = (np.unique(data.y[part]) for part in (split.train, split.test_unseen))
    if len(seen) < _LEAST_SEEN or len(unseen) < 2:
        raise DataError(
            f"A comparison needs {_LEAST_SEEN} classes to learn from and 2 to hold out; "
            f"{data.name} gives {len(seen)} and {len(unseen)}. Add classes, or change `unseen`."
        )
    val_classes = split.val_classes
    if not len(val_classes):
        val_classes = np.sort(draw_classes(seen, _VALIDATION, seed))
    parts = {name: getattr(split, name) for name in ("train", "test_unseen", "test_seen", "query")}
    known = np.unique(data.y)
    spaces = {space: data.prototypes_of(space).subset(known) for space in data.spaces}
    return Dataset(
        data.name,
        data.X,
        data.y,
        spaces,
        Split(**parts, val_classes=val_classes, name=split.name),
        class_names=dict(data.class_names),
        license=data.license,
        citation=data.citation,
        about=dict(data.about),
    )


def parse_unseen(given: Sequence[str] | None) -> Any:
    """Return labels, a number or a share from the texts of an option, or from a file of labels."""
    if not given:
        return None
    words = [word.strip() for text in given for word in text.split(",") if word.strip()]
    if len(words) == 1:
        path = Path(words[0])
        if path.suffix == ".txt":
            return [label.strip() for label in read_labels(path).tolist() if label.strip()]
        if words[0].isdigit():
            return int(words[0])
        try:
            return float(words[0])
        except ValueError:
            return words
    return words
