"""Checkpoints: the state of a long pass over chunks, one file per pass in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .labels import warn_user
from .packing import pack, unpacked
from .storage import StorageError, checksum, read_arrays, write_arrays

_KIND = "checkpoint"
_ENDING = ".pass"
_LOCK = f"lock{_ENDING}"
# All files are in a folder of their own within that of the user. A process that is killed leaves
# unfinished files in it, which have names that the writing library chose.
_OWN = "passes"


@dataclass(frozen=True, eq=False)
class State:
    """What a pass had when it was written: parts of its reduction, and how far it was."""

    parts: dict[str, Any]
    n_chunks: int
    n_rows: int
    last: str  # hash of the last chunk
    whole: bool


class Checkpoint:
    """A folder with the state of each pass, by name."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"`checkpoint` must be a folder; {self.folder} is a file. Pass another path."
            )
        self._own = self.folder / _OWN

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Use the folder alone: two processes would overwrite each other's states.

        The system drops the lock of a process that is killed. What such a process had only begun to
        write is removed.
        """
        try:
            self._own.mkdir(parents=True, exist_ok=True)
            file = (self._own / _LOCK).open("ab")
        except OSError as error:
            raise StorageError(
                f"`checkpoint` must be a folder to write to; {self.folder} is not "
                f"({error.strerror}). Pass another path."
            ) from None
        with file:
            if not _is_locked(file):
                raise StorageError(
                    f"`checkpoint` must belong to one computation at a time; {self.folder} is in "
                    "use by another one. Wait for it, or pass another folder."
                )
            for path in self._own.iterdir():
                if path.suffix != _ENDING:
                    path.unlink(missing_ok=True)
            yield

    def read(self, name: str, identity: str) -> State | None:
        """Return the state of a pass, None if it has none yet."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            header, arrays = read_arrays(path, _KIND)
            content = unpacked(path, header, arrays, {})
            state = State(**content)
        except (StorageError, TypeError) as error:
            raise StorageError(
                f"{path} must be a checkpoint as it was written; it is not ({error}) Remove the "
                "folder to begin again."
            ) from None
        if header.get("identity") != _digest(identity):
            raise self.of_others(name)
        return state

    def of_others(self, name: str) -> StorageError:
        """Return the error of a state that belongs to another computation."""
        return StorageError(
            f"{self._path(name)} must belong to this computation; it was written for other data, "
            "chunks or parameters. Remove the folder, or pass another `checkpoint`."
        )

    def write(self, name: str, identity: str, state: State) -> None:
        """Replace the state of a pass, if there is room for it.

        If not, the one before stays, and the computation is worth more than its checkpoint.
        """
        node, arrays = pack(vars(state), {})
        header = {"identity": _digest(identity), "content": node}
        try:
            write_arrays(self._path(name), _KIND, header, arrays)
        except (OSError, import_module("safetensors").SafetensorError) as error:
            warn_user(
                f"Checkpoints should be written to {self.folder}; this one could not be ({error}). "
                "Make room on the disk; the computation goes on."
            )

    def names(self) -> list[str]:
        """Return the names of the passes that have a state."""
        return sorted(path.stem for path in self._own.glob(f"*{_ENDING}") if path.name != _LOCK)

    def remove(self, names: Iterable[str]) -> None:
        """Remove the states of some passes, and the folder if nothing else is in it."""
        if not self._own.is_dir():
            return
        with self.locked():
            for name in names:
                self._path(name).unlink(missing_ok=True)
            if self.names():
                return
            (self._own / _LOCK).unlink(missing_ok=True)
            for folder in (self._own, self.folder):
                if any(folder.iterdir()):
                    return
                folder.rmdir()

    @staticmethod
    def digest(X: np.ndarray, y: np.ndarray | None) -> str:
        """Return a hash of samples and labels."""
        of_labels = "" if y is None else _digest("\n".join(map(str, y.tolist())))
        return f"{checksum(np.ascontiguousarray(X))} {of_labels}"

    def _path(self, name: str) -> Path:
        return self._own / f"{name}{_ENDING}"


def _is_locked(file: Any) -> bool:
    """Lock an open file for this process; whether no other has it."""
    try:
        fcntl = import_module("fcntl")
    except ImportError:  # Windows has no such locks
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has none
        return True
    return True


def fingerprint(value: Any) -> str:
    """Return text that is the same for equal numbers, arrays, estimators and methods of them.

    Unlike a pickle, it does not depend on which objects are shared.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return checksum(np.ascontiguousarray(value))
    if isinstance(value, np.ndarray):
        return fingerprint(value.tolist())
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(fingerprint, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {fingerprint(value[key])}' for key in value)}}}"
    if isinstance(value, partial):
        return fingerprint([value.func, value.args, value.keywords])
    if hasattr(value, "__self__"):
        return f"{value.__name__} of {fingerprint(value.__self__)}"
    name = getattr(value, "__qualname__", type(value).__qualname__)
    held = {} if hasattr(value, "__qualname__") else getattr(value, "__dict__", {})
    return f"{type(value).__module__}.{name} {fingerprint(held)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
