"""zonkey: zero-shot and few-shot classification on fixed features.

The name is the paper's own example: a zebra synthesized from a horse that comes out a donkey.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, encoders, evaluation, metrics, model_selection, preprocessing, presets
    from . import peers as peers
    from .anyshot.classifier import AnyShotClassifier
    from .bpl.few_shot import FewShotClassifier
    from .bpl.frame import BaseClasses
    from .bpl.moments import Moments
    from .bpl.nearest_support import NearestSupport
    from .bpl.zero_shot import ZeroShotClassifier
    from .config import config_context, get_config, set_config
    from .errors import StorageError
    from .evaluation.evaluating import evaluate
    from .inference.bins import BinClassifier
    from .inference.explain import explain
    from .inference.index import CandidateIndex
    from .inference.onnx import to_onnx
    from .persistence.card import model_card
    from .persistence.model import load, model_info, save
    from .prototypes import Prototypes
    from .streaming.chunks import Chunks
    from .tree import Tree

# Imported on first use: `zonkey --help` need not wait for scikit-learn.
_MODULES = {
    "AnyShotClassifier": "anyshot.classifier",
    "BaseClasses": "bpl.frame",
    "BinClassifier": "inference.bins",
    "CandidateIndex": "inference.index",
    "Chunks": "streaming.chunks",
    "FewShotClassifier": "bpl.few_shot",
    "Moments": "bpl.moments",
    "NearestSupport": "bpl.nearest_support",
    "Prototypes": "prototypes",
    "StorageError": "errors",
    "Tree": "tree",
    "ZeroShotClassifier": "bpl.zero_shot",
    "config_context": "config",
    "explain": "inference.explain",
    "get_config": "config",
    "load": "persistence.model",
    "model_card": "persistence.card",
    "model_info": "persistence.model",
    "save": "persistence.model",
    "set_config": "config",
    "to_onnx": "inference.onnx",
    "evaluate": "evaluation",
}

__all__ = [
    "AnyShotClassifier",
    "BaseClasses",
    "BinClassifier",
    "CandidateIndex",
    "Chunks",
    "FewShotClassifier",
    "Moments",
    "NearestSupport",
    "Prototypes",
    "StorageError",
    "Tree",
    "ZeroShotClassifier",
    "config_context",
    "datasets",
    "encoders",
    "evaluate",
    "evaluation",
    "explain",
    "get_config",
    "load",
    "metrics",
    "model_card",
    "model_info",
    "model_selection",
    "preprocessing",
    "presets",
    "save",
    "set_config",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("zonkey")
    if name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    elif name in (*__all__, "display", "peers", "testing"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
