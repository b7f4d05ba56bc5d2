"""Check where results are written before the work starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from ..errors import Problem

Given = str | Path | None


@contextmanager
def name_target(target: str | Path) -> Iterator[None]:
    """Name the target in errors of writing, which the system does not name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(target)
        raise


@contextmanager
def require_writable(option: str, target: Path, kind: str = "a folder") -> Iterator[None]:
    """Refuse a target that cannot be written."""
    try:
        yield
    except OSError as error:
        what = f"{target} is not ({error.strerror})"
        raise _refuse(option, f"must be {kind} to write to", what, "Choose another") from None


def check_ending(option: str, target: Path, endings: Iterable[str], formats: str) -> None:
    """Refuse a file whose ending names no format that can be written."""
    if target.suffix.lower() not in endings:
        rule = f"must end in {' or '.join(endings)}"
        raise _refuse(option, rule, f"got {target.name}", f"Choose one of these{formats}")


def check_target(option: str, target: Path, *inputs: Given) -> None:
    """Refuse a file that cannot be written, or that is read from."""
    check_plain(option, target)
    for given in inputs:
        # The reader reports a file that does not exist.
        path = Path(given or "-")
        if not target.exists() or not path_exists(path):
            continue
        # Imported here: it takes long, and few targets exist.
        from ..encoders.collection import TABLES
        from ..encoders.pictures import is_picture_name

        remedy = "Choose another name"
        for read in (path, *(path / name for name in TABLES)):
            if read.exists() and target.samefile(read):
                rule = "must not be a file to read from"
                raise _refuse(option, rule, f"{target} is one", remedy)
        if path.resolve() in target.resolve().parents and is_picture_name(target.name):
            rule = "must not replace a picture"
            raise _refuse(option, rule, f"{target} is one of {path}", remedy)
    with require_writable(option, target, "a file"), TemporaryFile(dir=target.parent):
        pass


def check_plain(option: str, target: Path) -> None:
    """Refuse a target that exists and is not a file, such as a device or a folder."""
    rule = "must be a file to write to"
    if target.is_dir():
        raise _refuse(option, rule, f"{target} is a folder", "Add a name")
    if target.exists() and not target.is_file():
        raise _refuse(option, rule, f"{target} is a device or a pipe", "Choose another name")


def _refuse(option: str, rule: str, received: str, remedy: str) -> Problem:
    return Problem(f"`{option}`", rule, received, f"{remedy}.", option=option)


def path_exists(path: str | Path) -> bool:
    """Whether a file exists; names of classes may be too long for a path."""
    return os.path.exists(path)  # noqa: PTH110
