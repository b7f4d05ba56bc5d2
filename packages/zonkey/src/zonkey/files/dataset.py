"""Dataset: features, labels, prototypes and a split, checked once and immutable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arrays import is_device_array, require_values, to_numpy
from ..config import rows_per_block
from ..errors import DataError
from ..labels import as_labels, format_labels, normalize_label
from ..prototypes import Prototypes

PARTS = ("train", "test_seen", "test_unseen")


@contextmanager
def collect_errors(problems: list[str], *kinds: type[Exception]) -> Iterator[None]:
    """Append a DataError, or an error of these kinds, to the problems instead of raising it."""
    try:
        yield
    except (DataError, *kinds) as error:
        problems.append(str(error))


@contextmanager
def as_data_error(about: str = "") -> Iterator[None]:
    """Turn an error of `zonkey.core` into a DataError."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise DataError(f"{about}{error}") from None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Suggest the most similar known name; if none is similar, return `otherwise`."""
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise


class LazyMatrix:
    """Feature matrix of known shape that is read on first use.

    Values are read once, checked to be finite, and returned read-only.

    Parameters
    ----------
    shape : tuple of (int, int)
        Number of samples and of dimensions.
    dtype : dtype
        Type of the entries.
    read : callable
        Function without parameters that returns the matrix, as a memory map if possible.
    source : str
        Where the matrix is read from, for error messages.

    See Also
    --------
    read_features : Open a feature file as a LazyMatrix.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.datasets import LazyMatrix
    >>> matrix = LazyMatrix((2, 2), float, lambda: np.eye(2), "memory")
    >>> matrix.shape
    (2, 2)
    >>> matrix.values()
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self, shape: tuple[int, int], dtype: Any, read: Callable[[], np.ndarray], source: str
    ) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self.source = source
        self._read = read
        self._values: np.ndarray | None = None

    @classmethod
    def of(cls, values: np.ndarray, source: str = "memory") -> LazyMatrix:
        """Wrap a matrix or memory map; its values are checked on first use.

        Parameters
        ----------
        values : ndarray of shape (n_samples, n_dimensions)
            The matrix.
        source : str, default="memory"
            Where it comes from, for error messages.

        Returns
        -------
        LazyMatrix
            The same values, not copied.
        """
        with as_data_error():
            require_values(values, "Features")
            matrix = to_numpy(values) if is_device_array(values) else np.asanyarray(values)
        if matrix.ndim != 2:
            raise DataError(
                f"Features must be a matrix, one sample per row; {source} has shape "
                f"{matrix.shape}. Flatten each sample into a row."
            )
        return cls(matrix.shape, matrix.dtype, lambda: matrix, source)

    def values(self) -> np.ndarray:
        """Return the matrix, read-only.

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            The same array on every call.
        """
        if self._values is None:
            try:
                values = self._read()
            except MemoryError:
                raise DataError(
                    f"Features must fit into memory; {self.source} has {self.shape[0]} x "
                    f"{self.shape[1]} entries of type {self.dtype}. Save fewer samples, or float32."
                ) from None
            if values.shape != self.shape:
                raise DataError(
                    f"Features of {self.source} had shape {self.shape} when the file was opened; "
                    f"now it is {values.shape}. Do not change the file while it is in use."
                )
            require_finite(values, self.source)
            self._values = _freeze(values.view())
        return self._values

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"LazyMatrix({self.shape[0]} x {self.shape[1]} {self.dtype}, {self.source})"


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of training and test samples, and the validation classes.

    Zero-shot and few-shot learning share this class: base classes are the seen ones, novel classes
    the unseen ones.

    Parameters
    ----------
    train : array-like of int
        Training samples of seen (base) classes, validation classes included.
    test_unseen : array-like of int
        Samples of unseen (novel) classes.
    test_seen : array-like of int, default=()
        Test samples of seen classes, for generalized zero-shot learning.
    val_classes : array-like of labels, default=()
        Seen classes that are held out to select parameters.
    query : array-like of int, default=()
        Few-shot learning: the samples of `test_unseen` that are queries only. If empty, any sample
        of `test_unseen` may be a query or a shot.
    name : str, default="custom"
        Name of the published split, for records.

    See Also
    --------
    Dataset : Features, labels and prototypes together with their split.

    Examples
    --------
    >>> from zonkey.datasets import Split
    >>> split = Split(train=[2, 0, 1], test_unseen=[4, 3])
    >>> split.train, split.novel
    (array([0, 1, 2]), array([3, 4]))
    """

    train: Any
    test_unseen: Any
    test_seen: Any = ()
    val_classes: Any = ()
    query: Any = ()
    name: str = "custom"

    def __post_init__(self) -> None:
        for part in (*PARTS, "query"):
            rule = f"The split `{part}` must hold positions (whole numbers)"
            try:
                positions = np.array(getattr(self, part)).ravel()
            except ValueError:
                raise DataError(
                    f"{rule}; got lists of unequal length. Pass one flat list."
                ) from None
            if positions.size and positions.dtype.kind not in "iu":
                raise DataError(
                    f"{rule}; got {positions.dtype}. Pass np.flatnonzero(mask) for a mask."
                )
            object.__setattr__(self, part, _freeze(np.sort(positions.astype(np.int64))))
        with as_data_error():
            classes = as_labels(self.val_classes, "`val_classes`") if len(self.val_classes) else ()
        object.__setattr__(self, "val_classes", _freeze(np.unique(np.array(classes))))

    base = property(lambda self: self.train, doc="Few-shot name of `train`.")
    novel = property(lambda self: self.test_unseen, doc="Few-shot name of `test_unseen`.")

    def check(self, labels: np.ndarray) -> None:
        """Check the split against the labels of all samples.

        Parameters
        ----------
        labels : ndarray of shape (n_samples,)
            Labels of all samples.

        Raises
        ------
        DataError
            If positions are out of range, repeated or shared, or a class is both seen and unseen.
        """
        for part in (*PARTS, "query"):
            _check_positions(part, getattr(self, part), len(labels))
        for part in ("test_seen", "test_unseen"):
            shared = np.intersect1d(self.train, getattr(self, part))
            if shared.size:
                raise DataError(
                    f"The splits `train` and `{part}` must not share samples; {shared.size} are in "
                    f"both, the first at position {shared[0]}. Remove them from `train`."
                )
        stray = np.setdiff1d(self.query, self.test_unseen)
        if stray.size:
            raise DataError(
                f"Queries must be in `test_unseen`; position {stray[0]} is not. Pass positions of "
                "samples of novel classes."
            )
        self._check_classes(labels)

    def _check_classes(self, labels: np.ndarray) -> None:
        seen = np.unique(labels[self.train])
        both = np.intersect1d(seen, labels[self.test_unseen])
        if both.size:
            raise DataError(
                f"Unseen classes must have no training samples; {format_labels(both, 3)} are in "
                "`train` and in `test_unseen`. Move each class to one side."
            )
        new = np.setdiff1d(labels[self.test_seen], seen)
        if new.size:
            raise DataError(
                f"`test_seen` must hold classes of `train`; {format_labels(new, 3)} have no "
                "training samples. Move them to `test_unseen`."
            )
        foreign = np.setdiff1d(self.val_classes, seen) if self.val_classes.size else seen[:0]
        if foreign.size:
            raise DataError(
                f"Validation classes must be seen; {format_labels(foreign, 3)} have no training "
                "samples. Choose classes of `train`."
            )


def _make_part(array: str, part: str, doc: str) -> property:
    """Return a property with the rows of a part of the split."""
    return property(lambda data: getattr(data, array)[getattr(data.split, part)], doc=doc)


class Dataset:
    """Features, labels, prototypes and a split.

    A data set is immutable. Its shapes, labels and split are checked when it is made. Its features
    are read, and their values checked, on first use; an array of features is not copied.

    Parameters
    ----------
    name : str
        Name of the data set.
    features : ndarray, memory map or LazyMatrix of shape (n_samples, n_dimensions)
        One sample per row.
    labels : array-like of shape (n_samples,)
        Class labels, all text or all numbers.
    prototypes : mapping of {str: prototypes} or prototypes
        One or several semantic spaces by name, in any form that `Prototypes` accepts. The first is
        the default. Each needs a vector for every class of `labels`.
    split : Split
        Training and test samples.
    class_names : mapping of {label: str}, default=None
        Display names of classes. A class without one is displayed by its label.
    license : str, default="not stated"
        License of the data, for reports.
    citation : str, default="not stated"
        Publication to cite, for reports.
    about : mapping, default=None
        Further facts for the record, such as the name of the feature file.

    See Also
    --------
    load_features : Make a data set of your own files.
    load_emoji : Load the embedded data set.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.datasets import Dataset, Split
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
        self._features = features if isinstance(features, LazyMatrix) else LazyMatrix.of(features)
        self._labels = _check_labels(labels, self._features)
        self._spaces = MappingProxyType(_check_spaces(prototypes, self._labels))
        split.check(self._labels)
        self.name = name
        self.split = split
        names = {normalize_label(label): name for label, name in (class_names or {}).items()}
        self.class_names = MappingProxyType(names)
        self.license = license
        self.citation = citation
        self.about = MappingProxyType(dict(about or {}))
        if type(self) is Dataset:  # a subclass has more attributes to set
            self._seal()

    @property
    def X(self) -> np.ndarray:
        """All features, read-only, shape (n_samples, n_dimensions)."""
        return self._features.values()

    @property
    def y(self) -> np.ndarray:
        """All labels, read-only, shape (n_samples,)."""
        return self._labels

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the features, known before they are read."""
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
        """Return the prototypes of a semantic space.

        Parameters
        ----------
        space : str
            One of `spaces`.

        Returns
        -------
        Prototypes
            One vector per class.
        """
        if space not in self._spaces:
            raise DataError(
                f"`space` must be one of {format_labels(np.array(self.spaces))}; got {space!r}. "
                "See the attribute `spaces`."
            )
        return self._spaces[space]

    X_train = _make_part("X", "train", "Training features.")
    y_train = _make_part("y", "train", "Training labels.")
    X_test_seen = _make_part("X", "test_seen", "Test features of seen classes.")
    y_test_seen = _make_part("y", "test_seen", "Test labels of seen classes.")
    X_test_unseen = _make_part("X", "test_unseen", "Features of unseen classes.")
    y_test_unseen = _make_part("y", "test_unseen", "Labels of unseen classes.")

    @cached_property
    def seen_classes(self) -> np.ndarray:
        """Classes with training samples (few-shot: base classes), sorted."""
        return _freeze(np.unique(self.y_train))

    @cached_property
    def unseen_classes(self) -> np.ndarray:
        """Classes of the unseen test samples (few-shot: novel classes), sorted."""
        return _freeze(np.unique(self.y_test_unseen))

    def name_of(self, label: Any) -> str:
        """Return the display name of a class.

        Parameters
        ----------
        label : str or int
            A class label.

        Returns
        -------
        str
            Its name in `class_names`, or else the label.
        """
        return self.class_names.get(normalize_label(label), str(label))

    @cached_property
    def sha256(self) -> str:
        """Hash of features, labels, prototypes and split, to identify the data in records."""
        digest = hashlib.sha256()
        for space, prototypes in self._spaces.items():
            digest.update(space.encode())
            _feed(digest, prototypes.labels)
            _feed(digest, prototypes.matrix)
        parts = [getattr(self.split, part) for part in (*PARTS, "query", "val_classes")]
        for array in (self.y, *parts, self.X):
            _feed(digest, array)
        return digest.hexdigest()

    def record(self) -> dict[str, Any]:
        """Return the facts that a report states about the data.

        Returns
        -------
        dict
            Name, hash, sizes, license, citation and `about`, ready for JSON.
        """
        about = {
            key: value.tolist() if hasattr(value, "tolist") else value
            for key, value in self.about.items()
            if key not in ("feature_names", "unused_columns")  # a wide table has thousands
        }
        return {
            **about,
            "name": self.name,
            "sha256": self.sha256,
            "split": self.split.name,
            "n_features": self.shape[1],
            "n_samples": {part: len(getattr(self.split, part)) for part in PARTS},
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

    def __deepcopy__(self, memo: Any = None) -> Dataset:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, because the file may not exist on another machine."""
        content = (self.name, np.asarray(self.X), self.y, dict(self._spaces), self.split)
        words = {"license": self.license, "citation": self.citation}
        tables = {"class_names": dict(self.class_names), "about": dict(self.about)}
        return partial(Dataset, *content, **words, **tables), ()

    def __repr__(self) -> str:
        n, d = self.shape
        classes = f"{len(self.seen_classes)} seen and {len(self.unseen_classes)} unseen classes"
        return f"Dataset({self.name!r}, {n} samples x {d}, {classes}, {', '.join(self.spaces)})"


def _freeze(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def require_finite(values: np.ndarray, source: str, first: int = 0) -> None:
    """Refuse features that are not finite numbers; `first` is the number of their first row."""
    if values.dtype.kind not in "fiu":
        raise DataError(
            f"Features must be real numbers; {source} holds {values.dtype}. Convert to float32."
        )
    # A memory map is never read into memory at once.
    rows = rows_per_block(values[:1].nbytes + values.shape[1])
    for start in range(0, len(values) if values.dtype.kind == "f" else 0, rows):
        bad = ~np.isfinite(values[start : start + rows]).all(axis=1)
        if bad.any():
            row = first + start + int(np.argmax(bad))
            raise DataError(
                f"Features must be finite; row {row} of {source} holds NaN or infinity. Drop such "
                "rows, or impute them before saving."
            )


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
            f"The split `{part}` must name each sample once; position {repeated[0]} is repeated. "
            "Remove the repetition."
        )


def require_one_label_per_row(features: LazyMatrix, labels: np.ndarray, source: str = "") -> None:
    """Refuse labels unless there is one per row of the features."""
    n, d = features.shape
    if len(labels) == n:
        return
    remedy = "Check that both come from the same run."
    if len(labels) == d:
        remedy = "The features look transposed: save X.T, so that samples are rows."
    elif len(labels) == n + 1:
        remedy = "If the first label is a heading, name it `label`."
    raise DataError(
        f"Features need one label per row; {features.source} has {n} rows and {d} columns, and "
        f"there are {len(labels)} labels{source and f' in {source}'}. {remedy}"
    )


def _check_labels(labels: Any, features: LazyMatrix) -> np.ndarray:
    with as_data_error():
        labels = as_labels(labels).copy()
    require_one_label_per_row(features, labels)
    return _freeze(labels)


def _check_spaces(prototypes: Any, labels: np.ndarray) -> dict[str, Prototypes]:
    """Return semantic spaces by name; each must know every class."""
    several = isinstance(prototypes, Mapping) and any(
        Prototypes.is_labeled(space) for space in prototypes.values()
    )
    spaces = dict(prototypes) if several else {"prototypes": prototypes}
    with as_data_error():
        known = {str(name): Prototypes.coerce(space) for name, space in spaces.items()}
        for space in known.values():
            space.positions(np.unique(labels))
    return known


def _feed(digest: Any, array: np.ndarray) -> None:
    """Hash an array in blocks, so that a memory map is never read into memory at once."""
    if array.dtype.kind == "U":  # the hash must not depend on the width of the array
        digest.update(json.dumps(array.tolist()).encode())
        return
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    rows = rows_per_block(2 * array[:1].nbytes)
    for start in range(0, len(array), rows):
        digest.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
