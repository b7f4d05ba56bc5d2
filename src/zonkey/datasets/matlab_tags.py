"""Whether a MATLAB file of version 5 is whole, told from the tags that precede its parts."""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path

_HEADER = 128  # bytes
_MATRIX, _COMPRESSED = 14, 15
_SMALL = 0xFFFF
_COMPLEX = 0x800
_PREAMBLE = [6, 5, 1]  # types of flags, shape and name
_SHORTEST_SHAPE = 8  # bytes: two integers
_NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13})
_VALUES = {  # types of the values of a class, and how many parts hold them
    1: (frozenset({_MATRIX}), None),  # cells, a part each
    4: (_NUMBERS | {16, 17, 18}, 1),  # text
    5: (_NUMBERS, 3),  # sparse
    **dict.fromkeys(range(6, 16), (_NUMBERS, 1)),
}


def require_whole(path: Path) -> None:
    """Raise ValueError or struct.error for a file that is cut or garbled; no values are read.

    Before a long read runs into the end of the file, and because SciPy may crash, rather than
    raise, where an uncompressed file names a type that there is not.
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
    """Check types and number of the parts of a matrix, and of matrices in it."""
    if start == end:  # an empty cell
        return
    flags = struct.unpack_from(f"{order}I", data, start + 8)[0]
    kinds, lengths, shape_at = [], [], start + 24
    while start < end:
        kind, length = struct.unpack_from(f"{order}II", data, start)
        start += 8
        if kind > _SMALL:  # up to four bytes, kept where the length would be
            kind, length = kind % (_SMALL + 1), 0
        if kind == _MATRIX:
            _require_parts(data, order, start, start + length)
        kinds.append(kind)
        lengths.append(length)
        start += length + -length % 8
    allowed, n = _VALUES.get(flags & 0xFF, (None, None))
    if allowed is None:
        return
    if start > end or kinds[:3] != _PREAMBLE or lengths[1] < _SHORTEST_SHAPE:
        raise ValueError(f"no flags, shape and name before byte {end}")
    if n is None:
        n = math.prod(struct.unpack_from(f"{order}{lengths[1] // 4}i", data, shape_at))
    n_complex = 1 if flags & _COMPLEX else 0
    if not allowed.issuperset(kinds[3:]) or len(kinds) != len(_PREAMBLE) + n + n_complex:
        raise ValueError(f"no proper values before byte {end}")
