"""`zonkey report`: turn the records of `zonkey bench` into tables, figures and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.storage import write_whole
from ..report.collection import read_collection
from ..report.markdown import markdown_text
from ..report.page import write_report
from ..report.sections import build_report
from .errors import one_line_errors


def report_command(
    runs: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for page, figures and tables.")] = Path(
        "report"
    ),
    markdown: Annotated[
        Path | None,
        typer.Option(help="Write the tables into this file, and nothing else.", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data set to report on; repeat it. All by default.", show_default=False),
    ] = None,
) -> None:
    """Turn records into a page with tables, figures and a summary of what reproduces."""
    names = None if not data else [name.lower() for name in data]
    with one_line_errors("nothing was written"):
        report = build_report(read_collection(runs, names))
    option, target = ("--out", out) if markdown is None else ("--markdown", markdown)
    try:
        if markdown is None:
            page = write_report(report, out)
            typer.echo(f"Page:    {page}\nTables:  {out / 'tables.md'}\nFigures: {out / 'figures'}")
        else:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            write_whole(markdown, markdown_text(report).encode("utf-8", "replace"))
            typer.echo(f"Tables: {markdown}")
    except OSError as error:
        kind = "a folder" if markdown is None else "a file"
        rule = f"{option} must be {kind} to write to"
        typer.echo(f"{rule}; {target} is not ({error.strerror}). Name another.", err=True)
        raise typer.Exit(2) from None
