"""Refusals: what was expected, what came, and what to do."""

import re

import pytest

from zonkey.errors import DataError

NOT_NUMBERS = ["0.5", None, [0.5], True, float("nan"), float("inf"), -float("inf")]


def refused(error, *parts):
    """The parts in this order: expected, received, remedy."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(part) for part in parts))


def refusal(call, *arguments, error=DataError, **keywords):
    """Return the one line that a call is refused with."""
    with pytest.raises(error, match=r"\A[^\n]+[.?]\Z") as caught:
        call(*arguments, **keywords)
    return str(caught.value)
