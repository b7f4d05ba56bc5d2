"""Learn the accepted rows of a table of suggested labels, each sample once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ..errors import DataError, Problem, reword
from ..inference.scorer import unwrap
from ..labels import format_value
from ..persistence.lock import lock_model
from .accepted import Accepted, list_labels, read_accepted
from .classes import ChangedClasses, describe_change, write_changed
from .inputs import check_samples, check_sources, find_spellings
from .models import LoadedModel, ignore_missing_names
from .progress import Progress, ignore, watch_blocks
from .sources import EncodedStream, Stream
from .suggestion import SampleIds
from .targets import check_target

_FEWEST_PLACED = 20  # samples that tell where samples lie


@ignore_missing_names()
def learn(
    model: str | Path,
    table: str | Path,
    source: str | Path | None = None,
    output: str | Path | None = None,
    *,
    encoder: str | None = None,
    text_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    features_key: str | None = None,
    progress: Progress = ignore,
) -> ChangedClasses:
    """Learn the rows of a table of `suggest` that a person has accepted, each sample once.

    In the column `accept`, `yes`, `y`, `x`, `1` or `true` takes the suggested label, `no`, `n`,
    `0` or `false` leaves the sample out, and anything else is its label, of a known or a new
    class, or an inner node of a tree. What is the label of a class always means that class. An
    empty cell follows `accept_group`, which is filled in once per group, in the same way. Samples
    that the model has learned from such a table before are not learned again. A model by names
    alone first learns from all samples where they lie, if there are 20.

    Parameters
    ----------
    model : str or Path
        Model file.
    table : str or Path
        The table: csv, tsv, jsonl or parquet.
    source : str or Path, default=None
        Pictures, texts or features that the table was made of. None: they are in the table, as
        texts are, and paths of pictures relative to it.
    output : str or Path, default=None
        File to write, by default the model file.
    encoder : str, default=None
        Encoder of the samples, by default that of the model.
    text_column : str, default=None
        Column of the texts, by default that of the training if there is one.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    features_key : str, default=None
        Name of the features in a file of several arrays.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    ChangedClasses
        What was learned, and which classes are new.
    """
    target = Path(output or model)
    check_samples(model, source or table)
    check_sources(table=table)
    check_target("output", target, table, source)
    with lock_model(target):
        loaded = LoadedModel.load(model, encoder=encoder, on_error=on_error, cache=cache)
        loaded.require("learn_once", "Learning a table")
        before = loaded.rows()
        known = list_labels(before)
        accepted = read_accepted(Path(table), known)
        learned, joined, n_known = {}, {}, 0
        if accepted:
            options = {"features_key": features_key, "text_column": text_column}
            stream = loaded.stream(source or table, **options)
            stream = _find_samples(loaded, stream, accepted, source or table)
            with _hint_at_source(source, stream):
                loaded, given = _read_samples(loaded, stream, accepted, source or table, progress)
            _require_all(accepted, given, stream, source or table)
            joined = find_spellings("table", sorted({y for y, _ in accepted.values()}), known)
            learned, n_known = _learn(loaded, given, accepted, joined)
        same = not learned and target.exists() and target.samefile(model)
        finish = describe_change if same else write_changed
        return finish(before, loaded, target, learned=learned, joined=joined, known=n_known)


def _hint_at_source(source: Any, stream: Stream) -> AbstractContextManager[None]:
    """Say in errors that a table without features needs their source."""
    if source is not None or isinstance(stream, EncodedStream):
        return nullcontext()
    return reword(DataError, {}, "Or pass what the table was made of as `source`.", "source")


def _find_samples(
    loaded: LoadedModel, stream: Stream, accepted: Accepted, source: str | Path
) -> Stream:
    """Return accepted texts or pictures only, of which others need not be encoded.

    A model of names learns from all samples where they lie.
    """
    if not isinstance(stream, EncodedStream) or loaded.last.state_.knows_names_only:
        return stream
    names = SampleIds(Path(source).name).add_items(stream)
    rows = [row for row, name in enumerate(names) if name in accepted]
    if not rows:
        _require_all(accepted, {}, stream, source)
    return replace(stream, source=stream.items.subset(rows))


def _read_samples(
    loaded: LoadedModel,
    stream: Stream,
    accepted: Accepted,
    source: str | Path,
    progress: Progress,
) -> tuple[LoadedModel, dict[str, tuple[str, np.ndarray]]]:
    """Return the model, placed if it knows names only, and key and features by accepted name."""
    ids = SampleIds(Path(source).name)
    by_names = loaded.last.state_.knows_names_only
    found: dict[str, tuple[str, np.ndarray]] = {}
    parts = []
    for block in watch_blocks(stream, "Reading", progress):
        start, names = len(ids.keys), ids.add_block(stream, block)
        for i, name in enumerate(names):
            if name in accepted and name not in found:
                found[name] = ids.keys[start + i], block.X[i].copy()
        if by_names:
            parts.append(block.X)
    if sum(map(len, parts)) >= _FEWEST_PLACED:
        loaded = _place(loaded, np.concatenate(parts))
    return loaded, found


def _place(loaded: LoadedModel, X: np.ndarray) -> LoadedModel:
    """Return a model of names that has learned where samples lie; removed classes stay removed."""
    steps, last = unwrap(loaded.model)
    removed = last.state_.hidden
    placed: Any = clone(last)
    placed.fit(X if steps is None else steps.transform(X))
    return loaded.replace_last(placed.without_classes(removed) if removed.size else placed)


def _require_all(accepted: Accepted, given: Any, stream: Stream, source: str | Path) -> None:
    """Refuse accepted samples that the source does not have, unless they were skipped."""
    missing = [name for name in accepted if name not in given]
    if missing and not getattr(stream, "skipped", ()):
        n = len(missing)
        what = f"{format_value(missing[0])} in row {accepted[missing[0]][1]} is not"
        more = f", nor are {n - 1} more" if n > 1 else ""
        raise Problem(
            f"Every accepted sample must be in {source}; {what}{more}. Pass what the table was "
            "made of as `source`.",
            option="source",
        )


def _learn(
    loaded: LoadedModel,
    given: dict[str, tuple[str, np.ndarray]],
    accepted: Accepted,
    joined: dict[str, str],
) -> tuple[dict[str, int], int]:
    """Learn what is new; return the number of samples by label, and how many were known."""
    if not given:
        return {}, 0
    labels = np.array([joined.get(y, y) for y, _ in (accepted[name] for name in given)])
    steps, last = unwrap(loaded.model)
    X = np.stack([row for _, row in given.values()])
    X = X if steps is None else steps.transform(X)
    is_new = last.learn_once(X, loaded.convert_labels(labels), [key for key, _ in given.values()])
    names, counts = np.unique(labels[is_new], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True)), int((~is_new).sum())
