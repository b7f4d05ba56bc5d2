"""Choosing parameters when the classes to predict are not those to learn from."""

from .search import ZeroShotSearchCV
from .splits import ClassKFold

__all__ = ["ClassKFold", "ZeroShotSearchCV"]
