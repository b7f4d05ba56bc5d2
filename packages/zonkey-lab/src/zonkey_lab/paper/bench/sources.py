"""The data sets that experiments run on: the embedded one, and those found in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, Split, did_you_mean
from zonkey.files.emoji import load_emoji

from ...datasets.emoji_pictures import load_emoji_pictures
from ...datasets.fetch import data_folder
from ...datasets.imnet import load_imnet
from ...datasets.mini_imagenet import load_mini_imagenet
from ...datasets.registry import PLACED, REGISTRY
from ...datasets.xlsa17 import load_xlsa17
from ..experiments import PICTURES

_RES101 = "res101"  # ResNet101, the features of the paper
_SPLITS = ("zero-shot", "few-shot")
_EMOJI: dict[str, dict[str, Any]] = {"emoji": {}, "emoji-cnn": {"features": "simple-cnn"}}
_MINI = ("mini-imagenet", "mini-imagenet-cnn")


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
    for name, remote in REGISTRY.items():
        features = next(filter(None, map(_features_of, _places(root, remote.members))), None)
        if features is not None:
            load = partial(_load_once, load_xlsa17, features.parent, features=features.stem)
            sources[name] = _source(name, load)
    pictures = root / PLACED[PICTURES].members / PLACED[PICTURES].required[0]
    if pictures.exists():
        loaders = (partial(load_emoji_pictures, pictures, split=split) for split in _SPLITS)
        sources[PICTURES] = _source(PICTURES, *loaders)
    imnet = root / PLACED["imnet"].members
    if any(imnet.glob("*.mat")):
        sources["imnet"] = _source("imnet", partial(_load_once, load_imnet, imnet))
    for name in _MINI:
        test, validation = (root / PLACED[name].members / file for file in PLACED[name].required)
        if test.exists() and validation.exists():
            # The backbone was trained on its own validation classes: accuracy there is near 100 %.
            load_validation = partial(load_mini_imagenet, validation, novel="val")
            load = partial(_load_once, load_mini_imagenet, test)
            sources[name] = DataSource(name, load, load, load_validation)
    return sources


def _source(
    name: str, load: Callable[[], Dataset], load_shots: Callable[[], Dataset] | None = None
) -> DataSource:
    """Return a source whose split names the validation classes."""
    shots = load_shots or load
    return DataSource(name, load, shots, lambda: validation_view(shots()))


@lru_cache(maxsize=1)
def _load_once(load: Callable[..., Dataset], *place: Any, **options: Any) -> Dataset:
    """Return a data set; features are in memory once, for zero-shot and few-shot learning."""
    return load(*place, **options)


def split_names(words: Iterable[str]) -> list[str]:
    """Return the names in words such as "AWA2,cub", in lower case, each once."""
    names = (name.strip().lower() for word in words for name in word.split(","))
    return list(dict.fromkeys(filter(None, names)))


def find_source(name: str, folder: Path | str | None = None) -> DataSource:
    """Return a data set by name; case is ignored."""
    sources = find_sources(folder)
    wanted = name.strip().lower()
    if wanted in sources:
        return sources[wanted]
    known = {**REGISTRY, **PLACED}
    if wanted not in known:
        remedy = did_you_mean(wanted, [*sources, *known], "Choose one of them.")
        raise DataError(
            f"The data set must be one of {', '.join({**sources, **known})}; got {name!r}. {remedy}"
        )
    root = data_folder(folder)
    looked = root / known[wanted].members
    found = sorted(path.name for path in looked.glob("*")) if looked.is_dir() else []
    state = f"it holds {', '.join(found)}" if found else "there is no file"
    remedy = (
        f"Run `zonkey data fetch {wanted}`, or pass the folder that holds xlsa17 by --folder or "
        "ZONKEY_DATA."
        if wanted in REGISTRY
        else f"Put them there. {PLACED[wanted].source}"
    )
    files = " and ".join(known[wanted].required)
    raise DataError(f"The data set {wanted!r} needs {files} in {looked}; {state}. {remedy}")


def _places(root: Path, members: str) -> list[Path]:
    """Return where a folder such as xlsa17/data/CUB may be: users pass any folder above it."""
    parts = Path(members).parts
    return [root.joinpath(*parts[i:]) for i in range(len(parts))]


def _features_of(folder: Path) -> Path | None:
    """Return the file of features: ResNet101 if there is one, else the only file."""
    files = {path.stem: path for path in folder.glob("*.mat") if not path.stem.endswith("_splits")}
    only = next(iter(files.values())) if len(files) == 1 else None
    return files.get(_RES101, only)


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
