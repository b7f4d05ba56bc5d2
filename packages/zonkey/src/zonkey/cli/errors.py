"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from ..errors import STREAM_NAME, Problem

_PIPE_CLOSED = 128 + 13  # as shells report a program that was ended by SIGPIPE
_LONGEST = 1000  # characters of a message
_NAMES = {"model": "MODEL", "source": "SOURCE", "text_columns": "--text", "templates": "--template"}
# Options with the same name in all commands; names of one word may be arrays in a file as well
_COMMON = ("label_column", "features_key", "labels_key", "text_columns", "templates", "device")
_COMMON += ("text_column",)


@contextmanager
def one_line_errors(interrupted: str, **names: str) -> Iterator[None]:
    """Exit with code 2 if input, files or packages are wrong, with 130 at Ctrl-C.

    Warnings are one line on stderr each. Errors name options; `names` are those of parameters that
    the command has as an argument, or under another name.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    except (ValueError, ImportError) as error:  # the library's errors are ValueErrors
        refuse(tell_problem(error, names))
    except OSError as error:
        _fail(error)
    except KeyboardInterrupt as error:
        typer.echo(f"Interrupted; {'; '.join([interrupted, *map(str, error.args)])}.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def output_errors() -> Iterator[None]:
    """Exit with code 2 if text cannot be printed, with 141 if its reader has closed the pipe."""
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


def _fail(error: OSError) -> NoReturn:
    if error.filename in (None, STREAM_NAME):
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
    line = " ".join(message.split())
    typer.echo(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ...", err=True)
    raise typer.Exit(2) from None


def tell_problem(error: Exception | str, names: Mapping[str, str] | None = None) -> str:
    """Return the message of an error with the options of a command."""
    names = _NAMES | dict(names or {})
    if not isinstance(error, Problem) or not error.options:
        error = Problem(str(error), option=_COMMON)
    text = error.tell(lambda name: names.get(name) or f"--{name.replace('_', '-')}")
    return text.replace(" must be None ", " must be left out ")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)


def tell_joined(joined: Mapping[str, str]) -> None:
    """Print one line on stderr with the labels that match a class in another spelling."""
    if joined:
        pairs = ", ".join(f"{label} is {known}" for label, known in joined.items())
        typer.echo(f"Same classes in another spelling: {pairs}.", err=True)


def tell_precision(chosen: object) -> None:
    """Print one line on stderr that says how the least probability of an answer was chosen."""
    if chosen is not None:
        typer.echo(f"Answers are {chosen}.", err=True)
