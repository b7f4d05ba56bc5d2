"""Features of pictures on disk, found again by the content of the picture.

Each write adds one file under a name of its own, complete or not at all. Nothing is changed in
place, so that several processes and machines can share a folder without locks. A file holds

    magic, number of rows, features and places, checksum of all but the rows
    the key of each row (16 bytes)
    each place (16 bytes) with the key of its picture (16 bytes)
    each row with its checksum: 8 bytes, then float32

A key is the hash of a picture's content. A place is the hash of where the picture was, and when it
was last changed; it leads to the key without reading the picture.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress, count, repeat
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..labels import warn_user
from ..persistence.container import whole_file

_FORMAT = b"zonkeyF1"  # also of the conversion of pictures to RGB, which a revision does not cover
_START = struct.Struct("<8sIII16s")
_ENDING = ".features"
_KEY, _CHECK = 16, 8  # bytes
_MOST_SMALL, _SMALL = 64, 1 << 20  # so many files of fewer bytes become one
_TRIES = 3  # at rows whose file is gone; then they are computed again
_ABANDONED = 86_400  # seconds after which an unfinished file has no writer
_RECENT = 50_000_000  # nanoseconds in which a file may change twice with one time of change
_RECENT_COARSE = 2_000_000_000  # the same where times are whole seconds


class _File(NamedTuple):
    """What a file holds; its rows start at `offset`."""

    path: Path
    keys: list[bytes]
    places: dict[bytes, bytes]
    offset: int


class FeatureCache:
    """Features of pictures on disk, for one revision of one encoder.

    A cache never fails: damaged entries count as missing, and a folder that cannot be written to is
    only read. Each gives one warning.

    Parameters
    ----------
    folder : Path or str
        Folder of all encoders. Each revision has a folder of its own in it.
    encoder_name : str
        Name of the encoder.
    revision : str
        Hash of its weights and preprocessing.
    n_features : int
        Number of features.

    Attributes
    ----------
    folder : Path
        Folder of this revision. It can be deleted at any time.

    See Also
    --------
    ImageEncoder : Uses it with `cache=True`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from zonkey.encoders.cache import FeatureCache, content_key
    >>> folder = tempfile.TemporaryDirectory()
    >>> cache = FeatureCache(folder.name, "my encoder", "1", 2)
    >>> cache.put_many([content_key(b"a picture")], np.ones((1, 2), np.float32))
    >>> found, rows = cache.get_many([content_key(b"a picture"), content_key(b"another")])
    >>> found, rows
    (array([ True, False]), array([[1., 1.]], dtype=float32))
    >>> folder.cleanup()
    """

    def __init__(
        self, folder: Path | str, encoder_name: str, revision: str, n_features: int
    ) -> None:
        told = f"{encoder_name}\0{revision}\0{n_features}".encode()
        short = re.sub(r"[^A-Za-z0-9._-]+", "-", encoder_name)[-40:].strip("-.")
        name = f"{short}-{_digest(_FORMAT, told, size=6).hex()}"
        self.folder = Path(folder).expanduser().absolute() / name
        self._n_features = n_features
        self._n_bytes = _CHECK + 4 * n_features  # per row
        self._rows: dict[bytes, tuple[Path, int]] = {}  # by key: file, first byte
        self._places: dict[bytes, bytes] = {}
        self._n_small = 0
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._load()

    def __len__(self) -> int:
        return len(self._rows)

    def keys_of(self, places: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the keys of the pictures that were at these places; None where unknown.

        Parameters
        ----------
        places : sequence of bytes or None
            From `file_place`.

        Returns
        -------
        list of bytes or None
            Keys.
        """
        return [None if place is None else self._places.get(place) for place in places]

    def get_many(self, keys: Sequence[bytes | None]) -> tuple[np.ndarray, np.ndarray]:
        """Return which keys have features, and those features.

        Parameters
        ----------
        keys : sequence of bytes or None
            From `content_key`. None has no features.

        Returns
        -------
        found : ndarray of shape (n_keys,)
            Whether a key has features.
        rows : ndarray of shape (n_found, n_features)
            Features of the keys that have some, in their order, float32.
        """
        found, rows, gone = self._read(keys)
        for _ in range(_TRIES):
            if not gone:
                break
            with self._lock:  # another process has joined files, or another thread
                self._load()
                found, rows, gone = self._read(keys)
        return found, rows

    def put_many(
        self,
        keys: Sequence[bytes],
        rows: np.ndarray,
        places: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Store features. They are on disk when this returns, all or none.

        Parameters
        ----------
        keys : sequence of bytes
            From `content_key`.
        rows : ndarray of shape (n_keys, n_features)
            Features, float32.
        places : mapping of {bytes: bytes}, default=None
            Keys of places, for `keys_of`. They need not be among `keys`.
        """
        places = dict(places or {})
        if "write" in self._warned or not (len(keys) or places):
            return
        with self._lock:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._write(list(keys), rows, places)
                if self._n_small >= _MOST_SMALL:
                    self._join_small()
            except OSError as error:
                self._warn_once(
                    "write",
                    f"The folder of features {self.folder} should be writable; it is not "
                    f"({error.strerror or error}). Features of new pictures are not kept. Make "
                    "room or change its mode, or choose another folder as `cache`.",
                )

    def size(self) -> int:
        """Return the bytes on disk.

        Returns
        -------
        int
            Sum over all files of this revision.
        """
        return sum(size for _, size in self._list_files())

    def clear(self) -> None:
        """Delete all features of this revision."""
        with self._lock:
            for path, _ in self._list_files():
                path.unlink(missing_ok=True)
            self._load()

    def _list_files(self) -> list[tuple[Path, int]]:
        """Return all files with their sizes, oldest first; remove what killed processes left."""
        listed: list[tuple[Path, int]] = []
        try:
            entries = sorted(os.scandir(self.folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return listed
        except OSError as error:
            self._warn_once(
                "list",
                f"The folder of features {self.folder} should be readable; it is not "
                f"({error.strerror or error}). Choose another folder as `cache`.",
            )
            return listed
        for entry in entries:
            with suppress(OSError):  # another process may have removed it
                status = entry.stat()
                if entry.name.endswith(_ENDING):
                    listed.append((Path(entry.path), status.st_size))
                elif entry.name.endswith(".part") and time.time() - status.st_mtime > _ABANDONED:
                    Path(entry.path).unlink()
        return listed

    def _load(self) -> None:
        """Build the index from the files in the folder; the newest entry of a key counts."""
        rows: dict[bytes, tuple[Path, int]] = {}
        places: dict[bytes, bytes] = {}
        n_small = 0
        for path, size in self._list_files():
            file = self._open_or_drop(path)
            if file is not None:
                n_small += size < _SMALL
                rows.update(self._entries(file))
                places |= file.places
        # At once: other threads look up keys meanwhile.
        self._rows, self._places, self._n_small = rows, places, n_small

    def _register(self, file: _File) -> None:
        self._rows.update(self._entries(file))
        self._places.update(file.places)

    def _entries(self, file: _File) -> Iterator[tuple[bytes, tuple[Path, int]]]:
        offsets = count(file.offset, self._n_bytes)
        return zip(file.keys, zip(repeat(file.path), offsets), strict=False)

    def _open_or_drop(self, path: Path) -> _File | None:
        """Return what a file holds; delete it if it is damaged."""
        try:
            return self._open_entry_file(path)
        except OSError:  # another process has joined it, or this one may not read it
            return None
        except ValueError:
            self._warn_damaged(path)
            with suppress(OSError):
                path.unlink()
            return None

    def _open_entry_file(self, path: Path) -> _File:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_START.size)
            if len(start) < _START.size:
                raise ValueError(path)
            magic, n_rows, n_features, n_places, check = _START.unpack(start)
            n_bytes = _KEY * (n_rows + 2 * n_places)
            rows_start = _START.size + n_bytes
            if magic != _FORMAT or size != rows_start + n_rows * self._n_bytes:
                raise ValueError(path)
            table = file.read(n_bytes)
        if _digest(start[: -len(check)], table) != check or n_features != self._n_features:
            raise ValueError(path)
        keys = [table[i : i + _KEY] for i in range(0, n_bytes, _KEY)]
        places = dict(zip(keys[n_rows::2], keys[n_rows + 1 :: 2], strict=True))
        return _File(path, keys[:n_rows], places, rows_start)

    def _read(self, keys: Sequence[bytes | None]) -> tuple[np.ndarray, np.ndarray, list[Path]]:
        """Return which keys have rows, those rows, and files of the index that are gone."""
        found = np.zeros(len(keys), dtype=bool)
        packed = np.zeros((len(keys), self._n_bytes), np.uint8)
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for i, key in enumerate(keys):
            entry = None if key is None else self._rows.get(key)
            if entry is not None:
                wanted.setdefault(entry[0], []).append((i, entry[1]))
        gone: list[Path] = []
        for path, entries in wanted.items():
            try:
                with path.open("rb", buffering=0) as opened:
                    for i, offset in entries:
                        opened.seek(offset)
                        opened.readinto(packed[i].data)
                        key = keys[i] or b""
                        found[i] = _compute_check(key, packed[i]) == packed[i, :_CHECK].tobytes()
                        if not found[i]:
                            self._rows.pop(key, None)
                            self._warn_damaged(path)
            except OSError:
                gone.append(path)
        return found, packed[found, _CHECK:].view("<f4"), gone

    def _write(self, keys: list[bytes], rows: np.ndarray, places: dict[bytes, bytes]) -> None:
        packed = np.zeros((len(keys), self._n_bytes), np.uint8)
        packed[:, _CHECK:] = np.ascontiguousarray(rows, "<f4").view(np.uint8)
        for key, row in zip(keys, packed, strict=True):
            row[:_CHECK] = np.frombuffer(_compute_check(key, row), np.uint8)
        table = b"".join(keys) + b"".join(place + key for place, key in places.items())
        start = _START.pack(_FORMAT, len(keys), self._n_features, len(places), b"")[:-_KEY]
        # The newest has the last name. The second part differs between processes and machines.
        path = self.folder / f"{time.time_ns():020d}-{uuid4().hex[:12]}{_ENDING}"
        with whole_file(path) as file:
            file.write(start + _digest(start, table) + table)
            file.write(packed.data)
        self._n_small += _START.size + len(table) + packed.nbytes < _SMALL
        self._register(_File(path, keys, places, _START.size + len(table)))

    def _join_small(self) -> None:
        """Write the entries of small files to one file, then delete those."""
        entries: dict[bytes, np.ndarray] = {}
        places: dict[bytes, bytes] = {}
        joined: list[Path] = []
        for path, size in self._list_files():
            file = self._open_or_drop(path) if size < _SMALL else None
            if file is not None:
                self._register(file)
                found, rows, gone = self._read(file.keys)
                entries |= zip(compress(file.keys, found), rows, strict=True)
                places |= file.places
                joined += [] if gone else [path]
        self._n_small = 0
        self._write([*entries], np.array([*entries.values()]).reshape(-1, self._n_features), places)
        for path in joined:
            with suppress(OSError):  # another process was faster, or has it open on Windows
                path.unlink()

    def _warn_damaged(self, path: Path) -> None:
        self._warn_once(
            "damaged",
            f"Stored features should be as they were written; some in {path} are damaged. They "
            "are computed again.",
        )

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn_user(message)


def content_key(content: bytes | bytearray | memoryview, *form: object) -> bytes:
    """Return the key of a picture: a hash of its bytes and, for pixels, of their form."""
    return _digest(repr(form).encode(), b"\0", content)


def file_place(path: Path, member: str = "") -> bytes | None:
    """Return the place of a picture in a file; None if the file may just be changing.

    Call this before the picture is read.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    is_coarse = status.st_mtime_ns % 1_000_000_000 == 0
    if time.time_ns() - status.st_mtime_ns < (_RECENT_COARSE if is_coarse else _RECENT):
        return None
    # Times are too coarse to tell two files apart that a link leads to one after the other.
    file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _digest(repr((str(path.absolute()), member, *file)).encode())


def _digest(*parts: Any, size: int = 16) -> bytes:
    found = hashlib.blake2b(digest_size=size)
    for part in parts:
        found.update(part)
    return found.digest()


def _compute_check(key: bytes, packed: np.ndarray) -> bytes:
    return _digest(key, packed[_CHECK:].data, size=_CHECK)
