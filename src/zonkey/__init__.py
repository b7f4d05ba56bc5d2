"""zonkey: zero-shot and few-shot classification on fixed features.

The name is the paper's own example: a zebra synthesised from a horse that comes out a donkey.
"""

from importlib.metadata import version

from . import metrics, model_selection, preprocessing
from .core import Moments, Prototypes
from .estimators import ZeroShotClassifier, presets

__version__ = version("zonkey")

__all__ = [
    "Moments",
    "Prototypes",
    "ZeroShotClassifier",
    "metrics",
    "model_selection",
    "preprocessing",
    "presets",
]
