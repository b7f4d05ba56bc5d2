"""The one error for data that cannot be used: what is wrong, and how to mend it."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used; the message is one line that a newcomer can act on."""
