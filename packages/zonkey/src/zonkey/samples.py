"""Samples as matrices of finite floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import device
from sklearn.utils import _safe_indexing

from .arrays import (
    Array,
    detach_gradient,
    has_only_finite,
    is_device_array,
    is_same_place,
    namespace,
    place_of,
    require_values,
    take_rows,
)
from .blocks import ON_ACCELERATOR
from .config import rows_per_block


def as_samples(X: Any, known: Array | None = None) -> Array:
    """Return a matrix of finite floats, in the library and on the device of X.

    It must match the number of features, library and device of `known`, if given.
    """
    require_values(X)
    X = detach_gradient(X) if is_device_array(X) else _as_matrix(X)
    xp = namespace(X)
    if X.ndim != 2 or not X.shape[1]:
        raise ValueError(
            f"X must be a matrix (samples x features, at least one); got shape {tuple(X.shape)}."
        )
    if known is not None and X.shape[1] != known.shape[1]:
        raise ValueError(
            f"X must have the {known.shape[1]} features of earlier updates; got {X.shape[1]}."
        )
    if known is not None:
        require_same_place(known, X)
    is_float = xp.isdtype(X.dtype, "real floating")
    if not is_float and not xp.isdtype(X.dtype, "integral"):
        raise ValueError(
            f"X must be finite numbers; got dtype {X.dtype}. Convert it to float32 or float64."
        )
    if not has_only_finite(X):
        raise ValueError(
            "X must be finite numbers; got NaN or infinity. Impute or drop those samples first."
        )
    return X if is_float else xp.astype(X, xp.float64)


def pick_rows(X: Any, positions: np.ndarray) -> Any:
    """Return some rows of samples of any kind: arrays, tensors, tables or lists."""
    return take_rows(X, positions) if is_device_array(X) else _safe_indexing(X, positions)


def _as_matrix(X: Any) -> np.ndarray:
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"X must be a matrix, with rows of one length; {error}") from None
    if X.dtype == np.longdouble:
        with np.errstate(over="ignore"):  # infinity is refused
            return X.astype(np.float64)
    return X


def require_scale(X: Array, name: str = "X") -> None:
    """Refuse samples so large or so small that products of them overflow or vanish."""
    if not X.shape[0]:
        return
    xp = namespace(X)
    low, high = (1e-75, 1e75) if X.dtype == xp.float64 else (1e-15, 1e15)
    largest = float(xp.maximum(xp.max(X), -xp.min(X)))
    if largest and not low <= largest <= high:
        raise ValueError(
            f"{name} must have values of a usual size, from {low:g} to {high:g} in {X.dtype}; the "
            f"largest is {largest:.3g}. Scale them, for example with StandardScaler."
        )


def require_same_place(own: Array, other: Array) -> None:
    """Refuse to combine arrays of two libraries or devices: none is moved implicitly."""
    if not is_same_place(own, other):
        raise ValueError(
            f"Samples must stay in one array library and on one device; got {place_of(own)} and "
            f"{place_of(other)}. Move the samples, or take `to_numpy()` of the moments."
        )


def sample_blocks(X: Array, copies: int = 3) -> Iterator[slice]:
    """Yield slices of rows so that some float64 copies of a block fit into the working memory."""
    n, width = X.shape
    is_host = not is_device_array(X) or str(device(X)) == "cpu"
    size = rows_per_block(8 * copies * width / (1 if is_host else ON_ACCELERATOR))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
