"""MATLAB files of version 5 and 7.3, read alike: numbers as arrays, text as arrays of strings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadWarning

from .errors import DataError
from .files import largest_exact
from .matlab_tags import require_whole

_HEADER_TEXT = 116  # bytes of text, in both versions
_HEADER = 128
_DTYPES = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    "logical": np.dtype(np.bool_),
    **{kind: np.dtype(kind) for kind in ("int8", "int16", "int32", "int64")},
    **{kind: np.dtype(kind) for kind in ("uint8", "uint16", "uint32", "uint64")},
}
_TEXT = ("char", "cell")


@dataclass(frozen=True)
class MatVariable:
    """Shape and class of a variable, known before its values are read.

    Attributes
    ----------
    shape : tuple of int
        In MATLAB's orientation.
    kind : str
        MATLAB's name of the class, such as "double", "cell" or "struct".
    """

    shape: tuple[int, ...]
    kind: str

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """What NumPy will read; None for anything but numbers."""
        return _DTYPES.get(self.kind)


@dataclass(frozen=True)
class MatFile:
    """What a MATLAB file says of itself.

    Attributes
    ----------
    path : Path
    version : str
        "5" or "7.3".
    created : str
        Text of the header: who wrote the file, and when.
    variables : dict of {str: MatVariable}
    """

    path: Path
    version: str
    created: str
    variables: dict[str, MatVariable]


def describe_mat(path: str | Path) -> MatFile:
    """Return header, names, shapes and classes of a MATLAB file without reading values.

    Parameters
    ----------
    path : str or Path
        File of version 5 (or 6, 7, which share its format) or 7.3, which needs h5py.
    """
    path = Path(path)
    header = _read_header(path)
    created = header[:_HEADER_TEXT].decode("latin-1").rstrip("\0 ")
    if header.startswith(b"MATLAB 7.3"):
        with _opened_hdf5(path) as file:
            return MatFile(path, "7.3", created, dict(_hdf5_variables(file)))
    with _damage_in_one_line(path):
        require_whole(path)
        found = whosmat(str(path), chars_as_strings=False)
        variables = {name: MatVariable(shape, kind) for name, shape, kind in found}
    return MatFile(path, "5", created, variables)


def read_mat(path: str | Path, keys: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read variables of a MATLAB file; both versions give the same result.

    Parameters
    ----------
    path : str or Path
    keys : sequence of str, default=None
        Names of variables, each of which must exist; all of them by default.

    Returns
    -------
    dict of {str: ndarray}
        Numbers in MATLAB's orientation and of its class; cell arrays of text, and text, as
        one-dimensional arrays of strings (one a cell, or one a line).
    """
    file = describe_mat(path)
    keys = list(file.variables) if keys is None else list(keys)
    for key in keys:
        require_variable(file, key)
    if file.version == "7.3":
        with _opened_hdf5(file.path) as opened:
            return {key: _checked(_from_hdf5(opened, key, file), key, file) for key in keys}
    with _damage_in_one_line(file.path):
        values = loadmat(str(file.path), variable_names=keys)
        return {key: _checked(_from_version_5(values[key], key, file), key, file) for key in keys}


def require_variable(file: MatFile, key: str, *, numeric: bool = False) -> MatVariable:
    """Return shape and class of a variable, or say what there is in its place."""
    if key not in file.variables:
        known = " ".join(", ".join(sorted(file.variables)).split()) or "no variable at all"
        raise DataError(
            f"{file.path} must hold the variable `{key}`; it holds {known}. Save it under that "
            "name, or choose another file."
        )
    variable = file.variables[key]
    if variable.dtype is None and (numeric or variable.kind not in _TEXT):
        remedy = {
            "sparse": f"Save full({key}) in its place.",
            "struct": "Save its fields as variables of their own.",
        }
        raise DataError(
            f"`{key}` of {file.path} must hold numbers{'' if numeric else ' or text'}; it is of "
            f"MATLAB's class {variable.kind}. "
            f"{remedy.get(variable.kind, 'Save a matrix of numbers in its place.')}"
        )
    return variable


def whole_numbers(values: np.ndarray, subject: str) -> np.ndarray:
    """Return whole numbers, which MATLAB keeps as doubles, as one-dimensional int64."""
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
            f"{flat.dtype} is exact up to {limit} only. Count from 1, or save text."
        )
    return flat.astype(np.int64)


def _read_header(path: Path) -> bytes:
    if not path.is_file():
        beside = sorted(other.name for other in path.parent.glob("*.mat"))
        holds = f"its folder holds {', '.join(beside)}" if beside else "there is no .mat beside it"
        raise DataError(f"There must be a file {path}; {holds}. Check the path.")
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except OSError as error:
        raise DataError(f"{path} must be readable; {error.strerror}. Change its mode.") from None
    if len(header) < _HEADER or not header.startswith((b"MATLAB 5.0", b"MATLAB 7.3")):
        raise DataError(
            f"{path} must be a MATLAB file of version 5 or 7.3; it starts with {header[:10]!r}. "
            "Download it again, or save it with save(..., '-v7')."
        )
    return header


@contextmanager
def _damage_in_one_line(path: Path) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", MatReadWarning)
            yield
    except (DataError, ImportError):
        raise
    except MemoryError:
        raise DataError(
            f"{path} must fit into memory; it does not. Save fewer samples, or single."
        ) from None
    except Exception as error:  # parsers raise whatever they stumble upon
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{path} must be a whole MATLAB file; reading it failed ({reason}). It is damaged or "
            "incomplete: download or save it again."
        ) from None


@contextmanager
def _opened_hdf5(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise ImportError(
            f"Reading {path}, a MATLAB file of version 7.3, needs h5py; install h5py, or the "
            'extra: pip install "zonkey[data]" (from a clone: pip install ".[data]").'
        ) from None
    with _damage_in_one_line(path), h5py.File(path, "r") as file:
        yield file


def _hdf5_variables(file: Any) -> Iterator[tuple[str, MatVariable]]:
    for name, node in file.items():
        if name.startswith("#"):  # where MATLAB keeps what cells refer to
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
    if node.attrs.get("MATLAB_empty", 0):  # the values are then the shape
        return tuple(int(length) for length in node[()])
    return tuple(node.shape[::-1])


def _from_hdf5(file: Any, key: str, about: MatFile) -> np.ndarray:
    node, variable = file[key], about.variables[key]
    if variable.kind == "char":
        return np.array(_hdf5_lines(node), dtype=str)
    if variable.kind == "cell":
        if 0 in variable.shape:
            return np.array([], dtype=str)
        cells = [file[reference] for reference in node[()].ravel()]
        texts = [_hdf5_lines(cell) if _hdf5_class(cell) == "char" else None for cell in cells]
        return _one_line_a_cell(texts, key, about)
    if 0 in variable.shape:
        return np.empty(variable.shape, dtype=variable.dtype)
    return node[()].T


def _hdf5_lines(node: Any) -> list[str]:
    if 0 in _hdf5_shape(node):
        return []
    return [row.astype("<u2").tobytes().decode("utf-16-le") for row in node[()].T]


def _from_version_5(values: Any, key: str, about: MatFile) -> np.ndarray:
    if about.variables[key].kind != "cell":
        return values
    cells = [np.asarray(cell) for cell in values.ravel(order="F")]
    texts = [cell.tolist() if cell.dtype.kind == "U" else None for cell in cells]
    return _one_line_a_cell(texts, key, about)


def _one_line_a_cell(texts: list[Any], key: str, about: MatFile) -> np.ndarray:
    if any(lines is None or len(lines) > 1 for lines in texts):
        raise DataError(
            f"Every cell of `{key}` of {about.path} must hold one line of text; some hold "
            "something else. Save numbers as a matrix."
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
            f"real({key}) in its place."
        )
    # MATLAB stores doubles that happen to be small whole numbers as integers of one or two bytes.
    return values.astype(dtype, copy=False)
