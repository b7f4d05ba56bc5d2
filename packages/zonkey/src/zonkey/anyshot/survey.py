"""A survey of the samples of `fit`: labels, and a few raw samples of each class.

Parameters are chosen, and tasks simulated, on the samples whose values have the lowest hash
(`core.reservoir`). Such a choice depends neither on the order of samples nor on chunks. Classes may
come with any chunk, so the number of samples per class falls as classes come.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from ..arrays import Array, namespace, place_like, to_numpy
from ..labels import join_labels, places_among
from ..preprocessing.normalizer import PowerSums
from ..streaming.reservoir import row_priorities
from ..streaming.sources import Chunk, get_labels

MOST_CLASSES = 2000
_MOST_PER_CLASS, _FEWEST_PER_CLASS = 100, 16
_MOST_SAMPLES = 2**15
_OF_OTHERS = 4  # samples of classes beyond the first 2,000
_COPIED = 256  # rows at a time, through a copy of them


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """A few raw samples of each class, sorted by class and priority.

    Attributes
    ----------
    X : array of shape (n, d)
        Samples.
    codes : ndarray of shape (n,)
        Position of their class among all labels.
    priorities : ndarray of shape (n,)
        Hash of their values.
    weights : ndarray of shape (n,)
        Weights.
    rows : ndarray of shape (n,)
        Positions in the data.
    is_main : ndarray of bool
        For each label, whether it is among those that parameters are chosen on.
    """

    X: Array
    codes: np.ndarray
    priorities: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    is_main: np.ndarray

    @classmethod
    def choose(
        cls,
        X: Array,
        codes: np.ndarray,
        labels: np.ndarray,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Choose from samples in memory, of which those without weight do not count."""
        weights = np.ones(len(codes)) if weights is None else weights
        rows = np.flatnonzero(weights > 0)
        used, own = np.unique(codes[rows], return_inverse=True)
        sizes = _sizes(_label_keys(labels[used], seed))
        priorities = to_numpy(row_priorities(X, seed))
        chosen = _find_lowest(own, priorities[rows], sizes, rows)
        rows = rows[chosen]
        is_main = np.zeros(len(labels), bool)
        is_main[used] = sizes > _OF_OTHERS
        few = namespace(X).take(X, place_like(rows, X), axis=0)
        return cls(few, codes[rows], priorities[rows], weights[rows], rows, is_main)


def ranks_within(codes: np.ndarray) -> np.ndarray:
    """Return the place of each sample within its class; samples are sorted by class."""
    return np.arange(len(codes)) - np.searchsorted(codes, codes)


class Survey:
    """Labels, a few samples and sums after some powers of all chunks: a `Reduction`.

    The samples may be most of what fits into memory, so they are never copied as a whole.
    """

    def __init__(self, seed: int, powers: tuple[float | None, ...]) -> None:
        self.seed = seed
        self.sums = PowerSums(powers)
        self.labels = np.empty(0)
        self._lengths: dict[int, int] = {}  # by the number of the chunk
        self._keys = np.zeros(0, np.uint64)  # of the labels
        self._codes = self._priorities = np.zeros(0, np.int64)
        self._places = np.zeros((0, 2), np.int64)  # number of the chunk, and row in it
        # Sample i is row slots[i] of the store, so that few rows move when some are replaced.
        self._slots = np.zeros(0, np.int64)
        self._store: Any = None

    def copy_empty(self) -> Survey:
        """Return an empty one of the same seed and powers."""
        return Survey(self.seed, self.sums.powers)

    def update(self, chunk: Chunk) -> None:
        """Take up the labels of a chunk, and some of its samples."""
        labels, codes = np.unique(get_labels(chunk), return_inverse=True)
        self._lengths[chunk.number] = len(codes)
        if not len(codes):
            return
        self.sums.update(chunk)
        codes, rows = self._grow(labels)[codes], np.arange(len(codes))
        places = np.stack([np.full(len(codes), chunk.number), rows], axis=1)
        self._offer(chunk.X, rows, codes, to_numpy(row_priorities(chunk.X, self.seed)), places)

    def merge(self, other: Survey) -> None:
        """Take up what another one has."""
        self._lengths |= other._lengths
        if other._store is None:
            return
        self.sums.merge(other.sums)
        codes = self._grow(other.labels)[other._codes]
        self._offer(other._store, other._slots, codes, other._priorities, other._places)

    def parts(self) -> dict[str, Any]:
        """Return the kept samples, which are not copied, and everything that was counted."""
        self._sort()
        return {
            "labels": self.labels,
            "sums": self.sums.parts(),
            "lengths": np.array(sorted(self._lengths.items()), np.int64).reshape(-1, 2),
            "codes": self._codes,
            "priorities": self._priorities,
            "places": self._places,
            "samples": self._store,
        }

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over what another one had."""
        self.labels = parts["labels"]
        self.sums.restore(parts["sums"])
        self._lengths = dict(parts["lengths"].tolist())
        self._codes, self._priorities = parts["codes"], parts["priorities"]
        self._places, self._store = parts["places"], parts["samples"]
        self._slots = np.arange(len(self._codes))
        self._keys = _label_keys(self.labels, self.seed)

    def kept(self) -> KeptSamples:
        """Return the samples, which are not copied, with their positions in the data."""
        self._sort()
        numbers = np.array(sorted(self._lengths))
        lengths = np.array([self._lengths[number] for number in numbers.tolist()])
        starts = np.cumsum(lengths) - lengths
        rows = starts[np.searchsorted(numbers, self._places[:, 0])] + self._places[:, 1]
        is_main = _sizes(self._keys) > _OF_OTHERS
        ones = np.ones(len(rows))
        return KeptSamples(self._store, self._codes, self._priorities, ones, rows, is_main)

    def _grow(self, labels: np.ndarray) -> np.ndarray:
        """Make room for classes, and return their codes."""
        every = join_labels(self.labels, labels)
        if len(every) > len(self.labels):
            own = places_among(every, self.labels)
            self._codes = own[self._codes]
            keys = np.zeros(len(every), np.uint64)
            keys[own] = self._keys
            new = _list_others(len(every), own)
            keys[new] = _label_keys(every[new], self.seed)
            self._keys = keys
        self.labels = every
        return places_among(every, labels)

    def _offer(
        self,
        X: np.ndarray,
        rows: np.ndarray,
        codes: np.ndarray,
        priorities: np.ndarray,
        places: np.ndarray,
    ) -> None:
        """Keep the samples of lowest priority, of those here and of those in some rows of X."""
        sizes = _sizes(self._keys)
        near = np.flatnonzero(priorities <= self._limits(sizes)[codes])
        n = len(self._codes)
        codes = np.concatenate([self._codes, codes[near]])
        priorities = np.concatenate([self._priorities, priorities[near]])
        places = np.concatenate([self._places, places[near]])
        chosen = _find_lowest(codes, priorities, sizes, places[:, 1], places[:, 0])
        is_new = chosen >= n
        slots = np.zeros(len(chosen), np.int64)
        slots[~is_new] = self._slots[chosen[~is_new]]
        slots[is_new] = self._find_free(slots[~is_new], int(is_new.sum()), X)
        targets, sources = slots[is_new], rows[near[chosen[is_new] - n]]
        for start in range(0, len(targets), _COPIED):
            few = slice(start, start + _COPIED)
            self._store[targets[few]] = X[sources[few]]
        self._codes, self._priorities = codes[chosen], priorities[chosen]
        self._places, self._slots = places[chosen], slots

    def _limits(self, sizes: np.ndarray) -> np.ndarray:
        """Return the highest priority that each class takes."""
        ends = np.searchsorted(self._codes, np.arange(len(sizes)), side="right")
        held = np.bincount(self._codes, minlength=len(sizes))
        limits = np.full(len(sizes), np.iinfo(np.int64).max)
        full = held >= sizes
        limits[full] = self._priorities[(ends - held + sizes - 1)[full]]
        return limits

    def _find_free(self, used: np.ndarray, n: int, like: np.ndarray) -> np.ndarray:
        """Return n rows of the store that are not in use; it grows if it must."""
        if self._store is None:
            self._store = np.empty((0, like.shape[1]), like.dtype)
        if like.dtype.itemsize > self._store.dtype.itemsize:
            self._store = self._store.astype(like.dtype)
        if n + len(used) > len(self._store):
            self._resize(n + len(used))
        return _list_others(len(self._store), used)[:n]

    def _resize(self, n: int) -> None:
        """Let the store have n rows, where it is: the system moves pages, not their content."""
        if not self._store.flags.owndata:
            self._store = self._store.copy()
        self._store.resize((n, self._store.shape[1]), refcheck=False)

    def _sort(self) -> None:
        """Put sample i into row i of the store, and drop the other rows."""
        if self._store is None:
            return
        free = _list_others(len(self._store), self._slots)
        _permute(self._store, np.concatenate([self._slots, free]))
        if len(free):
            self._resize(len(self._slots))
        self._slots = np.arange(len(self._slots))


def _list_others(n: int, some: np.ndarray) -> np.ndarray:
    """Return the numbers from 0 to n - 1 that are not among some, sorted."""
    is_other = np.ones(n, bool)
    is_other[some] = False
    return np.flatnonzero(is_other)


def _permute(X: np.ndarray, order: np.ndarray) -> None:
    """Replace X by X[order] in place, one cycle after the other."""
    left = (order != np.arange(len(order))).tolist()
    sources = order.tolist()
    for start in np.flatnonzero(left).tolist():
        if not left[start]:
            continue
        first, i = X[start].copy(), start
        while sources[i] != start:
            X[i] = X[sources[i]]
            left[i], i = False, sources[i]
        X[i], left[i] = first, False


def _find_lowest(
    codes: np.ndarray, priorities: np.ndarray, sizes: np.ndarray, *places: np.ndarray
) -> np.ndarray:
    """Return the positions of the samples of lowest priority, sorted by class and priority.

    Class j has sizes[j] of them. Places, the last of which counts most, break ties.
    """
    order = np.lexsort((*places, priorities, codes))
    codes = codes[order]
    return order[ranks_within(codes) < sizes[codes]]


def _sizes(keys: np.ndarray) -> np.ndarray:
    """Return how many samples each class keeps: fewer, the more classes there are.

    Beyond 2,000 classes, those of lowest key are the main ones.
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
