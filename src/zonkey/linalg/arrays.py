"""One spelling for NumPy, PyTorch and every other array-API library."""

from __future__ import annotations

from typing import Any, TypeAlias

from array_api_compat import array_namespace, device

# No static type is shared by the libraries of the array API, so that shapes are
# written in docstrings and checked in tests instead.
Array: TypeAlias = Any


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace that all the arrays belong to."""
    return array_namespace(*arrays)


def identity_like(M: Array) -> Array:
    """Return the identity with the shape, dtype and device of the square matrix M."""
    return namespace(M).eye(M.shape[0], dtype=M.dtype, device=device(M))


def epsilon(M: Array) -> float:
    """Return the rounding unit of the dtype of M."""
    return float(namespace(M).finfo(M.dtype).eps)


def squared_norm(M: Array) -> float:
    """Return the squared Frobenius norm of M."""
    return float(namespace(M).sum(M * M))
