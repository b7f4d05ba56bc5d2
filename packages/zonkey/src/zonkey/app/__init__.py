"""The commands as functions of paths and options, for Python and for services.

They return results, print nothing, and report progress by calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classes import ChangedClasses, add_classes, list_classes, remove_classes
    from .classification import Classification, classify
    from .embedding import Embedding, embed
    from .evaluation import evaluate
    from .explanation import ExplainedRow, explain
    from .fitting import Fitted, fit
    from .learning import learn
    from .model_file import Exported, export, info
    from .prediction import Prediction, predict
    from .progress import Progress, Step
    from .suggestion import SuggestedTable, suggest

# Imported on first use: pictures and tables need other packages.
_MODULES = {
    "classes": ("ChangedClasses", "add_classes", "list_classes", "remove_classes"),
    "classification": ("Classification", "classify"),
    "embedding": ("Embedding", "embed"),
    "evaluation": ("evaluate",),
    "explanation": ("ExplainedRow", "explain"),
    "fitting": ("Fitted", "fit"),
    "learning": ("learn",),
    "model_file": ("Exported", "export", "info"),
    "prediction": ("Prediction", "predict"),
    "progress": ("Progress", "Step"),
    "suggestion": ("SuggestedTable", "suggest"),
}

__all__ = [
    "ChangedClasses",
    "Classification",
    "Embedding",
    "ExplainedRow",
    "Exported",
    "Fitted",
    "Prediction",
    "Progress",
    "Step",
    "SuggestedTable",
    "add_classes",
    "classify",
    "embed",
    "evaluate",
    "explain",
    "export",
    "fit",
    "info",
    "learn",
    "list_classes",
    "predict",
    "remove_classes",
    "suggest",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
