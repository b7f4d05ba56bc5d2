"""mini-ImageNet features for the few-shot benchmarks: unit length, with class prototypes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recording import HERE
from zonkey import Moments, Prototypes
from zonkey.core.frame import BaseClasses
from zonkey.preprocessing import FeatureNormalizer


@dataclass(frozen=True, eq=False)
class MiniImageNet:
    """Samples of the classes to test on, and the base classes."""

    X: np.ndarray
    y: np.ndarray
    base: BaseClasses
    classes: np.ndarray
    sha256: str


def folder() -> Path:
    root = Path(os.environ.get("ZONKEY_DATA", HERE.parent.parent / "shared" / "data"))
    return root / "mini_imagenet"


def load(part: str) -> MiniImageNet:
    """Return 20 novel classes, or 16 validation classes of a backbone that never saw them."""
    path = folder() / ("wrn28_10.npz" if part == "novel" else "wrn28_10_train64.npz")
    with np.load(path) as file:
        X = FeatureNormalizer().fit_transform(file["features"].astype(np.float64))
        y, Y = file["labels"].astype(int), file["prototypes"].astype(np.float64)
        n_base = int(file["n_backbone_classes"])
    known = Prototypes(np.arange(len(Y)), Y).normalized()
    moments = Moments.from_arrays(X[y < n_base], y[y < n_base], known)
    classes = np.arange(80, 100) if part == "novel" else np.arange(64, 80)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    chosen = np.isin(y, classes)
    return MiniImageNet(X[chosen], y[chosen], BaseClasses(moments), classes, digest)
