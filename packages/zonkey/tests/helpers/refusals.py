"""Refusals: what was expected, what came, and what to do."""

import re

import pytest

NOT_NUMBERS = ["0.5", None, [0.5], True, float("nan"), float("inf"), -float("inf")]


def refused(error, *parts):
    """The parts in this order: expected, received, remedy."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(part) for part in parts))
