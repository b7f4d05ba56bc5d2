"""zonkey: zero-shot and few-shot classification on fixed features.

The name is the paper's own example: a zebra synthesized from a horse that comes out a donkey.
"""

from importlib.metadata import version

from . import datasets, evaluation, metrics, model_selection, peers, preprocessing, presets
from .core.frame import BaseClasses
from .core.moments import Moments
from .core.prototypes import Prototypes
from .estimators import (
    AnyShotClassifier,
    FewShotClassifier,
    NearestSupport,
    ZeroShotClassifier,
)

__version__ = version("zonkey")

__all__ = [
    "AnyShotClassifier",
    "BaseClasses",
    "FewShotClassifier",
    "Moments",
    "NearestSupport",
    "Prototypes",
    "ZeroShotClassifier",
    "datasets",
    "evaluation",
    "metrics",
    "model_selection",
    "peers",
    "preprocessing",
    "presets",
]
