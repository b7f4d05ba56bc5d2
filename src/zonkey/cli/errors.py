"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ..datasets import DataError
from ..paper.records import RecordError


@contextmanager
def one_line_errors(interrupted: str) -> Iterator[None]:
    """Exit with code 2 if data, records or packages are wrong, with 130 at Ctrl-C."""
    try:
        yield
    except (DataError, RecordError, ImportError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {interrupted}.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def writing_to(option: str, target: Path, kind: str = "a folder") -> Iterator[None]:
    """Exit with code 2 if the target of an option cannot be written."""
    try:
        yield
    except OSError as error:
        rule = f"{option} must be {kind} to write to"
        typer.echo(f"{rule}; {target} is not ({error.strerror}). Choose another.", err=True)
        raise typer.Exit(2) from None
