"""A short hash of anything a result depends on: data, parameters, whole models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from ..linalg.arrays import is_device_array, to_numpy


def fingerprint(*values: Any) -> str:
    """Return 16 hexadecimal digits that tell values apart by content."""
    digest = hashlib.sha256()
    for value in values:
        _feed(digest, value)
    return digest.hexdigest()[:16]


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        digest.update(str((value.dtype.str, value.shape)).encode())
        content = value.tolist() if value.dtype.kind == "O" else np.ascontiguousarray(value)
        digest.update(repr(content).encode() if isinstance(content, list) else content.tobytes())
    elif is_device_array(value):
        _feed(digest, to_numpy(value))
    elif isinstance(value, BaseEstimator):
        digest.update(type(value).__qualname__.encode())
        _feed(digest, value.get_params(deep=False))
    elif isinstance(value, BaseClasses):
        _feed(digest, value.moments)
    elif isinstance(value, Moments):
        _feed_all(digest, (value.prototypes, value.counts, value.class_sums, value.A0))
        _feed_all(digest, [value.samples_of(label) for label in value.seen_labels.tolist()])
    elif isinstance(value, Prototypes):
        _feed_all(digest, (value.labels, value.matrix))
    elif isinstance(value, Mapping):
        _feed_all(digest, sorted(value.items(), key=lambda item: str(item[0])))
    elif isinstance(value, list | tuple):
        _feed_all(digest, value)
    elif Prototypes.is_labeled(value):
        _feed(digest, Prototypes.coerce(value))
    else:
        raise TypeError(
            f"A run can be resumed only where all it depends on can be compared; got a "
            f"{type(value).__name__}. Use plain values, arrays, Moments, Prototypes or estimators."
        )


def _feed_all(digest: Any, values: Any) -> None:
    digest.update(f"[{len(values)}]".encode())
    for value in values:
        _feed(digest, value)
