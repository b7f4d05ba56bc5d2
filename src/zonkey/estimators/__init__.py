"""scikit-learn estimators built on the mathematics of `zonkey.core`."""

from . import presets
from .zero_shot import ZeroShotClassifier

__all__ = ["ZeroShotClassifier", "presets"]
