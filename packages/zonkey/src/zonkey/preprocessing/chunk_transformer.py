"""What the transformers here share: samples in chunks are transformed when they are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, to_numpy
from ..hashing import hash_object
from ..streaming.accept import drop_names
from ..streaming.chunks import Chunked
from ..threads import LimitThreadsMixin


class ChunkTransformerMixin(LimitThreadsMixin):
    """Chunks in, chunks out. A subclass transforms samples in `_transform`.

    `_learned` names the arrays that `fit` learns.
    """

    get_params: Callable[..., dict[str, Any]]
    _transform: Callable[[Any], Array]
    _learned: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # `set_output` wraps both methods, to make data frames of what they return.
        for name in ("transform", "fit_transform"):
            setattr(cls, name, _leave_chunks(getattr(cls, name)))

    def _map_chunks(self, chunks: Chunked) -> Chunked:
        """Return chunks that are transformed when they are read."""
        return chunks.map(drop_names(self, chunks)._transform, key=hash_learned(self))


def hash_learned(transformer: ChunkTransformerMixin) -> str:
    """Return text that identifies a fitted transformer in checkpoints.

    The last digits of what was learned depend on the number of threads, so they do not count.
    """
    learned = [_round_text(getattr(transformer, name)) for name in transformer._learned]
    return hash_object(type(transformer), transformer.get_params(deep=False), learned)


def _leave_chunks(method: Any) -> Any:
    """Return a method of samples that leaves chunks as they are."""

    @wraps(method)
    def call_method(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        is_lazy = isinstance(X, Chunked) or type(X).__module__.startswith("dask")
        chosen = method.__wrapped__ if is_lazy else method
        return chosen(self, X, *args, **options)

    return call_method


def _round_text(values: Array | None) -> str:
    """Return text for numbers that is the same if only their last digits differ."""
    if values is None:
        return ""
    numbers = to_numpy(values).astype(np.float64).ravel()
    size = float(np.linalg.norm(numbers))
    pattern = np.cos(np.arange(len(numbers)))
    return f"{len(numbers)} {size:.6e} {float(numbers @ pattern) / (size or 1.0) + 0.0:.6f}"
