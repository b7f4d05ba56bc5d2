"""Load data sets of the xlsa17 benchmark from their folders of MATLAB files and class lists."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, LazyMatrix, Split, as_data_error, did_you_mean
from zonkey.labels import format_labels
from zonkey.prototypes import Prototypes

from .matlab import (
    MatFile,
    describe_mat,
    read_into,
    read_mat,
    read_numbers,
    read_whole_numbers,
    require_matrix,
    require_variable,
)

_CITATION = (
    "Y. Xian, C. H. Lampert, B. Schiele, Z. Akata: Zero-Shot Learning - A Comprehensive Evaluation "
    "of the Good, the Bad and the Ugly. TPAMI 2018"
)
_LOCATIONS = {
    "train": "trainval_loc",
    "test_seen": "test_seen_loc",
    "test_unseen": "test_unseen_loc",
}
# Numbers of samples and classes that the paper of the benchmark states
_SIZES = ("train", "test_seen", "test_unseen", "seen", "unseen")
_PUBLISHED = {
    "SUN": (10320, 2580, 1440, 645, 72),
    "CUB": (7057, 1764, 2967, 150, 50),
    "AWA1": (19832, 4958, 5685, 40, 10),
    "AWA2": (23527, 5882, 7913, 40, 10),
    "APY": (5932, 1483, 7924, 20, 12),
}
# First digits of the SHA-256 of test_seen_loc in the second release of the split, of September 2019
_DIGESTS_OF_V2 = {
    "fd181e6505f29990": "SUN",
    "09a266fec3703bb9": "CUB",
    "497752880ed7b9df": "AWA1",
    "6a1ae1a80e31ed01": "AWA2",
    "2db00cda7574ef16": "APY",
}


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
        (counted from 1 along `allclasses_names`). Features become float32: networks compute them
        in single precision, also if they are stored as doubles.
    semantics : str or sequence of str, default="att_splits"
        Names, without .mat, of files with `att` (k x C; columns are classes), the split and
        optionally `original_att`. Files must agree on the split. X_splits.mat gives the semantic
        spaces "X" and, if it holds `original_att`, "original_X".
    space : str, default=None
        Default semantic space. By default the first of the first file.
    fold : int, default=1
        Which of the three lists of validation classes to use.

    Returns
    -------
    Dataset
        The data set. Labels are the names in `allclasses_names`. Features are read on first use.
        `about` states the release of the split, and whether its sizes are the published ones.
    """
    folder = Path(folder)
    stems = [semantics] if isinstance(semantics, str) else list(semantics)
    if not stems:
        raise DataError('`semantics` must name a file; got none. Pass semantics="att_splits".')
    files = [_describe(folder, stem) for stem in stems]
    parts, names = read_parts(files)
    file = _describe(folder, features)
    labels = names[_class_numbers(file, len(names))]
    for part, key in _LOCATIONS.items():
        if parts[part].size and parts[part][-1] >= len(labels):
            raise DataError(
                f"`{key}` must count the {len(labels)} samples of {file.path} from 1; got "
                f"{parts[part][-1] + 1}. Use features and splits of one data set."
            )
    seen, unseen = _check_classes(folder, parts, names, labels)
    val_classes, val_from = _validation_classes(folder, fold, files, parts["train"], names, labels)
    name = folder.resolve().name
    version, told_by = split_version(name, parts)
    sizes = {part: len(positions) for part, positions in parts.items()}
    sizes |= {"seen": len(seen), "unseen": len(unseen)}
    split_name = "PS, version unknown" if version == "unknown" else version.replace("v", "PS v")
    return Dataset(
        name,
        _features(file, len(labels)),
        labels,
        _spaces(files, names, space),
        Split(**parts, val_classes=val_classes, name=split_name),  # PS: the "proposed split"
        class_names={label: _display_name(label) for label in names.tolist()},
        license="research use; see the data set's own terms",
        citation=_CITATION,
        about={
            "features_file": file.path.name,
            "split_version": version,
            "split_told_by": told_by,
            "published_sizes": compare_sizes(name, sizes),
            "val_classes_from": val_from,
        },
    )


def _describe(folder: Path, stem: str) -> MatFile:
    return describe_mat(folder / f"{stem.removesuffix('.mat')}.mat")


def _display_name(name: str) -> str:
    """Return "Laysan Albatross" for "002.Laysan_Albatross"."""
    return re.sub(r"^\d+\.", "", name).replace("_", " ").replace("+", " ")


def _class_numbers(file: MatFile, n: int) -> np.ndarray:
    """Return the position in `allclasses_names` of each sample, from 0."""
    numbers = read_whole_numbers(file, "labels")
    rule = f"`labels` of {file.path} must count the {n} `allclasses_names` from 1"
    if (numbers == 0).any():
        raise DataError(f"{rule}; got 0. They count from 0: add 1.")
    outside = numbers[(numbers < 1) | (numbers > n)]
    if outside.size:
        raise DataError(f"{rule}; got {outside[0]}. Use labels and semantics of one data set.")
    return numbers - 1


def _features(file: MatFile, n: int) -> LazyMatrix:
    rule = f"one column for each of the {n} labels"
    variable = require_matrix(file, "features", (None, n), rule)

    shape = (n, variable.shape[0])

    def read() -> np.ndarray:
        values = np.empty(shape, dtype=np.float32)
        read_into(values.T, file, "features")
        return values

    return LazyMatrix(shape, np.float32, read, str(file.path))


def _check_classes(
    folder: Path, parts: dict[str, np.ndarray], names: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return seen and unseen classes; labels, split and class lists must agree."""
    seen, unseen = np.unique(labels[parts["train"]]), np.unique(labels[parts["test_unseen"]])
    both = np.intersect1d(seen, unseen)
    if both.size:
        raise DataError(
            "Classes of `test_unseen_loc` must have no samples in `trainval_loc`; "
            f"{format_labels(both)} have. Check that labels count along `allclasses_names`, and "
            "that the split belongs to these features."
        )
    for found, name in ((seen, "trainvalclasses.txt"), (unseen, "testclasses.txt")):
        told = class_list(folder / name, names)
        odd = np.setxor1d(told, found)
        if told.size and odd.size:
            raise DataError(
                f"{name} must list the classes of the split; {format_labels(odd)} are in only one "
                "of them. Check that labels count along `allclasses_names`, not along folders, or "
                "remove a list of another split."
            )
    return seen, unseen


def _validation_classes(
    folder: Path,
    fold: int,
    files: list[MatFile],
    train: np.ndarray,
    names: np.ndarray,
    y: np.ndarray,
) -> tuple[np.ndarray, str]:
    """Return validation classes and their source: a class list, or else `val_loc`."""
    if fold not in (1, 2, 3):
        raise DataError(f"`fold` must be 1, 2 or 3; got {fold!r}. Choose one of the class lists.")
    path = folder / f"valclasses{fold}.txt"
    there = [number for number in (1, 2, 3) if (folder / f"valclasses{number}.txt").is_file()]
    if there and fold not in there:
        raise DataError(
            f"{folder} must hold {path.name} for fold={fold}; it holds the lists of the folds "
            f"{', '.join(map(str, there))}. Choose one of these."
        )
    classes = class_list(path, names)
    foreign = np.setdiff1d(classes, y[train])
    if foreign.size:
        raise DataError(
            f"{path.name} must list seen classes; {format_labels(foreign)} have no samples in "
            "`trainval_loc`. Use the lists of the same release as the split."
        )
    if classes.size:
        return classes, path.name
    for file in files:
        if {"train_loc", "val_loc"} <= file.variables.keys():
            both = [_positions(file, key) for key in ("train_loc", "val_loc")]
            # As published they contain all samples of `test_seen_loc` too.
            y_train, y_val = (y[np.intersect1d(part, train)] for part in both)
            return np.setdiff1d(y_val, y_train), "train_loc and val_loc"
    return classes, "none"


# Splits, classes and semantic spaces, which need no features


def read_parts(files: list[MatFile]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return positions of the parts, from 0, and class names; all files must agree on them."""
    first, *others = [_read_parts_of(file) for file in files]
    for file, other in zip(files[1:], others, strict=True):
        for key, values in first.items():
            if not np.array_equal(values, other[key]):
                raise DataError(
                    f"`{_LOCATIONS.get(key, key)}` must be the same in all files of `semantics`; "
                    f"{file.path.name} differs from {files[0].path.name}. Load them one at a time, "
                    "or use files of one release."
                )
    return first, first.pop("allclasses_names")


def _read_parts_of(file: MatFile) -> dict[str, np.ndarray]:
    parts = {part: _positions(file, key) for part, key in _LOCATIONS.items()}
    names = read_mat(file.path, ["allclasses_names"])["allclasses_names"]
    if names.dtype.kind != "U":
        raise DataError(
            f"`allclasses_names` of {file.path} must be a cell array of names; got "
            f"{names.dtype}. Save the names of the classes."
        )
    names = np.char.strip(names)
    if len(np.unique(names)) < len(names):
        raise DataError(
            f"`allclasses_names` of {file.path} must name each class once; some are repeated. "
            "Rename them, or merge their columns."
        )
    return parts | {"allclasses_names": names}


def _positions(file: MatFile, key: str) -> np.ndarray:
    locations = np.sort(read_whole_numbers(file, key))
    if locations.size and locations[0] < 1:
        raise DataError(
            f"`{key}` of {file.path} must count samples from 1; got {locations[0]}. Add 1 if it "
            "counts from 0."
        )
    return locations - 1


def class_list(path: Path, names: np.ndarray) -> np.ndarray:
    """Return the classes of a list, none if there is no such file."""
    if not path.is_file():
        return names[:0]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(
            f"{path} must be a text file, one class per line; it is not UTF-8. Save it as text."
        ) from None
    classes = [line.strip() for line in lines if line.strip()]
    known = set(names.tolist())
    for name in classes:
        if name not in known:
            remedy = did_you_mean(name, known, "Correct it, or remove the line.")
            raise DataError(
                f"{path} must name classes of `allclasses_names`; it names {name!r}. {remedy}"
            )
    return np.unique(np.array(classes, dtype=names.dtype))


def _spaces(files: list[MatFile], names: np.ndarray, first: str | None) -> dict[str, Prototypes]:
    """Return prototypes by the name of their space, the default first."""
    spaces: dict[str, Prototypes] = {}
    rule = f"one column for each of the {len(names)} `allclasses_names`"
    for file in files:
        stem = file.path.stem.removesuffix("_splits")
        require_variable(file, "att", numeric=True)
        for key, space in (("att", stem), ("original_att", f"original_{stem}")):
            if space in spaces:
                raise DataError(
                    f"`semantics` must give each semantic space once; {space!r} is repeated. "
                    f"Rename {file.path.name}, or leave it out."
                )
            if key in file.variables:
                require_matrix(file, key, (None, len(names)), rule)
                with as_data_error(f"`{key}` of {file.path} cannot be used: "):
                    spaces[space] = Prototypes(names, read_numbers(file, key).T)
    if first is None:
        return spaces
    if first not in spaces:
        raise DataError(
            f"`space` must be one of {format_labels(np.array(list(spaces)))}; got {first!r}. Pass "
            "one of them, or name its file in `semantics`."
        )
    return {first: spaces[first], **spaces}


# Releases of the split


def compare_sizes(name: str, sizes: Mapping[str, int]) -> str:
    """Return "match", or how sizes differ from those that the paper states for a data set."""
    if name.upper() not in _PUBLISHED:
        return f"none are published for {name}"
    published = zip(_SIZES, _PUBLISHED[name.upper()], strict=True)
    differences = [
        f"{part} {sizes[part]}, published {size}"
        for part, size in published
        if sizes.get(part, size) != size
    ]
    return f"differ: {'; '.join(differences)}" if differences else "match"


def split_version(name: str, parts: dict[str, np.ndarray]) -> tuple[str, str]:
    """Return the release of the proposed split, "v2", "probably v1" or "unknown", and the reason.

    There are two releases. Only the second one is identified by a known hash.
    """
    locations = np.sort(parts["test_seen"]) + 1
    digest = hashlib.sha256(locations.astype("<i8").tobytes()).hexdigest()[:16]
    if digest in _DIGESTS_OF_V2:
        return "v2", f"fingerprint of {_DIGESTS_OF_V2[digest]}"
    if compare_sizes(name, {part: len(values) for part, values in parts.items()}) == "match":
        return "probably v1", "published sizes, and not the fingerprint of v2"
    return "unknown", "no known fingerprint, and no published name and sizes"
