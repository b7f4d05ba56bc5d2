"""Files that appear whole or not at all; arrays and a header in one .npz file, without pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears when all of it is written, and not at all else."""
    path = Path(path)
    # Not from tempfile, whose files nobody but their owner may read.
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    with whole_file(path) as file:
        file.write(content)


def save_npz(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a header (anything that JSON can hold) and arrays."""
    contents: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
    with whole_file(path) as file:
        np.savez(file, **contents)


def load_npz(path: str | os.PathLike[str], *, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a file that `save_npz` wrote; `what` names its content."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        if "format" not in header:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} does not hold {what}; pass a file that `save` wrote.") from error
    return header, arrays
