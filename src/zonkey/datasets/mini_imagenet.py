"""mini-ImageNet features for few-shot learning: base classes to learn from, novel ones to test on.

The file holds `features` (n x d), `labels` 0 to 99 (64 classes of the training split, 16 of the
validation split, 20 of the test split, in this order), `class_names`, `prototypes` (100 rows) and
`n_backbone_classes`: how many of the first classes the backbone was trained on, 64 or 80.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from ..core.labels import listed
from ..core.prototypes import Prototypes
from .array_files import StoredArray, contents, pick_named, stored_arrays
from .dataset import Dataset
from .errors import DataError
from .feature_files import as_features, require_equally_many
from .files import existing_file
from .label_files import label_vector
from .split import Split

_NOVEL = {"val": range(64, 80), "test": range(80, 100)}


def load_mini_imagenet(path: str | Path, *, novel: Literal["test", "val"] = "test") -> Dataset:
    """Load features of mini-ImageNet with their few-shot split.

    Base classes (`split.base`) are those the backbone was trained on. Samples that are neither of
    base nor of novel classes are in no part of the split.

    Parameters
    ----------
    path : str or Path
        An `.npz` file as described at the top of this module. float16 becomes float32.
    novel : {"test", "val"}, default="test"
        Which classes are novel: the 20 of the test split, or the 16 of the validation split, to
        choose parameters on. The latter need a backbone trained on the 64 others alone.

    Returns
    -------
    Dataset
        Labels are class names. A name that two classes share is followed by the number of the
        class.
    """
    if novel not in _NOVEL:
        raise DataError(f'`novel` must be "test" or "val"; got {novel!r}. Choose one of them.')
    path = existing_file(path, (".npz",))
    arrays = stored_arrays(path)
    features = as_features(_required(arrays, "features"))
    numbers = label_vector(_required(arrays, "labels"))
    require_equally_many(features, numbers, path.name)
    names = label_vector(_required(arrays, "class_names")).astype(str)
    n_base = int(_required(arrays, "n_backbone_classes").read())
    _check(path, numbers, names, n_base, novel)
    labels = _unique(names)
    split = Split(
        train=np.flatnonzero(numbers < n_base),
        test_unseen=np.flatnonzero(np.isin(numbers, _NOVEL[novel])),
        # No validation classes: features of classes that the backbone knows say little of novel
        # ones. `novel="val"` is there to choose parameters on.
        name=f"{n_base} base classes, novel classes of the {novel} split",
    )
    return Dataset(
        "mini-ImageNet",
        features,
        labels[numbers],
        Prototypes(labels, _prototypes(_required(arrays, "prototypes"), len(labels))),
        split,
        class_names=dict(zip(labels.tolist(), names.tolist(), strict=True)),
        licence="ImageNet terms of access: non-commercial research and education",
        citation=(
            "O. Vinyals et al., Matching networks for one shot learning, NIPS 2016; split of "
            "S. Ravi and H. Larochelle, Optimization as a model for few-shot learning, ICLR 2017"
        ),
        about={"backbone_file": path.name, "n_backbone_classes": n_base},
    )


def _required(arrays: list[StoredArray], name: str) -> StoredArray:
    found = pick_named(arrays, None, (name,), name)
    if found is None:
        raise DataError(
            f"A file of mini-ImageNet features must hold `{name}`; {arrays[0].file} has "
            f"{contents(arrays)}. Pass the file with class names and prototypes."
        )
    return found


def _check(path: Path, numbers: np.ndarray, names: np.ndarray, n_base: int, novel: str) -> None:
    outside = np.setdiff1d(numbers, np.arange(len(names)))
    if numbers.dtype.kind not in "iu" or outside.size:
        raise DataError(
            f"Labels must be positions in `class_names`, 0 to {len(names) - 1}; {path.name} has "
            f"{listed(outside)}. Subtract 1 if they count from 1."
        )
    if n_base > _NOVEL[novel].start:
        raise DataError(
            f"Novel classes must be new to the backbone; that of {path.name} was trained on "
            f'{n_base} classes, those of novel="{novel}" among them. Load the file of a backbone '
            f"trained on {_NOVEL[novel].start}."
        )


def _unique(names: np.ndarray) -> np.ndarray:
    """Tell classes of one name apart by their number."""
    counts = Counter(names.tolist())
    return np.array(
        [
            name if counts[name] == 1 else f"{name} ({number})"
            for number, name in enumerate(names.tolist())
        ]
    )


def _prototypes(array: StoredArray, n_classes: int) -> np.ndarray:
    matrix = as_features(array, "Prototypes")
    if len(matrix) != n_classes:
        raise DataError(
            f"Prototypes must be one a class; {matrix.source} has {len(matrix)} rows and there are "
            f"{n_classes} class names. Check that both come from the same run."
        )
    return matrix.values()
