"""Logistic regression that is pulled to given weights instead of to zero: one class, or any labels.

Plain L-BFGS. On centered rows of unit length, a preconditioner (the bound of Boehning on the
Hessian, or its scale at the start) saves two evaluations at best under a strong pull, and costs
many under a weak one. Newton's method with conjugate gradients needs about as many to several
times as many products.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from scipy import sparse

from ..arrays import Array, dtype_like, namespace, place_like
from ..blocks import row_blocks, run_in_parts
from ..threads import multiply

_PULL_OF_INTERCEPT = 10.0  # times that of a weight
_UNIT = _PULL_OF_INTERCEPT**-0.5
# Of the objective: a step that promises less is not taken; and the same with products in float64.
_GAIN, _FINE_GAIN = 1e-7, 1e-14
_SUFFICIENT = 1e-4  # share of the promised gain that a step has to reach
_ROUNDING = 1e-8  # of the objective: rounding decides on smaller gains
_EQUAL = 1e-7  # of the objective: where values differ by less, the gradient decides
_REMEMBERED = 10  # pairs of steps and changes of the gradient


def fit_pulled(
    X: Array,
    codes: Array,
    weights: Array,
    start: Array,
    intercepts: Array,
    strength: float,
    *,
    guess: tuple[Array, Array] | None = None,
    most_steps: int = 200,
) -> tuple[Array, Array]:
    """Return W (k x d) and b (k) of the logistic regression that is pulled to W0 and b0.

    They minimize

        sum_i w_i (log sum_j exp(x_i'W_j + b_j) - (x_i'W_{y_i} + b_{y_i}))
            + strength (||W - W0||^2 + 10 ||b - b0||^2).

    Parameters
    ----------
    X : array of shape (n, d)
        Samples in float32 or float64. All products have this dtype.
    codes : array of shape (n,)
        Class of each sample, from 0 to k - 1; on the host, or where X is.
    weights : array of shape (n,)
        Weights of the samples w, with sum 1.
    start : array of shape (k, d)
        W0.
    intercepts : array of shape (k,)
        b0.
    strength : float
        Positive; infinity returns W0 and b0.
    guess : tuple of arrays, optional
        W and b to start from. They change the time, and the result within its tolerance only.
    most_steps : int, default=200
        Limit of the number of steps. Most of them evaluate the objective once.

    Returns
    -------
    W : array of shape (k, d)
        Weights in the library of X and the dtype of `start`.
    b : array of shape (k,)
        Intercepts.
    """
    start, intercepts = place_like(start, X), place_like(intercepts, X)
    if np.isinf(strength):
        return start, intercepts
    xp, cast = namespace(X), dtype_like(X.dtype, X)
    objective = _Objective(
        X,
        xp.astype(place_like(weights, X), cast),
        _join(start, intercepts, cast),
        strength,
        place_like(codes, X),
    )
    return _move(objective, start, intercepts, guess, most_steps)


def fit_pulled_labels(
    X: np.ndarray,
    marks: sparse.csr_array,
    weights: np.ndarray,
    start: np.ndarray,
    intercepts: np.ndarray,
    strength: float,
    *,
    unknown: sparse.csr_array | None = None,
    guess: tuple[np.ndarray, np.ndarray] | None = None,
    most_steps: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
    """Return W (k x d) and b (k) of one binary logistic regression per label, all at once.

    With marks y in {0, 1}, they minimize

        sum_i w_i sum_j [known_ij] (log(1 + exp(s_ij)) - y_ij s_ij),  s_ij = x_i'W_j + b_j,
            + strength (||W - W0||^2 + 10 ||b - b0||^2).

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples in float32 or float64. All products have this dtype.
    marks : sparse array of shape (n, k)
        1 where a label applies.
    weights : ndarray of shape (n,)
        Weights of the samples w, with sum 1.
    start : ndarray of shape (k, d)
        W0.
    intercepts : ndarray of shape (k,)
        b0.
    strength : float
        Positive; infinity returns W0 and b0.
    unknown : sparse array of shape (n, k), optional
        1 where nobody knows whether a label applies: such pairs have no part.
    guess : tuple of arrays, optional
        W and b to start from.
    most_steps : int, default=200
        Limit of the number of steps.

    Returns
    -------
    W : ndarray of shape (k, d)
        Weights in the dtype of `start`.
    b : ndarray of shape (k,)
        Intercepts.
    """
    if np.isinf(strength):
        return start, intercepts
    weights, pull = weights.astype(X.dtype), _join(start, intercepts, X.dtype)
    objective = _LabelObjective(X, weights, pull, strength, marks, unknown)
    return _move(objective, start, intercepts, guess, most_steps)


def _move(
    objective: _PulledObjective, start: Array, intercepts: Array, guess: Any, most_steps: int
) -> tuple[Any, Any]:
    """Return W and b of the minimum, in the dtype of `start`."""
    xp, X, V = namespace(start), objective.X, namespace(start).zeros_like(objective.pull)
    if guess is not None:
        W, b = (place_like(part, X) for part in guess)
        V = _join(W - start, b - intercepts, objective.pull.dtype)
    V = xp.astype(_minimize(objective, V, most_steps), start.dtype)
    return start + V[:, :-1], intercepts + _UNIT * V[:, -1]


def _join(W: Array, b: Array, dtype: object) -> Array:
    """Return [W, b] in units in which the pull is the same for both."""
    xp = namespace(W)
    return xp.astype(xp.concat([W, xp.astype(b[:, None] / _UNIT, W.dtype)], axis=1), dtype)


@dataclass(frozen=True, eq=False)
class _PulledObjective:
    """The objective as a function of V, the difference to the joined W0 and b0 (`pull`)."""

    X: Array
    weights: Array
    pull: Array
    strength: float

    @property
    def is_fine(self) -> bool:
        """Whether products are in float64."""
        return self.X.dtype == namespace(self.X).float64

    def evaluate(self, V: Array) -> tuple[float, Array]:
        """Return value and gradient."""
        W, (n, k) = self.pull + V, (self.X.shape[0], V.shape[0])
        parts = run_in_parts(
            lambda first, stop: self._sum_rows(W, first, stop), n, k, self.X, kept=V.shape[1] * k
        )
        xp, gradient = namespace(V), 2 * self.strength * V
        for _, part in parts:
            gradient += part
        penalty = self.strength * float(xp.sum(V * V, dtype=xp.float64))
        return sum(loss for loss, _ in parts) + penalty, gradient

    @property
    def usual_curvature(self) -> float:
        """A bound on the usual curvature of the loss."""
        raise NotImplementedError

    def _compare(self, scores: Array, rows: slice) -> tuple[Array, Array]:
        """Return the loss of each of some rows, and its derivatives by the scores."""
        raise NotImplementedError

    def _sum_rows(self, W: Array, first: int, stop: int) -> tuple[float, Array]:
        """Return loss and gradient of some rows."""
        xp, k = namespace(W), W.shape[0]
        total, slopes, offsets = 0.0, xp.zeros_like(W[:, :-1]), xp.zeros_like(W[:, -1])
        for rows in row_blocks(first, stop, k, W):
            X, weights = self.X[rows, :], self.weights[rows]
            scores = multiply(X, W[:, :-1].T)
            scores += _UNIT * W[:, -1]
            losses, slants = self._compare(scores, rows)
            total += float(xp.sum(weights * losses, dtype=xp.float64))
            slants *= weights[:, None]
            slopes += multiply(slants.T, X)
            offsets += xp.sum(slants, axis=0)
        return total, xp.concat([slopes, _UNIT * offsets[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class _Objective(_PulledObjective):
    """Of one class per sample."""

    codes: Array

    @property
    def usual_curvature(self) -> float:
        """A class has the mass of about 1 / k samples."""
        return 1 / self.pull.shape[0]

    def _compare(self, scores: Array, rows: slice) -> tuple[Array, Array]:
        k, codes = scores.shape[1], self.codes[rows]
        classes = namespace(scores).arange(k, dtype=codes.dtype, device=device(scores))
        return _compare(scores, codes[:, None] == classes)


@dataclass(frozen=True, eq=False)
class _LabelObjective(_PulledObjective):
    """Of any labels per sample, in arrays of NumPy."""

    marks: sparse.csr_array
    unknown: sparse.csr_array | None

    @property
    def usual_curvature(self) -> float:
        """Every label has the mass of all samples, a quarter at most for even odds."""
        return 0.25

    def _compare(self, scores: Any, rows: slice) -> tuple[Array, Array]:
        marks = self.marks[rows].toarray().astype(scores.dtype, copy=False)
        small = np.exp(-np.abs(scores))
        losses = np.maximum(scores, 0) + np.log1p(small) - marks * scores
        slants = np.where(scores > 0, 1, small) / (1 + small) - marks
        if self.unknown is not None:
            is_unknown = self.unknown[rows].toarray() != 0
            losses[is_unknown] = slants[is_unknown] = 0
        return losses.sum(axis=1), slants


def _compare(scores: Array, is_own: Array) -> tuple[Array, Array]:
    """Return the loss of each row, and its derivatives by the scores.

    The own class is left out of the sum of exponentials: one minus its probability would have no
    digits where it is almost 1, which is where weak pulls lead.
    """
    xp = namespace(scores)
    zero = xp.zeros_like(scores[:1, :1])
    own = xp.sum(xp.where(is_own, scores, zero), axis=1)
    scores = xp.where(is_own, zero - xp.inf, scores)
    largest = xp.maximum(own, xp.max(scores, axis=1))
    scores -= largest[:, None]
    scores = xp.exp(scores)
    others, own = xp.sum(scores, axis=1), own - largest
    sums = others + xp.exp(own)
    scores /= sums[:, None]
    losses = xp.log1p(others + xp.expm1(own)) - own
    return losses, xp.where(is_own, -(others / sums)[:, None], scores)


def _minimize(objective: _PulledObjective, V: Array, most_steps: int) -> Array:
    """Return the minimizer, by L-BFGS with a line search for sufficient decrease."""
    value, gradient = objective.evaluate(V)
    pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_REMEMBERED)
    usual = objective.usual_curvature + 2 * objective.strength
    least = _FINE_GAIN if objective.is_fine else _GAIN
    for i in range(most_steps):
        step = _step_from(gradient, pairs, usual)
        promise, share = -_dot(step, gradient), 1.0
        # The first step does not know the curvature, so that its promise means nothing.
        if promise <= (least * value if i else 0.0):
            break
        while True:
            new_value, new_gradient = objective.evaluate(V + share * step)
            is_enough = new_value <= value - _SUFFICIENT * share * promise
            if is_enough or not share * promise > _ROUNDING * value:
                break
            # The minimum of the parabola through what is known, in safe bounds.
            excess = new_value - value + share * promise
            share *= min(max(0.5 * share * promise / excess, 0.1), 0.5)
        is_lower = new_value < value
        if not is_lower and new_value - value <= _EQUAL * value:
            is_lower = _dot(new_gradient, new_gradient) < _dot(gradient, gradient)
        if i and not is_lower:
            break
        step, change = share * step, new_gradient - gradient
        curvature = _dot(step, change)
        if curvature > 0 and _dot(change, change) > 0:  # tiny numbers vanish in float32
            pairs.append((step, change, curvature))
        if is_lower:
            V, value, gradient = V + step, new_value, new_gradient
    return V


def _step_from(gradient: Array, pairs: deque[tuple[Array, Array, float]], usual: float) -> Array:
    """Return minus the gradient times the inverse Hessian that past steps suggest."""
    step, shares = -gradient, []
    for past, change, curvature in reversed(pairs):
        shares.append(_dot(past, step) / curvature)
        step -= shares[-1] * change
    if pairs:
        _, change, curvature = pairs[-1]
        usual = _dot(change, change) / curvature
    step /= usual
    for (past, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        step += (share - _dot(change, step) / curvature) * past
    return step


def _dot(A: Array, B: Array) -> float:
    xp = namespace(A)
    return float(xp.reshape(A, (-1,)) @ xp.reshape(B, (-1,)))
