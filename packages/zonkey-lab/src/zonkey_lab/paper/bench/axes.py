"""The values that a numeric parameter may take beyond those of its grid.

An axis follows from the range that the class of a model declares for the parameter; a few have
limits of their own, because further values only cost time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from zonkey.parameters import Count, Interval, constraints_of

from ...peers.training import Training
from .models import parameter_name

_HALF_DECADES = tuple(float(f"{digit}e{power}") for power in range(-8, 9) for digit in (1, 3))
_TENTHS = (0.1, 0.2, 0.3, 0.5, 0.8)  # steps of whole numbers within a factor of ten
_COUNTS = tuple(sorted({round(step * 10**power) for step in _TENTHS for power in range(1, 7)}))
_LEAST_SHARE = 1e-4  # from either end of (0, 1)


@dataclass(frozen=True)
class Axis:
    """A ladder of values: `rungs` ascend; a step multiplies by `ratio` at least."""

    rungs: tuple[float, ...]
    ratio: float = 1.0

    def step(self, value: float, *, up: bool) -> float | None:
        """Return the next rung above or below; None at the end of the axis."""
        if up:
            fits = (rung for rung in self.rungs if rung > value and rung >= value * self.ratio)
        else:
            lower = (rung for rung in self.rungs if rung < value and rung * self.ratio <= value)
            fits = reversed([*lower])
        return next(iter(fits), None)

    def neighbor(self, value: float, known: Collection[float], *, up: bool) -> float | None:
        """Return the next of the `known` values, or the next rung if that is nearer."""
        rung = self.step(value, up=up)
        beyond = [other for other in known if (other > value if up else other < value)]
        candidates = [*beyond, *([] if rung is None else [rung])]
        return min(candidates, key=lambda other: abs(other - value), default=None)


def positive(low: float = 0.0) -> Axis:
    """Return an axis of numbers above `low`, two per power of ten."""
    return Axis(tuple(float(f"{low + step:.9g}") for step in _HALF_DECADES), ratio=1.5)


def share() -> Axis:
    """Return an axis of numbers in (0, 1): half decades toward both ends."""
    small = [step for step in _HALF_DECADES if _LEAST_SHARE <= step < 0.5]
    return Axis((*small, 0.5, *(float(f"{1 - step:.9g}") for step in reversed(small))))


def count(low: int = 1, high: float = math.inf) -> Axis:
    """Return an axis of whole numbers, from `low` to `high`."""
    inside = {step for step in _COUNTS if low <= step <= high}
    ends = {low} | ({int(high)} if math.isfinite(high) else set())
    return Axis(tuple(sorted(inside | ends)), ratio=1.3)


# Limits that the class does not declare: beyond them, time or memory grow and little else, or the
# data have no more. By the name of the parameter, or of class and parameter.
_LIMITED: dict[str, Axis | None] = {
    "n_hidden": count(16, 4096),
    "n_latent": count(2, 512),
    "n_synthetic": count(5, 1000),
    "max_iter": count(1, 500),
    "n_steps": count(1, 20),  # through which some systems differentiate
    "LPPlusPlus.n_steps": count(1, 1000),
    "batch_size": count(16, 512),
    "n_way": count(2, 60),  # the most ways of an episode
    "n_matrices": count(1, 16),
    "base_samples_per_class": count(1, 20),
    "ESZSL.negative": None,  # the target of other classes: 0 or -1
}


def axis_of(classifier: type[Any], name: str) -> Axis | None:
    """Return the axis of a parameter, named as in records; None if it has no further values."""
    for own in (f"{classifier.__name__}.{name}", name):
        if own in _LIMITED:
            return _LIMITED[own]
    full = parameter_name(classifier, name) or name
    owner = Training if full != name else classifier
    constraint = constraints_of(owner).get(name)
    if isinstance(constraint, Count):
        return count(constraint.minimum)
    if isinstance(constraint, Interval) and math.isfinite(constraint.low):
        return share() if (constraint.low, constraint.high) == (0, 1) else positive(constraint.low)
    raise LookupError(
        f"A numeric parameter of a grid must have an axis; {name!r} of {classifier.__name__} "
        "declares no range to derive one from. Declare its range, or add it to `_LIMITED`."
    )


def axes_of(classifier: type[Any], points: Iterable[Mapping[str, Any]]) -> dict[str, Axis]:
    """Return the axes of the parameters that are numbers in some of the points."""
    points = list(points)
    names = dict.fromkeys(name for point in points for name in point)
    numeric = [name for name in names if any(is_number(point.get(name)) for point in points)]
    found = {name: axis_of(classifier, name) for name in numeric}
    return {name: axis for name, axis in found.items() if axis is not None}


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number; True and False are names."""
    return isinstance(value, int | float) and not isinstance(value, bool)
