"""Read a matrix of a MATLAB file of version 5 in blocks of columns, compressed or not.

SciPy reads whole matrices. Features of ImageNet, saved as doubles, would need several times the
memory of the single-precision matrix that they become.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from zonkey.config import rows_per_block
from zonkey.errors import DataError

HEADER = 128  # bytes
MATRIX, COMPRESSED = 14, 15  # types of variables
COMPLEX = 0x800  # flag
_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_PIECE = 1 << 20  # compressed bytes that are read at a time


class _Stream(Protocol):
    def read(self, n: int) -> bytes | bytearray: ...

    def finish(self) -> None: ...


class _Plain:
    """The bytes of a variable that is not compressed."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self._file, self._start, self._end = file, start, end

    def read(self, n: int) -> bytes:
        if self._start + n > self._end:
            raise ValueError(f"values end at byte {self._end}")
        self._file.seek(self._start)
        self._start += n
        return self._file.read(n)

    def finish(self) -> None:
        """Do nothing: there is no checksum."""


class _Inflated:
    """The bytes of a compressed variable."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self._packed, self._left = _Plain(file, start, end), end - start
        self._unzip, self._rest = zlib.decompressobj(), b""

    def read(self, n: int) -> bytearray:
        found = bytearray(n)
        start = 0
        while start < n:
            if not self._rest:
                size = min(_PIECE, self._left)
                self._rest, self._left = self._packed.read(size), self._left - size
            part = self._unzip.decompress(self._rest, n - start)
            self._rest = self._unzip.unconsumed_tail
            if not (part or self._rest or self._left):
                raise ValueError(f"compressed values end {n - start} bytes early")
            found[start : start + len(part)] = part
            start += len(part)
        return found

    def finish(self) -> None:
        """Read what is left, so that the checksum is compared."""
        rest = self._rest + self._packed.read(self._left)
        while rest and not self._unzip.eof:
            self._unzip.decompress(rest, _PIECE)
            rest = self._unzip.unconsumed_tail
        if not self._unzip.eof:
            raise ValueError("compressed values without an end")


@dataclass(frozen=True)
class _Matrix:
    """A variable whose preamble was read; values follow in the stream."""

    name: str
    shape: tuple[int, ...]
    is_complex: bool
    stream: _Stream


def column_blocks(path: Path, key: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first column and the columns of each block, as they are stored.

    MATLAB stores doubles that are small whole numbers as integers of one or two bytes.
    """
    with path.open("rb") as file:
        order = "<" if file.read(HEADER).endswith(b"IM") else ">"
        matrix = _find_matrix(file, path.stat().st_size, order, key)
        if matrix.is_complex:
            raise DataError(
                f"`{key}` of {path} must hold real numbers; got complex ones. Save real({key}) "
                "instead."
            )
        kind, n_bytes, small = _read_tag(matrix.stream, order)
        dtype = np.dtype(_TYPES[kind]).newbyteorder(order)
        n_rows, n_columns = matrix.shape[0], math.prod(matrix.shape[1:])
        if n_bytes != n_rows * n_columns * dtype.itemsize:
            raise ValueError(f"{n_bytes} bytes for {n_rows} x {n_columns} values")
        size = max(1, rows_per_block(n_rows * dtype.itemsize))
        for start in range(0, n_columns if n_rows else 0, size):
            n = min(size, n_columns - start)
            raw = small or matrix.stream.read(n_rows * n * dtype.itemsize)
            block = np.frombuffer(raw, dtype=dtype, count=n_rows * n)
            yield start, block.reshape(n, n_rows).T
        matrix.stream.finish()


def _find_matrix(file: BinaryIO, size: int, order: str, key: str) -> _Matrix:
    start = HEADER
    while start < size:
        file.seek(start)
        kind, length = struct.unpack(f"{order}II", file.read(8))
        start += 8
        stream: _Stream = _Plain(file, start, start + length)
        if kind == COMPRESSED:
            stream = _Inflated(file, start, start + length)
            stream.read(8)  # the tag of the matrix inside
        found = _read_preamble(stream, order)
        if found.name == key:
            return found
        start += length
    raise ValueError(f"no variable {key}")


def _read_preamble(stream: _Stream, order: str) -> _Matrix:
    """Read flags, shape and name."""
    flags = struct.unpack_from(f"{order}I", _read_part(stream, order))[0]
    shape = _read_part(stream, order)
    name = _read_part(stream, order).decode("latin1")
    sizes = struct.unpack_from(f"{order}{len(shape) // 4}i", shape)
    return _Matrix(name, sizes, bool(flags & COMPLEX), stream)


def _read_tag(stream: _Stream, order: str) -> tuple[int, int, bytes | bytearray]:
    """Return type and length of a part, and its values if they are in the tag itself."""
    tag = stream.read(8)
    kind, length = struct.unpack(f"{order}II", tag)
    if kind > 0xFFFF:
        return kind & 0xFFFF, kind >> 16, tag[4:]
    return kind, length, b""


def _read_part(stream: _Stream, order: str) -> bytes | bytearray:
    _, length, small = _read_tag(stream, order)
    return small[:length] if small else stream.read(length + -length % 8)[:length]
