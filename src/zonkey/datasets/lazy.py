"""A feature matrix that is read when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import DataError

_CHECKED_AT_A_TIME = 1 << 24  # entries, so that a memory map is not read into memory at once


class LazyMatrix:
    """Features of known shape whose values are read, and checked, on first use.

    Parameters
    ----------
    shape : tuple of two ints
        Samples, dimensions.
    dtype : dtype
    read : callable
        Returns the matrix; a memory map where the format allows one.
    source : str
        Where it is read from, for error messages.
    """

    def __init__(
        self, shape: tuple[int, int], dtype: Any, read: Callable[[], np.ndarray], source: str
    ) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self.source = source
        self._read = read
        self._values: np.ndarray | None = None

    @classmethod
    def of(cls, values: np.ndarray, source: str = "memory") -> LazyMatrix:
        """Wrap a matrix, or a memory map, that is already there; NaN is found on first use."""
        matrix = np.asanyarray(values)
        if matrix.ndim != 2:
            raise DataError(
                f"Features must be a matrix, one sample a row; {source} has shape {matrix.shape}. "
                "Flatten each sample into a row."
            )
        return cls(matrix.shape, matrix.dtype, lambda: matrix, source)

    def values(self) -> np.ndarray:
        """Return the matrix, read-only."""
        if self._values is None:
            try:
                values = self._read()
            except MemoryError:
                raise DataError(
                    f"Features must fit into memory; {self.source} has {self.shape[0]} x "
                    f"{self.shape[1]} of type {self.dtype}. Save fewer samples, or float32."
                ) from None
            if values.shape != self.shape:
                raise DataError(
                    f"Features of {self.source} were {self.shape} when the file was opened and are "
                    f"{values.shape} now. Leave the file alone while it is in use."
                )
            require_finite(values, self.source)
            values = values.view()
            values.flags.writeable = False
            self._values = values
        return self._values

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"LazyMatrix({self.shape[0]} x {self.shape[1]} {self.dtype}, {self.source})"


def require_finite(values: np.ndarray, source: str) -> None:
    """Refuse NaN, infinity and anything that is not a number, in blocks of bounded size."""
    if values.dtype.kind not in "fiu":
        raise DataError(
            f"Features must be real numbers; {source} holds {values.dtype}. Convert to float32."
        )
    if values.dtype.kind != "f":
        return
    rows = max(1, _CHECKED_AT_A_TIME // max(1, values.shape[1]))
    for start in range(0, len(values), rows):
        bad = ~np.isfinite(values[start : start + rows]).all(axis=1)
        if bad.any():
            row = start + int(np.argmax(bad))
            raise DataError(
                f"Features must be finite; row {row} of {source} holds NaN or infinity. Drop such "
                "rows, or impute them before saving."
            )
