"""All commands of `zonkey`: parsers around functions of the library and of `zonkey.paper`."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import zonkey

from .class_commands import classes_app
from .data_commands import data_app
from .errors import output_errors
from .fit_command import fit
from .model_commands import evaluate, explain, export, info, predict
from .paper_commands import bench, demo, methods, report
from .picture_commands import classify, embed, encoders


class _Commands(TyperGroup):
    """All commands; what they print may fail too."""

    def invoke(self, ctx: Any) -> Any:
        with output_errors():
            return super().invoke(ctx)


# Plain help texts: they are part of the documentation, and rich takes long to import.
app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
for command in (classify, embed, fit, predict, evaluate, explain, info):
    app.command()(command)
app.add_typer(classes_app, name="classes")
app.command()(export)
app.add_typer(data_app, name="data")
app.command()(encoders)
for command in (methods, demo, bench, report):
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zonkey {zonkey.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Recognize classes that have a description and no example."""
