"""Systems to compare with, under the contracts of `ZeroShotClassifier` and `FewShotClassifier`."""

from . import fsl, zsl

__all__ = ["fsl", "zsl"]
