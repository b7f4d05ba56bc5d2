"""Sources of chunks: arrays in files, and pairs of samples and labels; read ahead by a thread."""

from __future__ import annotations

import mmap
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from .labels import as_labels, shown

# Numbers per chunk, unless the rows are given: enough rows for a full-speed product of them.
CHUNK = 1 << 24
_MOST_ROWS = 1 << 16
ROW_LIBRARIES = ("h5py", "zarr")
# What rows are read for: those to learn from; those with a label; all, whose labels may be missing.
Purpose = Literal["learn", "score", "all"]


class Source(ABC):
    """Where chunks come from.

    `n_rows` is the number of all rows, None if unknown. `identity` tells how they are divided into
    chunks. `once` says that they can be read once only.
    """

    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None
    identity: str = ""
    once: bool = False

    @abstractmethod
    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:
        """Yield pairs (X, y) from chunk `first` on; y may be None."""


def ahead(items: Iterable[Any], depth: int = 1) -> Iterator[Any]:
    """Yield items; meanwhile a thread reads the next ones, at most `depth` of them."""
    ready: queue.SimpleQueue[tuple[str, list[Any]]] = queue.SimpleQueue()
    free, stop = threading.Semaphore(depth), threading.Event()

    def read() -> None:
        left: Any = iter(items)
        try:
            while free.acquire() and not stop.is_set():
                item = list(islice(left, 1))
                ready.put(("item" if item else "end", item))
                if not item:
                    return
                del item
        except BaseException as error:
            ready.put(("error", [error]))
        finally:
            if hasattr(left, "close"):
                left.close()

    threading.Thread(target=read, daemon=True, name="zonkey-read-ahead").start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item.pop()
            free.release()
            yield item.pop()
    finally:
        # Nobody waits for the thread: a source may never answer, and this may run in the middle of
        # a garbage collection, when its locks are held.
        stop.set()
        free.release()


def has_rows(X: Any) -> bool:
    """Whether X is one matrix whose rows can be sliced, not a collection of chunks."""
    shape = getattr(X, "shape", None)
    return isinstance(shape, tuple) and len(shape) == 2 and hasattr(X, "__getitem__")


def require_count(name: str, value: Any) -> Any:
    """Return a parameter that must be a positive whole number or None."""
    is_count = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (is_count and value >= 1):
        raise ValueError(
            f"`{name}` must be an integer of at least 1; got {shown(value)}. Pass a whole number "
            "of rows or chunks."
        )
    return value


class ArraySource(Source):
    """Slices of rows of one array, and of its labels."""

    def __init__(self, X: Any, y: Any, rows: int | None) -> None:
        self.n_rows, d = map(int, X.shape)
        self._rows = rows or rows_per_chunk(d, getattr(X, "chunks", None))
        self._labels = None if y is None else as_labels(_read_labels(y), "y")
        if self._labels is not None and len(self._labels) != self.n_rows:
            raise ValueError(
                f"y must have one label for each of the {self.n_rows} samples; got "
                f"{len(self._labels)}. Pass X and y of the same samples."
            )
        self._take = row_reader(X)
        self.identity = f"{self._rows} rows"

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:  # noqa: ARG002
        """Yield samples and labels from chunk `first` on."""
        n, y = cast(int, self.n_rows), self._labels
        for start in range(first * self._rows, n, self._rows):
            stop = min(start + self._rows, n)
            yield self._take(start, stop), None if y is None else y[start:stop]


def rows_per_chunk(width: int, stored: Any) -> int:
    """Return the rows of a chunk; whole parts of a file that is stored in parts of rows."""
    rows = min(_MOST_ROWS, max(1, CHUNK // max(width, 1)))
    part = stored[0] if isinstance(stored, tuple) and stored else 1
    return rows // part * part if isinstance(part, int) and 1 < part <= rows else rows


def _read_labels(y: Any) -> Any:
    """Return labels that may be in a file, where text is often stored as bytes."""
    if type(y).__module__.partition(".")[0] in ROW_LIBRARIES:
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


def read_once() -> ValueError:
    """Return the error of an iterator that would have to be read again."""
    return ValueError(
        "This computation must read the chunks more than once; got an iterator, which can be read "
        "once. Pass a list of pairs, or a function that returns a new iterator."
    )


class PairSource(Source):
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
        self._is_used = False

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:  # noqa: ARG002
        """Yield the pairs from number `first` on; those before are read, too."""
        if self.once and self._is_used:
            raise read_once()
        self._is_used = True
        pairs: Any = self._pairs() if callable(self._pairs) else self._pairs
        for pair in islice(pairs, first, None):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    f"Chunks must be pairs (X, y); got {shown(pair)}. Yield the samples and "
                    "their labels together."
                )
            yield pair[0], pair[1]
            del pair
