"""Dataset: features, labels, prototypes and a split, checked once and never changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.labels import as_labels, listed
from ..core.prototypes import Prototypes
from .errors import DataError
from .lazy import LazyMatrix
from .split import PARTS, Split

_HASHED_AT_A_TIME = 1 << 22  # bytes hashed at a time


class Dataset:
    """One data set, whatever file it came from.

    Immutable, but for the caller's own hold on an array of features, which is not copied. Shapes,
    labels and the split are checked when it is made; the features are read, and their values
    checked, when they are first used.

    Parameters
    ----------
    name : str
    features : ndarray, memory map or LazyMatrix of shape (n, d)
    labels : array-like of shape (n,)
    prototypes : mapping {space: Prototypes}, or anything `Prototypes` can be made of
        One or several semantic spaces; the first is the default. Every class of `labels` needs a
        vector in each.
    split : Split
    class_names : mapping {label: str}, default=None
        How to write a class for people; the label itself where there is none.
    license, citation : str
    about : mapping, default=None
        Further facts for the record, such as the file the features came from.

    Examples
    --------
    >>> import numpy as np
    >>> data = Dataset(
    ...     "stripes",
    ...     np.eye(3),
    ...     ["horse", "donkey", "zebra"],
    ...     {"horse": [0.0, 1.0], "donkey": [0.0, 0.5], "zebra": [1.0, 1.0]},
    ...     Split(train=[0, 1], test_unseen=[2]),
    ... )
    >>> data.seen_classes.tolist(), data.unseen_classes.tolist(), data.X_train.shape
    (['donkey', 'horse'], ['zebra'], (2, 3))
    """

    def __init__(
        self,
        name: str,
        features: Any,
        labels: Any,
        prototypes: Any,
        split: Split,
        *,
        class_names: Mapping[Any, str] | None = None,
        license: str = "not stated",
        citation: str = "not stated",
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._features = (
            features if isinstance(features, LazyMatrix) else LazyMatrix.of(np.asanyarray(features))
        )
        self._labels = _checked_labels(labels, self._features)
        self._spaces = MappingProxyType(_checked_spaces(prototypes, self._labels))
        split.check(self._labels)
        self.name = name
        self.split = split
        self.class_names = MappingProxyType(dict(class_names or {}))
        self.license = license
        self.citation = citation
        self.about = MappingProxyType(dict(about or {}))
        if type(self) is Dataset:  # a subclass has more to set
            self._seal()

    @property
    def X(self) -> np.ndarray:
        """All features, read-only, shape (n, d)."""
        return self._features.values()

    @property
    def y(self) -> np.ndarray:
        """All labels, read-only, shape (n,)."""
        return self._labels

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d), known before the features are read."""
        return self._features.shape

    @property
    def spaces(self) -> tuple[str, ...]:
        """Names of the semantic spaces, the default first."""
        return tuple(self._spaces)

    @property
    def prototypes(self) -> Prototypes:
        """Prototypes of the default semantic space."""
        return self._spaces[self.spaces[0]]

    def prototypes_of(self, space: str) -> Prototypes:
        """Return the prototypes of a semantic space."""
        if space not in self._spaces:
            raise DataError(
                f"`space` must be one of {listed(np.array(self.spaces))}; got {space!r}. See the "
                "attribute `spaces`."
            )
        return self._spaces[space]

    X_train = property(lambda self: self.X[self.split.train], doc="Features to learn from.")
    y_train = property(lambda self: self.y[self.split.train], doc="Labels to learn from.")
    X_test_seen = property(
        lambda self: self.X[self.split.test_seen], doc="Held-out features of seen classes."
    )
    y_test_seen = property(lambda self: self.y[self.split.test_seen], doc="Their labels.")
    X_test_unseen = property(
        lambda self: self.X[self.split.test_unseen], doc="Features of unseen classes."
    )
    y_test_unseen = property(lambda self: self.y[self.split.test_unseen], doc="Their labels.")

    @cached_property
    def seen_classes(self) -> np.ndarray:
        """Classes with training samples (few-shot: base classes), sorted."""
        return _frozen(np.unique(self.y_train))

    @cached_property
    def unseen_classes(self) -> np.ndarray:
        """Classes of the unseen test samples (few-shot: novel classes), sorted."""
        return _frozen(np.unique(self.y_test_unseen))

    def name_of(self, label: Any) -> str:
        """Return the name of a class for people."""
        return self.class_names.get(label, str(label))

    @cached_property
    def sha256(self) -> str:
        """Hash of features, labels, prototypes and split, to tell data apart in records."""
        digest = hashlib.sha256()
        for space, prototypes in self._spaces.items():
            digest.update(space.encode())
            _feed(digest, prototypes.labels)
            _feed(digest, prototypes.matrix)
        split = self.split
        parts = [getattr(split, part) for part in (*PARTS, "query", "val_classes")]
        for array in (self.y, *parts):
            _feed(digest, array)
        _feed(digest, self.X)
        return digest.hexdigest()

    def record(self) -> dict[str, Any]:
        """Return what a report must say about the data, ready for JSON."""
        sizes = {part: len(getattr(self.split, part)) for part in PARTS}
        return {
            **{
                key: getattr(value, "tolist", lambda v=value: v)()
                for key, value in self.about.items()
            },
            "name": self.name,
            "sha256": self.sha256,
            "split": self.split.name,
            "n_features": self.shape[1],
            "n_samples": sizes,
            "n_seen": len(self.seen_classes),
            "n_unseen": len(self.unseen_classes),
            "n_val_classes": len(self.split.val_classes),
            "spaces": {name: space.n_dimensions for name, space in self._spaces.items()},
            "license": self.license,
            "citation": self.citation,
        }

    def __setattr__(self, name: str, value: Any) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(
                f"A data set never changes; `{name}` cannot be set. Make another Dataset."
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A data set never changes; `{name}` cannot be deleted.")

    def _seal(self) -> None:
        self.__dict__["_sealed"] = True

    def __copy__(self) -> Dataset:
        return self

    def __deepcopy__(self, memo: Any) -> Dataset:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values themselves: a file may be gone where they are read back."""
        words = {"license": self.license, "citation": self.citation}
        tables = {"class_names": dict(self.class_names), "about": dict(self.about)}
        content = (self.name, np.asarray(self.X), self.y, dict(self._spaces), self.split)
        return _rebuilt, (content, {**words, **tables})

    def __repr__(self) -> str:
        n, d = self.shape
        classes = f"{len(self.seen_classes)} seen and {len(self.unseen_classes)} unseen classes"
        return f"Dataset({self.name!r}, {n} samples x {d}, {classes}, {', '.join(self.spaces)})"


def _rebuilt(content: tuple[Any, ...], named: dict[str, Any]) -> Dataset:
    return Dataset(*content, **named)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _checked_labels(labels: Any, features: LazyMatrix) -> np.ndarray:
    try:
        labels = as_labels(labels).copy()
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None
    if len(labels) != len(features):
        n, d = features.shape
        remedy = "Check that both come from the same run."
        if len(labels) == d:
            remedy = "The features look transposed: samples must be rows."
        raise DataError(
            f"Features and labels must be equally many; {features.source} has {n} rows and there "
            f"are {len(labels)} labels. {remedy}"
        )
    return _frozen(labels)


def _checked_spaces(prototypes: Any, labels: np.ndarray) -> dict[str, Prototypes]:
    """Return semantic spaces by name, all of which know every class."""
    several = isinstance(prototypes, Mapping) and any(
        Prototypes.is_labeled(space) for space in prototypes.values()
    )
    spaces = dict(prototypes) if several else {"prototypes": prototypes}
    try:
        known = {str(name): Prototypes.coerce(space) for name, space in spaces.items()}
        for space in known.values():
            space.positions(np.unique(labels))
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None
    return known


def _feed(digest: Any, array: np.ndarray) -> None:
    """Hash an array in blocks, so that a memory map is not read into memory at once."""
    if array.dtype.kind == "U":  # whatever room the array leaves for longer labels
        digest.update(json.dumps(array.tolist()).encode())
        return
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    rows = max(1, _HASHED_AT_A_TIME // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        digest.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
