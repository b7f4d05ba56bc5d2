"""Check your own files, or the folder of a benchmark, and list all problems."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..config import rows_per_block
from ..errors import DataError
from ..labels import format_labels, format_value
from ..optional import format_install
from ..plugins import LAB, load_plugin
from ..prototypes import Prototypes
from ..samples import require_scale
from .classes import PROTOTYPE_KEYS, Samples, cap_lines, examine_prototypes, read_rows
from .columns import FEATURE_KEYS
from .dataset import PARTS, collect_errors
from .formats import LINES
from .own import missing_prototypes, plain_label, read_samples
from .readers import ARRAY_ENDINGS, TABLE_ENDINGS, read_text, require_existing, stored_arrays
from .streams import FeatureStream
from .tables import as_features, pick_features, pick_labels

_ALIKE = 0.999  # cosine from which two prototypes are nearly equal
_MOST_PAIRS = 1000  # similar prototypes that are examined


@dataclass(frozen=True)
class Report:
    """Findings of a check, one line each."""

    problems: list[str] = field(default_factory=list)  # to fix before the files can be used
    warnings: list[str] = field(default_factory=list)  # to look at: they may be intended
    facts: list[str] = field(default_factory=list)  # what the files hold


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
    """List all problems of files of features and prototypes.

    Parameters
    ----------
    paths : sequence of str or Path, default=()
        One to three files. What each one holds is inferred from its ending and content.
    features, prototypes, labels : str or Path, default=None
        Files of features, prototypes and labels.
    label_column : str, default=None
        Column of the labels in a table.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.

    Returns
    -------
    Report
        The lists `problems`, `warnings` and `facts`. The files can be used if `problems` is empty.
    """
    report = Report()
    keys = {"features_key": features_key, "labels_key": labels_key}
    given = {"features": features, "prototypes": prototypes, "labels": labels}
    named = {role: Path(path) for role, path in given.items() if path is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _examine(report, paths, named, label_column, keys)
    report.warnings.extend(str(w.message) for w in caught if w.category is UserWarning)
    for lines in (report.problems, report.warnings):
        lines[:] = dict.fromkeys(lines)
    return report


def _examine(
    report: Report,
    paths: Sequence[str | Path],
    named: dict[str, Path],
    label_column: str | None,
    keys: dict[str, Any],
) -> None:
    """Report on files; the roles of some are known."""
    guess = cache(lambda path: _guess(path, label_column))
    files, left = _assign_roles(named, [Path(path) for path in paths], guess)
    for path in left:
        report.problems.append(
            f"There must be one file of each kind; {path.name} is one too many. Leave it out, or "
            "say what it is with --features, --prototypes or --labels."
        )
    report.facts.extend(f"{path.name} is read as {role}." for role, path in files.items())
    samples, known, columns = Samples(), None, ()
    if "features" in files:
        options: dict[str, Any] = {"labels": files.get("labels"), "label_column": label_column}
        stream = FeatureStream(files["features"], **options, **keys)
        with collect_errors(report.problems, ImportError):
            samples = read_samples(files["features"], stream, report.problems)
        if samples.matrix is not None:
            with collect_errors(report.problems, ImportError):
                X = samples.matrix.values()
                _describe_features(X, samples.labels, files["features"].name, report)
        if samples.unused:
            names = format_labels(np.array(samples.unused), 8)
            report.facts.append(
                f"Columns of {files['features'].name} that are not used as features: {names}."
            )
    elif "labels" in files:
        report.problems.append("Labels need features; there is no file of features. Add it.")
    if "prototypes" in files:
        with collect_errors(report.problems, ImportError):
            known, columns, problems = examine_prototypes(files["prototypes"], label_column)
            report.problems.extend(problems)
        if known is not None:
            _describe_prototypes(known.at_leaves(), files["prototypes"].name, report)
    elif "features" in files:
        report.warnings.append("There is no file of prototypes, so classes were not compared.")
    y = np.array([]) if samples.labels is None else samples.labels[samples.labels != ""]
    if y.size:
        _describe_classes(y, report)
        if known is not None:
            names = files["features"].name, files["prototypes"].name
            missing = missing_prototypes(np.unique(y), known.labels, *names, columns)
            report.problems.extend(missing)
            _describe_spellings(np.unique(y), names[0], report)
            _compare_classes(samples, np.unique(y), known.labels, report)


def check_folder(folder: Path) -> Report:
    """Load the folder of a benchmark completely, and report what it holds or what is wrong."""
    try:
        load_folder = load_plugin("folders", "benchmarks")
        if load_folder is None:
            raise DataError(
                "Folders of benchmarks are read by zonkey-lab, which is not installed; got "
                f"{folder}. Run: {format_install(LAB)}. Or pass files."
            )
        data = load_folder(folder)
        data.X  # noqa: B018 (values are checked when they are read)
    except (DataError, ImportError) as error:
        return Report(problems=[str(error)])
    parts = ", ".join(
        f"{len(getattr(data.split, part))} {part.replace('_', ' ')}" for part in PARTS
    )
    classes = f"{len(data.seen_classes)} seen and {len(data.unseen_classes)} unseen classes"
    return Report(
        facts=[
            f"{folder} holds {data.shape[0]} samples of {data.shape[1]} features: {parts}.",
            f"{classes}; {len(data.split.val_classes)} seen classes are for validation.",
            f"Semantic spaces: {', '.join(data.spaces)}.",
            f"Split: {data.split.name}.",
        ]
    )


# Which file is what


def _assign_roles(
    files: dict[str, Path], paths: Sequence[Path], guess: Callable[[Path], tuple[str | None, int]]
) -> tuple[dict[str, Path], list[Path]]:
    """Add the paths to files of known role; return also the paths for which no role is left."""
    roles = {path: guess(path)[0] for path in paths}
    # Of two files that look like features, the longer one holds them. Of two that look like
    # prototypes, the shorter one holds the features, one sample per class: classes without samples
    # have prototypes too.
    alike = [path for path in paths if roles[path] == "prototypes"]
    if len(alike) > 1 and "features" not in {*files, *roles.values()}:
        roles[min(alike, key=lambda path: guess(path)[1])] = "features"
    files, unclear, left = dict(files), [], []
    for path in sorted(paths, key=lambda path: -guess(path)[1]):
        role = roles[path]
        if role is None or role in files:
            unclear.append(path)
        else:
            files[role] = path
    for path in sorted(unclear, key=paths.index):
        is_table = "features" in files and files["features"].suffix.lower() in TABLE_ENDINGS
        free = [role for role in ("features", "prototypes") if role not in files]
        free += ["labels"] if "labels" not in files and not is_table else []
        if free:
            files[free[0]] = path
        else:
            left.append(path)
    return files, left


def _guess(path: Path, label_column: str | None) -> tuple[str | None, int]:
    """Return the likely role of a file, None if it is unclear, and its number of rows."""
    ending = path.suffix.lower()
    known = {".txt": "labels", ".json": "prototypes", LINES: "features"}
    if ending in known:
        return known[ending], 0
    try:
        require_existing(path, (*TABLE_ENDINGS, *ARRAY_ENDINGS))
        if ending in ARRAY_ENDINGS:
            return _guess_of_arrays(path)
        if ending == ".csv" and not set(",;\t") & set(read_text(path).split("\n", 1)[0]):
            return "labels", 0
        table = read_rows(FeatureStream(path, label_column=label_column), [])
        return (None, 0) if table is None else _guess_of_labels(np.asarray(table.labels))
    except (DataError, ImportError):
        return None, 0


def _guess_of_arrays(path: Path) -> tuple[str | None, int]:
    arrays = stored_arrays(path)
    names = {array.name for array in arrays}
    if names & set(PROTOTYPE_KEYS) and not names & set(FEATURE_KEYS):
        return "prototypes", 0
    if path.suffix.lower() == ".npy":
        n = max(arrays[0].shape, default=0)
        return ("labels" if n == np.prod(arrays[0].shape) else "features"), n
    labels = pick_labels(arrays, len(as_features(pick_features(arrays))))
    return (None, 0) if labels is None else _guess_of_labels(labels)


def _guess_of_labels(labels: np.ndarray) -> tuple[str, int]:
    """Return "features" if a label is repeated: a class has one prototype."""
    repeated = len(np.unique(labels)) < len(labels)
    return ("features" if repeated else "prototypes"), len(labels)


# What the files hold


def _describe_features(X: np.ndarray, y: np.ndarray | None, file: str, report: Report) -> None:
    """Report constant columns, row numbers, repeated rows, norms and scales."""
    n, d = X.shape
    labels = y if y is not None and len(y) == n else np.zeros(n)
    report.facts.append(f"{file} has {n} samples of {d} features ({X.dtype}).")
    if X.dtype.kind == "f":
        with collect_errors(report.problems, ValueError):
            require_scale(X, f"Features of {file}")
    ranges = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    first_of: dict[bytes, int] = {}  # first row with a content, by its hash
    repeats = conflicts = 0
    for row, values in enumerate(X):
        digest = hashlib.blake2b(values.tobytes(), digest_size=16).digest()
        other = first_of.setdefault(digest, row)
        repeats += other != row
        conflicts += labels[other] != labels[row]
    constant = int((ranges == 0).sum())
    if constant and n > 1:
        report.warnings.append(
            f"{constant} of {d} features in {file} are constant. They carry no information; you "
            "may drop them."
        )
    counts = np.arange(n, dtype=np.float64)
    candidates = np.flatnonzero(ranges == n - 1) if n > 2 else ()
    counting = [c for c in candidates if np.array_equal(X[:, c] - float(X[0, c]), counts)]
    if counting:
        report.warnings.append(
            f"Feature {counting[0] + 1} of {file} counts the rows. Drop it: it says nothing about "
            "a sample."
        )
    if repeats:
        labeled = f", {conflicts} of them with another label" if conflicts else ""
        report.warnings.append(
            f"{repeats} rows of {file} repeat an earlier row{labeled}. Check for copies."
        )
    # Not np.linalg.norm, which would copy a memory map.
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    _describe_scale(norms, ranges[ranges > 0], file, report)


def _describe_scale(norms: np.ndarray, ranges: np.ndarray, file: str, report: Report) -> None:
    if np.allclose(norms, 1, atol=1e-3):
        report.facts.append(f"Rows of {file} have norm 1.")
    else:
        report.facts.append(
            f"Rows of {file} have norms from {norms.min():.3g} to {norms.max():.3g}. Put "
            "FeatureNormalizer before the classifier if norms carry no meaning."
        )
    if ranges.size and ranges.max() > 1000 * ranges.min():
        report.warnings.append(
            f"Features in {file} differ in scale: their ranges go from {ranges.min():.3g} to "
            f"{ranges.max():.3g}, and the largest will dominate. Put StandardScaler before the "
            "classifier."
        )


def _describe_prototypes(prototypes: Prototypes, file: str, report: Report) -> None:
    """Report prototypes that are zero or similar, and labels that differ only in spelling."""
    report.facts.append(
        f"{file} has {len(prototypes)} classes of {prototypes.n_dimensions} dimensions."
    )
    labels, units = prototypes.labels, prototypes.normalized().matrix.astype(np.float64)
    zero = labels[~units.any(axis=1)]
    if zero.size:
        report.warnings.append(
            f"The prototype of {format_labels(zero)} in {file} is all zeros. Check that it is not "
            "missing."
        )
    same, near = [], []
    for one, other in islice(_alike_pairs(units), _MOST_PAIRS):
        pair = f"{format_value(labels[one])} and {format_value(labels[other])}"
        if np.array_equal(prototypes.matrix[one], prototypes.matrix[other]):
            same.append(
                f"Prototypes must differ; {pair} have the same in {file} and cannot be told "
                "apart. Describe one of them in more detail, or merge them."
            )
        else:
            near.append(f"The prototypes of {pair} in {file} are nearly equal.")
    report.problems.extend(cap_lines(same, "pairs of equal prototypes"))
    report.warnings.extend(cap_lines(near, "pairs of nearly equal prototypes"))
    _describe_spellings(labels, file, report)


def _alike_pairs(units: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows of nearly equal direction; two zero rows are such a pair."""
    zero = np.linalg.norm(units, axis=1) == 0
    step = rows_per_block(16 * len(units))
    for start in range(0, len(units), step):
        alike = units[start : start + step] @ units.T > _ALIKE
        alike |= zero[start : start + step, None] & zero
        for one, other in np.argwhere(alike):
            if start + one < other:
                yield start + int(one), int(other)


def _describe_spellings(labels: np.ndarray, file: str, report: Report) -> None:
    """Report labels that differ only in case and spaces."""
    groups: dict[str, list[str]] = {}
    for label in labels.tolist():
        groups.setdefault(plain_label(label), []).append(label)
    lines = [
        f"The labels {format_labels(np.array(group))} of {file} differ only in case or spaces."
        for group in groups.values()
        if len(group) > 1
    ]
    report.warnings.extend(cap_lines(lines, "groups of such labels"))


def _describe_classes(y: np.ndarray, report: Report) -> None:
    """Report the number of samples per class."""
    classes, counts = np.unique(y, return_counts=True)
    report.facts.append(
        f"{len(classes)} classes have samples: {counts.min()} to {counts.max()} each, median "
        f"{np.median(counts):g}."
    )
    single = classes[counts < 2]
    if single.size:
        report.warnings.append(f"There is only one sample of {format_labels(single)}.")
    if len(classes) < 2:
        report.problems.append(
            f"At least two classes must have samples; there is {format_labels(classes)}. Add "
            "others."
        )


def _compare_classes(
    samples: Samples, classes: np.ndarray, known: np.ndarray, report: Report
) -> None:
    """Report which classes are seen, unseen by the column `split`, or known by prototype only."""
    y, marks = samples.labels, samples.marks
    fact = f"{len(classes)} classes are seen"
    if y is not None and marks is not None:
        held_out = np.setdiff1d(y[marks == "test"], y[marks != "test"])
        unseen = f": {format_labels(held_out)}" if held_out.size else ""
        fact = (
            f"{len(classes) - len(held_out)} classes are seen and {len(held_out)} unseen by the "
            f"column `split`{unseen}"
        )
    alone = np.setdiff1d(known, classes)
    fact += f"; {len(alone)} are known by prototype only"
    if alone.size:
        fact += f": {format_labels(alone)}"
    elif marks is None:
        fact += "; use `unseen` to hold some out"
    report.facts.append(f"{fact}.")
