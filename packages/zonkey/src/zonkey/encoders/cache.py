"""Features of pictures and texts on disk, found again by their content.

One SQLite file per revision of an encoder, which several processes of a machine share. It maps

    the key of a picture (hash of its content) to the checksum of the features and the features
    the place of a picture (hash of its path, size and times of change) to its key

so that an unchanged picture is found without reading it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..config import cache_folder
from ..labels import format_value, warn_user

_FORMAT = b"zonkeyF2"  # also of the conversion of pictures to RGB, which a revision does not cover
_CHECK = 8  # bytes
_PATIENCE = 60.0  # seconds to wait for another process that writes
_RECENT = 50_000_000  # nanoseconds in which a file may change twice with one time of change
_RECENT_COARSE = 2_000_000_000  # the same where times are whole seconds

_SCHEMA = """
PRAGMA journal_mode = WAL;  -- readers and a writer do not wait for each other
PRAGMA synchronous = NORMAL;  -- a crash of the machine may lose the last rows, never damage others
CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS places (place BLOB PRIMARY KEY, key BLOB NOT NULL);
"""
_ROW = "SELECT row FROM features WHERE key = ?"
_PLACE = "SELECT key FROM places WHERE place = ?"


class FeatureCache:
    """Features of pictures on disk, for one revision of one encoder.

    A cache never fails: damaged entries count as missing, a damaged file is replaced, and a folder
    that cannot be written to is only read. Each gives one warning. Each revision has a file of its
    own in the folder, `path`, which can be deleted whenever no process uses it.
    """

    def __init__(
        self, folder: Path | str, encoder_name: str, revision: str, n_features: int
    ) -> None:
        identity = f"{encoder_name}\0{revision}\0{n_features}".encode()
        short = re.sub(r"[^A-Za-z0-9._-]+", "-", encoder_name)[-40:].strip("-.")
        name = f"{short}-{_digest(_FORMAT, identity, size=6).hex()}.sqlite"
        self.path = Path(folder).expanduser().absolute() / name
        self._n_features = n_features
        self._lock = threading.Lock()  # one connection serves all threads
        self._close: Any = None  # closes the connection, also when the cache is collected
        self._database: sqlite3.Connection | None = None
        self._warned: set[str] = set()

    def __len__(self) -> int:
        count = "SELECT count(*) FROM features"
        return self._read(lambda database: database.execute(count).fetchone()[0], 0)

    def keys_of(self, places: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the keys of the pictures that were at places of `file_place`; None if unknown."""
        return self._look_up(_PLACE, places)

    def get_many(self, keys: Sequence[bytes | None]) -> tuple[np.ndarray, np.ndarray]:
        """Return which keys of `content_key` have features, and those features as rows."""
        found, rows = np.zeros(len(keys), dtype=bool), []
        for i, stored in enumerate(self._look_up(_ROW, keys)):
            if stored is None:
                continue
            row = stored[_CHECK:]
            found[i] = len(row) == 4 * self._n_features and stored == _add_check(keys[i], row)
            if found[i]:
                rows.append(np.frombuffer(row, "<f4"))
            else:
                self._warn_damaged()
        return found, np.array(rows, np.float32).reshape(-1, self._n_features)

    def put_many(
        self, keys: Sequence[bytes], rows: np.ndarray, places: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Store a row of features per key, all or none, and keys of places for `keys_of`."""
        places = places or {}
        if "write" in self._warned or not (len(keys) or places):
            return
        plain = (np.ascontiguousarray(row, "<f4").tobytes() for row in rows)
        entries = [(key, _add_check(key, row)) for key, row in zip(keys, plain, strict=True)]

        def write(database: sqlite3.Connection) -> None:
            with database:  # one transaction
                database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", entries)
                database.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", places.items())

        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    write(self._connect())
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError:
                    self._start_anew()
                    write(self._connect())
            except (OSError, sqlite3.Error) as error:
                self._warn_once(
                    "write",
                    f"The file of features {self.path} should be writable; it is not "
                    f"({getattr(error, 'strerror', None) or error}). Features of new pictures are "
                    "not kept. Make room or change its mode, or choose another folder as `cache`.",
                )

    def size(self) -> int:
        """Return the bytes on disk of all files of this revision."""
        return sum(path.stat().st_size for path in self._files() if path.exists())

    def clear(self) -> None:
        """Delete all features of this revision."""

        def delete(database: sqlite3.Connection) -> None:
            with database:
                database.execute("DELETE FROM features")
                database.execute("DELETE FROM places")
            database.executescript("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")

        self._read(delete, None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._disconnect()

    def _look_up(self, query: str, keys: Sequence[bytes | None]) -> list[bytes | None]:
        def find(database: sqlite3.Connection) -> list[bytes | None]:
            rows: list[Any] = [key and database.execute(query, (key,)).fetchone() for key in keys]
            return [row and row[0] for row in rows]

        return self._read(find, [None] * len(keys))

    def _read(self, work: Callable[[sqlite3.Connection], Any], otherwise: Any) -> Any:
        """Return the result of `work` on the database, or `otherwise` if it cannot be read."""
        with self._lock:
            try:
                if self._database is not None or self.path.exists():
                    return work(self._connect())
            except (OSError, sqlite3.OperationalError) as error:
                reason = getattr(error, "strerror", None) or error
                self._warn_once(
                    "read",
                    f"The file of features {self.path} should be readable; it is not ({reason}). "
                    "Choose another folder as `cache`.",
                )
            except sqlite3.DatabaseError:
                self._start_anew()
        return otherwise

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            # Without write access there is no room for the files that readers and writers share.
            frozen = self.path.exists() and not os.access(self.path.parent, os.W_OK)
            source = self.path.as_uri() + "?immutable=1" * frozen
            database = sqlite3.connect(source, timeout=_PATIENCE, check_same_thread=False, uri=True)
            self._close = weakref.finalize(self, database.close)
            try:
                if not frozen:
                    database.executescript(_SCHEMA)
            except sqlite3.Error:
                self._close()
                raise
            self._database = database
        return self._database

    def _disconnect(self) -> None:
        if self._close is not None:
            self._close()
        self._close = self._database = None

    def _start_anew(self) -> None:
        """Delete a damaged file."""
        self._warn_damaged()
        self._disconnect()
        for path in self._files():
            with suppress(OSError):  # on Windows, another process may have it open
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [Path(f"{self.path}{ending}") for ending in ("", "-wal", "-shm")]

    def _warn_damaged(self) -> None:
        self._warn_once(
            "damaged",
            f"Stored features should be as they were written; some in {self.path} are damaged. "
            "They are computed again.",
        )

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn_user(message)


def open_cache(folder: Any, backend: Any) -> FeatureCache | None:
    """Return the cache of an encoder: in a folder, or with True in that of the user."""
    if folder is None or folder is False:
        return None
    is_known = isinstance(getattr(backend, "revision", None), str)
    if not getattr(backend, "has_revision", is_known):
        name = getattr(backend, "name", type(backend).__name__)
        warn_user(
            "A model whose features are cached should have an attribute `revision`; "
            f"{name} has none, and nothing is cached. Add a text that differs whenever its "
            "features do."
        )
        return None
    folder = cache_folder("features") if folder is True else Path(folder)
    return FeatureCache(folder, backend.name, backend.revision, backend.n_features)


def check_cache(folder: Any) -> None:
    """Refuse what cannot be the parameter `cache` of an encoder."""
    if not isinstance(folder, bool | str | Path | None) or folder == "":
        raise TypeError(
            f"`cache` must be True, a folder or None; got {format_value(folder)}. Pass True for "
            "the user's cache folder."
        )


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
    # Times are too coarse to distinguish two files that a link leads to one after the other.
    file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _digest(repr((str(path.absolute()), member, *file)).encode())


def _digest(*parts: Any, size: int = 16) -> bytes:
    found = hashlib.blake2b(digest_size=size)
    for part in parts:
        found.update(part)
    return found.digest()


def _add_check(key: bytes | None, row: bytes) -> bytes:
    return _digest(key or b"", row, size=_CHECK) + row
