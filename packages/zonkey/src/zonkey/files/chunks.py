"""Chunks of files larger than memory, to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..labels import check_count
from ..streaming.chunks import Chunks
from ..streaming.sources import CHUNK, BaseSource, Purpose, describe_file
from .formats import TEXT_ENDINGS
from .readers import ARRAY_ENDINGS, FOLDER, SEPARATORS, ending_of, parquet_files, require_existing
from .streams import STREAM_ENDINGS, Block, FeatureStream, find_wrong_mark
from .tables import require_one_source


def open_chunks(
    path: str | PathLike[str],
    labels: str | PathLike[str] | None = None,
    *,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    features_key: str | None = None,
    labels_key: str | None = None,
    rows: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 16,
    progress: Callable[[str, int, int | None], Any] | None = None,
) -> Chunks:
    """Open a file, or a folder of parquet files, that is read in chunks.

    Features are never all in memory; labels of arrays are. Labels are text in all formats. When a
    model learns, rows without a label are left out, and those whose column `split` says `test`;
    rows `val` are used for training like all others. `predict` answers for all rows.

    Parameters
    ----------
    path : path
        A table (`.csv`, `.tsv`, `.jsonl`, `.parquet`), a folder of `.parquet` files with the same
        columns, which are read in the order of their names, or arrays (`.npy`, `.npz`, `.h5`,
        `.hdf5`, and zarr stores `.zarr` or `.zarr.zip`).
    labels : path, default=None
        File of the labels, if the features are arrays without labels: `.npy`, `.txt` (one per
        line) or `.csv` (one column).
    label_column : str, default=None
        Column of the labels in a table. By default `label`, `class`, `y` or `target`, else the only
        column of text. A file for prediction only needs no labels.
    feature_columns : list of str, default=None
        Columns of the features in a table, by names or patterns such as `f*`; see `load_features`.
    id_columns : list of str, default=()
        Columns of a table that are not features, by names or patterns.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.
    rows : int, default=None
        Number of rows per chunk, fewer at the end of a file or of a row group of parquet. None:
        about 16 million numbers, in files of text one million.
    checkpoint : path, default=None
        Folder for the state of a pass; see `zonkey.Chunks`.
    every : int, default=16
        Number of chunks between two checkpoints.
    progress : callable, default=None
        Called after each chunk; see `zonkey.Chunks`. Files of text do not state their number of
        rows.

    Returns
    -------
    Chunks
        Samples for `fit`, `partial_fit`, `predict` and `Moments.update`.

    Raises
    ------
    DataError
        If the file cannot be used.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from zonkey import Moments
    >>> from zonkey.datasets import open_chunks
    >>> path = os.path.join(tempfile.mkdtemp(), "animals.npz")
    >>> np.savez(path, features=np.eye(4), labels=["horse", "zebra", "zebra", "horse"])
    >>> prototypes = {"horse": [1.0], "zebra": [2.0]}
    >>> Moments(prototypes).update(open_chunks(path, rows=2)).counts.tolist()
    [2, 2]
    """
    labels = None if labels is None else Path(labels)
    require_one_source(labels, labels_key)
    stream = FeatureStream(
        Path(path),
        with_labels=True,
        needs_labels=labels is not None or labels_key is not None,
        labels=labels,
        label_column=label_column,
        feature_columns=feature_columns,
        id_columns=id_columns,
        features_key=features_key,
        labels_key=labels_key,
    )
    source = FileSource(stream, None if rows is None else check_count("rows", rows, 1))
    return Chunks(source, checkpoint=checkpoint, every=every, progress=progress)


class FileSource(BaseSource):
    """Blocks of a stream, without the rows that are not for learning.

    `stream` is the one that is being read; it shows how far reading is.
    """

    is_file = True

    def __init__(self, stream: FeatureStream, rows: int | None) -> None:
        path = require_existing(stream.path, STREAM_ENDINGS)
        ending = ending_of(path)
        block = None if ending in TEXT_ENDINGS else CHUNK
        self.stream = replace(stream, rows=rows, block=block)
        heading = replace(stream, rows=1)
        self.heading = next(iter(heading))
        self.n_rows = None if ending in TEXT_ENDINGS else heading.total
        self.feature_names, self.unused = heading.columns, heading.unused
        self.file = path.name
        self.first_row = 2 if ending in SEPARATORS else int(ending not in ARRAY_ENDINGS)
        self.files = parquet_files(path) if ending == FOLDER else [path]
        labels = [] if stream.labels is None else [Path(stream.labels)]
        facts = [describe_file(file) for file in (*self.files, *labels)]
        self.identity = f"{rows} rows, {', '.join(facts)}"

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:
        """Yield samples and labels from chunk `first` on."""
        self.stream = stream = replace(self.stream, first=first)
        for block in stream:
            X, y = block.X, block.labels
            if purpose != "all" and y is not None:
                is_learned = purpose == "learn"
                kept = self.is_kept(block, stream.n_read - len(X)) if is_learned else y != ""
                X, y = (X, y) if kept.all() else (X[kept], y[kept])
            yield X, y

    def is_kept(self, block: Block, before: int) -> np.ndarray:
        """Select the rows to learn from; `before` is the number of rows before the block."""
        assert block.labels is not None
        labeled, marks = block.labels != "", block.split
        if marks is None:
            return labeled
        wrong = find_wrong_mark(marks, self.file, self.first_row + before)
        if wrong is not None:
            raise DataError(wrong)
        return labeled & (marks != "test")
