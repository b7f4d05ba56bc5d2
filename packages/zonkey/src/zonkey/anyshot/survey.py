"""A survey of the samples of `fit`: labels, and a few raw samples of each class.

Parameters are chosen, and tasks simulated, on the samples whose values have the lowest hash
(`streaming.priorities`). Such a choice depends neither on the order of samples nor on chunks. New
classes may come with any chunk, so the number of samples per class falls as classes come.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from ..arrays import Array, take_rows, to_numpy
from ..labels import join_labels, places_among
from ..preprocessing.normalizer import PowerSums
from ..streaming.bottom_k import BottomK, find_lowest
from ..streaming.priorities import row_priorities
from ..streaming.sources import Chunk, get_labels

MOST_CLASSES = 2000
_MOST_PER_CLASS, _FEWEST_PER_CLASS = 100, 16
_MOST_SAMPLES = 2**15
_OF_OTHERS = 4  # samples of classes beyond the first 2,000


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """A few raw samples of each class, sorted by class and priority."""

    X: Array
    codes: np.ndarray  # positions of their classes among all labels
    priorities: np.ndarray  # hashes of their values
    weights: np.ndarray
    rows: np.ndarray  # positions in the data
    is_main: np.ndarray  # for each label, whether parameters are chosen on it

    @classmethod
    def choose(
        cls,
        X: Array,
        codes: np.ndarray,
        labels: np.ndarray,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Choose from samples in memory; samples of weight zero are ignored."""
        weights = np.ones(len(codes)) if weights is None else weights
        rows = np.flatnonzero(weights > 0)
        used, own = np.unique(codes[rows], return_inverse=True)
        sizes = _sizes(_label_keys(labels[used], seed))
        priorities = to_numpy(row_priorities(X, seed))
        chosen = find_lowest(own, priorities[rows], sizes, rows[:, None])
        rows = rows[chosen]
        is_main = np.zeros(len(labels), bool)
        is_main[used] = sizes > _OF_OTHERS
        few = take_rows(X, rows)
        return cls(few, codes[rows], priorities[rows], weights[rows], rows, is_main)


class Survey:
    """Labels, a few samples and sums after some powers of all chunks: a `Reduction`."""

    def __init__(self, seed: int, powers: tuple[float | None, ...]) -> None:
        self.seed = seed
        self.means = {power: PowerSums(power) for power in powers}
        self.labels = np.empty(0)
        self._lengths: dict[int, int] = {}  # by the number of the chunk
        self._keys = np.zeros(0, np.uint64)  # of the labels
        self._few = BottomK(_sizes(self._keys), 2)  # ties: row in its chunk, number of the chunk

    def copy_empty(self) -> Survey:
        """Return an empty one of the same seed and powers."""
        return Survey(self.seed, tuple(self.means))

    def update(self, chunk: Chunk) -> None:
        """Add the labels of a chunk, and some of its samples."""
        labels, codes = np.unique(get_labels(chunk), return_inverse=True)
        self._lengths[chunk.number] = len(codes)
        if not len(codes):
            return
        for sums in self.means.values():
            sums.update(chunk)
        places = np.stack([np.arange(len(codes)), np.full(len(codes), chunk.number)], axis=1)
        priorities = to_numpy(row_priorities(chunk.X, self.seed))
        self._few.offer(chunk.X, self._grow(labels)[codes], priorities, places)

    def merge(self, other: Survey) -> None:
        """Merge another survey into this one."""
        self._lengths |= other._lengths
        if not len(other.labels):
            return
        for power, sums in self.means.items():
            sums.merge(other.means[power])
        own = self._grow(other.labels)
        relabeled = other._few.copy()
        relabeled.relabel(own, self._few.sizes)
        self._few.merge(relabeled)

    def parts(self) -> dict[str, Any]:
        """Return the kept samples, which are not copied, and everything that was counted."""
        return {
            "labels": self.labels,
            "means": [sums.parts() for sums in self.means.values()],
            "lengths": np.array(sorted(self._lengths.items()), np.int64).reshape(-1, 2),
            "few": self._few.parts(),
        }

    def restore(self, parts: dict[str, Any]) -> None:
        """Restore the stored state."""
        self.labels = parts["labels"]
        for sums, kept in zip(self.means.values(), parts["means"], strict=True):
            sums.restore(kept)
        self._lengths = dict(parts["lengths"].tolist())
        self._keys = _label_keys(self.labels, self.seed)
        self._few = BottomK(_sizes(self._keys), 2)
        self._few.restore(parts["few"])

    def kept(self) -> KeptSamples:
        """Return the samples, which are not copied, with their positions in the data."""
        few, samples = self._few, self._few.samples()
        numbers = np.array(sorted(self._lengths))
        lengths = np.array([self._lengths[number] for number in numbers.tolist()])
        starts = np.cumsum(lengths) - lengths
        rows = starts[np.searchsorted(numbers, few.ties[:, 1])] + few.ties[:, 0]
        is_main = few.sizes > _OF_OTHERS
        ones = np.ones(len(rows))
        return KeptSamples(samples, few.codes, few.priorities, ones, rows, is_main)

    def _grow(self, labels: np.ndarray) -> np.ndarray:
        """Make room for classes, and return their codes."""
        every = join_labels(self.labels, labels)
        if len(every) > len(self.labels):
            own = places_among(every, self.labels)
            is_new = np.ones(len(every), bool)
            is_new[own] = False
            keys = np.empty(len(every), np.uint64)
            keys[own], keys[is_new] = self._keys, _label_keys(every[is_new], self.seed)
            self._keys = keys
            self._few.relabel(own, _sizes(keys))
        self.labels = every
        return places_among(every, labels)


def _sizes(keys: np.ndarray) -> np.ndarray:
    """Return how many samples each class keeps: fewer, the more classes there are.

    Beyond 2,000 classes, those of lowest key are the main classes.
    """
    m = len(keys)
    most = min(_MOST_PER_CLASS, _MOST_SAMPLES // max(1, min(m, MOST_CLASSES)))
    sizes = np.full(m, max(_FEWEST_PER_CLASS, most))
    if m > MOST_CLASSES:
        sizes[np.argsort(keys, kind="stable")[MOST_CLASSES:]] = _OF_OTHERS
    return sizes


def _label_keys(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a hash of each label and the seed; 1.0 and True have that of 1."""
    is_text = labels.dtype.kind == "U"
    texts = labels.tolist() if is_text else map(_number, labels.tolist())
    named = (f"{seed} {text}".encode(errors="surrogatepass") for text in texts)
    hashes = (blake2b(name, digest_size=8) for name in named)
    return np.array([int.from_bytes(found.digest()) for found in hashes], np.uint64)


def _number(value: float) -> str:
    return str(int(value) if float(value).is_integer() else value)
