"""Samples of any array library: what is accepted, and sums of them by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..linalg.arrays import (
    Array,
    all_finite,
    is_device_array,
    namespace,
    place_of,
    placed_like,
    same_place,
    sums_by_code,
    to_numpy,
    without_gradient,
)
from .labels import positions_among
from .prototypes import Prototypes


def as_samples(X: Any, known: Array | None = None) -> Array:
    """Return a matrix of finite floating-point numbers, in the library and place it came in.

    Where `known` says what came before, it must have as many features, in the same place.
    """
    X = without_gradient(X) if is_device_array(X) else np.asarray(X)
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
    is_number = is_float or xp.isdtype(X.dtype, "integral")
    if not is_number or not all_finite(X):
        raise ValueError(
            f"X must be finite numbers; got dtype {X.dtype} or NaN / infinity. "
            "Impute or drop those samples first."
        )
    return X if is_float else xp.astype(X, xp.float64)


def as_codes(y: Any, prototypes: Prototypes, X: Array) -> Array:
    """Return the row of the prototype of each label, in the place of X."""
    if is_device_array(y) and is_device_array(X):
        return positions_among(prototypes.labels, placed_like(y, X))
    return placed_like(prototypes.positions(to_numpy(y) if is_device_array(y) else y), X)


def require_same_place(own: Array, other: Array) -> None:
    """Refuse to combine arrays of two libraries or devices: neither may be moved unasked."""
    if not same_place(own, other):
        raise ValueError(
            f"Moments must stay in one array library and on one device; got {place_of(own)} and "
            f"{place_of(other)}. Move the samples, or take `to_numpy()` of the moments."
        )


def class_sums(X: Array, codes: Array, n_classes: int) -> Array:
    """Return the sum of the rows of X that have each code."""
    if is_device_array(X):
        return sums_by_code(X, codes, n_classes)
    members = sparse.csr_array(
        (np.ones(len(X)), (codes, np.arange(len(X)))), shape=(n_classes, len(X))
    )
    return members @ X


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to; other libraries than NumPy have none."""
    if is_device_array(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
