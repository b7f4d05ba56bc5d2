"""`zonkey predict`, `evaluate`, `explain`, `info` and `export`: from files to answers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import app
from . import options
from .errors import one_line_errors, refuse, tell_precision
from .fit_command import NOTHING, print_encoders, print_summary
from .progress import show_progress

_TERMS = {
    "hit@": "hit@k: the class is among the k best.",
    "ECE": "ECE: mean gap between probability and accuracy.",
    "AURC": "AURC: share of wrong answers, mean over all shares of samples that are answered.",
    "AUROC": "AUROC: how often a stranger is more novel than a sample of the classes.",
    "rejected at": "rejected at 95 % of strangers: samples of the classes that a threshold of the "
    "novelty rejects with 95 % of the strangers; less is better.",
}
_SOURCE = typer.Argument(
    help="Pictures (a folder, an archive, a csv with paths, one picture), texts (a table with a "
    "column of texts, or a file of lines) or features, with or without labels; - is standard "
    "input.",
    metavar="SOURCE",
)
_LABELED = typer.Argument(
    help="Pictures in one folder per class, or texts or features with labels; - is standard input.",
    metavar="SOURCE",
)
_CANDIDATES = typer.Option(
    "--candidates",
    help="Classes to choose from instead of those of the model: unseen, all, or labels with "
    "commas between them.",
)
_FORMAT = typer.Option("--format", help="Format of standard input.")
Format = StrEnum("Format", ["csv", "tsv", "jsonl", "parquet", "npz", "npy"])
# The same list of the library would take long to import.
EVERY_BASELINE = ("nearest-mean", "ridge", "logistic", "paper")


def predict(
    model: Annotated[Path, options.MODEL],
    source: Annotated[str, _SOURCE],
    output: Annotated[str, options.ANSWERS] = "-",
    top: Annotated[int, options.TOP] = 1,
    proba: Annotated[bool, options.PROBA] = False,
    novelty: Annotated[bool, options.NOVELTY] = False,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    reject_below: Annotated[float | None, options.REJECT_BELOW] = None,
    precision: Annotated[float | None, options.PRECISION] = None,
    held_out: Annotated[Path | None, options.HELD_OUT] = None,
    level: Annotated[int | None, options.LEVEL] = None,
    path: Annotated[bool, options.PATH] = False,
    bins: Annotated[Path | None, options.BINS] = None,
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
    """Write the predicted class of every picture, text or row.

    The name of the file, or the columns that are not features, come first, then `predicted`,
    `path`, `top_1`, `top_2`, ..., `proba_1`, `proba_2`, ... and `novelty`. No labels are needed.
    Rows are read and written in blocks: there may be more of them than fit into memory.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else given["format"]
        target = choose_target(output, to)
        given |= {"output": target, "output_format": to, "candidates": candidates or ()}
        with show_progress() as progress:
            found = app.predict(**given, progress=progress)
    tell_precision(found.precision)
    if output == "-":
        return
    if as_json:
        record = {"output": output, "rows": found.rows, "columns": found.columns}
        record |= {"seconds": found.seconds, "skipped": found.skipped}
        record |= {"precision": None if found.precision is None else asdict(found.precision)}
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"{found.rows} rows in {output} ({found.seconds:.1f} s)")


def choose_target(output: str, format: str) -> Any:
    """Return the file to write, or standard output for "-" if it can be written in the format."""
    if output != "-":
        return output
    if format not in ("csv", "tsv", "jsonl"):
        refuse(
            f"--format of standard output must be csv, tsv or jsonl; got {format}. Name a file "
            "with --output."
        )
    if sys.stdout is None:
        refuse("Standard output must be open; it is closed. Name a file with --output.")
    return sys.stdout.buffer


def evaluate(
    model: Annotated[Path, options.MODEL],
    source: Annotated[str, _LABELED],
    html: Annotated[Path | None, typer.Option(help="Page to write, with tables and plots.")] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            help=f"Models to compare with: {', '.join(EVERY_BASELINE)}, separated by commas; or "
            "all."
        ),
    ] = None,
    training: Annotated[
        str | None,
        typer.Option(
            help="Labeled samples that baselines learn from; by default those of SOURCE that are "
            "not marked `test`."
        ),
    ] = None,
    reject_below: Annotated[float | None, options.REJECT_BELOW] = None,
    precision: Annotated[float | None, options.PRECISION] = None,
    held_out: Annotated[Path | None, options.HELD_OUT] = None,
    bins: Annotated[Path | None, options.BINS] = None,
    encoder: Annotated[str | None, options.ENCODER] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    labels: Annotated[Path | None, options.LABELS] = None,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    labels_key: Annotated[str | None, options.LABELS_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Measure how well a model does on labeled samples.

    Accuracies of unseen and seen classes, each with a confidence interval. If SOURCE has a column
    `split`, only rows marked `test` are used. Samples without a label are left out. With
    --reject-below, also the share of samples that are rejected, and the accuracy among the others.
    If some labels are none of the classes of MODEL, also how well the novelty of these strangers
    tells them from the other samples. With --bins, an answer is right if its bin holds the class;
    samples of classes in no bin are left out.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING):
        given["baselines"] = _baseline_names(baselines)
        with show_progress() as progress:
            result = app.evaluate(**given, progress=progress)
    if as_json:
        typer.echo(json.dumps(result.to_dict()))
        return
    text = result.summary()
    typer.echo(text)
    terms = [meaning for term, meaning in _TERMS.items() if term in text]
    if terms:
        typer.echo(f"\n{' '.join(terms)}")
    if html is not None:
        typer.echo(f"\nPage: {html}")


def _baseline_names(given: str | None) -> tuple[str, ...]:
    if given is None:
        return ()
    names = tuple(name.strip() for name in given.split(","))
    if names == ("all",):
        return EVERY_BASELINE
    unknown = [name for name in names if name not in EVERY_BASELINE]
    if unknown:
        refuse(
            f"--baselines must be among {', '.join(EVERY_BASELINE)}, or all; got {unknown[0]!r}. "
            "Correct it."
        )
    return names


def explain(
    model: Annotated[Path, options.MODEL],
    source: Annotated[str, _SOURCE],
    row: Annotated[int, typer.Option(min=0, help="Position of the sample, counted from 0.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="Number of best classes to show.")] = 5,
    plot: Annotated[Path | None, typer.Option(help="Picture to write: png or svg.")] = None,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    encoder: Annotated[str | None, options.ENCODER] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Explain the answer for one picture, text or row.

    Shows the classes, labeled samples and attributes for and against it.
    """
    given = {**options.pass_on(locals()), "candidates": candidates or ()}
    with one_line_errors(NOTHING):
        from ..app.writing import drop_nan

        found = app.explain(**given)
    if as_json:
        columns = {name: drop_nan(cell) for name, cell in found.columns.items()}
        record = {"row": row, "columns": columns, **found.explanation.to_dict()}
        typer.echo(json.dumps(record, default=str))
        return
    for name, cell in found.columns.items():
        typer.echo(f"{name}: {cell}")
    typer.echo(found.explanation.table())
    if plot is not None:
        typer.echo(f"Picture: {plot}")


def info(
    model: Annotated[Path, options.MODEL],
    card: Annotated[
        Path | None, typer.Option(help="Model card to write: a page in Markdown.")
    ] = None,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Describe a model file.

    Classes, parameters, training, notes, license and versions. The arrays are not read.
    """
    with one_line_errors(NOTHING):
        found = app.info(model, card)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"Model:      {model} ({found['bytes']:,} bytes, schema {found['schema']})")
    print_summary(found["summary"])
    print_encoders(found.get("training", {}))
    for name, value in found.get("training", {}).items():
        if isinstance(value, dict):
            continue
        shown = f"{len(value)} names" if isinstance(value, list) else value
        typer.echo(f"Training:   {name.replace('_', ' ')}: {shown}")
    for name in ("notes", "license", "created"):
        if name in found:
            typer.echo(f"{name.capitalize() + ':':<11} {found[name]}")
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    typer.echo(f"Versions:   {versions}")
    if card is not None:
        typer.echo(f"Card:       {card}")


def export(
    model: Annotated[Path, options.MODEL],
    onnx: Annotated[Path, typer.Option(help="ONNX file to write.")],
    top: Annotated[int, typer.Option(min=1, help="Number of best classes in its output.")] = 5,
    with_encoder: Annotated[
        bool,
        typer.Option(
            "--with-encoder", help="Start from the pixels of pictures instead of features."
        ),
    ] = False,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Write a model as an ONNX graph.

    It maps raw features to labels, the best classes and their probabilities. With --with-encoder,
    its input is pixels; its metadata say how pictures are resized.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING), show_progress() as progress:
        found = app.export(**given, progress=progress)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"{onnx} ({found.bytes:,} bytes) with the outputs {', '.join(found.outputs)}")
