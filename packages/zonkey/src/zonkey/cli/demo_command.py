"""`zonkey demo`: the main job on embedded data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..app.targets import require_writable
from .errors import one_line_errors, refuse

if TYPE_CHECKING:
    from rich.console import Console


Demo = StrEnum("Demo", ["features", "pictures"])


def demo(
    what: Annotated[
        Demo,
        typer.Argument(
            metavar="WHAT",
            help="features: models compared on embedded features; or pictures: files of pictures, "
            "encoded and searched by text, with the extra `images`.",
        ),
    ] = Demo.features,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help='Text to find pictures for, such as "a striped horse". Repeat it for several.'
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the page, the record and pictures. By default zonkey-demo, for "
            "pictures zonkey-demo/pictures."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of synthesis and of the samples shown.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record instead of a table.")
    ] = False,
) -> None:
    """Recognize emoji that the model has never seen, by their names."""
    from rich.console import Console

    console, of_pictures = Console(stderr=as_json), what is Demo.pictures
    if name and not of_pictures:
        refuse("--name needs pictures to search; got none. Call `zonkey demo pictures`.")
    out = out or Path("zonkey-demo") / ("pictures" if of_pictures else "")
    kept = "features so far are kept" if of_pictures else "nothing was written"
    with one_line_errors(kept), require_writable("out", out):
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):  # fails before the work, not after it
            pass
        with console.status("Loading emoji") as status:
            if of_pictures:
                from ..demo.pictures import run_picture_demo, write_picture_demo

                result = run_picture_demo(name or [], out, seed, status.update)
                status.update("Drawing the page")
                files = write_picture_demo(result, out)
            else:
                from ..demo.features import run_demo, write_demo

                result = run_demo(seed, status.update)
                status.update("Drawing the page")
                files = write_demo(result, out)
    if as_json:
        typer.echo(json.dumps(result.record))
        return
    (_print_picture_demo if of_pictures else _print_demo)(result.record, console)
    typer.echo("\nPage:   {}\nRecord: {}".format(*files))  # not wrapped: paths get copied


def _print_table(
    console: Console, title: str, headings: Iterable[str], rows: Iterable[Iterable[str]], left: int
) -> None:
    """Print a table; the first columns, of text, stand left and the others right."""
    from rich.table import Table

    table = Table(title=title)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < left else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _print_picture_demo(record: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    from ..demo.pictures import score_rows

    headings = "pictures of", "among", "accuracy", "hit@5", "chance"
    _print_table(console, "Accuracy (%)", headings, score_rows(record), 2)
    for found in record["names"]:
        shown = (f"{row['label']}{'*' if row['is_unseen'] else ''}" for row in found["best"])
        console.print(Text(f"{found['name']}: {', '.join(shown)}"))  # no markup: it was typed
    console.print("* never seen in any style")


def _print_demo(record: dict[str, Any], console: Console) -> None:
    from ..demo.features import HEADINGS, SHOTS, model_rows, unlabeled_line

    data = record["data"]
    console.print(
        f"{data['n_samples']['train']} training pictures of {data['n_seen']} emoji; "
        f"{data['n_unseen']} others are known by name and keywords only.\n"
    )
    headings = "model", "chosen", *HEADINGS.values()
    _print_table(console, "Accuracy (%, mean over classes)", headings, model_rows(record), 2)
    console.print(
        "unseen, hit@5: among unseen classes only. acc_s, acc_u, HM: among all classes. "
        f"Chance: {100 / data['n_unseen']:.1f}."
    )
    console.print(f"{unlabeled_line(record)}\n")
    shots = record["any_shot"]
    rows = []
    for name, curve in shots["curves"].items():
        hits = dict(zip(curve["shots"], curve["hit@1"], strict=True))
        rows.append([name, *(f"{100 * hits[K]:.1f}" if K in hits else "-" for K in SHOTS)])
    title = f"Any-shot: hit@1 (%) among {shots['n_novel']} novel classes"
    _print_table(console, title, ("model", *(f"K = {K}" for K in SHOTS)), rows, 1)
