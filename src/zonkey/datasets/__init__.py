"""Data to learn from."""

from .numbers import TwoDigitNumbers, load_two_digit_numbers

__all__ = ["TwoDigitNumbers", "load_two_digit_numbers"]
