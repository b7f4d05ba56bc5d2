"""Linear algebra that knows arrays only: Sylvester equations and distances."""

from .arrays import Array, namespace
from .cost import cheapest_path
from .distances import nearest, squared_distances
from .lowrank import UpdatedFactor
from .sylvester import Factor, Solution, Stats, Status, solve
from .tridiagonal import Tridiagonal

__all__ = [
    "Array",
    "Factor",
    "Solution",
    "Stats",
    "Status",
    "Tridiagonal",
    "UpdatedFactor",
    "cheapest_path",
    "namespace",
    "nearest",
    "solve",
    "squared_distances",
]
