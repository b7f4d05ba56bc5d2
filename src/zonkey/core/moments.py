"""Everything that projection learning needs of the labelled data, gathered in one pass.

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
from typing import Any, Self

import numpy as np
from scipy import sparse

from .prototypes import Prototypes
from .reservoir import Reservoir
from .storage import load_npz, save_npz

_FORMAT = 1
# Rows converted to float64 at a time: large enough for a full-speed matrix product.
_BLOCK = 8192


class Moments:
    """Sufficient statistics of labelled samples, for given class prototypes.

    Sums are kept in float64 whatever the dtype of the data, so that neither chunking
    nor float32 input costs accuracy.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Every class that may occur in `y`; classes that never do are the unseen ones.
    n_reserve : int, default=64
        Raw samples kept for each class, as material for synthesis.
    seed : int, default=0
        Which samples are kept. The choice depends on the samples and the seed only,
        not on chunks or order.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.eye(2), ["horse", "horse"]
    >>> moments = Moments({"horse": [1.0], "zebra": [2.0]}).update(X, y)
    >>> moments.B0.tolist(), moments.unseen_labels.tolist()
    ([[2.0]], ['zebra'])
    """

    def __init__(self, prototypes: Any, *, n_reserve: int = 64, seed: int = 0) -> None:
        for name, value in (("n_reserve", n_reserve), ("seed", seed)):
            if operator.index(value) < 0:
                raise ValueError(f"`{name}` must be an integer of at least 0; got {value}.")
        self.prototypes = Prototypes.coerce(prototypes)
        self.n_reserve = int(n_reserve)
        self.seed = int(seed)
        m = len(self.prototypes)
        self.counts = np.zeros(m, np.int64)
        self._sums: np.ndarray | None = None
        self._A0: np.ndarray | None = None
        self._reservoir = Reservoir(m, self.n_reserve, self.seed)

    @classmethod
    def from_arrays(cls, X: Any, y: Any, prototypes: Any, **options: Any) -> Self:
        """Gather the moments of one data set."""
        return cls(prototypes, **options).update(X, y)

    def update(self, X: Any, y: Any) -> Self:
        """Add samples X (n x d) with labels y (n); nothing changes if they are invalid."""
        X = self._checked(X)
        codes = self.prototypes.positions(y)
        if len(codes) != len(X):
            raise ValueError(f"X and y must have one row a sample; got {len(X)} and {len(codes)}.")
        A0, sums = self._allocated(X.shape[1])
        for start in range(0, len(X), _BLOCK):
            block = np.asarray(X[start : start + _BLOCK], np.float64)
            A0 += block.T @ block
            sums += class_sums(block, codes[start : start + _BLOCK], len(self.prototypes))
        self.counts += np.bincount(codes, minlength=len(self.prototypes))
        self._reservoir.update(X, codes)
        return self

    def merge(self, other: Moments) -> Self:
        """Add the samples that `other` has seen."""
        self._require_compatible(other)
        if other._A0 is not None and other._sums is not None:
            A0, sums = self._allocated(other.n_features)
            A0 += other._A0
            sums += other._sums
        self.counts += other.counts
        self._reservoir.merge(other._reservoir)
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
        if other._A0 is not None and other._sums is not None:
            A0, sums = self._allocated(other.n_features)
            A0 -= other._A0
            sums -= other._sums
            sums[emptied] = 0.0  # what rounding leaves there belongs to no sample
            if emptied.all():
                A0[:] = 0.0
        self._reservoir.subtract(other._reservoir, emptied)
        return self

    def copy(self) -> Self:
        """Return independent moments of the same samples."""
        return type(self)(self.prototypes, n_reserve=self.n_reserve, seed=self.seed).merge(self)

    def with_prototypes(self, prototypes: Any) -> Self:
        """Return the same samples under other prototypes, such as another semantic space.

        Every class with a sample needs one.
        """
        moments = type(self)(prototypes, n_reserve=self.n_reserve, seed=self.seed)
        seen = np.flatnonzero(self.counts)
        rows = moments.prototypes.positions(self.prototypes.labels[seen])
        moments.counts[rows] = self.counts[seen]
        if self._A0 is not None and self._sums is not None:
            moments._A0 = self._A0.copy()
            moments._sums = np.zeros((len(moments.prototypes), self.n_features))
            moments._sums[rows] = self._sums[seen]
        moments._reservoir = self._reservoir.relabelled(len(moments.prototypes), seen, rows)
        return moments

    def __add__(self, other: Moments) -> Moments:
        return self.copy().merge(other)

    def __sub__(self, other: Moments) -> Moments:
        return self.copy().subtract(other)

    @property
    def A0(self) -> np.ndarray:
        """sum_i x_i x_i', shape (d, d)."""
        return self._filled(self._A0)

    @property
    def B0(self) -> np.ndarray:
        """sum_i y_li y_li', shape (k, k)."""
        Y = self.prototypes.matrix.astype(np.float64)
        return (Y.T * self.counts) @ Y

    @property
    def C0(self) -> np.ndarray:
        """sum_i x_i y_li', shape (d, k)."""
        return self.class_sums.T @ self.prototypes.matrix.astype(np.float64)

    @property
    def class_sums(self) -> np.ndarray:
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

    def samples_of(self, label: Any) -> np.ndarray:
        """Return the raw samples kept for a class, at most `n_reserve` rows."""
        j = int(self.prototypes.positions([label])[0])
        return _read_only(self._reservoir.samples(j, self.n_features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one .npz file; the file appears whole or not at all."""
        header = {"format": _FORMAT, "n_reserve": self.n_reserve, "seed": self.seed}
        arrays = {
            "labels": self.prototypes.labels,
            "matrix": self.prototypes.matrix,
            "counts": self.counts,
            "A0": self.A0,
            "class_sums": self.class_sums,
            **self._reservoir.to_arrays(self.n_features),
        }
        save_npz(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read moments written by `save`."""
        header, arrays = load_npz(path, what="moments")
        version = header["format"]
        if version != _FORMAT:
            raise ValueError(
                f"{path} has moments of format {version}, this version reads {_FORMAT}. "
                "Compute them again or use the version that wrote them."
            )
        prototypes = Prototypes(arrays["labels"], arrays["matrix"])
        moments = cls(prototypes, n_reserve=header["n_reserve"], seed=header["seed"])
        moments.counts = arrays["counts"]
        moments._A0, moments._sums = arrays["A0"], arrays["class_sums"]
        moments._reservoir = Reservoir.from_arrays(arrays, moments.n_reserve, moments.seed)
        return moments

    def __repr__(self) -> str:
        seen = int((self.counts > 0).sum())
        d = "?" if self._A0 is None else self._A0.shape[0]
        return f"Moments({self.n_samples} samples x {d}, {seen} of {len(self.counts)} classes seen)"

    def _checked(self, X: Any) -> np.ndarray:
        X = np.asarray(X)
        if X.ndim != 2 or not X.shape[1]:
            raise ValueError(
                f"X must be a matrix (samples x features, at least one); got shape {X.shape}."
            )
        if self._A0 is not None and X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have the {self.n_features} features of earlier updates; got {X.shape[1]}."
            )
        if X.dtype.kind not in "iuf" or not np.isfinite(X).all():
            raise ValueError(
                f"X must be finite numbers; got dtype {X.dtype} or NaN / infinity. "
                "Impute or drop those samples first."
            )
        return X if X.dtype.kind == "f" else X.astype(np.float64)

    def _allocated(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        if self._A0 is None or self._sums is None:
            self._A0 = np.zeros((n_features, n_features))
            self._sums = np.zeros((len(self.prototypes), n_features))
        return self._A0, self._sums

    def _filled(self, array: np.ndarray | None) -> np.ndarray:
        if array is None:
            raise ValueError("These moments have seen no sample yet; call `update(X, y)` first.")
        return _read_only(array)

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
        if self._A0 is not None and other._A0 is not None and self.n_features != other.n_features:
            raise ValueError(
                "Moments can be combined only with moments of the same features; got "
                f"{self.n_features} and {other.n_features} dimensions."
            )


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def class_sums(X: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the sum of the rows of X that have each code."""
    members = sparse.csr_array(
        (np.ones(len(X)), (codes, np.arange(len(X)))), shape=(n_classes, len(X))
    )
    return members @ X
