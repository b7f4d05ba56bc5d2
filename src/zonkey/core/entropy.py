"""Minimum-entropy competition, the alternative of Eq. 23 (entropyobj), by gradient descent.

Every synthesized sample has a distribution over the unseen classes,

    P_ij = exp(-f_ij) / sum_l exp(-f_il),

and the objective (over 1 + gamma) minimizes its entropy:

    F(W) = (1-alpha) sum_s (||W'x - y||^2 + ||x - W y||^2) + 2 beta ||W||^2
           - alpha sum_g sum_j P_ij log P_ij.

F is not convex and its deep minima are useless: in directions that the seen data do not
determine, W can grow without bound to make every sample certain of some class. As in the paper,
descent follows the plain gradient, which moves along well-determined directions first.
"""

from __future__ import annotations

import numpy as np

from ..linalg.arrays import Array, namespace, squared_norm
from .algorithm1 import Course, OnStep, losses, relative_change
from .projection import NormalEquations

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

    def value(self, W: Array) -> float:
        """Return F(W)."""
        log_P, P = self._distribution(W)
        entropy = -float(namespace(W).sum(P * log_P))
        seen = (1 - self.alpha) * self.equations.loss(W)
        return seen + 2 * self.beta * squared_norm(W) + self.alpha * entropy

    def gradient(self, W: Array) -> Array:
        """Return the gradient of F at W.

        With H_i the entropy of sample i, dH_i / df_ij = P_ij (log P_ij + H_i) =: g_ij, and
        df_ij / dW = 2 x x'W + 2 W y y' - 4 x y'. Adding a constant to a row of f leaves P
        unchanged, so the g_ij of a sample sum to zero and the term in x x'W vanishes.
        """
        xp = namespace(W)
        log_P, P = self._distribution(W)
        H = -xp.sum(P * log_P, axis=1, keepdims=True)
        g = P * (log_P + H)
        of_classes = xp.sum(g, axis=0)
        pull = W @ ((self.Y_u.T * of_classes[None, :]) @ self.Y_u)
        entropy = 2 * pull - 4 * (self.X_g.T @ (g @ self.Y_u))
        seen = (1 - self.alpha) * self.equations.gradient(W)
        return seen + 4 * self.beta * W + self.alpha * entropy

    def safe_step(self) -> float:
        """Return the step 1/L that always descends on the quadratic part of F."""
        trace = namespace(self.equations.B0).linalg.trace
        largest = float(self.equations.factor.values[-1]) + float(trace(self.equations.B0))
        L = 2 * (1 - self.alpha) * largest + 4 * self.beta
        return 1 / L if L > 0 else 1.0  # flat: no step is too long

    def _distribution(self, W: Array) -> tuple[Array, Array]:
        """Return log P and P, computed from differences to the smallest loss of each row."""
        xp = namespace(W)
        f = losses(W, self.X_g, self.Y_u)
        below = xp.min(f, axis=1, keepdims=True) - f
        log_P = below - xp.log(xp.sum(xp.exp(below), axis=1, keepdims=True))
        return log_P, xp.exp(log_P)


def minimize_entropy(
    objective: EntropyObjective,
    W: Array,
    *,
    max_iter: int | None = None,
    tol: float = 1e-4,
    on_step: OnStep | None = None,
) -> Course:
    """Descend from W, by default for 100 steps, until the gradient has shrunk by `tol`.

    The step starts at 1/L, doubles after every success, and is halved until the objective falls
    by half of what the gradient predicts.
    """
    max_iter = GRADIENT_STEPS if max_iter is None else max_iter
    values = [objective.value(W)]
    gradient = objective.gradient(W)
    goal = tol**2 * squared_norm(gradient)
    length = objective.safe_step()
    changes: list[float] = []
    while len(changes) < max_iter and squared_norm(gradient) > goal:
        candidate, value, length = _descend(objective, W, values[-1], gradient, length)
        change = relative_change(W, candidate)
        if change == 0:  # no step descends any further, because of rounding
            break
        W, gradient = candidate, objective.gradient(candidate)
        changes.append(change)
        values.append(value)
        length *= 2
        if on_step is not None:
            on_step(len(changes), value, change)
    converged = squared_norm(gradient) <= goal
    return Course(W, np.array(changes), np.zeros(len(changes)), values, set(), converged)


def _descend(
    objective: EntropyObjective, W: Array, value: float, gradient: Array, length: float
) -> tuple[Array, float, float]:
    """Return the first point, its value and the step that pass the Armijo test, or W itself."""
    slope = squared_norm(gradient)
    for _ in range(_MAX_HALVINGS):
        candidate = W - length * gradient
        reached = objective.value(candidate)
        if reached <= value - _ARMIJO * length * slope:
            return candidate, reached, length
        length /= 2
    return W, value, length
