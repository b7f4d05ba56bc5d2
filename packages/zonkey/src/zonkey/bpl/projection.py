"""Projections between semantic and feature space, in closed form from the moments.

W (d x k) maps a prototype to the feature space as W y, and a feature vector to the semantic
space as W'x. The three models of the paper minimize, over the seen samples,

    FPL   sum_i ||W'x_i - y_li||^2 + beta ||W||^2       (A0 + beta I) W = C0
    RPL   sum_i ||x_i - W y_li||^2 + beta ||W||^2       W (B0 + beta I) = C0
    BPL0  both errors              + 2 beta ||W||^2     (A0 + beta I) W + W (B0 + beta I) = 2 C0

All are points of one family, in which the forward error has the weight omega:

    omega (A0 + beta I) W + (1 - omega) W (B0 + beta I) = C0,

with omega = 1, 0 and 1/2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, cast

from ..arrays import Array, identity_like, namespace
from .moments import Moments
from .sylvester import Solution, solve
from .symmetric import Factor


class NormalEquations:
    """A0 (d x d), B0 (k x k) and C0 (d x k) of the seen classes.

    The decomposition of A0 is the most expensive step of a fit. It is computed when first needed
    and then serves every value of every parameter.

    A0, the scatter of the features, may be given by its diagonal if it is diagonal. A0 and B0 may
    be given by functions that return them, called if they are needed at all. A `twin` has the same
    A0, whose decomposition is shared; the argument `A0` is ignored.
    """

    def __init__(
        self,
        A0: Array | Callable[[], Array] | None,
        B0: Array | Callable[[], Array],
        C0: Array,
        *,
        twin: NormalEquations | None = None,
    ) -> None:
        self._A0 = A0
        self._B0 = B0
        self.C0 = C0
        self._twin = twin

    @classmethod
    def from_moments(
        cls, moments: Moments, *, twin: NormalEquations | None = None
    ) -> NormalEquations:
        """Take the three matrices from moments, which must not change afterwards.

        `twin` has the same samples.
        """
        # Not a closure: base classes are pickled for workers.
        A0, B0 = (partial(getattr, moments, name) for name in ("A0", "B0"))
        return cls(A0, B0, moments.C0, twin=twin)

    @cached_property
    def A0(self) -> Array:
        """Scatter of the features."""
        if self._twin is not None:
            return self._twin.A0
        A0: Any = self._A0
        return cast(Array, A0() if callable(A0) else A0)

    @cached_property
    def B0(self) -> Array:
        """Scatter of the prototypes; frames in the span of few prototypes never need it."""
        B0: Any = self._B0
        return cast(Array, B0() if callable(B0) else B0)

    @cached_property
    def trace(self) -> float:
        """Trace of A0."""
        if self._twin is not None:
            return self._twin.trace
        xp = namespace(self.A0)
        return float(xp.linalg.trace(self.A0) if self.A0.ndim == 2 else xp.sum(self.A0))

    @cached_property
    def factor(self) -> Factor:
        """Eigendecomposition of A0."""
        if self._twin is not None:
            return self._twin.factor
        if self.A0.ndim == 1:
            return Factor(self.A0, None)
        return Factor.from_matrix(self.A0)

    @property
    def is_factorized(self) -> bool:
        """Whether the decomposition of A0 is available."""
        if self._twin is not None:
            return self._twin.is_factorized
        return self.A0.ndim == 1 or "factor" in vars(self)

    def loss(self, W: Array) -> float:
        """Return sum_i ||W'x_i - y_li||^2 + ||x_i - W y_li||^2, part of Eq. 2 (erplobj).

        Expanded, the samples enter through the moments only:
        <W, A0 W> + <W, W B0> - 4 <W, C0> + tr A0 + tr B0.
        """
        xp = namespace(W)
        inner = float(xp.sum(W * (W @ self.B0 - 4 * self.C0)))
        Z = self.factor.to_basis(W)  # where A0 is diagonal
        inner += float(xp.sum(self.factor.values[:, None] * Z * Z))
        return inner + self.trace + float(xp.linalg.trace(self.B0))

    def loss_and_gradient(self, W: Array) -> tuple[float, Array]:
        """Return `loss` and its gradient at W, by the same products."""
        xp = namespace(W)
        forward = self.A0 @ W if self.A0.ndim == 2 else self.A0[:, None] * W
        gradient = 2 * (forward + W @ self.B0 - 2 * self.C0)
        inner = float(xp.sum(W * (0.5 * gradient - 2 * self.C0)))
        return inner + self.trace + float(xp.linalg.trace(self.B0)), gradient


def directed_projection(equations: NormalEquations, beta: float, forward: float) -> Solution:
    """Learn W with the weight `forward` on the error from features to semantics.

    1 is FPL, ridge regression of y on x; 0 is RPL, ridge regression of x on y; 1/2 is BPL0.
    """
    d, k = equations.C0.shape
    back = 1 - forward
    like = equations.C0
    A: Array | Factor = Factor.zeros(d, like=like)
    if forward and equations.is_factorized:
        A = equations.factor.rescale(scale=forward, shift=forward * beta)
    elif forward:  # a single equation has a cheaper path than an eigendecomposition
        A = float(forward) * (equations.A0 + float(beta) * identity_like(equations.A0))
    B = (
        Factor.from_matrix(equations.B0).rescale(scale=back, shift=back * beta)
        if back
        else Factor.zeros(k, like=like)
    )
    return solve(A, B, equations.C0)


def bidirectional_projection(equations: NormalEquations, beta: float) -> Solution:
    """Learn W in both directions (BPL0): Eq. 15 (erpllinear1) with alpha = 0."""
    return directed_projection(equations, beta, 0.5)
