"""Predict the class of every picture or row of a source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Problem
from ..files.streams import Block
from ..inference.scorer import unwrap
from ..labels import check_count
from .inputs import check_samples
from .models import LoadedModel, ignore_missing_names
from .progress import Progress, ignore, watch_blocks
from .targets import check_ending, check_target
from .writing import Columns, Output, open_output, require_free

OUTPUT_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")
_DIGITS = 6  # of probabilities and of the novelty


@dataclass(frozen=True)
class Prediction:
    """What `predict` has written.

    The file is complete when this is returned.

    Parameters
    ----------
    rows : int
        Number of samples.
    columns : list of str
        Names of the columns: those of the source that are not features, then the answers.
    answers : dict of {str: list} or None
        The columns, if no output was given.
    skipped : list of str
        What was wrong with the pictures that could not be read.
    seconds : float
        Time it took.

    See Also
    --------
    predict : Returns it.

    Examples
    --------
    >>> from zonkey.app import Prediction
    >>> answers = {"predicted": ["zebra"]}
    >>> Prediction(1, ["predicted"], answers, skipped=[], seconds=0.1).answers["predicted"]
    ['zebra']
    """

    rows: int
    columns: list[str]
    answers: dict[str, list[Any]] | None
    skipped: list[str]
    seconds: float


@ignore_missing_names()
def predict(
    model: str | Path,
    source: str | Path,
    output: Output | None = None,
    *,
    top: int = 1,
    proba: bool = False,
    novelty: bool = False,
    candidates: str | Sequence[str] = (),
    reject_below: float | None = None,
    encoder: str | None = None,
    text_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    features_key: str | None = None,
    format: str = "csv",
    output_format: str | None = None,
    progress: Progress = ignore,
) -> Prediction:
    """Predict the class of every picture, text or row, and write it beside the other columns.

    Parameters
    ----------
    model : str or Path
        Model file.
    source : str or Path
        Pictures, texts, or a table or arrays of features; "-" is standard input.
    output : str, Path, binary file or None, default=None
        File to write, in blocks of rows; None returns the answers instead.
    top : int, default=1
        Number of best classes.
    proba : bool, default=False
        Whether probabilities of these classes are written too.
    novelty : bool, default=False
        Whether to write how unlike all classes each sample is.
    candidates : str or sequence of str, default=()
        Classes to choose from: "unseen", "all" or labels; by default those of the model.
    reject_below : float, default=None
        Probability in [0, 1] below which the answer is "unknown"; by default that of the model.
    encoder : str, default=None
        Encoder of the samples, by default that of the model.
    text_column : str, default=None
        Column of the texts in a table, by default that of the training if there is one.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    features_key : str, default=None
        Name of the features in a file of several arrays.
    format : str, default="csv"
        Format of standard input.
    output_format : str, default=None
        Format of an output that is an open file; by default `format`.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Prediction
        What was written.
    """
    started = time.perf_counter()
    check_samples(model, source)
    if isinstance(output, str | Path):
        check_ending("output", Path(output), OUTPUT_ENDINGS, " formats")
        check_target("output", Path(output), model, source)
    loaded = LoadedModel.load(model, encoder=encoder, on_error=on_error, cache=cache)
    loaded = loaded.choose_from(candidates).reject(reject_below)
    require_top(top, len(loaded.last.classes_), "candidates")
    if proba:
        loaded.require("predict_proba", "`proba`", option="proba")
    if novelty:
        loaded.require("novelty", "`novelty`", option="novelty")
    names = answer_names(top, with_proba=proba, with_novelty=novelty)
    stream = loaded.stream(
        source, format=format, features_key=features_key, text_column=text_column
    )
    kept: dict[str, list[Any]] | None = {} if output is None else None
    n_rows, columns = 0, names
    with open_output(output, output_format or format, kept) as write:
        blocks = watch_blocks(stream, "Predicting", progress)
        for answers in answer_blocks(blocks, loaded.model, names, top, source):
            write(answers)
            n_rows, columns = n_rows + len(answers["predicted"]), [*answers]
    skipped = [str(error) for error in getattr(stream, "skipped", ())]
    return Prediction(n_rows, columns, kept, skipped, time.perf_counter() - started)


def require_top(top: int, n: int, what: str) -> None:
    """Refuse to list no class, or more than there are."""
    check_count("top", top, 1)
    if top > n:
        rule = f"must be at most the {n} {what}"
        raise Problem("`top`", rule, f"got {top}", "Ask for fewer.", option="top")


def answer_names(k: int, *, with_proba: bool, with_novelty: bool) -> list[str]:
    """Return the names of the columns of answers; the best class alone is what is predicted."""
    numbers = range(1, k + 1)
    top = [f"top_{i}" for i in numbers] if k > 1 else []
    proba = [f"proba_{i}" for i in numbers] if with_proba else []
    return ["predicted", *top, *proba, *(["novelty"] if with_novelty else [])]


def answer_blocks(
    blocks: Iterable[Block], model: Any, names: Sequence[str], k: int, source: str | Path
) -> Iterator[Columns]:
    """Yield these columns of answers beside the other columns of each block."""
    for block in blocks:
        require_free(block.carried, names, source)
        yield {**block.carried, **_answer(model, block.X, names, k)}


def _answer(model: Any, X: np.ndarray, names: Sequence[str], k: int) -> Columns:
    """Return these columns of answers to some samples."""
    steps, last = unwrap(model)
    X = X if steps is None else steps.transform(X)
    # Of several labels, text such as a|b.
    found: Columns = {"predicted": getattr(last, "predict_texts", last.predict)(X)}
    if "novelty" in names:
        found["novelty"] = last.novelty(X).astype(np.float64).round(_DIGITS)
    if k == 1 and "proba_1" not in names:
        return found
    best = np.asarray(last.predict_top(X, k))
    found |= {f"top_{i + 1}": best[:, i] for i in range(k)}
    if "proba_1" in names:
        columns = np.searchsorted(last.classes_, best.ravel()).reshape(best.shape)
        P = np.take_along_axis(last.predict_proba(X), columns, axis=1).astype(np.float64)
        found |= {f"proba_{i + 1}": P[:, i].round(_DIGITS) for i in range(k)}
    return {name: found[name] for name in names}
