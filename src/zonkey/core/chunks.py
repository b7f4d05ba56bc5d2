"""Samples in chunks: data larger than memory are reduced chunk by chunk.

Learning needs sums over samples and a few samples of each class. Such a computation is a
`Reduction`: it takes up chunks, and merges with others of its kind. `Chunks` runs it on one
machine, reading ahead while it computes; `DaskChunks` runs it where the chunks of a Dask collection
live.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import islice
from os import PathLike
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np

from .checkpoints import Checkpoint, State, fingerprint
from .labels import as_labels, listed
from .samples import as_samples, require_scale
from .sources import ROW_LIBRARIES, ArraySource, PairSource, Source, ahead, has_rows, require_count

_START = State({}, n_chunks=0, n_rows=0, whole=False)
# float32 holds their values exactly, and takes half the memory of float64.
_NARROW = ("float16", "int8", "uint8", "int16", "uint16")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive samples, at least one: finite floats, and their labels if there are any.

    `number` counts the chunks of the source from 0. Empty ones are counted and left out.
    """

    X: np.ndarray
    y: np.ndarray | None
    number: int


class Reduction(Protocol):
    """A computation over chunks that can be merged, stored and restored.

    It starts empty. Merging it with an empty one changes nothing.
    """

    def fresh(self) -> Self:
        """Return an empty one, which shares all that chunks never change."""
        ...

    def update(self, chunk: Chunk) -> None:
        """Take up a chunk, which must not be changed."""
        ...

    def merge(self, other: Self) -> None:
        """Take up what another one has, which must not be changed."""
        ...

    def parts(self) -> dict[str, Any]:
        """Return arrays, numbers and text that `restore` needs."""
        ...

    def restore(self, parts: dict[str, Any]) -> None:
        """Become the one whose parts these are."""
        ...


R = TypeVar("R", bound=Reduction)
M = TypeVar("M", bound=Callable[..., Any])
Transform = Callable[[np.ndarray], Any]


class Chunked(ABC):
    """Samples in chunks, and functions to apply to the samples of each chunk."""

    feature_names: tuple[str, ...] | None = None
    transforms: tuple[Transform, ...] = ()

    def map(self, transform: Transform) -> Self:
        """Return the same chunks with their samples transformed when they are read.

        Parameters
        ----------
        transform : callable
            Function of the samples of a chunk. It must be picklable if chunks live on other
            machines.

        Returns
        -------
        Chunked
            Chunks of the same kind.
        """
        other = self._copy()
        other.transforms = (*self.transforms, transform)
        other.feature_names = None
        return other

    def reduced(self, reduction: R, name: str, key: str = "") -> R:
        """Return the reduction of all chunks.

        Parameters
        ----------
        reduction : Reduction
            An empty one, which may be changed.
        name : str
            Tells passes over the same chunks apart.
        key : str, default=""
            Stands for everything the pass depends on besides the chunks: a checkpoint with another
            key belongs to another computation.

        Returns
        -------
        Reduction
            The reduction that took up all chunks.
        """
        if not self.transforms:
            return self._reduced(reduction, name, key)
        mapped = _Mapped(reduction, self.transforms)
        key = f"{key} after {len(self.transforms)} transforms"
        return cast(R, self._reduced(mapped, name, key).inner)

    @abstractmethod
    def applied(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, one below the other.

        Parameters
        ----------
        function : callable
            Function of the samples of a chunk.

        Returns
        -------
        array
            One row or entry per sample.
        """

    @abstractmethod
    def close(self) -> None:
        """Forget what was kept for an interruption, once everything is done."""

    @abstractmethod
    def _reduced(self, reduction: Any, name: str, key: str) -> Any: ...

    @abstractmethod
    def _copy(self) -> Self: ...


@dataclass
class _Mapped:
    """A reduction of transformed samples."""

    inner: Any
    transforms: tuple[Transform, ...]

    def fresh(self) -> _Mapped:
        return replace(self, inner=self.inner.fresh())

    def update(self, chunk: Chunk) -> None:
        X = transformed(chunk.X, self.transforms)
        self.inner.update(replace(checked(X, None, chunk.number), y=chunk.y))

    def merge(self, other: _Mapped) -> None:
        self.inner.merge(other.inner)

    def parts(self) -> dict[str, Any]:
        return self.inner.parts()

    def restore(self, parts: dict[str, Any]) -> None:
        self.inner.restore(parts)


def transformed(X: Any, transforms: Iterable[Transform]) -> Any:
    """Return samples after some functions."""
    for transform in transforms:
        X = transform(X)
    return X


class Chunks(Chunked):
    """Samples that are read in chunks, one after the other.

    The next chunk is read while the current one is used. Memory holds a few chunks at a time.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), iterable or callable
        A memory map, an array of h5py or zarr, or anything else with a shape whose rows can be
        sliced. Or pairs (X, y) of arrays, one for each chunk: a list, or a function that returns a
        new iterator. An iterator is read once, which is enough for `Moments`.
    y : array-like of shape (n_samples,), default=None
        Labels, if X is one array.
    rows : int, default=None
        Number of rows per chunk, if X is one array. None: about 16 million numbers.
    checkpoint : path, default=None
        Folder for the state of a pass. A computation that was interrupted goes on from there, with
        the same result to the last bit. Removed at the end.
    every : int, default=16
        Number of chunks between two checkpoints.
    progress : callable, default=None
        Called after each chunk as ``progress(name, n_rows, n_total)`` with the name of the pass,
        the number of rows so far and that of all rows, None if unknown.

    Attributes
    ----------
    feature_names : tuple of str or None
        Names of the features.

    See Also
    --------
    zonkey.datasets.open_chunks : Chunks of files.

    Notes
    -----
    float16 and integers of up to 16 bits become float32, other numbers but float32 become float64.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import Chunks, Moments
    >>> parts = [(np.eye(2), ["horse", "horse"]), (np.eye(2), ["horse", "horse"])]
    >>> Moments({"horse": [1.0], "zebra": [2.0]}).update(Chunks(parts)).n_samples
    4
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        rows: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 16,
        progress: Callable[[str, int, int | None], Any] | None = None,
    ) -> None:
        require_count("rows", rows)
        require_count("every", every)
        sliceable = has_rows(X)
        if not sliceable and (y is not None or rows is not None):
            raise ValueError(
                "`y` and `rows` must be None if X is made of pairs (X, y), which have labels and "
                f"rows of their own; got X of type {type(X).__name__}. Put the labels into the "
                "pairs."
            )
        if isinstance(X, Source):
            self._source: Source = X
        else:
            self._source = ArraySource(X, y, rows) if sliceable else PairSource(X)
        self.n_rows = self._source.n_rows
        self.feature_names = self._source.feature_names
        self.checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        self.every = every
        self.progress = progress
        self._of_first = ""  # hash of the first chunk, once it was read

    def __iter__(self) -> Iterator[Chunk]:
        """Read the chunks, checked."""
        return _checked_chunks(self._source.read(0), 0)

    def applied(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, one below the other.

        Parameters
        ----------
        function : callable
            Function of the samples of a chunk.

        Returns
        -------
        array
            One row or entry per sample.
        """
        parts = []
        for chunk in self:
            with _telling(chunk.number):
                parts.append(function(transformed(chunk.X, self.transforms)))
        if not parts:
            raise _empty()
        return np.concatenate(parts)

    def close(self) -> None:
        """Remove the checkpoint."""
        if self.checkpoint is not None:
            self.checkpoint.remove()

    def _copy(self) -> Self:
        return copy.copy(self)

    def _reduced(self, reduction: Any, name: str, key: str) -> Any:
        kept = self.checkpoint
        if kept is None:
            chunks = _checked_chunks(self._source.read(0, learning=True), 0)
            return self._pass(reduction, name, chunks, _START, lambda _: None)
        with kept.locked():
            pairs, of_first = self._first()
            about = (self.n_rows, self._source.identity, fingerprint(self.transforms))
            identity = f"{key} {of_first} {about}"
            start = kept.read(name, identity) or _START
            if start.n_chunks:
                reduction.restore(start.parts)
                skip = partial(islice, pairs, start.n_chunks, None)
                read = partial(self._source.read, start.n_chunks, learning=True)
                pairs = skip() if self._source.once else read()
            if start.whole:
                return reduction
            chunks = _checked_chunks(pairs, start.n_chunks)
            return self._pass(reduction, name, chunks, start, partial(kept.write, name, identity))

    def _first(self) -> tuple[Iterator[Any], str]:
        """Return the pairs of all chunks, and a hash of the first."""
        pairs = self._source.read(0, learning=True)
        if not self._of_first:
            first = list(islice(pairs, 1))
            if not first:
                raise _empty()
            chunk = checked(*first[0], 0)
            self._of_first = Checkpoint.digest(chunk.X, chunk.y)
            pairs = _following(first, pairs)
        return pairs, self._of_first

    def _pass(
        self,
        reduction: Any,
        name: str,
        chunks: Iterator[Chunk],
        start: State,
        write: Callable[[State], Any],
    ) -> Any:
        """Take up chunks; write the state after every few of them, and at the end."""
        done, n_rows = start.n_chunks, start.n_rows
        for chunk in chunks:
            with _telling(chunk.number):
                reduction.update(chunk)
            before, done, n_rows = done, chunk.number + 1, n_rows + len(chunk.X)
            if self.checkpoint is not None and done // self.every > before // self.every:
                write(State(reduction.parts(), done, n_rows, whole=False))
            if self.progress is not None:
                self.progress(name, n_rows, self.n_rows)
        if not n_rows:
            raise _empty()
        if self.checkpoint is not None:
            write(State(reduction.parts(), done, n_rows, whole=True))
        return reduction


def _following(first: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    """Yield an item that was read before, without keeping it, and then others."""
    yield first.pop()
    yield from rest


def _checked_chunks(pairs: Iterator[Any], first: int) -> Iterator[Chunk]:
    """Yield chunks from number `first` on; the next one is read while the last is used."""
    width, number = None, first
    for X, y in ahead(pairs):
        chunk = checked(X, y, number, width)
        del X, y  # they may be copies
        width, number = chunk.X.shape[1], number + 1
        if len(chunk.X):
            yield chunk
        del chunk


@contextmanager
def _telling(number: int) -> Iterator[None]:
    """Name the chunk in errors about samples."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError) or str(error).startswith("Chunk"):
            raise
        raise type(error)(f"Chunk {number}: {error}") from error


def as_chunks(X: Any, y: Any = None) -> Chunked | None:
    """Return samples that come in chunks, None for samples in memory.

    Chunks are `Chunks`, memory maps, arrays of h5py and zarr, and Dask arrays and data frames.
    """
    if isinstance(X, Chunked):
        if y is not None:
            raise ValueError(
                f"y must be None if X is {type(X).__name__}, which has its own labels; got "
                f"{type(y).__name__}. Pass the labels with the chunks."
            )
        return X
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        from .distributed import DaskChunks

        return DaskChunks.of(X, y)
    is_file = isinstance(X, np.memmap) or type(X).__module__.partition(".")[0] in ROW_LIBRARIES
    return Chunks(X, y) if is_file and has_rows(X) else None


def in_chunks(method: M) -> M:
    """Let a method of samples take samples in chunks, and return the results of all.

    Results of Dask collections are lazy.
    """

    @wraps(method)
    def whole(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        chunks = as_chunks(X)
        if chunks is None:
            return method(self, X, *args, **options)
        owner = without_names(self, chunks)
        return chunks.applied(_Bound(owner, method.__name__, args, options))

    return cast(M, whole)


def without_names(estimator: Any, chunks: Chunked) -> Any:
    """Return a fitted estimator for chunks whose names of features are right.

    Chunks are arrays, so it must not compare names again.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return estimator
    names = chunks.feature_names
    if names is not None and [*names] != [*known]:
        raise ValueError(
            f"Chunks must have the features that {type(estimator).__name__} was fitted on, in "
            f"their order: {listed(np.asarray(known))}; got {listed(np.asarray(names))}. Prepare "
            "them as the training data."
        )
    other = copy.copy(estimator)
    del other.feature_names_in_
    return other


@dataclass(frozen=True, eq=False)
class _Bound:
    """A method of an object with all its arguments but the samples; picklable."""

    owner: Any
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self, X: Any) -> Any:
        return getattr(self.owner, self.name)(X, *self.args, **self.options)


def checked(X: Any, y: Any, number: int, width: int | None = None) -> Chunk:
    """Return a chunk of finite floats with one label per sample; `width` is that of the others."""
    with _telling(number):
        dtype = getattr(X, "dtype", None)
        if getattr(dtype, "name", "") in (*_NARROW, "float32"):
            X = np.asarray(X, np.float32)  # in the byte order of the machine
        X = as_samples(X)
        require_scale(X)
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        labels = None if y is None else as_labels(y, "y")
    if width is not None and X.shape[1] != width:
        raise ValueError(
            f"Chunks must have the same features; chunk {number} has {X.shape[1]}, those before "
            f"have {width}. Use the same encoder for all."
        )
    if labels is not None and len(labels) != len(X):
        raise ValueError(
            f"Chunks must have one label per sample; chunk {number} has {len(X)} samples and "
            f"{len(labels)} labels. Pass X and y of the same samples."
        )
    return Chunk(X, labels, number)


def required_labels(chunk: Chunk) -> np.ndarray:
    """Return the labels of a chunk, which must have some."""
    if chunk.y is None:
        raise ValueError(
            "Samples in chunks must have labels here; got samples only. Pass y with a Dask "
            "collection, or else Chunks(X, y) or pairs (X, y)."
        )
    return chunk.y


def _empty() -> ValueError:
    return ValueError("X must have at least one sample; got no chunk. Check the source.")
