"""Splits, classes and semantic spaces of the xlsa17 benchmark, which need no features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from ..core.labels import listed
from ..core.prototypes import Prototypes
from .errors import DataError
from .matlab import MatFile, describe_mat, read_mat, require_variable, whole_numbers
from .xlsa17_release import split_version

FOLDS = (1, 2, 3)
LOCATIONS = {
    "train": "trainval_loc",
    "test_seen": "test_seen_loc",
    "test_unseen": "test_unseen_loc",
}


@dataclass(frozen=True, eq=False)
class Xlsa17Splits:
    """All that the benchmark says of a data set but features and labels.

    Attributes
    ----------
    name : str
        Name of the folder.
    train, test_seen, test_unseen : ndarray of int
        Positions of samples, from 0, sorted.
    train_part, val_part : ndarray of int
        `train` in two by classes, where the files do so; empty otherwise.
    class_names : ndarray of str
        Classes in the order that labels count.
    seen_classes, unseen_classes, val_classes : ndarray of str
        From the class lists; empty where there are none.
    spaces : mapping of {str: Prototypes}
        The default first.
    version : str
        Release of the proposed split: "v2", "probably v2", "probably v1" or "unknown".
    told_by : str
        What the version was told by.
    val_told_by : str
        What the validation classes come from.
    """

    name: str
    train: np.ndarray
    test_seen: np.ndarray
    test_unseen: np.ndarray
    train_part: np.ndarray
    val_part: np.ndarray
    class_names: np.ndarray
    seen_classes: np.ndarray
    unseen_classes: np.ndarray
    val_classes: np.ndarray
    spaces: Mapping[str, Prototypes]
    version: str
    told_by: str
    val_told_by: str

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of samples, and of classes where there are lists of them."""
        sizes = {part: len(getattr(self, part)) for part in LOCATIONS}
        if self.seen_classes.size and self.unseen_classes.size:
            sizes |= {"seen": len(self.seen_classes), "unseen": len(self.unseen_classes)}
        return sizes

    @property
    def split_name(self) -> str:
        """What to call the split in records; PS is the paper's "proposed split"."""
        if self.version == "unknown":
            return "PS, version unknown"
        *doubt, version = self.version.split()
        return " ".join([*doubt, "PS", version])


def read_splits(
    folder: str | Path,
    *,
    semantics: str | Sequence[str] = "att_splits",
    space: str | None = None,
    fold: int = 1,
) -> Xlsa17Splits:
    """Read split, classes and semantic spaces of a folder; see `load_xlsa17`."""
    folder = Path(folder)
    if fold not in FOLDS:
        raise DataError(f"`fold` must be 1, 2 or 3; got {fold!r}. Choose one of the class lists.")
    stems = [semantics] if isinstance(semantics, str) else list(semantics)
    files = [describe_mat(mat_path(folder, stem, "semantics")) for stem in stems]
    if not files:
        raise DataError('`semantics` must name a file; got none. Pass semantics="att_splits".')
    parts = [_read_parts(file) for file in files]
    _require_agreement(files, parts)
    first = parts[0]
    train_part, val_part = _parts_of_train(files, first)
    names = first["allclasses_names"]
    val_classes, val_told_by = _validation_list(folder, fold, names)
    if not val_told_by:
        val_told_by = "train_loc and val_loc" if val_part.size else "none"
    name = folder.resolve().name
    sizes = {part: len(first[part]) for part in LOCATIONS}
    version, told_by = split_version(files, first["test_seen"], name, sizes)
    return Xlsa17Splits(
        name=name,
        **{part: first[part] for part in LOCATIONS},
        train_part=train_part,
        val_part=val_part,
        class_names=names,
        seen_classes=_class_list(folder / "trainvalclasses.txt", names),
        unseen_classes=_class_list(folder / "testclasses.txt", names),
        val_classes=val_classes,
        spaces=_spaces(files, names, space),
        version=version,
        told_by=told_by,
        val_told_by=val_told_by,
    )


def mat_path(folder: Path, stem: str, parameter: str) -> Path:
    """Return the path of a file, which `parameter` named, in the folder of a data set."""
    if not folder.is_dir():
        raise DataError(
            f"There must be a folder {folder}. Pass the folder of one data set, such as "
            "xlsa17/data/CUB."
        )
    path = folder / f"{stem.removesuffix('.mat')}.mat"
    if not path.is_file():
        there = ", ".join(sorted(other.stem for other in folder.glob("*.mat"))) or "no .mat file"
        raise DataError(
            f"{folder} must hold {path.name}; it holds {there}. Pass the name of a file there as "
            f"`{parameter}`."
        )
    return path


def _read_parts(file: MatFile) -> dict[str, np.ndarray]:
    """Return positions from 0 and the names of the classes."""
    for key in LOCATIONS.values():
        require_variable(file, key, numeric=True)
    values = read_mat(file.path, [*LOCATIONS.values(), "allclasses_names"])
    names = values["allclasses_names"]
    if names.dtype.kind != "U":
        raise DataError(
            f"`allclasses_names` of {file.path} must be a cell array of names; got "
            f"{names.dtype}. Save the names of the classes."
        )
    names = np.char.strip(names)
    if len(np.unique(names)) < len(names):
        raise DataError(
            f"`allclasses_names` of {file.path} must name a class once; some came more than once. "
            "Rename them, or merge their columns."
        )
    parts = {part: _positions(values[key], key, file) for part, key in LOCATIONS.items()}
    for one, other in (("train", "test_seen"), ("train", "test_unseen")):
        shared = np.intersect1d(parts[one], parts[other])
        if shared.size:
            raise DataError(
                f"`{LOCATIONS[one]}` and `{LOCATIONS[other]}` of {file.path} must not share "
                f"samples; {shared.size} are in both, the first is {shared[0] + 1}. Remove them "
                f"from `{LOCATIONS[one]}`."
            )
    return {**parts, "allclasses_names": names}


def _positions(values: np.ndarray, key: str, file: MatFile) -> np.ndarray:
    locations = np.sort(whole_numbers(values, f"`{key}` of {file.path}"))
    if locations.size and locations[0] < 1:
        raise DataError(
            f"`{key}` of {file.path} must count samples from 1; got {locations[0]}. Add 1 if it "
            "counts from 0."
        )
    return locations - 1


def _require_agreement(files: list[MatFile], parts: list[dict[str, np.ndarray]]) -> None:
    for file, other in zip(files[1:], parts[1:], strict=True):
        for part, key in {**LOCATIONS, "allclasses_names": "allclasses_names"}.items():
            if not np.array_equal(parts[0][part], other[part]):
                raise DataError(
                    f"`{key}` must be the same in all files of `semantics`; {file.path.name} "
                    f"differs from {files[0].path.name}. Load them one at a time, or take files "
                    "of one release."
                )


def _parts_of_train(
    files: list[MatFile], parts: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return `train_loc` and `val_loc` of the first file that has both."""
    for file in files:
        if {"train_loc", "val_loc"} <= file.variables.keys():
            values = read_mat(file.path, ["train_loc", "val_loc"])
            both = [_positions(values[key], key, file) for key in ("train_loc", "val_loc")]
            # As published they hold all samples of `test_seen_loc` too.
            train, val = (np.intersect1d(part, parts["train"]) for part in both)
            return train, val
    return np.array([], dtype=np.int64), np.array([], dtype=np.int64)


def _validation_list(folder: Path, fold: int, names: np.ndarray) -> tuple[np.ndarray, str]:
    path = folder / f"valclasses{fold}.txt"
    there = [number for number in FOLDS if (folder / f"valclasses{number}.txt").is_file()]
    if there and fold not in there:
        raise DataError(
            f"{folder} must hold {path.name} for fold={fold}; it holds the lists of the folds "
            f"{', '.join(map(str, there))}. Choose one of these."
        )
    classes = _class_list(path, names)
    return classes, path.name if classes.size else ""


def _class_list(path: Path, names: np.ndarray) -> np.ndarray:
    """Return the classes of a list, none where there is no such file."""
    if not path.is_file():
        return np.array([], dtype=names.dtype)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(
            f"{path} must be a text file, one class a line; it is not UTF-8. Save it as text."
        ) from None
    classes = [line.strip() for line in lines if line.strip()]
    known = set(names.tolist())
    for name in classes:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]!r}?" if close else "Correct it, or remove the line."
            raise DataError(
                f"{path} must name classes of `allclasses_names`; it names {name!r}. {meant}"
            )
    return np.unique(np.array(classes, dtype=names.dtype))


def _spaces(files: list[MatFile], names: np.ndarray, first: str | None) -> dict[str, Prototypes]:
    """Return prototypes by the name of their space, the default first."""
    spaces: dict[str, Prototypes] = {}
    for file in files:
        stem = file.path.stem.removesuffix("_splits")
        require_variable(file, "att", numeric=True)
        for key, space in (("att", stem), ("original_att", f"original_{stem}")):
            if space in spaces:
                raise DataError(
                    f"`semantics` must give each semantic space once; {space!r} came twice. Rename "
                    f"{file.path.name}, or leave it out."
                )
            if key in file.variables:
                spaces[space] = _prototypes(file, key, names)
    if first is None:
        return spaces
    if first not in spaces:
        raise DataError(
            f"`space` must be one of {listed(np.array(list(spaces)))}; got {first!r}. Pass one of "
            "them, or name its file in `semantics`."
        )
    return {first: spaces[first], **spaces}


def _prototypes(file: MatFile, key: str, names: np.ndarray) -> Prototypes:
    require_variable(file, key, numeric=True)
    matrix = read_mat(file.path, [key])[key]
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        remedy = f"Transpose it: save {key}'." if matrix.shape[0] == len(names) else "Check both."
        raise DataError(
            f"`{key}` of {file.path} must have one column for each of the {len(names)} "
            f"`allclasses_names`; its shape is {matrix.shape}. {remedy}"
        )
    try:
        return Prototypes(names, matrix.T)
    except ValueError as error:
        raise DataError(f"`{key}` of {file.path} cannot be used: {error}") from None
