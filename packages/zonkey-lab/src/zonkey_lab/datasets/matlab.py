"""Read MATLAB files of versions 5 to 7.3: numbers as arrays, text as arrays of strings."""

from __future__ import annotations

import math
import mmap
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadWarning

from zonkey.errors import DataError
from zonkey.files.readers import find_exact_limit, require_room, translate_errors

from .mat_columns import COMPLEX, COMPRESSED, HEADER, MATRIX, column_blocks
from .mat_hdf5 import describe_hdf5, hdf5_blocks, read_hdf5

_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = {kind: np.dtype(kind) for kind in ("double", "single", *_INTEGERS)}
_DTYPES["logical"] = np.dtype(bool)

# Types of the parts of a variable
_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13})
_PREAMBLE = [6, 5, 1]  # flags, shape and name
_VALUES = {  # by MATLAB class: types of the values, and number of parts that hold them
    1: (frozenset({MATRIX}), None),  # cells, one part each
    4: (_NUMBERS | {16, 17, 18}, 1),  # text
    5: (_NUMBERS, 3),  # sparse
    **dict.fromkeys(range(6, 16), (_NUMBERS, 1)),
}


@dataclass(frozen=True)
class MatVariable:
    """Shape and MATLAB class, such as "double", "cell" or "struct", of a variable."""

    shape: tuple[int, ...]
    kind: str

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """NumPy type of the values; None if they are not numbers."""
        return _DTYPES.get(self.kind)


@dataclass(frozen=True)
class MatFile:
    """Shapes and classes of the variables of a MATLAB file."""

    path: Path
    variables: dict[str, MatVariable]
    is_hdf5: bool = False  # version 7.3


def describe_mat(path: str | Path) -> MatFile:
    """Return names, shapes and classes of the variables without reading values."""
    path = Path(path)
    if not path.is_file():
        others = sorted(other.name for other in path.parent.glob("*.mat"))
        holds = f"its folder holds {', '.join(others)}" if others else "its folder has no .mat file"
        raise DataError(f"The file {path} does not exist; {holds}. Check the path.")
    with _read_strictly(path):
        with path.open("rb") as file:
            header = file.read(HEADER)
        if header.startswith(b"MATLAB 7.3"):
            found = describe_hdf5(path)
            return MatFile(path, {name: MatVariable(*about) for name, about in found.items()}, True)
        if len(header) < HEADER or not header.startswith(b"MATLAB 5.0"):
            raise DataError(
                f"{path} must be a MATLAB file of version 5 to 7.3; it starts with "
                f"{header[:10]!r}. Download it again, or save it with save(..., '-v7')."
            )
        _require_whole(path)
        found = whosmat(str(path), chars_as_strings=False)
    return MatFile(path, {name: MatVariable(*about) for name, *about in found})


def read_mat(path: str | Path, keys: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read variables of a MATLAB file, all of them by default.

    Numbers keep MATLAB's orientation and class. Text, and cell arrays of text, become
    one-dimensional arrays of strings, one per line or cell.
    """
    file = describe_mat(path)
    keys = list(file.variables) if keys is None else list(keys)
    for key in keys:
        require_variable(file, key)
    asked = [file.variables[key] for key in keys]
    n_bytes = sum(math.prod(v.shape) * (v.dtype or np.dtype(bool)).itemsize for v in asked)
    require_room(str(file.path), n_bytes, file.path.stat().st_size)
    with _read_strictly(file.path):
        if file.is_hdf5:
            values = {key: read_hdf5(file.path, key) for key in keys}
        else:
            values = loadmat(str(file.path), variable_names=keys)
        return {key: _convert_values(values[key], key, file) for key in keys}


def require_variable(file: MatFile, key: str, *, numeric: bool = False) -> MatVariable:
    """Return shape and class of a variable that must hold numbers or, if allowed, text."""
    if key not in file.variables:
        known = " ".join(", ".join(sorted(file.variables)).split()) or "no variable"
        raise DataError(
            f"{file.path} must hold the variable `{key}`; it holds {known}. Save it under that "
            "name, or choose another file."
        )
    variable = file.variables[key]
    if variable.dtype is None and (numeric or variable.kind not in ("char", "cell")):
        remedy = {
            "sparse": f"Save full({key}) instead.",
            "struct": "Save its fields as separate variables.",
        }
        raise DataError(
            f"`{key}` of {file.path} must hold numbers{'' if numeric else ' or text'}; it is of "
            f"MATLAB's class {variable.kind}. "
            f"{remedy.get(variable.kind, 'Save a matrix of numbers instead.')}"
        )
    return variable


def require_matrix(
    file: MatFile, key: str, shape: tuple[int | None, int | None], rule: str
) -> MatVariable:
    """Return shape and class of a matrix of numbers; `shape` is None along a free axis."""
    variable = require_variable(file, key, numeric=True)

    def fits(found: tuple[int, ...]) -> bool:
        return len(found) == 2 and all(n in (None, m) for n, m in zip(shape, found, strict=True))

    if not fits(variable.shape):
        transposed = fits(variable.shape[::-1])
        remedy = f"It is transposed: save {key}'" if transposed else "Use files that fit together"
        raise DataError(
            f"`{key}` of {file.path} must have {rule}; its shape is {variable.shape}. {remedy}."
        )
    return variable


def read_numbers(file: MatFile, key: str) -> np.ndarray:
    """Read a variable that must hold numbers."""
    require_variable(file, key, numeric=True)
    return read_mat(file.path, [key])[key]


def read_columns(file: MatFile, key: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first column and the columns of each block of a matrix.

    The matrix is never in memory at once. Numbers may be of a smaller type than MATLAB's class.
    """
    require_variable(file, key, numeric=True)
    blocks = (hdf5_blocks if file.is_hdf5 else column_blocks)(file.path, key)
    while True:
        with _read_strictly(file.path):  # errors of the caller are its own
            found = next(blocks, None)
        if found is None:
            return
        if found[1].dtype.kind not in "iufb":
            raise _complex(f"`{key}` of {file.path}", found[1].dtype)
        yield found


def read_into(values: np.ndarray, file: MatFile, key: str) -> None:
    """Copy a matrix to `values`, of the same shape and of any type, a block at a time."""
    file = describe_mat(file.path)  # it may have changed since it was described
    require_room(str(file.path), values.nbytes, file.path.stat().st_size)
    for start, block in read_columns(file, key):
        with np.errstate(over="ignore"):  # infinity is refused where features are checked
            values[:, start : start + block.shape[1]] = block


def read_whole_numbers(file: MatFile, key: str) -> np.ndarray:
    """Read a variable that must hold whole numbers, as one-dimensional int64."""
    return whole_numbers(read_numbers(file, key), f"`{key}` of {file.path}")


def whole_numbers(values: np.ndarray, subject: str) -> np.ndarray:
    """Return whole numbers, which MATLAB stores as doubles, as one-dimensional int64."""
    flat = values.ravel(order="F")
    if flat.dtype.kind not in "iufb":
        raise DataError(f"{subject} must hold whole numbers; got text. Save the numbers instead.")
    if flat.dtype.kind == "f":
        broken = flat[~(np.isfinite(flat) & (flat == np.floor(flat)))]
        if broken.size:
            raise DataError(
                f"{subject} must hold whole numbers; got {broken[0]:g}. Save positions or class "
                "numbers, not measurements."
            )
    limit = find_exact_limit(flat.dtype) if flat.dtype.kind == "f" else int(np.iinfo(np.int64).max)
    beyond = flat[(flat > limit) | (flat < -limit)]
    if beyond.size:
        raise DataError(
            f"{subject} must hold exact whole numbers; got {float(beyond[0]):.0f}, and "
            f"{flat.dtype} is exact up to {limit} only. Count from 1, or save text."
        )
    return flat.astype(np.int64)


@contextmanager
def _read_strictly(path: Path) -> Iterator[None]:
    """Turn errors and warnings of SciPy's reader into a one-line DataError."""
    with translate_errors(path), warnings.catch_warnings():
        warnings.simplefilter("error", MatReadWarning)
        yield


def _require_whole(path: Path) -> None:
    """Raise ValueError or struct.error for a truncated or garbled file; no values are read.

    SciPy may crash, rather than raise, if an uncompressed file names an unknown type.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        order = "<" if data[126:128] == b"IM" else ">"
        start = HEADER
        while start < len(data):
            kind, length = struct.unpack_from(f"{order}II", data, start)
            start += 8
            if start + length > len(data) or kind not in (MATRIX, COMPRESSED):
                raise ValueError(f"no whole variable at byte {start - 8} of {len(data)}")
            if kind == MATRIX:
                _require_parts(data, order, start, start + length)
            start += length


def _require_parts(data: mmap.mmap, order: str, start: int, end: int) -> None:
    """Check types and number of the parts of a matrix, and of the matrices in it."""
    if start == end:  # an empty cell
        return
    flags = struct.unpack_from(f"{order}I", data, start + 8)[0]
    kinds, lengths, shape_at = [], [], start + 24
    while start < end:
        kind, length = struct.unpack_from(f"{order}II", data, start)
        start += 8
        if kind > 0xFFFF:  # up to four bytes of values, stored in place of the length
            kind, length = kind & 0xFFFF, 0
        if kind == MATRIX:
            _require_parts(data, order, start, start + length)
        kinds.append(kind)
        lengths.append(length)
        start += length + -length % 8
    allowed, n = _VALUES.get(flags & 0xFF, (None, None))
    if allowed is None:
        return
    if start > end or kinds[:3] != _PREAMBLE or lengths[1] < 8:
        raise ValueError(f"no flags, shape and name before byte {end}")
    if n is None:
        n = math.prod(struct.unpack_from(f"{order}{lengths[1] // 4}i", data, shape_at))
    n_complex = 1 if flags & COMPLEX else 0
    if not allowed.issuperset(kinds[3:]) or len(kinds) != len(_PREAMBLE) + n + n_complex:
        raise ValueError(f"no proper values before byte {end}")


def _convert_values(values: Any, key: str, file: MatFile) -> np.ndarray:
    """Give numbers the class that the file states; turn cells into strings."""
    subject, dtype = f"`{key}` of {file.path}", file.variables[key].dtype
    if file.variables[key].kind == "cell":
        cells = [np.asarray(cell) for cell in values.ravel(order="F")]
        if any(cell.dtype.kind != "U" or cell.size > 1 for cell in cells):
            raise DataError(
                f"Every cell of {subject} must hold one line of text; some do not. Save numbers as "
                "a matrix."
            )
        return np.array(["".join(cell.tolist()) for cell in cells], dtype=str)
    if dtype is None:
        return values
    if values.dtype.kind not in "iufb":
        raise _complex(subject, values.dtype)
    # MATLAB stores doubles that are small whole numbers as integers of one or two bytes.
    return values.astype(dtype, copy=False)


def _complex(subject: str, dtype: Any) -> DataError:
    key = subject.split("`")[1]
    return DataError(f"{subject} must hold real numbers; got {dtype}. Save real({key}) instead.")
