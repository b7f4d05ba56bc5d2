"""`zonkey predict`, `evaluate`, `explain`, `info` and `export`: from files to answers."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import one_line_errors, require_file
from .fit_command import NOTHING, print_encoders, print_summary
from .options import (
    ANSWERS,
    ENCODER,
    FEATURES_KEY,
    JSON,
    LABEL_COLUMN,
    LABELS,
    LABELS_KEY,
    MODEL,
    NO_CACHE,
    ON_ERROR,
    PROBA,
    SUMMARY_JSON,
    TOP,
    OnError,
)

if TYPE_CHECKING:
    import numpy as np

    from .loading import LoadedModel

_TERMS = {
    "hit@": "hit@k: the class is among the k best.",
    "ECE": "ECE: mean gap between probability and accuracy.",
}
_SOURCE = typer.Argument(
    help="Pictures (a folder, an archive, a csv with paths, one picture) or features, with or "
    "without labels; - is standard input.",
    metavar="SOURCE",
)
_LABELED = typer.Argument(
    help="Pictures in one folder per class, or features with labels; - is standard input.",
    metavar="SOURCE",
)
_CANDIDATES = typer.Option(
    "--candidates",
    help="Classes to choose from instead of those of the model: unseen, all, or a label. Repeat it "
    "for several labels.",
    show_default=False,
)
_FORMAT = typer.Option("--format", help="Format of standard input.")
# The same lists of the library would take long to import.
OUTPUT_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")
EVERY_BASELINE = ("nearest-mean", "ridge", "logistic", "paper")


class Format(StrEnum):
    """Formats of standard input."""

    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    npz = "npz"
    npy = "npy"


def predict(
    model: Annotated[Path, MODEL],
    source: Annotated[str, _SOURCE],
    output: Annotated[str, ANSWERS] = "-",
    top: Annotated[int, TOP] = 1,
    proba: Annotated[bool, PROBA] = False,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    encoder: Annotated[str | None, ENCODER] = None,
    on_error: Annotated[OnError, ON_ERROR] = OnError.stop,
    no_cache: Annotated[bool, NO_CACHE] = False,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    format: Annotated[
        Format, typer.Option("--format", help="Format of standard input and standard output.")
    ] = Format.csv,
    as_json: Annotated[bool, SUMMARY_JSON] = False,
) -> None:
    """Write the predicted class of every picture or row.

    The name of the file, or the columns that are no features, come first, then `predicted`,
    `top_1`, `top_2`, ... and `proba_1`, `proba_2`, ... No labels are needed. Rows are read and
    written in blocks: there may be more of them than fit into memory.
    """
    started = time.perf_counter()
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else format.value
        require_output(output, to, model, source)
        from .answers import answer_blocks, answer_names, open_answers
        from .loading import LoadedModel, watch_blocks

        options = {"encoder": encoder, "on_error": on_error.value, "cache": not no_cache}
        loaded = LoadedModel.load(model, **options).choose_from(candidates)
        n = len(loaded.last.classes_)
        if top > n:
            raise ValueError(f"--top must be at most the {n} candidates; got {top}. Ask for fewer.")
        if proba:
            loaded.require("predict_proba", "--proba")
        names = answer_names(top, with_top=top > 1, with_proba=proba)
        stream = loaded.stream(source, format=format.value, features_key=features_key)
        n_rows, columns = 0, names
        with open_answers(output, to) as write:
            blocks = watch_blocks(stream, "Predicting")
            for answers in answer_blocks(blocks, loaded.model, names, top, source):
                write(answers)
                n_rows, columns = n_rows + len(answers["predicted"]), [*answers]
    seconds = time.perf_counter() - started
    if output == "-":
        return
    if as_json:
        record = {"output": output, "rows": n_rows, "columns": columns, "seconds": seconds}
        record["skipped"] = [str(error) for error in getattr(stream, "skipped", ())]
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"{n_rows} rows in {output} ({seconds:.1f} s)")


def require_output(output: str, format: str, *inputs: str | Path) -> None:
    """Refuse an output that could not be written, before the work."""
    if output == "-":
        if format not in ("csv", "tsv", "jsonl"):
            raise ValueError(
                f"--format of standard output must be csv, tsv or jsonl; got {format}. Name a file "
                "with --output."
            )
        return
    if Path(output).suffix.lower() not in OUTPUT_ENDINGS:
        raise ValueError(
            f"--output must end in {' or '.join(OUTPUT_ENDINGS)}; got {Path(output).name}. "
            "Choose one of these formats."
        )
    require_file("--output", Path(output), *inputs)


def evaluate(
    model: Annotated[Path, MODEL],
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
    encoder: Annotated[str | None, ENCODER] = None,
    on_error: Annotated[OnError, ON_ERROR] = OnError.stop,
    no_cache: Annotated[bool, NO_CACHE] = False,
    label_column: Annotated[str | None, LABEL_COLUMN] = None,
    labels: Annotated[Path | None, LABELS] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    labels_key: Annotated[str | None, LABELS_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Measure how well a model does on labeled samples.

    Accuracies of unseen and seen classes, each with a confidence interval. If SOURCE has a column
    `split`, only rows marked `test` are used. Samples without a label are left out.
    """
    with one_line_errors(NOTHING):
        if html is not None:
            require_file("--html", html, model, source, training, labels)
        names = _baseline_names(baselines)
        if training is not None and not names:
            raise ValueError(
                "--training is what baselines learn from; got it without --baselines. Name some, "
                "or leave it out."
            )
        import zonkey

        from .loading import LoadedModel, show_work

        options = {"encoder": encoder, "on_error": on_error.value, "cache": not no_cache}
        loaded = LoadedModel.load(model, **options)
        keys = {"label_column": label_column, "features_key": features_key}
        keys |= {"labels_key": labels_key, "format": format.value}
        X, y, train = _split_samples(loaded, source, {**keys, "labels": labels})
        if names and training is not None:
            _, _, train = _split_samples(loaded, training, keys, all_training=True)
        if names and train is None:
            raise ValueError(
                f"--baselines need training samples; {training or source} marks none in a column "
                "`split`. Pass the samples that the model was fitted on with --training."
            )
        with show_work("Evaluating"):
            compared = {"baselines": names, "training": train} if names else {}
            result = zonkey.evaluate(loaded.model, X, y, **compared)
        if html is not None:
            with show_work("Drawing the page"):
                result.to_html(html)
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
        raise ValueError(
            f"--baselines must be among {', '.join(EVERY_BASELINE)}, or all; got {unknown[0]!r}. "
            "Correct it."
        )
    return names


def _split_samples(
    loaded: LoadedModel, source: str, keys: dict[str, Any], *, all_training: bool = False
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Return test samples, their labels, and training samples if a column `split` marks both."""
    from .loading import read_rows

    stream = loaded.stream(source, with_labels=True, **keys)
    X, y, marks = read_rows(stream, "Reading", labeled=True)
    assert y is not None
    if not len(y):
        raise ValueError(f"{source} must have rows with a label; it has none. Add some.")
    y = loaded.convert_labels(y)
    if marks is None:
        return X, y, (X, y) if all_training else None
    test = marks == "test"
    if not all_training and not test.any():
        raise ValueError(
            f"The column `split` of {source} must mark rows `test` to evaluate on; it marks "
            "none. Mark some, or remove the column."
        )
    return X[test], y[test], None if test.all() else (X[~test], y[~test])


def explain(
    model: Annotated[Path, MODEL],
    source: Annotated[str, _SOURCE],
    row: Annotated[int, typer.Option(min=0, help="Position of the sample, counted from 0.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="Number of best classes to show.")] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="Picture to write: png or svg.", show_default=False)
    ] = None,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    encoder: Annotated[str | None, ENCODER] = None,
    no_cache: Annotated[bool, NO_CACHE] = False,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Explain the answer for one picture or row.

    Which classes, labeled samples and attributes speak for it and against it.
    """
    with one_line_errors(NOTHING):
        if plot is not None:
            if plot.suffix.lower() not in (".png", ".svg"):
                raise ValueError(
                    f"--plot must end in .png or .svg; got {plot.name}. Choose one of these."
                )
            require_file("--plot", plot, model, source)
        import zonkey

        from ..display.drawing import file_bytes
        from ..persistence.container import write_whole
        from .answers import drop_nan
        from .loading import LoadedModel, row_of

        loaded = LoadedModel.load(model, encoder=encoder, cache=not no_cache)
        loaded = loaded.choose_from(candidates)
        stream = loaded.stream(source, format=format.value, features_key=features_key)
        sample, carried = row_of(stream, row, source)
        k = min(top, len(loaded.last.classes_))
        explanation = zonkey.explain(loaded.model, sample, k=k)
        if plot is not None:
            ending = plot.suffix[1:].lower()
            write_whole(plot, file_bytes(explanation.plot(), (ending,))[ending])
    if as_json:
        columns = {name: drop_nan(cell) for name, cell in carried.items()}
        record = {"row": row, "columns": columns, **explanation.to_dict()}
        typer.echo(json.dumps(record, default=str))
        return
    for name, cell in carried.items():
        typer.echo(f"{name}: {cell}")
    typer.echo(explanation.table())
    if plot is not None:
        typer.echo(f"Picture: {plot}")


def info(
    model: Annotated[Path, MODEL],
    card: Annotated[
        Path | None,
        typer.Option(help="Model card to write: a page in Markdown.", show_default=False),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Describe a model file.

    Classes, parameters, training, notes, license and versions. The arrays are not read.
    """
    with one_line_errors(NOTHING):
        if card is not None:
            require_file("--card", card, model)
        from ..persistence.card import model_card
        from ..persistence.container import write_whole
        from ..persistence.model import model_info

        found = model_info(model)
        if card is not None:
            write_whole(card, model_card(model).encode("utf-8", "replace"))
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
    model: Annotated[Path, MODEL],
    onnx: Annotated[Path, typer.Option(help="ONNX file to write.")],
    top: Annotated[int, typer.Option(min=1, help="Number of best classes in its output.")] = 5,
    with_encoder: Annotated[
        bool,
        typer.Option(
            "--with-encoder", help="Start from the pixels of pictures instead of features."
        ),
    ] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Write a model as an ONNX graph.

    It leads from raw features to labels, the best classes and their probabilities. With
    --with-encoder, it leads from pixels; its metadata say how pictures are resized.
    """
    with one_line_errors(NOTHING):
        require_file("--onnx", onnx, model)
        import zonkey

        from ..persistence.container import write_whole
        from .loading import LoadedModel, show_work

        loaded = LoadedModel.load(model)
        with show_work("Exporting"):
            k = min(top, len(loaded.last.classes_))
            encoder = loaded.encoders.images() if with_encoder else None
            graph = zonkey.to_onnx(loaded.model, k=k, encoder=encoder)
            write_whole(onnx, graph.SerializeToString())
        outputs = [output.name for output in graph.graph.output]
        record = {"output": str(onnx), "bytes": onnx.stat().st_size, "outputs": outputs, "top": k}
    if as_json:
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"{onnx} ({record['bytes']:,} bytes) with the outputs {', '.join(outputs)}")
