"""The paper as printed: unit-length features and prototypes, then BPL."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from ..core.prototypes import Prototypes
from ..estimators import ZeroShotClassifier
from ..preprocessing import FeatureNormalizer


def paper(prototypes: Any, **parameters: Any) -> Pipeline:
    """Return the paper's zero-shot model: rows of features and prototypes at unit length, then BPL.

    The paper does not say how it normalizes; unit length for both is the reading that this
    preset names. `parameters` go to `ZeroShotClassifier`, whose defaults are otherwise those
    of the paper; rho, alpha and mu are to be chosen by `ZeroShotSearchCV`. The last step takes
    prototypes as they come, so that new ones need the same treatment:
    ``model[-1].with_classes(Prototypes(labels, matrix).normalized())``.

    Examples
    --------
    >>> model = paper({"horse": [0, 1], "zebra": [1, 1]}, synthesis=None, candidates="all")
    >>> list(model.named_steps)
    ['featurenormalizer', 'zeroshotclassifier']
    """
    unit = Prototypes.coerce(prototypes).normalized()
    return make_pipeline(FeatureNormalizer(norm="l2"), ZeroShotClassifier(unit, **parameters))
