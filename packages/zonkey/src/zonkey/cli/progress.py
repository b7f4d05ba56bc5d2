"""Progress on stderr, if it is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..app.progress import Progress


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show each step: a bar with the time left if something is counted, else a spinner."""
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    doing, elapsed = rich.TextColumn("{task.description}"), rich.TimeElapsedColumn()
    rows, left = rich.TextColumn("{task.fields[rows]:,} rows"), rich.TextColumn("left:")
    bar = rich.BarColumn(), rich.TaskProgressColumn()
    counted = doing, *bar, rows, elapsed, left, rich.TimeRemainingColumn()
    plain = rich.SpinnerColumn(), doing, elapsed
    shown: dict[str, Any] = {}
    notes: set[str] = set()

    def show(step: Any) -> None:
        if step.note and step.note not in notes:
            typer.echo(step.note, err=True)
            notes.add(step.note)
        if step.resumed:
            typer.echo(f"Resuming {step.resumed}.", err=True)
        if shown.get("doing") != step.doing:
            if shown:
                shown["bars"].stop()
            columns = plain if step.rows is None else counted
            shown["bars"] = rich.Progress(
                *columns,
                console=console,
                transient=step.rows is None,
                disable=not console.is_terminal,
            )
            shown["bars"].start()
            shown["task"] = shown["bars"].add_task(step.doing, total=step.total, rows=0)
            shown["doing"] = step.doing
        if step.rows is not None:
            shown["bars"].update(
                shown["task"], total=step.total, completed=step.done or 0, rows=step.rows
            )

    try:
        yield show
    finally:
        if shown:
            shown["bars"].stop()
