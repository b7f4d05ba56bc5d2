"""Read MATLAB files of version 7.3, which are HDF5: shapes, numbers, text and cells of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.config import rows_per_block
from zonkey.optional import require_package

_HIDDEN = "#"  # begins the names of groups that MATLAB itself uses


def describe_hdf5(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and MATLAB class of every variable."""
    with _open(path) as file:
        names = sorted(name for name in file if not name.startswith(_HIDDEN))
        return {name: (_shape(file[name]), _class(file[name])) for name in names}


def read_hdf5(path: Path, key: str) -> np.ndarray:
    """Return a variable in MATLAB's orientation; text as strings, cells as an array of objects."""
    with _open(path) as file:
        stored = file[key]
        kind = _class(stored)
        if "MATLAB_empty" in stored.attrs:
            return np.empty(_shape(stored), dtype=object if kind == "cell" else None)
        if kind == "cell":
            cells = np.empty(stored.shape[::-1], dtype=object)
            for place, reference in np.ndenumerate(stored[()].T):
                cells[place] = _cell(file[reference])
            return cells
        return _cell(stored) if kind == "char" else stored[()].T


def hdf5_blocks(path: Path, key: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first column and the columns of each block."""
    with _open(path) as file:
        stored = file[key]  # transposed: a row of it is a column
        size = max(1, rows_per_block(max(1, stored.dtype.itemsize * int(stored.shape[1]))))
        for start in range(0, stored.shape[0], size):
            yield start, stored[start : start + size].T


def _open(path: Path) -> Any:
    return require_package("h5py", "Reading MATLAB files of version 7.3").File(path, "r")


def _class(stored: Any) -> str:
    """Return MATLAB's name of the class; "struct" and "sparse" are groups."""
    if "MATLAB_sparse" in stored.attrs:
        return "sparse"
    found = stored.attrs.get("MATLAB_class")
    if found is None:  # written by another program
        return "struct" if not hasattr(stored, "dtype") else _NAMES.get(stored.dtype.str[1:], "")
    return found.decode() if isinstance(found, bytes) else str(found)


def _shape(stored: Any) -> tuple[int, ...]:
    if not hasattr(stored, "shape"):
        return (1, 1)
    if "MATLAB_empty" in stored.attrs:  # its values are the shape
        return tuple(int(n) for n in stored[()])
    return tuple(stored.shape[::-1])


def _cell(stored: Any) -> np.ndarray:
    """Return text as an array of lines, numbers as they are."""
    if _class(stored) != "char":
        return stored[()].T
    if "MATLAB_empty" in stored.attrs:
        return np.array([], dtype=str)
    codes = np.atleast_2d(stored[()]).T.astype("<u2")
    return np.array([row.tobytes().decode("utf-16-le") for row in codes], dtype=str)


_NAMES = {"f8": "double", "f4": "single", **{f"{s}{n}": f"{'u' if s == 'u' else ''}int{8 * n}"
          for s in "iu" for n in (1, 2, 4, 8)}}  # fmt: skip
