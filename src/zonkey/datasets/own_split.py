"""How your own samples are split: by the classes to hold out, or by a column `split`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..core.labels import as_labels, listed
from .errors import DataError
from .label_files import label_strings
from .split import Split


def held_out_split(y: np.ndarray, unseen: Any, test_size: float, random_state: Any) -> Split:
    """Hold out all samples of the unseen classes and some of the others; see `load_features`."""
    if unseen is None:
        return Split(train=np.arange(len(y)), test_unseen=[], name="all samples for training")
    if not isinstance(test_size, Real) or not 0 <= test_size < 1:
        raise DataError(
            f"`test_size` must be a fraction from 0 to below 1; got {test_size!r}. Choose 0.2, for "
            "example."
        )
    rng = check_random_state(random_state)
    classes = np.unique(y)
    chosen = _chosen_classes(classes, unseen, rng)
    held_out = []
    for label in np.setdiff1d(classes, chosen):
        positions = rng.permutation(np.flatnonzero(y == label))
        n_test = min(round(test_size * len(positions)), len(positions) - 1)
        held_out.append(positions[:n_test])
    test_seen = np.concatenate(held_out)
    test_unseen = np.flatnonzero(np.isin(y, chosen))
    train = np.setdiff1d(np.arange(len(y)), np.concatenate([test_seen, test_unseen]))
    name = f"{len(chosen)} classes held out"
    return Split(train=train, test_unseen=test_unseen, test_seen=test_seen, name=name)


def require_marks(y: np.ndarray, marks: np.ndarray, file: str, first_row: int) -> None:
    """Refuse a column `split` that does not say what to do with its rows."""
    bad = ~np.isin(marks, ("train", "val", "test"))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"The column `split` must say train, val or test; row {first_row + row} of {file} says "
            f"{str(marks[row])!r}, and {int(bad.sum()) - 1} other rows are wrong too. Correct them."
        )
    if not (marks == "train").any():
        raise DataError(
            f"The column `split` of {file} has no row `train`. Mark rows to learn from."
        )
    both = np.intersect1d(y[marks == "train"], y[marks == "val"])
    if both.size:
        raise DataError(
            f"Rows `val` must be whole classes; {listed(both)} of {file} have rows `train` too. "
            "Mark all rows of a class alike."
        )


def held_out_classes(y: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return the classes all samples of which are marked `test`."""
    return np.setdiff1d(y[marks == "test"], y[marks != "test"])


def marked_split(y: np.ndarray, marks: np.ndarray) -> Split:
    """Split by the marks train, val and test of the samples; see `load_features`."""
    test = marks == "test"
    seen = np.isin(y, y[~test])
    return Split(
        train=np.flatnonzero(~test),
        test_seen=np.flatnonzero(test & seen),
        test_unseen=np.flatnonzero(test & ~seen),
        val_classes=np.unique(y[marks == "val"]),
        name="column `split`",
    )


def _chosen_classes(classes: np.ndarray, unseen: Any, rng: np.random.RandomState) -> np.ndarray:
    """Return the classes to hold out: those named, or so many at random."""
    rule = f"`unseen` must leave at least one of the {len(classes)} classes seen, and hold out one"
    if isinstance(unseen, Real) and not isinstance(unseen, bool):
        n = _number_of_classes(unseen, len(classes))
        if not 1 <= n < len(classes):
            raise DataError(f"{rule}; got {unseen!r}. Choose 1 to {len(classes) - 1}, or 0.2.")
        return np.sort(rng.permutation(classes)[:n])
    try:
        wanted = as_labels([unseen] if isinstance(unseen, str) else list(unseen))
    except (TypeError, ValueError):
        raise DataError(
            f"`unseen` must be a list of labels, a number of classes or a fraction; got "
            f"{unseen!r}. Name the classes to hold out, all as text."
        ) from None
    wanted = np.unique(label_strings(wanted, "`unseen`"))
    foreign = np.setdiff1d(wanted, classes)
    if foreign.size:
        raise DataError(
            f"`unseen` must name classes with samples; {listed(foreign)} have none, while there "
            f"are {listed(classes)}. A class with a prototype alone is unseen anyway: leave it out."
        )
    if not 1 <= len(wanted) < len(classes):
        raise DataError(f"{rule}; got {len(wanted)} labels. Name some of them.")
    return wanted


def _number_of_classes(unseen: Any, n_classes: int) -> int:
    """Return how many classes a number or a fraction stands for; 0 for one that is neither."""
    if isinstance(unseen, Integral):
        return int(unseen)
    return max(1, round(float(unseen) * n_classes)) if 0 < unseen < 1 else 0
