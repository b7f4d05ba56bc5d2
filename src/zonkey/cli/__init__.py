"""The command line `zonkey`: parsers around functions of the library and of `zonkey.paper`."""

from typing import Annotated

import typer

import zonkey

from .class_commands import classes_app
from .data_commands import data_app
from .model_commands import evaluate, explain, export, fit, info, predict
from .paper_commands import bench, demo, report

__all__ = ["app"]

# Plain help texts: they are part of the documentation, and rich takes long to import.
app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
for command in (fit, predict, evaluate, explain, info):
    app.command()(command)
app.add_typer(classes_app, name="classes")
app.command()(export)
app.add_typer(data_app, name="data")
for command in (demo, bench, report):
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
