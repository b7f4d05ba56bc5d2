"""Systems to compare with, under the contract of `ZeroShotClassifier`."""

from . import zsl

__all__ = ["zsl"]
