"""Predict the class of every picture or row of a source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Problem
from ..files.streams import Block
from ..inference.nodes import list_paths
from ..inference.scorer import best_columns, unwrap
from ..labels import check_count
from ..metrics import PrecisionThreshold
from .acceptance import Acceptance, refuse_with_bins
from .inputs import check_samples, check_sources
from .models import LoadedModel, bin_model, ignore_missing_names
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
    precision : PrecisionThreshold or None, default=None
        How the least probability of an answer was chosen.

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
    precision: PrecisionThreshold | None = None


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
    precision: float | None = None,
    held_out: str | Path | None = None,
    level: int | None = None,
    path: bool = False,
    bins: str | Path | None = None,
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
        Probability in [0, 1] below which the answer is "unknown", or in a tree of classes the
        deepest node that reaches it; by default that of the model.
    precision : float, default=None
        Instead of `reject_below`: wanted share of right answers among the accepted ones.
    held_out : str or Path, default=None
        Labeled samples that show the precision, which were not in `fit`; by default those that
        `fit` has left out.
    level : int, default=None
        Level of the tree of classes to answer at; 1 is the top.
    path : bool, default=False
        Whether the path from the top of the tree to the answer is written too.
    bins : str or Path, default=None
        Table with the columns `class` and `bin`: the answer is the most probable bin.
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
    acceptance = Acceptance(reject_below, precision, held_out)
    refuse_with_bins(bins, precision=precision)  # shown for classes
    if isinstance(output, str | Path):
        check_ending("output", Path(output), OUTPUT_ENDINGS, " formats")
        check_target("output", Path(output), model, source, held_out)
    loaded = LoadedModel.load(model, encoder=encoder, on_error=on_error, cache=cache)
    check_sources(bins=bins)
    keys: dict[str, Any] = {"features_key": features_key, "text_column": text_column}
    loaded = acceptance.limit(loaded.choose_from(candidates), progress, **keys)
    if proba:
        loaded.require("predict_proba", "`proba`", option="proba")
    if novelty:
        loaded.require("novelty", "`novelty`", option="novelty")
    answering = Answering(top, proba, novelty, level, path, bins).check(loaded.last)
    stream = loaded.stream(source, format=format, **keys)
    kept: dict[str, list[Any]] | None = {} if output is None else None
    n_rows, columns = 0, answering.names
    with open_output(output, output_format or format, kept) as write:
        blocks = watch_blocks(stream, "Predicting", progress)
        for answers in answering.answer_blocks(blocks, loaded.model, source):
            write(answers)
            n_rows, columns = n_rows + len(answers["predicted"]), [*answers]
    skipped = [str(error) for error in getattr(stream, "skipped", ())]
    seconds = time.perf_counter() - started
    chosen = getattr(loaded.last, "precision_", None)
    return Prediction(n_rows, columns, kept, skipped, seconds, chosen)


def require_top(top: int, n: int, what: str) -> None:
    """Refuse to list no class, or more than there are."""
    check_count("top", top, 1)
    if top > n:
        rule = f"must be at most the {n} {what}"
        raise Problem("`top`", rule, f"got {top}", "Ask for fewer.", option="top")


@dataclass(frozen=True)
class Answering:
    """Which answers are written: the best classes, nodes of a level, or bins, and what of them."""

    top: int = 1
    proba: bool = False
    novelty: bool = False
    level: int | None = None
    path: bool = False
    bins: Any = None  # a file, or a classifier that answers with bins

    def check(self, model: Any) -> Answering:
        """Return the same with the bins of a classifier; refuse what it cannot answer."""
        tree = getattr(model, "tree_", None)
        for name, given in (("level", self.level), ("path", self.path)):
            if given and tree is None:
                what = f"{type(model).__name__} has none"
                remedy = "Fit with a column `parent` in the file of classes."
                raise Problem(f"`{name}`", "needs a tree of classes", what, remedy, option=name)
        if self.bins is not None and (self.level or self.path):
            name = "level" if self.level else "path"
            rule = "must be left out with `bins`"
            raise Problem(f"`{name}`", rule, "got both", "Choose one.", option=(name, "bins"))
        found = self if self.bins is None else replace(self, bins=bin_model(model, self.bins))
        _, labels = found._choose(model)
        require_top(self.top, len(labels), "candidates")
        return found

    @property
    def names(self) -> list[str]:
        """Names of the columns; the best class alone is what is predicted."""
        numbers = range(1, self.top + 1)
        path = ["path"] if self.path else []
        top = [f"top_{i}" for i in numbers] if self.top > 1 else []
        proba = [f"proba_{i}" for i in numbers] if self.proba else []
        return ["predicted", *path, *top, *proba, *(["novelty"] if self.novelty else [])]

    def answer_blocks(
        self, blocks: Iterable[Block], model: Any, source: str | Path
    ) -> Iterator[Columns]:
        """Yield these columns of answers beside the other columns of each block."""
        for block in blocks:
            require_free(block.carried, self.names, source)
            yield {**block.carried, **self._answer(model, block.X)}

    def _choose(self, model: Any) -> tuple[Any, np.ndarray]:
        """Return what answers, and what it chooses from."""
        if self.bins is not None:
            return self.bins, self.bins.classes_
        if self.level is not None:
            return model, model.tree_.at_level(self.level)
        return model, model.classes_

    def _answer(self, model: Any, X: np.ndarray) -> Columns:
        """Return these columns of answers to some samples."""
        steps, last = unwrap(model)
        X = X if steps is None else steps.transform(X)
        options = {} if self.level is None else {"level": self.level}
        answerer, labels = self._choose(last)
        # Of several labels, text such as a|b.
        predict = getattr(answerer, "predict_texts", answerer.predict)
        found: Columns = {"predicted": predict(X, **options)}
        if self.path:
            paths = list_paths(last.tree_, found["predicted"])
            found["path"] = np.array([" > ".join(map(str, path)) for path in paths])
        if self.novelty:
            found["novelty"] = last.novelty(X).astype(np.float64).round(_DIGITS)
        if self.top > 1 or self.proba:
            found |= self._rank(answerer, labels, X, options)
        return {name: found[name] for name in self.names}

    def _rank(self, answerer: Any, labels: np.ndarray, X: np.ndarray, options: Any) -> Columns:
        """Return the best answers and their probabilities."""
        P: Any = None
        columns: Any
        if options or self.bins is not None:
            P = answerer.predict_proba(X, **options)
            columns = np.asarray(best_columns(P, self.top))
            best = np.asarray(labels)[columns]
        else:
            best = np.asarray(answerer.predict_top(X, self.top))
            columns = np.searchsorted(labels, best.ravel()).reshape(best.shape)
        found: Columns = {f"top_{i + 1}": best[:, i] for i in range(self.top)}
        if self.proba:
            P = answerer.predict_proba(X) if P is None else P
            P = np.take_along_axis(P, columns, axis=1).astype(np.float64)
            found |= {f"proba_{i + 1}": P[:, i].round(_DIGITS) for i in range(self.top)}
        return found
