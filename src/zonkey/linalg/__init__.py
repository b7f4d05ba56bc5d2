"""Linear algebra that knows arrays only: Sylvester equations and distances."""

from .arrays import Array, namespace
from .distances import nearest, squared_distances
from .lowrank import UpdatedFactor
from .sylvester import Factor, Solution, Stats, Status, solve

__all__ = [
    "Array",
    "Factor",
    "Solution",
    "Stats",
    "Status",
    "UpdatedFactor",
    "namespace",
    "nearest",
    "solve",
    "squared_distances",
]
