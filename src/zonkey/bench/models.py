"""The models that the experiments compare: what is fixed of each, and what is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..core.frame import BaseClasses
from ..core.prototypes import Prototypes
from ..estimators import FewShotClassifier, NearestSupport, ZeroShotClassifier
from ..presets.zero_shot import prototype_transformer
from .preparation import Preset, feature_steps, prepared_prototypes

Grid = dict[str, list[Any]] | list[dict[str, list[Any]]]

CLASSIFY = "classify"  # the last step of every pipeline
_MOST_QUICK_POINTS = 8


@dataclass(frozen=True)
class ZeroShotModel:
    """A zero-shot classifier behind the preprocessing of a preset.

    Attributes
    ----------
    fixed : dict
        Parameters of the classifier.
    grid : dict or list of dicts
        Parameters of the classifier to choose on training classes.
    is_random : bool
        Whether the seed matters.
    preset : {"paper", "recommended"}
        What comes first: features and prototypes at unit length, or what `recommended` does.
    classifier : type
        `ZeroShotClassifier`, or a peer.
    calibrates : bool
        Whether the penalty of seen classes is chosen too, on held-out training classes.
    extends : str
        Model whose chosen parameters this one starts from; "" for none.
    """

    fixed: dict[str, Any]
    grid: Grid
    is_random: bool = False
    preset: Preset = "paper"
    classifier: type[Any] = ZeroShotClassifier
    calibrates: bool = False
    extends: str = ""

    def build(
        self, prototypes: Prototypes, seed: int, *, seen: np.ndarray | None = None, **chosen: Any
    ) -> Pipeline:
        """Return the pipeline, whose last step `classify` is the classifier.

        `seen` are the classes that a peer's prototypes are prepared by, as it has no transformer
        of its own that would learn from the classes it is fitted on; None: all of them.
        """
        has = self.classifier().get_params(deep=False)
        parameters = dict(self.fixed)
        if "random_state" in has:
            parameters["random_state"] = seed
        if self.preset == "recommended" and "prototype_transformer" in has:
            parameters["prototype_transformer"] = prototype_transformer()
        else:
            prototypes = prepared_prototypes(prototypes, self.preset, seen)
        classifier = self.classifier(prototypes, **parameters)
        pipeline = Pipeline([*feature_steps(self.preset).steps, (CLASSIFY, classifier)])
        return pipeline.set_params(**prefixed(chosen))

    def record(self) -> dict[str, Any]:
        """Return what the settings of a run say about the model."""
        return {
            "model": self.fixed,
            "preset": self.preset,
            "classifier": self.classifier.__name__,
            "calibrates": self.calibrates,
        }


@dataclass(frozen=True)
class FewShotModel:
    """A few-shot classifier on features and prototypes that a preset has made ready.

    Attributes
    ----------
    fixed : dict
        Parameters of `FewShotClassifier`, or of `NearestSupport` for a baseline. Where `fusion` is
        "auto", the worth of a prototype is measured on validation classes.
    grid : dict or list of dicts
        Parameters to choose on validation classes.
    is_baseline : bool
        Whether it does without prototypes and base classes.
    preset : {"paper", "recommended"}
    zero_shot : str
        Zero-shot model whose chosen parameters serve where there is no shot; "" for its own.
    """

    fixed: dict[str, Any]
    grid: Grid
    is_baseline: bool = False
    preset: Preset = "paper"
    zero_shot: str = "BPL"

    @property
    def from_zero(self) -> bool:
        """Whether it can do without a shot: base classes and prototypes are all it needs."""
        return not self.is_baseline and self.fixed.get("base", "given") is not None

    @property
    def measures_worth(self) -> bool:
        """Whether it asks how many shots a prototype is worth."""
        return self.fixed.get("fusion") == "auto"

    def build(self, prototypes: Prototypes, base: BaseClasses, **chosen: Any) -> BaseEstimator:
        """Return the estimator."""
        if self.is_baseline:
            return NearestSupport(**self.fixed)
        parameters: dict[str, Any] = {"base": base, **self.fixed}
        if self.preset == "recommended":
            parameters["prototype_transformer"] = prototype_transformer()
        return FewShotClassifier(prototypes, **parameters).set_params(**chosen)

    def record(self) -> dict[str, Any]:
        """Return what the settings of a run say about the model."""
        return {"model": self.fixed, "preset": self.preset}


def prefixed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of the classifier under the names that they have in a pipeline."""
    return {f"{CLASSIFY}__{name}": value for name, value in parameters.items()}


def as_dicts(grid: Grid) -> list[dict[str, list[Any]]]:
    """Return a grid as scikit-learn's list of dicts; of an empty one, nothing."""
    return [part for part in (grid if isinstance(grid, list) else [grid]) if part]


def thinned(grid: Grid) -> Grid:
    """Return the first and the middle value of every parameter: a grid for quick runs.

    Beyond eight points the last parameters keep their first value alone.
    """
    if isinstance(grid, list):
        return [_thinned(part) for part in grid]
    return _thinned(grid)


def _thinned(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    thin, n_points = {}, 1
    for name, values in grid.items():
        both = sorted({values[0], values[len(values) // 2]}, key=lambda v: (v is None, v))
        thin[name] = both if n_points * len(both) <= _MOST_QUICK_POINTS else values[:1]
        n_points *= len(thin[name])
    return thin
