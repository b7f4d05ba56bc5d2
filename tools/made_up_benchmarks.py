"""Write files of the names, variables, types and sizes of the paper's data, with made-up features.

For tests and measurements on machines that have no copy of the data: AWA1, AWA2, CUB, SUN and aPY
of xlsa17 with ResNet101 features, ImageNet with GoogLeNet features as released with SAE, and
mini-ImageNet with features of the simple CNN. Accuracies on them mean nothing.

    python tools/made_up_benchmarks.py FOLDER awa2 cub sun --per-class 30
    zonkey bench all --data awa2 cub sun --folder FOLDER --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import h5py
import numpy as np
from scipy.io import savemat

from zonkey_lab.datasets.matlab import read_mat

_RESNET101, _GOOGLENET, _SIMPLE_CNN, _WORDS = 2048, 1024, 1600, 1000
_DEAD = 5  # features that are always 0, as after a ReLU
_BLOCK = 4096  # images made at a time
_KINDS = {"f8": b"double", "f4": b"single", "u2": b"uint16"}


@dataclass(frozen=True)
class Benchmark:
    """Sizes of a data set of xlsa17 as published: attributes, classes, and images by part."""

    attributes: int
    seen: int
    unseen: int
    train: int
    test_seen: int
    test_unseen: int


XLSA17 = {
    "awa1": Benchmark(85, 40, 10, 19832, 4958, 5685),
    "awa2": Benchmark(85, 40, 10, 23527, 5882, 7913),
    "cub": Benchmark(312, 150, 50, 7057, 1764, 2967),
    "sun": Benchmark(102, 645, 72, 10320, 2580, 1440),
    "apy": Benchmark(64, 20, 12, 5932, 1483, 7924),
}
_LOCATIONS = ("trainval_loc", "test_seen_loc", "test_unseen_loc")


def write_xlsa17(
    folder: Path,
    name: str,
    *,
    per_class: int | None = None,
    n_features: int = _RESNET101,
    splits: Path | None = None,
    save: Callable[..., None] | None = None,
) -> Path:
    """Write res101.mat, att_splits.mat and class lists below `folder`; return their folder.

    `splits` is a folder with the real att_splits.mat and class lists. `per_class` keeps that many
    images of each class; None: as many as published. `save` writes a file.
    """
    rng = np.random.default_rng(0)
    target = folder / "xlsa17" / "data" / name.upper()
    target.mkdir(parents=True, exist_ok=True)
    variables = _made_up_splits(XLSA17[name], rng) if splits is None else _real(splits, target)
    if splits is None:
        _write_lists(target, variables["allclasses_names"])
    names = variables["allclasses_names"]
    numbers = _class_numbers(target, names, [variables[key].ravel() for key in _LOCATIONS])
    if per_class is not None:
        numbers = _keep_some(variables, numbers, per_class)
    features = make_features(variables["att"].T, numbers, n_features, rng)
    images = {
        "features": features.T,
        "labels": numbers[:, None] + 1.0,
        "image_files": [f"/images/{names[j]}/{i:05d}.jpg" for i, j in enumerate(numbers)],
    }
    (save or save_mat5)(target / "res101.mat", images)
    save_mat5(target / "att_splits.mat", variables)
    return target


def write_imnet(
    folder: Path, *, seen: int = 1000, unseen: int = 360, per_class: int = 200, test: int = 150
) -> Path:
    """Write a file as released with SAE; return it. The sizes are those published by default."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(seen + unseen, _WORDS))
    numbers = np.repeat(np.arange(seen + unseen), [per_class] * seen + [test] * unseen)
    features = make_features(vectors, numbers, _GOOGLENET, rng)
    n = seen * per_class
    ids = np.arange(1.0, unseen + 1)
    path = folder / "imnet" / "ImNet_2_demo_data.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    variables = {
        "X_tr": features[:n],
        "X_te": features[n:],
        "Y": np.eye(seen, dtype=np.uint8)[numbers[:n]],  # MATLAB stores 0 and 1 in a byte each
        "S_tr": vectors[numbers[:n]],
        "S_te_pro": vectors[seen:],
        "X_te_cl_id": ids[:, None],
        "Y_te": ids[numbers[n:] - seen][:, None],
    }
    save_mat5(path, variables)
    return path


def write_simple_cnn(folder: Path, *, per_class: int = 600) -> tuple[Path, Path]:
    """Write features of the simple CNN on mini-ImageNet: of 80 base classes, and of 64."""
    rng = np.random.default_rng(2)
    names = [f"class {number:02d}" for number in range(100)]
    vectors = rng.normal(size=(100, 384)).astype(np.float32)
    numbers = np.repeat(np.arange(100), per_class)
    paths = []
    for stem, n_classes in (("conv4", 80), ("conv4_train64", 64)):
        path = folder / "mini_imagenet" / f"{stem}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        features = make_features(vectors, numbers, _SIMPLE_CNN, rng).astype(np.float16)
        arrays = {"features": features, "labels": numbers, "class_names": np.array(names)}
        np.savez(path, **arrays, prototypes=vectors, n_backbone_classes=np.int64(n_classes))
        paths.append(path)
    return paths[0], paths[1]


def make_features(
    vectors: np.ndarray, numbers: np.ndarray, d: int, rng: np.random.Generator
) -> np.ndarray:
    """Return doubles that are exact in single precision, not negative, some always 0."""
    W = rng.normal(size=(vectors.shape[1], d)) / np.linalg.norm(vectors, axis=1).mean()
    centers = np.maximum(vectors @ W, 0).astype(np.float32)
    centers[:, :_DEAD] = 0
    X = np.empty((len(numbers), d))
    for start in range(0, len(numbers), _BLOCK):
        rows = slice(start, start + _BLOCK)
        center = centers[numbers[rows]]
        noise = rng.standard_normal(center.shape, dtype=np.float32)
        X[rows] = np.maximum(center + 0.5 * noise * (centers.max(axis=0) > 0), 0)
    return X


def _made_up_splits(sizes: Benchmark, rng: np.random.Generator) -> dict[str, Any]:
    n_classes = sizes.seen + sizes.unseen
    names = [f"{number:03d}.Made_Up_{number}" for number in rng.permutation(n_classes) + 1]
    original = 100 * rng.random((sizes.attributes, n_classes))
    places = 1.0 + rng.permutation(sizes.train + sizes.test_seen + sizes.test_unseen)
    ends = np.cumsum([sizes.train, sizes.test_seen])
    parts = zip(_LOCATIONS, np.split(places, ends), strict=True)
    return {
        "att": original / np.linalg.norm(original, axis=0),
        "original_att": original,
        "allclasses_names": names,
        **{key: np.sort(part)[:, None] for key, part in parts},
    }


def _write_lists(target: Path, names: list[str]) -> None:
    """Write which classes are seen, unseen, and for validation in each of three folds."""
    sizes = XLSA17[target.name.lower()]
    seen, unseen = names[: sizes.seen], names[sizes.seen :]
    lists = {"trainvalclasses": seen, "testclasses": unseen}
    for fold in (1, 2, 3):
        lists[f"valclasses{fold}"] = seen[fold - 1 :: 3]
        lists[f"trainclasses{fold}"] = sorted({*seen} - {*seen[fold - 1 :: 3]})
    for stem, members in lists.items():
        (target / f"{stem}.txt").write_text("\n".join(members) + "\n", encoding="utf-8")


def _real(splits: Path, target: Path) -> dict[str, Any]:
    for path in splits.glob("*.txt"):
        copyfile(path, target / path.name)
    variables: dict[str, Any] = read_mat(splits / "att_splits.mat")
    found = {key: np.asarray(value) for key, value in variables.items()}
    return {**found, "allclasses_names": found["allclasses_names"].tolist()}


def _class_numbers(target: Path, names: list[str], parts: list[np.ndarray]) -> np.ndarray:
    """Return a class for each image, as evenly as the split allows, from 0."""
    lists = []
    for stem in ("trainvalclasses", "testclasses"):
        lines = (target / f"{stem}.txt").read_text(encoding="utf-8").split("\n")
        lists.append([names.index(line.strip()) for line in lines if line.strip()])
    seen, unseen = (np.array(members) for members in lists)
    numbers = np.empty(sum(map(len, parts)), dtype=int)
    for places, classes in zip(parts, (seen, seen, unseen), strict=True):
        numbers[places.astype(int) - 1] = np.resize(classes, len(places))
    return numbers


def _keep_some(variables: dict[str, Any], numbers: np.ndarray, per_class: int) -> np.ndarray:
    """Keep some images of each class and part, in the shares of the whole, and count them anew."""
    kept = []
    whole = len(numbers) / len(np.unique(numbers))
    for key in _LOCATIONS:
        places = variables[key].ravel().astype(int) - 1
        of_class = [places[numbers[places] == j] for j in np.unique(numbers[places])]
        share = min(1.0, per_class / whole)
        kept.append(np.concatenate([rows[: max(2, round(share * len(rows)))] for rows in of_class]))
    all_kept = np.sort(np.concatenate(kept))
    for key, places in zip(_LOCATIONS, kept, strict=True):
        variables[key] = np.sort(np.searchsorted(all_kept, places))[:, None] + 1.0
    for key in ("train_loc", "val_loc"):
        variables.pop(key, None)
    return numbers[all_kept]


# Writers


def save_mat5(path: Path, variables: dict[str, Any], *, compressed: bool = True) -> None:
    """Write a file of version 5; MATLAB compresses it (`-v7`) by default."""
    savemat(path, {key: _cells(v) for key, v in variables.items()}, do_compression=compressed)


def _cells(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    column = np.empty((len(value), 1), dtype=object)
    column[:, 0] = value
    return column


def save_mat73(path: Path, variables: dict[str, Any]) -> None:
    """Write a file of version 7.3, as `save(..., '-v7.3')` does."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for key, value in variables.items():
            if isinstance(value, list):
                texts = [_put_text(file, f"#refs#/{key}{i}", text) for i, text in enumerate(value)]
                cells = np.array([text.ref for text in texts], dtype=h5py.ref_dtype)
                stored = file.create_dataset(key, data=cells[None, :])
                stored.attrs["MATLAB_class"] = np.bytes_("cell")
                continue
            stored = file.create_dataset(key, data=np.asarray(value).T, compression=None)
            stored.attrs["MATLAB_class"] = np.bytes_(_KINDS[np.asarray(value).dtype.str[1:]])
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def _put_text(file: Any, place: str, text: str) -> Any:
    codes = np.frombuffer(text.encode("utf-16-le"), dtype="<u2")
    stored = file.create_dataset(place, data=codes[:, None])
    stored.attrs["MATLAB_class"] = np.bytes_("char")
    return stored


def main() -> None:
    """Write the files that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", choices=[*XLSA17, "imnet", "mini-imagenet-cnn"])
    parser.add_argument("--per-class", type=int, help="images of each class; all by default")
    parser.add_argument("--splits", type=Path, help="folder xlsa17/data with the real splits")
    parser.add_argument("--plain", action="store_true", help="without compression")
    given = parser.parse_args()

    def save(path: Path, variables: dict[str, Any]) -> None:
        save_mat5(path, variables, compressed=not given.plain)

    for name in given.names:
        if name in XLSA17:
            splits = None if given.splits is None else given.splits / name.upper()
            options = {"per_class": given.per_class, "splits": splits, "save": save}
            print(write_xlsa17(given.folder, name, **options))
        elif name == "imnet":
            n = given.per_class
            print(write_imnet(given.folder, **({} if n is None else {"per_class": n, "test": n})))
        else:
            print(*write_simple_cnn(given.folder, per_class=given.per_class or 600))


if __name__ == "__main__":
    main()
