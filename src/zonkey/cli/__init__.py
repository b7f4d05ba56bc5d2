"""The command line `zonkey`: parsers around functions of the library and of `zonkey.paper`."""

from typing import Annotated

import typer

import zonkey

from .data_commands import data_app
from .paper_commands import bench, demo, report

__all__ = ["app"]

# Plain help texts: they are part of the documentation, and rich takes long to import.
app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
app.add_typer(data_app, name="data")
for command in (bench, report, demo):
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zonkey {zonkey.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Recognize classes that have a description and no example."""
