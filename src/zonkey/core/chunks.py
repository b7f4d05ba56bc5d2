"""Samples in chunks: data larger than memory are reduced chunk by chunk.

Learning needs sums over samples and a few samples of each class. Such a computation is a
`Reduction`: it takes up chunks, and merges with others of its kind. `Chunks` runs it on one
machine, reading ahead while it computes; `DaskChunks` runs it where the chunks of a Dask collection
live.
"""

from __future__ import annotations

import copy
import mmap
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np

from .checkpoints import Checkpoint, fingerprint
from .labels import as_labels, listed, shown
from .samples import as_samples, require_scale

# Numbers per chunk, unless the rows are given: enough rows for a full-speed product of them.
_CHUNK = 1 << 24
_MOST_ROWS = 1 << 16
_ROW_LIBRARIES = ("h5py", "zarr")
# float32 holds their values exactly, and takes half the memory of float64.
_NARROW = ("float16", "int8", "uint8", "int16", "uint16")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive samples: finite floats, and their labels if there are any.

    `number` counts the chunks of the source from 0.
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

    def map(self, transform: Transform) -> Self:
        """Return the same chunks with their samples transformed when they are read.

        The function must be picklable if chunks live on other machines.
        """
        other = self._copy()
        other.transforms = (*self.transforms, transform)
        other.feature_names = None
        return other

    def reduced(self, reduction: R, name: str, key: str = "") -> R:
        """Return the reduction, which must be empty, of all chunks.

        `name` tells passes over the same chunks apart. `key` stands for everything the pass depends
        on besides the chunks: a checkpoint with another key belongs to another computation.
        """
        if not self.transforms:
            return self._reduced(reduction, name, key)
        mapped = _Mapped(reduction, self.transforms)
        return cast(R, self._reduced(mapped, name, key).inner)

    @abstractmethod
    def applied(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, one below the other."""

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

    def update(self, chunk: Chunk) -> None:
        self.inner.update(replace(chunk, X=transformed(chunk.X, self.transforms)))

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
        for name, value in (("rows", rows), ("every", every)):
            is_count = isinstance(value, Integral) and not isinstance(value, bool)
            if value is not None and not (is_count and value >= 1):
                raise ValueError(
                    f"`{name}` must be an integer of at least 1; got {shown(value)}. Pass a whole "
                    "number of rows or chunks."
                )
        self.n_rows: int | None = None
        if _has_rows(X):
            self._read: Any = _sliced(X, y, rows)
            self.n_rows = int(X.shape[0])
        elif y is not None or rows is not None:
            raise ValueError(
                "`y` and `rows` must be None if X is made of pairs (X, y), which have labels and "
                f"rows of their own; got X of type {type(X).__name__}. Put the labels into the "
                "pairs."
            )
        else:
            self._read = _pairs(X)
        self.checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        self.every = every
        self.progress = progress

    def __iter__(self) -> Iterator[Chunk]:
        """Read the chunks, checked."""
        return self._from(0)

    def applied(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, one below the other."""
        parts = [function(transformed(chunk.X, self.transforms)) for chunk in self]
        if not parts:
            raise _empty()
        return np.concatenate(parts)

    def close(self) -> None:
        """Remove the checkpoint."""
        if self.checkpoint is not None:
            self.checkpoint.remove()

    def _copy(self) -> Self:
        return copy.copy(self)

    def _from(self, first: int) -> Iterator[Chunk]:
        """Read the chunks from one on, checked, the next one while the last is used."""
        width: int | None = None
        for number, (X, y) in enumerate(ahead(self._read(first)), first):
            chunk = checked(X, y, number, width)
            width = chunk.X.shape[1]
            yield chunk

    def _reduced(self, reduction: Any, name: str, key: str) -> Any:
        n_rows = done = 0
        kept = self.checkpoint
        if kept is not None:
            found = kept.read(name, self._identity(key))
            if found is not None:
                reduction.restore(found.parts)
                n_rows, done = found.n_rows, found.n_chunks
                if found.whole:
                    return reduction
        for chunk in self._from(done):
            reduction.update(chunk)
            done, n_rows = done + 1, n_rows + len(chunk.X)
            if kept is not None and done % self.every == 0:
                kept.write(name, self._identity(key), reduction.parts(), done, n_rows)
            if self.progress is not None:
                self.progress(name, n_rows, self.n_rows)
        if not done:
            raise _empty()
        if kept is not None:
            kept.write(name, self._identity(key), reduction.parts(), done, n_rows, whole=True)
        return reduction

    def _identity(self, key: str) -> str:
        """Return what tells this computation from others: key, first chunk and transforms."""
        first = vars(self).get("_first")
        if first is None:
            chunk = next(self._from(0), None)
            if chunk is None:
                raise _empty()
            first = self._first = Checkpoint.digest(chunk.X, chunk.y, self.n_rows)
        return f"{key} {first} {fingerprint(self.transforms)}"


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
    is_file = isinstance(X, np.memmap) or type(X).__module__.partition(".")[0] in _ROW_LIBRARIES
    return Chunks(X, y) if is_file and _has_rows(X) else None


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
    try:
        if getattr(getattr(X, "dtype", None), "name", "") in _NARROW:
            X = np.asarray(X, np.float32)
        X = as_samples(X)
        require_scale(X)
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        labels = None if y is None else as_labels(y, "y")
    except (TypeError, ValueError) as error:
        raise type(error)(f"Chunk {number}: {error}") from None
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


def ahead(items: Iterable[Any], depth: int = 1) -> Iterator[Any]:
    """Yield items; a thread reads the next ones meanwhile."""
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stop = threading.Event()

    def put(entry: tuple[str, Any]) -> bool:
        while not stop.is_set():
            try:
                ready.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put(("item", item)):
                    return
            put(("end", None))
        except BaseException as error:
            put(("error", error))

    thread = threading.Thread(target=read, daemon=True, name="zonkey-read-ahead")
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        thread.join()


def _has_rows(X: Any) -> bool:
    """Whether X is one matrix whose rows can be sliced, not a collection of chunks."""
    shape = getattr(X, "shape", None)
    return isinstance(shape, tuple) and len(shape) == 2 and hasattr(X, "__getitem__")


def _sliced(X: Any, y: Any, rows: int | None) -> Callable[[int], Iterator[Any]]:
    """Return a function that reads an array and its labels from some chunk on."""
    n, d = X.shape
    size = rows or min(_MOST_ROWS, max(1, _CHUNK // max(d, 1)))
    labels = None if y is None else as_labels(y[:] if hasattr(y, "shape") else y, "y")
    if labels is not None and len(labels) != n:
        raise ValueError(
            f"y must have one label for each of the {n} samples; got {len(labels)}. Pass X and y "
            "of the same samples."
        )
    take = _reader(X)

    def read(first: int) -> Iterator[Any]:
        for start in range(first * size, n, size):
            stop = min(start + size, n)
            yield take(start, stop), None if labels is None else labels[start:stop]

    return read


def _reader(X: Any) -> Callable[[int, int], Any]:
    """Return a function that reads rows.

    Pages of a memory map would stay in memory, so its file is read instead. Only an unsliced map
    knows its place in the file, and private changes of a map are not in the file.
    """
    if (
        isinstance(X, np.memmap)
        and isinstance(X.base, mmap.mmap)
        and X.flags.c_contiguous
        and X.mode != "c"
        and isinstance(X.filename, str | PathLike)
    ):
        return partial(_read_rows, X.filename, X.dtype, X.shape[1], X.offset)
    return lambda start, stop: np.array(X[start:stop])


def _read_rows(
    path: Any, dtype: np.dtype[Any], width: int, offset: int, start: int, stop: int
) -> np.ndarray:
    rows = np.empty((stop - start, width), dtype)
    with Path(path).open("rb", buffering=0) as file:
        file.seek(offset + start * width * dtype.itemsize)
        view = memoryview(cast(Any, rows.reshape(-1).view(np.uint8)))
        while len(view):
            n = file.readinto(view)
            if not n:
                raise ValueError(
                    f"{path} must be whole; it ends before row {stop}. Save the features again."
                )
            view = view[n:]
    return rows


def _pairs(source: Any) -> Callable[[int], Iterator[Any]]:
    """Return a function that reads pairs (X, y) from some chunk on."""
    if not callable(source) and not isinstance(source, Iterable):
        raise TypeError(
            "X must be an array with rows, pairs (X, y), or a function that returns an iterator of "
            f"pairs; got {type(source).__name__}. Pass for instance np.load(path, mmap_mode='r')."
        )
    is_used = False

    def read(first: int) -> Iterator[Any]:
        nonlocal is_used
        once = not callable(source) and iter(source) is source
        if once and is_used:
            raise ValueError(
                "This computation must read the chunks more than once; got an iterator, which can "
                "be read once. Pass a list of pairs, or a function that returns a new iterator."
            )
        is_used = True
        pairs: Any = source() if callable(source) else source
        for number, pair in enumerate(pairs):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    f"Chunks must be pairs (X, y); got {shown(pair)}. Yield the samples and "
                    "their labels together."
                )
            if number >= first:
                yield pair

    return read


def _empty() -> ValueError:
    return ValueError("X must have at least one sample; got no chunk. Check the source.")
