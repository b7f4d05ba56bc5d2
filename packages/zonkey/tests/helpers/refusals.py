"""What both classifiers refuse in the parameters that they share."""

import re

import pytest

UNIT_INTERVALS = {"rho": "[0, 1]", "alpha": "[0, 1)", "mu": "[0, 1)"}
NOT_NUMBERS = ["0.5", None, [0.5], True, float("nan"), float("inf"), -float("inf")]


def refused(error, *parts):
    """The parts in this order: expected, received, remedy."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(part) for part in parts))


def outside(half_lines):
    """Return names and values that are not in their interval, or not numbers at all."""
    names = [*UNIT_INTERVALS, *half_lines]
    return [
        *[(name, value) for name in names for value in [-0.1, *NOT_NUMBERS]],
        *[(name, 1.5) for name in UNIT_INTERVALS],
        ("alpha", 1.0),
        ("mu", 1),
        *[("seen_penalty", value) for value in NOT_NUMBERS],
    ]
