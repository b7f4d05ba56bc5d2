"""ImageNet for zero-shot learning: seen classes of ILSVRC2012, unseen ones of ILSVRC2010."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, LazyMatrix, Split, as_data_error
from zonkey.prototypes import Prototypes

from .matlab import (
    MatFile,
    describe_mat,
    read_columns,
    read_into,
    read_numbers,
    read_whole_numbers,
    require_matrix,
)

_CITATION = (
    "E. Kodirov, T. Xiang, S. Gong: Semantic Autoencoder for Zero-Shot Learning. CVPR 2017; "
    "O. Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge. IJCV 2015"
)
_PUBLISHED = "1000 seen and 360 unseen classes"
_SHARE = 5  # of so many seen classes, one is for validation


def load_imnet(folder: str | Path) -> Dataset:
    """Load features and word vectors of ImageNet as released with SAE ("ImNet-2").

    Parameters
    ----------
    folder : str or Path
        The file of the release (`ImNet_2_demo_data.mat`), or the folder that holds it. The file
        has these variables:

        - `X_tr` and `X_te`: features, one image per row. They become float32.
        - `Y`: one column per seen class, with a single 1 in each row.
        - `S_tr`: the word vector of each row of `X_tr`, equal for all rows of a class.
        - `Y_te`: labels of the rows of `X_te`, whole numbers.
        - `S_te_pro`: word vectors of the unseen classes, one per row.
        - `X_te_cl_id`: labels of the rows of `S_te_pro`.

    Returns
    -------
    Dataset
        The data set. Labels are "seen 0001" for the first column of `Y`, and "unseen 0042" for 42
        in `X_te_cl_id`, because numbers of seen and unseen classes overlap. Features are read on
        first use. A fifth of the seen classes, drawn at random but always the same, are validation
        classes: the release names none.
    """
    file = _find(Path(folder))
    y_train = _number_labels("seen", _columns_of_ones(file) + 1)
    y_test = _number_labels("unseen", read_whole_numbers(file, "Y_te"))
    unseen = _number_labels("unseen", read_whole_numbers(file, "X_te_cl_id"))
    with as_data_error(f"Word vectors of {file.path} cannot be used. "):
        new = Prototypes(unseen, read_numbers(file, "S_te_pro"))
        prototypes = _seen_prototypes(file, y_train).extended(new)
    n, m = len(y_train), len(y_test)
    sizes = f"{len(np.unique(y_train))} seen and {len(unseen)} unseen classes"
    match = "match" if sizes == _PUBLISHED else f"differ: {sizes}, published {_PUBLISHED}"
    seen = np.unique(y_train)
    drawn = np.random.default_rng(0).permutation(seen)[: len(seen) // _SHARE]
    parts = {"train": np.arange(n), "test_unseen": np.arange(n, n + m)}
    return Dataset(
        "ImNet",
        _features(file, n, m),
        np.concatenate([y_train, y_test]),
        {"word_vectors": prototypes},
        Split(**parts, val_classes=drawn, name="ILSVRC2012/2010"),
        license="research use; see ImageNet's terms of access",
        citation=_CITATION,
        about={
            "features_file": file.path.name,
            "published_sizes": match,
            "val_classes_from": "drawn at random",
        },
    )


def holds_imnet(folder: Path) -> bool:
    """Whether a file in the folder has features as they are named in this release."""
    files = map(describe_mat, sorted(folder.glob("*.mat")))
    return any({"X_tr", "X_te"} & file.variables.keys() for file in files)


def _find(folder: Path) -> MatFile:
    """Return the file of the release."""
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.mat"))
    files = [describe_mat(path) for path in paths]
    if not files:
        found = "has no .mat file" if folder.exists() else "does not exist"
        raise DataError(f"{folder} {found}. Pass the folder of the release.")
    return next((file for file in files if "X_tr" in file.variables), files[0])


def _columns_of_ones(file: MatFile) -> np.ndarray:
    """Return the column of the single 1 in each row of `Y`, from 0."""
    rule = "one column per class and a single 1 in each row"
    n_rows = require_matrix(file, "Y", (None, None), rule).shape[0]
    columns, counts = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    for start, block in read_columns(file, "Y"):
        rows, places = np.nonzero(block)
        columns[rows] = start + places
        counts += (block != 0).sum(axis=1)
    if (counts != 1).any():
        raise DataError(f"`Y` of {file.path} must have {rule}; it does not. Save one-hot rows.")
    return columns


def _number_labels(side: str, labels: np.ndarray) -> np.ndarray:
    return np.array([f"{side} {label:04d}" for label in labels.tolist()], dtype=str)


def _seen_prototypes(file: MatFile, y_train: np.ndarray) -> Prototypes:
    n = len(y_train)
    require_matrix(file, "S_tr", (n, None), f"one row for each of the {n} training labels")
    seen, first, number = np.unique(y_train, return_index=True, return_inverse=True)
    parts = []
    for _, block in read_columns(file, "S_tr"):
        parts.append(block[first])
        differs = (block != parts[-1][number]).any(axis=1)
        if differs.any():
            raise DataError(
                f"`S_tr` of {file.path} must have equal rows within a class; those of class "
                f"{seen[number[differs]][0]} differ. Save the same vector in each row."
            )
    vectors = np.concatenate(parts, axis=1) if parts else np.empty((len(seen), 0))
    return Prototypes(seen, vectors.astype(file.variables["S_tr"].dtype))


def _features(file: MatFile, n: int, m: int) -> LazyMatrix:
    rule = f"one row for each of the {n} labels"
    d = require_matrix(file, "X_tr", (n, None), rule).shape[1]
    rule = f"one row for each of the {m} labels, and as many columns as `X_tr`"
    require_matrix(file, "X_te", (m, d), rule)

    def read() -> np.ndarray:
        values = np.empty((n + m, d), dtype=np.float32)
        read_into(values[:n], file, "X_tr")
        read_into(values[n:], file, "X_te")
        return values

    return LazyMatrix((n + m, d), np.float32, read, f"`X_tr` and `X_te` of {file.path}")
