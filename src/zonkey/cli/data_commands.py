"""What `zonkey data` can do: list, describe and fetch data sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..datasets.fetch import fetch_dataset, find_dataset
from ..datasets.registry import EMBEDDED, REGISTRY, readable, unknown
from .errors import one_line_errors

data_app = typer.Typer(no_args_is_help=True, add_completion=False, help="Data sets to learn from.")

_NAME = typer.Argument(metavar="NAME", help="A name of `zonkey data list`.")
_AGAIN = "run the same command again to go on"
_JSON = typer.Option("--json", help="Print JSON instead of a table.")


@data_app.command("list")
def list_data(as_json: Annotated[bool, _JSON] = False) -> None:
    """List the data sets, and where they lie if they were fetched."""
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
def describe(name: Annotated[str, _NAME], as_json: Annotated[bool, _JSON] = False) -> None:
    """Tell all about a data set: size, source, license, citation."""
    with one_line_errors(_AGAIN):
        wanted = name.strip().lower()
        if wanted not in _names():
            raise unknown(name, _names())
        record = _record(wanted)
    if as_json:
        typer.echo(json.dumps(record))
        return
    record = {**record, "size": _size(record), "required": ", ".join(record.get("required", ()))}
    for key, value in record.items():  # not wrapped: addresses and paths get copied
        if value not in (None, "") and key != "embedded":
            typer.echo(f"{key + ':':<10} {value}")


@data_app.command("fetch")
def fetch(
    name: Annotated[str, _NAME],
    folder: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie; otherwise $ZONKEY_DATA, or the user's cache."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Fetch a data set and print its folder; goes on where an earlier call was cut off."""
    with one_line_errors(_AGAIN):
        typer.echo(fetch_dataset(name, folder=folder, progress=not quiet))


def _names() -> dict[str, Any]:
    """Return all data sets by name, the embedded ones first."""
    return {**{embedded.name: embedded for embedded in EMBEDDED}, **REGISTRY}


def _record(name: str) -> dict[str, Any]:
    """Return all that is known of a data set, ready for JSON."""
    embedded = name not in REGISTRY
    record = {**asdict(_names()[name]), "embedded": embedded, "where": _where(name)}
    return record if embedded else {**record, "file": REGISTRY[name].file}


def _where(name: str) -> str | None:
    if name not in REGISTRY:
        return "in the package"
    try:
        found = find_dataset(name)
    except ImportError:  # without pooch nothing can have been fetched to the cache
        return None
    return None if found is None else str(found)


def _size(record: dict[str, Any]) -> str:
    """Return the size with the file it is of, as several data sets may share one."""
    return f"{record['file']}, about {readable(record['size'])}" if "size" in record else ""
