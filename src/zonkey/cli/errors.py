"""How a command ends when it cannot do what was asked: one line, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..datasets import DataError


@contextmanager
def one_line_errors(interrupted: str) -> Iterator[None]:
    """End with exit code 2 where data or a package is wrong, with 130 at Ctrl-C."""
    try:
        yield
    except (DataError, ImportError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {interrupted}.", err=True)
        raise typer.Exit(130) from None
