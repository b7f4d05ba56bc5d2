"""Ranges of parameters: each class declares its own, and `check_parameters` checks them all.

class Model(BaseEstimator):
__constraints__ = {"rho": Interval(0, 1), "synthesis": Options("perturb", None)}
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np

from .labels import check_count, format_value


class Constraint(Protocol):
    """The range of a parameter."""

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range."""


@dataclass(frozen=True)
class Interval:
    """A finite number from `low` to `high`, or one of the values in `also`."""

    low: float = -math.inf
    high: float = math.inf
    open_below: bool = False  # then `low` is excluded
    open_above: bool = False
    also: tuple[str | None, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range."""
        if _is_among(value, self.also):
            return
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        number = float(value) if is_number else math.nan
        at_open_end = (self.open_below and number == self.low) or (
            self.open_above and number == self.high
        )
        if math.isfinite(number) and self.low <= number <= self.high and not at_open_end:
            return
        start = "[" if math.isfinite(self.low) and not self.open_below else "("
        end = "]" if math.isfinite(self.high) and not self.open_above else ")"
        choice = "".join(f'"{word}" or ' for word in self.also if word is not None)
        remedy = (
            'Use "auto", which chooses it on held-out classes.'
            if "auto" in self.also
            else "Choose it inside, for example by ZeroShotSearchCV over training classes."
        )
        raise ValueError(
            f"`{name}` must be {choice}a number in {start}{self.low}, {self.high}{end}; got "
            f"{format_value(value)}. {remedy}"
        )


@dataclass(frozen=True)
class Count:
    """An integer of at least `minimum`, or one of the values in `also`."""

    minimum: int = 1
    also: tuple[int | None, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range."""
        if not _is_among(value, self.also):
            check_count(name, value, self.minimum)


@dataclass(frozen=True, init=False)
class Options:
    """One of a few names, or None if it is among them."""

    options: tuple[str | None, ...]

    def __init__(self, *options: str | None) -> None:
        object.__setattr__(self, "options", options)

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range."""
        check_option(name, value, self.options)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    remedy: str = "Pass one of these."

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range."""
        if not isinstance(value, bool | np.bool_):
            raise ValueError(
                f"`{name}` must be True or False; got {format_value(value)}. {self.remedy}"
            )


def constraints_of(kind: type) -> dict[str, Constraint]:
    """Return the ranges that a class and its bases declare, by parameter."""
    found: dict[str, Constraint] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base).get("__constraints__", {})
    return found


def check_parameters(estimator: Any) -> None:
    """Refuse an estimator with a parameter outside its declared range."""
    for name, constraint in constraints_of(type(estimator)).items():
        constraint.check(name, getattr(estimator, name))


def is_auto(value: Any) -> bool:
    """Whether a parameter is chosen in `fit`."""
    return isinstance(value, str) and value == "auto"


def check_option(name: str, value: Any, options: Collection[str | None]) -> None:
    """Require one of a few named options."""
    if not (value is None or isinstance(value, str)) or value not in options:
        choices = ", ".join(repr(option) for option in options)
        raise ValueError(
            f"`{name}` must be one of {choices}; got {format_value(value)}. "
            "Correct the spelling, or leave the parameter at its default."
        )


def _is_among(value: Any, also: tuple[Any, ...]) -> bool:
    """Whether a value is one of these names and numbers; True is not 1, an array never matches."""
    is_plain = value is None or isinstance(value, str | Integral)
    return is_plain and not isinstance(value, bool) and value in also
