"""Dask collections as chunks: reductions run where the chunks live, as ordinary tasks.

The graph of a reduction has one task per chunk, which also reads it, and a tree of merges. No task
is bound to a worker or changes its inputs, so any task can be run again elsewhere. The form of the
tree depends only on the number of chunks. So the same chunks give the same bits, because matrix
products have one thread while tasks run. Tasks exchange the parts of reductions; models, transforms
and shifts are sent once, with an empty one.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..config import config_context
from ..labels import as_labels, format_value
from ..threads import limit_threads
from .chunks import Chunked, apply_transforms, make_empty_error
from .sources import Purpose, check_chunk, frame_names, name_chunk

FAN_IN = 4  # merged by one task, whose worker holds all of them
_POLL = 2.0  # seconds between two looks at the scheduler
_PATIENCE = 300.0  # seconds without an answer of the scheduler
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class DaskChunks(Chunked):
    """Chunks of a Dask array or data frame."""

    def __init__(self, X: Any, y: Any, names: tuple[str, ...] | None) -> None:
        self._X = X
        self._y = y
        self._columns = names

    @classmethod
    def from_dask(cls, X: Any, y: Any = None) -> Self:
        """Return the chunks of a collection, and of its labels if given."""
        names = None
        if hasattr(X, "to_dask_array") and getattr(X, "ndim", 0) == 2:
            names, X = frame_names(X), _matrix(X)
        if not hasattr(X, "rechunk"):
            raise TypeError(
                "X must be a Dask array or a Dask data frame; got a Dask collection of type "
                f"{type(X).__name__}. Convert it, for example with to_dask_array()."
            )
        if X.ndim != 2:
            raise ValueError(
                f"X must be a matrix (samples x features); got {X.ndim} dimensions. Pass a Dask "
                "array with one row per sample."
            )
        X = X.rechunk({1: -1})
        return cls(X, None if y is None else _align_labels(y, X), names)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self._X.numblocks[0]

    def _run_function(self, function: Callable[[Any], Any]) -> Any:
        work = _Application(function, self.transforms, self._width())
        # The result for one sample shows type and shape; a sample of zeros may be refused.
        one = check_chunk(np.ones((1, self._X.shape[1]), self._X.dtype), None, 0)
        work.form = np.asarray(work.result(one.X))[:0]
        is_flat = work.form.ndim == 1
        columns = (1,) if is_flat else (work.form.shape[1],)
        meta = work.form[:, None] if is_flat else work.form
        chunks = self._X.chunks[0], columns
        results = self._blocks(_apply, _send_once(work), chunks=chunks, meta=meta)
        return results[:, 0] if is_flat else results

    def close(self) -> None:
        """Do nothing: no state is kept."""

    def _names(self) -> tuple[str, ...] | None:
        return self._columns

    def _width(self) -> int | None:
        width = self._X.shape[1]
        return None if np.isnan(width) else int(width)

    def _blocks(self, function: Any, work: Any, labels: Any = None, **options: Any) -> Any:
        """Return a lazy array of function(X, y, work, block_id), one block per chunk."""
        import dask.array as da

        return da.map_blocks(function, self._X, labels, work=work, **options)

    def _reduce(self, reduction: Any, name: str, key: str, purpose: Purpose) -> Any:  # noqa: ARG002
        from dask.base import get_scheduler, optimize
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        get: Any = get_scheduler(cls=Delayed)
        client = getattr(get, "__self__", None)
        work = _send_once(_Work(reduction, self._width()))
        form: Any = {"chunks": ((1,) * self.n_chunks, (1,)), "meta": np.empty((0, 0), object)}
        leaves = self._blocks(_reduce, work, self._y, **form)
        (leaves,) = optimize(leaves)  # reads and reduces a chunk in one task
        keys = [row[0] for row in leaves.__dask_keys__()]
        tree: dict[Any, Any] = {}
        layer, level = f"zonkey-merge-{uuid.uuid4().hex}", 0
        while len(keys) > 1:
            groups = [keys[i : i + FAN_IN] for i in range(0, len(keys), FAN_IN)]
            keys = [(layer, level, i) for i in range(len(groups))]
            tree |= {
                key: (_merge, group, work.key) for key, group in zip(keys, groups, strict=True)
            }
            level += 1
        tree[layer] = (_parts_of, keys[0])
        graph = HighLevelGraph.from_collections(layer, tree, dependencies=[leaves, work])
        whole = Delayed(layer, graph)
        with _clarify_error(self._X):
            parts = whole.compute() if client is None else _compute_on(client, whole)
        if parts is None:
            raise make_empty_error()
        reduction.restore(parts)
        return reduction


def _send_once(work: Any) -> Any:
    """Return an object to be used by its name: once in a graph, neither taken apart nor hashed."""
    from dask.delayed import delayed

    return delayed(work, name=f"zonkey-{uuid.uuid4().hex}", traverse=False)


class Shared:
    """A function of many jobs, together with its data.

    joblib's backend for Dask sends an argument that is large to workers once, and everything else
    with each job. So pass this as the first argument of `Shared.run`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __sizeof__(self) -> int:
        return 1 << 20  # for joblib; Python does not know the size of what the function refers to

    @staticmethod
    def run(shared: Shared, *arguments: Any) -> Any:
        """Call the function."""
        return shared._function(*arguments)


@dataclass
class _Work:
    """An empty reduction, and the number of features of the chunks."""

    empty: Any
    width: int | None


@dataclass
class _Application:
    """How to compute the results of one chunk; `form` is their array without rows."""

    function: Callable[[Any], Any]
    transforms: tuple[Any, ...]
    width: int | None
    form: np.ndarray = field(default_factory=lambda: np.empty(0))

    def result(self, X: np.ndarray) -> Any:
        return self.function(apply_transforms(X, self.transforms))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Products of matrices have one thread, however large: tasks run beside each other."""
    with config_context(threads=1), limit_threads():
        yield


def _reduce(X: Any, y: Any, *, work: _Work, block_id: tuple[int, ...]) -> Any:
    chunk = check_chunk(X, y, block_id[0], work.width)
    if not len(chunk.X):
        return _State(None)
    reduction = work.empty.copy_empty()
    with name_chunk(chunk.number), _one_thread():
        reduction.update(chunk)
        return _State(reduction.parts())


def _apply(X: Any, y: None, *, work: _Application, block_id: tuple[int, ...]) -> np.ndarray:  # noqa: ARG001
    chunk = check_chunk(X, None, block_id[0], work.width)
    result = work.form
    if len(chunk.X):
        with name_chunk(chunk.number), _one_thread():
            result = np.asarray(work.result(chunk.X))
    return result[:, None] if result.ndim == 1 else result


def _merge(states: list[_State], work: _Work) -> _State:
    found = [state for state in states if state.parts is not None]
    if len(found) < 2:
        return found[0] if found else _State(None)
    whole = work.empty.copy_empty()  # a task must not change its inputs
    with _one_thread():
        for state in found:
            other = work.empty.copy_empty()
            other.restore(state.parts)
            whole.merge(other)
        return _State(whole.parts())


class _State:
    """Parts of a reduction of some chunks, None without samples, with sizes for Dask.

    By it, Dask chooses where states are merged, and when a worker moves some to its disk.
    """

    def __init__(self, parts: dict[str, Any] | None) -> None:
        self.parts = parts

    def __sizeof__(self) -> int:
        buffers: list[pickle.PickleBuffer] = []  # of arrays, which are not copied
        rest = pickle.dumps(self.parts, protocol=5, buffer_callback=buffers.append)
        return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def _parts_of(state: _State) -> dict[str, Any] | None:
    return state.parts


def _matrix(frame: Any) -> Any:
    """Return the values of a data frame as an array; missing ones are NaN, as elsewhere."""
    types = [*frame.dtypes]
    is_plain = all(isinstance(dtype, np.dtype) for dtype in types)
    if is_plain or any(dtype.kind not in "biuf" for dtype in types):
        return frame.to_dask_array()
    return frame.map_partitions(_floats, meta=np.empty((0, len(types))))


def _floats(frame: Any) -> np.ndarray:
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _align_labels(y: Any, X: Any) -> Any:
    """Return labels as an array with one chunk for each chunk of X, in one column.

    Blocks stay one-dimensional although the array declares a column: `map_blocks` pairs blocks by
    their number of dimensions, and only functions here ever see these blocks.
    """
    import dask.array as da

    rows, n_chunks = X.chunks[0], X.numblocks[0]
    is_known = not np.isnan(X.shape[0])
    if hasattr(y, "to_dask_array"):
        if y.ndim != 1:
            raise ValueError(
                "y must be one column of a data frame, a series; got a data frame of "
                f"{len(y.columns)} columns. Pass a column, for example y[{y.columns[0]!r}]."
            )
        dtype = y.dtype if isinstance(y.dtype, np.dtype) else np.dtype(object)
        y = y.map_partitions(np.asarray, meta=np.empty(0, dtype))
    if not hasattr(y, "rechunk"):
        if not is_known:
            raise ValueError(
                "Labels in memory need chunks of known lengths; got X with unknown ones. Call "
                "X.compute_chunk_sizes() on the array, for a data frame on X.to_dask_array(), or "
                "pass labels as a Dask array."
            )
        labels = as_labels(y, "y")
        # Each chunk with its own labels, so that no worker needs all of them.
        parts: Any = (rows,) if len(labels) == X.shape[0] else -1
        y = da.from_array(labels, chunks=parts)
    if y.ndim != 1:
        raise ValueError(
            f"y must be one-dimensional; got {y.ndim} dimensions. Pass one label for each sample."
        )
    if is_known and not np.isnan(y.shape[0]):
        if y.shape[0] != X.shape[0]:
            raise ValueError(
                f"y must have one label for each of the {X.shape[0]} samples; got {y.shape[0]}. "
                "Pass X and y of the same samples."
            )
        y = y.rechunk((rows,))
    elif y.numblocks[0] != n_chunks:
        raise ValueError(
            "Chunks of unknown lengths must be as many for X as for y; got "
            f"{n_chunks} and {y.numblocks[0]}. Call .compute_chunk_sizes() on both arrays."
        )
    return y.map_blocks(_return_block, new_axis=1, meta=np.empty((0, 0), y.dtype))


def _return_block(block: Any) -> Any:
    return block


def _compute_on(client: Any, whole: Any) -> Any:
    """Compute on a cluster; Dask reruns the tasks of workers that ended.

    A lost scheduler raises one error, because the work sent to it is lost too.
    """
    from dask import config

    from distributed import wait

    with config.set({_LARGE_GRAPH: "1TiB"}):  # it holds the reduction, and y if in memory
        future = client.compute(whole)
    try:
        with _lend_thread():
            while not future.done():
                with suppress(TimeoutError):
                    wait(future, timeout=_POLL)
                    break
                # A scheduler that is frozen keeps its connection, and would never answer.
                client.sync(client.scheduler.identity, callback_timeout=_PATIENCE)
        return future.result(timeout=_PATIENCE)
    except (CancelledError, OSError, TimeoutError) as error:
        if future.status == "error":  # of a task
            raise
        address = getattr(client.scheduler, "address", "the scheduler")
        raise ConnectionError(
            "The scheduler must stay reachable and answer while chunks are reduced; "
            f"{address} was lost, or its work was cancelled: "
            f"{format_value(str(error) or type(error).__name__)}. Check the network and the "
            "scheduler, then run it again with a new Client; persist collections again."
        ) from error


@contextmanager
def _lend_thread() -> Iterator[None]:
    """Let the worker use this thread for other tasks, which this one may wait for."""
    from distributed import rejoin, secede

    try:
        secede()
    except (AttributeError, KeyError, ValueError):  # not in a task, or it has left it before
        yield
        return
    try:
        yield
    finally:
        rejoin()


@contextmanager
def _clarify_error(X: Any) -> Iterator[None]:
    """Say what to do if chunks are too large for the memory."""
    try:
        yield
    except Exception as error:
        is_killed = type(error).__name__ == "KilledWorker"
        if not is_killed and not isinstance(error, MemoryError):
            raise
        rows = np.nanmax([0, *X.chunks[0]])
        n = f"{max(1, int(rows) // 4)}" if rows else "n"
        n_ended = getattr(error, "allowed_failures", 0) + 1
        what = f"{n_ended} workers ended on one" if is_killed else f"got: {error}"
        raise MemoryError(
            f"A chunk and its sums must fit into the memory of a worker; {what}. Pass smaller "
            f"chunks, for example X.rechunk({{0: {n}}}), or give workers more memory."
        ) from None
