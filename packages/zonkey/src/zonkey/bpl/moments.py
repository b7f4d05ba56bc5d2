"""Moments: everything that projection learning needs of the labeled data, from one pass.

    A0 = sum_i x_i x_i',     B0 = sum_i y_li y_li',     C0 = sum_i x_i y_li'

B0 and C0 follow from the class counts n_j and class sums s_j,

    B0 = sum_j n_j y_j y_j',     C0 = sum_j s_j y_j'.

So only A0, counts, sums and a few raw samples per class are stored, for any number of samples.
They can be updated chunk by chunk, merged across workers, and subtracted for class-wise folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from array_api_compat import device

from ..arrays import Array, counts_by_code, is_device_array, namespace, place_like, to_numpy
from ..hashing import hash_object
from ..labels import check_count, format_value, positions_among
from ..persistence.checks import require_shape, require_that
from ..persistence.packing import load_object, save_object
from ..prototypes import Prototypes
from ..samples import as_samples, class_sums, require_same_place, require_scale
from ..streaming.chunks import Chunked, as_chunks
from ..streaming.reservoir import Reservoir
from ..streaming.sources import Chunk, get_labels

_KIND = "moments"  # of the files
# Rows converted to float64 at a time: large enough for a full-speed matrix product.
_BLOCK = 8192
_DEVICE_BLOCK = 65536


class Moments:
    """Sufficient statistics of labeled samples, for given class prototypes.

    Sums are float64 for every input dtype, so that neither chunking nor float32 input costs
    accuracy. They stay in the array library and on the device of the data.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Every class that may occur in `y`. Classes that never do are the unseen ones.
    n_reserve : int, default=64
        Number of raw samples kept per class, as material for synthesis.
    seed : int, default=0
        Seed of the choice of raw samples. The choice is invariant to sample order, chunking
        and array library.
    precision : {"double", "single"}, default="double"
        "single" multiplies blocks of float32 data in float32 (TF32 if torch allows it) and adds
        the blocks in float64. This is several times faster in TF32 on a GPU, with an error of
        about 1e-6 (TF32: 1e-4) of the largest entry of A0. Other dtypes are not affected.
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
        self,
        prototypes: Any,
        *,
        n_reserve: int = 64,
        seed: int = 0,
        precision: Literal["double", "single"] = "double",
        scatter: bool = True,
    ) -> None:
        self.n_reserve = check_count("n_reserve", n_reserve, 0)
        self.seed = check_count("seed", seed, 0)
        if precision not in ("double", "single"):
            raise ValueError(
                f'`precision` must be "double" or "single"; got {precision!r}. Keep the default '
                "unless float32 products are accurate enough."
            )
        self.prototypes = Prototypes.coerce(prototypes)
        self.precision: Literal["double", "single"] = precision
        self.scatter = bool(scatter)
        self.counts = np.zeros(len(self.prototypes), np.int64)
        # Allocated on the device of the first batch. Copies share A0 until either is changed.
        self._sums: Any = None
        self._A0: Any = None
        self._shares_A0 = False
        self._squares = 0.0  # trace of A0, kept only if A0 is not
        self._reservoir: Any = None

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
        X = as_samples(X, self._sums)
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
        if other._sums is not None:
            self._allocate(other._sums)
            if self.scatter:
                self._A0 += other._A0
            self._squares += other._squares
            self._sums += other._sums
            self._reservoir.merge(other._reservoir)
        self.counts += other.counts
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
        self.counts -= other.counts
        emptied = self.counts == 0
        if other._sums is not None:
            self._allocate(other._sums)
            xp = namespace(self._sums)
            left = self._sums - other._sums
            # Rounding residue of an emptied class belongs to no sample.
            is_empty = place_like(emptied, left)[:, None]
            self._sums = xp.where(is_empty, xp.zeros_like(left), left)
            if self.scatter:
                self._A0 -= other._A0
                if emptied.all():
                    self._A0 = xp.zeros_like(self._A0)
            self._squares = 0.0 if emptied.all() else self._squares - other._squares
            self._reservoir.subtract(other._reservoir, emptied)
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
        if is_device_array(moments._sums):
            moments._sums = to_numpy(moments._sums)
            moments._A0 = to_numpy(moments._A0) if self.scatter else None
            moments._reservoir = moments._reservoir.to_numpy()
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
        moments.counts[rows] = self.counts[seen]
        if self._sums is not None:
            xp = namespace(self._sums)
            moments._A0, moments._squares = self._A0, self._squares
            moments._shares_A0 = self._shares_A0 = True
            zeros = xp.zeros_like(self._sums[:1, :])  # sum of a class without samples
            source = np.full(len(moments.prototypes), len(self.prototypes))
            source[rows] = seen
            source = place_like(source, zeros)
            moments._sums = xp.take(xp.concat([self._sums, zeros]), source, axis=0)
            moments._reservoir = self._reservoir.relabel(len(moments.prototypes), seen, rows)
        return moments

    def fingerprint(self) -> str:
        """Return a hash of prototypes, sums and raw samples.

        Returns
        -------
        str
            The same for equal moments.
        """
        sums = (self.A0 if self.scatter else self.trace, self.class_sums)
        return hash_object(self.prototypes, self.counts, *sums, self._reservoir.to_arrays())

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
        return self._fill(self._A0)

    @property
    def trace(self) -> float:
        """Sum of ||x_i||^2, the trace of A0; known without A0, too."""
        if not self.scatter:
            return self._squares
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
        return self._fill(self._sums)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Dimension d of the features."""
        return self._fill(self._sums).shape[1]

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
        self._fill(self._sums)
        return _make_read_only(self._reservoir.samples(j))

    def save(self, path: Any) -> None:
        """Write the moments to one file, atomically and without pickle.

        Arrays on a device are copied to the host; `load` returns NumPy arrays.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        self._fill(self._sums)
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
        return {"prototypes": self.prototypes, "options": self._options, **_sums(self)}

    @classmethod
    def __zonkey_make__(cls, parts: dict[str, Any]) -> Moments:
        return _make(parts)

    def __repr__(self) -> str:
        seen = int((self.counts > 0).sum())
        d = "?" if self._sums is None else self._sums.shape[1]
        return f"Moments({self.n_samples} samples x {d}, {seen} of {len(self.counts)} classes seen)"

    def _add(self, X: Array, codes: Array) -> None:
        """Add samples that were checked."""
        (n, _), m = X.shape, len(self.prototypes)
        self._allocate(X)
        xp = namespace(X)
        narrow = self.precision == "single" and X.dtype == xp.float32
        # Short sums keep their digits in float32; devices prefer long blocks.
        rows = _DEVICE_BLOCK if is_device_array(X) and not narrow else _BLOCK
        for start in range(0, n, rows):
            stop = min(start + rows, n)
            block = X[start:stop, :]
            block = block if narrow else xp.astype(block, xp.float64, copy=False)
            if self.scatter:
                self._A0 += xp.astype(block.T @ block, xp.float64, copy=False)
            else:
                self._squares += float(xp.sum(xp.vecdot(block, block)))
            sums = class_sums(block, codes[start:stop], m)
            self._sums += xp.astype(sums, xp.float64, copy=False)
        self.counts += counts_by_code(codes, m)
        self._reservoir.update(X, codes)

    def _update_from(self, chunks: Chunked) -> Self:
        empty = type(self)(self.prototypes, **self._options)
        key = f"{self._options} {self.prototypes.fingerprint()}"
        self.merge(chunks.reduce(_Gathering(empty), "moments", key).moments)
        chunks.close()
        return self

    @property
    def _options(self) -> dict[str, Any]:
        names = ("n_reserve", "seed", "precision", "scatter")
        return {name: getattr(self, name) for name in names}

    def _place(self, M: np.ndarray) -> Array:
        """Return host numbers in float64 on the device of the samples."""
        M = M.astype(np.float64)
        return M if self._sums is None else place_like(M, self._sums)

    def _allocate(self, like: Array) -> None:
        """Prepare the sums for in-place changes, on the device of `like`."""
        xp, d, m = namespace(like), like.shape[1], len(self.prototypes)
        if self._sums is None:
            self._sums = xp.zeros((m, d), dtype=xp.float64, device=device(like))
            if self.scatter:
                self._A0 = xp.zeros((d, d), dtype=xp.float64, device=device(like))
            self._reservoir = Reservoir(m, self.n_reserve, self.seed, like)
        elif self._shares_A0 and self.scatter:
            self._A0 = xp.asarray(self._A0, copy=True)
        self._shares_A0 = False

    def _fill(self, array: Array | None) -> Array:
        if array is None:
            raise ValueError("These moments have no samples yet; call `update(X, y)` first.")
        return _make_read_only(array)

    def _require_compatible(self, other: Moments) -> None:
        if not isinstance(other, Moments):
            raise TypeError(f"Moments combine only with Moments; got {type(other).__name__}.")
        if self.prototypes != other.prototypes:
            raise ValueError("Moments can be combined only with moments of the same prototypes.")
        names = ("n_reserve", "seed", "scatter")
        own, others = ([getattr(m, name) for name in names] for m in (self, other))
        if own != others:
            raise ValueError(
                "Moments can be combined only with the same `n_reserve`, `seed` and `scatter`; "
                f"got {own} and {others}."
            )
        if self._sums is None or other._sums is None:
            return
        if self.n_features != other.n_features:
            raise ValueError(
                "Moments can be combined only with moments of the same features; got "
                f"{self.n_features} and {other.n_features} dimensions."
            )
        require_same_place(self._sums, other._sums)


def _as_codes(y: Any, prototypes: Prototypes, X: Array) -> Array:
    """Return the row of the prototype of each label, on the device of X."""
    if is_device_array(y) and is_device_array(X):
        return positions_among(prototypes.labels, place_like(y, X))
    return place_like(prototypes.positions(to_numpy(y) if is_device_array(y) else y), X)


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
        return _sums(self.moments)

    def restore(self, parts: dict[str, Any]) -> None:
        own = {"prototypes": self.moments.prototypes, "options": self.moments._options}
        self.moments = _make(own | parts, trusted=True)


def _sums(moments: Moments) -> dict[str, Any]:
    here = moments.to_numpy()
    return {
        "counts": here.counts,
        "class_sums": here.class_sums,
        **({"A0": here.A0} if here.scatter else {"squares": here._squares}),
        "reserve": here._reservoir.to_arrays(),
    }


def _make(parts: dict[str, Any], *, trusted: bool = False) -> Moments:
    """Return moments of parts; to check the sums takes as long as a chunk."""
    moments = Moments(parts["prototypes"], **parts["options"])
    m = len(moments.prototypes)
    require_shape("counts", parts["counts"], m, kinds="i")
    require_shape("class_sums", parts["class_sums"], m, None)
    moments.counts, moments._sums = parts["counts"], parts["class_sums"]
    require_that(bool((moments.counts >= 0).all()), "Counts of samples must not be negative.")
    if moments.scatter:
        d = moments._sums.shape[1]
        require_shape("A0", parts["A0"], d, d)
        moments._A0 = parts["A0"]
    else:
        moments._squares = float(parts["squares"])
    if not trusted:
        _check_sums(moments)
    moments._reservoir = _reservoir(parts["reserve"], moments)
    return moments


def _reservoir(arrays: dict[str, Any], moments: Moments) -> Reservoir:
    """Return the raw samples of a file, which must be among those that were counted."""
    m, d = moments._sums.shape
    lengths = arrays["reserve_lengths"]
    require_shape("reserve_lengths", lengths, m, kinds="i")
    most = np.minimum(moments.counts, moments.n_reserve)
    fits = bool((lengths >= 0).all() and (lengths <= most).all())
    require_that(fits, "Raw samples of moments must be among those that were counted.")
    n = int(lengths.sum())
    require_shape("reserve_rows", arrays["reserve_rows"], n, d)
    for name, length in (("reserve_priorities", n), ("reserve_limits", m)):
        require_shape(name, arrays[name], length, kinds="u")
    return Reservoir.from_arrays(arrays, moments.n_reserve, moments.seed)


def _check_sums(moments: Moments) -> None:
    """Refuse sums that no samples have: A0 is at least the scatter of the class means."""
    S, n = moments._sums, moments.counts
    require_that(not S[n == 0].any(), "The sum of a class without samples must be zero.")
    least = np.sum(S * S / np.maximum(n, 1)[:, None], axis=0)
    rule = "A0 must be the scatter of the samples, as large as their class sums imply."
    # Products in single precision have few digits, and differences of moments lose some.
    tolerance = 1e-3 if moments.precision == "single" else 1e-7
    if not moments.scatter:
        total = float(np.sum(least))
        require_that(moments._squares >= total * (1 - tolerance), rule)
        return
    A0 = moments._A0
    diagonal = np.diag(A0)
    slack = tolerance * max(float(np.abs(diagonal).max()), float(least.max()))
    require_that(bool((np.abs(A0 - A0.T) <= slack).all()), rule)
    roots = S / np.sqrt(np.maximum(n, 1))[:, None]
    within = A0 - roots.T @ roots
    within.flat[:: len(within) + 1] += slack or 1.0
    try:
        np.linalg.cholesky(within)
    except np.linalg.LinAlgError:
        require_that(False, rule)


_IN_FILES = {"Moments": Moments, "Prototypes": Prototypes}
