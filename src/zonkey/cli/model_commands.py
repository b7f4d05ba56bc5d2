"""`zonkey fit`, `predict`, `evaluate`, `explain`, `info` and `export`: from files to answers."""

from __future__ import annotations

import json
import math
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import one_line_errors, require_file
from .options import FEATURES_KEY, JSON, LABEL_COLUMN, LABELS, LABELS_KEY, MODEL

if TYPE_CHECKING:
    import numpy as np

    from .loading import LoadedModel

NOTHING = "nothing was written"
_LONGEST_VALUE = 40  # characters of a parameter that `zonkey fit` prints; `zonkey info` prints all
_TERMS = {
    "hit@": "hit@k: the class is among the k best.",
    "ECE": "ECE: mean gap between probability and accuracy.",
}
_FEATURES = typer.Argument(
    help="Features, with or without labels; - is standard input.", metavar="FEATURES"
)
_LABELED = typer.Argument(help="Features with labels; - is standard input.", metavar="FEATURES")
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


class Preset(StrEnum):
    """Recipes of models."""

    recommended = "recommended"
    paper = "paper"


class Candidates(StrEnum):
    """Classes that a model chooses from."""

    unseen = "unseen"
    all = "all"


class Format(StrEnum):
    """Formats of standard input."""

    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    npz = "npz"
    npy = "npy"


def fit(
    features: Annotated[
        Path,
        typer.Argument(help="Features with a label per sample.", metavar="FEATURES"),
    ],
    prototypes: Annotated[
        Path,
        typer.Argument(
            help="Prototypes: one vector per class, with or without samples.", metavar="PROTOTYPES"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    candidates: Annotated[
        Candidates, typer.Option(help="Classes to choose from: those without samples, or all.")
    ] = Candidates.unseen,
    preset: Annotated[
        Preset, typer.Option(help="Recommended model, or the paper's with its default parameters.")
    ] = Preset.recommended,
    unlabeled: Annotated[
        Path | None,
        typer.Option(help="Unlabeled samples of the candidate classes to adapt to."),
    ] = None,
    label_column: Annotated[str | None, LABEL_COLUMN] = None,
    labels: Annotated[Path | None, LABELS] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    labels_key: Annotated[str | None, LABELS_KEY] = None,
    notes: Annotated[
        str | None, typer.Option(help="Free text for those who use the model.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="License of the model.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Learn from features and prototypes, and write a model file.

    Classes with a prototype and no samples are unseen: the model recognizes them by their
    prototypes. A column `split` of FEATURES may mark rows: those marked `test` are left out, and
    parameters are chosen on the classes marked `val`.
    """
    started = time.perf_counter()
    with one_line_errors(NOTHING):
        require_file("--output", output, features, prototypes, unlabeled, labels)
        from ..estimators.model_file import model_info, save
        from .fitting import PRESETS, Training
        from .loading import working

        keys = {
            "label_column": label_column,
            "labels": labels,
            "features_key": features_key,
            "labels_key": labels_key,
        }
        training = Training(features, prototypes, unlabeled, keys)
        with working("Reading"):
            data = training.read()
        names = data.about.get("feature_names")
        extra = None if unlabeled is None else training.read_unlabeled(names, data.shape[1])
        with working("Fitting") as say:
            parameters = {"candidates": candidates.value, "random_state": seed}
            model = PRESETS[preset.value](data, extra, say, **parameters)
            say("Writing")
            facts = training.facts(names)
            save(model, output, notes=notes, license=license, training=facts)
        record = {"seconds": round(time.perf_counter() - started, 2), **model_info(output)}
    if as_json:
        typer.echo(json.dumps(record))
        return
    n_left = len(data.y) - len(data.split.train)
    left = f"; {n_left} marked `test` are left out" if n_left else ""
    typer.echo(f"Samples:    {len(data.split.train)}{left}")
    if data.about.get("unused_columns"):
        typer.echo(f"Not used:   {', '.join(data.about['unused_columns'])}")
    _print_summary(record["summary"], longest=_LONGEST_VALUE)
    typer.echo(f"Time:       {record['seconds']:.1f} s")
    typer.echo(f"Model:      {output} ({record['bytes']:,} bytes)")


def _print_summary(summary: dict[str, Any], longest: float = math.inf) -> None:
    """Print what a model is and what it has learned; longer values are left out."""
    typer.echo(f"Estimator:  {summary['estimator']}")
    typer.echo(f"Features:   {summary['n_features']}")
    seen, unseen, n = (summary[name] for name in ("n_seen", "n_unseen", "n_candidates"))
    typer.echo(f"Classes:    {seen} seen, {unseen} unseen; {n} candidates")
    for name, value in summary["chosen"].items():
        shown = _rounded(" ".join(value.split()))
        if len(shown) <= longest:
            typer.echo(f"Parameter:  {name}: {shown}")
    for name, score in summary["scores"].items():
        typer.echo(f"Score:      {score:.3f} ({name})")
    if summary["is_transductive"]:
        typer.echo("Adapted:    to unlabeled samples")


def _rounded(value: str) -> str:
    """Return a number with the digits that people read; other text as it is."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value


def predict(
    model: Annotated[Path, MODEL],
    features: Annotated[str, _FEATURES],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write: csv, tsv, jsonl, parquet or npz; - is standard output.",
        ),
    ] = "-",
    top: Annotated[int, typer.Option(min=1, help="Number of best classes to write.")] = 1,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probabilities of these classes too.")
    ] = False,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    format: Annotated[
        Format, typer.Option("--format", help="Format of standard input and standard output.")
    ] = Format.csv,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a summary as JSON; on standard output, the answers as jsonl."
        ),
    ] = False,
) -> None:
    """Write the predicted class of every row.

    Non-feature columns come first, then `predicted`, `top_1`, `top_2`, ... and `proba_1`,
    `proba_2`, ... Rows need no labels. They are read and written in blocks: files may be larger
    than memory.
    """
    started = time.perf_counter()
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else format.value
        require_output(output, to, model, features)
        from .answers import answer_names, answered, writing_answers
        from .loading import LoadedModel, watched

        loaded = LoadedModel.of(model).choosing_from(candidates)
        n = len(loaded.last.classes_)
        if top > n:
            raise ValueError(f"--top must be at most the {n} candidates; got {top}. Ask for fewer.")
        if proba:
            loaded.require("predict_proba", "--proba")
        names = answer_names(top, with_top=top > 1, with_proba=proba)
        stream = loaded.stream(features, format=format.value, features_key=features_key)
        n_rows, columns = 0, names
        with writing_answers(output, to) as write:
            blocks = watched(stream, "Predicting")
            for answers in answered(blocks, loaded.model, names, top, features):
                write(answers)
                n_rows, columns = n_rows + len(answers["predicted"]), [*answers]
    seconds = time.perf_counter() - started
    if output == "-":
        return
    if as_json:
        record = {"output": output, "rows": n_rows, "columns": columns, "seconds": seconds}
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
    features: Annotated[str, _LABELED],
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
            help="Features with labels that baselines learn from; by default the rows of FEATURES "
            "that are not marked `test`."
        ),
    ] = None,
    label_column: Annotated[str | None, LABEL_COLUMN] = None,
    labels: Annotated[Path | None, LABELS] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    labels_key: Annotated[str | None, LABELS_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Measure how well a model does on labeled samples.

    Accuracies of unseen and seen classes, each with a confidence interval. If FEATURES has a column
    `split`, only rows marked `test` are used. Rows without a label are left out.
    """
    with one_line_errors(NOTHING):
        if html is not None:
            require_file("--html", html, model, features, training, labels)
        names = _baseline_names(baselines)
        if training is not None and not names:
            raise ValueError(
                "--training is what baselines learn from; got it without --baselines. Name some, "
                "or leave it out."
            )
        import zonkey

        from .loading import LoadedModel, working

        loaded = LoadedModel.of(model)
        keys = {"label_column": label_column, "features_key": features_key}
        keys |= {"labels_key": labels_key, "format": format.value}
        X, y, train = _test_and_training(loaded, features, {**keys, "labels": labels})
        if names and training is not None:
            _, _, train = _test_and_training(loaded, training, keys, all_training=True)
        if names and train is None:
            raise ValueError(
                f"--baselines need training samples; {training or features} marks none in a column "
                "`split`. Pass the file that the model was fitted on with --training."
            )
        with working("Evaluating"):
            options = {"baselines": names, "training": train} if names else {}
            result = zonkey.evaluate(loaded.model, X, y, **options)
        if html is not None:
            with working("Drawing the page"):
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


def _test_and_training(
    loaded: LoadedModel, features: str, keys: dict[str, Any], *, all_training: bool = False
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Return test samples, their labels, and training samples if a column `split` marks both."""
    from .loading import read_rows

    stream = loaded.stream(features, with_labels=True, **keys)
    X, y, marks = read_rows(stream, "Reading", labeled=True)
    assert y is not None
    if not len(y):
        raise ValueError(f"{features} must have rows with a label; it has none. Add some.")
    y = loaded.labels_like(y)
    if marks is None:
        return X, y, (X, y) if all_training else None
    test = marks == "test"
    if not all_training and not test.any():
        raise ValueError(
            f"The column `split` of {features} must mark rows `test` to evaluate on; it marks "
            "none. Mark some, or remove the column."
        )
    return X[test], y[test], None if test.all() else (X[~test], y[~test])


def explain(
    model: Annotated[Path, MODEL],
    features: Annotated[str, _FEATURES],
    row: Annotated[int, typer.Option(min=0, help="Position of the sample, counted from 0.")],
    top: Annotated[int, typer.Option(min=1, help="Number of best classes to show.")] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="Picture to write: png or svg.", show_default=False)
    ] = None,
    candidates: Annotated[list[str] | None, _CANDIDATES] = None,
    features_key: Annotated[str | None, FEATURES_KEY] = None,
    format: Annotated[Format, _FORMAT] = Format.csv,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Explain the answer for one row.

    Which classes, labeled samples and attributes speak for it and against it.
    """
    with one_line_errors(NOTHING):
        if plot is not None:
            if plot.suffix.lower() not in (".png", ".svg"):
                raise ValueError(
                    f"--plot must end in .png or .svg; got {plot.name}. Choose one of these."
                )
            require_file("--plot", plot, model, features)
        import zonkey

        from ..core.storage import write_whole
        from ..datasets.streams import cells
        from ..display.drawing import file_bytes
        from .answers import valid
        from .loading import LoadedModel, watched

        loaded = LoadedModel.of(model).choosing_from(candidates)
        stream = loaded.stream(features, format=format.value, features_key=features_key)
        first, sample, carried = 0, None, {}
        for block in watched(stream, "Reading"):
            if row < first + len(block.X):
                sample = block.X[row - first]
                carried = {name: cells(c)[row - first] for name, c in block.carried.items()}
                break
            first += len(block.X)
        if sample is None:
            raise ValueError(
                f"--row must be below the {first} rows of {features}; got {row}. Rows are counted "
                "from 0."
            )
        k = min(top, len(loaded.last.classes_))
        explanation = zonkey.explain(loaded.model, sample, k=k)
        if plot is not None:
            ending = plot.suffix[1:].lower()
            write_whole(plot, file_bytes(explanation.plot(), (ending,))[ending])
    if as_json:
        columns = {name: valid(cell) for name, cell in carried.items()}
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
        from ..core.storage import write_whole
        from ..estimators.model_file import model_card, model_info

        found = model_info(model)
        if card is not None:
            write_whole(card, model_card(model).encode("utf-8", "replace"))
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"Model:      {model} ({found['bytes']:,} bytes, schema {found['schema']})")
    _print_summary(found["summary"])
    for name, value in found.get("training", {}).items():
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
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Write a model as an ONNX graph.

    It leads from raw features to labels, the best classes and their probabilities.
    """
    with one_line_errors(NOTHING):
        require_file("--onnx", onnx, model)
        import zonkey

        from ..core.storage import write_whole
        from .loading import LoadedModel, working

        loaded = LoadedModel.of(model)
        with working("Exporting"):
            k = min(top, len(loaded.last.classes_))
            graph = zonkey.to_onnx(loaded.model, k=k)
            write_whole(onnx, graph.SerializeToString())
        outputs = [output.name for output in graph.graph.output]
        record = {"output": str(onnx), "bytes": onnx.stat().st_size, "outputs": outputs, "top": k}
    if as_json:
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"{onnx} ({record['bytes']:,} bytes) with the outputs {', '.join(outputs)}")
