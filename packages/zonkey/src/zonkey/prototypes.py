"""Class prototypes: one semantic vector per class label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from .arrays import is_device_array, library_of, require_values, to_numpy
from .hashing import checksum
from .labels import as_labels, format_labels, format_value, require_same_kind
from .tree import Tree

Label: TypeAlias = Any
_SMALLEST, _LARGEST = 1e-75, 1e75  # products of four numbers neither overflow nor vanish


class Prototypes:
    """Semantic vectors of a set of classes, in sorted order of their labels.

    Immutable: methods that change something return a new object.

    Parameters
    ----------
    labels : array-like of shape (m,)
        Class labels, all strings or all numbers, each once.
    matrix : array-like of shape (m, k)
        One semantic vector per row: attributes, a word vector or a text embedding.
    dimension_names : list of str, default=None
        Names of the k dimensions, such as attributes, for explanations.
    parents : mapping or Tree, default=None
        The parent of each class in a tree, ``{label: parent}``; None, or a class that is left out,
        is at the top. Parents may have a row of their own or not. Read by `AnyShotClassifier`,
        whose candidates are the classes without children.

    See Also
    --------
    Moments : Sufficient statistics of labeled samples for given prototypes.
    ZeroShotClassifier : Takes prototypes as its first parameter.

    Examples
    --------
    >>> from zonkey import Prototypes
    >>> prototypes = Prototypes(["zebra", "horse"], [[1.0, 1.0], [0.0, 1.0]])
    >>> prototypes.labels.tolist(), prototypes["zebra"].tolist()
    (['horse', 'zebra'], [1.0, 1.0])
    """

    def __init__(
        self, labels: Any, matrix: Any, dimension_names: Any = None, parents: Any = None
    ) -> None:
        labels = as_labels(labels)
        matrix = _as_matrix(matrix)
        self._dimension_names = _as_names(dimension_names, matrix.shape[1])
        if len(labels) != len(matrix):
            raise ValueError(
                f"Prototypes need one row per label; got {len(labels)} labels and {len(matrix)} "
                "rows. Check that rows are classes (transpose the matrix if columns are)."
            )
        order = np.argsort(labels, kind="stable")
        self._labels = labels[order]
        self._matrix = matrix[order]
        repeated = self._labels[1:][self._labels[1:] == self._labels[:-1]]
        if repeated.size:
            raise ValueError(
                f"Prototype labels must be unique; {format_labels(np.unique(repeated))} came more "
                "than once. Keep one row per class, for example the mean of the repeated rows."
            )
        self._labels.flags.writeable = False
        self._matrix.flags.writeable = False
        self._tree = None if parents is None else _as_tree(parents, self._labels)

    def __zonkey_parts__(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("labels", "matrix", "dimension_names")}
        return parts if self._tree is None else {**parts, "parents": self._tree}

    @classmethod
    def coerce(cls, prototypes: Any) -> Prototypes:
        """Convert to `Prototypes`.

        Parameters
        ----------
        prototypes : mapping, DataFrame or Prototypes
            A mapping ``{label: vector}``, a pandas DataFrame indexed by label, a polars DataFrame
            with the labels in its first column, or prototypes, which are returned unchanged.

        Returns
        -------
        Prototypes
            The same classes and vectors.
        """
        if isinstance(prototypes, Prototypes):
            return prototypes
        if isinstance(prototypes, Mapping):
            # As objects: NumPy would turn tuples into rows, and a mix into strings.
            keys = np.fromiter(prototypes, dtype=object, count=len(prototypes))
            return cls(keys, _stack_vectors(prototypes))
        if _is_polars_frame(prototypes):
            return cls(*_polars_parts(prototypes))
        if cls.is_labeled(prototypes):
            names = [*getattr(prototypes, "columns", ())]
            usable = len({*names}) == len(names) and all(isinstance(name, str) for name in names)
            parts = np.asarray(prototypes.index), _frame_matrix(prototypes)
            return cls(*parts, names if usable and names else None)
        kind = f"{library_of(prototypes)}.{type(prototypes).__name__}".removeprefix("builtins.")
        raise TypeError(
            "Prototypes must be a mapping {label: vector}, a pandas DataFrame indexed by label, a "
            "polars DataFrame with the labels in its first column, or "
            f"zonkey.Prototypes(labels, matrix); got {kind}. Say which entries are labels: "
            "Prototypes(labels, matrix)."
        )

    @staticmethod
    def is_labeled(prototypes: Any) -> bool:
        """Whether an object has labels, so that `coerce` accepts it.

        Parameters
        ----------
        prototypes : object
            Any object. A bare matrix has no labels.

        Returns
        -------
        bool
            Whether it is a mapping, a DataFrame or `Prototypes`.
        """
        # A list also has an attribute `index`; only a DataFrame has both.
        is_frame = hasattr(prototypes, "index") and hasattr(prototypes, "to_numpy")
        is_mapping = isinstance(prototypes, Prototypes | Mapping)
        return is_mapping or is_frame or _is_polars_frame(prototypes)

    @classmethod
    def one_hot(cls, labels: Any) -> Prototypes:
        """Return prototypes in which every class has its own axis.

        Parameters
        ----------
        labels : array-like
            Labels; repetitions are ignored.

        Returns
        -------
        Prototypes
            The identity matrix, one row per distinct label.
        """
        labels = np.unique(as_labels(labels))
        return cls(labels, np.eye(len(labels)))

    @property
    def labels(self) -> np.ndarray:
        """Labels in sorted order, shape (m,)."""
        return self._labels

    @property
    def matrix(self) -> np.ndarray:
        """Semantic vectors as rows, in the order of `labels`, shape (m, k)."""
        return self._matrix

    @property
    def dimension_names(self) -> tuple[str, ...] | None:
        """Names of the dimensions, None if they have none."""
        return self._dimension_names

    @property
    def tree(self) -> Tree | None:
        """The tree of the classes, None if they have none."""
        return self._tree

    @property
    def n_dimensions(self) -> int:
        """Dimension k of the semantic space."""
        return self._matrix.shape[1]

    def positions(self, labels: Any) -> np.ndarray:
        """Return the row of each label.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Labels, each of which must have a prototype.

        Returns
        -------
        ndarray of shape (n,)
            Positions in `labels` and `matrix`.
        """
        labels = as_labels(labels)
        require_same_kind(labels=labels, prototypes=self._labels)
        found = np.searchsorted(self._labels, labels)
        found = np.minimum(found, len(self._labels) - 1)
        missing = self._labels[found] != labels
        if missing.any():
            raise ValueError(
                f"No prototype for the class {format_labels(np.unique(labels[missing]))}; every "
                f"label needs one of the {len(self)} known: {format_labels(self._labels)}. Add the "
                "missing rows to the prototypes or drop those samples."
            )
        return found

    def subset(self, labels: Any) -> Prototypes:
        """Return the prototypes of some labels.

        Parameters
        ----------
        labels : array-like
            Labels to keep.

        Returns
        -------
        Prototypes
            The prototypes of these labels.
        """
        rows = np.unique(self.positions(labels))
        tree = None if self._tree is None else self._tree.restrict(self._labels[rows])
        return Prototypes(self._labels[rows], self._matrix[rows], self._dimension_names, tree)

    def extended(self, other: Any) -> Prototypes:
        """Add prototypes of new classes.

        Parameters
        ----------
        other : mapping, DataFrame or Prototypes
            Prototypes of classes that are not known yet.

        Returns
        -------
        Prototypes
            The prototypes of both.
        """
        other = Prototypes.coerce(other)
        if other.n_dimensions != self.n_dimensions:
            raise ValueError(
                f"New prototypes must have the {self.n_dimensions} dimensions of the known ones; "
                f"got {other.n_dimensions}. Use the same semantic space."
            )
        require_same_kind(labels=other.labels, prototypes=self._labels)
        known = np.intersect1d(self._labels, other.labels)
        if known.size:
            raise ValueError(
                f"The class {format_labels(known)} has a prototype already. "
                "Give new classes new labels, or fit again with the changed prototype."
            )
        trees = [tree for tree in (self._tree, other.tree) if tree is not None]
        return Prototypes(
            np.concatenate([self._labels, other.labels]),
            np.concatenate([self._matrix, other.matrix]),
            self.common_names(other),
            trees[0].extend(trees[-1]) if trees else None,
        )

    def with_parents(self, parents: Any) -> Prototypes:
        """Return the same classes in another tree.

        Parameters
        ----------
        parents : mapping, Tree or None
            As the parameter `parents`.

        Returns
        -------
        Prototypes
            Prototypes with this tree.
        """
        return Prototypes(self._labels, self._matrix, self._dimension_names, parents)

    def at_nodes(self) -> Prototypes:
        """Return prototypes of all nodes of the tree; without a tree, the same.

        Returns
        -------
        Prototypes
            A node without a row of its own has the mean of those of its children.
        """
        tree = self._tree
        if tree is None:
            return self
        rows = tree.positions(self._labels)
        matrix = np.zeros((len(tree), self.n_dimensions), self._matrix.dtype)
        matrix[rows] = self._matrix
        missing = np.setdiff1d(np.arange(len(tree)), rows)
        for row in missing[np.argsort(-tree.depths[missing], kind="stable")]:  # from below
            matrix[row] = matrix[tree.positions(tree.children(tree.nodes[row]))].mean(axis=0)
        return Prototypes(tree.nodes, matrix, self._dimension_names, tree)

    def at_leaves(self) -> Prototypes:
        """Return the prototypes of the classes without children; without a tree, the same.

        Returns
        -------
        Prototypes
            The candidates of a model.
        """
        return self if self._tree is None else self.subset(self._tree.leaves)

    def common_names(self, other: Prototypes) -> tuple[str, ...] | None:
        """Return the names of the dimensions of both; different names are refused.

        Parameters
        ----------
        other : Prototypes
            Prototypes of as many dimensions.

        Returns
        -------
        tuple of str or None
            The names; None if neither has any.
        """
        own, theirs = self.dimension_names, other.dimension_names
        if own is None or theirs is None or own == theirs:
            return own or theirs
        i = next(i for i, pair in enumerate(zip(own, theirs, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            "New prototypes must have the dimensions of the known ones, in the same order; number "
            f"{i} is {theirs[i]!r} instead of {own[i]!r}. Reorder the columns."
        )

    def normalized(self) -> Prototypes:
        """Scale rows to unit length; zero rows stay zero.

        Returns
        -------
        Prototypes
            The scaled prototypes.
        """
        norms = np.linalg.norm(self._matrix, axis=1, keepdims=True)
        matrix = self._matrix / np.where(norms == 0, 1, norms)
        return Prototypes(self._labels, matrix, self._dimension_names, self._tree)

    def __getitem__(self, label: Label) -> np.ndarray:
        return self._matrix[self.positions([label])[0]]

    def __contains__(self, label: Label) -> bool:
        try:
            self.positions([label])
        except (TypeError, ValueError):
            return False
        return True

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels.tolist())

    def __len__(self) -> int:
        return len(self._labels)

    def fingerprint(self) -> str:
        """Return a hash of labels and vectors.

        Returns
        -------
        str
            The same for equal prototypes.
        """
        labels = json.dumps(self.labels.tolist())
        if self._tree is not None:
            labels += json.dumps([*self._tree.parents.items()])
        return hashlib.sha256(
            f"{labels} {checksum(np.ascontiguousarray(self.matrix))}".encode()
        ).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prototypes):
            return NotImplemented
        same = np.array_equal(self._labels, other._labels) and self._tree == other._tree
        return same and np.array_equal(self._matrix, other._matrix)

    __hash__ = None  # type: ignore[assignment]  # compared by value, like arrays

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles go through __init__: a copied array would be writable.
        return type(self), (self._labels, self._matrix, self._dimension_names, self._tree)

    def __repr__(self) -> str:
        tree = "" if self._tree is None else f", {self._tree.n_levels} levels"
        return f"Prototypes({len(self)} classes x {self.n_dimensions}{tree})"


def _stack_vectors(mapping: Mapping[Any, Any]) -> np.ndarray:
    vectors = {label: np.atleast_1d(_as_numbers(vector)) for label, vector in mapping.items()}
    shapes = {vector.shape for vector in vectors.values()}
    if len(shapes) > 1:
        first = next(iter(vectors.values())).shape
        odd = next(label for label, vector in vectors.items() if vector.shape != first)
        raise ValueError(
            f"Prototypes must all have the same dimension; {format_value(odd)} has shape "
            f"{vectors[odd].shape} and the first has {first}. Rebuild that vector in the same "
            "semantic space."
        )
    return np.stack(list(vectors.values())) if vectors else np.empty((0, 0))


def _frame_matrix(frame: Any) -> np.ndarray:
    try:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "Prototypes must be numbers, with the labels as the index of the DataFrame; some "
            f"column is not numeric ({error}). If it holds the labels, use frame.set_index(column)."
        ) from error


def _is_polars_frame(prototypes: Any) -> bool:
    # By its methods, so that polars need not be installed. A LazyFrame has no values yet.
    return hasattr(prototypes, "get_columns") and hasattr(prototypes, "to_numpy")


def _polars_parts(frame: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the first column, which holds the labels, the matrix of the others, their names."""
    every: list[Any] = frame.get_columns()
    columns = every[1:]
    if not columns:
        raise ValueError(
            "A polars DataFrame of prototypes must have the labels in its first column and numbers "
            f"in at least one other; got {frame.width} columns. Add the columns of the vectors."
        )
    texts = [column.name for column in columns if not column.dtype.is_numeric()]
    if texts:
        raise TypeError(
            "Prototypes must be numbers, with the labels in the first column of a polars "
            f"DataFrame; the column {format_labels(np.array(texts))} is not numeric. Move the "
            "labels to the front, and convert or drop the others."
        )
    # Missing entries become NaN, which is refused with the number of the row.
    vectors = [column.to_numpy().astype(np.float64) for column in columns]
    names = [column.name for column in columns]
    return np.asarray(every[0]), np.stack(vectors, axis=1), names


def _as_numbers(values: Any) -> np.ndarray:
    """Return values as a new array; a tensor may be on a device or have a gradient."""
    require_values(values, "Prototypes")
    return np.array(to_numpy(values) if is_device_array(values) else values)


def _as_matrix(matrix: Any) -> np.ndarray:
    matrix = _as_numbers(matrix)
    if matrix.dtype.kind not in "iubf":
        raise TypeError(f"Prototypes must be numbers; got dtype {matrix.dtype}. Convert to float.")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"Prototypes must form a nonempty matrix (classes x dimensions); got shape "
            f"{matrix.shape}. Pass at least one vector of at least one number."
        )
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Prototypes must be finite; {int(bad.sum())} of {len(bad)} rows contain NaN or "
            f"infinity (the first is row {int(np.argmax(bad))}). Fill or drop those classes."
        )
    sizes = np.abs(matrix).max(axis=1).astype(np.float64)
    bad = (sizes > _LARGEST) | ((sizes < _SMALLEST) & (sizes > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"Prototypes must have values of a usual size, from {_SMALLEST} to {_LARGEST}, or be "
            f"zero; the largest of row {row} is {sizes[row]:.3g}. Scale all of them by one number."
        )
    return matrix


def _as_tree(parents: Any, labels: np.ndarray) -> Tree:
    """Return the tree of these classes; those without a parent are at the top."""
    tree = Tree(parents)
    require_same_kind(labels=labels, nodes=tree.nodes)
    unknown = np.setdiff1d(tree.leaves, labels)
    if unknown.size:
        raise ValueError(
            f"Classes with a parent must have a prototype, or children; {format_labels(unknown)} "
            f"has neither. The {len(labels)} classes are {format_labels(labels)}. Correct the "
            "label, or add its prototype."
        )
    others = np.setdiff1d(labels, tree.nodes)
    return tree.extend(Tree(dict.fromkeys(others.tolist()))) if others.size else tree


def _as_names(names: Any, n: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = [names] if isinstance(names, str) or np.ndim(names) != 1 else [*names]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"`dimension_names` must be a list of strings; got {names!r:.60}. Pass one for each "
            "column, or None."
        )
    if len({*names}) != n or len(names) != n:
        raise ValueError(
            f"`dimension_names` must have one name per dimension, {n}, all different; got "
            f"{len(names)}, {len({*names})} of them different. Pass one for each column, or None."
        )
    return tuple(map(str, names))
