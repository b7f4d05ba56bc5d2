"""Write files atomically: a file appears complete, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears when it is complete, and not at all on an error."""
    path = Path(path)
    # Not from tempfile: only the owner may read such files.
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically."""
    with whole_file(path) as file:
        file.write(content)
