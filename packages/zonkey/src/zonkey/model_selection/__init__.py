"""Folds that hold out whole classes, and a grid search over them."""

from .search import ZeroShotSearchCV
from .splits import ClassKFold

__all__ = ["ClassKFold", "ZeroShotSearchCV"]
