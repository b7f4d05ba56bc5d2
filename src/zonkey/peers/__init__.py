"""Systems that the paper compares with, as estimators of the same contract."""

from . import zsl

__all__ = ["zsl"]
