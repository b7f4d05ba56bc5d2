"""Read MATLAB files of versions 5 and 7.3 alike: numbers as arrays, text as arrays of strings."""

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

from .dataset import DataError
from .readers import largest_exact, reading, required_package

_HEADER_TEXT, _HEADER = 116, 128  # bytes, in both versions
_DTYPES = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    "logical": np.dtype(np.bool_),
    **{f"{sign}int{size}": np.dtype(f"{sign}int{size}") for sign in ("", "u")
       for size in (8, 16, 32, 64)},
}  # fmt: skip

# Types of the parts of a variable in version 5
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13})
_PREAMBLE = [6, 5, 1]  # flags, shape and name
_COMPLEX = 0x800  # flag
_VALUES = {  # by MATLAB class: types of the values, and number of parts that hold them
    1: (frozenset({_MATRIX}), None),  # cells, one part each
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
    """Header and variables of a MATLAB file, without values."""

    path: Path
    version: str  # "5" or "7.3"
    created: str  # text of the header: who wrote the file, and when
    variables: dict[str, MatVariable]


def describe_mat(path: str | Path) -> MatFile:
    """Return header, names, shapes and classes of a MATLAB file without reading values."""
    path = Path(path)
    header = _read_header(path)
    created = header[:_HEADER_TEXT].decode("latin-1").rstrip("\0 ")
    if header.startswith(b"MATLAB 7.3"):
        with _opened_hdf5(path) as file:
            return MatFile(path, "7.3", created, dict(_hdf5_variables(file)))
    with _strict(path):
        _require_whole(path)
        found = whosmat(str(path), chars_as_strings=False)
    return MatFile(path, "5", created, {name: MatVariable(*about) for name, *about in found})


def read_mat(path: str | Path, keys: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read variables of a MATLAB file, all of them by default.

    Numbers keep MATLAB's orientation and class. Text, and cell arrays of text, become
    one-dimensional arrays of strings, one per line or cell.
    """
    file = describe_mat(path)
    keys = list(file.variables) if keys is None else list(keys)
    for key in keys:
        require_variable(file, key)
    if file.version == "7.3":
        with _opened_hdf5(file.path) as opened:
            return {key: _checked(_from_hdf5(opened, key, file), key, file) for key in keys}
    with _strict(file.path):
        values = loadmat(str(file.path), variable_names=keys)
        return {key: _checked(_from_version_5(values[key], key, file), key, file) for key in keys}


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
    limit = largest_exact(flat.dtype) if flat.dtype.kind == "f" else int(np.iinfo(np.int64).max)
    beyond = flat[(flat > limit) | (flat < -limit)]
    if beyond.size:
        raise DataError(
            f"{subject} must hold exact whole numbers; got {float(beyond[0]):.0f}, and "
            f"{flat.dtype} is exact only up to {limit}. Count from 1, or save text."
        )
    return flat.astype(np.int64)


@contextmanager
def _strict(path: Path) -> Iterator[None]:
    """Turn errors and warnings of SciPy's reader into a one-line DataError."""
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", MatReadWarning)
        yield


def _read_header(path: Path) -> bytes:
    if not path.is_file():
        others = sorted(other.name for other in path.parent.glob("*.mat"))
        holds = f"its folder holds {', '.join(others)}" if others else "its folder has no .mat file"
        raise DataError(f"The file {path} does not exist; {holds}. Check the path.")
    with reading(path), path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith((b"MATLAB 5.0", b"MATLAB 7.3")):
        raise DataError(
            f"{path} must be a MATLAB file of version 5 or 7.3; it starts with {header[:10]!r}. "
            "Download it again, or save it with save(..., '-v7')."
        )
    return header


# Version 5


def _require_whole(path: Path) -> None:
    """Raise ValueError or struct.error for a truncated or garbled file; no values are read.

    SciPy may crash, rather than raise, if an uncompressed file names an unknown type.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        order = "<" if data[126:128] == b"IM" else ">"
        start = _HEADER
        while start < len(data):
            kind, length = struct.unpack_from(f"{order}II", data, start)
            start += 8
            if start + length > len(data) or kind not in (_MATRIX, _COMPRESSED):
                raise ValueError(f"no whole variable at byte {start - 8} of {len(data)}")
            if kind == _MATRIX:
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
        if kind == _MATRIX:
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
    n_complex = 1 if flags & _COMPLEX else 0
    if not allowed.issuperset(kinds[3:]) or len(kinds) != len(_PREAMBLE) + n + n_complex:
        raise ValueError(f"no proper values before byte {end}")


def _from_version_5(values: Any, key: str, about: MatFile) -> np.ndarray:
    if about.variables[key].kind != "cell":
        return values
    cells = [np.asarray(cell) for cell in values.ravel(order="F")]
    texts = [cell.tolist() if cell.dtype.kind == "U" else None for cell in cells]
    return _one_line_per_cell(texts, key, about)


# Version 7.3


@contextmanager
def _opened_hdf5(path: Path) -> Iterator[Any]:
    h5py = required_package("h5py", f"{path}, a MATLAB file of version 7.3,")
    with reading(path), h5py.File(path, "r") as file:
        yield file


def _hdf5_variables(file: Any) -> Iterator[tuple[str, MatVariable]]:
    for name, node in file.items():
        if name.startswith("#"):  # targets of references in cells
            continue
        if not hasattr(node, "shape"):
            sparse = "MATLAB_sparse" in node.attrs
            yield name, MatVariable((), "sparse" if sparse else "struct")
        else:
            yield name, MatVariable(_hdf5_shape(node), _hdf5_class(node))


def _hdf5_class(node: Any) -> str:
    kind = node.attrs.get("MATLAB_class", b"unknown")
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def _hdf5_shape(node: Any) -> tuple[int, ...]:
    if node.attrs.get("MATLAB_empty", 0):  # then the values are the shape
        return tuple(int(length) for length in node[()])
    return tuple(node.shape[::-1])


def _from_hdf5(file: Any, key: str, about: MatFile) -> np.ndarray:
    node, variable = file[key], about.variables[key]
    if variable.kind == "char":
        return np.array(_hdf5_lines(node), dtype=str)
    empty = 0 in variable.shape
    if variable.kind == "cell":
        cells = [] if empty else [file[reference] for reference in node[()].ravel()]
        texts = [_hdf5_lines(cell) if _hdf5_class(cell) == "char" else None for cell in cells]
        return _one_line_per_cell(texts, key, about)
    return np.empty(variable.shape, dtype=variable.dtype) if empty else node[()].T


def _hdf5_lines(node: Any) -> list[str]:
    if 0 in _hdf5_shape(node):
        return []
    return [row.astype("<u2").tobytes().decode("utf-16-le") for row in node[()].T]


# Both versions


def _one_line_per_cell(texts: list[Any], key: str, about: MatFile) -> np.ndarray:
    if any(lines is None or len(lines) > 1 for lines in texts):
        raise DataError(
            f"Every cell of `{key}` of {about.path} must hold one line of text; some do not. Save "
            "numbers as a matrix."
        )
    return np.array(["".join(lines) for lines in texts], dtype=str)


def _checked(values: np.ndarray, key: str, about: MatFile) -> np.ndarray:
    """Give numbers the class that the file states, in the byte order of this machine."""
    dtype = about.variables[key].dtype
    if dtype is None:
        return values
    if values.dtype.kind not in "iufb":
        raise DataError(
            f"`{key}` of {about.path} must hold real numbers; got {values.dtype}. Save "
            f"real({key}) instead."
        )
    # MATLAB stores doubles that are small whole numbers as integers of one or two bytes.
    return values.astype(dtype, copy=False)
