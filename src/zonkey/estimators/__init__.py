"""scikit-learn estimators built on the mathematics of `zonkey.core`."""

from .few_shot import FewShotClassifier
from .nearest_support import NearestSupport
from .zero_shot import ZeroShotClassifier

__all__ = ["FewShotClassifier", "NearestSupport", "ZeroShotClassifier"]
