"""The data sets that experiments run on: the embedded one, and those found in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, Split
from zonkey.files.emoji import load_emoji

from ...datasets.emoji_pictures import PLACE, load_emoji_pictures
from ...datasets.fetch import data_folder
from ...datasets.imnet import load_imnet
from ...datasets.mini_imagenet import load_mini_imagenet
from ...datasets.xlsa17 import load_xlsa17
from ..experiments import PICTURES

_XLSA17 = {"awa1": "AWA1", "awa2": "AWA2", "cub": "CUB", "sun": "SUN", "apy": "APY"}
_SPLITS = ("zero-shot", "few-shot")
_EMOJI: dict[str, dict[str, Any]] = {"emoji": {}, "emoji-cnn": {"features": "simple-cnn"}}
_MINI = ("wrn28_10.npz", "wrn28_10_train64.npz")


class NoValidationClasses(DataError):
    """The split of a data set has no validation classes for few-shot parameters."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The data set {name!r} names no validation classes to choose few-shot parameters on; "
            "give its split some."
        )


@dataclass(frozen=True)
class DataSource:
    """A data set and its loaders: for zero-shot learning, few-shot learning, and validation.

    The novel classes of the validation data are validation classes, to choose parameters on.
    """

    name: str
    load: Callable[[], Dataset]
    load_shots: Callable[[], Dataset]
    load_validation: Callable[[], Dataset]


def find_sources(folder: Path | str | None = None) -> dict[str, DataSource]:
    """Return the data sets found in `folder`, $ZONKEY_DATA or the user's cache, by name."""
    sources = {
        name: _source(name, *(partial(load_emoji, split=split, **options) for split in _SPLITS))
        for name, options in _EMOJI.items()
    }
    try:
        root = data_folder(folder)
    except ImportError:  # nothing can have been fetched without pooch
        return sources
    for name, place in _XLSA17.items():
        features = _features_of(root / "xlsa17" / "data" / place)
        if features is not None:
            load = partial(load_xlsa17, features.parent, features=features.stem)
            sources[name] = _source(name, load)
    if (root / PLACE).exists():
        pictures = (partial(load_emoji_pictures, root / PLACE, split=split) for split in _SPLITS)
        sources[PICTURES] = _source(PICTURES, *pictures)
    if (root / "imnet").is_dir():
        sources["imnet"] = _source("imnet", partial(load_imnet, root / "imnet"))
    test, validation = (root / "mini_imagenet" / file for file in _MINI)
    if test.exists() and validation.exists():
        # The backbone was trained on its own validation classes: accuracy there is near 100 %.
        load_validation = partial(load_mini_imagenet, validation, novel="val")
        load = partial(load_mini_imagenet, test)
        sources["mini-imagenet"] = DataSource("mini-imagenet", load, load, load_validation)
    return sources


def _source(
    name: str, load: Callable[[], Dataset], load_shots: Callable[[], Dataset] | None = None
) -> DataSource:
    """Return a source whose split names the validation classes."""
    shots = load_shots or load
    return DataSource(name, load, shots, lambda: validation_view(shots()))


def find_source(name: str, folder: Path | str | None = None) -> DataSource:
    """Return a data set by name."""
    sources = find_sources(folder)
    if name.lower() not in sources:
        made_by = f"zonkey data fetch {name}"
        made_by = "python tools/build_emoji_pictures.py" if name.lower() == PICTURES else made_by
        raise DataError(
            f"The data set must be one of {', '.join(sources)}; got {name!r}. Get it with "
            f"`{made_by}`, or set ZONKEY_DATA to the folder that holds it."
        )
    return sources[name.lower()]


def _features_of(folder: Path) -> Path | None:
    """Return the file of features: ResNet101 if there is one, else the only file."""
    files = {path.stem: path for path in folder.glob("*.mat") if not path.stem.endswith("_splits")}
    only = next(iter(files.values())) if len(files) == 1 else None
    return files.get("res101", only)


def validation_view(data: Dataset) -> Dataset:
    """Return the training samples alone, with validation classes as novel classes.

    Test samples are left out, so parameters cannot be chosen on them. The drawing style, if
    samples have one, separates queries from shots.
    """
    train, query = data.split.train, data.split.query
    novel = np.isin(data.y[train], data.split.val_classes)
    if not novel.any():
        raise NoValidationClasses(data.name)
    styles = getattr(data, "styles", np.zeros(len(data.y), dtype=np.int8))
    split = Split(
        train=np.flatnonzero(~novel),
        test_unseen=np.flatnonzero(novel),
        query=np.flatnonzero(novel & np.isin(styles[train], styles[query])),
        name=f"{data.split.name}, validation classes as novel",
    )
    return Dataset(
        data.name,
        np.asarray(data.X)[train],
        data.y[train],
        {space: data.prototypes_of(space).subset(data.seen_classes) for space in data.spaces},
        split,
        license=data.license,
        citation=data.citation,
        about=data.about,
    )
