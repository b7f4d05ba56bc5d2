"""Finished trials on disk, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Checkpoint:
    """Results by trial number: in memory, and one JSON line a trial in a file where given.

    Parameters
    ----------
    path : path or None
        File to read finished trials from and append new ones to.
    settings : mapping
        What the results depend on. A file of other settings is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.settings = json.loads(json.dumps(settings))
        self.results: dict[int, Any] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)
        elif self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self.path, {"settings": self.settings})

    def add(self, trial: int, result: Any) -> None:
        """Keep the result of one trial."""
        self.results[trial] = result
        if self.path is not None:
            self._append(self.path, {"trial": trial, "result": result})

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        complete = b"\n".join(lines[:-1])
        if lines[-1]:  # what an interruption left of a line
            path.write_bytes(complete + b"\n" if complete else b"")
        records = [json.loads(line) for line in lines[:-1]]
        if not records:
            self._append(path, {"settings": self.settings})
            return
        found = records[0].get("settings")
        if found != self.settings:
            changed = sorted(
                name
                for name in {*self.settings, *(found or {})}
                if (found or {}).get(name) != self.settings.get(name)
            )
            raise ValueError(
                f"{path} holds trials of another run: {', '.join(changed)} differ. "
                "Choose another file, or delete it to start anew."
            )
        self.results = {record["trial"]: record["result"] for record in records[1:]}

    @staticmethod
    def _append(path: Path, record: Mapping[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
