"""Files of named arrays (npz, npy, h5, pt): what is in them, before any values are read."""

from __future__ import annotations

import math
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .files import existing_file, needed, readable

_MOST_NAMED = 8  # arrays that an error message names


@dataclass(frozen=True, eq=False)
class StoredArray:
    """One array of a file: what it is called and its shape, before its values are read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], np.ndarray]
    file: str

    @property
    def source(self) -> str:
        """Where it is, for error messages."""
        return _source(self.name, self.file)


def stored_arrays(path: str | Path) -> list[StoredArray]:
    """Return the arrays of a file, with their shapes."""
    path = existing_file(path, ARRAY_ENDINGS)
    arrays = _READERS[path.suffix.lower()](path)
    if not arrays:
        raise DataError(
            f'{path.name} holds no array. Save the features in it as "features" and the labels as '
            '"labels".'
        )
    return arrays


def pick_named(
    arrays: Sequence[StoredArray], key: str | None, names: Sequence[str], parameter: str
) -> StoredArray | None:
    """Return the array of this key, which must exist, or of the first name that exists."""
    if key is not None:
        for array in arrays:
            if array.name == key:
                return array
        raise DataError(
            f"`{parameter}` must name an array of {arrays[0].file}; got {key!r}, and there is "
            f"{contents(arrays)}. Choose one of those."
        )
    for name in names:
        of_name = [array for array in arrays if array.name.rsplit("/", 1)[-1] == name]
        if len(of_name) > 1:
            raise DataError(
                f"{arrays[0].file} must hold one array `{name}`; it has {contents(of_name)}. Pass "
                f"`{parameter}` with one of them."
            )
        if of_name:
            return of_name[0]
    return None


def contents(arrays: Sequence[StoredArray]) -> str:
    """List arrays with their shapes for an error message."""
    shown = [f"{array.name or 'an unnamed array'} {array.shape}" for array in arrays[:_MOST_NAMED]]
    more = len(arrays) - _MOST_NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _source(name: str, file: str) -> str:
    return f"`{name}` in {file}" if name else file


def _npy_arrays(path: Path) -> list[StoredArray]:
    with readable(path), path.open("rb") as file:
        shape, dtype = _npy_header(file, path.stat().st_size, path)
    return [StoredArray("", shape, dtype, partial(_read_npy, path), path.name)]


def _read_npy(path: Path) -> np.ndarray:
    with readable(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _npz_arrays(path: Path) -> list[StoredArray]:
    arrays = []
    with readable(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    shape, dtype = _npy_header(file, member.file_size, path)
                name = member.filename.removesuffix(".npy")
                read = partial(_read_npz, path, name)
                arrays.append(StoredArray(name, shape, dtype, read, path.name))
    return arrays


def _read_npz(path: Path, name: str) -> np.ndarray:
    with readable(path), np.load(path, allow_pickle=False) as file:
        return file[name]


def _npy_header(file: Any, size: int, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array; the file of this size must have room for its values."""
    version = np.lib.format.read_magic(file)
    # Version 3 differs from 2 in the names of fields only, and arrays with fields are refused.
    first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape}")
    promised = file.tell() + math.prod(shape) * dtype.itemsize
    if size < promised and dtype.kind != "O":
        raise DataError(
            f"{path.name} must be a whole {path.suffix.lower()} file; it is cut short ({size} of "
            f"{promised} bytes). Copy it, or save it, again."
        )
    return shape, dtype


def _h5_arrays(path: Path) -> list[StoredArray]:
    h5py = needed("h5py", "data", path.suffix)
    arrays = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and node.shape is not None:
            is_text = h5py.check_string_dtype(node.dtype) is not None
            dtype = np.dtype(str) if is_text else node.dtype
            read = partial(_read_h5, path, name, is_text)
            arrays.append(StoredArray(name, node.shape, dtype, read, path.name))

    with readable(path), h5py.File(path, "r") as file:
        file.visititems(visit)
    return arrays


def _read_h5(path: Path, name: str, is_text: bool) -> np.ndarray:
    h5py = needed("h5py", "data", path.suffix)
    with readable(path), h5py.File(path, "r") as file:
        node = file[name]
        return np.asarray(node.asstr()[()], dtype=str) if is_text else node[()]


def _torch_arrays(path: Path) -> list[StoredArray]:
    torch = needed("torch", "torch", path.suffix)
    try:
        with readable(path):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise DataError(
            f"{path.name} must hold tensors, lists and dicts alone; it is damaged, or holds other "
            "objects, which are not loaded because they could run code. Save "
            '{"features": X, "labels": y}.'
        ) from None
    if isinstance(content, Mapping):
        return [_torch_array(str(key), value, path.name) for key, value in content.items()]
    if isinstance(content, tuple | list):
        return [_torch_array(str(n), value, path.name) for n, value in enumerate(content)]
    return [_torch_array("", content, path.name)]


def _torch_array(name: str, value: Any, file: str) -> StoredArray:
    try:
        array = _values_of(value)
    except (TypeError, RuntimeError):  # sparse, quantized
        raise DataError(
            f"Tensors must be dense and of a common type; {_source(name, file)} is not. Save "
            "X.to_dense().float()."
        ) from None
    # torch reads a file whole, so that the values are there already.
    return StoredArray(name, array.shape, array.dtype, lambda: array, file)


def _values_of(value: Any) -> np.ndarray:
    if hasattr(value, "numpy"):
        tensor = value.detach()
        # NumPy has no bfloat16.
        return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.array(None, dtype=object)


_READERS: dict[str, Callable[[Path], list[StoredArray]]] = {
    ".npz": _npz_arrays,
    ".npy": _npy_arrays,
    ".pt": _torch_arrays,
    ".pth": _torch_arrays,
    ".h5": _h5_arrays,
    ".hdf5": _h5_arrays,
}
ARRAY_ENDINGS = tuple(_READERS)
