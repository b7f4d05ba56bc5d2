"""Systems to compare with, under the contracts of `ZeroShotClassifier` and `FewShotClassifier`."""

from . import fsl, zsl
from .catalog import MethodInfo, list_methods

__all__ = ["MethodInfo", "fsl", "list_methods", "zsl"]
