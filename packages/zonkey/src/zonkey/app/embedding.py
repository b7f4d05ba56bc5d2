"""Turn pictures into features, or texts of classes into prototypes, and write them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import ImageEncoder, TextEncoder, class_texts
from ..encoders.class_texts import ClassTexts
from ..encoders.collection import Pictures, is_pictures
from ..encoders.stream import PictureStream
from ..errors import Problem
from ..files.columns import is_no_feature
from ..files.formats import is_text_column
from .inputs import check_sources
from .progress import Progress, Step, ignore, watch_blocks
from .sources import name_encoder
from .targets import check_ending, check_target
from .writing import Columns, open_output, require_free, vector_columns

_PICTURE_ENDINGS = (".npz", ".csv", ".tsv", ".parquet", ".jsonl", ".npy")
_TEXT_ENDINGS = (".csv", ".tsv", ".parquet", ".npz")


@dataclass(frozen=True)
class Embedding:
    """What `embed` has written.

    A table of pictures may carry columns along.

    Parameters
    ----------
    output : str
        The file.
    rows : int
        Number of pictures or classes.
    encoder : dict
        Name, revision and dimension of the encoder, as in a model file.
    seconds : float
        Time it took.
    columns : list of str or None
        Columns of the pictures that were written too; None for classes.
    left_out : list of str
        Columns of numbers, which a table cannot hold beside features.
    skipped : list of str
        What was wrong with the pictures that could not be read.

    See Also
    --------
    embed : Returns it.

    Examples
    --------
    >>> from zonkey.app import Embedding
    >>> spec = {"name": "efficientnet-lite0", "dimension": 1280}
    >>> found = Embedding("x.npz", 3, spec, 0.5, columns=[], left_out=[], skipped=[])
    >>> found.rows
    3
    """

    output: str
    rows: int
    encoder: dict[str, Any]
    seconds: float = 0.0
    columns: list[str] | None = None
    left_out: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def embed(
    source: str | Path,
    output: str | Path,
    *,
    encoder: str | None = None,
    text_columns: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    label_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    device: str = "auto",
    batch_size: int = 32,
    progress: Progress = ignore,
) -> Embedding:
    """Turn pictures into features, or texts of classes into prototypes.

    Parameters
    ----------
    source : str or Path
        Pictures, or a file of classes.
    output : str or Path
        File to write.
    encoder : str, default=None
        Name of the encoder.
    text_columns : sequence of str, default=None
        Columns that describe the classes; by default all columns of text.
    templates : sequence of str, default=None
        Sentences for texts.
    label_column : str, default=None
        Column of the labels in a table.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read.
    cache : bool, default=True
        Whether features of pictures are kept in the user's cache folder.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", or "auto": CUDA if available.
    batch_size : int, default=32
        Number of pictures or texts to encode at once.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Embedding
        What was written.
    """
    started, output = time.perf_counter(), Path(output)
    check_sources(source=source)
    are_pictures = not text_columns and is_pictures(source)
    endings = _PICTURE_ENDINGS if are_pictures else _TEXT_ENDINGS
    check_ending("output", output, endings, " formats")
    check_target("output", output, source)
    options: dict[str, Any] = {"device": device, "batch_size": batch_size}
    options |= {} if encoder is None else {"model": encoder}
    if are_pictures:
        if templates:
            what = f"{source} holds pictures"
            raise Problem("`templates`", "is for texts", what, "Leave it out.", option="templates")
        images = ImageEncoder(**options, cache=cache)
        with name_encoder("encoder", given=True):
            images.spec_  # noqa: B018 - loads it
        stream = PictureStream(source, images, label_column=label_column, on_error=on_error)
        record = _embed_pictures(stream, output, progress)
    else:
        columns = None if text_columns is None else list(text_columns)
        texts = class_texts(Path(source), text_columns=columns, label_column=label_column)
        encode = TextEncoder(**options, templates=None if templates is None else list(templates))
        with name_encoder("encoder", given=True):
            record = _embed_texts(texts, encode, output, progress)
    return Embedding(seconds=round(time.perf_counter() - started, 2), **record)


def _embed_pictures(stream: PictureStream, output: Path, progress: Progress) -> dict[str, Any]:
    """Write features of pictures beside their columns, and return what was written."""
    ending, spec = output.suffix.lower(), stream.encoder.spec_
    left_out = _number_columns(stream.pictures) if ending in (".csv", ".tsv") else []
    n_rows, columns = 0, []
    with open_output(output) as write:
        for block in watch_blocks(stream, "Encoding", progress):
            added = vector_columns(block.X, ending, "features", "f")
            carried = {name: c for name, c in block.carried.items() if name not in left_out}
            if ending == ".npz":
                if "label" in carried:  # other columns may have names that readers prefer to it
                    added["labels"] = carried.pop("label")
                added["encoder"] = np.array(json.dumps(spec))
            require_free(carried, added, stream.pictures.source)
            write({**carried, **added})
            n_rows, columns = n_rows + len(block.X), [*carried]
    return {
        "output": str(output),
        "rows": n_rows,
        "columns": [] if ending == ".npy" else columns,
        "left_out": left_out,
        "skipped": [str(error) for error in stream.skipped],
        "encoder": spec,
    }


def _number_columns(pictures: Pictures) -> list[str]:
    """Return columns of numbers, which readers of a table would take for features."""
    columns = pictures.columns.items()
    return [name for name, c in columns if not (is_no_feature(name) or is_text_column(c))]


def _embed_texts(
    texts: ClassTexts, encoder: TextEncoder, output: Path, progress: Progress
) -> dict[str, Any]:
    """Write prototypes of classes, and return what was written."""
    ending = output.suffix.lower()
    progress(Step("Encoding"))
    prototypes, spec = encoder.prototypes(texts), encoder.spec_
    is_npz = ending == ".npz"
    columns: Columns = {"labels" if is_npz else "label": prototypes.labels}
    columns |= vector_columns(prototypes.matrix, ending, "prototypes", "d")
    if is_npz:
        columns["encoder"] = np.array(json.dumps(spec))
    with open_output(output) as write:
        write(columns)
    return {"output": str(output), "rows": len(prototypes), "encoder": spec}
