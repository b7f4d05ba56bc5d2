"""The data sets that experiments run on: the embedded one, and those found in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ...datasets import (
    DataError,
    Dataset,
    Split,
    load_emoji,
    load_imnet,
    load_mini_imagenet,
    load_xlsa17,
)
from ...datasets.fetch import data_folder

_XLSA17 = {"awa1": "AWA1", "awa2": "AWA2", "cub": "CUB", "sun": "SUN", "apy": "APY"}
_MINI = ("wrn28_10.npz", "wrn28_10_train64.npz")


class NoValidationClasses(DataError):
    """The split of a data set has no validation classes for few-shot parameters."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The data set {name!r} names no validation classes to choose few-shot parameters on; "
            "give its split some."
        )


@dataclass(frozen=True)
class Source:
    """A data set and its loaders: for zero-shot learning, few-shot learning, and validation.

    The novel classes of the validation data are validation classes, to choose parameters on.
    """

    name: str
    load: Callable[[], Dataset]
    load_shots: Callable[[], Dataset]
    load_validation: Callable[[], Dataset]


def available(folder: Path | str | None = None) -> dict[str, Source]:
    """Return the data sets found in `folder`, $ZONKEY_DATA or the user's cache, by name."""
    sources = {"emoji": _emoji()}
    try:
        root = data_folder(folder)
    except ImportError:  # nothing can have been fetched without pooch
        return sources
    for name, place in _XLSA17.items():
        features = _features_of(root / "xlsa17" / "data" / place)
        if features is not None:
            sources[name] = _xlsa17(name, features)
    if (root / "imnet").is_dir():
        sources["imnet"] = _plain("imnet", partial(load_imnet, root / "imnet"))
    mini = [root / "mini_imagenet" / file for file in _MINI]
    if all(path.exists() for path in mini):
        sources["mini-imagenet"] = _mini_imagenet(*mini)
    return sources


def find_source(name: str, folder: Path | str | None = None) -> Source:
    """Return a data set by name."""
    sources = available(folder)
    if name.lower() not in sources:
        raise DataError(
            f"The data set must be one of {', '.join(sources)}; got {name!r}. Fetch it with "
            f"`zonkey data fetch {name}`, or set ZONKEY_DATA to the folder that holds it."
        )
    return sources[name.lower()]


def _emoji() -> Source:
    def shots() -> Dataset:
        return load_emoji(split="few-shot")

    return Source("emoji", load_emoji, shots, lambda: validation_view(shots()))


def _xlsa17(name: str, features: Path) -> Source:
    return _plain(name, partial(load_xlsa17, features.parent, features=features.stem))


def _plain(name: str, load: Callable[[], Dataset]) -> Source:
    """Return a source with the same split for zero-shot and few-shot learning."""
    return Source(name, load, load, lambda: validation_view(load()))


def _mini_imagenet(path: Path, validation: Path) -> Source:
    def load() -> Dataset:
        return load_mini_imagenet(path)

    # The backbone was trained on its own validation classes: accuracy there is near 100 %.
    return Source("mini-imagenet", load, load, lambda: load_mini_imagenet(validation, novel="val"))


def _features_of(folder: Path) -> Path | None:
    """Return the file of features: ResNet101 if there is one, else the only file."""
    files = [path for path in sorted(folder.glob("*.mat")) if not path.stem.endswith("_splits")]
    named = [path for path in files if path.stem == "res101"]
    if named:
        return named[0]
    return files[0] if len(files) == 1 else None


def validation_view(data: Dataset) -> Dataset:
    """Return the training samples alone, with validation classes as novel classes."""
    held_out = np.isin(data.y, data.split.val_classes)
    train = data.split.train
    novel = train[held_out[train]]
    if not len(novel):
        raise NoValidationClasses(data.name)
    query = novel[np.isin(_style(data)[novel], _query_styles(data))]
    split = Split(
        train=train[~held_out[train]],
        test_unseen=novel,
        query=query,
        name=f"{data.split.name}, validation classes as novel",
    )
    spaces = {space: data.prototypes_of(space).subset(data.seen_classes) for space in data.spaces}
    # Test samples are left out, so parameters cannot be chosen on them.
    return _restricted(data, train, split, spaces)


def _restricted(data: Dataset, kept: np.ndarray, split: Split, spaces: dict) -> Dataset:
    new = np.full(len(data.y), -1)
    new[kept] = np.arange(len(kept))
    moved = {part: new[getattr(split, part)] for part in ("train", "test_unseen", "query")}
    return Dataset(
        data.name,
        np.asarray(data.X)[kept],
        data.y[kept],
        spaces,
        Split(**moved, name=split.name),
        license=data.license,
        citation=data.citation,
        about=data.about,
    )


def _style(data: Dataset) -> np.ndarray:
    """Return the drawing style that tells queries from shots; zeros if samples have none."""
    return getattr(data, "styles", np.zeros(len(data.y), dtype=np.int8))


def _query_styles(data: Dataset) -> np.ndarray:
    return np.unique(_style(data)[data.split.query]) if len(data.split.query) else np.array([])
