"""Optional packages: import one, or say how to install it; the device of torch."""

from __future__ import annotations

import importlib
from typing import Any

# Distribution and extra of the optional modules; those of all others are in the extra `data`.
_EXTRAS = {
    "PIL": ("pillow", "images"),
    "dask": ("dask", "dask"),
    "faiss": ("faiss-cpu", "index"),
    "onnx": ("onnx", "onnx"),
    "onnxruntime": ("onnxruntime", "images"),
    "sentence_transformers": ("sentence-transformers", "sentence-transformers"),
    "tokenizers": ("tokenizers", "images"),
    "torch": ("torch", "torch"),
    "transformers": ("transformers", "transformers"),
}


def require_package(module: str, purpose: str, *, distribution: str = "zonkey") -> Any:
    """Import an optional module, or say what needs it (`purpose`) and how to install it."""
    top = module.partition(".")[0]
    package, extra = _EXTRAS.get(top, (top, "data"))
    try:
        importlib.import_module(top)
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"{purpose} needs {package}. Run: {format_install(distribution, extra)}."
        ) from None


def format_install(distribution: str, extra: str = "") -> str:
    """Return the command that installs a distribution, from an index and from a clone."""
    extra = f"[{extra}]" if extra else ""
    return (
        f'pip install "{distribution}{extra}" '
        f'(in a clone: pip install -e "packages/{distribution}{extra}")'
    )


def torch_device(device: str) -> str:
    """Return the torch device named by `device`, or refuse it."""
    torch = require_package("torch", "A device of torch")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if n_devices else "cpu"
    if device != "cpu" and int(device.partition(":")[2] or 0) >= n_devices:
        raise ValueError(
            f"`device` must be one that torch has; got {device!r}, and torch sees {n_devices} CUDA "
            "devices. Pass device='cpu', or install torch with CUDA."
        )
    return device
