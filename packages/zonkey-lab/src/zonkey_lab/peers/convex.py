"""Linear classifiers of samples by a convex loss with a ridge penalty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, minimize

# From the scores (n x m) to the sum of the losses and its gradient (n x m). It may overwrite them.
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

_JITTER = 1e-6  # share of the mean curvature that keeps the preconditioner regular in float32
_MAX_ITER = 200


def linear_classifiers(
    X: np.ndarray, loss: Loss, m: int, *, ridge: float, curvature: float, tol: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """Return W (d x m) and b (m,) that minimize loss(X W + b) + ridge / 2 ||W||^2.

    L-BFGS runs in coordinates in which curvature X'X + ridge I is the identity, so that its first
    step is nearly a Newton step and the number of steps hardly depends on the features. Products
    are in float32: samples of either precision give the same classifiers. `loss` is convex with a
    continuous gradient, and `curvature` its typical second derivative for a sample, which affects
    the speed only. `ridge` > 0 is relative to a sum over samples. It stops when a step lowers the
    objective by less than a share `tol`.
    """
    mean = X.mean(axis=0, dtype=np.float64)
    centered = X - mean
    scale = float(np.sqrt(np.mean(centered * centered))) or 1.0
    Z, d = (centered / scale).astype(np.float32), X.shape[1]
    ridge = ridge / scale**2
    B = curvature * (Z.T @ Z).astype(np.float64)
    B += (ridge + _JITTER * np.trace(B) / d) * np.eye(d)
    T = solve_triangular(np.linalg.cholesky(B), np.eye(d), lower=True).T.astype(np.float32)
    of_intercept = 1 / np.sqrt(curvature * len(X))
    unit = 1.0

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        U = unit * flat.reshape(d + 1, m)
        W = T @ U[:d].astype(np.float32)
        S = Z @ W
        S += (of_intercept * U[d]).astype(np.float32)
        value, G = loss(S)
        value += ridge / 2 * float(np.einsum("ij,ij->", W, W, dtype=np.float64))
        slope = np.empty_like(U)
        slope[:d] = T.T @ (Z.T @ G + np.float32(ridge) * W)
        slope[d] = of_intercept * G.sum(axis=0, dtype=np.float64)
        return value / unit**2, slope.ravel() / unit

    start = np.zeros((d + 1) * m)
    # The first step of L-BFGS-B is the gradient scaled to length 1: that is then a full step.
    unit = float(np.linalg.norm(objective(start)[1])) or 1.0
    flat, _ = descent(objective, start, tol=tol, max_iter=_MAX_ITER)
    U = unit * flat.reshape(d + 1, m)
    W = T.astype(np.float64) @ U[:d] / scale
    return W, of_intercept * U[d] - mean @ W


def descent(
    objective: Objective, start: np.ndarray, *, tol: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """Return a minimizer by L-BFGS, and the number of steps.

    It stops when a step lowers the objective by less than a share `tol`.
    """
    last = np.inf

    def callback(intermediate_result: OptimizeResult) -> None:
        nonlocal last
        value = intermediate_result.fun
        if last - value <= tol * abs(value):
            raise StopIteration
        last = value

    # Its own tolerance would be absolute for values below 1.
    options = {"ftol": 0.0, "gtol": 0.0, "maxiter": max_iter}
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", callback=callback, options=options
    )
    return found.x, int(found.nit)


def softmax_loss(codes: np.ndarray) -> Loss:
    """Return the loss -log p_y of multinomial logistic regression, p the softmax of the scores."""
    rows = np.arange(len(codes))

    def loss(S: np.ndarray) -> tuple[float, np.ndarray]:
        S -= S.max(axis=1, keepdims=True)
        own = S[rows, codes]
        P = np.exp(S, out=S)
        sums = P.sum(axis=1, keepdims=True)
        value = float(np.sum(np.log(sums[:, 0]) - own, dtype=np.float64))
        P /= sums
        P[rows, codes] -= 1
        return value, P

    return loss


def logistic_loss(targets: np.ndarray) -> Loss:
    """Return the sum of log(1 + exp(-t s)) over all classifiers; `targets` (n x m) are 1 or -1."""

    def loss(S: np.ndarray) -> tuple[float, np.ndarray]:
        S *= targets
        small = np.exp(-np.abs(S))
        value = float(np.sum(np.log1p(small) - np.minimum(S, 0), dtype=np.float64))
        wrong = np.where(S > 0, small, 1) / (1 + small)  # the probability of -t
        return value, -targets * wrong

    return loss


def squared_hinge_loss(codes: np.ndarray, m: int) -> Loss:
    """Return the sum of max(0, 1 - t s)^2 over all classes, t = 1 for the own class, else -1."""
    targets = np.full((len(codes), m), -1, np.float32)
    targets[np.arange(len(codes)), codes] = 1

    def loss(S: np.ndarray) -> tuple[float, np.ndarray]:
        S *= targets
        missing = np.maximum(1 - S, 0)
        value = float(np.sum(missing * missing, dtype=np.float64))
        return value, -2 * targets * missing

    return loss
