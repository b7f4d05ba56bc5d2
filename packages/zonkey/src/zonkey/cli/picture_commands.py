"""`zonkey embed`, `classify` and `encoders`: pictures and texts to vectors, pictures to classes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import app
from ..optional import format_install
from . import options
from .errors import one_line_errors, tell_joined, tell_precision
from .fit_command import NOTHING
from .model_commands import choose_target
from .progress import show_progress

if TYPE_CHECKING:
    from collections import Counter

_MOST_KEPT = 1 << 16  # as in `app.classify`
_MOST_SHOWN = 20  # classes whose number of samples is printed
_PICTURES = "a folder, a zip or tar archive, a csv with a column of paths, or one picture"
_TEXTS = "a table with a column of texts, or a file of lines"


def embed(
    source: Annotated[
        str,
        typer.Argument(
            help=f"Pictures: {_PICTURES}. Or texts: {_TEXTS}. Or, with --classes, a file of "
            "classes.",
            metavar="SOURCE",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write: npz, csv, tsv, parquet, jsonl or npy; of classes npz, csv, tsv or "
            "parquet.",
        ),
    ],
    classes: Annotated[
        bool,
        typer.Option(
            "--classes",
            help="SOURCE describes classes: each has one vector, the mean over its texts. Else "
            "each text has one.",
        ),
    ] = False,
    encoder: Annotated[str | None, typer.Option(help="Encoder; see `zonkey encoders`.")] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    text_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="With --classes, column of SOURCE that describes them; by default all columns of "
            "text. Repeat it for several.",
        ),
    ] = None,
    templates: Annotated[
        list[str] | None,
        typer.Option(
            "--template",
            help='Sentence for texts, such as "a photo of a {}". Repeat it for several.',
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the labels in a table.")
    ] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, or auto: CUDA if available.")
    ] = "auto",
    batch_size: Annotated[
        int, typer.Option(min=1, help="Number of pictures or texts to encode at once.")
    ] = 32,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Turn pictures or texts into features, or texts of classes into prototypes.

    `zonkey fit` and `zonkey predict` read the files. Features of pictures and texts come with the
    name of each file or the text, labels and other columns of SOURCE; in npy there are features
    only.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING), show_progress() as progress:
        found = app.embed(**given, progress=progress)
    spec = found.encoder
    if as_json:
        record = {"output": found.output, "kind": found.kind, "rows": found.rows}
        if found.columns is not None:
            record |= {"columns": found.columns, "left_out": found.left_out}
            record |= {"skipped": found.skipped}
        typer.echo(json.dumps({**record, "encoder": spec, "seconds": found.seconds}))
        return
    each = {"texts": ", one vector per text", "classes": ", one vector per class"}
    typer.echo(
        f"{found.rows} {found.kind} in {output}: {spec['dimension']} dimensions"
        f"{each.get(found.kind, '')}"
    )
    typer.echo(f"Encoder: {spec['name']} ({found.seconds:.1f} s)")
    if found.left_out:
        typer.echo(
            f"Left out: {', '.join(found.left_out)}. Numbers beside features would be read as "
            "features. Write npz, parquet or jsonl to keep them.",
            err=True,
        )


def classify(
    source: Annotated[
        str, typer.Argument(help=f"Pictures: {_PICTURES}. Or texts: {_TEXTS}.", metavar="SOURCE")
    ],
    classes: Annotated[
        str | None,
        typer.Option(
            help='Classes to choose from: names as in "cat, dog, truck", or a file of names and '
            "descriptions, in English unless --encoder knows others; a column parent makes a tree. "
            "By default those of --shots, else, for pictures, the 1,000 classes of ImageNet in the "
            "tree of WordNet."
        ),
    ] = None,
    shots: Annotated[
        str | None,
        typer.Option(
            help="Labeled samples to learn from: pictures in one folder per class, or a table of "
            "texts. New classes join."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the samples, see `zonkey encoders`, instead of the pretrained model "
            "for pictures, or minilm-l6 for texts. Without --shots, one of a pair such as "
            "clip-vit-b32."
        ),
    ] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the names, if it has another name than that of the samples: for "
            "example the second of two ONNX graphs."
        ),
    ] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    templates: Annotated[
        list[str] | None,
        typer.Option(
            "--template",
            help="Sentence around each name or text; repeat it for the mean of several. By default "
            '"{}" and "a photo of a {}" for pictures.',
        ),
    ] = None,
    adapt: Annotated[
        bool,
        typer.Option(
            "--adapt",
            help="Learn from the samples of SOURCE themselves, which need no labels. Of more than "
            f"{_MOST_KEPT:,}, an even sample is used.",
        ),
    ] = False,
    output: Annotated[str, options.ANSWERS] = "-",
    top: Annotated[int, options.TOP] = 1,
    proba: Annotated[bool, options.PROBA] = False,
    novelty: Annotated[bool, options.NOVELTY] = False,
    reject_below: Annotated[float | None, options.REJECT_BELOW] = None,
    precision: Annotated[float | None, options.PRECISION] = None,
    held_out: Annotated[Path | None, options.HELD_OUT] = None,
    level: Annotated[int | None, options.LEVEL] = None,
    path: Annotated[bool, options.PATH] = False,
    bins: Annotated[Path | None, options.BINS] = None,
    save: Annotated[
        Path | None, typer.Option(help="Model file to write, for `zonkey predict`.")
    ] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    as_json: Annotated[bool, options.SUMMARY_JSON] = False,
) -> None:
    """Write the class of every picture or text, given the names of the classes.

    No labeled sample is needed; --shots and --adapt make it better. For pictures, a pretrained
    model that knows the classes of ImageNet compares the names with theirs. Texts and names are
    encoded by one encoder and compared with each other, as are pictures and names with --encoder
    clip-vit-b32.
    """
    given = options.pass_on(locals())
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else "csv"
        given |= {"output": choose_target(output, to), "format": to}
        with show_progress() as progress:
            found = app.classify(**given, progress=progress)
    tell_joined(found.joined)
    tell_precision(found.precision)
    if as_json and output != "-":
        record = {"output": output, "rows": found.rows, "counts": dict(found.counts.most_common())}
        record |= {"labeled": found.labeled, "agreement": found.agreement}
        record |= {"skipped": found.skipped, "seconds": found.seconds}
        record |= {"precision": None if found.precision is None else asdict(found.precision)}
        typer.echo(json.dumps({**record, "model": None if save is None else str(save)}))
        return
    if found.agreement is not None:
        share = f"{found.agreement:.1%}".replace("%", " %")
        typer.echo(f"Labels of SOURCE agree with {share} of {found.labeled} predictions.", err=True)
    if output != "-":
        _print_counts(found.counts)
        typer.echo(f"{found.rows} rows in {output} ({found.seconds:.1f} s)")
    if save is not None:
        typer.echo(f"Model: {save} ({save.stat().st_size:,} bytes)", err=output == "-")


def _print_counts(counts: Counter[str]) -> None:
    shown = counts.most_common(_MOST_SHOWN)
    width = max(len(label) for label, _ in shown)
    for label, n in shown:
        typer.echo(f"{label:<{width}}  {n:>6}")
    if len(counts) > len(shown):
        typer.echo(f"and {len(counts) - len(shown)} further classes")


def encoders(as_json: Annotated[bool, options.JSON] = False) -> None:
    """List the encoders of pictures and texts.

    Any other model is named by its backend: onnx:PATH, transformers:NAME_OR_PATH or
    sentence-transformers:NAME_OR_PATH.
    """
    from ..encoders.registry import list_encoders

    infos = list_encoders()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos]))
        return
    # Not a table that wraps: users copy the names.
    encodes = {"image": "pictures", "text": "texts", "joint": "both"}
    typer.echo(_line("name", "encodes", "dimension", "size", "license", "extra"))
    for info in infos:
        size = f"{info.megabytes:.0f} MB"
        kind = encodes[info.kind]
        typer.echo(_line(info.name, kind, info.dimension, size, info.license, info.extra))
    embedded = ", ".join(info.name for info in infos if info.embedded)
    typer.echo(f"Part of the package: {embedded}. Others need a download.")
    typer.echo("Texts and names must be English, but for multilingual-minilm.")
    typer.echo("By path or name: onnx:..., transformers:..., sentence-transformers:...")
    typer.echo(f"Install an extra by its name:\n{format_install('zonkey', 'NAME')}")


def _line(name: str, kind: str, dimension: object, size: str, license: str, extra: str) -> str:
    return f"{name:<20}{kind:<9}{dimension:>9}  {size:>6}  {license:<11}{extra}"
