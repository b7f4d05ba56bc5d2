"""Checkpoints: the state of a long pass over chunks, one file per pass in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..hashing import hash_object
from ..labels import warn_user
from ..persistence.container import read_arrays, write_arrays
from ..persistence.lock import hold_lock
from ..persistence.packing import pack, unpack_file

_KIND = "checkpoint 2"  # those of older versions are refused
_ENDING = ".pass"
_LOCK = f"lock{_ENDING}"
# All files are in a folder of their own within that of the user.
_OWN = "passes"


@dataclass(frozen=True, eq=False)
class State:
    """State of a pass: the parts of its reduction, and its position."""

    parts: dict[str, Any]
    n_chunks: int
    n_rows: int
    last: str  # hash of the last chunk
    whole: bool


def name_state(name: str, n_transforms: int) -> str:
    """Return the name of the state of a pass: steps of a pipeline have passes of the same name."""
    return f"{name}-{n_transforms}" if n_transforms else name


def pass_of(state: str) -> str:
    """Return the name of the pass that a state belongs to."""
    return state.partition("-")[0]


class PassCheckpoint:
    """A folder with the state of each pass, by the name of the state."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"`checkpoint` must be a folder; {self.folder} is a file. Pass another path."
            )
        self._own = self.folder / _OWN

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Use the folder alone: two processes would overwrite each other's states.

        The system drops the lock of a process that is killed. Its unfinished files are removed.
        """
        busy = (
            f"`checkpoint` must belong to one computation at a time; {self.folder} is in use by "
            "another one. Wait for it, or pass another folder."
        )
        with ExitStack() as held:
            try:
                self._own.mkdir(parents=True, exist_ok=True)
                held.enter_context(hold_lock(self._own / _LOCK, busy))
            except OSError as error:
                raise StorageError(
                    f"`checkpoint` must be a folder to write to; {self.folder} is not "
                    f"({error.strerror}). Pass another path."
                ) from None
            for path in self._own.glob(f"*{_ENDING}.*.part"):
                path.unlink(missing_ok=True)
            yield

    def read(self, name: str, identity: str) -> State | None:
        """Return the state of a pass, None if it has none yet."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            header, arrays = read_arrays(path, _KIND)
            content = unpack_file(path, header, arrays, {})
            state = State(**content)
        except (StorageError, TypeError):
            raise StorageError(
                f"{path} must be a checkpoint as it was written; it is damaged, or of another "
                "version. Remove the folder to begin again."
            ) from None
        if header.get("identity") != hash_object(identity):
            raise self.make_foreign_error(name)
        return state

    def make_foreign_error(self, name: str) -> StorageError:
        """Return the error of a state that belongs to another computation."""
        return StorageError(
            f"{self._path(name)} must belong to this computation; it was written for other data, "
            "chunks or parameters. Remove the folder, or pass another `checkpoint`."
        )

    def write(self, name: str, identity: str, state: State) -> None:
        """Replace the state of a pass, if there is room for it.

        If writing fails, warn and keep the previous state; never fail the computation.
        """
        node, arrays = pack(vars(state), {})
        header = {"identity": hash_object(identity), "content": node}
        try:
            self._own.mkdir(parents=True, exist_ok=True)  # the user may have removed it
            write_arrays(self._path(name), _KIND, header, arrays)
        except OSError as error:
            warn_user(
                f"Checkpoints should be written to {self.folder}; this one could not be "
                f"({error.strerror or 'no room'}). "
                "Make room on the disk; the computation continues."
            )

    def names(self) -> list[str]:
        """Return the names of the states."""
        return sorted(path.stem for path in self._own.glob(f"*{_ENDING}") if path.name != _LOCK)

    def remove(self, names: Iterable[str]) -> None:
        """Remove some states, and the folder if nothing else is in it."""
        if not self._own.is_dir():
            return
        # Never fail over an empty folder that others may use: the result is done.
        with suppress(StorageError, OSError):
            with self.lock():
                for name in names:
                    self._path(name).unlink(missing_ok=True)
            for folder in (self._own, self.folder):
                folder.rmdir()  # fails if something else is in it

    def _path(self, name: str) -> Path:
        return self._own / f"{name}{_ENDING}"
