"""zonkey: zero-shot and few-shot classification on fixed features.

The name is the paper's own example: a zebra synthesized from a horse that comes out a donkey.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        datasets,
        encoders,
        evaluation,
        metrics,
        model_selection,
        peers,
        preprocessing,
        presets,
    )
    from .core.chunks import Chunks
    from .core.frame import BaseClasses
    from .core.moments import Moments
    from .core.prototypes import Prototypes
    from .core.storage import StorageError
    from .estimators import (
        AnyShotClassifier,
        FewShotClassifier,
        NearestSupport,
        ZeroShotClassifier,
    )
    from .estimators.candidate_index import CandidateIndex
    from .estimators.explain import explain
    from .estimators.model_file import load, model_card, model_info, save
    from .estimators.onnx_graph import to_onnx
    from .evaluation import evaluate

# Imported on first use: `zonkey --help` need not wait for scikit-learn.
_MODULES = {
    "AnyShotClassifier": "estimators",
    "BaseClasses": "core.frame",
    "CandidateIndex": "estimators.candidate_index",
    "Chunks": "core.chunks",
    "FewShotClassifier": "estimators",
    "Moments": "core.moments",
    "NearestSupport": "estimators",
    "Prototypes": "core.prototypes",
    "StorageError": "core.storage",
    "ZeroShotClassifier": "estimators",
    "explain": "estimators.explain",
    "load": "estimators.model_file",
    "model_card": "estimators.model_file",
    "model_info": "estimators.model_file",
    "save": "estimators.model_file",
    "to_onnx": "estimators.onnx_graph",
    "evaluate": "evaluation",
}

__all__ = [
    "AnyShotClassifier",
    "BaseClasses",
    "CandidateIndex",
    "Chunks",
    "FewShotClassifier",
    "Moments",
    "NearestSupport",
    "Prototypes",
    "StorageError",
    "ZeroShotClassifier",
    "datasets",
    "encoders",
    "evaluate",
    "evaluation",
    "explain",
    "load",
    "metrics",
    "model_card",
    "model_info",
    "model_selection",
    "peers",
    "preprocessing",
    "presets",
    "save",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("zonkey")
    if name == "load":
        import_module(".peers", __name__)  # adds its classes to those that files may hold
    if name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    elif name in (*__all__, "core", "display", "estimators", "linalg", "testing", "validation"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
