"""Classifiers from texts, for few-shot systems with prototypes."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from zonkey.hashing import hash_object
from zonkey.prototypes import Prototypes

from ..base import CheckedMixin, class_means, unit_rows
from .base import BaseSamples, Support, center_rows

_RIDGES = 10.0 ** np.arange(-3, 4)  # in units of the mean squared length of centered prototypes
LOGIT_SCALE = 100.0  # of cosines between samples and texts, as in CLIP
_LEAST_CLASSES = 2  # least number of base classes with prototypes to learn a regression


class TextMixin(CheckedMixin):
    """The first parameters of systems with texts.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vectors of novel classes, and of base classes if they come from another space than
        the features. None: the shots alone.
    base : BaseSamples, default=None
        Samples of base classes. None: features are not centered, and prototypes must have their
        dimension.
    """

    prototypes: Any = field(default=None, kw_only=False)
    base: BaseSamples | None = field(default=None, kw_only=False)


def text_classifier(prototypes: Any, support: Support) -> np.ndarray:
    """Return a weight vector of unit length for each novel class, from its prototype alone.

    If base classes have prototypes, ridge regression learns to predict the class means of features
    (centered, unit length) from them. The penalty is the one with the least squared error of base
    classes that are left out. Otherwise prototypes are weights already, as in the joint space of
    CLIP. Without prototypes all weights are zero.
    """
    n_features = support.X.shape[1]
    if prototypes is None:
        return np.zeros((support.n_classes, n_features))
    known = Prototypes.coerce(prototypes)
    novel = known.subset(support.classes).matrix.astype(np.float64)
    base = support.base
    if base is not None:
        described = np.isin(base.classes, known.labels)
        if described.sum() >= _LEAST_CLASSES:
            return unit_rows(_predict_means(novel, known, base, described))
    if known.n_dimensions != n_features:
        raise ValueError(
            f"Prototypes must have the {n_features} dimensions of the features if no base classes "
            f"have prototypes; got {known.n_dimensions}. Pass `base` and the prototypes of its "
            "classes, or embed samples and texts in a joint space."
        )
    return unit_rows(novel)


def _predict_means(
    novel: np.ndarray, known: Prototypes, base: BaseSamples, described: np.ndarray
) -> np.ndarray:
    """Return the predicted means of novel classes (m x d)."""
    known = known.subset(base.classes[described])
    key = hash_object("texts", known.labels, known.matrix)
    return base.learn_once(key, lambda: _fit_regression(known, base, described)).predict(novel)


def _fit_regression(known: Prototypes, base: BaseSamples, described: np.ndarray) -> Any:
    """Return the ridge regression of class means on prototypes."""
    means = class_means(center_rows(base.X, base.mean), base.codes)[described]
    Y = known.matrix.astype(np.float64)
    scale = float(np.square(Y - Y.mean(axis=0)).sum(axis=1).mean()) or 1.0
    return RidgeCV(alphas=scale * _RIDGES).fit(Y, means)
