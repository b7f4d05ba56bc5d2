"""The form that the scores of every model have: linear in the sample."""

from __future__ import annotations

from dataclasses import dataclass

from ..linalg.arrays import Array, namespace, placed_like


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores 2 z'c_j - b_j of the classes j, where z = M'x, or x itself where M is None.

    Every model here has this form: squared distances to centers c_j do with b_j = ||c_j||^2, and
    so does a bilinear compatibility with b_j = 0.
    """

    centers: Array
    constants: Array
    M: Array | None = None

    @classmethod
    def of_distances(cls, centers: Array, M: Array | None = None) -> LinearScores:
        """Return ||z||^2 - ||z - c_j||^2: the nearer the center, the higher the score."""
        return cls(centers, namespace(centers).sum(centers * centers, axis=1), M)

    def at_place_of(self, X: Array) -> LinearScores:
        """Return the same scores for samples in the place of X."""
        M = None if self.M is None else placed_like(self.M, X)
        return LinearScores(placed_like(self.centers, X), placed_like(self.constants, X), M)
