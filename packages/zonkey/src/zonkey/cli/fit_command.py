"""`zonkey fit`: from samples and classes to a model file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import app
from . import options
from .errors import one_line_errors, tell_joined
from .progress import show_progress

NOTHING = "nothing was written"
_MOST_COLUMNS = 20  # or runs of numbered ones that are listed
_LAST_NUMBER = re.compile(r"\d+$")
_LONGEST_VALUE = 40  # characters of a parameter that `zonkey fit` prints; `zonkey info` prints all


Preset = StrEnum("Preset", ["recommended", "paper"])
Candidates = StrEnum("Candidates", ["unseen", "all"])
Missing = StrEnum("Missing", ["negative", "unknown"])


def fit(
    source: Annotated[
        Path,
        typer.Argument(
            help="Pictures in one folder per class (or an archive, or a csv with paths), or "
            "texts or features with a label per sample.",
            metavar="SOURCE",
        ),
    ],
    classes: Annotated[
        Path | None,
        typer.Argument(
            help="Names or descriptions of classes, or prototypes: one vector per class. Classes "
            "may have no samples. By default the labels of pictures and texts are their names; "
            "features have no prototypes.",
            metavar="CLASSES",
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Model file to write."),
    ] = Path("model.zonkey"),
    candidates: Annotated[
        Candidates, typer.Option(help="Classes to choose from: all, or those without samples.")
    ] = Candidates.all,
    preset: Annotated[
        Preset, typer.Option(help="Recommended model, or the paper's with its default parameters.")
    ] = Preset.recommended,
    unlabeled: Annotated[
        Path | None, typer.Option(help="Unlabeled samples of the candidate classes to adapt to.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the samples, see `zonkey encoders`; by default efficientnet-lite0 for "
            "pictures, minilm-l6 (English) for texts."
        ),
    ] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the classes; by default that of the samples if it encodes texts too, "
            "else minilm-l6 (English)."
        ),
    ] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    text_columns: Annotated[list[str] | None, options.TEXT] = None,
    templates: Annotated[
        list[str] | None,
        typer.Option(
            "--template",
            help='Sentence around each text, such as "a photo of a {}". Repeat it for the mean of '
            'several. By default "{}" and "a photo of a {}" if pictures and names are given.',
        ),
    ] = None,
    chunks: Annotated[
        bool,
        typer.Option(
            "--chunks",
            help="Read features in chunks, for files larger than memory. After "
            "an interruption, the same command resumes from the folder OUTPUT.progress.",
        ),
    ] = False,
    multi_label: Annotated[
        bool,
        typer.Option(
            "--multi-label",
            help="Samples may have several labels, or none: the column of labels holds a|b.",
        ),
    ] = False,
    missing: Annotated[
        Missing,
        typer.Option(
            help="With --multi-label: a label that is not marked does not apply, or nobody knows."
        ),
    ] = Missing.negative,
    precision: Annotated[
        float | None,
        typer.Option(
            help="With --multi-label: wanted share of right predictions of each label, such as "
            "0.9; by default those of the best F1."
        ),
    ] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    feature_columns: Annotated[
        list[str] | None,
        typer.Option(
            help='Column of features in a table, or a pattern such as "f*". Repeat it for several. '
            "By default all columns of numbers."
        ),
    ] = None,
    id_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--id-column",
            help="Column of a table that is not a feature, or a pattern. Repeat it for several.",
        ),
    ] = None,
    labels: Annotated[Path | None, options.LABELS] = None,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    labels_key: Annotated[str | None, options.LABELS_KEY] = None,
    notes: Annotated[
        str | None, typer.Option(help="Free text for those who use the model.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="License of the model.")] = None,
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Seed.")] = 0,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Learn from pictures or texts and names, or from features and prototypes; write a model file.

    Classes without samples are unseen: the model recognizes them by their descriptions. A column
    `split` of SOURCE may mark rows: those marked `test` are left out, and parameters are chosen on
    the classes marked `val`.
    """
    given = {**options.pass_on(locals()), "id_columns": id_columns or ()}
    names = {"classes": "CLASSES", "id_columns": "--id-column"}
    with one_line_errors(NOTHING, **names), show_progress() as progress:
        found = app.fit(**given, progress=progress)
    tell_joined(found.joined)
    record = {"seconds": found.seconds, **found.info}
    if as_json:
        columns = {"columns": list(found.columns), "unused": list(found.unused)}
        pictures = {"skipped": list(found.skipped), "joined": found.joined}
        typer.echo(json.dumps({**record, **columns, **pictures}))
        return
    typer.echo(f"Samples:    {found.n_samples}{_tell_left_out(found.n_left_out)}", nl=False)
    typer.echo(f"; {len(found.skipped)} skipped" if found.skipped else "")
    if found.columns:
        unused = _list_columns([name or "one without a name" for name in found.unused])
        unused = f"; not used: {unused}" if unused else ""
        typer.echo(f"Columns:    {_list_columns(found.columns)}{unused}")
    print_encoders(record.get("training", {}))
    print_summary(record["summary"], longest=_LONGEST_VALUE)
    typer.echo(f"Time:       {record['seconds']:.1f} s")
    typer.echo(f"Model:      {output} ({record['bytes']:,} bytes)")


def _tell_left_out(n: int | None) -> str:
    if n is None:
        return "; rows marked `test` are left out"
    return f"; {n} marked `test` are left out" if n else ""


def _list_columns(columns: Sequence[str]) -> str:
    """Return names, runs such as f1 to f1280 as one, and how many there are if not all are."""
    runs: list[list[str]] = []
    after = None
    for name in columns:
        if name != after:
            runs.append([])
        runs[-1].append(name)
        number = _LAST_NUMBER.search(name)
        after = number and f"{name[: number.start()]}{int(number[0]) + 1:0{len(number[0])}}"
    parts = []
    for run in runs:
        parts += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run
    more = len(parts) - _MOST_COLUMNS
    parts[_MOST_COLUMNS:] = [f"and {more} more (see --json)"] if more > 0 else []
    count = f" ({len(columns)} columns)" if len(parts) < len(columns) else ""
    return ", ".join(parts) + count


def print_summary(summary: dict[str, Any], longest: float = math.inf) -> None:
    """Print a summary of a model and its parameters; longer values are left out."""
    typer.echo(f"Estimator:  {summary['estimator']}")
    typer.echo(f"Features:   {summary['n_features']}")
    seen, unseen, n = (summary[name] for name in ("n_seen", "n_unseen", "n_candidates"))
    typer.echo(f"Classes:    {seen} seen, {unseen} unseen; {n} candidates")
    if "tree" in summary:
        levels, inner = (summary["tree"][name] for name in ("levels", "inner"))
        typer.echo(f"Tree:       {levels} levels, {inner} inner nodes")
    for name, value in summary["chosen"].items():
        shown = _round_number(" ".join(value.split()))
        if len(shown) <= longest:
            typer.echo(f"Parameter:  {name}: {shown}")
    for name, score in summary["scores"].items():
        typer.echo(f"Score:      {score:.3f} ({name})")
    if summary["is_transductive"]:
        typer.echo("Adapted:    to unlabeled samples")


def print_encoders(training: dict[str, Any]) -> None:
    """Print the encoders of the pictures and texts of the training."""
    for name, role in (("encoder", "Encoder:"), ("text_encoder", "Texts:")):
        spec = training.get(name)
        if isinstance(spec, dict):
            templates = "".join(f', "{text}"' for text in spec.get("templates") or ())
            typer.echo(
                f"{role:<12}{spec.get('name')} ({spec.get('dimension')} features, revision "
                f"{spec.get('revision')}{templates})"
            )


def _round_number(value: str) -> str:
    """Return a number with few digits; other text unchanged."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value
