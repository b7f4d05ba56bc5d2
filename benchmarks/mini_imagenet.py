"""Load unit-length mini-ImageNet features and prototypes for the few-shot benchmarks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recording import HERE
from zonkey import BaseClasses, Moments
from zonkey.preprocessing import FeatureNormalizer
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet


@dataclass(frozen=True, eq=False)
class MiniImageNet:
    """Samples of the test classes, and the base classes."""

    X: np.ndarray
    y: np.ndarray
    base: BaseClasses
    classes: np.ndarray
    sha256: str


def folder() -> Path:
    root = Path(os.environ.get("ZONKEY_DATA", HERE.parent.parent / "shared" / "data"))
    return root / "mini_imagenet"


def load(part: str) -> MiniImageNet:
    """Return the 20 novel classes, or 16 validation classes unknown to their backbone."""
    path = folder() / ("wrn28_10.npz" if part == "novel" else "wrn28_10_train64.npz")
    data = load_mini_imagenet(path, novel="test" if part == "novel" else "val")
    X = FeatureNormalizer().fit_transform(data.X.astype(np.float64))
    known = data.prototypes.normalized()
    base, novel = data.split.base, data.split.novel
    moments = Moments.from_arrays(X[base], data.y[base], known)
    return MiniImageNet(
        X[novel], data.y[novel], BaseClasses(moments), data.unseen_classes, data.sha256
    )
