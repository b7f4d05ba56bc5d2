"""Systems to compare with, under the contracts of `ZeroShotClassifier` and `FewShotClassifier`."""

from . import fsl, zsl
from .catalog import MethodInfo, list_methods
from .training import Training

__all__ = ["MethodInfo", "Training", "fsl", "list_methods", "zsl"]

# The entry point `zonkey.models`: classes that files may hold, by name.
CLASSES: dict[str, type] = {
    name: getattr(module, name)
    for module in (zsl, fsl)
    for name in module.__all__
    if name != "BaseSamples"
} | {"Training": Training}
