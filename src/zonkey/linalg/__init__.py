"""Linear algebra on arrays: symmetric Sylvester equations, low-rank updates, distances."""

from .sylvester import Solution, solve
from .symmetric import Factor

__all__ = ["Factor", "Solution", "solve"]
