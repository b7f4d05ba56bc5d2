"""Where the samples of `AnyShotClassifier` come from: memory, or chunks that are read anew.

Learning is the same for both. It needs a few samples of each class, a fitted preprocessing, and
sums over the preprocessed samples of each class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ..core.chunks import Chunked, Chunks, required_labels, transformed
from ..core.class_sums import ClassSums, blocks_of
from ..core.labels import places_among
from ..linalg.arrays import Array, placed_like, to_numpy
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from ..preprocessing.normalizer import PowerSums
from ..validation import check_classes, set_features
from .survey import Kept, Survey

_WEIGHT = "sample_weight"
Transforms = tuple[Callable[[Any], Any], ...]


def weight_options(transformer: Any, weights: Array) -> dict[str, Array]:
    """Return the arguments that pass sample weights to a transformer or the steps of a pipeline."""
    if isinstance(transformer, Pipeline):
        steps = (name for name, step in transformer.steps if has_fit_parameter(step, _WEIGHT))
        return {f"{name}__{_WEIGHT}": weights for name in steps}
    return {_WEIGHT: weights} if has_fit_parameter(transformer, _WEIGHT) else {}


class Source(ABC):
    """Labeled samples.

    Attributes
    ----------
    labels : ndarray
        Distinct labels, sorted.
    used : ndarray
        Those of them with samples of positive weight.
    like : array of shape (n, d)
        Some samples, which tell library, device, dtype and number of features.
    """

    labels: np.ndarray
    used: np.ndarray
    like: Array

    @cached_property
    def kept(self) -> Kept:
        """A few raw samples of each class."""
        return self._chosen()

    @abstractmethod
    def _chosen(self) -> Kept: ...

    @abstractmethod
    def fitted(self, transformer: Any, *, chosen: bool) -> Any:
        """Return a fitted clone of a transformer; `chosen` if the user did not give it."""

    @abstractmethod
    def _reduced(self, reduction: Any, transforms: Transforms, name: str) -> Any:
        """Return a reduction of all samples after some transforms."""

    def gathered(self, transforms: Transforms, name: str) -> ClassSums:
        """Return the sums over the samples of each class after some transforms."""
        return self._reduced(self._empty_sums(), transforms, name)

    def close(self) -> None:  # noqa: B027
        """Forget what was kept for an interruption."""

    def _empty_sums(self, **options: Any) -> ClassSums:
        return ClassSums(**options)

    def _mean(self, power: float | None, transforms: Transforms) -> Array:
        return self._reduced(PowerSums((power,)), transforms, f"mean{len(transforms)}").mean(power)

    def _fit(self, transformer: Any, transforms: Transforms = ()) -> None:
        """Fit a transformer, in place, to the samples after some transforms."""
        one = transformed(self.kept.X[:1, :], transforms)
        if type(transformer) is FeatureNormalizer:
            transformer.fit(one)  # all that is needed without a mean
            if transformer.center:
                transformer._learn(self._mean(transformer.power, transforms))
        elif type(transformer) is WithinClassWhitener:
            few, rough = transformed(self.kept.X, transforms), ClassSums(self.labels)
            rough.add(few, placed_like(self.kept.codes, few))
            sums = self._empty_sums(scatter=True, shift=(self.labels, rough.means()))
            transformer._learn(self._reduced(sums, transforms, f"scatter{len(transforms)}"))
            set_features(transformer, few.shape[1], None)
        elif isinstance(transformer, Pipeline):
            for _, step in transformer.steps:
                if step not in (None, "passthrough"):
                    self._fit(step, transforms)
                    transforms = (*transforms, step.transform)
        else:
            self._fit_other(transformer, one, transforms)

    def _fit_other(self, transformer: Any, one: Array, transforms: Transforms) -> None:
        raise NotImplementedError


class MemorySource(Source):
    """Samples in memory, in any array library, with weights or without."""

    def __init__(
        self, X: Array, codes: Array, labels: np.ndarray, weights: Array | None, seed: int
    ) -> None:
        self.like = X
        self.codes = codes
        self.labels = self.used = labels
        self.weights = weights
        self._seed = seed
        if weights is not None:
            self.used = labels[np.bincount(to_numpy(codes), to_numpy(weights)) > 0]

    def _chosen(self) -> Kept:
        host = None if self.weights is None else to_numpy(self.weights).astype(np.float64)
        return Kept.of(self.like, to_numpy(self.codes), self.labels, self._seed, host)

    def fitted(self, transformer: Any, *, chosen: bool) -> Any:
        """Return a fitted clone of a transformer; a given one is fitted in its own way."""
        transformer = clone(transformer)
        if chosen:
            self._fit(transformer)
            return transformer
        options = {} if self.weights is None else weight_options(transformer, self.weights)
        return transformer.fit(self.like, self.codes, **options)

    def _empty_sums(self, **options: Any) -> ClassSums:
        return ClassSums(self.labels, **options)

    def _reduced(self, reduction: Any, transforms: Transforms, name: str) -> Any:  # noqa: ARG002
        X = self.like
        for rows in blocks_of(X):
            weights = None if self.weights is None else self.weights[rows]
            reduction.add(transformed(X[rows, :], transforms), self.codes[rows], weights)
        return reduction


class ChunkSource(Source):
    """Samples in chunks, which are read once here, and once in each pass.

    Parameters
    ----------
    chunks : Chunked
        Labeled samples.
    seed : int
        Seed of the hash that chooses the samples to keep.
    powers : tuple
        Powers whose means may be asked for.
    """

    def __init__(self, chunks: Chunked, seed: int, powers: tuple[float | None, ...] = ()) -> None:
        self._chunks = chunks
        self._survey = chunks.reduced(Survey(seed, powers), "survey", f"{seed} {powers}")
        self.labels = self.used = self._survey.labels
        check_classes(self.labels)
        self.like = self.kept.X

    def _chosen(self) -> Kept:
        return self._survey.kept()

    def fitted(self, transformer: Any, *, chosen: bool) -> Any:  # noqa: ARG002
        """Return a fitted clone of a transformer."""
        transformer = clone(transformer)
        self._fit(transformer)
        return transformer

    def close(self) -> None:
        """Remove the checkpoint."""
        self._chunks.close()

    def _reduced(self, reduction: Any, transforms: Transforms, name: str) -> Any:
        return self._mapped(transforms).reduced(reduction, name)

    def _mapped(self, transforms: Transforms) -> Chunked:
        chunks = self._chunks
        for transform in transforms:
            chunks = chunks.map(transform)
        return chunks

    def _mean(self, power: float | None, transforms: Transforms) -> Array:
        sums = self._survey.sums
        if not transforms and power in sums.powers:
            return sums.mean(power)
        return super()._mean(power, transforms)

    def _fit_other(self, transformer: Any, one: Array, transforms: Transforms) -> None:
        chunks = self._mapped(transforms)
        if isinstance(transformer, FrozenEstimator) or not get_tags(transformer).requires_fit:
            transformer.fit(one, self.kept.codes[:1])
        elif hasattr(transformer, "partial_fit") and isinstance(chunks, Chunks):
            for chunk in chunks.labeled():
                own = places_among(self.labels, required_labels(chunk))
                transformer.partial_fit(chunk.X, own)
        else:
            raise TypeError(
                "`preprocessing` must be one that learns in chunks, such as FeatureNormalizer, "
                "WithinClassWhitener, a frozen one, or for Chunks one with `partial_fit`; got "
                f"{type(transformer).__name__}. Fit it on some samples, and pass "
                "FrozenEstimator(transformer)."
            )
