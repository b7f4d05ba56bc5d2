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
from typing import Any, Literal, Protocol, Self, TypeVar, cast

import numpy as np

from .checkpoints import Checkpoint, State, fingerprint
from .labels import as_labels, listed
from .samples import as_samples, require_scale
from .sources import (
    ROW_LIBRARIES,
    ArraySource,
    PairSource,
    Purpose,
    Source,
    ahead,
    has_rows,
    read_once,
    require_count,
)

_START = State({}, n_chunks=0, n_rows=0, last="", whole=False)
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
    _keys: tuple[str | None, ...] = ()

    def map(self, transform: Transform, key: str | None = None) -> Self:
        """Return the same chunks with their samples transformed when they are read.

        Parameters
        ----------
        transform : callable
            Function of the samples of a chunk. It must be picklable if chunks live on other
            machines.
        key : str, default=None
            Stands for the function in checkpoints. None: its code, and all that it holds.

        Returns
        -------
        Chunked
            Chunks of the same kind.
        """
        other = self._copy()
        other.transforms = (*self.transforms, transform)
        other._keys = (*self._keys, key)
        other.feature_names = None
        return other

    def reduced(
        self,
        reduction: R,
        name: str,
        key: str = "",
        *,
        purpose: Literal["learn", "score"] = "learn",
    ) -> R:
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
        purpose : {"learn", "score"}, default="learn"
            "learn" leaves out rows that nothing is to be learned from, such as test samples of a
            file. "score" takes all that have a label, and stores nothing in a checkpoint.

        Returns
        -------
        Reduction
            The reduction that took up all chunks.
        """
        if not self.transforms:
            return self._reduced(reduction, name, key, purpose)
        mapped = _Mapped(reduction, self.transforms)
        return cast(R, self._reduced(mapped, name, key, purpose).inner)

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

    def require_several_passes(self) -> None:  # noqa: B027
        """Refuse chunks that can be read once only."""

    @abstractmethod
    def close(self) -> None:
        """Forget what was kept for an interruption, once everything is done."""

    @abstractmethod
    def _reduced(self, reduction: Any, name: str, key: str, purpose: Purpose) -> Any: ...

    @abstractmethod
    def _copy(self) -> Self: ...


@dataclass
class _Mapped:
    """A reduction of transformed samples."""

    inner: Any
    transforms: tuple[Transform, ...]

    def update(self, chunk: Chunk) -> None:
        self.inner.update(_after(chunk, self.transforms))

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


def _after(chunk: Chunk, transforms: tuple[Transform, ...]) -> Chunk:
    """Return a chunk after some functions of its samples."""
    if not transforms:
        return chunk
    with _telling(chunk.number):
        X = transformed(chunk.X, transforms)
    return replace(checked(X, None, chunk.number), y=chunk.y)


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
        self._ran: set[str] = set()  # names of passes, also of copies

    def __iter__(self) -> Iterator[Chunk]:
        """Read the chunks, checked and transformed."""
        return self._chunks("all")

    def labeled(self) -> Iterator[Chunk]:
        """Read the samples to learn from, checked and transformed.

        Yields
        ------
        Chunk
            Samples and labels.
        """
        for chunk in self._chunks("learn"):
            required_labels(chunk)
            yield chunk

    def _chunks(self, purpose: Purpose) -> Iterator[Chunk]:
        for chunk in _checked_chunks(self._source.read(0, purpose), 0):
            yield _after(chunk, self.transforms)
            del chunk

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
                parts.append(function(chunk.X))
        if not parts:
            raise _empty()
        return np.concatenate(parts)

    def close(self) -> None:
        """Remove the states of the passes that were run, and the checkpoint if it is empty."""
        if self.checkpoint is not None:
            self.checkpoint.remove(self._ran)
            self._ran.clear()

    def require_several_passes(self) -> None:
        """Refuse an iterator, before anything is read."""
        if self._source.once:
            raise read_once()

    def _copy(self) -> Self:
        return copy.copy(self)

    def _reduced(self, reduction: Any, name: str, key: str, purpose: Purpose) -> Any:
        kept, source = self.checkpoint, self._source
        if kept is None or purpose == "score":
            chunks = _checked_chunks(source.read(0, purpose), 0)
            return self._pass(reduction, name, chunks, _START, None)
        with kept.locked():
            identity = self._identity(key)
            start = kept.read(name, identity) or _START
            self._ran.add(name)
            first = max(0, start.n_chunks - 1)  # the last one is read again, to compare it
            read = islice(source.read(0, purpose), first, None) if source.once else None
            chunks = _checked_chunks(read or source.read(first, purpose), first)
            if start.n_chunks:
                last = next(chunks, None)
                is_more = start.whole and next(chunks, None) is not None
                if last is None or Checkpoint.digest(last.X, last.y) != start.last or is_more:
                    raise kept.of_others(name)
                reduction.restore(start.parts)
            if start.whole:
                return reduction
            return self._pass(reduction, name, chunks, start, partial(kept.write, name, identity))

    def _identity(self, key: str) -> str:
        """Return what a state depends on, besides the samples."""
        pairs = zip(self.transforms, self._keys, strict=True)
        keys = [fingerprint(transform) if own is None else own for transform, own in pairs]
        return fingerprint([key, self.n_rows, self._source.identity, keys])

    def _pass(
        self,
        reduction: Any,
        name: str,
        chunks: Iterator[Chunk],
        start: State,
        write: Callable[[State], Any] | None,
    ) -> Any:
        """Take up chunks; write the state after every few of them, and at the end."""
        done, n_rows, chunk = start.n_chunks, start.n_rows, None
        for chunk in chunks:
            with _telling(chunk.number):
                reduction.update(chunk)
            before, done, n_rows = done, chunk.number + 1, n_rows + len(chunk.X)
            if write is not None and done // self.every > before // self.every:
                last = Checkpoint.digest(chunk.X, chunk.y)
                write(State(reduction.parts(), done, n_rows, last, whole=False))
            if self.progress is not None:
                self.progress(name, n_rows, self.n_rows)
        if not n_rows:
            raise _empty()
        if write is not None:
            last = start.last if chunk is None else Checkpoint.digest(chunk.X, chunk.y)
            write(State(reduction.parts(), done, n_rows, last, whole=True))
        return reduction


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
            "Chunks to learn from must have labels; got samples only. Pass Chunks(X, y), or pairs "
            "(X, y)."
        )
    return chunk.y


def _empty() -> ValueError:
    return ValueError("X must have at least one sample; got no chunk. Check the source.")
