"""`zonkey suggest` and `zonkey learn`: label many samples at a time."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .. import app
from . import options
from .class_commands import MODEL_OUTPUT, UNCHANGED, tell_changed
from .errors import one_line_errors
from .fit_command import NOTHING
from .model_commands import SAMPLES, Format, choose_target
from .progress import show_progress


def suggest(
    model: Annotated[Path, options.MODEL],
    source: Annotated[str, SAMPLES],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Table to write: csv, tsv, jsonl or parquet; - is standard output.",
        ),
    ] = "-",
    group_size: Annotated[
        int, typer.Option(min=1, help="Largest number of samples in a group.")
    ] = 50,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of groups to write, the most useful ones; by default all."
        ),
    ] = None,
    novelty_above: Annotated[
        float,
        typer.Option(
            help="Novelty from which on unsure samples are unlike all classes, and come in groups "
            "without a suggestion."
        ),
    ] = 1.0,
    encoder: Annotated[str | None, options.ENCODER] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    format: Annotated[
        Format, typer.Option("--format", help="Format of standard input and standard output.")
    ] = Format.csv,
    as_json: Annotated[bool, options.SUMMARY_JSON] = False,
) -> None:
    """Suggest labels in groups of like samples, most useful first.

    The columns are `sample`, `group`, `suggested`, `probability`, `accept_group` and `accept`, then
    those of SOURCE that are not features. To accept a whole group, write yes into `accept_group` in
    one of its rows; in `accept`, a row takes yes, no or another label. `zonkey learn` reads the
    table then. Samples that MODEL has learned from such tables are left out.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else given["format"]
        given |= {"output": choose_target(output, to), "output_format": to}
        with show_progress() as progress:
            found = app.suggest(**given, progress=progress)
    if output == "-":
        return
    if as_json:
        record = {name: value for name, value in asdict(found).items() if name != "answers"}
        typer.echo(json.dumps({"output": output, **record}))
        return
    others = {"in less useful groups": found.left_out, "learned before": found.known}
    more = "".join(f"; {n} {what} left out" for what, n in others.items() if n)
    seconds = f"({found.seconds:.1f} s)"
    typer.echo(f"{found.rows} samples in {found.groups} groups in {output}{more} {seconds}")


def learn(
    model: Annotated[Path, options.MODEL],
    table: Annotated[
        Path, typer.Argument(help="Table of `zonkey suggest`, filled in.", metavar="TABLE")
    ],
    source: Annotated[
        str | None,
        typer.Option(
            help="Pictures, texts or features that TABLE was made of. Needed for features, and for "
            "pictures whose paths are not relative to TABLE."
        ),
    ] = None,
    output: Annotated[Path | None, MODEL_OUTPUT] = None,
    encoder: Annotated[str | None, options.ENCODER] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Learn the accepted rows of a table, each sample once.

    In the column `accept`, yes, y, x, 1 and true take the suggested label, no, n, 0 and false leave
    the row out, and anything else is the label. An empty cell follows `accept_group`, which counts
    for all rows of its group. New labels become new classes. The model remembers what it has
    learned: the same table again changes nothing.
    """
    given = options.pass_on(locals())
    names = {"source": "--source", "table": "TABLE"}
    with one_line_errors(UNCHANGED, **names), show_progress() as progress:
        changed = app.learn(**given, progress=progress)
    tell_changed(changed, as_json)
