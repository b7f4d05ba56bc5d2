"""Samples of `AnyShotClassifier`: in memory, or in chunks that are read once per pass.

Learning is the same for both. It needs a few samples of each class, a fitted preprocessing, and
sums over the preprocessed samples of each class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ..arrays import Array, is_device_array, place_like, take_rows, to_numpy
from ..constraints import (
    check_classes,
    check_labeled,
    check_seed,
    check_weights,
    chunks_of,
    refuse_weights,
    set_features,
    validate_labeled,
    validate_samples,
)
from ..hashing import hash_object
from ..labels import encode_labels, places_among
from ..parameters import check_parameters, is_auto
from ..preprocessing.chunk_transformer import (
    ChunkTransformerMixin,
    hash_learned,
    hash_parameters,
)
from ..samples import sample_blocks
from ..streaming.accept import drop_names
from ..streaming.chunks import Chunked, Chunks, apply_transforms
from ..streaming.reduce import ClassSums, Pass
from ..streaming.sources import get_labels
from .survey import KeptSamples, Survey

_WEIGHT = "sample_weight"
Steps = tuple[Any, ...]  # fitted transformers, each of the result of the one before


def weight_options(transformer: Any, weights: Array) -> dict[str, Array]:
    """Return the arguments that pass sample weights to a transformer or the steps of a pipeline."""
    if isinstance(transformer, Pipeline):
        steps = (name for name, step in transformer.steps if has_fit_parameter(step, _WEIGHT))
        return {f"{name}__{_WEIGHT}": weights for name in steps}
    return {_WEIGHT: weights} if has_fit_parameter(transformer, _WEIGHT) else {}


class FitSource(ABC):
    """Labeled samples."""

    labels: np.ndarray  # distinct and sorted
    used: np.ndarray  # those of them with samples of positive weight
    like: Array  # some samples, which show library, device, dtype and number of features
    _code_labels: np.ndarray | None = None  # the labels of codes; chunks have their own

    @cached_property
    def kept(self) -> KeptSamples:
        """A few raw samples of each class."""
        return self._choose_kept()

    @abstractmethod
    def _choose_kept(self) -> KeptSamples: ...

    def fit_clone(self, transformer: Any) -> Any:
        """Return a fitted clone of a transformer."""
        transformer, fitted = clone(transformer), ()
        for step in self._split(transformer):
            self._fit_step(step, fitted)
            fitted = (*fitted, step)
        return transformer

    def list_samples(self, most: int) -> tuple[Array, np.ndarray, np.ndarray]:  # noqa: ARG002
        """Return raw samples, the positions of their classes among the labels, and weights.

        `most` bounds the products of all samples with one vector per class.
        """
        return self.kept.X, self.kept.codes, self.kept.weights

    def gather(self, steps: Steps, name: Pass) -> ClassSums:
        """Return the sums over the samples of each class after some steps."""
        return self._reduce(ClassSums(self._code_labels), steps, name)

    def close(self) -> None:  # noqa: B027
        """Remove the state kept for an interruption."""

    @abstractmethod
    def _reduce(self, reduction: Any, steps: Steps, name: Pass, key: str = "") -> Any:
        """Return a reduction of all samples after some steps."""

    def _split(self, transformer: Any) -> list[Any]:
        """Return the parts of a transformer that are fitted one after the other."""
        return _list_steps(transformer)

    def _fit_step(self, step: Any, steps: Steps) -> None:
        """Fit a transformer, in place, to the samples after some steps."""
        if not isinstance(step, ChunkTransformerMixin):
            self._fit_other(step, steps)
            return
        found: Any = None
        for name in step.list_passes():
            if name is Pass.CLASS_MEANS:
                # Where sums start from, for their digits: a few samples of each class will do.
                few, found = _transform(self.kept.X, steps), step.statistics(None, self.labels)
                found.add(few, place_like(self.kept.codes, few))
            else:
                empty = step.statistics(found, self._code_labels)
                found = self._reduce(empty, steps, name, hash_parameters(step))
        step.fit_from(found, _transform(self.kept.X[:1, :], steps).shape[1])

    @abstractmethod
    def _fit_other(self, transformer: Any, steps: Steps) -> None: ...


class MemorySource(FitSource):
    """Samples in memory, in any array library, with weights or without."""

    def __init__(
        self, X: Array, codes: Array, labels: np.ndarray, weights: Array | None, seed: int
    ) -> None:
        self.like = X
        self.codes = codes
        self.labels = self.used = self._code_labels = labels
        self.weights = weights
        self._seed = seed
        if weights is not None:
            self.used = labels[np.bincount(to_numpy(codes), to_numpy(weights)) > 0]

    def _choose_kept(self) -> KeptSamples:
        host = None if self.weights is None else to_numpy(self.weights).astype(np.float64)
        return KeptSamples.choose(self.like, to_numpy(self.codes), self.labels, self._seed, host)

    def list_samples(self, most: int) -> tuple[Array, np.ndarray, np.ndarray]:
        """Return all samples if they are not too many, else those kept."""
        X, codes = self.like, to_numpy(self.codes)
        if X.shape[0] * X.shape[1] * len(self.labels) > most:
            return super().list_samples(most)
        weights = np.ones(len(codes)) if self.weights is None else to_numpy(self.weights)
        rows = np.flatnonzero(weights > 0)
        if len(rows) < len(codes):
            X = take_rows(X, rows)
        return X, codes[rows], weights[rows].astype(np.float64)

    def _split(self, transformer: Any) -> list[Any]:
        # Pipelines with other steps have their own ways, such as a cache.
        steps = _list_steps(transformer)
        is_ours = all(isinstance(step, ChunkTransformerMixin) for step in steps)
        return steps if is_ours else [transformer]

    def _fit_other(self, transformer: Any, steps: Steps) -> None:
        options = {} if self.weights is None else weight_options(transformer, self.weights)
        transformer.fit(_transform(self.like, steps), self.codes, **options)

    def _reduce(self, reduction: Any, steps: Steps, name: Pass, key: str = "") -> Any:  # noqa: ARG002
        X = self.like
        for rows in sample_blocks(X):
            weights = None if self.weights is None else self.weights[rows]
            reduction.add(_transform(X[rows, :], steps), self.codes[rows], weights)
        return reduction


class ChunkSource(FitSource):
    """Samples in chunks, which are read once here, and once in each pass.

    `seed` is that of the hash that chooses samples to keep; means after `powers` are at hand.
    """

    def __init__(self, chunks: Chunked, seed: int, powers: tuple[float | None, ...] = ()) -> None:
        self._chunks, self._seed = chunks, seed
        survey = chunks.reduce(Survey(seed, powers), Pass.SURVEY, f"{seed} {powers}")
        check_classes(survey.labels)
        self.labels = self.used = survey.labels
        self._means, self._few = survey.means, survey.kept()
        self.like = self._few.X

    def _choose_kept(self) -> KeptSamples:
        return self._few

    def close(self) -> None:
        """Remove the states of all passes."""
        self._chunks.close()

    def _reduce(self, reduction: Any, steps: Steps, name: Pass, key: str = "") -> Any:
        if name is Pass.MEAN and not steps and reduction.power in self._means:
            return self._means[reduction.power]
        return self._apply_steps(steps).reduce(reduction, name, f"{self._seed} {key}")

    def _apply_steps(self, steps: Steps) -> Chunked:
        # What a step learns follows from the same chunks and its parameters.
        return _map_chunks(self._chunks, steps, _parameters_key)

    def _fit_other(self, transformer: Any, steps: Steps) -> None:
        if _learns_nothing(transformer):
            transformer.fit(_transform(self.kept.X[:1, :], steps), self.kept.codes[:1])
            return
        chunks, n_rows = cast(Chunks, self._apply_steps(steps)), 0
        for chunk in chunks.read_labeled():
            own = places_among(self.labels, get_labels(chunk))
            transformer.partial_fit(chunk.X, own)
            n_rows += len(own)
            if chunks.progress is not None:
                chunks.progress(Pass.STEP, n_rows, chunks.n_rows)


# The source of samples of an estimator, checked before anything is read.


def open_source(
    model: Any, X: Any, y: Any, sample_weight: Any, seed: int, powers: tuple[float | None, ...]
) -> FitSource:
    """Return the samples of `fit` of a model that has `preprocessing` and `random_state`."""
    is_chosen = model.preprocessing is None or is_auto(model.preprocessing)
    steps = () if is_chosen else _list_steps(model.preprocessing)
    for step in steps:
        if isinstance(step, ChunkTransformerMixin):
            check_parameters(step)
    other = next((step for step in steps if not _learns_in_chunks(step)), None)
    chunks = chunks_of(X, y, in_memory=sample_weight is not None or other is not None)
    if chunks is None:
        X, y = validate_labeled(model, X, y)
        return _read_memory(X, y, sample_weight, seed)
    refuse_weights(sample_weight)
    check_seed(model.random_state, chunks)
    chunks.require_several_passes()
    for step in steps:
        _check_step(step, chunks)
    source = ChunkSource(chunks, seed, powers)
    set_features(model, source.like.shape[1], chunks.feature_names)
    return source


def read_more(
    model: Any, X: Any, y: Any, sample_weight: Any, steps: Steps, *, in_memory: bool
) -> tuple[ClassSums, MemorySource | None]:
    """Return the sums of further samples of a fitted model, and the samples if in memory."""
    chunks = chunks_of(X, y, in_memory=in_memory or sample_weight is not None)
    if chunks is None:
        X = validate_samples(model, X, reset=False)
        X, y = check_labeled(model, X, y)
        source = _read_memory(X, y, sample_weight, 0)
        return source.gather(steps, Pass.MORE), source
    refuse_weights(sample_weight)
    if in_memory:
        raise ValueError(
            'worth="shots" must have its samples in memory, to leave each out in turn; got '
            "chunks. Pass a few samples as an array, or another `worth`."
        )
    drop_names(model, chunks)
    sums = _map_chunks(chunks, steps, _fitted_key).reduce(ClassSums(), Pass.MORE)
    check_classes(sums.labels)
    chunks.close()
    return sums, None


def _read_memory(X: Array, y: Any, sample_weight: Any, seed: int) -> MemorySource:
    labels, codes = encode_labels(y, X)
    check_classes(y if is_device_array(y) else labels)
    return MemorySource(X, codes, labels, check_weights(sample_weight, X), seed)


def _transform(X: Array, steps: Steps) -> Array:
    return apply_transforms(X, [step.transform for step in steps])


def _map_chunks(chunks: Chunked, steps: Steps, key: Callable[[Any], str]) -> Chunked:
    for step in steps:
        chunks = chunks.map(step.transform, key=key(step))
    return chunks


def _list_steps(transformer: Any) -> list[Any]:
    """Return the steps of a transformer, also of pipelines in pipelines."""
    if not isinstance(transformer, Pipeline):
        return [transformer]
    steps = (step for _, step in transformer.steps if step not in (None, "passthrough"))
    return [used for step in steps for used in _list_steps(step)]


def _learns_nothing(step: Any) -> bool:
    return isinstance(step, FrozenEstimator) or not get_tags(step).requires_fit


def _learns_in_chunks(step: Any) -> bool:
    return (
        isinstance(step, ChunkTransformerMixin)
        or hasattr(step, "partial_fit")
        or _learns_nothing(step)
    )


def _check_step(step: Any, chunks: Chunked) -> None:
    """Refuse a step that cannot learn from these chunks."""
    in_parts = hasattr(step, "partial_fit") and isinstance(chunks, Chunks)
    if not (isinstance(step, ChunkTransformerMixin) or _learns_nothing(step) or in_parts):
        raise TypeError(
            "`preprocessing` must be one that learns in chunks, such as FeatureNormalizer, "
            "WithinClassWhitener, a frozen one, or for Chunks one with `partial_fit`; got "
            f"{type(step).__name__}. Fit it on some samples, and pass "
            "FrozenEstimator(transformer)."
        )


def _parameters_key(transformer: Any) -> str:
    """Return text for a transformer in checkpoints, by its parameters."""
    steps = _list_steps(transformer)
    return hash_object(
        [step if isinstance(step, FrozenEstimator) else hash_parameters(step) for step in steps]
    )


def _fitted_key(transformer: Any) -> str:
    """Return text for a transformer in checkpoints, by what it learned."""
    own = ((step, isinstance(step, ChunkTransformerMixin)) for step in _list_steps(transformer))
    return hash_object([hash_learned(step) if is_ours else step for step, is_ours in own])
