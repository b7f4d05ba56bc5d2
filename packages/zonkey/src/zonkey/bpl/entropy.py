"""Minimum-entropy competition, the alternative of Eq. 23 (entropyobj), by gradient descent.

Every synthesized sample has a distribution over the unseen classes,

    P_ij = exp(-f_ij) / sum_l exp(-f_il),

and the objective (over 1 + gamma) minimizes its entropy:

    F(W) = (1-alpha) sum_s (||W'x - y||^2 + ||x - W y||^2) + 2 beta ||W||^2
           - alpha sum_g sum_j P_ij log P_ij.

F is not convex and its deep minima are useless: in directions that the seen data do not
determine, W can grow without bound to make every sample certain of some class. Descent with short
steps moves along well-determined directions first. With K the Hessian of the quadratic part of F,

    W <- W - t (I + t K)^-1 grad F(W),    t = step_size / L.

This is gradient descent, implicit in the quadratic part. Short steps follow the plain gradient, as
in the paper. Long ones, for which the plain gradient would diverge, reach weakly determined
directions too.

P (N_g x q) is computed and summed block by block; it is never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ..arrays import Array, namespace, squared_norm
from ..blocks import row_blocks, run_in_parts
from .algorithm1 import Course, OnStep, relative_change
from .assignment import RelativeLosses
from .projection import NormalEquations
from .sylvester import from_bases, to_bases
from .symmetric import Factor, transpose

GRADIENT_STEPS = 100
_ARMIJO = 0.5
_MAX_HALVINGS = 60


class EntropyObjective:
    """The objective of Eq. 23 (entropyobj) over 1 + gamma, and its gradient."""

    def __init__(
        self, equations: NormalEquations, X_g: Array, Y_u: Array, *, alpha: float, beta: float
    ) -> None:
        self.equations = equations
        self.X_g = X_g
        self.Y_u = Y_u
        self.alpha = float(alpha)
        self.beta = float(beta)

    def value_and_gradient(self, W: Array) -> tuple[float, Array]:
        """Return F(W) and its gradient.

        With H_i the entropy of sample i, dH_i / df_ij = P_ij (log P_ij + H_i) =: g_ij, and
        df_ij / dW = 2 x x'W + 2 W y y' - 4 x y'. Adding a constant to a row of f leaves P
        unchanged, so the g_ij of a sample sum to zero and the term in x x'W vanishes.
        """
        losses_of = RelativeLosses(W, self.Y_u)
        n, d = self.X_g.shape

        def part(start: int, stop: int) -> list[Any]:
            sums: list[Any] = [0.0, 0.0, 0.0]
            for rows in row_blocks(start, stop, losses_of.width, W):
                for i, term in enumerate(self._sums(self.X_g[rows, :], losses_of)):
                    sums[i] += term  # in place from the second block on
            return sums

        parts = run_in_parts(part, n, losses_of.width, W, kept=d * losses_of.width)
        entropy, of_classes, XgY = cast(Any, [sum(own) for own in zip(*parts, strict=True)])
        XgY = XgY if losses_of.in_semantics else XgY @ self.Y_u
        pull = W @ ((self.Y_u.T * of_classes) @ self.Y_u)
        ridge = 2 * self.beta * squared_norm(W)
        loss, slope = self.equations.loss_and_gradient(W)
        value = (1 - self.alpha) * loss + ridge + self.alpha * float(entropy)
        gradient = (1 - self.alpha) * slope + 4 * self.beta * W
        return value, gradient + self.alpha * (2 * pull - 4 * XgY)

    def _sums(self, X: Array, losses_of: RelativeLosses) -> tuple[Array, Array, Array]:
        """Return sum_i H_i, sum_i g_ij (1 x q) and X'g Y (d x k) of some samples.

        If the features are the smaller space, the last one is X'g (d x q).
        """
        xp = namespace(X)
        mT = xp.matrix_transpose
        f = losses_of(X)
        below = xp.min(f, axis=1, keepdims=True) - f
        P = xp.exp(below)  # times `total`
        total = xp.sum(P, axis=1, keepdims=True)
        mean = xp.vecdot(P, below)[:, None] / total
        entropy = xp.sum(xp.log(total) - mean)
        below -= mean
        below *= P
        g = below  # times `total`
        right = g @ self.Y_u if losses_of.in_semantics else g
        return entropy, mT(1 / total) @ g, mT(X / total) @ right

    def curvature(self) -> tuple[float, Callable[[float, Array], Array]]:
        """Return L, the largest eigenvalue of K, and the map from t and M to (I + t K)^-1 M."""
        A, B = self.equations.factor, Factor.from_matrix(self.equations.B0)
        seen, ridge = 2 * (1 - self.alpha), 4 * self.beta
        values = seen * (A.values[:, None] + B.values[None, :]) + ridge

        def implicit(t: float, M: Array) -> Array:
            return from_bases(A, B, transpose(to_bases(A, B, M)) / (1 + t * values))

        return float(values[-1, -1]), implicit


def minimize_entropy(
    objective: EntropyObjective,
    W: Array,
    *,
    step_size: float = 1.0,
    max_iter: int | None = None,
    tol: float = 1e-4,
    on_step: OnStep | None = None,
) -> Course:
    """Run gradient descent from W, by default 100 steps, until the gradient has shrunk by `tol`.

    The step is halved until the objective falls by half of what the gradient predicts, and doubles
    after every success up to `step_size` / L.
    """
    max_iter = GRADIENT_STEPS if max_iter is None else max_iter
    value, gradient = objective.value_and_gradient(W)
    values = [value]
    goal = tol**2 * squared_norm(gradient)
    L, implicit = objective.curvature()
    longest = length = step_size / L if L > 0 else step_size
    changes: list[float] = []
    while len(changes) < max_iter and squared_norm(gradient) > goal:
        before = W
        W, value, gradient, length = _descend(objective, implicit, W, value, gradient, length)
        change = relative_change(before, W)
        if change == 0:  # no step descends any further, because of rounding
            break
        changes.append(change)
        values.append(value)
        length = min(2 * length, longest)
        if on_step is not None:
            on_step(len(changes), value, change)
    converged = squared_norm(gradient) <= goal
    return Course(W, np.array(changes), np.zeros(len(changes)), values, set(), converged)


def _descend(
    objective: EntropyObjective,
    implicit: Callable[[float, Array], Array],
    W: Array,
    value: float,
    gradient: Array,
    length: float,
) -> tuple[Array, float, Array, float]:
    """Return the first point that passes the Armijo test, or W itself.

    Also return the value and the gradient at this point, and the step.
    """
    for _ in range(_MAX_HALVINGS):
        direction = implicit(length, gradient)
        slope = float(namespace(W).sum(gradient * direction))
        candidate = W - length * direction
        # Most trials pass. The gradient costs less with each than again for those.
        reached, following = objective.value_and_gradient(candidate)
        if reached <= value - _ARMIJO * length * slope:
            return candidate, reached, following, length
        length /= 2
    return W, value, gradient, length
