"""Simple baselines for the evaluated model.

Their parameters are fixed, or chosen on training classes; test samples take no part. All learn from
features of unit length.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _get_feature_names

from ..arrays import to_numpy
from ..bpl.nearest_support import NearestSupport
from ..bpl.zero_shot import ZeroShotClassifier
from ..inference.projection import NearestPrototypeMixin
from ..inference.scorer import LinearScores
from ..labels import as_labels, format_labels, require_same_kind
from ..preprocessing import FeatureNormalizer
from ..prototypes import Prototypes

_ALPHAS = tuple(10.0**power for power in range(-3, 4))
_SEEN_ONLY = "It knows seen classes only: its accuracy on unseen ones is 0 by construction."
NOTES = {
    "nearest-mean": f"the class whose training samples have the nearest mean. {_SEEN_ONLY}",
    "ridge": (
        "ridge regression of class means on prototypes of unit length (scikit-learn's RidgeCV, "
        "penalty chosen by leaving out training classes); the nearest predicted mean."
    ),
    "logistic": (
        "scikit-learn's LogisticRegression with its default parameters on standardized features. "
        f"{_SEEN_ONLY}"
    ),
    "paper": (
        "the paper's model (BPL) with the parameters as printed, on prototypes of unit length; no "
        "penalty of seen classes."
    ),
}
BASELINES = tuple(NOTES)


@dataclass(frozen=True, eq=False)
class BaselineData:
    """What baselines learn from."""

    X: np.ndarray
    y: np.ndarray
    prototypes: Prototypes | None  # of known classes
    candidates: np.ndarray  # classes to choose from
    seen: np.ndarray  # those of them that the model under evaluation has samples of
    seed: int

    def of(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the samples of some classes."""
        kept = np.isin(self.y, labels)
        if not kept.any():
            raise ValueError(
                f"Baselines need training samples of {format_labels(labels)}; got labels "
                f"{format_labels(np.unique(self.y))}. Pass the samples that the model was fitted "
                "on."
            )
        return self.X[kept], self.y[kept]

    def gaps(self) -> tuple[str, ...]:
        """Return a note if seen classes have no samples."""
        missing = np.setdiff1d(self.seen, self.y)
        if not missing.size:
            return ()
        return (
            f"`training` has no samples of {len(missing)} of {len(self.seen)} seen classes, "
            f"{format_labels(missing)}: the baseline is weaker than one that learned from "
            "all of them.",
        )


class PrototypeRidge(NearestPrototypeMixin, BaseEstimator):
    """Ridge regression of class means on prototypes; predicts the nearest mean."""

    def __init__(self, prototypes: Any = None, *, candidates: Any = "unseen") -> None:
        self.prototypes = prototypes
        self.candidates = candidates

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the means of classes that all have a prototype."""
        known = Prototypes.coerce(self.prototypes)
        means: Any = NearestSupport("mean").fit(X, y)
        seen = to_numpy(means.classes_)
        # Leaving out one of two classes leaves nothing to compare.
        self.ridge_: Any = RidgeCV(alphas=_ALPHAS) if len(seen) > 2 else Ridge()
        self.ridge_.fit(known.subset(seen).matrix, to_numpy(means.references_))
        self.projection_ = np.atleast_2d(self.ridge_.coef_)
        self.n_features_in_ = means.n_features_in_
        self.seen_penalty_ = 0.0
        self._set_known(known, seen)
        return self

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = self.ridge_.predict(known.matrix).reshape(len(known), -1)
        return LinearScores.from_distances(centers.astype(dtype))


def fit_baselines(
    names: Sequence[str], training: BaselineData
) -> tuple[list[tuple[str, Any, tuple[str, ...]]], tuple[str, ...]]:
    """Return name, fitted model and notes of each baseline, and why others are left out."""
    found, left_out = [], []
    for name in names:
        if name == "logistic" and len(labels := np.unique(training.of(training.candidates)[1])) < 2:
            left_out.append(
                'the baseline "logistic" is left out: it needs samples of two classes; `training` '
                f"has samples of {format_labels(labels)}."
            )
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = _fit_baseline(name, training)
        heard = dict.fromkeys(str(warning.message) for warning in caught)
        found.append((name, model, (NOTES[name], *training.gaps(), *heard)))
    return found, tuple(left_out)


def training_of(
    training: Any,
    X_test: Any,
    prototypes: Prototypes | None,
    seen: np.ndarray,
    labels: np.ndarray,
    seed: int,
) -> BaselineData:
    """Return checked training data; `labels` are the classes under evaluation."""
    if not isinstance(training, tuple | list) or len(training) != 2:
        raise ValueError(
            "`training` must be a pair (X, y) of the samples that the model was fitted on, because "
            f"baselines learn from them; got {_kind_of(training)}. Pass training=(X_train, "
            "y_train), or a Dataset instead of X and y."
        )
    X = np.asarray(to_numpy(training[0]))
    y = as_labels(to_numpy(training[1]) if hasattr(training[1], "shape") else training[1], "y")
    require_same_kind(training=y, labels=labels)
    if len(X) != len(y):
        raise ValueError(
            f"`training` must have one label per sample; got {len(X)} samples and {len(y)} "
            "labels. Pass X and y of the same samples."
        )
    shapes = X.shape[1:], tuple(getattr(X_test, "shape", (0, *X.shape[1:]))[1:])
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"`training` must have as many features as the test samples; got {shapes[0]} and "
            f"{shapes[1]}. Prepare both in the same way."
        )
    _require_same_columns(training[0], X_test)
    leaked = np.setdiff1d(np.intersect1d(y, labels), seen)
    if leaked.size:
        raise ValueError(
            "`training` must not have samples of classes that are unseen to the model; got "
            f"{format_labels(leaked)}. Pass the samples that the model was fitted on."
        )
    return BaselineData(X, y, prototypes, labels, seen, seed)


def _require_same_columns(X: Any, X_test: Any) -> None:
    """Refuse tables whose columns have other names, or another order."""
    names = [_get_feature_names(table) for table in (X, X_test)]
    if names[0] is None or names[1] is None:
        return
    other = next((i for i, pair in enumerate(zip(*names, strict=True)) if pair[0] != pair[1]), None)
    if other is not None:
        raise ValueError(
            "`training` must have the columns of the test samples, in the same order; column "
            f"{other} is {names[0][other]!r} instead of {names[1][other]!r}. Reorder the columns."
        )


def _fit_baseline(name: str, training: BaselineData) -> Any:
    """Return a fitted pipeline."""
    labels, steps = training.candidates, []
    if name == "nearest-mean":
        steps = [NearestSupport("mean")]
    elif name == "logistic":
        steps = [StandardScaler(), LogisticRegression()]
    elif training.prototypes is None:
        raise ValueError(
            'The baselines "ridge" and "paper" need prototypes; the model has none. Fit it with '
            "prototypes, or leave them out."
        )
    else:
        unit = training.prototypes.normalized()
        labels, chosen = unit.labels, np.intersect1d(training.candidates, unit.labels).tolist()
        if name == "ridge":
            steps = [PrototypeRidge(unit, candidates=chosen)]
        else:
            steps = [ZeroShotClassifier(unit, candidates=chosen, random_state=training.seed)]
    return make_pipeline(FeatureNormalizer(), *steps).fit(*training.of(labels))


def _kind_of(training: Any) -> str:
    if isinstance(training, tuple | list):
        return f"{len(training)} parts"
    return "None" if training is None else type(training).__name__
