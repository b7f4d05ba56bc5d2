"""What there is to say about features, prototypes and classes, a plain line for each finding."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from ..core.labels import listed
from ..core.prototypes import Prototypes
from .files import MOST, capped

_BLOCK = 1 << 22  # entries looked at a time, so that a memory map is not read into memory at once
_ALIKE = 0.999  # cosine from which two prototypes are nearly the same
_MOST_PAIRS = 1000  # alike prototypes that are looked at


@dataclass(frozen=True)
class Report:
    """What `check_files` found, each entry one line.

    Attributes
    ----------
    problems : list of str
        What must be mended before the files can be used.
    warnings : list of str
        What may be meant so, and is worth a look.
    facts : list of str
        What the files hold.
    """

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


def describe_features(X: np.ndarray, y: np.ndarray | None, file: str, report: Report) -> None:
    """Report constant columns, row numbers, repeated rows, lengths and scales."""
    n, d = X.shape
    report.facts.append(f"{file} has {n} samples of {d} features ({X.dtype}).")
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    lengths = np.empty(n)
    counting = np.full(d, n > 2)  # columns that go up by 1 from row to row
    for start, block in _blocks(X):
        rows = np.arange(start, start + len(block), dtype=np.float64)
        counting &= (block - X[0].astype(np.float64) == rows[:, None]).all(axis=0)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        lengths[start : start + len(block)] = np.linalg.norm(block.astype(np.float64), axis=1)
    constant = int((low == high).sum())
    if constant and n > 1:
        report.warnings.append(
            f"{constant} of {d} features in {file} are the same in all samples. They carry no "
            "information; you may drop them."
        )
    if counting.any():
        report.warnings.append(
            f"Feature {int(np.argmax(counting)) + 1} of {file} counts the rows. Drop it: it says "
            "nothing about a sample."
        )
    _describe_repeats(X, y, file, report)
    _describe_scale(lengths, (high - low)[low < high], file, report)


def describe_prototypes(prototypes: Prototypes, file: str, report: Report) -> None:
    """Report prototypes that are zero or alike, and labels that differ in their spelling alone."""
    report.facts.append(
        f"{file} has {len(prototypes)} classes of {prototypes.n_dimensions} dimensions."
    )
    labels, units = prototypes.labels, prototypes.normalized().matrix.astype(np.float64)
    zero = labels[~units.any(axis=1)]
    if zero.size:
        report.warnings.append(
            f"The prototype of {listed(zero)} in {file} is all zeros. Check that it was not "
            "left out."
        )
    same, near = [], []
    for one, other in islice(_alike_pairs(units), _MOST_PAIRS):
        pair = f"{str(labels[one])!r} and {str(labels[other])!r}"
        if np.array_equal(prototypes.matrix[one], prototypes.matrix[other]):
            same.append(
                f"Prototypes must differ; {pair} have the same in {file} and cannot be told "
                "apart. Describe one of them in more detail, or join them."
            )
        else:
            near.append(f"The prototypes of {pair} in {file} are nearly the same.")
    report.problems.extend(capped(same, "pairs of equal prototypes"))
    report.warnings.extend(capped(near, "pairs of prototypes that are nearly the same"))
    _describe_spellings(labels, file, report)


def describe_classes(y: np.ndarray, report: Report) -> None:
    """Report how many samples the classes have."""
    classes, counts = np.unique(y, return_counts=True)
    report.facts.append(
        f"{len(classes)} classes have samples: {counts.min()} to {counts.max()} each, "
        f"{np.median(counts):g} in the middle."
    )
    single = classes[counts < 2]
    if single.size:
        report.warnings.append(f"There is only one sample of {listed(single)}.")
    if len(classes) < 2:
        report.problems.append(
            f"At least two classes must have samples; there is {listed(classes)}. Add others."
        )


def compare_classes(
    classes: np.ndarray,
    known: np.ndarray,
    features: str,
    prototypes: str,
    report: Report,
    *,
    held_out: np.ndarray | None = None,
    header: Sequence[str] = (),
) -> None:
    """Report which classes are seen, unseen, known by prototype only, and without a prototype.

    Parameters
    ----------
    classes : ndarray of str
        Classes with samples.
    known : ndarray of str
        Classes with a prototype.
    features, prototypes : str
        Names of the files.
    report : Report
    held_out : ndarray of str, default=None
        Classes of which a column `split` marks all samples `test`; None where there is none.
    header : sequence of str
        Names of the columns of the prototypes.
    """
    report.problems.extend(without_prototype(classes, known, features, prototypes, header))
    _describe_spellings(classes, features, report)
    alone = np.setdiff1d(known, classes)
    fact = f"{len(classes)} classes are seen"
    if held_out is not None:
        fact = f"{len(classes) - len(held_out)} classes are seen"
        unseen = f": {listed(held_out)}" if held_out.size else ""
        fact += f" and {len(held_out)} unseen by the column `split`{unseen}"
    fact += f"; {len(alone)} are known by prototype only"
    if alone.size:
        fact += f": {listed(alone)}"
    elif held_out is None:
        fact += "; use `unseen` to hold some out"
    report.facts.append(f"{fact}.")


def without_prototype(
    classes: np.ndarray,
    known: np.ndarray,
    features: str,
    prototypes: str,
    header: Sequence[str] = (),
) -> list[str]:
    """Say which classes have samples and no prototype, with the spelling that may be meant."""
    missing = np.setdiff1d(classes, known)
    if missing.size and set(classes.tolist()) <= set(header):
        return [
            f"Prototypes must be rows; {prototypes} looks transposed, with the classes "
            f"{listed(classes, 3)} as columns. Save it with a class a row (df.T in pandas)."
        ]
    if len(missing) == len(classes) > 1:
        return [
            f"Both files must use the same labels; {features} has {listed(classes, 3)} and "
            f"{prototypes} has {listed(known, 3)}, no label in common. Write one like the other."
        ]
    plain = {_plain(label.replace("_", " ")): label for label in known.tolist()}
    lines = []
    for label in missing[:MOST].tolist():
        near = difflib.get_close_matches(_plain(label.replace("_", " ")), plain, n=1, cutoff=0.75)
        remedy = f"Did you mean {plain[near[0]]!r}?" if near else "Add it, or drop its samples."
        lines.append(
            f"Every class needs a prototype; {label!r} of {features} has none in {prototypes}. "
            f"{remedy}"
        )
    return capped(lines, "classes without a prototype", len(missing))


def _blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield some rows at a time, after the number of the first."""
    step = max(1, _BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        yield start, np.ascontiguousarray(X[start : start + step])


def _describe_repeats(X: np.ndarray, y: np.ndarray | None, file: str, report: Report) -> None:
    first_of: dict[bytes, int] = {}
    again = conflicts = 0
    for start, block in _blocks(X):
        for row, values in enumerate(block, start=start):
            digest = hashlib.blake2b(values.tobytes(), digest_size=16).digest()
            other = first_of.setdefault(digest, row)
            again += other != row
            conflicts += y is not None and y[other] != y[row]
    if again:
        labeled = f", {conflicts} of them with another label" if conflicts else ""
        report.warnings.append(
            f"{again} rows of {file} repeat an earlier row{labeled}. Check for copies."
        )


def _describe_scale(lengths: np.ndarray, ranges: np.ndarray, file: str, report: Report) -> None:
    if np.allclose(lengths, 1, atol=1e-3):
        report.facts.append(f"Rows of {file} have length 1.")
    else:
        report.facts.append(
            f"Rows of {file} have lengths {lengths.min():.3g} to {lengths.max():.3g}. Put "
            "FeatureNormalizer before the classifier where lengths carry no meaning."
        )
    if ranges.size and ranges.max() > 1000 * ranges.min():
        report.warnings.append(
            f"Features in {file} differ in scale: their ranges go from {ranges.min():.3g} to "
            f"{ranges.max():.3g}, and the largest will decide. Put StandardScaler before the "
            "classifier."
        )


def _alike_pairs(units: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows that point the same way; zero rows are alike."""
    zero = np.linalg.norm(units, axis=1) == 0
    step = max(1, _BLOCK // len(units))
    for start in range(0, len(units), step):
        alike = units[start : start + step] @ units.T > _ALIKE
        alike |= zero[start : start + step, None] & zero
        for one, other in np.argwhere(alike):
            if start + one < other:
                yield start + int(one), int(other)


def _describe_spellings(labels: np.ndarray, file: str, report: Report) -> None:
    """Point out labels that differ by case and spaces alone."""
    groups: dict[str, list[str]] = {}
    for label in labels.tolist():
        groups.setdefault(_plain(label), []).append(label)
    lines = [
        f"The labels {listed(np.array(group))} of {file} differ in case or spaces alone."
        for group in groups.values()
        if len(group) > 1
    ]
    report.warnings.extend(capped(lines, "groups of such labels"))


def _plain(label: str) -> str:
    return " ".join(label.casefold().split())
