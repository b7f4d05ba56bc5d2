"""Sources of chunks: arrays in files, and pairs of samples and labels; read ahead by a thread."""

from __future__ import annotations

import atexit
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Literal, cast
from weakref import WeakSet

import numpy as np

from ..arrays import library_of, require_values
from ..labels import as_labels, format_labels, format_value
from ..samples import as_samples, require_scale

# Numbers per chunk, unless the rows are given: enough rows for a full-speed product of them. No
# setting changes them: checkpoints count chunks, and the last digits of sums depend on them.
CHUNK = 1 << 24
LONGEST_CHUNK = 1 << 16  # rows, however few the features
ROW_LIBRARIES = ("h5py", "zarr")
# float32 holds their values exactly, and takes half the memory of float64.
_NARROW = ("float16", "int8", "uint8", "int16", "uint16")
# Which rows are read: rows to learn from; rows with a label; all rows, with or without a label.
Purpose = Literal["learn", "score", "all"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive samples, at least one: finite floats, and their labels if there are any.

    `number` counts the chunks of the source from 0. Empty ones are counted and left out.
    """

    X: np.ndarray
    y: np.ndarray | None
    number: int


class BaseSource(ABC):
    """Where chunks come from.

    `n_rows` is the number of all rows, None if unknown. `identity` is text that identifies files
    and chunking. `is_file` is True if `identity` suffices to detect changes. `labels` are the
    labels of all rows, if they are in memory. `once` is True if rows can be read only once.
    """

    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None
    identity: str = ""
    labels: np.ndarray | None = None
    is_file: bool = False
    once: bool = False

    def names(self) -> tuple[str, ...] | None:
        """Return the names of the features."""
        return self.feature_names

    @abstractmethod
    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:
        """Yield pairs (X, y) from chunk `first` on; y may be None."""


_READERS: WeakSet[Thread] = WeakSet()
_PATIENCE = 2.0  # seconds


def read_ahead(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items; meanwhile a thread reads the next one.

    Threads are daemons: a blocked source must not keep the process alive.
    """
    left = iter(items)
    coming = _read_in_thread(left)
    while True:
        found = coming.result()
        if not found:
            return
        coming = _read_in_thread(left)
        yield found.pop()


def _read_in_thread(left: Iterator[Any]) -> Future[list[Any]]:
    """Read one item, none at the end, in a thread that does not keep the process alive."""
    future: Future[list[Any]] = Future()

    def read() -> None:
        try:
            future.set_result(list(islice(left, 1)))
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=read, daemon=True, name="zonkey-read-ahead")
    _READERS.add(thread)
    thread.start()
    return future


@atexit.register
def _await_readers() -> None:
    """Wait a moment for threads that still read.

    A thread inside a library of C++, such as Arrow, aborts the process if Python ends first.
    """
    end = monotonic() + _PATIENCE
    for thread in list(_READERS):
        thread.join(max(0.0, end - monotonic()))


def has_rows(X: Any) -> bool:
    """Whether X is one matrix whose rows can be sliced, not a collection of chunks."""
    shape = getattr(X, "shape", None)
    return isinstance(shape, tuple) and len(shape) == 2 and hasattr(X, "__getitem__")


def frame_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame, if all are text."""
    names: Any = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


class ArraySource(BaseSource):
    """Slices of rows of one array, and of its labels."""

    def __init__(self, X: Any, y: Any, rows: int | None) -> None:
        require_values(X)
        self.n_rows, d = map(int, X.shape)
        self._rows = rows or rows_per_chunk(d, stored=getattr(X, "chunks", None))
        self.labels = None if y is None else as_labels(_read_labels(y), "y")
        if self.labels is not None and len(self.labels) != self.n_rows:
            raise ValueError(
                f"y must have one label for each of the {self.n_rows} samples; got "
                f"{len(self.labels)}. Pass X and y of the same samples."
            )
        self._take = row_reader(X)
        self.feature_names = frame_names(X)
        self.identity = f"{self._rows} rows of {(self.n_rows, d)}"
        path = getattr(X, "filename", None) if isinstance(X, np.memmap) else None
        if path is not None and Path(path).exists():
            self.identity += f", {describe_file(Path(path))}"

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:  # noqa: ARG002
        """Yield samples and labels from chunk `first` on."""
        n, y = cast(int, self.n_rows), self.labels
        for start in range(first * self._rows, n, self._rows):
            stop = min(start + self._rows, n)
            yield self._take(start, stop), None if y is None else y[start:stop]


def describe_file(path: Path) -> str:
    """Return size and time of the last change of a file, or of all files of a folder together."""
    files = [*filter(Path.is_file, path.rglob("*"))] if path.is_dir() else [path]
    facts = [file.stat() for file in files]
    size = sum(fact.st_size for fact in facts)
    changed = max((fact.st_mtime_ns for fact in facts), default=0)
    return f"{path.name} of {len(files)} files, {size} bytes, changed {changed}"


def rows_per_chunk(width: int, numbers: int = CHUNK, stored: Any = None) -> int:
    """Return the rows of a chunk; whole parts of a file that is stored in parts of rows."""
    rows = min(LONGEST_CHUNK, max(1, numbers // max(width, 1)))
    part = stored[0] if isinstance(stored, tuple) and stored else 1
    return rows // part * part if isinstance(part, int) and 1 < part <= rows else rows


def _read_labels(y: Any) -> Any:
    """Return labels that may be in a file, where text is often stored as bytes."""
    if library_of(y) in ROW_LIBRARIES:
        y = y[:]
    if isinstance(y, np.ndarray) and y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if isinstance(y, np.ndarray) and y.dtype.kind == "O":
        return [label.decode() if isinstance(label, bytes) else label for label in y.tolist()]
    return y


def row_reader(X: Any) -> Callable[[int, int], Any]:
    """Return a function that reads rows.

    Pages of a memory map would stay in memory, so its file is read instead. Only an unsliced map
    knows its place in the file, and private changes of a map are not in the file.
    """
    rows = getattr(X, "iloc", X)  # of data frames
    if (
        isinstance(X, np.memmap)
        and isinstance(X.base, mmap.mmap)
        and X.flags.c_contiguous
        and X.mode != "c"
        and isinstance(X.filename, str | PathLike)
    ):
        return _FileRows(X)
    return partial(_copy_rows, rows)


def _copy_rows(X: Any, start: int, stop: int) -> np.ndarray:
    return np.array(X[start:stop])


class _FileRows:
    """Rows of the file of a map; of the map, if another file has taken its place."""

    def __init__(self, X: np.memmap) -> None:
        self._map: np.memmap | None = X
        self._path, self._offset = Path(cast(Any, X.filename)), X.offset
        self._dtype, self._width = X.dtype, X.shape[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_map": None}  # it would be read whole

    def __call__(self, start: int, stop: int) -> np.ndarray:
        X = self._map
        try:
            rows = self._read(start, stop)
        except FileNotFoundError:
            if X is None:
                raise
            return _copy_rows(X, start, stop)
        is_same = X is None or rows[-1].tobytes() == X[stop - 1].tobytes()
        return rows if is_same else _copy_rows(X, start, stop)

    def _read(self, start: int, stop: int) -> np.ndarray:
        n, first = (stop - start) * self._width, start * self._width * self._dtype.itemsize
        values = np.fromfile(self._path, self._dtype, n, offset=self._offset + first)
        if len(values) < n:
            raise ValueError(
                f"{self._path} must be whole; it ends before row {stop}. Save the features again."
            )
        return values.reshape(stop - start, self._width)


def make_reread_error() -> ValueError:
    """Return the error of an iterator that would have to be read again."""
    return ValueError(
        "This computation must read the chunks more than once; got an iterator, which can be read "
        "once. Pass a list of pairs, or a function that returns a new iterator."
    )


class PairSource(BaseSource):
    """Pairs (X, y) of the user."""

    def __init__(self, pairs: Any) -> None:
        if not callable(pairs) and not isinstance(pairs, Iterable):
            raise TypeError(
                "X must be an array with rows, pairs (X, y), or a function that returns an "
                f"iterator of pairs; got {type(pairs).__name__}. Pass for instance "
                "np.load(path, mmap_mode='r')."
            )
        self._pairs = cast(Any, pairs)
        self.once = not callable(pairs) and iter(pairs) is pairs
        self.identity = "pairs"
        self._is_used = False

    def names(self) -> tuple[str, ...] | None:
        """Return the names of the first samples, which are read for it unless they were."""
        if not self._is_used:
            pairs: Any = iter(self._begin())
            first = list(islice(pairs, 1))
            if self.once:
                self._pairs = chain(first, pairs)
            for pair in first:
                self.feature_names = frame_names(_check_pair(pair)[0])
        return self.feature_names

    def _begin(self) -> Any:
        return self._pairs() if callable(self._pairs) else self._pairs

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:  # noqa: ARG002
        """Yield the pairs from number `first` on; those before are read, too."""
        if self.once and self._is_used:
            raise make_reread_error()
        self._is_used = True
        for number, pair in enumerate(islice(self._begin(), first, None), first):
            X, y = _check_pair(pair)
            names = frame_names(X)
            self.feature_names = self.feature_names or names
            if names not in (None, self.feature_names):
                raise ValueError(
                    f"Chunks must have the same features in the same order; chunk {number} has "
                    f"{format_labels(np.array(names))}, those before have "
                    f"{format_labels(np.array(self.feature_names))}. Sort the columns."
                )
            # The user may reuse the memory for the next one, which is read meanwhile.
            yield _copy_part(X), _copy_part(y)
            del pair, X, y


def _copy_part(part: Any) -> Any:
    return np.array(part) if isinstance(part, np.ndarray) else part


def _check_pair(pair: Any) -> Any:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(
            f"Chunks must be pairs (X, y); got {format_value(pair)}. Yield the samples and their "
            "labels together."
        )
    return pair


def check_chunks(pairs: Iterator[Any], first: int) -> Iterator[Chunk]:
    """Yield chunks from number `first` on; the next one is read while the last is used."""
    width, number = None, first
    for X, y in read_ahead(pairs):
        chunk = check_chunk(X, y, number, width)
        del X, y  # they may be copies
        width, number = chunk.X.shape[1], number + 1
        if len(chunk.X):
            yield chunk
        del chunk


def check_chunk(X: Any, y: Any, number: int, width: int | None = None) -> Chunk:
    """Return a chunk of finite floats with one label per sample; `width` is that of the others."""
    with name_chunk(number):
        dtype = getattr(X, "dtype", None)
        if getattr(dtype, "name", "") in (*_NARROW, "float32"):
            X = np.asarray(X, np.float32)  # in the byte order of the machine
        X = as_samples(X)
        require_scale(X)
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        # Received memory may begin at any byte, and then products differ in their last bits.
        X = np.require(X, requirements="A")
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


def get_labels(chunk: Chunk) -> np.ndarray:
    """Return the labels of a chunk, which must have some."""
    if chunk.y is None:
        raise ValueError(
            "Chunks must have labels for `fit` and `score`; got samples only. Pass "
            "y, Chunks(X, y), or pairs (X, y)."
        )
    return chunk.y


@contextmanager
def name_chunk(number: int) -> Iterator[None]:
    """Name the chunk in errors about samples."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError) or str(error).startswith("Chunk"):
            raise
        raise type(error)(f"Chunk {number}: {error}") from error
