"""Checkpoints: the state of a long pass over chunks, one file per pass in a folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .packing import pack, unpacked
from .storage import StorageError, checksum, read_arrays, write_arrays

_KIND = "checkpoint"
_ENDING = ".pass"


@dataclass(frozen=True, eq=False)
class State:
    """What a pass had when it was written: parts of its reduction, and how far it was."""

    parts: dict[str, Any]
    n_chunks: int
    n_rows: int
    whole: bool


class Checkpoint:
    """A folder with the state of each pass, by name."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"`checkpoint` must be a folder; {self.folder} is a file. Pass another path."
            )

    def read(self, name: str, identity: str) -> State | None:
        """Return the state of a pass, None if it has none yet."""
        path = self._path(name)
        if not path.exists():
            return None
        header, arrays = read_arrays(path, _KIND)
        if header.get("identity") != _digest(identity):
            raise StorageError(
                f"{path} must belong to this computation; it was written for other data, chunks or "
                "parameters. Remove the folder, or pass another `checkpoint`."
            )
        content = unpacked(path, header, arrays, {})
        return State(content["parts"], content["n_chunks"], content["n_rows"], content["whole"])

    def write(
        self,
        name: str,
        identity: str,
        parts: dict[str, Any],
        n_chunks: int,
        n_rows: int,
        *,
        whole: bool = False,
    ) -> None:
        """Replace the state of a pass."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {"parts": parts, "n_chunks": n_chunks, "n_rows": n_rows, "whole": whole}
        node, arrays = pack(content, {})
        header = {"identity": _digest(identity), "content": node}
        write_arrays(self._path(name), _KIND, header, arrays)

    def remove(self) -> None:
        """Remove the states, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        for path in self.folder.glob(f"*{_ENDING}*"):
            path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    @staticmethod
    def digest(X: np.ndarray, y: np.ndarray | None, n_rows: int | None) -> str:
        """Return a hash of samples and labels, and of the number of all rows."""
        of_labels = "" if y is None else _digest("\n".join(map(str, y.tolist())))
        return f"{checksum(np.ascontiguousarray(X))} {of_labels} {n_rows}"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"


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
