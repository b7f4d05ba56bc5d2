"""Values just inside and just outside each declared range of a parameter."""

import math

import numpy as np

from zonkey.parameters import Count, Flag, Interval, Options, constraints_of

_NO_NUMBERS = ["0.5", [0.5], True, np.ones(2), math.nan, math.inf, -math.inf]


def values_of(constraint):
    """Return values that the constraint must accept, and values that it must refuse."""
    match constraint:
        case Interval():
            return _values_of_interval(constraint)
        case Count():
            least = constraint.minimum
            wrong = [least - 1, -2, float(least), str(least), True, [least], np.ones(2)]
            return [least, np.int32(least + 1), *constraint.also], [
                value for value in wrong if not _is_among(value, constraint.also)
            ]
        case Options():
            wrong = [
                "",
                "no option",
                constraint.options[0].upper(),
                1,
                False,
                [constraint.options[0]],
            ]
            return [*constraint.options], wrong + [None] * (None not in constraint.options)
        case Flag():
            return [True, False, np.True_], [None, "yes", 1, 0.0]
    raise TypeError(constraint)


def cases_of(kind):
    """Return (name, value) that must be accepted by a class, and those that must be refused."""
    valid, invalid = [], []
    for name, constraint in constraints_of(kind).items():
        inside, outside = values_of(constraint)
        valid += [(name, value) for value in inside]
        invalid += [(name, value) for value in outside]
    return valid, invalid


def undeclared(kind):
    """Return the parameters of a class without a declared range."""
    return {*kind().get_params(deep=False)} - {*constraints_of(kind)}


def _values_of_interval(interval):
    inside = 0.5 if interval.low <= 0.5 <= interval.high else interval.low + 0.5
    valid = [np.float32(min(inside, interval.high))]
    invalid = [*_NO_NUMBERS, "automatic"]
    ends = ((interval.low, interval.open_below, -1), (interval.high, interval.open_above, 1))
    for end, is_open, outward in ends:
        if math.isfinite(end):
            inside, outside = (np.nextafter(end, side * math.inf) for side in (-outward, outward))
            valid.append(inside if is_open else end)
            invalid += [outside, end + 7 * outward, *([end] if is_open else [])]
        else:
            valid.append(outward * 1e300)
    return [*valid, *interval.also], invalid + [None] * (None not in interval.also)


def _is_among(value, also):
    return isinstance(value, int) and not isinstance(value, bool) and value in also
