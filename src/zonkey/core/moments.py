"""Everything that projection learning needs of the labeled data, gathered in one pass.

    A0 = sum_i x_i x_i',     B0 = sum_i y_li y_li',     C0 = sum_i x_i y_li'

B0 and C0 follow from the class counts n_j and class sums s_j alone,

    B0 = sum_j n_j y_j y_j',     C0 = sum_j s_j y_j',

so that only A0, counts, sums and a few raw samples a class are stored, however many
samples there were. They can be updated chunk by chunk, merged across workers, and
subtracted for class-wise folds.
"""

from __future__ import annotations

import operator
import os
from typing import Any, Literal, Self

import numpy as np
from array_api_compat import device

from ..linalg.arrays import Array, counts_by_code, is_device_array, namespace, placed_like, to_numpy
from .device_reservoir import DeviceReservoir
from .moments_file import load_moments, save_moments
from .prototypes import Prototypes
from .reservoir import Reservoir
from .samples import as_codes, as_samples, class_sums, read_only, require_same_place

_FORMAT = 1  # of the files
# Rows converted to float64 at a time: large enough for a full-speed matrix product.
_BLOCK = 8192
_DEVICE_BLOCK = 65536


class Moments:
    """Sufficient statistics of labeled samples, for given class prototypes.

    Sums are kept in float64 whatever the dtype of the data, so that neither chunking
    nor float32 input costs accuracy. They are in the array library and on the device of the
    data: torch tensors on a GPU are summed there, and stay.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Every class that may occur in `y`; classes that never do are the unseen ones.
    n_reserve : int, default=64
        Raw samples kept for each class, as material for synthesis.
    seed : int, default=0
        Which samples are kept. The choice depends on the samples and the seed only,
        not on chunks or order, nor on the array library.
    precision : {"double", "single"}, default="double"
        "single" sums up blocks of float32 data in float32 (in TF32 where torch was told to), and
        only the blocks in float64: several times faster in TF32 on a GPU, with an error of about
        1e-6 (TF32: 1e-4) of the largest entry of A0. Data of other types are not affected.

    Examples
    --------
    >>> import numpy as np
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
    ) -> None:
        for name, value in (("n_reserve", n_reserve), ("seed", seed)):
            if operator.index(value) < 0:
                raise ValueError(f"`{name}` must be an integer of at least 0; got {value}.")
        if precision not in ("double", "single"):
            raise ValueError(
                f'`precision` must be "double" or "single"; got {precision!r}. Keep the default '
                "unless float32 products are accurate enough."
            )
        self.prototypes = Prototypes.coerce(prototypes)
        self.n_reserve = int(n_reserve)
        self.seed = int(seed)
        self.precision: Literal["double", "single"] = precision
        m = len(self.prototypes)
        self.counts = np.zeros(m, np.int64)
        self._sums: Array = None  # as A0, until the first samples say where it is to be
        self._A0: Array = None
        self._reservoir: Any = Reservoir(m, self.n_reserve, self.seed)

    @classmethod
    def from_arrays(cls, X: Any, y: Any, prototypes: Any, **options: Any) -> Self:
        """Gather the moments of one data set."""
        return cls(prototypes, **options).update(X, y)

    def update(self, X: Any, y: Any) -> Self:
        """Add samples X (n x d) with labels y (n); nothing changes if they are invalid."""
        X = as_samples(X, self._A0)
        codes = as_codes(y, self.prototypes, X)
        (n, _), m = X.shape, len(self.prototypes)
        if codes.shape[0] != n:
            raise ValueError(f"X and y must have one row a sample; got {n} and {codes.shape[0]}.")
        self._allocate(X)
        xp = namespace(X)
        narrow = self.precision == "single" and X.dtype == xp.float32
        # Short sums in float32 keep their digits; a device would rather have long ones.
        rows = _DEVICE_BLOCK if is_device_array(X) and not narrow else _BLOCK
        for start in range(0, n, rows):
            stop = min(start + rows, n)
            block = X[start:stop, :]
            block = block if narrow else xp.astype(block, xp.float64, copy=False)
            self._A0 += xp.astype(block.T @ block, xp.float64, copy=False)
            sums = class_sums(block, codes[start:stop], m)
            self._sums += xp.astype(sums, xp.float64, copy=False)
        self.counts += counts_by_code(codes, m)
        self._reservoir.update(X, codes)
        return self

    def merge(self, other: Moments) -> Self:
        """Add the samples that `other` has seen."""
        self._require_compatible(other)
        if other._A0 is not None:
            self._allocate(other._A0)
            self._A0 += other._A0
            self._sums += other._sums
            self._reservoir.merge(other._reservoir)
        self.counts += other.counts
        return self

    def subtract(self, other: Moments) -> Self:
        """Remove the samples that `other` has seen, which must be among one's own.

        Sums are subtracted: samples far larger than those that stay take digits with them.
        """
        self._require_compatible(other)
        if (other.counts > self.counts).any():
            j = int(np.argmax(other.counts > self.counts))
            raise ValueError(
                "Only samples that were added can be subtracted; class "
                f"{self.prototypes.labels[j]!r} has {self.counts[j]} and {other.counts[j]} are to "
                "go. Subtract moments of a part of the same data."
            )
        self.counts -= other.counts
        emptied = self.counts == 0
        if other._A0 is not None:
            self._allocate(other._A0)
            xp = namespace(self._A0)
            self._A0 -= other._A0
            left = self._sums - other._sums
            # What rounding leaves there belongs to no sample.
            is_empty = placed_like(emptied, left)[:, None]
            self._sums = xp.where(is_empty, xp.zeros_like(left), left)
            if emptied.all():
                self._A0 = xp.zeros_like(self._A0)
            self._reservoir.subtract(other._reservoir, emptied)
        return self

    def copy(self) -> Self:
        """Return independent moments of the same samples."""
        return self._alike(self.prototypes).merge(self)

    def to_numpy(self) -> Self:
        """Return independent moments of the same samples in the memory of the host."""
        moments = self.copy()
        if is_device_array(moments._A0):
            moments._A0, moments._sums = to_numpy(moments._A0), to_numpy(moments._sums)
            moments._reservoir = moments._reservoir.to_numpy()
        return moments

    def with_prototypes(self, prototypes: Any) -> Self:
        """Return the same samples under other prototypes, such as another semantic space.

        Every class with a sample needs one.
        """
        moments = self._alike(prototypes)
        seen = np.flatnonzero(self.counts)
        rows = moments.prototypes.positions(self.prototypes.labels[seen])
        moments.counts[rows] = self.counts[seen]
        if self._A0 is not None:
            xp = namespace(self._A0)
            moments._A0 = xp.asarray(self._A0, copy=True)
            zeros = xp.zeros_like(self._sums[:1, :])  # the sum of a class that has no sample
            source = np.full(len(moments.prototypes), len(self.prototypes))
            source[rows] = seen
            source = placed_like(source, zeros)
            moments._sums = xp.take(xp.concat([self._sums, zeros]), source, axis=0)
        moments._reservoir = self._reservoir.relabeled(len(moments.prototypes), seen, rows)
        return moments

    def __add__(self, other: Moments) -> Moments:
        return self.copy().merge(other)

    def __sub__(self, other: Moments) -> Moments:
        return self.copy().subtract(other)

    @property
    def A0(self) -> Array:
        """sum_i x_i x_i', shape (d, d)."""
        return self._filled(self._A0)

    @property
    def B0(self) -> Array:
        """sum_i y_li y_li', shape (k, k)."""
        Y = self._placed(self.prototypes.matrix)
        return (Y.T * self._placed(self.counts)[None, :]) @ Y

    @property
    def C0(self) -> Array:
        """sum_i x_i y_li', shape (d, k)."""
        return self.class_sums.T @ self._placed(self.prototypes.matrix)

    @property
    def class_sums(self) -> Array:
        """Sum of the samples of each class, in the order of the prototypes, shape (m, d)."""
        return self._filled(self._sums)

    @property
    def n_samples(self) -> int:
        """Number of samples seen."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Dimension d of the features."""
        return self._filled(self._A0).shape[0]

    @property
    def seen_labels(self) -> np.ndarray:
        """Labels with at least one sample."""
        return self.prototypes.labels[self.counts > 0]

    @property
    def unseen_labels(self) -> np.ndarray:
        """Labels with a prototype and no sample."""
        return self.prototypes.labels[self.counts == 0]

    def samples_of(self, label: Any) -> Array:
        """Return the raw samples kept for a class, at most `n_reserve` rows."""
        j = int(self.prototypes.positions([label])[0])
        return read_only(self._reservoir.samples(j, self.n_features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one .npz file; the file appears whole or not at all.

        What is on a device comes to the host for it, where `load` leaves it.
        """
        save_moments(self, path, _FORMAT)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read moments written by `save`."""
        return load_moments(cls, path, _FORMAT)

    def __repr__(self) -> str:
        seen = int((self.counts > 0).sum())
        d = "?" if self._A0 is None else self._A0.shape[0]
        return f"Moments({self.n_samples} samples x {d}, {seen} of {len(self.counts)} classes seen)"

    @property
    def _options(self) -> dict[str, Any]:
        return {"n_reserve": self.n_reserve, "seed": self.seed, "precision": self.precision}

    def _alike(self, prototypes: Any) -> Self:
        return type(self)(prototypes, **self._options)

    def _placed(self, M: np.ndarray) -> Array:
        """Return numbers of the host in float64 where the samples are."""
        M = M.astype(np.float64)
        return M if self._A0 is None else placed_like(M, self._A0)

    def _allocate(self, like: Array) -> None:
        """Begin with zeros in the place of the samples, or of the sums of other moments."""
        if self._A0 is not None:
            return
        xp, d, m = namespace(like), like.shape[1], len(self.prototypes)
        self._A0 = xp.zeros((d, d), dtype=xp.float64, device=device(like))
        self._sums = xp.zeros((m, d), dtype=xp.float64, device=device(like))
        if is_device_array(like):
            self._reservoir = DeviceReservoir(m, self.n_reserve, self.seed, like)

    def _filled(self, array: Array | None) -> Array:
        if array is None:
            raise ValueError("These moments have seen no sample yet; call `update(X, y)` first.")
        return read_only(array)

    def _require_compatible(self, other: Moments) -> None:
        if not isinstance(other, Moments):
            raise TypeError(f"Moments combine only with Moments; got {type(other).__name__}.")
        if self.prototypes != other.prototypes:
            raise ValueError("Moments can be combined only with moments of the same prototypes.")
        if (self.n_reserve, self.seed) != (other.n_reserve, other.seed):
            raise ValueError(
                "Moments can be combined only with the same `n_reserve` and `seed`; got "
                f"{(self.n_reserve, self.seed)} and {(other.n_reserve, other.seed)}."
            )
        if self._A0 is None or other._A0 is None:
            return
        if self.n_features != other.n_features:
            raise ValueError(
                "Moments can be combined only with moments of the same features; got "
                f"{self.n_features} and {other.n_features} dimensions."
            )
        require_same_place(self._A0, other._A0)
