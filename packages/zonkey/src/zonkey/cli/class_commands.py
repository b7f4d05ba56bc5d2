"""`zonkey classes`: list, add and remove the classes of a model, without fitting again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .. import app
from . import options
from .errors import one_line_errors, tell_joined
from .progress import show_progress

classes_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Classes of a model: list, add, remove.",
)

_UNCHANGED = "the model is unchanged"
_OUTPUT = typer.Option("--output", "-o", help="Model file to write; by default MODEL itself.")


@classes_app.command("list")
def list_classes(
    model: Annotated[Path, options.MODEL], as_json: Annotated[bool, options.JSON] = False
) -> None:
    """List the classes of a model.

    Each is seen or unseen, and a candidate if the model chooses from it. In a tree, the nodes above
    it follow.
    """
    with one_line_errors(_UNCHANGED):
        rows = app.list_classes(model)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        kind = f"{row['kind']}{'' if row['candidate'] else ', no candidate'}"
        above = f"\t{' > '.join(map(str, row['above']))}" if row.get("above") else ""
        typer.echo(f"{row['label']}\t{kind}{above}")


@classes_app.command("add")
def add_classes(
    model: Annotated[Path, options.MODEL],
    classes: Annotated[
        Path | None,
        typer.Argument(
            help="Names, descriptions or prototypes of new classes, as in training. Known classes "
            "in it are skipped.",
            metavar="CLASSES",
        ),
    ] = None,
    shots: Annotated[
        str | None,
        typer.Option(
            help="Labeled pictures, texts or features, of new or of known classes, to learn from."
        ),
    ] = None,
    output: Annotated[Path | None, _OUTPUT] = None,
    encoder: Annotated[str | None, options.ENCODER] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the classes; by default that of the model. Needed if its files are in "
            "another place now."
        ),
    ] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    text_columns: Annotated[list[str] | None, options.TEXT] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Add classes by their descriptions or prototypes, by labeled samples, or by both."""
    given = options.pass_on(locals())
    with one_line_errors(_UNCHANGED, classes="CLASSES"), show_progress() as progress:
        changed = app.add_classes(**given, progress=progress)
    _tell(changed, as_json)


@classes_app.command("remove")
def remove_classes(
    model: Annotated[Path, options.MODEL],
    labels: Annotated[list[str], typer.Argument(help="Labels of classes.", metavar="LABEL")],
    output: Annotated[Path | None, _OUTPUT] = None,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Remove classes.

    What the model learned from their samples about other classes stays.
    """
    with one_line_errors(_UNCHANGED):
        changed = app.remove_classes(model, labels, output)
    _tell(changed, as_json)


def _tell(changed: app.ChangedClasses, as_json: bool) -> None:
    """Say what changed."""
    tell_joined(changed.joined)
    if as_json:
        typer.echo(json.dumps(asdict(changed)))
        return
    for name in ("added", "removed"):
        labels = getattr(changed, name)
        if labels:
            typer.echo(f"{name.capitalize()}: {', '.join(map(str, labels))}")
    if changed.learned:
        n = sum(changed.learned.values())
        typer.echo(f"Learned: {n} sample{'s' * (n > 1)} of {', '.join(changed.learned)}")
    numbers = f"{changed.classes} classes, {changed.candidates} candidates"
    typer.echo(f"{changed.output}: {numbers}")
