"""Data to learn from: one contract, and loaders that fulfil it."""

from .dataset import Dataset
from .errors import DataError
from .lazy import LazyMatrix
from .numbers import TwoDigitNumbers, load_two_digit_numbers
from .split import Split

__all__ = [
    "DataError",
    "Dataset",
    "LazyMatrix",
    "Split",
    "TwoDigitNumbers",
    "load_two_digit_numbers",
]
