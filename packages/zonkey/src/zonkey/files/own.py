"""Make a Dataset of your own files of features and prototypes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..errors import DataError
from ..labels import as_labels, format_labels, format_value
from ..prototypes import Prototypes
from .classes import MOST_LISTED, Samples, cap_lines, read_rows, require_prototypes
from .dataset import Dataset, LazyMatrix, Split, collect_errors
from .formats import LINES
from .readers import FOLDER, TABLE_ENDINGS, ending_of, require_existing, stored_arrays
from .streams import STREAM_ENDINGS, FeatureStream, find_wrong_mark, wrong_options
from .tables import as_features, label_strings, labels_as_text, pick_features, require_one_source


def load_features(
    features: str | Path,
    prototypes: str | Path,
    *,
    labels: str | Path | None = None,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
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

    Labels become text in all formats: 7 in one file and "7" in the other are the same class. A
    class with a prototype and no samples is unseen.

    Parameters
    ----------
    features : str or Path
        A table (`.csv`, `.tsv`, `.parquet`) with a column of labels and columns of numbers, lines
        of JSON (`.jsonl`), a folder of `.parquet` files, or arrays (`.npz`, `.npy`, `.h5`,
        `.zarr`, `.pt`); see `read_features`.
    prototypes : str or Path
        File with a vector per class; see `read_prototypes`.
    labels : str or Path, default=None
        File of the labels, if the features are arrays without labels.
    label_column : str, default=None
        Column of the labels in a table. By default `label`, `class`, `y` or `target`, else the only
        column of text.
    feature_columns : list of str, default=None
        Columns of the features in a table, by names or patterns such as `f*`. By default all
        columns of numbers that do not identify a row: `id`, names that end in `_id`, and columns
        named `index` or without a name that only count the rows.
    id_columns : list of str, default=()
        Columns of a table that are not features, by names or patterns.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.
    unseen : list of labels, int or float, default=None
        Classes to hold out as unseen, or how many, or which fraction, to draw at random. If None,
        all samples are training samples, unless the features have a column `split` (in `.npz`, an
        array of text) with `train`, `val` or `test` for each sample: classes with only `test` are
        unseen; `val` marks whole seen classes as validation classes.
    test_size : float, default=0.2
        Fraction of the samples of each seen class to hold out if `unseen` is given. Every class
        keeps at least one training sample.
    name : str, default=None
        Name of the data set. By default the name of the features file without its ending.
    class_names : mapping of {label: str}, default=None
        Display names of classes.
    license : str, default="not stated"
        License of the data, for reports.
    citation : str, default="not stated"
        Publication to cite, for reports.
    random_state : int, RandomState or None, default=0
        Determines which classes and samples are held out.

    Returns
    -------
    Dataset
        The data set. Features in arrays are read on first use.

    Raises
    ------
    DataError
        If the files cannot be used. The message is the first problem; `check_files` lists all.
    """
    features, prototypes = Path(features), Path(prototypes)
    labels = None if labels is None else Path(labels)
    stream = FeatureStream(
        features,
        labels=labels,
        label_column=label_column,
        feature_columns=feature_columns,
        id_columns=id_columns,
        features_key=features_key,
        labels_key=labels_key,
    )
    samples = read_samples(features, stream)
    known, columns = require_prototypes(prototypes, label_column)
    about = {} if labels is None else {"labels_file": labels.name}
    return dataset_of(
        samples,
        known,
        (features.name, prototypes.name),
        columns=columns,
        unseen=unseen,
        test_size=test_size,
        random_state=random_state,
        about=about,
        name=name or features.stem,
        class_names={str(label): text for label, text in (class_names or {}).items()},
        license=license,
        citation=citation,
    )


def dataset_of(
    samples: Samples,
    known: Prototypes,
    files: tuple[str, str],
    *,
    name: str,
    columns: Sequence[str] = (),
    unseen: Any = None,
    test_size: float = 0.2,
    random_state: Any = 0,
    about: Mapping[str, Any] | None = None,
    **texts: Any,
) -> Dataset:
    """Make a Dataset of samples and prototypes; `files` are their names.

    Labels must match. The samples are split by their marks, or as requested of `load_features`.
    """
    y = samples.labels
    assert y is not None
    problems = missing_prototypes(np.unique(y), known.labels, *files, columns)
    if problems:
        raise DataError(problems[0])
    if samples.marks is None:
        split = hold_out(y, unseen, test_size, random_state)
    elif unseen is not None:
        raise DataError(
            f"`unseen` must be None if the features have a column `split`; {files[0]} has one and "
            f"`unseen` is {format_value(unseen)}. Use only one of them."
        )
    else:
        split = _split_by_marks(y, samples.marks)
    facts: dict[str, Any] = {"features_file": files[0], "prototypes_file": files[1]}
    if samples.columns:
        facts |= {"feature_names": list(samples.columns), "unused_columns": list(samples.unused)}
    return Dataset(name, samples.matrix, y, known, split, about={**facts, **(about or {})}, **texts)


def read_samples(path: Path, stream: FeatureStream, problems: list[str] | None = None) -> Samples:
    """Read features and labels; further options are those of the stream.

    With a list of `problems`, all of them are added to it; else the first one is raised.
    """
    found: list[str] = []
    if ending_of(path) not in (*TABLE_ENDINGS, LINES, FOLDER):
        samples = _read_arrays(path, stream, found)
    else:
        samples = _read_table(path, stream, None if problems is None else found)
    if problems is None and found:
        raise DataError(found[0])
    if problems is not None:
        problems += found
    return samples


def _read_table(path: Path, stream: FeatureStream, problems: list[str] | None) -> Samples:
    if problems is not None:
        problems += wrong_options(path, stream)
        stream = replace(stream, labels=None, labels_key=None)
        if ending_of(path) != LINES:
            stream.features_key = None
    rows = read_rows(stream, problems)
    if rows is None:
        return Samples()
    assert rows.labels is not None
    wrong = []
    if rows.marks is not None:
        wrong = wrong_marks(rows.labels, rows.marks, path.name, rows.first_row)
    if problems is None and wrong:
        raise DataError(wrong[0])
    matrix = None if problems else LazyMatrix.of(rows.matrix, path.name)
    if problems is not None:
        problems += wrong
    return replace(rows, matrix=matrix, marks=None if wrong else rows.marks)


def _read_arrays(path: Path, stream: FeatureStream, problems: list[str]) -> Samples:
    labels = None if stream.labels is None else Path(stream.labels)
    features_key, labels_key = stream.features_key, stream.labels_key
    arrays, matrix, y = [], None, None
    with collect_errors(problems):
        require_existing(path, STREAM_ENDINGS)
        require_one_source(labels, labels_key)
        arrays = stored_arrays(path)
        matrix = as_features(pick_features(arrays, features_key))
    with collect_errors(problems):
        y = labels_as_text(arrays, matrix, path, labels, labels_key)
    marks = None
    found = next((a for a in arrays if a.name == "split" and a.dtype.kind == "U"), None)
    if found is not None and y is not None and found.shape == y.shape:
        marks = np.char.lower(np.char.strip(found.read()))
        problems += wrong_marks(y, marks, path.name, 0)
    names = next((a for key in ("file", "id") for a in arrays if a.name == key), None)
    has_names = names is not None and y is not None and names.shape == y.shape
    called = tuple(map(str, names.read().tolist())) if names is not None and has_names else ()
    return Samples(matrix, y, marks, names=called)


def missing_prototypes(
    classes: np.ndarray,
    known: np.ndarray,
    features: str,
    prototypes: str,
    columns: Sequence[str] = (),
    needed: str = "prototype",
) -> list[str]:
    """Return one line per class with samples and no prototype, with the nearest known label."""
    missing = np.setdiff1d(classes, known)
    if missing.size and set(classes.tolist()) <= set(columns):
        return [
            f"Prototypes must be rows; {prototypes} looks transposed, with the classes "
            f"{format_labels(classes, 3)} as columns. Save it with one class per row (df.T in "
            "pandas)."
        ]
    if len(missing) == len(classes) > 1:
        return [
            f"Both files must use the same labels; {features} has {format_labels(classes, 3)} and "
            f"{prototypes} has {format_labels(known, 3)}, with no label in common. Rename the "
            "labels of one file."
        ]
    plain = {plain_label(label.replace("_", " ")): label for label in known.tolist()}
    lines = []
    for label in missing[:MOST_LISTED].tolist():
        wanted = plain_label(label.replace("_", " "))
        near = difflib.get_close_matches(wanted, plain, n=1, cutoff=0.75)
        remedy = (
            f"Did you mean {format_value(plain[near[0]])}?"
            if near
            else "Add it, or drop its samples."
        )
        lines.append(
            f"Every class needs a {needed}; {format_value(label)} of {features} has none in "
            f"{prototypes}. {remedy}"
        )
    return cap_lines(lines, "classes without a prototype", len(missing))


def plain_label(label: str) -> str:
    """Return a label without differences of case and spaces."""
    return " ".join(label.casefold().split())


def hold_out(y: np.ndarray, unseen: Any, test_size: float, random_state: Any) -> Split:
    """Hold out all samples of the unseen classes and some of the others."""
    if unseen is None:
        return Split(train=np.arange(len(y)), test_unseen=[], name="all samples for training")
    if not isinstance(test_size, Real) or not 0 <= test_size < 1:
        raise DataError(
            f"`test_size` must be a fraction from 0 to below 1; got {test_size!r}. Choose 0.2, for "
            "example."
        )
    rng = check_random_state(random_state)
    classes = np.unique(y)
    chosen = _choose_classes(classes, unseen, rng)
    held_out = []
    for label in np.setdiff1d(classes, chosen):
        positions = rng.permutation(np.flatnonzero(y == label))
        n_test = min(round(test_size * len(positions)), len(positions) - 1)
        held_out.append(positions[:n_test])
    test_seen = np.concatenate(held_out)
    test_unseen = np.flatnonzero(np.isin(y, chosen))
    train = np.setdiff1d(np.arange(len(y)), np.concatenate([test_seen, test_unseen]))
    name = f"{len(chosen)} classes held out"
    return Split(train=train, test_unseen=test_unseen, test_seen=test_seen, name=name)


def _choose_classes(classes: np.ndarray, unseen: Any, rng: np.random.RandomState) -> np.ndarray:
    """Return the classes to hold out: the named ones, or some at random."""
    rule = f"`unseen` must hold out at least one of the {len(classes)} classes and leave one seen"
    if isinstance(unseen, Real) and not isinstance(unseen, bool):
        n = int(unseen) if isinstance(unseen, Integral) else 0
        if 0 < float(unseen) < 1:
            n = max(1, round(float(unseen) * len(classes)))
        if not 1 <= n < len(classes):
            raise DataError(
                f"{rule}; got {format_value(unseen)}. Choose 1 to {len(classes) - 1}, or 0.2."
            )
        return np.sort(rng.permutation(classes)[:n])
    try:
        wanted = as_labels([unseen] if isinstance(unseen, str) else list(unseen))
    except (TypeError, ValueError):
        raise DataError(
            f"`unseen` must be a list of labels, a number of classes or a fraction; got "
            f"{format_value(unseen)}. Pass the labels as text."
        ) from None
    wanted = np.unique(label_strings(wanted, "`unseen`"))
    foreign = np.setdiff1d(wanted, classes)
    if foreign.size:
        raise DataError(
            f"`unseen` must name classes with samples; {format_labels(foreign)} have none, while "
            f"there are {format_labels(classes)}. Leave out classes with a prototype only: they "
            "are unseen anyway."
        )
    if not 1 <= len(wanted) < len(classes):
        raise DataError(f"{rule}; got {len(wanted)} labels. Name some of the classes.")
    return wanted


def wrong_marks(y: np.ndarray, marks: np.ndarray, file: str, first_row: int) -> list[str]:
    """Return what is wrong with a column `split`, nothing if it can be used."""
    wrong = find_wrong_mark(marks, file, first_row)
    if wrong is not None:
        return [wrong]
    if not (marks == "train").any():
        return [f"The column `split` of {file} has no row `train`. Mark the training samples."]
    both = np.intersect1d(y[marks == "train"], y[marks == "val"])
    if both.size:
        return [
            f"Rows `val` must be whole classes; {format_labels(both)} of {file} have rows `train` "
            "too. Give all rows of a class the same mark."
        ]
    return []


def _split_by_marks(y: np.ndarray, marks: np.ndarray) -> Split:
    """Split by the marks train, val and test of the samples."""
    test = marks == "test"
    seen = np.isin(y, y[~test])
    return Split(
        train=np.flatnonzero(~test),
        test_seen=np.flatnonzero(test & seen),
        test_unseen=np.flatnonzero(test & ~seen),
        val_classes=np.unique(y[marks == "val"]),
        name="column `split`",
    )
