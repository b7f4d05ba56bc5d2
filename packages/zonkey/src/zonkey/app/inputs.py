"""Refuse likely mistakes in sources and classes: addresses, swapped arguments, separators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..encoders.class_texts import fold_name
from ..encoders.collection import is_pictures
from ..errors import DataError, Problem
from ..files.streams import FeatureStream
from .targets import Given, path_exists

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # not a drive of Windows
_MODEL_ENDING = ".zonkey"
_FIRST_ROWS = 1000  # that show whether a file holds samples


def check_sources(**sources: Given) -> None:
    """Refuse addresses: files must be on this machine."""
    for option, given in sources.items():
        if given is not None and _ADDRESS.match(str(given)):
            rule, what = "must be on this machine", "got the address of a file elsewhere"
            remedy = "Download it first, and pass its path."
            raise Problem(f"`{option}`", rule, what, remedy, option=option)


def check_samples(model: str | Path, source: str | Path) -> None:
    """Refuse a source that is a model file: the arguments are swapped."""
    check_sources(model=model, source=source)
    if Path(source).suffix == _MODEL_ENDING:
        swapped = Path(model).suffix != _MODEL_ENDING
        remedy = "Swap `model` and `source`." if swapped else "Pass samples."
        rule, what = "must be pictures or features", f"{source} is a model file"
        raise Problem("`source`", rule, what, remedy, option=("source", "model"))


def check_classes(source: Given, classes: Given, *, may_be_names: bool = False) -> None:
    """Refuse classes that are pictures, and names without commas between them."""
    check_sources(source=source, classes=classes)
    if classes is None:
        return
    text = str(classes)
    both = ("source", "classes")
    if is_pictures(classes):
        remedy = "Pass a file of names."
        if source is not None and not is_pictures(source):
            remedy = "Swap `source` and `classes`."
        rule = "must be names or descriptions of classes"
        raise Problem("`classes`", rule, f"{text} holds pictures", remedy, option=both)
    if Path(text).suffix or path_exists(classes):
        return
    if may_be_names:
        if ";" in text:
            rule, remedy = "must have commas between names", 'Write, for example, "cat, dog".'
            raise Problem("`classes`", rule, f"got {text!r}", remedy, option="classes")
    elif "," in text or ";" in text:
        remedy = "Write the names to a text file, one in each line, and pass it."
        raise Problem("`classes`", "must be a file", f"got {text!r}", remedy, option="classes")


@contextmanager
def hint_at_swapped_tables(source: Path, classes: Path) -> Iterator[None]:
    """Say in errors of data that CLASSES holds samples and SOURCE does not, if it looks so."""
    try:
        yield
    except DataError:
        if not _has_samples(classes) or _has_samples(source):
            raise
        what = f"{classes.name} has several rows of a class, and {source.name} has one of each"
        rule, remedy = "must have one row per class", "Swap `source` and `classes`."
        both = "source", "classes"
        raise Problem("`classes`", rule, what, remedy, option=both) from None


def find_spellings(option: str, labels: list[str], known: list[str]) -> dict[str, str]:
    """Map labels to known classes that differ only in case, spaces and underscores."""
    spellings: dict[str, list[str]] = {}
    for label in known:
        spellings.setdefault(fold_name(label), []).append(label)
    new = [label for label in labels if label not in known and fold_name(label) in spellings]
    for label in new:
        if len(same := spellings[fold_name(label)]) > 1:
            rule = "must spell classes as they are known"
            what = f"{label!r} may be {same[0]!r} or {same[1]!r}"
            raise Problem(f"`{option}`", rule, what, "Rename it.", option=option)
    return {label: spellings[fold_name(label)][0] for label in new}


def _has_samples(path: Path) -> bool | None:
    """Whether a file has several rows of a class among its first ones; None if it has no labels."""
    try:
        stream = FeatureStream(path, with_labels=True, rows=_FIRST_ROWS, with_features=False)
        labels = next(iter(stream)).labels
    except DataError:
        return None
    return labels is not None and len({*labels}) < len(labels)
