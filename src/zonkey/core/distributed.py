"""Dask collections as chunks: reductions run where the chunks live, as ordinary tasks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from .chunks import Chunked, checked


class DaskChunks(Chunked):
    """Chunks of a Dask array or data frame.

    A reduction takes up each chunk in a task of its own; a tree of further tasks, of a fixed form,
    merges them. So neither the place nor the order of tasks changes the result, and any of them can
    be run again.
    """

    def __init__(self, parts: list[tuple[Any, Any]]) -> None:
        self._parts = parts

    @classmethod
    def of(cls, X: Any, y: Any = None) -> Self:
        """Return the chunks of a collection, and of its labels if given."""
        rows = X.rechunk({1: -1}).to_delayed().ravel().tolist()
        labels = [None] * len(rows)
        if y is not None:
            labels = y.rechunk((X.chunks[0],)).to_delayed().ravel().tolist()
        return cls(list(zip(rows, labels, strict=True)))

    def applied(self, function: Callable[[Any], Any]) -> Any:
        """Return the results for the samples of all chunks, as a lazy Dask array."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: nothing is kept."""

    def _copy(self) -> Self:
        return copy.copy(self)

    def _reduced(self, reduction: Any, name: str, key: str) -> Any:  # noqa: ARG002
        from dask.delayed import delayed

        leaf, merge = delayed(_leaf), delayed(_merged)
        parts = [leaf(reduction, X, y, i) for i, (X, y) in enumerate(self._parts)]
        while len(parts) > 1:
            parts = [merge(reduction, parts[i : i + 4]) for i in range(0, len(parts), 4)]
        return parts[0].compute()


def _leaf(empty: Any, X: Any, y: Any, number: int) -> Any:
    reduction = copy.deepcopy(empty)
    reduction.update(checked(X, y, number))
    return reduction


def _merged(empty: Any, parts: list[Any]) -> Any:
    reduction = copy.deepcopy(empty)
    for part in parts:
        reduction.merge(part)
    return reduction
