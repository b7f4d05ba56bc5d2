"""What is done to features and prototypes before a model sees them, by preset."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.pipeline import Pipeline

from ..core.prototypes import Prototypes
from ..preprocessing import FeatureNormalizer
from ..presets.zero_shot import preprocessing, prototype_transformer

Preset = Literal["paper", "recommended"]


def feature_steps(preset: Preset) -> Pipeline:
    """Return the unfitted steps that make features ready."""
    if preset == "recommended":
        return preprocessing()
    return Pipeline([("unit", FeatureNormalizer())])


def prepared_prototypes(
    prototypes: Prototypes, preset: Preset, seen: np.ndarray | None = None
) -> Prototypes:
    """Return prototypes for a classifier that takes them as they come.

    What is learned of them is learned from the classes `seen`; None: from all.
    """
    if preset == "paper":
        return prototypes.normalized()
    known = prototypes if seen is None else prototypes.subset(seen)
    transformer = prototype_transformer().fit(known.matrix)
    return Prototypes(prototypes.labels, transformer.transform(prototypes.matrix))
