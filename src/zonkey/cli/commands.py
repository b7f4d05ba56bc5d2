"""What `zonkey` on the command line can do: a parser around pure functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import zonkey

from .demo import DemoResult, run_demo

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Zero-shot classification.")


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
    """Recognise classes that have a description and no example."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the record.")] = Path(
        "zonkey-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Which numbers are never seen.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record instead of a table.")
    ] = False,
) -> None:
    """Read handwritten numbers, a quarter of which the model has never seen."""
    console = Console(stderr=as_json)
    try:  # before the work, not after it
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        typer.echo(
            f"--out must be a folder to write to; {out} is not ({error.strerror}).", err=True
        )
        raise typer.Exit(2) from None
    with console.status("Choosing parameters on training classes, fitting, testing ..."):
        result = run_demo(seed)
    picture, record = result.write(out)
    if as_json:
        typer.echo(json.dumps(result.record))
    else:
        _print(result, console)
        typer.echo(f"\nPicture: {picture}\nRecord:  {record}")  # not wrapped: paths get copied


def _print(result: DemoResult, console: Console) -> None:
    data = result.record["data"]
    console.print(
        f"{data['n_train']} training pictures of {data['n_seen']} numbers; "
        f"{data['n_unseen']} numbers are known by their digits only.\n"
    )
    table = Table(title="Accuracy (%, mean over classes)")
    for heading in (
        "model",
        "chosen on training classes",
        "unseen",
        "acc_s",
        "acc_u",
        "HM",
        "AUSUC",
    ):
        right = heading not in ("model", "chosen on training classes")
        table.add_column(heading, justify="right" if right else "left")
    for row in result.record["models"]:
        chosen = ", ".join(f"{name} {value:g}" for name, value in row["chosen"].items())
        figures = [row[key] for key in ("unseen_only", "acc_s", "acc_u", "hm", "ausuc")]
        table.add_row(row["model"], chosen or "-", *(f"{100 * x:.1f}" for x in figures))
    console.print(table)
    console.print(
        "unseen: among unseen classes only. acc_s, acc_u, HM: among all classes. "
        f"Chance: {100 / data['n_unseen']:.1f}."
    )
