"""Turn pictures and texts into features, or texts of classes into prototypes, and write them."""

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
from ..encoders.collection import is_pictures
from ..encoders.stream import LABEL, PictureStream, TextStream
from ..errors import DataError, Problem, reword
from ..files.columns import is_no_feature
from ..files.formats import is_text_column
from .inputs import check_sources
from .progress import Progress, Step, ignore, watch_blocks
from .sources import EncodedStream, name_encoder
from .targets import check_ending, check_target
from .writing import Columns, open_output, require_free, vector_columns

_SAMPLE_ENDINGS = (".npz", ".csv", ".tsv", ".parquet", ".jsonl", ".npy")
_CLASS_ENDINGS = (".csv", ".tsv", ".parquet", ".npz")


@dataclass(frozen=True)
class Embedding:
    """What `embed` has written.

    A table of samples may carry columns along.

    Parameters
    ----------
    output : str
        The file.
    kind : {"pictures", "texts", "classes"}
        What has a vector.
    rows : int
        Number of them.
    encoder : dict
        Name, revision and dimension of the encoder, as in a model file.
    seconds : float
        Time it took.
    columns : list of str or None
        Columns of the samples that were written too; None for classes.
    left_out : list of str
        Columns of numbers, which a table cannot hold beside features.
    skipped : list of str
        What was wrong with the pictures that could not be read, and which texts are blank.

    See Also
    --------
    embed : Returns it.

    Examples
    --------
    >>> from zonkey.app import Embedding
    >>> spec = {"name": "efficientnet-lite0", "dimension": 1280}
    >>> found = Embedding("x.npz", "pictures", 3, spec, 0.5, columns=[], left_out=[], skipped=[])
    >>> found.rows
    3
    """

    output: str
    kind: str
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
    classes: bool = False,
    encoder: str | None = None,
    text_column: str | None = None,
    text_columns: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    label_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    device: str = "auto",
    batch_size: int = 32,
    progress: Progress = ignore,
) -> Embedding:
    """Turn pictures or texts into features, or texts of classes into prototypes.

    Parameters
    ----------
    source : str or Path
        Pictures, texts, or a file of classes.
    output : str or Path
        File to write.
    classes : bool, default=False
        Whether texts describe classes: then each class has one vector, the mean over its texts.
        Else each text has one.
    encoder : str, default=None
        Name of the encoder.
    text_column : str, default=None
        Column of the texts in a table of samples; by default `text`, `texts` or `sentence`, else
        the only column of text that holds no labels.
    text_columns : sequence of str, default=None
        Columns that describe the classes; by default all columns of text.
    templates : sequence of str, default=None
        Sentences for texts.
    label_column : str, default=None
        Column of the labels in a table.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
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
    if text_columns and not classes:
        text_column, text_columns = _choose_column(text_column, text_columns), None
    are_pictures = not (classes or text_column) and is_pictures(source)
    endings = _CLASS_ENDINGS if classes else _SAMPLE_ENDINGS
    check_ending("output", output, endings, " formats")
    check_target("output", output, source)
    options: dict[str, Any] = {"device": device, "batch_size": batch_size, "cache": cache}
    options |= {} if encoder is None else {"model": encoder}
    if are_pictures and templates:
        what = f"{source} holds pictures"
        raise Problem("`templates`", "is for texts", what, "Leave it out.", option="templates")
    templates = None if templates is None else list(templates)
    encode = (
        ImageEncoder(**options) if are_pictures else TextEncoder(**options, templates=templates)
    )
    with name_encoder("encoder", given=True):
        encode.spec_  # noqa: B018 - loads it
    wanted = {"label_column": label_column, "on_error": on_error}
    if isinstance(encode, ImageEncoder):
        record = _embed_samples(PictureStream(source, encode, **wanted), output, progress)
    elif classes:
        columns = None if text_columns is None else list(text_columns)
        texts = class_texts(Path(source), text_columns=columns, label_column=label_column)
        record = _embed_classes(texts, encode, output, progress)
    else:
        with reword(DataError, {}, "Or pass `classes` for one vector per class.", "classes"):
            stream = TextStream(source, encode, **wanted, text_column=text_column)
        record = _embed_samples(stream, output, progress)
    return Embedding(seconds=round(time.perf_counter() - started, 2), **record)


def _choose_column(given: str | None, of_classes: Sequence[str]) -> str:
    """Return the column of texts if one was named as for classes; texts are not joined."""
    names = [*of_classes, *filter(None, [given])]
    if len(names) == 1:
        return names[0]
    rule, what = "must name one column, or describe classes", f"got {', '.join(names)}"
    remedy, options = "Pass `classes` for one vector per class.", ("text_columns", "classes")
    raise Problem("`text_columns`", rule, what, remedy, option=options)


def _embed_samples(stream: EncodedStream, output: Path, progress: Progress) -> dict[str, Any]:
    """Write features of pictures or texts beside their columns, and return what was written."""
    ending, spec = output.suffix.lower(), stream.encoder.spec_
    left_out = _number_columns(stream.items.columns) if ending in (".csv", ".tsv") else []
    label = stream.items.label_column if isinstance(stream, TextStream) else LABEL
    n_rows, columns = 0, []
    with open_output(output) as write:
        for block in watch_blocks(stream, "Encoding", progress):
            added = vector_columns(block.X, ending, "features", "f")
            carried = {name: c for name, c in block.carried.items() if name not in left_out}
            if ending == ".npz":
                if label in carried:  # other columns may have names that readers prefer to it
                    added["labels"] = carried.pop(label)
                added["encoder"] = np.array(json.dumps(spec))
            require_free(carried, added, stream.items.source)
            write({**carried, **added})
            n_rows, columns = n_rows + len(block.X), [*carried]
    return {
        "output": str(output),
        "kind": "texts" if isinstance(stream, TextStream) else "pictures",
        "rows": n_rows,
        "columns": [] if ending == ".npy" else columns,
        "left_out": left_out,
        "skipped": [str(error) for error in stream.skipped],
        "encoder": spec,
    }


def _number_columns(columns: dict[str, list[Any]]) -> list[str]:
    """Return columns of numbers, which readers of a table would take for features."""
    kept = [n for n, c in columns.items() if is_no_feature(n) or is_text_column(map(str, c))]
    return [name for name in columns if name not in kept]


def _embed_classes(
    texts: ClassTexts, encoder: TextEncoder, output: Path, progress: Progress
) -> dict[str, Any]:
    """Write prototypes of classes, and return what was written."""
    ending = output.suffix.lower()
    progress(Step("Encoding"))
    prototypes, spec = encoder.prototypes(texts), encoder.spec_
    is_npz = ending == ".npz"
    columns: Columns = {"labels" if is_npz else "label": prototypes.labels}
    if prototypes.tree is not None:
        parents = prototypes.tree.parents
        above = np.array([parents[label] or "" for label in prototypes.labels.tolist()])
        columns["parents" if is_npz else "parent"] = above
    columns |= vector_columns(prototypes.matrix, ending, "prototypes", "d")
    if is_npz:
        columns["encoder"] = np.array(json.dumps(spec))
    with open_output(output) as write:
        write(columns)
    found = {"output": str(output), "kind": "classes", "rows": len(prototypes)}
    return {**found, "encoder": spec}
