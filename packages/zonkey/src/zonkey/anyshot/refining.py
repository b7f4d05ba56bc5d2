"""Refine centers where all candidates have samples: logistic regression that is pulled to them.

With centers c and a temperature T, posterior scores are linear: (2 x'c - ||c||^2) / T. Multinomial
logistic regression starts there and is pulled back to it, the more strongly the fewer samples there
are. Without samples nothing changes; with many, it is logistic regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Array, namespace, place_like, take_rows, to_numpy
from ..persistence.checks import require_labels, require_number, require_shape, require_that
from ..threads import multiply
from .logistic import fit_pulled

USUAL_TEMPERATURE = 0.07  # of samples of unit length, measured on many data sets
_STEPS = 60


@dataclass(frozen=True)
class Refinement:
    """How centers are refined."""

    strength: float = float("inf")  # pull, times the number of classes; infinity keeps centers
    scale: float = USUAL_TEMPERATURE  # temperature T of the scores of the centers
    temperature: float = USUAL_TEMPERATURE  # of the refined scores
    worth: float = 0.0  # samples that a prototype is worth, for classes with samples
    n_samples: float = 0.0  # per class, that chose the pull; it is weaker for more
    judges: bool = True  # whether samples judge the regression; not with a worth by the user

    def __zonkey_validate__(self) -> None:
        require_number("worth", self.worth, 0)
        require_number("n_samples", self.n_samples, 0)
        for name in ("strength", "scale", "temperature"):
            require_that(getattr(self, name) > 0, f"`{name}` of the refinement must be above 0.")
        for name in ("scale", "temperature"):
            require_number(name, getattr(self, name), np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Refined:
    """Centers and offsets of classes that all have samples, and the temperature of the scores.

    The score of a class is 2 x'c - ||c||^2 less its offset.
    """

    labels: np.ndarray
    centers: Array
    offsets: Array
    temperature: float

    def __zonkey_validate__(self) -> None:
        require_labels("refined/labels", self.labels)
        require_shape("refined/centers", self.centers, len(self.labels), None)
        require_shape("refined/offsets", self.offsets, len(self.labels))
        require_number("temperature", self.temperature, np.finfo(float).tiny)

    @classmethod
    def learn(
        cls,
        labels: np.ndarray,
        centers: Array,
        samples: tuple[Array, np.ndarray, np.ndarray],
        refinement: Refinement,
        masses: np.ndarray | float = 1.0,
    ) -> Refined:
        """Refine the centers of classes by samples: rows, positions of their classes, weights.

        `masses` are what classes count.
        """
        xp = namespace(centers)
        offsets = xp.zeros_like(centers[:, 0])
        if np.isinf(refinement.strength) or not len(samples[1]):
            return cls(labels, centers, offsets, refinement.temperature)
        X, codes, weights = samples
        # The pull is relative to the mean loss of a sample, so its share falls with their number.
        share = min(1.0, refinement.n_samples * len(labels) / weights.sum())
        refinement = replace(refinement, strength=refinement.strength * (share or 1.0))
        balance = weights / np.bincount(codes, weights, minlength=len(labels))[codes]
        balance = balance * np.broadcast_to(masses, len(labels))[codes]
        W, b = pull_to_centers(X, codes, balance, centers, refinement)
        moved = W * (refinement.scale / 2)
        offsets = -xp.sum(moved * moved, axis=1) - refinement.scale * b
        return cls(labels, moved, offsets, refinement.temperature)

    @property
    def is_moved(self) -> bool:
        """Whether logistic regression moved the centers."""
        return bool(np.any(to_numpy(self.offsets)))

    def covers(self, labels: np.ndarray) -> bool:
        """Return whether all these classes were refined."""
        return bool(np.isin(labels, self.labels).all())

    def apply(
        self, labels: np.ndarray, start: Array, now: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return refined centers and offsets of some of the classes.

        `start` are the centers before, and `now` centers and offsets that unlabeled samples may
        have moved since: the refinement adds the same linear function to their scores.
        """
        xp, rows = namespace(start), np.searchsorted(self.labels, labels)
        refined, offsets = take_rows(self.centers, rows), take_rows(self.offsets, rows)
        centers, own = now
        moved = centers + (refined - start)
        lengths = (xp.sum(each * each, axis=1) for each in (refined, start, centers, moved))
        of_refined, of_start, of_now, of_moved = lengths
        return moved, of_refined + offsets - of_start + of_now + own - of_moved


def pull_to_centers(
    X: Array,
    codes: np.ndarray,
    weights: np.ndarray,
    C: Array,
    refinement: Refinement,
    guess: Any = None,
) -> tuple[Array, Array]:
    """Return W and b of logistic regression that is pulled to the scores of centers C.

    `guess` are W and b to start from. These compare classes as if they were equally frequent:
    where their weights differ, Bayes' rule adds the logarithms of these while it learns.
    """
    xp, scale = namespace(C), refinement.scale
    start, intercepts = 2 * C / scale, -xp.sum(C * C, axis=1) / scale
    pull, k = refinement.strength / C.shape[0], C.shape[0]
    masses = np.bincount(codes, weights, minlength=k)
    logs = np.zeros(k)
    logs[masses > 0] = np.log(masses[masses > 0] / masses.mean())
    logs = xp.astype(place_like(logs, C), C.dtype)
    guess = guess if guess is None else (guess[0], guess[1] + place_like(logs, guess[1]))
    shares = place_like(weights / weights.sum(), C)
    W, b = fit_pulled(
        X, codes, shares, start, intercepts + logs, pull, guess=guess, most_steps=_STEPS
    )
    return W, b - place_like(logs, b)


def center_scores(X: Array, C: Array) -> Array:
    """Return 2 x'c - ||c||^2."""
    return linear_scores(X, 2 * C, -namespace(C).sum(C * C, axis=1))


def linear_scores(X: Array, W: Array, b: Array) -> Array:
    """Return x'w + b."""
    xp = namespace(X)
    W, b = (xp.astype(place_like(part, X), X.dtype) for part in (W, b))
    return multiply(X, W.T) + b[None, :]


def mean_square(X: Array) -> float:
    """Return the mean squared length of samples, 1 if it is zero."""
    xp = namespace(X)
    return float(xp.mean(xp.sum(X * X, axis=1))) or 1.0


def spread_rows(X: Array, mask: np.ndarray) -> Array:
    """Return the rows of X at the places of a mask, and zeros elsewhere."""
    padded = namespace(X).concat([X, namespace(X).zeros_like(X[:1, :])])
    return take_rows(padded, np.where(mask, np.cumsum(mask) - 1, X.shape[0]))
