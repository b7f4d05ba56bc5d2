"""Which samples of a data set serve for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import DataError

PARTS = ("train", "test_seen", "test_unseen")


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of samples for training and for test, and classes to validate on.

    Zero-shot and few-shot learning share it: the base classes of few-shot learning are the seen
    ones, the novel classes the unseen ones.

    Parameters
    ----------
    train : array of int
        Samples of seen (base) classes to learn from, validation classes included.
    test_unseen : array of int
        Samples of unseen (novel) classes.
    test_seen : array of int, default=()
        Held-out samples of seen classes, for the generalized setting.
    val_classes : array of labels, default=()
        Seen classes that are set aside when parameters are chosen.
    query : array of int, default=()
        Few-shot: those of `test_unseen` that are queries and never shots. None named: any may be
        either.
    name : str
        Which published split this is, for the record.
    """

    train: Any
    test_unseen: Any
    test_seen: Any = ()
    val_classes: Any = ()
    query: Any = ()
    name: str = "custom"

    def __post_init__(self) -> None:
        for part in (*PARTS, "query"):
            try:
                positions = np.array(getattr(self, part)).ravel()
            except ValueError:
                raise DataError(
                    f"The split `{part}` must hold positions (whole numbers); got lists of unequal "
                    "length. Pass one flat list."
                ) from None
            if positions.size and positions.dtype.kind not in "iu":
                raise DataError(
                    f"The split `{part}` must hold positions (whole numbers); got "
                    f"{positions.dtype}. Pass np.flatnonzero(mask) for a mask."
                )
            _freeze(self, part, np.sort(positions.astype(np.int64)))
        _freeze(self, "val_classes", np.unique(np.array(self.val_classes)))

    @property
    def base(self) -> np.ndarray:
        """The few-shot name of `train`."""
        return self.train

    @property
    def novel(self) -> np.ndarray:
        """The few-shot name of `test_unseen`."""
        return self.test_unseen

    def check(self, labels: np.ndarray) -> None:
        """Refuse positions out of range, repeated or shared, and classes on both sides."""
        parts = {part: getattr(self, part) for part in (*PARTS, "query")}
        for part, positions in parts.items():
            _check_positions(part, positions, len(labels))
        for one, other in (("train", "test_seen"), ("train", "test_unseen")):
            shared = np.intersect1d(parts[one], parts[other])
            if shared.size:
                raise DataError(
                    f"The splits `{one}` and `{other}` must not share samples; {shared.size} are "
                    f"in both, the first at position {shared[0]}. Remove them from `{one}`."
                )
        stray = np.setdiff1d(self.query, self.test_unseen)
        if stray.size:
            raise DataError(
                f"Queries must be among `test_unseen`; position {stray[0]} is not. Take positions "
                "of samples of novel classes."
            )
        self._check_classes(labels)

    def _check_classes(self, labels: np.ndarray) -> None:
        seen, unseen = np.unique(labels[self.train]), np.unique(labels[self.test_unseen])
        both = np.intersect1d(seen, unseen)
        if both.size:
            raise DataError(
                f"Unseen classes must have no training sample; {_some(both)} are in `train` and in "
                "`test_unseen`. Move a class to one side."
            )
        new = np.setdiff1d(labels[self.test_seen], seen)
        if new.size:
            raise DataError(
                f"`test_seen` must hold classes of `train`; {_some(new)} have no training sample. "
                "Move them to `test_unseen`."
            )
        if self.val_classes.size:
            foreign = np.setdiff1d(self.val_classes, seen)
            if foreign.size:
                raise DataError(
                    f"Validation classes must be seen ones; {_some(foreign)} have no training "
                    "sample. Choose them among the classes of `train`."
                )


def _freeze(split: Split, name: str, values: np.ndarray) -> None:
    values.flags.writeable = False
    object.__setattr__(split, name, values)


def _check_positions(part: str, positions: np.ndarray, n: int) -> None:
    if positions.size and not (positions[0] >= 0 and positions[-1] < n):
        outside = positions[0] if positions[0] < 0 else positions[-1]
        raise DataError(
            f"The split `{part}` must hold positions from 0 to {n - 1}; got {outside}. Subtract 1 "
            "if they count from 1."
        )
    repeated = positions[1:][positions[1:] == positions[:-1]]
    if repeated.size:
        raise DataError(
            f"The split `{part}` must name a sample once; position {repeated[0]} came more than "
            "once. Keep one of them."
        )


def _some(labels: np.ndarray, most: int = 3) -> str:
    shown = ", ".join(repr(label) for label in labels[:most].tolist())
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
