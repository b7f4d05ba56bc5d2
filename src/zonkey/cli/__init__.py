"""The command line."""

from .commands import app

__all__ = ["app"]
