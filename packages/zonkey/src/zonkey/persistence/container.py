"""Atomic writes of files, and one container for arrays with a header.

The container is a safetensors file. Its metadata hold a JSON header, which lists the arrays with
a checksum each. Nothing in it is executed, imported or unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn
from uuid import uuid4

import numpy as np

from ..errors import MissingFileError, NoRoomError, StorageError
from ..hashing import checksum
from .checks import quote_text
from .ending import remove_if_ended

SCHEMA = 1  # of the headers; each released one stays readable
_HEADER, _CHECKSUM = "zonkey", "zonkey_sha256"
_LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library
_MOST_AXES = 8
_SIZES = {"U": (1, 2, 4, 8), "I": (1, 2, 4, 8), "F": (2, 4, 8)}  # bytes of a number
_DTYPES: dict[str, np.dtype[Any]] = {"BOOL": np.dtype(bool)} | {
    f"{kind}{8 * size}": np.dtype(f"{kind.lower()}{size}")
    for kind, sizes in _SIZES.items()
    for size in sizes
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Entry = tuple[np.dtype[Any], tuple[int, ...], int, int]  # with first and last byte


@contextmanager
def whole_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; it becomes `path` at the end, and disappears on an error."""
    path = Path(path).resolve()  # a link stays a link
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} does not exist. Create it.")
    # Not from tempfile: only the owner may read such files.
    part = path.with_name(f"{path.name[:100]}.{uuid4().hex[:12]}.part")
    with remove_if_ended(part):
        try:
            yield part
            if path.exists():
                part.chmod(path.stat().st_mode)
            part.replace(path)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                _refuse_full_disk(path, error)
            raise


def _refuse_full_disk(path: Path, error: OSError) -> NoReturn:
    free = shutil.disk_usage(path.parent).free
    raise NoRoomError(
        f"{path} must fit on the disk; it could not be written ({error.strerror}), with "
        f"{free / 1e6:,.1f} MB free. Nothing was changed. Make room, or pass another path."
    ) from None


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing; it appears only when it is complete."""
    with whole_path(path) as part, part.open("xb") as file:
        yield file


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically."""
    with whole_file(path) as file:
        file.write(content)


def write_arrays(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write arrays and a header that JSON can hold; `kind` says what the file is."""
    # Widest numbers first, as in the safetensors library: all of them are aligned.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    whole = {name: _make_plain(arrays[name]) for name in names}
    listed = {name: checksum(array) for name, array in whole.items()}
    content = {"schema": SCHEMA, "kind": kind, **header, "checksums": listed}
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    table: dict[str, Any] = {"__metadata__": {_HEADER: text, _CHECKSUM: digest}}
    end = 0
    for name, array in whole.items():
        start, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype]
        table[name] = {"dtype": dtype, "shape": [*array.shape], "data_offsets": [start, end]}
    outer = json.dumps(table, separators=(",", ":")).encode()
    outer += b" " * (-len(outer) % 8)
    if len(outer) > _LARGEST_HEADER:
        raise StorageError(
            f"{path} must have at most {_LARGEST_HEADER / 1e6:.0f} MB of labels and texts; got "
            f"{len(outer) / 1e6:.0f}. Save fewer classes."
        )
    with whole_file(path) as file:
        file.write(len(outer).to_bytes(8, "little") + outer)
        for array in whole.values():
            file.write(array.reshape(-1).view(np.uint8).data)


class Stored:
    """An array of a file that is read and checked when it is first needed.

    The file stays open, so that it can be renamed or replaced meanwhile. Copies and pickles hold
    the array.
    """

    def __init__(self, file: IO[bytes], name: str, entry: Entry, start: int, expected: str) -> None:
        self.name = name
        self.dtype, self.shape, first, _ = entry
        self._file, self._offset, self._expected = Path(file.name).name, start + first, expected
        self._values: np.ndarray | None = None
        self._lock = threading.Lock()
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def read(self) -> np.ndarray:
        """Return the array."""
        with self._lock:
            if self._values is None:
                values = np.empty(self.shape, self.dtype)
                with open(self._descriptor, "rb", closefd=False) as file:
                    _read_into(file, self._offset, values)
                _check(self._file, self.name, values, self._expected)
                self._values = values
        return self._values

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.read(),)


def read_header(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the header of a file of this kind; arrays are not read."""
    with _open_file(path) as file:
        return _headers(Path(path), file, kind)[0]


def read_arrays(
    path: str | os.PathLike[str], kind: str, lazy: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header of a file of this kind, and its arrays by name.

    Arrays whose name ends in one of `lazy` are `Stored`: not read yet.
    """
    path = Path(path)
    with _open_file(path) as file:
        header, table, start = _headers(path, file, kind)
        arrays: dict[str, Any] = {}
        for name, entry in table.items():
            expected = header["checksums"][name]
            if name.endswith(tuple(lazy)):
                arrays[name] = Stored(file, name, entry, start, expected)
                continue
            values = np.empty(entry[1], entry[0])
            _read_into(file, start + entry[2], values)
            _check(path.name, name, values, expected)
            arrays[name] = values
    return header, arrays


def _read_into(file: IO[bytes], offset: int, values: np.ndarray) -> None:
    file.seek(offset)
    file.readinto(values.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]


def _make_plain(array: np.ndarray) -> np.ndarray:
    """Return an array as safetensors store it: contiguous, little-endian."""
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return array if array.flags.c_contiguous else array.copy()


@contextmanager
def _open_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise StorageError(f"{path} must be a file; it is a folder. Pass a file in it.") from None
    except StorageError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL character is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path!s} cannot be read ({reason}). Check the path.") from None


def _headers(
    path: Path, file: IO[bytes], kind: str
) -> tuple[dict[str, Any], dict[str, Entry], int]:
    """Return the checked header, place and form of each array, and where the arrays begin."""
    size = os.fstat(file.fileno()).st_size
    foreign = StorageError(
        f"{path.name} must be a file that zonkey has saved; its content is something else. Pass a "
        "file made by `save`."
    )
    length = int.from_bytes(file.read(8), "little")
    if size < 10 or length > _LARGEST_HEADER or file.read(1) != b"{":
        raise foreign
    if 8 + length > size:
        raise _make_cut_error(path, size)
    text = b"{" + file.read(length - 1)
    try:
        outer = json.loads(text)
        metadata = outer.pop("__metadata__")
        content, digest = metadata[_HEADER], metadata[_CHECKSUM]
        altered = hashlib.sha256(content.encode()).hexdigest() != digest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise foreign from None
    if altered:
        raise StorageError(
            f"{path.name} must be as it was saved; its header was altered. Copy or save it again."
        )
    header: dict[str, Any] = {}
    try:
        header = json.loads(content)
        fits = {"schema": int, "kind": str, "checksums": dict}
        whole = all(type(header[name]) is form for name, form in fits.items())
        whole = whole and header["schema"] > 0
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise foreign
    if header["schema"] > SCHEMA:
        raise StorageError(
            f"{path.name} was saved by a newer zonkey, with schema {header['schema']}; this "
            f"version reads up to {SCHEMA}. Update zonkey."
        )
    if header["kind"] != kind:
        raise StorageError(
            f"{path.name} must hold {kind}; it holds {quote_text(header['kind'])}. Pass another "
            "file."
        )
    return header, _table(path, outer, header, size - 8 - length), 8 + length


def _table(
    path: Path, entries: dict[str, Any], header: dict[str, Any], n_bytes: int
) -> dict[str, Entry]:
    """Return dtype, shape, first and last byte of each array, which must fill the file."""
    table: dict[str, Entry] = {}
    end = 0
    try:
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
            first, last = entry["data_offsets"]
            lengths = (*shape, first, last)
            if len(shape) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in lengths):
                raise ValueError(name)
            if first != end or last - first != dtype.itemsize * int(np.prod(shape, dtype=object)):
                raise ValueError(name)
            table[name] = (dtype, shape, first, last)
            end = last
        complete = {*table} == {*header["checksums"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise StorageError(
            f"{path.name} must list the arrays that it holds; its table of arrays was altered. "
            "Save it again."
        )
    if end > n_bytes:
        raise _make_cut_error(path, n_bytes)
    if end < n_bytes:
        raise StorageError(
            f"{path.name} must end with its arrays; {n_bytes - end} bytes follow. Save it again."
        )
    return table


def _make_cut_error(path: Path, size: int) -> StorageError:
    return StorageError(
        f"{path.name} must be whole; it is cut short after {size} bytes. Copy or save it again."
    )


def _check(file: str, name: str, values: np.ndarray, expected: str) -> None:
    """Refuse an array that was altered, or that holds NaN or infinity."""
    if checksum(values) != expected:
        raise StorageError(
            f"{file} must be as it was saved; its array {quote_text(name)} was altered. Copy or "
            "save the file again."
        )
    if values.dtype.kind != "f":
        return
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()  # much faster than isfinite, but it may overflow
    if not np.isfinite(total) and not np.isfinite(values).all():
        raise StorageError(
            f"{file} must hold finite numbers; its array {quote_text(name)} has NaN or infinity. "
            "Save a model that was fitted on finite data."
        )
