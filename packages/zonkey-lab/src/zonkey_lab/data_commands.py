"""`zonkey data list`, `info` and `fetch`: benchmark data sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zonkey.cli.errors import one_line_errors
from zonkey.cli.options import JSON

_NAME = typer.Argument(metavar="NAME", help="A name listed by `zonkey data list`.")
_AGAIN = "run the same command again to resume"


def list_data(as_json: Annotated[bool, JSON] = False) -> None:
    """List the data sets, and the folders of those that are there."""
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
        absent = "not fetched" if "url" in record else "not there"
        table.add_row(record["name"], what, _size(record), record["where"] or absent)
    Console().print(table)
    typer.echo("License, citation, and what to put where: zonkey data info NAME")


def describe(name: Annotated[str, _NAME], as_json: Annotated[bool, JSON] = False) -> None:
    """Describe a data set: size, source, license, citation."""
    from .datasets.registry import unknown_name

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
        from .datasets.fetch import fetch_dataset

        where = str(fetch_dataset(name, folder=folder, progress=not quiet))
    typer.echo(json.dumps({"name": name, "where": where}) if as_json else where)


def _names() -> dict[str, Any]:
    """Return all data sets by name, the embedded ones first."""
    from .datasets.registry import EMBEDDED, PLACED, REGISTRY

    return {**{embedded.name: embedded for embedded in EMBEDDED}, **REGISTRY, **PLACED}


def _record(name: str) -> dict[str, Any]:
    """Return the facts about a data set, ready for JSON."""
    entry = _names()[name]
    embedded = not hasattr(entry, "members")  # it has no folder
    record = {**asdict(entry), "embedded": embedded, "where": _locate(name, embedded)}
    file = getattr(entry, "file", None)  # of an archive on the web
    return record if file is None else {**record, "file": file}


def _locate(name: str, embedded: bool) -> str | None:
    if embedded:
        return "in the package"
    from .datasets.fetch import find_dataset

    try:
        found = find_dataset(name)
    except ImportError:  # without pooch nothing can have been fetched to the cache
        return None
    return None if found is None else str(found)


def _size(record: dict[str, Any]) -> str:
    """Return the size and its file, which several data sets may share."""
    from rich.filesize import decimal

    return f"{record['file']}, about {decimal(record['size'])}" if "size" in record else ""
