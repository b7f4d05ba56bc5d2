"""What `zonkey` on the command line can do: a parser around pure functions."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import zonkey

from .bench_command import bench
from .data_commands import data_app
from .demo import run_demo
from .demo_page import HEADINGS, model_rows, write_demo
from .demo_shots import SHOTS as ANY_SHOTS
from .report_command import report_command

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Zero-shot classification.")
app.add_typer(data_app, name="data")
app.command("bench")(bench)
app.command("report")(report_command)


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the record.")] = Path(
        "zonkey-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of synthesis, and of what is shown.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record instead of a table.")
    ] = False,
) -> None:
    """Recognize emoji that the model has never seen, by their names."""
    console = Console(stderr=as_json)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):  # before the work, not after it
            pass
        # The matrices are small: more threads would wait for each other, the more so the busier
        # the machine.
        with threadpool_limits(1), console.status("Loading emoji") as status:
            result = run_demo(seed, status.update)
            status.update("Drawing the page")
            page, record = write_demo(result, out)
    except OSError as error:
        typer.echo(
            f"--out must be a folder to write to; {out} is not ({error.strerror}). Choose another.",
            err=True,
        )
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(result.record))
    else:
        _print(result.record, console)
        typer.echo(f"\nPage:   {page}\nRecord: {record}")  # not wrapped: paths get copied


def _print(record: dict[str, Any], console: Console) -> None:
    data = record["data"]
    console.print(
        f"{data['n_samples']['train']} training pictures of {data['n_seen']} emoji; "
        f"{data['n_unseen']} others are known by name and keywords only.\n"
    )
    table = Table(title="Accuracy (%, mean over classes)")
    for i, heading in enumerate(("model", "chosen on validation classes", *HEADINGS.values())):
        table.add_column(heading, justify="right" if i > 1 else "left")
    for row in model_rows(record):
        table.add_row(*row)
    console.print(table)
    console.print(
        "unseen, hit@5: among unseen classes only. acc_s, acc_u, HM: among all classes. "
        f"Chance: {100 / data['n_unseen']:.1f}.\n"
    )
    shots = record["any_shot"]
    table = Table(title=f"Any-shot: hit@1 (%) among {shots['n_novel']} novel classes")
    table.add_column("model")
    for K in ANY_SHOTS:
        table.add_column(f"K = {K}", justify="right")
    for name, curve in shots["curves"].items():
        hits = dict(zip(curve["shots"], curve["hit@1"], strict=True))
        table.add_row(name, *(f"{100 * hits[K]:.1f}" if K in hits else "-" for K in ANY_SHOTS))
    console.print(table)
