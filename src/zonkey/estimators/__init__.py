"""Estimators with the interface of scikit-learn."""

from .any_shot import AnyShotClassifier
from .few_shot import FewShotClassifier
from .nearest_support import NearestSupport
from .zero_shot import ZeroShotClassifier

__all__ = ["AnyShotClassifier", "FewShotClassifier", "NearestSupport", "ZeroShotClassifier"]
