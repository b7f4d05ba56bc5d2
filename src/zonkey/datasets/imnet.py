"""ImageNet for zero-shot learning: seen classes of ILSVRC2012, unseen ones of ILSVRC2010."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.labels import listed
from ..core.prototypes import Prototypes
from .dataset import Dataset
from .errors import DataError
from .lazy import LazyMatrix
from .matlab import MatFile, describe_mat, read_mat, require_variable, whole_numbers
from .split import Split

CITATION = (
    "E. Kodirov, T. Xiang, S. Gong: Semantic Autoencoder for Zero-Shot Learning. CVPR 2017; "
    "O. Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge. IJCV 2015"
)
LICENSE = "research use; see ImageNet's terms of access"
PUBLISHED = "1000 seen and 360 unseen classes"

_NAMES = {
    "X_tr": ("X_train",),
    "X_te": ("X_test",),
    "Y_tr": ("tr_labels", "train_labels", "tr_labels_id", "Y"),
    "Y_te": ("te_labels", "test_labels", "te_labels_id"),
    "S_te_pro": (),
    "X_te_cl_id": ("te_cl_id", "testclasses_id"),
    "X_tr_cl_id": ("tr_cl_id", "trainclasses_id"),
    "S_tr_pro": ("w2v",),
    "S_tr": ("S_tr_pro", "w2v"),
}
_OPTIONAL = ("X_tr_cl_id", "S_tr_pro")
_COMPARED_AT_A_TIME = 1 << 12  # rows

_Place = tuple[MatFile, str]  # a variable: its file and its name there
_Places = dict[str, _Place]


def load_imnet(folder: str | Path) -> Dataset:
    """Load features and word vectors of ImageNet in the layout of SAE's release ("ImNet-2").

    Parameters
    ----------
    folder : str or Path
        Folder whose .mat files together hold these variables (other names in brackets); or one
        such file.

        - `X_tr` [`X_train`] and `X_te` [`X_test`]: features, one image a row.
        - `Y_tr` [`tr_labels`, `train_labels`, `tr_labels_id`, `Y`]: labels of the rows of `X_tr`,
          or a matrix with a column a class and a single 1 in each row.
        - `Y_te` [`te_labels`, `test_labels`, `te_labels_id`]: labels of the rows of `X_te`.
        - `S_te_pro`: word vectors of the unseen classes, one a row; `X_te_cl_id` [`te_cl_id`,
          `testclasses_id`]: their labels.
        - `S_tr`: the word vector of each row of `X_tr`, the same for all rows of a class; or
          `S_tr_pro` [`w2v`]: one row a class, with labels `X_tr_cl_id` [`tr_cl_id`,
          `trainclasses_id`] unless labels count its rows from 1.

    Returns
    -------
    Dataset
        Labels are numbers or names, as in the files. Where columns of `Y` stand for classes without
        `X_tr_cl_id`, their numbers are not those of unseen classes: labels are then "seen 0001",
        and "unseen 0042" for 42 in `X_te_cl_id`.
    """
    places = _find(Path(folder))
    y_train, rows, columns_only = _training_labels(places)
    unseen, y_test = _labels(places["X_te_cl_id"]), _labels(places["Y_te"])
    if columns_only and "U" not in (unseen.dtype.kind, y_test.dtype.kind):
        unseen, y_test = _numbered("unseen", unseen), _numbered("unseen", y_test)
    seen, n, m = np.unique(y_train), len(y_train), len(y_test)
    if seen.dtype.kind == unseen.dtype.kind and np.isin(unseen, seen).any():
        raise DataError(
            f"{_written(places['X_te_cl_id'])} must be classes without training samples; "
            f"{listed(np.intersect1d(unseen, seen))} are in {_written(places['Y_tr'])} too. Give "
            "classes of both sides different numbers."
        )
    try:
        new = Prototypes(unseen, _read(places["S_te_pro"]))
        prototypes = _seen_prototypes(places, y_train, rows).extended(new)
    except ValueError as error:
        raise DataError(f"Word vectors of {folder} cannot be used. {error}") from None
    sizes = f"{len(seen)} seen and {len(unseen)} unseen classes"
    match = "match" if sizes == PUBLISHED else f"differ: {sizes}, published {PUBLISHED}"
    return Dataset(
        "ImNet",
        _features(places, n, m),
        np.concatenate([y_train, y_test]),
        {"word_vectors": prototypes},
        Split(train=np.arange(n), test_unseen=np.arange(n, n + m), name="ILSVRC2012/2010"),
        license=LICENSE,
        citation=CITATION,
        about={"features_file": places["X_tr"][0].path.name, "published_sizes": match},
    )


def holds_imnet(paths: Sequence[Path]) -> bool:
    """Say whether one of the files has features as they are called in this layout."""
    known = {name for key in ("X_tr", "X_te") for name in (key, *_NAMES[key])}
    return any(known & describe_mat(path).variables.keys() for path in paths)


def _find(folder: Path) -> _Places:
    """Return where each variable is, by its first name."""
    if not folder.exists():
        raise DataError(f"{folder} does not exist. Pass the folder of the release.")
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.mat"))
    if not paths:
        raise DataError(
            f"{folder} must hold MATLAB files; there is no .mat file in it. Pass the folder of the "
            "release."
        )
    files = [describe_mat(path) for path in paths]
    known = sorted({key for file in files for key in file.variables})
    places: _Places = {}
    for name, others in _NAMES.items():
        found = [(file, key) for key in (name, *others) for file in files if key in file.variables]
        if found:
            places[name] = found[0]
        elif name not in _OPTIONAL:
            also = "".join(f" or `{other}`" for other in _NAMES[name])
            raise DataError(
                f"{folder} must hold MATLAB files with `{name}`{also}; they hold "
                f"{', '.join(known) or 'no variable at all'}. Save it under such a name, or pass "
                "the folder of the release."
            )
    return places


def _written(place: _Place) -> str:
    return f"`{place[1]}` of {place[0].path}"


def _read(place: _Place) -> np.ndarray:
    require_variable(*place, numeric=True)
    return read_mat(place[0].path, [place[1]])[place[1]]


def _labels(place: _Place) -> np.ndarray:
    labels = read_mat(place[0].path, [place[1]])[place[1]]
    if labels.dtype.kind == "U":
        return np.char.strip(labels)
    return whole_numbers(labels, _written(place))


def _numbered(side: str, labels: np.ndarray) -> np.ndarray:
    return np.array([f"{side} {label:04d}" for label in labels.tolist()], dtype=str)


def _training_labels(places: _Places) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return labels of samples and of rows of `S_tr_pro`, and whether they are columns of `Y`."""
    place = places["Y_tr"]
    rows = _labels(places["X_tr_cl_id"]) if "X_tr_cl_id" in places else np.array([], dtype=np.int64)
    variable = require_variable(*place)
    if variable.dtype is None or min(variable.shape) == 1:
        return _labels(place), rows, False
    matrix = _read(place)
    if not ((matrix != 0).sum(axis=1) == 1).all() or rows.size not in (0, matrix.shape[1]):
        raise DataError(
            f"{_written(place)} must have a column a class and a single 1 in each row; it has not. "
            "Save labels, one a row, in its place."
        )
    columns = rows if rows.size else _numbered("seen", np.arange(1, matrix.shape[1] + 1))
    return columns[matrix.argmax(axis=1)], columns, not rows.size


def _seen_prototypes(places: _Places, y_train: np.ndarray, rows: np.ndarray) -> Prototypes:
    if "S_tr_pro" in places:
        matrix = _read(places["S_tr_pro"])
        labels = rows if rows.size else np.arange(1, len(matrix) + 1)
        return Prototypes(labels, matrix).subset(y_train)
    matrix = _read(places["S_tr"])
    if len(matrix) != len(y_train):
        raise DataError(
            f"{_written(places['S_tr'])} must have one row for each of the {len(y_train)} training "
            f"labels; its shape is {matrix.shape}. Transpose it if columns are samples."
        )
    seen, first, number = np.unique(y_train, return_index=True, return_inverse=True)
    for start in range(0, len(matrix), _COMPARED_AT_A_TIME):
        block = slice(start, start + _COMPARED_AT_A_TIME)
        differs = (matrix[block] != matrix[first[number[block]]]).any(axis=1)
        if differs.any():
            raise DataError(
                f"{_written(places['S_tr'])} must have equal rows within a class; those of class "
                f"{seen[number[block][differs]][0]} differ. Save one row a class as `S_tr_pro`."
            )
    return Prototypes(seen, matrix[first])


def _features(places: _Places, n: int, m: int) -> LazyMatrix:
    train, test = places["X_tr"], places["X_te"]
    variables = [require_variable(*place, numeric=True) for place in (train, test)]
    d = variables[0].shape[-1]
    for place, variable, rows in zip((train, test), variables, (n, m), strict=True):
        if variable.shape != (rows, d):
            turned = f"It is transposed: save {place[1]}' in its place."
            raise DataError(
                f"{_written(place)} must have one row for each of the {rows} labels, and columns "
                f"like `{train[1]}`; its shape is {variable.shape}. "
                f"{turned if variable.shape[-1] == rows else 'Use files of one release.'}"
            )
    dtype = np.result_type(*(variable.dtype for variable in variables))

    def read() -> np.ndarray:
        values = np.empty((n + m, d), dtype=dtype)
        values[:n] = _read(train)
        values[n:] = _read(test)
        return values

    return LazyMatrix((n + m, d), dtype, read, f"{_written(train)} with `{test[1]}` below it")
