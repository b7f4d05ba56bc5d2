"""All commands of `zonkey`, those of installed plugins included."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import zonkey

from ..optional import format_install
from ..plugins import LAB, find_plugins, load_plugin
from .class_commands import classes_app
from .data_commands import data_app
from .demo_command import demo
from .errors import output_errors
from .fit_command import fit
from .label_commands import learn, suggest
from .model_commands import evaluate, explain, export, info, predict
from .picture_commands import classify, embed, encoders

_LAB_COMMANDS = ("methods", "bench", "report", "compare", "data list", "data info", "data fetch")


class _Commands(TyperGroup):
    """Commands of the library, then those of plugins, imported when they are asked for."""

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self._list_added()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        name = self.prefix + cmd_name
        function = load_plugin("commands", name)
        if function is None:
            if name in _LAB_COMMANDS:
                ctx.fail(f"`zonkey {name}` is part of zonkey-lab. Run: {format_install(LAB)}.")
            return None
        added = typer.Typer(add_completion=False, rich_markup_mode=None)
        added.command(cmd_name)(function)
        return get_command(added)

    def _list_added(self) -> list[str]:
        names = (name.rpartition(" ") for name in find_plugins("commands"))
        return [last for first, space, last in names if first + space == self.prefix]


class _AllCommands(_Commands):
    """The commands; what they print may fail too."""

    def invoke(self, ctx: Any) -> Any:
        with output_errors():
            if "--help" in ctx.args:
                return super().invoke(ctx)
            from ..threads import limit_threads  # imports NumPy, which help texts do not need

            with limit_threads():
                return super().invoke(ctx)


class _DataCommands(_Commands):
    """Commands of `zonkey data`."""

    prefix = "data "


# Plain help texts: they are part of the documentation, and rich takes long to import.
app = typer.Typer(
    cls=_AllCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
for command in (classify, embed, fit, predict, evaluate, explain, suggest, learn, info):
    app.command()(command)
app.add_typer(classes_app, name="classes")
app.command()(export)
app.add_typer(data_app, name="data", cls=_DataCommands)
app.command()(encoders)
app.command()(demo)


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
