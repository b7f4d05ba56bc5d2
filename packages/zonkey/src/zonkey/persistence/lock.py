"""A lock between processes, held through a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import StorageError
from .ending import remove_if_ended

_PAUSE = 0.05  # seconds between two attempts


@contextmanager
def hold_lock(path: str | os.PathLike[str], busy: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path` exclusively.

    `busy` is the message of the StorageError that is raised if another process still holds it
    after `wait` seconds. The file is removed at the end. The system drops the lock of a process
    that is killed. Without file locks in the file system, nothing is locked.
    """
    path, until = Path(path), time.monotonic() + wait
    while (file := _try_lock(path)) is None:
        if time.monotonic() >= until:
            raise StorageError(busy)
        time.sleep(_PAUSE)
    try:
        with remove_if_ended(path):
            yield
    finally:
        # Hold the lock until the file is gone, so that no process locks a removed file.
        if os.name == "nt":  # does not remove open files
            file.close()
        with suppress(OSError):
            path.unlink()
        file.close()


@contextmanager
def lock_model(path: str | os.PathLike[str], wait: float = 60.0) -> Iterator[None]:
    """Hold a model file while it is read, changed and written again."""
    path = Path(path).resolve()
    busy = (
        f"{path.name} must be changed by one process at a time; another one is changing it. Wait "
        "for it, and run the command again."
    )
    with hold_lock(path.with_name(f".{path.name}.lock"), busy, wait):
        yield


def _try_lock(path: Path) -> Any:
    """Return the open and locked file, None if another process has it."""
    file = path.open("ab")
    if not _is_locked(file):
        file.close()
        return None
    if os.name == "nt" or _is_at(path, file):
        return file
    file.close()  # its last holder removed it meanwhile
    return _try_lock(path)


def _is_at(path: Path, file: Any) -> bool:
    """Whether an open file is at a path, where another process may remove one at any time."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _is_locked(file: Any) -> bool:
    """Try to lock an open file; return False if another process holds it."""
    try:
        if os.name == "nt":
            msvcrt: Any = import_module("msvcrt")
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl: Any = import_module("fcntl")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # the file system has no locks
        return True
    return True
