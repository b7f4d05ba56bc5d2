"""`zonkey demo`: the main job on embedded data."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..app.targets import require_writable
from .errors import one_line_errors, refuse

if TYPE_CHECKING:
    from rich.console import Console


class Demo(StrEnum):
    """What is demonstrated."""

    features = "features"
    pictures = "pictures"


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
            help='Text to find pictures for, such as "a striped horse". Repeat it for several.',
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the page, the record and pictures. By default zonkey-demo, for "
            "pictures zonkey-demo/pictures.",
            show_default=False,
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

    console = Console(stderr=as_json)
    show = _demo_of_pictures if what is Demo.pictures else _demo_of_features
    if name and what is not Demo.pictures:
        refuse("--name needs pictures to search; got none. Call `zonkey demo pictures`.")
    default = Path("zonkey-demo")
    out = out or (default / "pictures" if what is Demo.pictures else default)
    kept = "features so far are kept" if what is Demo.pictures else "nothing was written"
    with one_line_errors(kept), require_writable("out", out):
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):  # fails before the work, not after it
            pass
        record, print_tables, files = show(name or [], out, seed, console)
    if as_json:
        typer.echo(json.dumps(record))
    else:
        print_tables(record, console)
        typer.echo("\nPage:   {}\nRecord: {}".format(*files))  # not wrapped: paths get copied


def _demo_of_features(
    _: list[str], out: Path, seed: int, console: Console
) -> tuple[dict[str, Any], Any, tuple[Path, Path]]:
    from ..demo.features import run_demo, write_demo

    with console.status("Loading emoji") as status:
        result = run_demo(seed, status.update)
        status.update("Drawing the page")
        return result.record, _print_demo, write_demo(result, out)


def _demo_of_pictures(
    names: list[str], out: Path, seed: int, console: Console
) -> tuple[dict[str, Any], Any, tuple[Path, Path]]:
    from ..demo.pictures import run_picture_demo, write_picture_demo

    with console.status("Loading emoji") as status:
        result = run_picture_demo(names, out, seed, status.update)
        status.update("Drawing the page")
        return result.record, _print_picture_demo, write_picture_demo(result, out)


def _print_picture_demo(record: dict[str, Any], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..demo.pictures import score_rows

    table = Table(title="Accuracy (%)")
    for i, heading in enumerate(("pictures of", "among", "accuracy", "hit@5", "chance")):
        table.add_column(heading, justify="right" if i > 1 else "left")
    for row in score_rows(record):
        table.add_row(*row)
    console.print(table)
    for found in record["names"]:
        shown = (f"{row['label']}{'*' if row['is_unseen'] else ''}" for row in found["best"])
        console.print(Text(f"{found['name']}: {', '.join(shown)}"))  # no markup: it was typed
    console.print("* never seen in any style")


def _print_demo(record: dict[str, Any], console: Console) -> None:
    from rich.table import Table

    from ..demo.features import HEADINGS, SHOTS, model_rows, unlabeled_line

    data = record["data"]
    console.print(
        f"{data['n_samples']['train']} training pictures of {data['n_seen']} emoji; "
        f"{data['n_unseen']} others are known by name and keywords only.\n"
    )
    table = Table(title="Accuracy (%, mean over classes)")
    for i, heading in enumerate(("model", "chosen", *HEADINGS.values())):
        table.add_column(heading, justify="right" if i > 1 else "left")
    for row in model_rows(record):
        table.add_row(*row)
    console.print(table)
    console.print(
        "unseen, hit@5: among unseen classes only. acc_s, acc_u, HM: among all classes. "
        f"Chance: {100 / data['n_unseen']:.1f}."
    )
    console.print(f"{unlabeled_line(record)}\n")
    shots = record["any_shot"]
    table = Table(title=f"Any-shot: hit@1 (%) among {shots['n_novel']} novel classes")
    table.add_column("model")
    for K in SHOTS:
        table.add_column(f"K = {K}", justify="right")
    for name, curve in shots["curves"].items():
        hits = dict(zip(curve["shots"], curve["hit@1"], strict=True))
        table.add_row(name, *(f"{100 * hits[K]:.1f}" if K in hits else "-" for K in SHOTS))
    console.print(table)
