"""Refuse parts of files that contradict each other; classes call these when they are loaded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import StorageError


def quote_text(text: Any) -> str:
    """Return text of a file for a message: short, in one line, without control characters."""
    shown = repr(str(text))
    return shown if len(shown) <= 100 else f"{shown[:96]}...'"


def require_that(fits: Any, problem: str) -> None:
    """Refuse parts that contradict each other."""
    if not fits:
        raise StorageError(f"{problem} Save the file again.")


def require_shape(name: str, array: Any, *shape: int | None, kinds: str = "f") -> None:
    """Refuse an array of another shape or kind of dtype; None allows any length."""
    dtype = getattr(array, "dtype", None)
    got = type(array).__name__ if dtype is None else dtype
    fits = dtype is not None and dtype.kind in kinds
    require_that(fits, f"The array {name!r} has the wrong type, {got}.")
    fits = len(shape) == len(array.shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    wanted = " x ".join("any" if want is None else str(want) for want in shape)
    require_that(fits, f"The array {name!r} must have the shape {wanted}; got {array.shape}.")


def require_number(name: str, value: Any, low: float = -math.inf) -> None:
    """Refuse anything but a finite number of at least `low`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    rule = "a finite number" if low == -math.inf else f"a number of at least {low:g}"
    fits = is_number and math.isfinite(value) and value >= low
    require_that(fits, f"{name!r} must be {rule}; got {quote_text(value)}.")


def require_labels(name: str, labels: Any) -> None:
    """Refuse labels that are not sorted, distinct text or numbers."""
    require_shape(name, labels, None, kinds="iufbU")
    fits = len(labels) < 2 or (labels[1:] > labels[:-1]).all()
    require_that(fits, f"The labels {name!r} must be sorted and distinct.")


def require_finite(name: str, compute: Callable[[], Any]) -> Any:
    """Return the result of a computation; refuse NaN and infinity in it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        values = compute()
    require_that(np.isfinite(values).all(), f"The arrays of {name} give NaN or infinity.")
    return values
