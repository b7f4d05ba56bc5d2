"""Explain the answer of a model for one picture or row of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..display.drawing import file_bytes
from ..inference.explain import explain as explain_sample
from ..inference.explanation import Explanation
from ..labels import check_count
from ..persistence.container import write_whole
from .inputs import check_samples
from .models import SAMPLE_NAMES, LoadedModel, ignore_missing_names, kept_rows, row_of
from .targets import check_ending, check_target


@dataclass(frozen=True)
class ExplainedRow:
    """One sample, and the explanation of its class.

    Cells that are no features help to find the sample again.

    Parameters
    ----------
    row : int
        Position of the sample, counted from 0.
    columns : dict of {str: object}
        Its cells that are not features.
    explanation : Explanation
        Evidence for and against its class.

    See Also
    --------
    explain : Returns it.

    Examples
    --------
    >>> from zonkey.app import ExplainedRow
    >>> list(ExplainedRow.__dataclass_fields__)
    ['row', 'columns', 'explanation']
    """

    row: int
    columns: dict[str, Any]
    explanation: Explanation


@ignore_missing_names()
def explain(
    model: str | Path,
    source: str | Path,
    row: int = 0,
    plot: str | Path | None = None,
    *,
    top: int = 5,
    candidates: str | Sequence[str] = (),
    encoder: str | None = None,
    text_column: str | None = None,
    cache: bool = True,
    features_key: str | None = None,
    format: str = "csv",
) -> ExplainedRow:
    """Explain the answer for one picture or row.

    Parameters
    ----------
    model : str or Path
        Model file.
    source : str or Path
        Pictures, texts, or a table or arrays of features; "-" is standard input.
    row : int, default=0
        Position of the sample, counted from 0.
    plot : str or Path, default=None
        Picture to write: png or svg.
    top : int, default=5
        Number of best classes to list.
    candidates : str or sequence of str, default=()
        Classes to choose from: "unseen", "all" or labels; by default those of the model.
    encoder : str, default=None
        Encoder of the samples, by default that of the model.
    text_column : str, default=None
        Column of the texts in a table, by default that of the training if there is one.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    features_key : str, default=None
        Name of the features in a file of several arrays.
    format : str, default="csv"
        Format of standard input.

    Returns
    -------
    ExplainedRow
        The sample and the explanation.
    """
    check_samples(model, source)
    check_count("row", row, 0)
    if plot is not None:
        plot = Path(plot)
        check_ending("plot", plot, (".png", ".svg"), "")
        check_target("plot", plot, model, source)
    loaded = LoadedModel.load(model, encoder=encoder, cache=cache).choose_from(candidates)
    stream = loaded.stream(
        source, format=format, features_key=features_key, text_column=text_column
    )
    sample, carried = row_of(stream, row, source)
    with loaded.refuse_kind("explain"):
        explanation = explain_sample(loaded.model, sample, k=min(top, len(loaded.last.classes_)))
    explanation = explanation.name_samples(_sample_names(loaded))
    if plot is not None:
        ending = plot.suffix[1:].lower()
        write_whole(plot, file_bytes(explanation.plot(), (ending,))[ending])
    return ExplainedRow(row, carried, explanation)


def _sample_names(loaded: LoadedModel) -> dict[int, str]:
    """Return the names of the samples that the model keeps, by their rows in its training."""
    names = loaded.info.get("training", {}).get(SAMPLE_NAMES)
    rows = kept_rows(loaded.last)
    if not isinstance(names, list) or len(rows) != len(names):
        return {}
    return dict(zip(rows, map(str, names), strict=True))
