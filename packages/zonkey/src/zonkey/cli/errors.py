"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

import typer

STANDARD_OUTPUT_NAME = "standard output"
_PIPE_CLOSED = 128 + 13  # as shells say it of a program that was ended by SIGPIPE
_LONGEST = 1000  # characters of a message
_OPTIONS = {"text_columns": "text", "templates": "template"}  # with names of their own
_PARAMETERS = re.compile("`(label_column|features_key|labels_key|text_columns|templates|device)`")


@contextmanager
def one_line_errors(interrupted: str) -> Iterator[None]:
    """Exit with code 2 if input, files or packages are wrong, with 130 at Ctrl-C.

    Warnings are one line on stderr each.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # Features are found by their names here, and then passed as an array without any.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield
    except (ValueError, ImportError) as error:  # the library's errors are ValueErrors
        refuse(str(error))
    except OSError as error:
        _fail(error)
    except KeyboardInterrupt as error:
        typer.echo(f"Interrupted; {'; '.join([interrupted, *map(str, error.args)])}.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def output_errors() -> Iterator[None]:
    """Exit with code 2 if text cannot be printed, with 141 if nobody reads it any more."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        _fail(error)
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def name_target(target: str | Path) -> Iterator[None]:
    """Name the target in errors of writing, which the system does not name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(target)
        raise


def _fail(error: OSError) -> NoReturn:
    if error.filename in (None, STANDARD_OUTPUT_NAME):
        _drop_output()
    if error.errno == errno.EPIPE:  # `zonkey predict ... | head`: as if ended by the signal
        raise typer.Exit(_PIPE_CLOSED) from None
    where = error.filename or "Writing failed"
    refuse(f"{where}: {error.strerror or error}. Check the path, its mode and the free space.")


def _drop_output() -> None:
    """Discard what is still to be printed, which would fail again when Python ends."""
    with suppress(OSError, ValueError, AttributeError):  # tests replace the stream
        number = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def refuse(message: str) -> NoReturn:
    """Say in one line on stderr what is wrong, and exit with code 2."""
    line = name_options(" ".join(message.split()))
    typer.echo(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...", err=True)
    raise typer.Exit(2) from None


def name_options(message: str) -> str:
    """Return a message of the library with options instead of the parameters of functions.

    Names of one word may be names of arrays in a file as well: they stay.
    """
    message = _PARAMETERS.sub(
        lambda found: f"--{_OPTIONS.get(found[1], found[1]).replace('_', '-')}", message
    )
    return message.replace(" must be None ", " must be left out ")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)


@contextmanager
def require_writable(option: str, target: Path, kind: str = "a folder") -> Iterator[None]:
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
        # A file that does not exist is told by its reader.
        path = Path(given or "-")
        if not target.exists() or not path.exists():
            continue
        if target.samefile(path) or _is_table_of(path, target):
            rule = f"{option} must not be a file to read from"
            refuse(f"{rule}; {target} is one. Choose another name.")
        if _is_picture_of(path, target):
            rule = f"{option} must not replace a picture"
            refuse(f"{rule}; {target} is one of {path}. Choose another name.")
    with require_writable(option, target, "a file"), TemporaryFile(dir=target.parent):
        pass


def _is_table_of(folder: Path, target: Path) -> bool:
    from ..encoders.collection import TABLES  # imported here: it takes long, and few targets exist

    tables = [folder / name for name in TABLES]
    return any(table.exists() and target.samefile(table) for table in tables)


def _is_picture_of(folder: Path, target: Path) -> bool:
    from ..encoders.pictures import is_picture_name

    return folder.resolve() in target.resolve().parents and is_picture_name(target.name)


def require_plain(option: str, target: Path) -> None:
    """Exit with code 2 if a target is there and is no file: devices and folders must stay."""
    if target.is_dir():
        refuse(f"{option} must be a file to write to; {target} is a folder. Add a name.")
    if target.exists() and not target.is_file():
        refuse(
            f"{option} must be a file to write to; {target} is a device or a pipe. Choose another "
            "name."
        )
