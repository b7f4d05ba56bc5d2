"""Fit a model to files of features and prototypes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset, load_features
from ..datasets.streams import FeatureStream
from ..estimators.scoring import unwrapped
from ..presets import paper, recommended
from .loading import FEATURE_NAMES, read_rows


@dataclass(frozen=True)
class Training:
    """Files to learn from, and what is in them."""

    features: Path
    prototypes: Path
    unlabeled: Path | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # where labels and features are in the files

    def read(self) -> Dataset:
        """Read features and prototypes."""
        return load_features(self.features, self.prototypes, **self.keys)

    def read_unlabeled(self, names: list[str] | None, n_features: int) -> np.ndarray:
        """Read the samples without labels."""
        assert self.unlabeled is not None
        stream = FeatureStream(self.unlabeled, n_features=n_features, feature_names=names)
        return read_rows(stream, "Reading unlabeled samples")[0]

    def facts(self, names: list[str] | None) -> dict[str, Any]:
        """Return what a model file says about the training."""
        files = {"features": self.features, "prototypes": self.prototypes}
        if self.unlabeled is not None:
            files["unlabeled"] = self.unlabeled
        facts: dict[str, Any] = {name: path.name for name, path in files.items()}
        return facts if names is None else {**facts, FEATURE_NAMES: names}


def fit_recommended(
    data: Dataset, unlabeled: np.ndarray | None, say: Callable[[str], Any], **parameters: Any
) -> Any:
    """Fit the recommended model; with rows `val`, parameters are chosen on their classes."""
    model = recommended(data.prototypes, **parameters)
    X, y = data.X_train, data.y_train
    is_val = np.isin(y, data.split.val_classes)
    say("Choosing parameters")
    if is_val.any():
        model.fit(X[~is_val], y[~is_val], validation=(X[is_val], y[is_val]))
        # Chosen: now their samples teach too, and their classes are seen.
        model = model.partial_fit(X[is_val], y[is_val]).with_candidates(model.candidates)
    else:
        model.fit(X, y)
    if unlabeled is None:
        return model
    say("Learning from unlabeled samples")
    return model.adapt(unlabeled)


def fit_paper(
    data: Dataset, unlabeled: np.ndarray | None, say: Callable[[str], Any], **parameters: Any
) -> Any:
    """Fit the paper's model with its default parameters; rows `val` are training samples."""
    model = paper(data.prototypes, **parameters)
    say("Learning the projection")
    if unlabeled is None:
        return model.fit(data.X_train, data.y_train)
    steps, last = unwrapped(model)
    X = steps.fit_transform(data.X_train)
    last.fit_transductive(X, data.y_train, steps.transform(unlabeled))
    return model


PRESETS: dict[str, Callable[..., Any]] = {"recommended": fit_recommended, "paper": fit_paper}
