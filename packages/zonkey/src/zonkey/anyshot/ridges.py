"""Kernel ridge regression of class means on prototypes, fitted: exact, or through landmarks.

Both forms answer the same questions, in terms of the kernel k(y) between a prototype and the basis:

- exact (`ExactRidge`): the basis are all p classes, and G = (K + Lambda)^-1 is p x p;
- Nystroem (`LandmarkRidge`): the basis are r of the p classes, the landmarks. With the kernel
  K_pr between all classes and the landmarks, features Phi = K_pr K_rr^(-1/2) replace the kernel
  by Phi Phi', whose ridge regression is r x r. With S = Lambda^-1,

      f(y) = phi(y)' (Phi' S Phi + I)^-1 Phi' S M.

The hat matrix H of this smoother gives the prediction of each class without its own samples,
(f_i - H_ii m_i) / (1 - H_ii). A set of classes is held out by taking its rows from Phi' S Phi.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..arrays import Array, epsilon, identity_like, namespace, place_like, take_rows, to_numpy
from ..bpl.symmetric import eigh
from .posterior import held_out_weights, inverse_without, left_out_means, ridge_factors

_LEAST_RIDGE = 1e-8  # of landmarks; 1 - H_ii keeps half of its digits


@dataclass(frozen=True, eq=False)
class ExactRidge:
    """The regression as G, whose rows of classes that are left out are zero."""

    G: Array

    def coefficients(self, M: Array) -> Array:
        """Return what k(y)' is multiplied by to predict f(y), one row per class of the basis."""
        return self.G @ M

    def weights(self, k: Array) -> Array:
        """Return the weights of all class means in f(y), for each row k(y)'."""
        return k @ self.G

    def left_out(self, M: Array) -> Array:
        """Return the prediction of each class from all others."""
        return left_out_means(self.G, M)

    def weigh_left_out(self, i: int) -> Array:
        """Return the weights of all class means in the prediction of class i from the others."""
        xp, row = namespace(self.G), self.G[i, :]
        own = place_like(np.arange(self.G.shape[0]) == i, row)
        return xp.where(own, xp.zeros_like(row), -row / row[i])

    def without(self, held: np.ndarray) -> ExactRidge:
        """Return the regression that never saw some classes."""
        places = place_like(held, self.G)
        return ExactRidge(inverse_without(self.G, places, held_out_weights(self.G, places)))

    def predict_held_out(
        self, held: np.ndarray, others: np.ndarray, M: Array
    ) -> tuple[Array, Array]:
        """Predict held-out classes from the rest, and `others` each from the rest but itself."""
        places = place_like(held, self.G)
        weights = held_out_weights(self.G, places)
        if not len(others):
            return weights @ M, M[:0, :]
        rest = ExactRidge(inverse_without(self.G, places, weights)).left_out(M)
        return weights @ M, take_rows(rest, others)


@dataclass(frozen=True, eq=False)
class LandmarkRidge:
    """The regression as features Phi, with the methods of `ExactRidge`."""

    features: Array  # Phi (p x r)
    turn: Array  # K_rr^(-1/2), without directions that rounding makes up
    shares: Array  # inverse ridge of each class relative to `level`, zero for those left out
    gram: Array  # Phi' diag(shares) Phi + level I

    @classmethod
    def from_kernel(
        cls, K: Array, landmarks: np.ndarray, counts: np.ndarray, ridge: float, unit: float
    ) -> LandmarkRidge:
        """Fit the regression to the kernel K between all classes and the landmarks, which are rows.

        `counts` are samples behind each mean, and `unit` is the mean diagonal of the kernel between
        all classes, which the ridge is relative to.
        """
        xp = namespace(K)
        values, vectors = eigh(take_rows(K, landmarks))
        on_host = to_numpy(values)
        kept = np.flatnonzero(on_host > epsilon(K) * len(landmarks) * np.abs(on_host).max())
        places = place_like(kept, K)
        roots = xp.sqrt(xp.take(values, places, axis=0))
        turn = xp.take(vectors, places, axis=1) / roots[None, :]
        features = K @ turn
        shares = place_like(1 / ridge_factors(counts), K)
        level = max(float(ridge), _LEAST_RIDGE) * unit
        gram = features.T @ (features * shares[:, None])
        return cls(features, turn, shares, gram + level * identity_like(gram))

    def coefficients(self, M: Array) -> Array:
        """Return what k(y)' is multiplied by to predict f(y), one row per landmark."""
        return self.turn @ self._solve(M)

    def weights(self, k: Array) -> Array:
        """Return the weights of all class means in f(y), for each row k(y)'."""
        return self._weights(k @ self.turn)

    def left_out(self, M: Array) -> Array:
        """Return the prediction of each class from all others."""
        own = self._own[:, None]
        return (self.features @ self._solve(M) - own * M) / (1 - own)

    def weigh_left_out(self, i: int) -> Array:
        """Return the weights of all class means in the prediction of class i from the others."""
        xp, row = namespace(self.features), self._weights(self.features[i : i + 1, :])[0, :]
        own = place_like(np.arange(row.shape[0]) == i, row)
        return xp.where(own, xp.zeros_like(row), row / (1 - row[i]))

    def without(self, held: np.ndarray) -> LandmarkRidge:
        """Return the regression that never saw some classes."""
        rows = take_rows(self.features, held)
        lost = rows.T @ (rows * take_rows(self.shares, held)[:, None])
        stays = np.ones(self.features.shape[0])
        stays[held] = 0.0
        return replace(
            self, gram=self.gram - lost, shares=self.shares * place_like(stays, self.shares)
        )

    def predict_held_out(
        self, held: np.ndarray, others: np.ndarray, M: Array
    ) -> tuple[Array, Array]:
        """Predict held-out classes from the rest, and `others` each from the rest but itself."""
        every = self.without(held).left_out(M)
        return take_rows(every, held), take_rows(every, others)

    @cached_property
    def _inverse(self) -> Array:
        return namespace(self.gram).linalg.inv(self.gram)

    @cached_property
    def _own(self) -> Array:
        """The diagonal of the hat matrix."""
        xp = namespace(self.features)
        return xp.sum((self.features @ self._inverse) * self.features, axis=1) * self.shares

    def _solve(self, M: Array) -> Array:
        return self._inverse @ (self.features.T @ (M * self.shares[:, None]))

    def _weights(self, features: Array) -> Array:
        return features @ self._inverse @ self.features.T * self.shares[None, :]


Ridge = ExactRidge | LandmarkRidge
