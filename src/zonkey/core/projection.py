"""Projections between semantic and feature space, in closed form from the moments.

W (d x k) takes a prototype to the feature space as W y, and a feature vector to the
semantic space as W'x. The three models of the paper minimise, over the seen samples,

    FPL   sum_i ||W'x_i - y_li||^2 + beta ||W||^2       (A0 + beta I) W = C0
    RPL   sum_i ||x_i - W y_li||^2 + beta ||W||^2       W (B0 + beta I) = C0
    BPL0  both errors              + 2 beta ||W||^2     (A0 + beta I) W + W (B0 + beta I) = 2 C0

and all three are Sylvester equations, with B or A zero in the first two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..linalg.arrays import Array, namespace
from ..linalg.sylvester import Factor, Solution, solve
from .moments import Moments


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """A0 (d x d), B0 (k x k) and C0 (d x k) of the seen classes.

    The decomposition of A0, by far the dearest step of a fit, is computed when first
    needed and then serves every value of every parameter.
    """

    A0: Array
    B0: Array
    C0: Array
    known_factor: Factor | None = None

    @classmethod
    def of(cls, moments: Moments) -> NormalEquations:
        """Take the three matrices from moments."""
        return cls(moments.A0, moments.B0, moments.C0)

    @cached_property
    def factor(self) -> Factor:
        """Eigendecomposition of A0."""
        return Factor.of(self.A0) if self.known_factor is None else self.known_factor

    def in_span(self, span: Array) -> NormalEquations:
        """Return the equations for W' = W S', where the rows of S span all prototypes.

        Outside that span C is zero and B a multiple of the identity, so that W is zero there:
        W = W' S exactly, with fewer columns to solve for.
        """
        return NormalEquations(self.A0, span @ self.B0 @ span.T, self.C0 @ span.T, self.factor)

    def loss(self, W: Array) -> float:
        """Return sum_i ||W'x_i - y_li||^2 + ||x_i - W y_li||^2 (first term of Eq. erplobj).

        Expanded, the samples enter through the moments alone:
        <W, A0 W> + <W, W B0> - 4 <W, C0> + tr A0 + tr B0.
        """
        xp = namespace(W)
        Z = self.factor.to_basis(W)  # <W, A0 W> in the eigenbasis, where A0 costs nothing
        inner = float(xp.sum(self.factor.values[:, None] * Z * Z))
        inner += float(xp.sum(W * (W @ self.B0 - 4 * self.C0)))
        return inner + float(xp.linalg.trace(self.A0)) + float(xp.linalg.trace(self.B0))

    def gradient(self, W: Array) -> Array:
        """Return the gradient of `loss` at W."""
        return 2 * (self.A0 @ W + W @ self.B0 - 2 * self.C0)


def forward_projection(equations: NormalEquations, beta: float) -> Solution:
    """Learn W from features to semantics alone (FPL): ridge regression of y on x."""
    A = equations.factor.transformed(shift=beta)
    return solve(A, Factor.zeros(equations.C0.shape[1], like=A.values), equations.C0)


def reverse_projection(equations: NormalEquations, beta: float) -> Solution:
    """Learn W from semantics to features alone (RPL): ridge regression of x on y."""
    B = Factor.of(equations.B0).transformed(shift=beta)
    return solve(Factor.zeros(equations.C0.shape[0], like=B.values), B, equations.C0)


def bidirectional_projection(equations: NormalEquations, beta: float) -> Solution:
    """Learn W in both directions at once (BPL0): Eq. erpllinear1 with alpha = 0."""
    A = equations.factor.transformed(shift=beta)
    B = Factor.of(equations.B0).transformed(shift=beta)
    return solve(A, B, 2 * equations.C0)
