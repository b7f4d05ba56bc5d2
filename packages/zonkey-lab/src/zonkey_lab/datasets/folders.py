"""Folders of benchmarks, recognized by their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset
from zonkey.labels import format_labels

from .imnet import holds_imnet, load_imnet
from .xlsa17 import load_xlsa17


def load_folder(folder: Path) -> Dataset:
    """Return the data set of a folder of xlsa17 or ImNet."""
    stems = [path.stem for path in sorted(folder.glob("*.mat"))]
    splits = [stem for stem in stems if stem.endswith("_splits")]
    if splits:
        features = [stem for stem in stems if stem not in splits]
        if len(features) != 1:
            raise DataError(
                "A folder of xlsa17 must hold one file of features, such as res101.mat; "
                f"{folder} has {', '.join(features) or 'none'}. Add one, or move the others away."
            )
        space = "att" if "att_splits" in splits else None
        return load_xlsa17(folder, features=features[0], semantics=splits, space=space)
    if holds_imnet(folder):
        return load_imnet(folder)
    found = ", ".join(f"{stem}.mat" for stem in stems) or "no .mat file"
    below = sorted({path.parent.name for path in folder.glob("*/*.mat")})
    remedy = "Pass the folder of one data set, such as xlsa17/data/CUB."
    if below:
        remedy = f"Pass one of the folders in it: {format_labels(np.array(below))}."
    elif stems:
        remedy = "Add the files of splits."
    raise DataError(
        "A folder to check must be one of xlsa17, with features and att_splits.mat, or of ImNet; "
        f"{folder} holds {found}. {remedy}"
    )
