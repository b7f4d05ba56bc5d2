"""What the transformers here share: they learn from sums over samples, in memory or in chunks.

Samples in chunks are transformed when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, to_numpy
from ..constraints import check_weights, refuse_weights, set_features
from ..hashing import hash_object
from ..streaming.accept import drop_names
from ..streaming.chunks import Chunked, Chunks
from ..streaming.reduce import Pass
from ..threads import LimitThreadsMixin


class ChunkTransformerMixin(LimitThreadsMixin, OneToOneFeatureMixin, TransformerMixin):
    """Chunks in, chunks out. A subclass transforms samples in `_transform`.

    It learns from sums of one or several passes over the samples, which `_list_passes` names.
    `_start_sums` returns empty sums for a pass. `_learn(statistics)` learns the array named
    `_learned` from the sums of the last pass, None without a pass.
    """

    get_params: Callable[..., dict[str, Any]]
    _list_passes: Callable[[], tuple[Pass, ...]]
    _start_sums: Callable[[Any, Any], Any]
    _transform: Callable[[Any], Array]
    _learn: Callable[[Any], None]
    _learned: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # `set_output` wraps both methods, to make data frames of what they return.
        for name in ("transform", "fit_transform"):
            setattr(cls, name, _leave_chunks(getattr(cls, name)))

    def list_passes(self) -> tuple[Pass, ...]:
        """Return what is read for a fit.

        Returns
        -------
        tuple of Pass
            Passes over the samples that a fit needs, in their order.
        """
        return self._list_passes()

    def statistics(self, before: Any = None, labels: np.ndarray | None = None) -> Any:
        """Return empty sums for a pass.

        Parameters
        ----------
        before : Reduction, default=None
            Sums of the pass before; None for the first pass.
        labels : ndarray, default=None
            Labels of the classes, if known; None learns them from the samples.

        Returns
        -------
        Reduction
            Sums without samples.
        """
        return self._start_sums(before, labels)

    def transform(self, X: Any) -> Any:
        """Transform samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            New array, in the float type, library and device of `X`. Chunks that are transformed
            when they are read for `Chunks`, a lazy array for a Dask collection.
        """
        check_is_fitted(self)
        return self._map_chunks(X) if isinstance(X, Chunked) else self._transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit_from(self, statistics: Any, n_features: int, names: Any = None) -> Self:
        """Learn from the sums of the last pass over samples with these features.

        Parameters
        ----------
        statistics : Reduction or None
            Sums of the last pass; None without passes.
        n_features : int
            Number of features.
        names : ndarray of str, default=None
            Names of the features.

        Returns
        -------
        self
            Fitted transformer.
        """
        self._learn(statistics)
        set_features(self, n_features, names)
        return self

    def _fit_array(self, X: Array, codes: Any, labels: Any, sample_weight: Any) -> Self:
        """Learn from checked samples in memory."""
        weights, found = check_weights(sample_weight, X), None
        for _ in self.list_passes():
            found = self.statistics(found, labels)
            found.add(X, codes, weights)
        self._learn(found)
        return self

    def _fit_chunks(self, chunks: Chunked, sample_weight: Any) -> Self:
        """Learn from chunks, which stay open."""
        refuse_weights(sample_weight)
        passes, found = self.list_passes(), None
        if len(passes) > 1:
            chunks.require_several_passes()
        for name in passes:
            found = chunks.reduce(self.statistics(found), name, hash_parameters(self))
        n_features = _count_features(chunks) if found is None else found.n_features
        return self.fit_from(found, n_features, chunks.feature_names)

    def _map_chunks(self, chunks: Chunked) -> Chunked:
        """Return chunks that are transformed when they are read."""
        return chunks.map(drop_names(self, chunks)._transform, key=hash_learned(self))


def hash_learned(transformer: ChunkTransformerMixin) -> str:
    """Return text that identifies a fitted transformer in checkpoints.

    The last digits of what was learned depend on the number of threads, so they do not count.
    """
    learned = _round_text(getattr(transformer, transformer._learned))
    return hash_object(hash_parameters(transformer), learned)


def hash_parameters(transformer: Any) -> str:
    """Return text for what a transformer learns of given samples."""
    return hash_object(type(transformer).__qualname__, transformer.get_params(deep=False))


def _count_features(chunks: Chunked) -> int:
    """Return the number of features, from the first samples."""
    first = next(iter(chunks), None) if isinstance(chunks, Chunks) else None
    return (chunks.apply(np.asarray) if first is None else first.X).shape[1]


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
