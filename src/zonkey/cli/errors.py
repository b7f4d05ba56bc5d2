"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

import typer


@contextmanager
def one_line_errors(interrupted: str) -> Iterator[None]:
    """Exit with code 2 if input, files or packages are wrong, with 130 at Ctrl-C.

    Warnings are one line on stderr each.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    except (ValueError, ImportError) as error:  # the library's errors are ValueErrors
        refuse(str(error))
    except OSError as error:
        if error.errno == errno.EPIPE:  # `zonkey predict ... | head`: Typer exits in silence
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        refuse(f"{where}{error.strerror or error}. Check the path, its mode and the free space.")
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {interrupted}.", err=True)
        raise typer.Exit(130) from None


def refuse(message: str) -> NoReturn:
    """Say in one line on stderr what is wrong, and exit with code 2."""
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(2) from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)


@contextmanager
def writing_to(option: str, target: Path, kind: str = "a folder") -> Iterator[None]:
    """Exit with code 2 if the target of an option cannot be written."""
    try:
        yield
    except OSError as error:
        rule = f"{option} must be {kind} to write to"
        refuse(f"{rule}; {target} is not ({error.strerror}). Choose another.")


def require_file(option: str, target: Path, *inputs: str | Path | None) -> None:
    """Exit with code 2 if a file cannot or must not be written: before the work, not after it."""
    require_plain(option, target)
    for given in inputs:
        # Standard input is no file, and one that does not exist is told by its reader.
        if given is not None and target.exists() and Path(given).exists():
            if target.samefile(given):
                refuse(
                    f"{option} must not be a file to read from; {target} is one. Choose another "
                    "name."
                )
    with writing_to(option, target, "a file"), TemporaryFile(dir=target.parent):
        pass


def require_plain(option: str, target: Path) -> None:
    """Exit with code 2 if a target is there and is no file: devices and folders must stay."""
    if target.is_dir():
        refuse(f"{option} must be a file to write to; {target} is a folder. Add a name.")
    if target.exists() and not target.is_file():
        refuse(f"{option} must be a file to write to; {target} is a device. Choose another name.")
