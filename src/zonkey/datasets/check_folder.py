"""Check a folder of a benchmark: xlsa17, or ImNet in the layout of the SAE release."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.labels import listed
from .check_findings import Report
from .dataset import Dataset
from .errors import DataError
from .imnet import holds_imnet, load_imnet
from .xlsa17 import load_xlsa17


def check_folder(folder: Path) -> Report:
    """Load all of a folder, and say what is in it or what is wrong."""
    try:
        data = _load(folder)
        data.X  # noqa: B018 (values are checked when they are read)
    except (DataError, ImportError) as error:
        return Report(problems=[str(error)])
    sizes = {part: len(getattr(data.split, part)) for part in ("train", "test_seen", "test_unseen")}
    parts = ", ".join(f"{size} {part.replace('_', ' ')}" for part, size in sizes.items())
    classes = f"{len(data.seen_classes)} seen and {len(data.unseen_classes)} unseen classes"
    return Report(
        facts=[
            f"{folder} holds {data.shape[0]} samples of {data.shape[1]} features: {parts}.",
            f"{classes}, {len(data.split.val_classes)} of the seen to validate on.",
            f"Semantic spaces: {', '.join(data.spaces)}.",
            f"Split: {data.split.name}.",
        ]
    )


def _load(folder: Path) -> Dataset:
    files = sorted(folder.glob("*.mat"))
    splits = [path for path in files if path.stem.endswith("_splits")]
    if splits:
        return _load_xlsa17(folder, [path.stem for path in files], [path.stem for path in splits])
    if holds_imnet(files):
        return load_imnet(folder)
    found = ", ".join(path.name for path in files) or "no .mat file"
    below = sorted({path.parent.name for path in folder.glob("*/*.mat")})
    remedy = "Pass the folder of one data set, such as xlsa17/data/CUB."
    if below:
        remedy = f"Pass one of the folders in it: {listed(np.array(below))}."
    elif files:
        remedy = "Put the files of splits there."
    raise DataError(
        "A folder to check must be one of xlsa17, with features and att_splits.mat, or of ImNet; "
        f"{folder} holds {found}. {remedy}"
    )


def _load_xlsa17(folder: Path, stems: list[str], splits: list[str]) -> Dataset:
    features = [stem for stem in stems if stem not in splits]
    if len(features) != 1:
        found = ", ".join(features) or "none"
        raise DataError(
            f"A folder of xlsa17 must hold one file of features, such as res101.mat; {folder} has "
            f"{found}. Put one there, or move the others away."
        )
    space = "att" if "att_splits" in splits else None
    return load_xlsa17(folder, features=features[0], semantics=splits, space=space)
