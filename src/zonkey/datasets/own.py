"""Your own data: a Dataset from a file of features and one of prototypes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .array_files import ARRAY_ENDINGS
from .check_findings import without_prototype
from .dataset import Dataset
from .errors import DataError
from .feature_files import read_features
from .files import require_file
from .label_files import label_strings
from .lazy import LazyMatrix
from .own_split import held_out_split, marked_split, require_marks
from .prototype_files import read_prototypes
from .sheets import TABLE_ENDINGS, column_names
from .tables import read_table


def load_features(
    features: str | Path,
    prototypes: str | Path,
    *,
    labels: str | Path | None = None,
    label_column: str | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
    unseen: Any = None,
    test_size: float = 0.2,
    name: str | None = None,
    class_names: Mapping[Any, str] | None = None,
    license: str = "not stated",
    citation: str = "not stated",
    random_state: Any = 0,
) -> Dataset:
    """Make a Dataset of your own files.

    Labels become text, whatever the files store, so that 7 in one file and "7" in the other are the
    same class. A class with a prototype and no sample is one to predict.

    Parameters
    ----------
    features : str or Path
        A table (`.csv`, `.tsv`, `.parquet`; see `read_table`) or arrays (`.npz`, `.npy`, `.h5`,
        `.pt`; see `read_features`).
    prototypes : str or Path
        A vector for each class; see `read_prototypes`.
    labels : str or Path, default=None
        File of the labels where the features are arrays without them.
    label_column : str, default=None
        Column of the labels in a table.
    features_key, labels_key : str, default=None
        Names of the arrays in a file of several; a table has none.
    unseen : list of labels, int or float, default=None
        Classes to hold out as unseen; or how many, or which fraction, to draw at random. None: all
        samples serve for training. A table may say so itself in a column `split`: rows `train`
        and `test`, where a class with `test` alone is unseen, and `val` for whole seen classes
        that are set aside when parameters are chosen.
    test_size : float, default=0.2
        Fraction of the samples of each seen class that is held out too, for the generalized
        setting, where `unseen` is given. Every class keeps at least one training sample.
    name : str, default=None
        The name of the features file, without its ending, where there is none.
    class_names : mapping {label: str}, default=None
        How to write a class for people; the label itself where there is none.
    license, citation : str, default="not stated"
        What a report has to say of the data.
    random_state : int, RandomState or None, default=0
        Which classes and samples are held out.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        In one line: the first thing that is wrong; `check_files` lists everything.
    """
    features, prototypes = Path(features), Path(prototypes)
    if features.suffix.lower() in TABLE_ENDINGS:
        require_no_labels_file(features, labels)
        require_no_keys(features, features_key, labels_key)
        table = read_table(features, label_column=label_column)
        matrix = LazyMatrix.of(table.matrix, features.name)
        y, marks, first_row = table.labels, table.split, table.first_row
    else:
        require_known_ending(features)
        matrix, stored = read_features(
            features, labels=labels, features_key=features_key, labels_key=labels_key
        )
        y = label_strings(require_labels(stored, features), Path(labels or features).name)
        marks, first_row = None, 0
    known = read_prototypes(prototypes, label_column=label_column)
    names = features.name, prototypes.name
    lacking = without_prototype(np.unique(y), known.labels, *names, header_of(prototypes))
    if lacking:
        raise DataError(lacking[0])
    if marks is None:
        split = held_out_split(y, unseen, test_size, random_state)
    elif unseen is not None:
        raise DataError(
            f"`unseen` must be None where the table says so itself; {features.name} has a column "
            f"`split` and `unseen` is {unseen!r}. Drop one of them."
        )
    else:
        require_marks(y, marks, features.name, first_row)
        split = marked_split(y, marks)
    about = {"features_file": features.name, "prototypes_file": prototypes.name}
    if labels is not None:
        about["labels_file"] = Path(labels).name
    return Dataset(
        name or features.stem,
        matrix,
        y,
        known,
        split,
        class_names={str(label): text for label, text in (class_names or {}).items()},
        license=license,
        citation=citation,
        about=about,
    )


def require_known_ending(path: Path) -> None:
    """Refuse a file of features that is not there, or in a format that is not read."""
    require_file(path)
    if path.suffix.lower() not in (*TABLE_ENDINGS, *ARRAY_ENDINGS):
        endings = ", ".join((*TABLE_ENDINGS, *ARRAY_ENDINGS))
        raise DataError(
            f"A file of features must end in one of {endings}; got {path.name}. Save it in one of "
            "these formats."
        )


def require_no_labels_file(path: Path, labels: str | Path | None) -> None:
    """Refuse labels beside a table, which has its own."""
    if labels is not None:
        raise DataError(
            f"A table has its labels in a column; {path.name} is a table and there is a file of "
            f"labels {Path(labels).name}. Add them to the table as a column `label`."
        )


def require_no_keys(path: Path, features_key: str | None, labels_key: str | None) -> None:
    """Refuse names of arrays for a table, which has columns."""
    for parameter, key in (("features_key", features_key), ("labels_key", labels_key)):
        if key is not None:
            raise DataError(
                f"`{parameter}` must be None for a table; got {key!r}, and {path.name} is one. "
                "Leave it out, and name the column of labels with `label_column`."
            )


def header_of(prototypes: Path) -> list[str]:
    """Return the names of the columns of a table of prototypes, none for another file."""
    return column_names(prototypes) if prototypes.suffix.lower() in TABLE_ENDINGS else []


def require_labels(labels: np.ndarray | None, path: Path) -> np.ndarray:
    """Refuse features without labels."""
    if labels is None:
        raise DataError(
            f"Features need labels; {path.name} holds none. Save them in it as `labels`, or pass a "
            "file of labels."
        )
    return labels
