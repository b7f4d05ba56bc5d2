"""What methods of samples accept: samples in memory, or anything that comes in chunks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from ..arrays import library_of
from ..labels import format_labels
from .chunks import Chunked, Chunks
from .dask import DaskChunks
from .sources import ROW_LIBRARIES, has_rows

M = TypeVar("M", bound=Callable[..., Any])


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
    if library_of(X) in ("dask", "dask_expr"):
        return DaskChunks.from_dask(X, y)
    is_file = isinstance(X, np.memmap) or library_of(X) in ROW_LIBRARIES
    return Chunks(X, y) if is_file and has_rows(X) else None


def accept_chunks(method: M) -> M:
    """Let a method of samples also take chunks, and return the results of all chunks.

    Results of Dask collections are lazy.
    """

    @wraps(method)
    def call_whole(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        chunks = as_chunks(X)
        if chunks is None:
            return method(self, X, *args, **options)
        owner = drop_names(self, chunks)
        return chunks.apply(_Bound(owner, method.__name__, args, options))

    return cast(M, call_whole)


def drop_names(estimator: Any, chunks: Chunked) -> Any:
    """Check the feature names of chunks; return the estimator without them.

    Chunks are arrays, so it must not compare names again.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return estimator
    names = chunks.feature_names
    if names is not None and [*names] != [*known]:
        raise ValueError(
            f"Chunks must have the features that {type(estimator).__name__} was fitted on, in "
            f"their order: {format_labels(np.asarray(known))}; got "
            f"{format_labels(np.asarray(names))}. Prepare them as the training data."
        )
    other = copy.copy(estimator)
    del other.feature_names_in_
    return other


@dataclass(frozen=True, eq=False)
class _Bound:
    """A method of an object with all arguments except the samples; picklable."""

    owner: Any
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self, X: Any) -> Any:
        return getattr(self.owner, self.name)(X, *self.args, **self.options)
