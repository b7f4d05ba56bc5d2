"""Moments: all statistics of labeled data that projection learning needs, from one pass.

    A0 = sum_i x_i x_i',     B0 = sum_i y_li y_li',     C0 = sum_i x_i y_li'

B0 and C0 follow from the class counts n_j and class sums s_j,

    B0 = sum_j n_j y_j y_j',     C0 = sum_j s_j y_j'.

So only A0, counts, sums and a few raw samples per class are stored, for any number of samples.
They can be updated chunk by chunk, merged across workers, and subtracted for class-wise folds.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..arrays import Array, is_device_array, namespace, place_like, to_numpy
from ..hashing import hash_object
from ..labels import check_count, format_value, positions_among
from ..persistence.packing import load_object, save_object
from ..prototypes import Prototypes
from ..samples import as_samples, require_same_place, require_scale
from ..streaming.accept import as_chunks
from ..streaming.bottom_k import BottomK
from ..streaming.chunks import Chunked
from ..streaming.priorities import row_priorities
from ..streaming.reduce import ClassSums, Pass
from ..streaming.sources import Chunk, get_labels
from ..threads import LimitThreadsMixin
from .moment_parts import check_parts, pack_samples, unpack_samples

_KIND = "moments"  # of the files


class Moments(LimitThreadsMixin):
    """Sufficient statistics of labeled samples, for given class prototypes.

    Sums are float64 for every input dtype, so that neither chunking nor float32 input costs
    accuracy. They stay in the array library and on the device of the data.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Every class that may occur in `y`. Classes that do not occur are unseen.
    n_reserve : int, default=64
        Number of raw samples kept per class, as material for synthesis.
    seed : int, default=0
        Seed of the choice of raw samples. The choice is invariant to sample order, chunking
        and array library.
    scatter : bool, default=True
        Whether to form A0, the most expensive part. A model without forward error
        (``direction="reverse"``) does not need it.

    Attributes
    ----------
    prototypes : Prototypes
        Prototypes of all classes.
    counts : ndarray of shape (n_classes,)
        Number of samples per class, in the order of the prototypes.

    See Also
    --------
    BaseClasses : Moments factorized once, for many fits.
    ZeroShotClassifier.fit_moments : Learn from moments.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import Moments
    >>> X, y = np.eye(2), ["horse", "horse"]
    >>> moments = Moments({"horse": [1.0], "zebra": [2.0]}).update(X, y)
    >>> moments.B0.tolist(), moments.unseen_labels.tolist()
    ([[2.0]], ['zebra'])
    """

    def __init__(
        self, prototypes: Any, *, n_reserve: int = 64, seed: int = 0, scatter: bool = True
    ) -> None:
        self.n_reserve = check_count("n_reserve", n_reserve, 0)
        self.seed = check_count("seed", seed, 0)
        self.prototypes = Prototypes.coerce(prototypes)
        self.scatter = bool(scatter)
        # Allocated on the device of the first batch.
        self._sums = ClassSums(self.prototypes.labels, scatter=self.scatter)
        self._few = BottomK(np.full(len(self.prototypes), self.n_reserve), n_ties=2)

    @classmethod
    def from_arrays(cls, X: Any, y: Any, prototypes: Any, **options: Any) -> Self:
        """Compute the moments of one data set.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels.
        prototypes : mapping, DataFrame or Prototypes
            Prototypes of all classes.
        **options : dict
            Further parameters of the constructor.

        Returns
        -------
        Moments
            Moments of the samples.
        """
        return cls(prototypes, **options).update(X, y)

    def update(self, X: Any, y: Any = None) -> Self:
        """Add samples; nothing changes if they are invalid.

        Parameters
        ----------
        X : array-like of shape (n, d), Chunks, Dask array or Dask data frame
            Samples. Those in chunks, such as a memory map, are never all in memory.
        y : array-like of shape (n,)
            Labels; None if X is `Chunks`.

        Returns
        -------
        Moments
            This object.
        """
        chunks = as_chunks(X, y)
        if chunks is not None:
            return self._update_from(chunks)
        X = as_samples(X, self._sums.sums)
        codes, n = _as_codes(y, self.prototypes, X), X.shape[0]
        if codes.shape[0] != n:
            raise ValueError(f"X and y must have one row per sample; got {n} and {codes.shape[0]}.")
        require_scale(X)
        self._add(X, codes)
        return self

    def merge(self, other: Moments) -> Self:
        """Add the samples of other moments.

        Parameters
        ----------
        other : Moments
            Moments with the same prototypes and options.

        Returns
        -------
        Moments
            This object.
        """
        self._require_compatible(other)
        self._sums.merge(other._sums)
        self._few.merge(other._few)
        return self

    def subtract(self, other: Moments) -> Self:
        """Remove the samples of other moments, which must be among these.

        Sums are subtracted: removing samples that are far larger than the rest costs digits.

        Parameters
        ----------
        other : Moments
            Moments of a part of the same data.

        Returns
        -------
        Moments
            This object.
        """
        self._require_compatible(other)
        if (other.counts > self.counts).any():
            j = int(np.argmax(other.counts > self.counts))
            label = self.prototypes.labels.tolist()[j]
            raise ValueError(
                f"Only samples that were added can be subtracted; class {format_value(label)} has "
                f"{self.counts[j]}, got {other.counts[j]} to subtract. Subtract moments of a part "
                "of the same data."
            )
        if other._sums.sums is not None:
            self._sums.subtract(other._sums)
            self._few.subtract(other._few, self.counts == 0)
        return self

    def copy(self) -> Self:
        """Return independent moments of the same samples.

        Returns
        -------
        Moments
            Copy; A0 is shared until either object changes.
        """
        return self.with_prototypes(self.prototypes)

    def to_numpy(self) -> Self:
        """Return independent moments of the same samples in host memory.

        Returns
        -------
        Moments
            Moments with NumPy arrays.
        """
        moments = self.copy()
        if is_device_array(self._sums.sums):
            moments._restore(deepcopy(_take_sums(self)))  # libraries may share memory with NumPy
        return moments

    def with_prototypes(self, prototypes: Any) -> Self:
        """Return moments of the same samples under other prototypes.

        Parameters
        ----------
        prototypes : mapping, DataFrame or Prototypes
            For example another semantic space. Every class with samples needs one.

        Returns
        -------
        Moments
            Independent moments; A0 is shared until either object changes.
        """
        moments = type(self)(prototypes, **self._options)
        seen = np.flatnonzero(self.counts)
        rows = moments.prototypes.positions(self.prototypes.labels[seen])
        moments._sums = self._sums.relabel(moments.prototypes.labels, seen, rows)
        new = np.full(len(self.prototypes), -1)
        new[seen] = rows
        moments._few = self._few.copy()
        moments._few.relabel(new, moments._few.sizes[:1].repeat(len(moments.prototypes)))
        return moments

    def fingerprint(self) -> str:
        """Return a hash of prototypes, sums and raw samples.

        Returns
        -------
        str
            The same for equal moments.
        """
        sums = (self.A0 if self.scatter else self.trace, self.class_sums)
        return hash_object(self.prototypes, self.counts, *sums, self._few.parts())

    def __add__(self, other: Moments) -> Moments:
        return self.copy().merge(other)

    def __sub__(self, other: Moments) -> Moments:
        return self.copy().subtract(other)

    @property
    def A0(self) -> Array:
        """Scatter sum_i x_i x_i', shape (d, d)."""
        if not self.scatter:
            raise ValueError(
                "A0 needs moments with their scatter; these were computed with scatter=False. "
                "Compute them again with scatter=True."
            )
        return self._fill(self._sums.scatter)

    @property
    def trace(self) -> float:
        """Sum of ||x_i||^2, the trace of A0; known without A0, too."""
        if not self.scatter:
            return float(self._sums.squares.sum())
        A0 = self.A0
        return float(namespace(A0).linalg.trace(A0))

    @property
    def B0(self) -> Array:
        """Sum of y_li y_li', shape (k, k)."""
        Y = self._place(self.prototypes.matrix)
        return (Y.T * self._place(self.counts)[None, :]) @ Y

    @property
    def C0(self) -> Array:
        """Sum of x_i y_li', shape (d, k)."""
        return self.class_sums.T @ self._place(self.prototypes.matrix)

    @property
    def class_sums(self) -> Array:
        """Sum of the samples of each class, in the order of the prototypes, shape (m, d)."""
        return self._fill(self._sums.sums)

    @property
    def counts(self) -> np.ndarray:
        """Number of samples per class, in the order of the prototypes."""
        return self._sums.counts.astype(np.int64)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Dimension d of the features."""
        return self._fill(self._sums.sums).shape[1]

    @property
    def seen_labels(self) -> np.ndarray:
        """Labels with at least one sample."""
        return self.prototypes.labels[self.counts > 0]

    @property
    def unseen_labels(self) -> np.ndarray:
        """Labels with a prototype and no sample."""
        return self.prototypes.labels[self.counts == 0]

    def samples_of(self, label: Any) -> Array:
        """Return the raw samples kept for a class.

        Parameters
        ----------
        label : str or number
            Class label.

        Returns
        -------
        array of shape (n_kept, d)
            At most `n_reserve` samples.
        """
        j = int(self.prototypes.positions([label])[0])
        self._fill(self._sums.sums)
        return _make_read_only(self._few.samples_of(j))

    def save(self, path: Any) -> None:
        """Write the moments to one file, atomically and without pickle.

        Arrays on a device are copied to the host; `load` returns NumPy arrays.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        self._fill(self._sums.sums)
        save_object(path, _KIND, self, _IN_FILES)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read moments written by `save`.

        Parameters
        ----------
        path : str or path-like
            File to read.

        Returns
        -------
        Moments
            The moments in the file.

        Raises
        ------
        StorageError
            If the file is damaged, was altered, or holds something else. It is a ValueError.
        """
        return load_object(path, _KIND, _IN_FILES)[1]

    def __zonkey_parts__(self) -> dict[str, Any]:
        return {"prototypes": self.prototypes, "options": self._options, **_take_sums(self)}

    @classmethod
    def __zonkey_make__(cls, parts: dict[str, Any]) -> Moments:
        return _make(parts)

    def __repr__(self) -> str:
        seen = int((self.counts > 0).sum())
        d = "?" if self._sums.sums is None else self.n_features
        return f"Moments({self.n_samples} samples x {d}, {seen} of {len(self.counts)} classes seen)"

    def _add(self, X: Array, codes: Array) -> None:
        """Add samples that were checked."""
        self._sums.add(X, codes)
        offered = slice(None if self.n_reserve else 0)
        X, codes = X[offered, :], to_numpy(codes[offered])
        priorities, ends = (to_numpy(M) for M in (row_priorities(X, self.seed), _ends(X)))
        self._few.offer(X, codes, priorities, ends)

    def _update_from(self, chunks: Chunked) -> Self:
        empty = type(self)(self.prototypes, **self._options)
        key = f"{self._options} {self.prototypes.fingerprint()}"
        self.merge(chunks.reduce(_Gathering(empty), Pass.MOMENTS, key).moments)
        chunks.close()
        return self

    @property
    def _options(self) -> dict[str, Any]:
        return {"n_reserve": self.n_reserve, "seed": self.seed, "scatter": self.scatter}

    def _place(self, M: np.ndarray) -> Array:
        """Return host numbers in float64 on the device of the samples."""
        M = M.astype(np.float64)
        return M if self._sums.sums is None else place_like(M, self._sums.sums)

    def _restore(self, parts: dict[str, Any]) -> None:
        """Restore the sums returned by `_take_sums`."""
        sums, scatter = parts["class_sums"], parts["A0"] if self.scatter else None
        squares = np.zeros(len(parts["counts"]))
        # Only the sum of squares is known; it stays with a class that has samples.
        squares[np.argmax(parts["counts"])] = parts.get("squares", 0.0)
        counts = parts["counts"].astype(np.float64)
        self._sums.restore({"counts": counts, "squares": squares, "sums": sums, "scatter": scatter})
        few = unpack_samples(parts["reserve"])
        self._few.restore({**few, "ties": _ends(few["samples"])})

    def _fill(self, array: Array | None) -> Array:
        if array is None:
            raise ValueError("These moments have no samples yet; call `update(X, y)` first.")
        return _make_read_only(array)

    def _require_compatible(self, other: Moments) -> None:
        if not isinstance(other, Moments):
            raise TypeError(f"Moments combine only with Moments; got {type(other).__name__}.")
        if self.prototypes != other.prototypes:
            raise ValueError("Moments can be combined only with moments of the same prototypes.")
        own, others = ([*moments._options.values()] for moments in (self, other))
        if own != others:
            raise ValueError(
                "Moments can be combined only with the same `n_reserve`, `seed` and `scatter`; "
                f"got {own} and {others}."
            )
        if self._sums.sums is None or other._sums.sums is None:
            return
        if self.n_features != other.n_features:
            raise ValueError(
                "Moments can be combined only with moments of the same features; got "
                f"{self.n_features} and {other.n_features} dimensions."
            )
        require_same_place(self._sums.sums, other._sums.sums)


def _as_codes(y: Any, prototypes: Prototypes, X: Array) -> Array:
    """Return the row of the prototype of each label, on the device of X."""
    if is_device_array(y) and is_device_array(X):
        return positions_among(prototypes.labels, place_like(y, X))
    return place_like(prototypes.positions(to_numpy(y) if is_device_array(y) else y), X)


def _ends(X: Array) -> Array:
    """Return the last and the first value of each row, which break ties of priorities."""
    xp = namespace(X)
    return xp.astype(xp.stack([X[:, -1], X[:, 0]], axis=1), xp.float64)


def _make_read_only(array: Array) -> Array:
    """Return a read-only view; only NumPy has them."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass
class _Gathering:
    """Moments as a reduction of chunks."""

    moments: Moments

    def copy_empty(self) -> _Gathering:
        return _Gathering(Moments(self.moments.prototypes, **self.moments._options))

    def update(self, chunk: Chunk) -> None:
        codes = _as_codes(get_labels(chunk), self.moments.prototypes, chunk.X)
        self.moments._add(chunk.X, codes)

    def merge(self, other: _Gathering) -> None:
        self.moments.merge(other.moments)

    def parts(self) -> dict[str, Any]:
        return _take_sums(self.moments)

    def restore(self, parts: dict[str, Any]) -> None:
        self.moments._restore(parts)


def _take_sums(moments: Moments) -> dict[str, Any]:
    """Return the sums and the raw samples as NumPy arrays, which are not copied."""
    sums = moments._sums
    return {
        "counts": moments.counts,
        "class_sums": to_numpy(sums.sums),
        **({"A0": to_numpy(sums.scatter)} if moments.scatter else {"squares": moments.trace}),
        "reserve": pack_samples(moments._few),
    }


def _make(parts: dict[str, Any]) -> Moments:
    # Files of older versions say how exact the products were.
    options = {name: parts["options"][name] for name in ("n_reserve", "seed", "scatter")}
    moments = Moments(parts["prototypes"], **options)
    digits = 3 if parts["options"].get("precision") == "single" else 7
    check_parts(parts, len(moments.prototypes), moments.n_reserve, moments.scatter, digits)
    moments._restore(parts)
    return moments


_IN_FILES = {"Moments": Moments, "Prototypes": Prototypes}
