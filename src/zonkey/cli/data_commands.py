"""`zonkey data`: list, describe, fetch and check data sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import one_line_errors, with_options
from .options import FEATURES_KEY, JSON, LABEL_COLUMN, LABELS_KEY

data_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Data sets to learn from.",
)

_NAME = typer.Argument(metavar="NAME", help="A name listed by `zonkey data list`.")
_AGAIN = "run the same command again to resume"
_MOST_FILES = 3


@data_app.command("list")
def list_data(as_json: Annotated[bool, JSON] = False) -> None:
    """List the data sets, and the folders of those that were fetched."""
    from rich.console import Console
    from rich.table import Table

    records = [_record(name) for name in _names()]
    if as_json:
        typer.echo(json.dumps(records))
        return
    table = Table("name", "what", "size")
    table.add_column("where", overflow="fold")
    for record in records:
        what = record["about"].split(";")[0]
        table.add_row(record["name"], what, _size(record), record["where"] or "not fetched")
    Console().print(table)
    typer.echo("License and citation: zonkey data info NAME")


@data_app.command("info")
def describe(name: Annotated[str, _NAME], as_json: Annotated[bool, JSON] = False) -> None:
    """Describe a data set: size, source, license, citation."""
    from ..datasets.registry import unknown_name

    with one_line_errors(_AGAIN):
        wanted = name.strip().lower()
        if wanted not in _names():
            raise unknown_name(name, _names())
        record = _record(wanted)
    if as_json:
        typer.echo(json.dumps(record))
        return
    record = {**record, "size": _size(record), "required": ", ".join(record.get("required", ()))}
    for key, value in record.items():  # not wrapped: users copy addresses and paths
        if value not in (None, "") and key != "embedded":
            typer.echo(f"{key + ':':<10} {value}")


@data_app.command("fetch")
def fetch(
    name: Annotated[str, _NAME],
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of all data sets; by default $ZONKEY_DATA or the user's cache."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide the progress bar.")] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Fetch a data set, and print its folder.

    It resumes an interrupted download.
    """
    with one_line_errors(_AGAIN):
        from ..datasets.fetch import fetch_dataset

        where = str(fetch_dataset(name, folder=folder, progress=not quiet))
    typer.echo(json.dumps({"name": name, "where": where}) if as_json else where)


@data_app.command("check")
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
    label_column: Annotated[str | None, LABEL_COLUMN] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    labels_key: Annotated[str | None, LABELS_KEY] = None,
    as_json: Annotated[bool, JSON] = False,
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
    from ..datasets.check import check_files, check_folder

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
        console.print(Text(f"{mark} {with_options(line)}".lstrip(), style=style), soft_wrap=True)


def _names() -> dict[str, Any]:
    """Return all data sets by name, the embedded ones first."""
    from ..datasets.registry import EMBEDDED, REGISTRY

    return {**{embedded.name: embedded for embedded in EMBEDDED}, **REGISTRY}


def _record(name: str) -> dict[str, Any]:
    """Return the facts about a data set, ready for JSON."""
    entry = _names()[name]
    file = getattr(entry, "file", None)  # an embedded data set is no file to fetch
    record = {**asdict(entry), "embedded": file is None, "where": _where(name, file is None)}
    return record if file is None else {**record, "file": file}


def _where(name: str, embedded: bool) -> str | None:
    if embedded:
        return "in the package"
    from ..datasets.fetch import find_dataset

    try:
        found = find_dataset(name)
    except ImportError:  # without pooch nothing can have been fetched to the cache
        return None
    return None if found is None else str(found)


def _size(record: dict[str, Any]) -> str:
    """Return the size and its file, which several data sets may share."""
    from rich.filesize import decimal

    return f"{record['file']}, about {decimal(record['size'])}" if "size" in record else ""
