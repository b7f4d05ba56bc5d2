"""Read arrays and tables from files; a damaged or misnamed file gives a one-line error."""

from __future__ import annotations

import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import DataError
from ..optional import require_package
from ..streaming.sources import row_reader

TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
ZARR = ".zarr"
FOLDER = "a folder of .parquet files"  # in place of an ending
_ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")  # files of a zarr store
_MOST_NAMED = 8  # arrays that an error message names
_MOST_HEADER = 1 << 16  # bytes
# A compressed array may be this large, or this many times as large as in the file.
_LARGE, _EXPANSION = 1 << 28, 500

# First bytes of a file, and the endings that such a file may have. Long enough that no heading of
# a table starts like this.
_SIGNATURES: dict[bytes, tuple[str, ...]] = {
    b"\x93NUMPY": (".npy",),
    b"\x89HDF\r\n\x1a\n": (".h5", ".hdf5"),
    b"PAR1\x15": (".parquet",),
    b"MATLAB 5": (".mat",),
    b"MATLAB 7": (".mat",),
    b"\x1f\x8b": (".gz",),
    b"\x80\x02": (".pt", ".pth"),
}


def ending_of(path: Path) -> str:
    """Return the ending that identifies the format of a file, or of a folder used as one."""
    if path.name.lower().endswith(f"{ZARR}.zip") or any((path / m).is_file() for m in _ZARR_MARKS):
        return ZARR
    return FOLDER if path.is_dir() and parquet_files(path) else path.suffix.lower()


def parquet_files(folder: Path) -> list[Path]:
    """Return the parquet files of a folder, sorted by name."""
    return sorted(path for path in folder.glob("*.parquet") if path.is_file())


def require_existing(path: str | Path, endings: Sequence[str]) -> Path:
    """Return the path of a file whose ending is allowed and agrees with its content.

    A folder used as a file, such as a zarr store, is allowed.
    """
    path = Path(path)
    ending = ending_of(path)
    if path.is_dir() and ending in (ZARR, FOLDER) and ending in endings:
        return path
    if path.is_dir():
        raise DataError(f"{path} must be a file; it is a folder. Pass a file in it.")
    if not path.is_file():
        raise DataError(f"{path} does not exist. Check the path.")
    if ending not in endings:
        raise DataError(
            f"The file must end in {' or '.join(endings)}; got {path.name}. Save it in such a "
            "format."
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty. Check what was saved.")
    found = _endings_of_content(path)
    if found and ending not in found:
        remedies = {
            ".xlsx": "Save the sheet as CSV UTF-8.",
            ".gz": "Unpack it first.",
            ".zip": "Unpack it, and pass the file in it.",
        }
        raise DataError(
            f"{path.name} must hold what its ending says; its content is that of a {found[0]} "
            f"file. {remedies.get(found[0], f'Rename it to {path.stem}{found[0]}.')}"
        )
    return path


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn any failure to read a file into a one-line DataError."""
    try:
        yield
    except (DataError, ImportError):
        raise
    except PermissionError:
        raise DataError(f"{path} must be readable; permission denied. Change its mode.") from None
    except MemoryError:
        raise DataError(
            f"{path} must fit into memory; it does not. Save fewer samples, or float32."
        ) from None
    except Exception as error:  # parsers raise errors of any type
        raise DataError(
            f"{path} must be a whole {ending_of(path)} file; it is damaged or cut short "
            f"({join_lines(error)[:80]}). Download or save it again."
        ) from None


def join_lines(error: Exception) -> str:
    """Return the message of an error in one line, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with Unix line ends."""
    with translate_errors(path):
        content = path.read_bytes()
    return decode_text(content, path)


def decode_text(content: bytes, path: Path) -> str:
    """Return the content of a UTF-8 file as text, with Unix line ends."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        if is_utf16(content):
            raise DataError(
                f"{path.name} must be UTF-8 text; it is UTF-16. Save the file as UTF-8."
            ) from None
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path.name} must be UTF-8 text; byte 0x{content[error.start]:02x} at position "
            f"{error.start} (line {line}) is not. Save the file as UTF-8."
        ) from None
    if not text.strip("\ufeff \t\r\n"):
        raise DataError(f"{path.name} is empty. Check what was saved.")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def is_utf16(content: bytes) -> bool:
    """Whether text begins with the mark of UTF-16."""
    return content[:2] in (b"\xff\xfe", b"\xfe\xff")


def require_room(source: str, n_bytes: int, n_stored: int) -> None:
    """Refuse values that do not fit into memory, or that look like a decompression bomb."""
    if n_bytes > total_memory():
        raise DataError(
            f"{source} must fit into memory; it needs {n_bytes / 1e9:.1f} GB of "
            f"{total_memory() / 1e9:.1f} GB. Save fewer samples, or float32."
        )
    if n_bytes > _LARGE and n_bytes > _EXPANSION * n_stored:
        raise DataError(
            f"{source} must not be a decompression bomb; {n_stored / 1e6:.1f} MB of the file "
            f"expand to {n_bytes / 1e9:.1f} GB. Check what was saved; if it is right, save it "
            "without compression."
        )


def total_memory() -> float:
    """Return the bytes of memory that a process may have."""
    try:
        found = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows
        return math.inf
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return found
    return min(found, float(limit)) if limit.isdigit() else found


def find_exact_limit(dtype: np.dtype[Any]) -> int:
    """Return the number up to which a float type holds every whole number: 2^53 for doubles."""
    return 2 ** min(np.finfo(dtype).nmant + 1, 53)


def position_of(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the position of the first wanted name; exact case wins over any case."""
    lower = [name.casefold() for name in names]
    for name in wanted:
        if name in names:
            return list(names).index(name)
        if name.casefold() in lower:
            return lower.index(name.casefold())
    return None


def is_number(text: str) -> bool:
    """Whether the text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads it as a digit separator


def _endings_of_content(path: Path) -> tuple[str, ...]:
    """Return the endings that fit the first bytes of a file; none if they are unknown."""
    with translate_errors(path), path.open("rb") as file:
        start = file.read(8)
    if not start.startswith(b"PK\x03\x04"):
        return next((found for mark, found in _SIGNATURES.items() if start.startswith(mark)), ())
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:  # cut short; a reader of archives gives the better message
        return () if path.suffix.lower() in (".npz", ".pt", ".pth") else (".zip",)
    if any(name.endswith("data.pkl") for name in names):
        return ".pt", ".pth"
    if any(name.startswith("xl/") for name in names):
        return (".xlsx",)
    if any(name.rsplit("/", 1)[-1] in _ZARR_MARKS for name in names):
        return (ZARR,)
    return (".npz",) if any(name.endswith(".npy") for name in names) else (".zip",)


# Arrays: npz, npy, h5, zarr, pt


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in a file: its name, shape and type, known before its values are read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], np.ndarray]
    path: Path
    # Reads so many rows at a time, from some row on
    stream: Callable[[int, int], Iterator[np.ndarray]] | None = None

    def read(self) -> np.ndarray:
        """Return the values."""
        with translate_errors(self.path):
            return self.load()

    def blocks(self, rows: int, start: int = 0) -> Iterator[np.ndarray]:
        """Yield up to so many consecutive rows at a time; others are not kept in memory."""
        with translate_errors(self.path):
            if self.stream is not None:
                yield from self.stream(rows, start)
                return
            yield from _cut_rows(self.load(), rows, start)

    @property
    def source(self) -> str:
        """Location of the array, for error messages."""
        return f"`{self.name}` in {self.path.name}" if self.name else self.path.name


def stored_arrays(path: str | Path) -> list[StoredArray]:
    """Return the arrays of a file."""
    path = require_existing(path, ARRAY_ENDINGS)
    with translate_errors(path):
        arrays = list(_ARRAY_READERS[ending_of(path)](path))
    if not arrays:
        raise DataError(
            f'{path.name} holds no array. Save the features in it as "features" and the labels as '
            '"labels".'
        )
    return arrays


def pick_named(
    arrays: Sequence[StoredArray], key: str | None, names: Sequence[str], parameter: str
) -> StoredArray | None:
    """Return the array named `key`, which must exist; without a key, the first of `names`."""
    for name in names if key is None else (key,):
        # A usual name may be in any group of the file; a key is the full name.
        found = [a for a in arrays if name == (a.name if key else a.name.rsplit("/", 1)[-1])]
        if len(found) > 1:
            raise DataError(
                f"{found[0].path.name} must hold one array `{name}`; it has {contents(found)}. "
                f"Pass one of them as `{parameter}`."
            )
        if found:
            return found[0]
    if key is not None:
        raise DataError(
            f"`{parameter}` must name an array of {arrays[0].path.name}; got {key!r}, and the file "
            f"has {contents(arrays)}. Choose one of those."
        )
    return None


def contents(arrays: Sequence[StoredArray]) -> str:
    """List arrays with their shapes for an error message."""
    shown = [f"{array.name or 'an unnamed array'} {array.shape}" for array in arrays[:_MOST_NAMED]]
    more = len(arrays) - _MOST_NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _cut_rows(array: Any, rows: int, start: int) -> Iterator[np.ndarray]:
    """Yield up to so many rows at a time, from some row on."""
    for first in range(start, array.shape[0], rows):
        yield array[first : first + rows]


def _npy_arrays(path: Path) -> Iterator[StoredArray]:
    with path.open("rb") as file:
        shape, _, dtype = _npy_header(file, path.stat().st_size)
    load = partial(np.load, path, mmap_mode="r", allow_pickle=False)

    def stream(rows: int, start: int) -> Iterator[np.ndarray]:
        take = row_reader(load())
        for first in range(start, shape[0], rows):
            yield take(first, min(first + rows, shape[0]))

    yield StoredArray("", shape, dtype, load, path, stream if len(shape) == 2 else None)


def _npz_arrays(path: Path) -> Iterator[StoredArray]:
    def load(name: str, n_bytes: int, n_stored: int) -> np.ndarray:
        require_room(f"`{name}` in {path.name}", n_bytes, n_stored)
        with np.load(path, allow_pickle=False) as file:
            return file[name]

    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    shape, by_column, dtype = _npy_header(file, member.file_size)
                name = member.filename.removesuffix(".npy")
                stream = None if by_column else partial(_npz_rows, path, member.filename)
                sizes = math.prod(shape) * dtype.itemsize, member.compress_size
                yield StoredArray(name, shape, dtype, partial(load, name, *sizes), path, stream)


def _npz_rows(path: Path, member: str, rows: int, start: int) -> Iterator[np.ndarray]:
    """Yield rows of an array in an archive, which are unpacked one after the other."""
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        shape, _, dtype = _npy_header(file, archive.getinfo(member).file_size)
        file.seek(start * math.prod(shape[1:]) * dtype.itemsize, os.SEEK_CUR)
        for first in range(start, shape[0], rows):
            part = (min(rows, shape[0] - first), *shape[1:])
            yield np.frombuffer(file.read(math.prod(part) * dtype.itemsize), dtype).reshape(part)


def _npy_header(file: Any, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array whose values must fit into `size` bytes.

    The order is True if the values are stored column by column.
    """
    start: Any = SimpleNamespace(read=partial(_read_short, file))
    version = np.lib.format.read_magic(start)
    # Version 3 differs from 2 in the names of fields only, and arrays with fields are refused.
    first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(start)
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape}")
    if size < expected and dtype.kind != "O":
        raise ValueError(f"{size} of {expected} bytes")
    return shape, by_column, dtype


def _read_short(file: Any, n: int) -> bytes:
    """Read a part of a header; NumPy would read one of any length."""
    if n > _MOST_HEADER:
        raise ValueError(f"a header of {n} bytes")
    return file.read(n)


def _h5_arrays(path: Path) -> Iterator[StoredArray]:
    h5py = require_package("h5py", f"Reading {path.suffix}")

    def load(name: str, is_text: bool) -> np.ndarray:
        with h5py.File(path, "r") as file:
            stored = file[name].id.get_storage_size()
            require_room(f"`{name}` in {path.name}", file[name].nbytes, stored)
            return np.asarray(file[name].asstr()[()], dtype=str) if is_text else file[name][()]

    def stream(name: str, rows: int, start: int) -> Iterator[np.ndarray]:
        with h5py.File(path, "r") as file:
            yield from _cut_rows(file[name], rows, start)

    nodes = {}
    with h5py.File(path, "r") as file:
        file.visititems(nodes.__setitem__)
        for name, node in nodes.items():
            if isinstance(node, h5py.Dataset) and node.shape is not None:
                is_text = h5py.check_string_dtype(node.dtype) is not None
                dtype = np.dtype(str) if is_text else node.dtype
                rows = None if is_text else partial(stream, name)
                yield StoredArray(name, node.shape, dtype, partial(load, name, is_text), path, rows)


def _zarr_arrays(path: Path) -> Iterator[StoredArray]:
    zarr = require_package("zarr", "Reading .zarr")

    def load(array: Any, source: str, is_text: bool) -> np.ndarray:
        require_room(source, array.nbytes, array.nbytes_stored())
        values = np.asarray(array[...])
        return np.array(values.tolist(), dtype=str) if is_text else values

    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else path
    root = zarr.open(store, mode="r")
    members = {"": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
    for name, array in sorted(members.items()):
        if isinstance(array, zarr.Array):
            is_text = array.dtype.kind in "TO"
            whole = partial(load, array, f"`{name}` in {path.name}", is_text)
            rows = None if is_text else partial(_cut_rows, array)
            dtype = np.dtype(str) if is_text else array.dtype
            yield StoredArray(name, array.shape, dtype, whole, path, rows)


def _torch_arrays(path: Path) -> Iterable[StoredArray]:
    torch = require_package("torch", f"Reading {path.suffix}")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        require_room(path.name, n_bytes, path.stat().st_size)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise DataError(
            f"{path.name} must hold only tensors, lists and dicts; it is damaged, or holds other "
            "objects, which are not loaded because they could run code. Save "
            '{"features": X, "labels": y}.'
        ) from None
    if isinstance(content, tuple | list) and not all(map(np.isscalar, content)):
        content = dict(enumerate(content))
    elif not isinstance(content, Mapping):
        content = {"": content}
    return [_torch_array(str(name), value, path) for name, value in content.items()]


def _torch_array(name: str, value: Any, path: Path) -> StoredArray:
    try:
        if hasattr(value, "numpy"):
            tensor = value.detach()
            # NumPy has no bfloat16.
            array = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        else:
            array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.array(None, dtype=object)
    except (TypeError, RuntimeError):  # sparse, quantized
        raise DataError(
            f"Tensors must be dense and of a common type; `{name}` in {path.name} is not. Save "
            "X.to_dense().float()."
        ) from None
    return StoredArray(name, array.shape, array.dtype, lambda: array, path)


_ARRAY_READERS: dict[str, Callable[[Path], Iterable[StoredArray]]] = {
    ".npz": _npz_arrays,
    ".npy": _npy_arrays,
    ".pt": _torch_arrays,
    ".pth": _torch_arrays,
    ".h5": _h5_arrays,
    ".hdf5": _h5_arrays,
    ZARR: _zarr_arrays,
}
ARRAY_ENDINGS = tuple(_ARRAY_READERS)
