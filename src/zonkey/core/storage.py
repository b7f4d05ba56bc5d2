"""Arrays and a header in one .npz file, without pickle, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np


def save_npz(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a header (anything that JSON can hold) and arrays."""
    path = Path(path)
    contents: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
    # Not from tempfile, whose files nobody but their owner may read.
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            np.savez(file, **contents)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
