"""The xlsa17 benchmark: a folder of MATLAB files and class lists as a Dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.labels import listed
from .dataset import Dataset
from .errors import DataError
from .lazy import LazyMatrix
from .matlab import MatFile, describe_mat, read_mat, require_variable, whole_numbers
from .split import Split
from .xlsa17_release import compare_sizes
from .xlsa17_splits import LOCATIONS, Xlsa17Splits, mat_path, read_splits

CITATION = (
    "Y. Xian, C. H. Lampert, B. Schiele, Z. Akata: Zero-Shot Learning - A Comprehensive Evaluation "
    "of the Good, the Bad and the Ugly. TPAMI 2018"
)
LICENSE = "research use; see the data set's own terms"


def load_xlsa17(
    folder: str | Path,
    *,
    features: str = "res101",
    semantics: str | Sequence[str] = "att_splits",
    space: str | None = None,
    fold: int = 1,
) -> Dataset:
    """Load a data set of the xlsa17 benchmark (Xian et al.) from its folder.

    Parameters
    ----------
    folder : str or Path
        Folder of one data set, such as xlsa17/data/CUB.
    features : str, default="res101"
        Name, without .mat, of the file with `features` (d x n; columns are images) and `labels`
        (counted from 1 along `allclasses_names`).
    semantics : str or sequence of str, default="att_splits"
        Names, without .mat, of files with `att` (k x C; columns are classes), the split and maybe
        `original_att`. Files must agree on the split. X_splits.mat gives the semantic spaces "X"
        and, where there is one, "original_X".
    space : str, default=None
        The default space of the data set; None: the first of the first file.
    fold : int, default=1
        Which of the three lists of validation classes to use.

    Returns
    -------
    Dataset
        Labels are the names in `allclasses_names`. Features are read on first use. `about` tells
        the release of the split, and whether its sizes are the published ones.
    """
    splits = read_splits(folder, semantics=semantics, space=space, fold=fold)
    path = mat_path(Path(folder), features, "features")
    file = describe_mat(path)
    labels = splits.class_names[_class_numbers(file, len(splits.class_names))]
    matrix = _features(file, len(labels))
    _check_range(splits, len(labels), path)
    seen, unseen = _checked_classes(splits, labels)
    val_classes = splits.val_classes
    if not val_classes.size:
        val_classes = np.setdiff1d(labels[splits.val_part], labels[splits.train_part])
    sizes = splits.sizes | {"seen": len(seen), "unseen": len(unseen)}
    return Dataset(
        splits.name,
        matrix,
        labels,
        splits.spaces,
        Split(
            train=splits.train,
            test_seen=splits.test_seen,
            test_unseen=splits.test_unseen,
            val_classes=val_classes,
            name=splits.split_name,
        ),
        class_names={name: readable(name) for name in splits.class_names.tolist()},
        license=LICENSE,
        citation=CITATION,
        about={
            "features_file": path.name,
            "split_version": splits.version,
            "split_told_by": splits.told_by,
            "published_sizes": compare_sizes(splits.name, sizes),
            "val_classes_from": splits.val_told_by if val_classes.size else "none",
        },
    )


def readable(name: str) -> str:
    """Return the name of a class for people: "Laysan Albatross" for "002.Laysan_Albatross"."""
    return re.sub(r"^\d+\.", "", name).replace("_", " ").replace("+", " ")


def _class_numbers(file: MatFile, n: int) -> np.ndarray:
    """Return the row of `allclasses_names` of each sample, from 0."""
    require_variable(file, "labels", numeric=True)
    subject = f"`labels` of {file.path}"
    numbers = whole_numbers(read_mat(file.path, ["labels"])["labels"], subject)
    rule = f"{subject} must count the {n} `allclasses_names` from 1"
    if (numbers == 0).any():
        raise DataError(f"{rule}; got 0. They count from 0: add 1.")
    outside = numbers[(numbers < 1) | (numbers > n)]
    if outside.size:
        raise DataError(f"{rule}; got {outside[0]}. Use labels and semantics of one data set.")
    return numbers - 1


def _features(file: MatFile, n: int) -> LazyMatrix:
    variable = require_variable(file, "features", numeric=True)
    if len(variable.shape) != 2 or variable.shape[1] != n:
        remedy = "Use features and labels of one run."
        if variable.shape[0] == n:
            remedy = "They are transposed: save features' in their place."
        raise DataError(
            f"`features` of {file.path} must have one column for each of the {n} labels; their "
            f"shape is {variable.shape}. {remedy}"
        )

    def read() -> np.ndarray:
        return np.ascontiguousarray(read_mat(file.path, ["features"])["features"].T)

    return LazyMatrix((n, variable.shape[0]), variable.dtype, read, str(file.path))


def _check_range(splits: Xlsa17Splits, n: int, path: Path) -> None:
    for part, key in LOCATIONS.items():
        positions = getattr(splits, part)
        if positions.size and positions[-1] >= n:
            raise DataError(
                f"`{key}` must count the {n} samples of {path} from 1; got {positions[-1] + 1}. "
                "Use features and splits of one data set."
            )


def _checked_classes(splits: Xlsa17Splits, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return seen and unseen classes; labels, split and class lists must tell the same."""
    seen, unseen = np.unique(labels[splits.train]), np.unique(labels[splits.test_unseen])
    both = np.intersect1d(seen, unseen)
    if both.size:
        raise DataError(
            f"Classes of `test_unseen_loc` must have no sample in `trainval_loc`; {listed(both)} "
            "have. Check that labels count along `allclasses_names`, and that the split is of "
            "these features."
        )
    for told, found, name in (
        (splits.seen_classes, seen, "trainvalclasses.txt"),
        (splits.unseen_classes, unseen, "testclasses.txt"),
    ):
        odd = np.setxor1d(told, found)
        if told.size and odd.size:
            raise DataError(
                f"{name} must list the classes that the split gives; {listed(odd)} are in one "
                "only. Check that labels count along `allclasses_names`, not along folders, or "
                "remove a list of another split."
            )
    foreign = np.setdiff1d(splits.val_classes, seen)
    if foreign.size:
        raise DataError(
            f"{splits.val_told_by} must list seen classes; {listed(foreign)} have no sample in "
            "`trainval_loc`. Take the lists of the same release as the split."
        )
    return seen, unseen
