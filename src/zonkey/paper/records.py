"""Records: one JSON file per run, found again by what was run."""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Record = dict[str, Any]
_PACKAGES = ("zonkey", "numpy", "scipy", "scikit-learn")


class RecordError(ValueError):
    """Records that are missing or damaged; the message is one line with a remedy."""


@dataclass(frozen=True, order=True)
class Key:
    """Identity of a run."""

    protocol: str
    data: str
    model: str
    seed: int = 0

    @property
    def path(self) -> Path:
        """Path of the record, relative to the folder of all records."""
        return Path(self.protocol) / _slug(self.data) / f"{_slug(self.model)}.{self.seed}.json"


class Records:
    """A folder of records."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def read(self, key: Key) -> Record | None:
        """Return the record of a run, if there is one."""
        try:
            return json.loads((self.folder / key.path).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # a record truncated by a crash counts as none
            return None

    def find(self, key: Key, settings: dict[str, Any]) -> Record | None:
        """Return the record of a run, if it was made with these settings."""
        record = self.read(key)
        asked = json.loads(json.dumps(settings))
        return record if record is not None and record.get("settings") == asked else None

    def write(self, key: Key, settings: dict[str, Any], **content: Any) -> Record:
        """Write a record; the file is complete or absent."""
        record = {
            "protocol": key.protocol,
            "data_name": key.data,
            "model": key.model,
            "seed": key.seed,
            "settings": settings,
            **content,
            **environment(),
        }
        from ..core.storage import write_whole  # with NumPy, which `zonkey --help` does without

        path = self.folder / key.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1) + "\n"
        write_whole(path, text.encode())
        return json.loads(text)

    def __iter__(self) -> Iterator[Record]:
        return (record for _, record in self.items())

    def items(self) -> Iterator[tuple[Path, Record]]:
        """Yield the path and the content of every record."""
        for path in sorted(self.folder.glob("*/*/*.json")):
            try:
                yield path, json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                raise RecordError(
                    f"The record {path} must be JSON; it is damaged. Delete it, and run the bench "
                    "again."
                ) from None


def environment() -> dict[str, Any]:
    """Return versions and machine, as stored in every record."""
    machine = {"system": platform.system(), "cpus": os.cpu_count()}
    return {"versions": versions(), "machine": machine}


def versions() -> dict[str, str]:
    """Return the versions that a figure may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def pack(array: np.ndarray) -> dict[str, Any]:
    """Return an array as compressed text for JSON."""
    import numpy as np

    array = np.ascontiguousarray(array)
    data = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """Return the array that was packed."""
    import numpy as np

    data = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(data, dtype=packed["dtype"]).reshape(packed["shape"])


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9@=]+", "-", name.lower()).strip("-")
