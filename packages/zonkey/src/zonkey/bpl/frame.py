"""Coordinates in which the seen classes are diagonal, so that every further step is cheap.

Grid searches and few-shot tasks solve thousands of Sylvester equations that share A0, B0 and C0
and differ by a few samples. Two exact changes of coordinates, made once, make each one cheap:

- In the eigenbasis U of A0 and the eigenbasis V of B0 the seen classes are diagonal.
- W lives in the span of the prototypes: outside it C is zero and B is beta I, so W is zero.
  With p seen and q unseen classes, k shrinks to at most p + q.

Both preserve distances and norms, so Algorithm 1 runs unchanged in these coordinates, and U W V'
maps its result back. Only the guard on mu sees fewer directions: it ignores those in which W is
zero, and may lower mu more than in the original spaces. Without base classes the features shrink
too, to the span of the support set.

Semantic vectors are few and stay on the host; features stay on the device of the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..arrays import Array, epsilon, namespace, place_like, squared_norm, to_numpy
from ..prototypes import Prototypes
from ..threads import multiply
from .moments import Moments
from .projection import NormalEquations
from .symmetric import Factor

T = TypeVar("T")

_REMEMBERED = 8  # derived values kept: each may be as large as the moments
_ROUNDING = 10  # singular values within this many rounding errors of zero are zero


@dataclass(frozen=True, eq=False)
class Frame:
    """Orthonormal bases U (d x d') and V (k x k'), and the seen classes in these coordinates.

    ``U=None`` leaves the features unchanged.
    """

    U: Array | None
    V: np.ndarray
    equations: NormalEquations

    def features(self, X: Array) -> Array:
        """Return the coordinates of feature vectors, one per row."""
        return X if self.U is None else multiply(X, self.U)

    def semantics(self, Y: np.ndarray) -> np.ndarray:
        """Return the coordinates of semantic vectors (last axis)."""
        return Y @ self.V

    def lift(self, W: Array) -> Array:
        """Map a projection back to the original spaces."""
        W = W if self.U is None else self.U @ W
        return W @ place_like(self.V.T, W)

    def place(self, M: np.ndarray) -> Array:
        """Return host numbers on the device of the features."""
        return place_like(M, self.equations.C0)


class BaseClasses:
    """Moments of seen classes, diagonalized once for any number of fits.

    Pass it to `ZeroShotClassifier.fit_moments`, or as `base` of a `FewShotClassifier`, to fit
    many models on the same classes.

    Parameters
    ----------
    moments : Moments
        Moments of the seen classes. Later changes to them have no effect here.
    twin : BaseClasses, default=None
        The same samples under other prototypes. Its decomposition of A0, the most expensive
        part, is shared.

    See Also
    --------
    Moments : The sufficient statistics.
    FewShotClassifier : Takes base classes as `base`.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import BaseClasses, Moments
    >>> moments = Moments({"horse": [1.0], "zebra": [2.0]}).update(np.eye(2), ["horse", "horse"])
    >>> BaseClasses(moments).prototypes.labels.tolist()
    ['horse']
    """

    def __init__(self, moments: Moments, *, twin: BaseClasses | None = None) -> None:
        if not isinstance(moments, Moments):
            raise TypeError(
                f"Base classes are given by their Moments; got {type(moments).__name__}. "
                "Gather Moments(prototypes).update(X_base, y_base)."
            )
        self.moments = moments.copy()
        self._twin = twin
        self._kept: dict[Hashable, Any] = {}  # the last used at the end; see `remember`

    def fingerprint(self) -> str:
        """Return a hash of the moments.

        Returns
        -------
        str
            The same for equal base classes.
        """
        return self.moments.fingerprint()

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached value of a key, computed if missing; the last few are kept.

        Parameters
        ----------
        key : hashable
            Identifies everything that the value depends on.
        make : callable
            Computes the value.

        Returns
        -------
        object
            The value.
        """
        kept = self._kept
        if key in kept:
            value = kept[key]
        else:
            made = make()
            kept = self._kept
            value = kept.get(key, made)  # another thread may have been faster
        # A dictionary is never changed: threads of a search share it. If two threads replace it
        # at once, one value is made again later.
        others = [(other, kept[other]) for other in kept if other != key]
        self._kept = dict([*others[1 - _REMEMBERED :], (key, value)])
        return value

    def __getstate__(self) -> dict[str, Any]:
        # Cached values can be computed again, and may be many times as large.
        return {**vars(self), "_kept": {}}

    @cached_property
    def equations(self) -> NormalEquations:
        """A0, B0 and C0 of the base classes."""
        twin = None if self._twin is None else self._twin.equations
        return NormalEquations.from_moments(self.moments, twin=twin)

    @cached_property
    def _semantics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return V and omega of B0 in the span of the prototypes."""
        Y = self.prototypes.matrix.astype(np.float64)
        span = orthonormal_rows(Y)  # r x k
        counts = self.moments.counts[self.moments.counts > 0]
        inside = Y @ span.T
        B = Factor.from_matrix((inside.T * counts) @ inside)
        return to_numpy(span.T @ B.vectors), to_numpy(B.values)

    @cached_property
    def _C0(self) -> Array:
        """U'C0 V."""
        C0 = self.equations.C0
        return self.equations.factor.to_basis(C0 @ place_like(self._semantics[0], C0))

    @cached_property
    def prototypes(self) -> Prototypes:
        """Prototypes of the classes that have samples."""
        return self.moments.prototypes.subset(self.moments.seen_labels)

    @cached_property
    def samples(self) -> list[Array]:
        """Raw samples kept per class, in the coordinates of the frame."""
        labels = self.prototypes.labels.tolist()
        U: Any = self.equations.factor.vectors
        xp = namespace(U)
        return [xp.astype(self.moments.samples_of(label), U.dtype) @ U for label in labels]

    def frame(self, Y_u: np.ndarray, *, rotate: bool = True) -> Frame:
        """Return coordinates for novel classes.

        Parameters
        ----------
        Y_u : ndarray of shape (q, k)
            Prototypes of the novel classes.
        rotate : bool, default=True
            Whether to rotate features into the eigenbasis of A0. Its decomposition does not pay
            off if A0 has no weight, or for a single equation.

        Returns
        -------
        Frame
            Bases, and the base classes in them.
        """
        V, omega = self._semantics
        new = Y_u
        for _ in range(2):  # orthogonalize twice: tiny residuals lose orthogonality
            new = to_numpy(orthonormal_rows(new - (new @ V) @ V.T, like=new))
        wide = np.concatenate([V, new.T], axis=1)
        C0 = self._C0 if rotate else self.equations.C0 @ place_like(V, self.equations.C0)
        B0 = place_like(np.diag(np.concatenate([omega, np.zeros(len(new))])), C0)
        zeros = place_like(np.zeros((C0.shape[0], len(new))), C0)
        C0 = namespace(C0).concat([C0, zeros], axis=1)
        if not rotate:
            equations = NormalEquations(None, B0, C0, twin=self.equations)
            return Frame(None, wide, equations)
        A = self.equations.factor
        return Frame(A.vectors, wide, NormalEquations(A.values, B0, C0))

    def __repr__(self) -> str:
        return f"BaseClasses({self.moments!r})"

    def __deepcopy__(self, memo: Any) -> BaseClasses:
        return self  # immutable and large


def frame_without_base(X_u: Array, Y_u: np.ndarray) -> Frame:
    """Return coordinates in the spans of the support set and of its prototypes."""
    xp = namespace(X_u)
    U, V = xp.matrix_transpose(orthonormal_rows(X_u)), orthonormal_rows(Y_u).T
    d, k = U.shape[1], V.shape[1]
    zeros = (place_like(np.zeros(shape), X_u) for shape in (d, (k, k), (d, k)))
    return Frame(U, V, NormalEquations(*zeros))


def orthonormal_rows(M: Array, like: Array | None = None) -> Array:
    """Return an orthonormal basis of the span of the rows of M, one vector per row.

    Directions below rounding are left out; if M is a difference, rounding is relative to `like`.
    If all are zero, one arbitrary direction is kept, so that no dimension is ever 0.
    """
    xp = namespace(M)
    size = squared_norm(M if like is None else like) ** 0.5
    _, values, rows = xp.linalg.svd(M, full_matrices=False)
    level = _ROUNDING * max(M.shape) * epsilon(M) * size
    kept = int(xp.sum(xp.astype(values > level, xp.int64)))  # they come in descending order
    if like is None and not kept:
        return place_like(np.eye(1, M.shape[1], dtype=to_numpy(M[:0, :]).dtype), M)
    return rows[:kept, :]
