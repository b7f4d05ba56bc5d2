"""`zonkey data`: check data sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from . import options
from .errors import tell_problem

data_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Data sets to learn from.",
)

_MOST_FILES = 3


@data_app.command("check")
def data_check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Features, prototypes and labels, in any order; or the folder of a benchmark."
        ),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="File of the features.")] = None,
    prototypes: Annotated[Path | None, typer.Option(help="File of the prototypes.")] = None,
    labels: Annotated[Path | None, typer.Option(help="File of the labels.")] = None,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    labels_key: Annotated[str | None, options.LABELS_KEY] = None,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Check your own files before you use them.

    The exit code is 2 if something must be fixed.
    """
    n_files = len(files or []) + sum(path is not None for path in (features, prototypes, labels))
    if not 1 <= n_files <= _MOST_FILES:
        typer.echo(
            f"data check takes one to {_MOST_FILES} files; got {n_files}. Pass features, "
            "prototypes and, if they have a file of their own, labels.",
            err=True,
        )
        raise typer.Exit(2)
    from ..files.check import check_files, check_folder

    if files and len(files) == n_files == 1 and files[0].is_dir():
        report = check_folder(files[0])
    else:
        named = {"features": features, "prototypes": prototypes, "labels": labels}
        keys = {"features_key": features_key, "labels_key": labels_key}
        report = check_files(files or (), **named, **keys, label_column=label_column)
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _print_lines("-", report.facts, "")
        _print_lines("!", report.warnings, "yellow")
        n = len(report.problems)
        verdict = f"{n} problem{'s' * (n > 1)} to fix." if n else "The files can be used."
        _print_lines("", [verdict], "bold")
    _print_lines("x", report.problems, "red", stderr=True)
    if report.problems:
        raise typer.Exit(2)


def _print_lines(mark: str, lines: list[str], style: str, *, stderr: bool = False) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=stderr)
    for line in lines:  # as Text: brackets in a label are not markup
        console.print(Text(f"{mark} {tell_problem(line)}".lstrip(), style=style), soft_wrap=True)
