"""Read which labels apply to which samples, in every form that people keep them in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays import is_device_array, to_numpy
from ..errors import DataError
from ..labels import as_labels, format_labels, format_value, require_same_kind
from ..prototypes import Prototypes

SEPARATOR = "|"


@dataclass(frozen=True, eq=False)
class Marks:
    """Which of the labels, sorted, apply to each sample: sparse matrices of ones (n x m)."""

    labels: np.ndarray
    matrix: Any  # csr_array, whose type does not tell its shape
    unknown: Any = None  # pairs of which nobody knows

    def take(self, rows: np.ndarray) -> Marks:
        """Return the marks of some samples."""
        unknown = None if self.unknown is None else self.unknown[rows]
        return Marks(self.labels, self.matrix[rows], unknown)

    def narrow(self, columns: np.ndarray) -> Marks:
        """Return the marks of some labels, by their positions."""
        unknown = None if self.unknown is None else self.unknown[:, columns].tocsr()
        return Marks(self.labels[columns], self.matrix[:, columns].tocsr(), unknown)

    def known(self) -> np.ndarray | None:
        """Return whether each pair is known, as a dense matrix; None if all are."""
        return None if self.unknown is None else self.unknown.toarray() == 0

    def dense(self) -> np.ndarray:
        """Return an indicator matrix."""
        return self.matrix.toarray()

    def truth(self) -> np.ndarray:
        """Return an indicator matrix of integers, -1 for unknown pairs."""
        found, known = self.dense().astype(int), self.known()
        return found if known is None else np.where(known, found, -1)

    def list_used(self) -> np.ndarray:
        """Return the labels that apply to some sample."""
        return self.labels[np.asarray(self.matrix.sum(axis=0)).ravel() > 0]

    def widen(self, labels: np.ndarray) -> Marks:
        """Return the same marks among these labels, sorted; others are left out."""
        if np.array_equal(labels, self.labels):
            return self
        found = np.searchsorted(labels, self.labels)
        fits = found < len(labels)
        fits[fits] = labels[found[fits]] == self.labels[fits]
        kept = self.narrow(np.flatnonzero(fits))
        shape = kept.matrix.shape[0], len(labels)

        def spread(M: Any) -> Any:
            parts = M.data, found[fits][M.indices], M.indptr
            return sparse.csr_array(parts, shape=shape)

        unknown = None if kept.unknown is None else spread(kept.unknown)
        return replace(kept, labels=labels, matrix=spread(kept.matrix), unknown=unknown)


def read_marks(Y: Any, n: int | None = None, known: np.ndarray | None = None) -> Marks:
    """Return the marks of Y.

    Y is an indicator matrix (dense, sparse or a DataFrame, whose columns are then the labels), a
    list of sets, lists or tuples of labels, or one text `a|b` per sample. NaN and -1 of an
    indicator matrix are unknown. The labels of a matrix without names are all of `known` if these
    are as many, else its column numbers.
    """
    if Y is None:
        raise ValueError(
            "MultiLabelClassifier requires y to be passed, but the target y is None; it holds the "
            "labels of each sample. Pass fit(X, y)."
        )
    is_matrix = sparse.issparse(Y) or _is_table(Y)
    marks = _from_matrix(Y, known) if is_matrix else _from_lists(Y)
    if n is not None and marks.matrix.shape[0] != n:
        raise ValueError(
            f"y must have one row for each of the {n} samples; got {marks.matrix.shape[0]}. Pass "
            "X and y of the same samples."
        )
    return marks


def join_marks(names: Any) -> str:
    """Return labels as one text, separated by `|`."""
    return SEPARATOR.join(map(str, names))


def check_separable(labels: np.ndarray, what: str) -> None:
    """Refuse labels that cannot be told apart in a text `a|b`."""
    for label in labels.tolist():
        if SEPARATOR in str(label):
            raise DataError(
                f"{what} must not contain {SEPARATOR!r}, which stands between the labels of a "
                f"sample; got {format_value(label)}. Rename it."
            )


def split_marks(text: str) -> tuple[str, ...]:
    """Return the labels of a text `a|b`; empty text has none."""
    return tuple(part.strip() for part in text.split(SEPARATOR) if part.strip())


def _is_table(Y: Any) -> bool:
    if hasattr(Y, "columns"):
        return True
    if is_device_array(Y) or isinstance(Y, np.ndarray):
        return Y.ndim != 1
    if not isinstance(Y, list | tuple) or not len(Y):
        return not isinstance(Y, list | tuple | Iterable)
    # Rows of zeros and ones, as long as each other, are a matrix and not lists of labels.
    rows = [row for row in Y if isinstance(row, list | tuple | np.ndarray)]
    if len(rows) < len(Y) or len({len(row) for row in rows}) != 1 or not len(rows[0]):
        return False
    return all(_is_mark(v) for row in rows for v in row)


def _is_mark(value: Any) -> bool:
    """Whether a value may be an entry of an indicator matrix: 0, 1, or -1, NaN and None."""
    if isinstance(value, float | np.floating) and np.isnan(value):
        return True
    return value is None or (not isinstance(value, str) and value in (0, 1, -1))


def _from_matrix(Y: Any, known: np.ndarray | None) -> Marks:
    names = None
    if hasattr(Y, "columns"):
        names = as_labels(list(Y.columns), "Columns of y")
        # Missing entries of whole numbers have a type of their own in pandas.
        Y = Y.to_numpy(na_value=np.nan) if hasattr(Y, "iloc") else Y.to_numpy()
    elif is_device_array(Y):
        Y = to_numpy(Y)
    given: Any = Y if sparse.issparse(Y) else _check_dense(np.asarray(Y))
    labels = _name_columns(names, known, given.shape[1])
    matrix: Any = sparse.csr_array(given, dtype=np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    is_unknown = np.isnan(matrix.data) | (matrix.data == -1)
    wrong = ~is_unknown & (matrix.data != 1)
    if wrong.any():
        raise ValueError(
            "Unknown label type: y must be an indicator matrix of 0 and 1, or NaN or -1 where "
            f"nobody knows; got {format_value(matrix.data[wrong][0])}. Pass a list of sets of "
            "labels, or one text a|b per sample."
        )
    if is_unknown.all() and len(is_unknown) == matrix.shape[0] * matrix.shape[1]:
        raise ValueError(
            "y must tell of some samples whether a label applies; got NaN or -1 only. Pass 0 and 1."
        )
    order = np.argsort(labels, kind="stable")
    if (labels[order][1:] == labels[order][:-1]).any():
        raise ValueError("Columns of y must have different names; some are equal. Rename them.")
    marked = _select(matrix, ~is_unknown)[:, order].tocsr()
    unknown = _select(matrix, is_unknown)[:, order].tocsr() if is_unknown.any() else None
    return Marks(labels[order], marked, unknown)


def _check_dense(matrix: np.ndarray) -> np.ndarray:
    if matrix.ndim != 2:
        raise ValueError(
            f"y must be an indicator matrix of samples and labels; got shape {matrix.shape}. Pass "
            "one row per sample."
        )
    if matrix.dtype == object:
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "Unknown label type: y must be an indicator matrix of numbers 0 and 1; got other "
                "values. Pass a list of sets of labels instead."
            ) from None
    if matrix.dtype.kind not in "iufb":
        raise ValueError(
            f"Unknown label type: y must be an indicator matrix of 0 and 1; got {matrix.dtype}. "
            "Pass a list of sets of labels, or one text a|b per sample."
        )
    if np.isinf(matrix.astype(np.float64)).any():
        raise ValueError(
            "Input y contains infinity; it must be an indicator matrix. Pass 0, 1, or NaN where "
            "nobody knows."
        )
    return matrix.astype(np.float64)


def _name_columns(names: np.ndarray | None, known: np.ndarray | None, n: int) -> np.ndarray:
    if names is not None:
        return names
    if known is not None and len(known) == n:
        return known
    if known is not None and known.dtype.kind not in "iu":
        raise ValueError(
            f"Columns of y have no names, and prototypes of {len(known)} labels, such as "
            f"{format_value(known[0])}, do not tell them; got {n} columns. Pass a DataFrame whose "
            "columns are the labels, or lists of labels."
        )
    return np.arange(n)


def _select(matrix: Any, kept: np.ndarray) -> Any:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[kept]
    ones = np.ones(len(rows))
    return sparse.csr_array((ones, (rows, matrix.indices[kept])), shape=matrix.shape)


def _from_lists(Y: Any) -> Marks:
    convert = getattr(Y, "to_list", getattr(Y, "tolist", None))  # polars has the first only
    rows = list(Y) if convert is None else convert()
    if not len(rows):
        raise ValueError("y must have at least one row; got none. Pass the labels of each sample.")
    if any(isinstance(row, float) and math.isinf(row) for row in rows):
        raise ValueError("Input y contains infinity; it must hold labels. Pass sets of them.")
    lists = [_split_row(row, i) for i, row in enumerate(rows)]
    flat = [label for row in lists for label in row]
    if not flat:
        raise ValueError(
            f"y must mark at least one label; got {len(rows)} samples without any. Pass an "
            "indicator matrix if all labels are to be kept, or prototypes alone: fit()."
        )
    labels, columns = np.unique(as_labels(flat, "Labels of y"), return_inverse=True)
    of_sample = np.repeat(np.arange(len(rows)), [len(row) for row in lists])
    shape = len(rows), len(labels)
    matrix = sparse.csr_array((np.ones(len(flat)), (of_sample, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a label that is listed twice
    return Marks(labels, matrix)


def _split_row(row: Any, i: int) -> tuple[Any, ...]:
    """Return the labels of a sample."""
    if isinstance(row, str):
        return split_marks(row)
    if isinstance(row, Set | list | tuple | np.ndarray):
        return tuple(row)
    if row is None or (isinstance(row, float) and math.isnan(row)):
        raise ValueError(
            f"y must tell the labels of each sample; those of sample {i} are missing. Write empty "
            "text where none applies, and leave out samples whose labels nobody knows."
        )
    raise ValueError(
        "Unknown label type: y must be an indicator matrix, a list of sets of labels, or one text "
        f"a|b per sample; got {format_value(row)} for sample {i}. For one class per sample use "
        "AnyShotClassifier, or put it into a set: [{label} for label in y]."
    )


def check_names(labels: np.ndarray, given: Prototypes | None) -> np.ndarray:
    """Return all labels, those of prototypes too; refuse to mix text with numbers."""
    if given is None:
        return labels
    require_same_kind(labels=labels, prototypes=given.labels)
    if given.labels.dtype.kind != labels.dtype.kind:
        return np.unique(as_labels([*labels.tolist(), *given.labels.tolist()]))
    every = np.union1d(labels, given.labels)
    if not np.isin(labels, given.labels).any():
        raise ValueError(
            f"At least one label of y needs a prototype; got labels {format_labels(labels)} and "
            f"prototypes of {format_labels(given.labels)}. Use the same names in both."
        )
    return every
