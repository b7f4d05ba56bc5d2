"""Load mini-ImageNet features for few-shot learning, with base and novel classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, Split, require_one_label_per_row
from zonkey.files.readers import StoredArray, contents, pick_named, require_existing, stored_arrays
from zonkey.files.tables import as_features, label_vector
from zonkey.labels import format_labels
from zonkey.prototypes import Prototypes

_N_CLASSES = 100
_NOVEL = {"val": range(64, 80), "test": range(80, 100)}
_SIMPLE_CNN = "conv4"  # begins the names of files with its features


def load_mini_imagenet(path: str | Path, *, novel: Literal["test", "val"] = "test") -> Dataset:
    """Load features of mini-ImageNet with their few-shot split.

    Base classes (`split.base`) are those that the backbone was trained on. Samples of classes that
    are neither base nor novel are in no part of the split.

    Parameters
    ----------
    path : str or Path
        An `.npz` file with these arrays:

        - `features`: one image per row; float16 becomes float32.
        - `labels`: the class of each row, 0 to 99: first the 64 classes of the training split,
          then the 16 of the validation split, then the 20 of the test split.
        - `class_names`: 100 names, in this order.
        - `prototypes`: 100 rows, in this order.
        - `n_backbone_classes`: number of the first classes that the backbone was trained on,
          usually 64 or 80.
    novel : {"test", "val"}, default="test"
        Which classes are novel: the 20 of the test split, or the 16 of the validation split, to
        select parameters. The latter need a backbone trained on only the 64 others.

    Returns
    -------
    Dataset
        The data set. Labels are class names; a name shared by two classes is followed by the number
        of the class.
    """
    if novel not in _NOVEL:
        raise DataError(f'`novel` must be "test" or "val"; got {novel!r}. Choose one of them.')
    path = require_existing(path, (".npz",))
    arrays = stored_arrays(path)
    features = as_features(_require_array(arrays, "features"))
    names = label_vector(_require_array(arrays, "class_names")).astype(str)
    numbers = _positions(label_vector(_require_array(arrays, "labels")), names, path)
    require_one_label_per_row(features, numbers, path.name)
    prototypes = as_features(_require_array(arrays, "prototypes"), "Prototypes")
    if len(prototypes) != _N_CLASSES:
        raise DataError(
            f"Prototypes must be one per class; {prototypes.source} has {len(prototypes)} rows and "
            f"there are {_N_CLASSES} class names. Check that both come from the same run."
        )
    n_base = _n_base(_require_array(arrays, "n_backbone_classes"), novel)
    counts = Counter(names.tolist())
    unique = [
        name if counts[name] == 1 else f"{name} ({number})"
        for number, name in enumerate(names.tolist())
    ]
    # No validation classes: features of classes that the backbone knows say little about novel
    # ones. Select parameters with novel="val".
    split = Split(
        train=np.flatnonzero(numbers < n_base),
        test_unseen=np.flatnonzero(np.isin(numbers, _NOVEL[novel])),
        name=f"{n_base} base classes, novel classes of the {novel} split",
    )
    return Dataset(
        "mini-ImageNet",
        features,
        np.array(unique)[numbers],
        Prototypes(unique, prototypes.values()),
        split,
        class_names=dict(zip(unique, names.tolist(), strict=True)),
        license="ImageNet terms of access: non-commercial research and education",
        citation=(
            "O. Vinyals et al., Matching networks for one shot learning, NIPS 2016; split of "
            "S. Ravi and H. Larochelle, Optimization as a model for few-shot learning, ICLR 2017"
        ),
        about={"backbone_file": path.name, "n_backbone_classes": n_base, **_backbone(path)},
    )


def _backbone(path: Path) -> dict[str, str]:
    """Return the name of the backbone, if the file says so."""
    is_simple = path.stem.startswith(_SIMPLE_CNN)
    return {"features": f"simple CNN ({path.name})"} if is_simple else {}


def _require_array(arrays: list[StoredArray], name: str) -> StoredArray:
    found = pick_named(arrays, None, (name,), name)
    if found is None:
        raise DataError(
            f"A file of mini-ImageNet features must hold `{name}`; {arrays[0].path.name} has "
            f"{contents(arrays)}. Pass the file with class names and prototypes."
        )
    return found


def _positions(numbers: np.ndarray, names: np.ndarray, path: Path) -> np.ndarray:
    """Return labels, which may be whole floats, as positions in the names of the classes."""
    if len(names) != _N_CLASSES:
        raise DataError(
            f"`class_names` must name the {_N_CLASSES} classes of mini-ImageNet; {path.name} has "
            f"{len(names)}. Save all of them, in the order of the labels."
        )
    outside = np.setdiff1d(numbers, np.arange(_N_CLASSES))
    if numbers.dtype.kind not in "iuf" or outside.size:
        raise DataError(
            f"Labels must be positions in `class_names`, 0 to {_N_CLASSES - 1}; {path.name} has "
            f"{format_labels(outside)}. Subtract 1 if they count from 1."
        )
    return numbers.astype(np.int64)


def _n_base(array: StoredArray, novel: str) -> int:
    """Return the number of classes that the backbone knows; novel ones must not be among them."""
    values = np.asarray(array.read()).ravel() if array.dtype.kind in "iuf" else np.array([])
    if len(values) != 1 or values[0] not in range(1, _N_CLASSES + 1):
        raise DataError(
            f"`n_backbone_classes` must be one whole number from 1 to {_N_CLASSES}; "
            f"{array.path.name} has {format_labels(values) or array.dtype}. Save the number of "
            "classes that the backbone was trained on."
        )
    n = int(values[0])
    if n > _NOVEL[novel].start:
        raise DataError(
            f"Novel classes must be new to the backbone; that of {array.path.name} was trained on "
            f'{n} classes, including those of novel="{novel}". Load the file of a backbone trained '
            f"on {_NOVEL[novel].start}."
        )
    return n
