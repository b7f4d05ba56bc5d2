"""A check of your own files: everything that is wrong with them, found in one go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..core.prototypes import Prototypes
from .array_files import stored_arrays
from .check_findings import (
    Report,
    compare_classes,
    describe_classes,
    describe_features,
    describe_prototypes,
)
from .errors import DataError
from .feature_files import (
    as_features,
    pick_features,
    require_equally_many,
    require_one_source,
)
from .file_roles import TableReader, assign_roles
from .label_files import label_strings, pick_labels, read_labels
from .lazy import LazyMatrix
from .own import (
    header_of,
    require_known_ending,
    require_labels,
    require_no_keys,
    require_no_labels_file,
)
from .own_split import held_out_classes, require_marks
from .prototype_files import examine_prototypes
from .sheets import TABLE_ENDINGS
from .tables import Table, examine_table

_Keys = tuple[str | None, str | None]  # names of the arrays of features and of labels


@dataclass
class _Samples:
    """What can be read of the samples."""

    matrix: LazyMatrix | None = None
    labels: np.ndarray | None = None
    held_out: np.ndarray | None = None  # classes that a column `split` keeps for the test


def check_files(
    paths: Sequence[str | Path] = (),
    *,
    features: str | Path | None = None,
    prototypes: str | Path | None = None,
    labels: str | Path | None = None,
    label_column: str | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
) -> Report:
    """Look for everything that is wrong with files of features and prototypes.

    Parameters
    ----------
    paths : sequence of str or Path
        One to three files; which is what follows from their endings and contents.
    features, prototypes, labels : str or Path, default=None
        Files of which you say yourself what they are.
    label_column : str, default=None
        Column of the labels in a table.
    features_key, labels_key : str, default=None
        Names of the arrays in a file of features that holds several.

    Returns
    -------
    Report
        `problems` is empty where the files can be used.
    """
    report = Report()

    @cache  # a table is read to find out what it is, and again to be checked
    def table_of(path: Path) -> tuple[Table | None, list[str]]:
        return examine_table(path, "features", label_column)

    given = {"features": features, "prototypes": prototypes, "labels": labels}
    named = {role: Path(path) for role, path in given.items() if path is not None}
    files, left = assign_roles(named, [Path(path) for path in paths], table_of)
    for path in left:
        report.problems.append(
            f"There must be one file of each kind; {path.name} is one too many. Leave it out, or "
            "say what it is with --features, --prototypes or --labels."
        )
    for role, path in files.items():
        report.facts.append(f"{path.name} is read as {role}.")
    samples, known = _Samples(), None
    if "features" in files:
        keys = features_key, labels_key
        samples = _check_features(files["features"], files.get("labels"), keys, table_of, report)
    elif "labels" in files:
        report.problems.append("Labels need features; there is no file of features. Add it.")
    if "prototypes" in files:
        known = _check_prototypes(files["prototypes"], label_column, report)
    elif "features" in files:
        report.warnings.append("There is no file of prototypes, so classes were not compared.")
    if samples.labels is not None:
        y = samples.labels[samples.labels != ""]
        describe_classes(y, report)
        if known is not None:
            names = files["features"].name, files["prototypes"].name
            told = {"held_out": samples.held_out, "header": header_of(files["prototypes"])}
            compare_classes(np.unique(y), known.labels, *names, report, **told)
    for lines in (report.problems, report.warnings):
        lines[:] = dict.fromkeys(lines)
    return report


@contextmanager
def _noted(report: Report) -> Iterator[None]:
    """Keep what cannot be read as a problem, and go on."""
    try:
        yield
    except (DataError, ImportError) as error:
        report.problems.append(str(error))


def _check_features(
    path: Path, labels: Path | None, keys: _Keys, table_of: TableReader, report: Report
) -> _Samples:
    """Check one file of features; what can be read of it comes back."""
    if path.suffix.lower() in TABLE_ENDINGS:
        samples = _check_table(path, labels, keys, table_of, report)
    else:
        samples = _check_arrays(path, labels, keys, report)
    matrix, y = samples.matrix, samples.labels
    if matrix is not None:
        with _noted(report):
            fitting = y if y is not None and len(y) == len(matrix) else None
            describe_features(matrix.values(), fitting, path.name, report)
    return samples


def _check_table(
    path: Path, labels: Path | None, keys: _Keys, table_of: TableReader, report: Report
) -> _Samples:
    with _noted(report):
        require_no_labels_file(path, labels)
        require_no_keys(path, *keys)
    table, wrong = None, []
    with _noted(report):
        table, wrong = table_of(path)
    report.problems.extend(wrong)
    if table is None:
        return _Samples()
    samples = _Samples(None if wrong else LazyMatrix.of(table.matrix, path.name), table.labels)
    if table.split is not None:
        with _noted(report):
            require_marks(table.labels, table.split, path.name, table.first_row)
            samples.held_out = held_out_classes(table.labels, table.split)
    return samples


def _check_arrays(path: Path, labels: Path | None, keys: _Keys, report: Report) -> _Samples:
    arrays, found, samples = [], None, _Samples()
    with _noted(report):
        require_known_ending(path)
        require_one_source(labels, keys[1])
        arrays = stored_arrays(path)
        samples.matrix = as_features(pick_features(arrays, keys[0]))
    with _noted(report):
        if labels is not None:
            found = read_labels(labels)
        elif samples.matrix is not None:
            found = require_labels(pick_labels(arrays, len(samples.matrix), keys[1]), path)
        if found is not None:
            samples.labels = label_strings(found, (labels or path).name)
            if samples.matrix is not None:
                require_equally_many(samples.matrix, samples.labels, (labels or path).name)
    return samples


def _check_prototypes(path: Path, label_column: str | None, report: Report) -> Prototypes | None:
    """Check one file of prototypes; those that can be used come back."""
    prototypes, wrong = None, []
    with _noted(report):
        prototypes, wrong = examine_prototypes(path, label_column)
    report.problems.extend(wrong)
    if prototypes is not None:
        describe_prototypes(prototypes, path.name, report)
    return prototypes
