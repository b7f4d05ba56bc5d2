"""A check of your own files: everything that is wrong with them, found in one go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from .feature_files import as_features, pick_features, require_equally_many
from .file_roles import TableReader, assign_roles
from .label_files import label_strings, pick_labels, read_labels
from .lazy import LazyMatrix
from .own import require_known_ending, require_labels, require_no_labels_file
from .own_split import require_marks
from .prototype_files import examine_prototypes
from .sheets import TABLE_ENDINGS
from .tables import Table, examine_table

_Samples = tuple[LazyMatrix | None, np.ndarray | None]  # features and labels, what can be read


def check_files(
    paths: Sequence[str | Path] = (),
    *,
    features: str | Path | None = None,
    prototypes: str | Path | None = None,
    labels: str | Path | None = None,
    label_column: str | None = None,
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
    y = known = None
    if "features" in files:
        y = _check_features(files["features"], files.get("labels"), table_of, report)
    elif "labels" in files:
        report.problems.append("Labels need features; there is no file of features. Add it.")
    if "prototypes" in files:
        known = _check_prototypes(files["prototypes"], label_column, report)
    elif "features" in files:
        report.warnings.append("There is no file of prototypes, so classes were not compared.")
    if y is not None:
        describe_classes(y, report)
    if y is not None and known is not None:
        names = files["features"].name, files["prototypes"].name
        compare_classes(np.unique(y), known.labels, *names, report)
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
    path: Path, labels: Path | None, table_of: TableReader, report: Report
) -> np.ndarray | None:
    """Check one file of features; its labels come back where they can be read."""
    if path.suffix.lower() in TABLE_ENDINGS:
        matrix, y = _check_table(path, labels, table_of, report)
    else:
        matrix, y = _check_arrays(path, labels, report)
    if matrix is not None:
        with _noted(report):
            fitting = y if y is not None and len(y) == len(matrix) else None
            describe_features(matrix.values(), fitting, path.name, report)
    return None if y is None else y[y != ""]


def _check_table(
    path: Path, labels: Path | None, table_of: TableReader, report: Report
) -> _Samples:
    with _noted(report):
        require_no_labels_file(path, labels)
    table, wrong = None, []
    with _noted(report):
        table, wrong = table_of(path)
    report.problems.extend(wrong)
    if table is None:
        return None, None
    if table.split is not None:
        with _noted(report):
            require_marks(table.labels, table.split, path.name, table.first_row)
    return (None if wrong else LazyMatrix.of(table.matrix, path.name)), table.labels


def _check_arrays(path: Path, labels: Path | None, report: Report) -> _Samples:
    arrays, matrix, found, y = [], None, None, None
    with _noted(report):
        require_known_ending(path)
        arrays = stored_arrays(path)
        matrix = as_features(pick_features(arrays))
    with _noted(report):
        if labels is not None:
            found = read_labels(labels)
        elif matrix is not None:
            found = require_labels(pick_labels(arrays, len(matrix)), path)
        if found is not None:
            y = label_strings(found, (labels or path).name)
            if matrix is not None:
                require_equally_many(matrix, y, (labels or path).name)
    return matrix, y


def _check_prototypes(path: Path, label_column: str | None, report: Report) -> Prototypes | None:
    """Check one file of prototypes; those that can be used come back."""
    prototypes, wrong = None, []
    with _noted(report):
        prototypes, wrong = examine_prototypes(path, label_column)
    report.problems.extend(wrong)
    if prototypes is not None:
        describe_prototypes(prototypes, path.name, report)
    return prototypes
