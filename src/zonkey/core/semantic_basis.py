"""The eigenbasis of B-hat that the episodes of a task share.

B-hat is small, and an eigendecomposition of a small matrix is what a GPU does worst: it is done on
the host. There, the mean over the episodes is diagonalized at every step. On a device a basis
serves as long as B-hat is not far from it: what differs,

    B-hat_h = tau (B_ref - b beta I) + b beta I + Y'diag(e_h) Y,    tau = (1-alpha) / (1-alpha_ref),

has the rank of the number of classes, and conjugate gradients take care of it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..linalg.arrays import (
    Array,
    available_cores,
    is_device_array,
    placed_like,
    to_numpy,
)

# How far from it, as a share of the largest weight of a class, a basis serves on a device.
_FAR = 0.1
_MANY = 16  # decompositions for which several threads are worth starting


@dataclass(frozen=True, eq=False)
class Reference:
    """Decompositions of the mean B-hat of T tasks, each at its own alpha and class weights."""

    alpha: np.ndarray
    of_classes: np.ndarray
    values: np.ndarray
    V: np.ndarray


@dataclass(frozen=True, eq=False)
class SemanticBasis:
    """Eigenvalues (T, k) and eigenvectors (T, k, k) of a matrix close to B-hat of each task.

    `apart` (T, E, q) is e_h, what is left to add to the weights of the classes in each episode;
    None where nothing is.
    """

    values: Array
    V: Array
    apart: Array | None
    reference: Reference


class SemanticBases:
    """B-hat (Eq. erplBt0) of T tasks for any class weights, and its bases.

    Parameters
    ----------
    B0 : array of shape (k, k)
    Y_u : array of shape (T, q, k)
    weight, beta : float
        b, the weight of the error from semantics to features, and the ridge.
    """

    def __init__(self, B0: Array, Y_u: Array, *, weight: float, beta: float) -> None:
        self._B0, self._Y = to_numpy(B0), to_numpy(Y_u)
        self._like = Y_u
        self._far = _FAR if is_device_array(Y_u) else 0.0
        self._b, self._beta = weight, beta

    def B_hat(self, tasks: int | np.ndarray, of_classes: np.ndarray, alpha: float) -> np.ndarray:
        """Return B-hat of some tasks for the weights (..., q) of their classes, on the host."""
        Y = self._Y[tasks]
        weighted = np.matrix_transpose(Y) @ (of_classes[..., None] * Y)
        identity = np.eye(len(self._B0), dtype=self._B0.dtype)
        return self._b * ((1 - alpha) * self._B0 + alpha * weighted + self._beta * identity)

    def of(self, of_classes: Array, alpha: float, known: SemanticBasis | None) -> SemanticBasis:
        """Return bases for episodes with class weights (T, E, q), known ones where they will do."""
        counts = to_numpy(of_classes)
        reference = self._brought_near(counts, alpha, None if known is None else known.reference)
        same = known is not None and reference is known.reference
        tau = (1 - alpha) / (1 - reference.alpha)
        ridge = self._b * self._beta
        values = tau[:, None] * (reference.values - ridge) + ridge
        apart = self._apart(counts, alpha, reference)
        rounding = 64 * np.finfo(counts.dtype).eps * np.abs(counts).max(initial=1.0)
        return SemanticBasis(
            self._placed(values),
            known.V if same and known is not None else self._placed(reference.V),
            None if np.abs(apart).max() <= rounding else self._placed(apart),
            reference,
        )

    def _placed(self, M: np.ndarray) -> Array:
        """Return numbers of the host where the prototypes are, in their precision."""
        return placed_like(M.astype(self._Y.dtype, copy=False), self._like)

    def _apart(self, counts: np.ndarray, alpha: float, reference: Reference) -> np.ndarray:
        """Return e_h of every episode."""
        tau = (1 - alpha) / (1 - reference.alpha)
        known = (tau * reference.alpha)[:, None] * reference.of_classes
        return self._b * (alpha * counts - known[:, None, :])

    def _brought_near(self, counts: np.ndarray, alpha: float, known: Reference | None) -> Reference:
        """Diagonalize anew for the tasks that have gone far from what is known."""
        mean = counts.mean(axis=1)
        if known is None:
            T, q = mean.shape
            k = len(self._B0)
            nothing = np.empty((T, k)), np.empty((T, k, k))
            known, far = Reference(np.empty(T), np.empty((T, q)), *nothing), np.full(T, True)
        else:
            gone = np.abs(self._apart(counts, alpha, known)).max(axis=(1, 2))
            weights = self._b * known.alpha * np.abs(known.of_classes).max(axis=1)
            far = gone > self._far * weights
        if not far.any():
            return known
        parts = known.alpha, known.of_classes, known.values, known.V
        alphas, of_classes, values, V = (part.copy() for part in parts)
        alphas[far], of_classes[far] = alpha, mean[far]
        values[far], V[far] = _decomposed(self.B_hat(np.flatnonzero(far), mean[far], alpha))
        return Reference(alphas, of_classes, values, V)


def _decomposed(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of a stack of symmetric matrices."""
    if len(M) < _MANY:
        return np.linalg.eigh(M)
    workers = available_cores()
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(np.linalg.eigh, np.array_split(M, min(workers, len(M)))))
    values, V = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(V)
