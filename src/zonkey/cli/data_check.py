"""`zonkey data check`: say in plain words what is wrong with files of features and prototypes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..datasets.check_files import check_files
from ..datasets.check_findings import Report
from ..datasets.check_folder import check_folder

_MOST_FILES = 3


def data_check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Features, prototypes and labels, in any order; or the folder of a benchmark.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="File of the features.")] = None,
    prototypes: Annotated[Path | None, typer.Option(help="File of the prototypes.")] = None,
    labels: Annotated[Path | None, typer.Option(help="File of the labels.")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the labels in a table.")
    ] = None,
    features_key: Annotated[
        str | None, typer.Option(help="Name of the features in a file of several arrays.")
    ] = None,
    labels_key: Annotated[
        str | None, typer.Option(help="Name of the labels in a file of several arrays.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON instead of text.")
    ] = False,
) -> None:
    """Check your own files before you use them; exit code 2 where something must be mended."""
    n_files = len(files or []) + sum(path is not None for path in (features, prototypes, labels))
    if not 1 <= n_files <= _MOST_FILES:
        typer.echo(
            f"data check takes one to {_MOST_FILES} files; got {n_files}. Pass features, "
            "prototypes and, where they are apart, labels.",
            err=True,
        )
        raise typer.Exit(2)
    if files and len(files) == n_files == 1 and files[0].is_dir():
        report = check_folder(files[0])
    else:
        named = {"features": features, "prototypes": prototypes, "labels": labels}
        keys = {"features_key": features_key, "labels_key": labels_key}
        report = check_files(files or (), **named, **keys, label_column=label_column)
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _print(report)
    _print_lines(Console(stderr=True), "x", report.problems, "red")
    if report.problems:
        raise typer.Exit(2)


def _print(report: Report) -> None:
    console = Console()
    _print_lines(console, "-", report.facts, "")
    _print_lines(console, "!", report.warnings, "yellow")
    verdict = "The files can be used."
    if report.problems:
        n = len(report.problems)
        verdict = f"{n} {'problem' if n == 1 else 'problems'} to mend."
    console.print(Text(verdict, style="bold"))


def _print_lines(console: Console, mark: str, lines: list[str], style: str) -> None:
    for line in lines:  # as Text and not wrapped: brackets in a label are no markup, a line is one
        console.print(Text(f"{mark} {line}", style=style), soft_wrap=True)
