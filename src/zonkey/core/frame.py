"""Coordinates in which a few-shot problem is small and its base classes are diagonal.

A few-shot experiment solves tens of thousands of Sylvester equations that share A0, B0 and C0
and differ by a few samples. Two exact changes of coordinates, made once for all of them, leave
little to do for each:

- in the eigenbasis U of A0 and the eigenbasis V of B0 the base classes are diagonal;
- W lives in the span of the prototypes: outside it C is zero and B is beta I, so that W is zero.
  With p base and q novel classes, k shrinks to at most p + q.

Distances and norms do not change under either, so that Algorithm 1 runs in these coordinates
as it stands, and U W V' takes its result back. Only its guard on mu looks at fewer directions:
those where W is zero no longer count for the curvature it compares with, so that it may give up
more competition than it would for the same problem in the original spaces. Without base classes
the features shrink too, to the span of the support set.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..linalg.sylvester import Factor
from .moments import Moments
from .projection import NormalEquations, WeightPer
from .prototypes import Prototypes

T = TypeVar("T")

_REMEMBERED = 8  # derived values kept at a time: each may be as large as the moments
_ROUNDING = 10  # singular values within so many rounding errors of zero are zero


@dataclass(frozen=True, eq=False)
class Frame:
    """Orthonormal bases U (d x d') and V (k x k'), and the base classes seen from there."""

    U: np.ndarray
    V: np.ndarray
    equations: NormalEquations

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of feature vectors, one a row."""
        return X @ self.U

    def semantics(self, Y: np.ndarray) -> np.ndarray:
        """Return the coordinates of semantic vectors, the last axis being theirs."""
        return Y @ self.V

    def lift(self, W: np.ndarray) -> np.ndarray:
        """Take a projection back to the original spaces."""
        return self.U @ W @ self.V.T


class BaseClasses:
    """Moments of the base classes, diagonalised once and then kept for any number of fits.

    Parameters
    ----------
    moments : Moments
        Copied: what is added to them afterwards has no influence here.
    per : {"sample", "class"}, default="sample"
        What all weighs the same.
    """

    def __init__(self, moments: Moments, per: WeightPer = "sample") -> None:
        if not isinstance(moments, Moments):
            raise TypeError(
                f"Base classes are given by their Moments; got {type(moments).__name__}. "
                "Gather Moments(prototypes).update(X_base, y_base)."
            )
        if per not in ("sample", "class"):
            raise ValueError(
                f'`per` must be "sample" or "class", whichever all weigh the same; got {per!r}. '
                "Correct the spelling."
            )
        self.moments = moments.copy()
        self.per: WeightPer = per
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this key before, or now; the last few are kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found = self._kept[key] = make()
        while len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)
        return found

    @cached_property
    def equations(self) -> NormalEquations:
        """A0, B0 and C0 of the base classes, weighted as asked for."""
        return NormalEquations.of(self.moments, self.per)

    @cached_property
    def _diagonal(self) -> tuple[Factor, np.ndarray, np.ndarray, np.ndarray]:
        """Return A0 factorised, V and omega of B0 in the span of the prototypes, and U'C0 V."""
        A = self.equations.factor
        span = orthonormal_rows(self.prototypes.matrix.astype(np.float64))  # r x k
        B = Factor.of(span @ self.equations.B0 @ span.T)
        V = span.T @ np.asarray(B.vectors)
        return A, V, B.values, A.to_basis(self.equations.C0 @ V)

    @cached_property
    def prototypes(self) -> Prototypes:
        """Prototypes of the classes that have samples."""
        return self.moments.prototypes.subset(self.moments.seen_labels)

    @cached_property
    def samples(self) -> list[np.ndarray]:
        """Raw samples kept of each class, in the coordinates of the frame."""
        labels = self.prototypes.labels.tolist()
        U = np.asarray(self._diagonal[0].vectors)
        return [self.moments.samples_of(label) @ U for label in labels]

    def frame(self, Y_u: np.ndarray) -> Frame:
        """Return the coordinates for novel classes with prototypes Y_u (q x k)."""
        A, V, omega, C0 = self._diagonal
        new = Y_u
        for _ in range(2):  # once is not enough: what is left of nearly nothing still leans on V
            new = orthonormal_rows(new - (new @ V) @ V.T, like=new)
        wide = np.concatenate([V, new.T], axis=1)
        extra = len(new)
        B0 = np.diag(np.concatenate([omega, np.zeros(extra)]))
        C0 = np.concatenate([C0, np.zeros((len(C0), extra))], axis=1)
        equations = NormalEquations(np.diag(A.values), B0, C0, Factor(A.values, None))
        return Frame(np.asarray(A.vectors), wide, equations)

    def __repr__(self) -> str:
        return f"BaseClasses({self.moments!r})"

    def __deepcopy__(self, memo: Any) -> BaseClasses:
        return self  # never changes, and is large


def frame_without_base(X_u: np.ndarray, Y_u: np.ndarray) -> Frame:
    """Return coordinates in the spans of the support set and of its prototypes."""
    U, V = orthonormal_rows(X_u).T, orthonormal_rows(Y_u).T
    d, k = U.shape[1], V.shape[1]
    zeros = np.zeros((d, d)), np.zeros((k, k)), np.zeros((d, k))
    equations = NormalEquations(*zeros, Factor(np.zeros(d), None))
    return Frame(U, V, equations)


def orthonormal_rows(M: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """Return an orthonormal basis of the span of the rows of M, one vector a row.

    What is below rounding, measured against `like` where M is a difference, is left out; of
    nothing but zeros one arbitrary direction is kept, so that no dimension is ever 0.
    """
    size = np.linalg.norm(M if like is None else like)
    _, values, rows = np.linalg.svd(M, full_matrices=False)
    kept = values > _ROUNDING * max(M.shape) * np.finfo(M.dtype).eps * size
    if like is None and not kept.any():
        return np.eye(1, M.shape[1])
    return rows[kept]
