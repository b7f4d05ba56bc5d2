"""One spelling for NumPy, PyTorch and every other array-API library."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_numpy_array,
    is_pydata_sparse_array,
    is_torch_array,
    to_device,
)

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


def is_device_array(M: Any) -> bool:
    """Say whether M is an array of another library than NumPy, wherever its values are.

    Lazy and sparse arrays are not: they are read into NumPy, as lists and tables are.
    """
    apart = is_numpy_array(M) or is_dask_array(M) or is_pydata_sparse_array(M)
    return is_array_api_obj(M) and not apart


@contextmanager
def full_single_precision(like: Array) -> Iterator[None]:
    """Let products of float32 matrices keep all their digits, whatever a GPU was told."""
    if not is_torch_array(like) or device(like).type != "cuda":
        yield
        return
    settings = sys.modules["torch"].backends.cuda.matmul
    allowed, settings.allow_tf32 = settings.allow_tf32, False
    try:
        yield
    finally:
        settings.allow_tf32 = allowed


def without_gradient(M: Array) -> Array:
    """Return M cut off from the computation it came from, which torch would otherwise record."""
    return M.detach() if is_torch_array(M) else M


def all_finite(M: Array) -> bool:
    """Say whether no value is NaN or infinite."""
    xp = namespace(M)
    # A sum shows both, in one pass and without a mask as large as the data. It may also overflow.
    if is_device_array(M) and bool(xp.isfinite(xp.sum(M))):
        return True
    return bool(xp.all(xp.isfinite(M)))


def to_numpy(M: Any) -> np.ndarray:
    """Return M in the memory of the host."""
    if not is_device_array(M):
        return np.asarray(M)
    if is_torch_array(M):
        return M.detach().cpu().numpy()
    if is_cupy_array(M):
        return M.get()
    home = namespace(M).__array_namespace_info__().default_device()
    return np.asarray(to_device(M, home))


def same_place(M: Array, other: Array) -> bool:
    """Say whether two arrays are of one library and on one device."""
    return namespace(M) is namespace(other) and device(M) == device(other)


def placed_like(M: Any, like: Array) -> Array:
    """Return M, of whatever library, in the library and on the device of `like`."""
    if not is_device_array(like):
        return to_numpy(M)
    xp = namespace(like)
    if is_device_array(M) and namespace(M) is xp:
        return xp.asarray(M, device=device(like))
    # Copied, or a tensor on the CPU would share its memory with the array it was made from.
    return xp.asarray(to_numpy(M), device=device(like), copy=True)


def place_of(M: Array) -> str:
    """Name the library and device of M for an error message."""
    return f"{type(M).__module__.split('.')[0]} on {device(M)}"


def dtype_like(dtype: Any, like: Array) -> Any:
    """Return the dtype of the same name in the library of `like`."""
    name = str(dtype).split(".")[-1]
    return getattr(namespace(like), name) if is_device_array(like) else np.dtype(name)


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def positions_like(n: int, like: Array) -> Array:
    """Return 0, ..., n - 1 on the device of `like`."""
    xp = namespace(like)
    return xp.arange(n, dtype=xp.int64, device=device(like))


def sums_by_code(X: Array, codes: Array, n: int) -> Array:
    """Return the sums of the entries (or rows) of X with each code from 0 to n - 1."""
    xp = namespace(X, codes)
    if is_torch_array(X):
        sums = xp.zeros((n, *X.shape[1:]), dtype=X.dtype, device=device(X))
        return sums.index_add_(0, codes, X)
    members = codes[None, :] == positions_like(n, codes)[:, None]
    return xp.astype(members, X.dtype) @ X


def counts_by_code(codes: Array, n: int) -> np.ndarray:
    """Return how often each code from 0 to n - 1 occurs; the n numbers come to the host."""
    if is_numpy_array(codes):
        return np.bincount(codes, minlength=n)
    xp = namespace(codes)
    ends = xp.searchsorted(xp.sort(codes), positions_like(n, codes), side="right")
    return np.diff(to_numpy(ends), prepend=0)
