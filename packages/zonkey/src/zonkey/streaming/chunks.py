"""Samples in chunks: data larger than memory are reduced chunk by chunk.

Learning needs sums over samples and a few samples of each class. Such a computation is a
`Reduction`: it adds chunks, and merges with reductions of the same kind. `Chunks` runs it on one
machine, reading ahead while it computes; `DaskChunks` runs it where the chunks of a Dask collection
live.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from os import PathLike
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np

from ..hashing import hash_object
from ..labels import check_count, format_value
from .checkpoint import PassCheckpoint, State, name_state
from .reduce import Reduction
from .sources import (
    ArraySource,
    BaseSource,
    Chunk,
    PairSource,
    Purpose,
    check_chunk,
    check_chunks,
    get_labels,
    has_rows,
    make_reread_error,
    name_chunk,
)

_START = State({}, n_chunks=0, n_rows=0, last="", whole=False)


R = TypeVar("R", bound=Reduction)
Transform = Callable[[np.ndarray], Any]


class Chunked(ABC):
    """Samples in chunks, and functions to apply to the samples of each chunk."""

    transforms: tuple[Transform, ...] = ()
    _keys: tuple[str | None, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, None if they have none."""
        return None if self.transforms else self._names()

    def map(self, transform: Transform, key: str | None = None) -> Self:
        """Return chunks whose samples are transformed when they are read.

        Parameters
        ----------
        transform : callable
            Function of the samples of a chunk. It must be picklable if chunks live on other
            machines.
        key : str, default=None
            Text that identifies the function in checkpoints. None: its code and all values it
            holds.

        Returns
        -------
        Chunked
            Chunks of the same kind.
        """
        other = copy.copy(self)
        other.transforms = (*self.transforms, transform)
        other._keys = (*self._keys, key)
        return other

    def reduce(
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
            Name that distinguishes passes over the same chunks.
        key : str, default=""
            Text that identifies everything the pass depends on besides the chunks: a checkpoint
            with another key belongs to another computation.
        purpose : {"learn", "score"}, default="learn"
            "learn" leaves out rows that are not for learning, such as test samples of a file.
            "score" takes all rows with a label, and writes no checkpoint.

        Returns
        -------
        Reduction
            The reduction of all chunks.
        """
        if not self.transforms:
            return self._reduce(reduction, name, key, purpose)
        mapped = _Mapped(reduction, self.transforms)
        return cast(R, self._reduce(mapped, name, key, purpose).inner)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, one below the other.

        Parameters
        ----------
        function : callable
            Function of the samples of a chunk.

        Returns
        -------
        array
            One row or entry per sample; a lazy array for a Dask collection.
        """
        return self._run_function(function)

    def require_several_passes(self) -> None:  # noqa: B027
        """Refuse chunks that can be read once only."""

    @abstractmethod
    def close(self) -> None:
        """Remove the state kept for an interruption, once everything is done."""

    @abstractmethod
    def _reduce(self, reduction: Any, name: str, key: str, purpose: Purpose) -> Any: ...

    @abstractmethod
    def _run_function(self, function: Callable[[Any], Any]) -> Any: ...

    @abstractmethod
    def _names(self) -> tuple[str, ...] | None: ...


@dataclass
class _Mapped:
    """A reduction of transformed samples."""

    inner: Any
    transforms: tuple[Transform, ...]

    def copy_empty(self) -> _Mapped:
        return replace(self, inner=self.inner.copy_empty())

    def update(self, chunk: Chunk) -> None:
        self.inner.update(_transform_chunk(chunk, self.transforms))

    def merge(self, other: _Mapped) -> None:
        self.inner.merge(other.inner)

    def parts(self) -> dict[str, Any]:
        return self.inner.parts()

    def restore(self, parts: dict[str, Any]) -> None:
        self.inner.restore(parts)


def apply_transforms(X: Any, transforms: Iterable[Transform]) -> Any:
    """Return samples after some functions."""
    for transform in transforms:
        X = transform(X)
    return X


def _transform_chunk(chunk: Chunk, transforms: tuple[Transform, ...]) -> Chunk:
    """Return a chunk after some functions of its samples."""
    if not transforms:
        return chunk
    with name_chunk(chunk.number):
        X = apply_transforms(chunk.X, transforms)
    return replace(check_chunk(X, None, chunk.number), y=chunk.y)


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
        Folder for the state of a pass. An interrupted computation resumes from there, with
        the same result to the last bit. Removed at the end.
    every : int, default=16
        Number of chunks between two checkpoints.
    progress : callable, default=None
        Called after each chunk as ``progress(name, n_rows, n_total)`` with the name of the pass or
        method, the number of rows so far and that of all rows, None if unknown. Rows that are left
        out count at the end.

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
        rows = None if rows is None else check_count("rows", rows, 1)
        self.every = check_count("every", every, 1)
        if isinstance(X, str | PathLike):
            raise TypeError(
                f"X must be samples; got the path {format_value(str(X))}. Use "
                "zonkey.datasets.open_chunks(path), or np.load(path, mmap_mode='r')."
            )
        sliceable = has_rows(X)
        if not sliceable and (y is not None or rows is not None):
            raise ValueError(
                "`y` and `rows` must be None if X is made of pairs (X, y), which have labels and "
                f"rows of their own; got X of type {type(X).__name__}. Put the labels into the "
                "pairs."
            )
        if isinstance(X, BaseSource):
            self._source: BaseSource = X
        else:
            self._source = ArraySource(X, y, rows) if sliceable else PairSource(X)
        self.n_rows = self._source.n_rows
        self.checkpoint = None if checkpoint is None else PassCheckpoint(checkpoint)
        self.progress = progress
        self._ran: set[str] = set()  # names of states, also of copies

    def __iter__(self) -> Iterator[Chunk]:
        """Read the chunks, checked and transformed."""
        return self._chunks("all")

    def read_labeled(self) -> Iterator[Chunk]:
        """Read the samples to learn from, checked and transformed.

        Yields
        ------
        Chunk
            Samples and labels.
        """
        for chunk in self._chunks("learn"):
            get_labels(chunk)
            yield chunk

    def _chunks(self, purpose: Purpose) -> Iterator[Chunk]:
        for chunk in check_chunks(self._source.read(0, purpose), 0):
            yield _transform_chunk(chunk, self.transforms)
            del chunk

    def _run_function(self, function: Callable[[Any], Any]) -> Any:
        return _join(self._results(function), self.n_rows)

    def _results(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        n_rows, name = 0, getattr(function, "name", "apply")
        for chunk in self:
            with name_chunk(chunk.number):
                yield function(chunk.X)
            n_rows += len(chunk.X)
            self._tell(name, n_rows)
            del chunk

    def _tell(self, name: str, n_rows: int | None) -> None:
        if self.progress is not None and n_rows is not None:
            self.progress(name, n_rows, self.n_rows)

    def close(self) -> None:
        """Remove the states of the passes that were run, and the checkpoint if it is empty."""
        if self.checkpoint is not None:
            self.checkpoint.remove(self._ran)
            self._ran.clear()

    def require_several_passes(self) -> None:
        """Refuse an iterator, before anything is read."""
        if self._source.once:
            raise make_reread_error()

    def _names(self) -> tuple[str, ...] | None:
        return self._source.names()

    def _reduce(self, reduction: Any, name: str, key: str, purpose: Purpose) -> Any:
        kept, source = self.checkpoint, self._source
        if kept is None or purpose == "score":
            chunks = check_chunks(source.read(0, purpose), 0)
            return self._pass(reduction, name, chunks, _START, None)
        with kept.lock():
            identity = self._identity(key)
            state = name_state(name, len(self.transforms))
            start = kept.read(state, identity) or _START
            self._ran.add(state)
            is_compared = start.n_chunks > 0 and not source.is_file
            first = start.n_chunks - is_compared  # the last one is read again
            read = islice(source.read(0, purpose), first, None) if source.once else None
            chunks = check_chunks(read or source.read(first, purpose), first)
            if is_compared:
                last = next(chunks, None)
                is_more = start.whole and next(chunks, None) is not None
                if last is None or _digest(last) != start.last or is_more:
                    raise kept.make_foreign_error(state)
            if start.n_chunks:
                reduction.restore(start.parts)
            if start.whole:
                return reduction
            return self._pass(reduction, name, chunks, start, partial(kept.write, state, identity))

    def _identity(self, key: str) -> str:
        """Return what a state depends on, besides the samples."""
        pairs = zip(self.transforms, self._keys, strict=True)
        keys = [hash_object(transform) if own is None else own for transform, own in pairs]
        source = self._source
        return hash_object(key, self.n_rows, source.identity, source.labels, keys)

    def _pass(
        self,
        reduction: Any,
        name: str,
        chunks: Iterator[Chunk],
        start: State,
        write: Callable[[State], Any] | None,
    ) -> Any:
        """Add chunks; write the state after every few of them, and at the end."""
        done, n_rows, chunk = start.n_chunks, start.n_rows, None
        for chunk in chunks:
            with name_chunk(chunk.number):
                reduction.update(chunk)
            before, done, n_rows = done, chunk.number + 1, n_rows + len(chunk.X)
            if write is not None and done // self.every > before // self.every:
                write(State(reduction.parts(), done, n_rows, _digest(chunk), whole=False))
            self._tell(name, n_rows)
        if not n_rows:
            raise make_empty_error()
        if n_rows != self.n_rows:
            self._tell(name, self.n_rows)  # those that were left out
        if write is not None:
            last = start.last if chunk is None else _digest(chunk)
            write(State(reduction.parts(), done, n_rows, last, whole=True))
        return reduction


def _digest(chunk: Chunk) -> str:
    return hash_object(chunk.X, chunk.y)


def _join(parts: Iterable[Any], n_rows: int | None) -> np.ndarray:
    """Return arrays one below the other; a known number of rows is allocated once."""
    if n_rows is None:
        found = list(parts)
        if not found:
            raise make_empty_error()
        return np.concatenate(found)
    whole, n = None, 0
    for part in map(np.asarray, parts):
        if whole is None:
            whole = np.empty((n_rows, *part.shape[1:]), part.dtype)
        elif part.dtype != whole.dtype:
            whole = whole.astype(np.result_type(whole, part), copy=False)
        whole[n : n + len(part)] = part
        n += len(part)
        del part
    if whole is None:
        raise make_empty_error()
    return whole[:n]


def make_empty_error() -> ValueError:
    """Return the error of a source without any sample."""
    return ValueError("X must have at least one sample; got no chunk. Check the source.")
