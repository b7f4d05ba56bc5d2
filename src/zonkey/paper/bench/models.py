"""The models that the experiments compare, by name: fixed parameters, grids, preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ...core.frame import BaseClasses
from ...core.prototypes import Prototypes
from ...estimators import (
    AnyShotClassifier,
    FewShotClassifier,
    NearestSupport,
    ZeroShotClassifier,
)
from ...estimators.choosing import preprocessing, prototype_transformer
from ...peers.zsl import ESZSL, SAE, ExemplarRegression
from ...preprocessing import FeatureNormalizer
from ..experiments import is_zero_shot
from ..records import Key

Preset = Literal["paper", "recommended"]
Grid = dict[str, list[Any]] | list[dict[str, list[Any]]]

CLASSIFY = "classify"  # the last step of every pipeline
_MOST_QUICK_POINTS = 8


@dataclass(frozen=True)
class ZeroShotModel:
    """A zero-shot classifier behind the preprocessing of a preset."""

    fixed: dict[str, Any]
    grid: Grid  # to choose from, on training classes
    preset: Preset = "paper"
    classifier: type[Any] = ZeroShotClassifier
    calibrates: bool = False  # whether held-out training classes choose the penalty of seen ones

    def build(
        self, prototypes: Prototypes, seed: int, *, seen: np.ndarray | None = None, **chosen: Any
    ) -> Pipeline:
        """Return the pipeline; its last step `classify` is the classifier.

        The transformation of prototypes is learned from the classes `seen`; None: all.
        """
        parameters = dict(self.fixed)
        if issubclass(self.classifier, ZeroShotClassifier):
            parameters["random_state"] = seed
        prototypes = prepared_prototypes(prototypes, self.preset, seen)
        classifier = self.classifier(prototypes, **parameters)
        pipeline = Pipeline([*feature_steps(self.preset).steps, (CLASSIFY, classifier)])
        return pipeline.set_params(**prefixed(chosen))

    def record(self) -> dict[str, Any]:
        """Return the settings of a run that describe the model."""
        return {
            "model": self.fixed,
            "preset": self.preset,
            "classifier": self.classifier.__name__,
            "calibrates": self.calibrates,
        }


@dataclass(frozen=True)
class FewShotModel:
    """A few-shot classifier on features and prototypes that a preset has transformed."""

    fixed: dict[str, Any]
    grid: Grid  # to choose from, on validation classes
    is_baseline: bool = False  # whether it uses neither prototypes nor base classes
    preset: Preset = "paper"

    @property
    def from_zero(self) -> bool:
        """Whether it can predict without a shot, from base classes and prototypes."""
        return not self.is_baseline and self.fixed.get("base", "given") is not None

    def build(self, prototypes: Prototypes, base: BaseClasses, **chosen: Any) -> BaseEstimator:
        """Return the estimator."""
        if self.is_baseline:
            return NearestSupport(**self.fixed)
        parameters: dict[str, Any] = {"base": base, **self.fixed}
        return FewShotClassifier(prototypes, **parameters).set_params(**chosen)

    def record(self) -> dict[str, Any]:
        """Return the settings of a run that describe the model."""
        return {"model": self.fixed, "preset": self.preset}


@dataclass(frozen=True)
class AnyShotModel:
    """`AnyShotClassifier` on raw features; it chooses its own parameters instead of a grid."""

    fixed: dict[str, Any]

    grid: ClassVar[Grid] = {}
    preset: ClassVar[Preset] = "recommended"
    calibrates: ClassVar[bool] = True
    from_zero: ClassVar[bool] = True

    def build(
        self, prototypes: Prototypes, seed: int, *, seen: np.ndarray | None = None, **chosen: Any
    ) -> Pipeline:
        """Return a pipeline without preprocessing; `chosen` are parameters as in a record.

        `seen` is ignored: the classifier transforms prototypes itself.
        """
        del seen
        parameters = {**self.fixed, **_from_record(chosen), "random_state": seed}
        classifier = AnyShotClassifier(prototypes, **parameters)
        return Pipeline([("raw", "passthrough"), (CLASSIFY, classifier)])

    def chosen_by(self, fitted: AnyShotClassifier) -> dict[str, Any]:
        """Return what a fitted classifier has chosen, for a record."""
        best = {name: v for name, v in fitted.best_params_.items() if name not in self.fixed}
        steps, transformer = best.pop("preprocessing"), best.pop("prototype_transformer")
        found = {
            "power": steps["power"].power,
            "shrinkage": steps["whiten"].shrinkage,
            "prototype_power": transformer.power,
            "prototype_norm": transformer.norm,
            **best,
        }
        return {name: _short(value) for name, value in found.items()}

    def record(self) -> dict[str, Any]:
        """Return the settings of a run that describe the model."""
        name = AnyShotClassifier.__name__
        return {"model": self.fixed, "preset": self.preset, "classifier": name}


def _from_record(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of `AnyShotClassifier` from those in a record."""
    rest, steps = dict(chosen), {}
    if "power" in rest:
        features = (rest.pop("power"), rest.pop("shrinkage"))
        prototypes = (rest.pop("prototype_power"), rest.pop("prototype_norm"))
        steps["preprocessing"] = preprocessing(*features)
        steps["prototype_transformer"] = prototype_transformer(*prototypes)
    return {**rest, **steps}


def _short(value: Any) -> Any:
    """Round numbers: further digits depend on the machine."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def feature_steps(preset: Preset) -> Pipeline:
    """Return the unfitted preprocessing of features."""
    if preset == "recommended":
        return preprocessing()
    return Pipeline([("unit", FeatureNormalizer())])


def prepared_prototypes(
    prototypes: Prototypes, preset: Preset, seen: np.ndarray | None = None
) -> Prototypes:
    """Return transformed prototypes; the transformation is learned from `seen`, or from all."""
    if preset == "paper":
        return prototypes.normalized()
    known = prototypes if seen is None else prototypes.subset(seen)
    transformer = prototype_transformer().fit(known.matrix)
    return Prototypes(prototypes.labels, transformer.transform(prototypes.matrix))


def prefixed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of the classifier under their names in a pipeline."""
    return {f"{CLASSIFY}__{name}": value for name, value in parameters.items()}


def as_dicts(grid: Grid) -> list[dict[str, list[Any]]]:
    """Return a grid as scikit-learn's list of dicts, without empty ones."""
    return [part for part in (grid if isinstance(grid, list) else [grid]) if part]


def thinned(grid: Grid) -> Grid:
    """Return the first and the middle value of every parameter, for quick runs.

    Beyond eight points, further parameters keep their first value only.
    """
    return [_thinned(part) for part in grid] if isinstance(grid, list) else _thinned(grid)


def _thinned(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    thin, n_points = {}, 1
    for name, values in grid.items():
        both = sorted({values[0], values[len(values) // 2]}, key=lambda v: (v is None, v))
        thin[name] = both if n_points * len(both) <= _MOST_QUICK_POINTS else values[:1]
        n_points *= len(thin[name])
    return thin


# The catalog. Quick runs take the first and the middle value, hence the order of some grids.

_RIDGES: Grid = {"beta": [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}
_PULL: dict[str, list[Any]] = {"rho": [0.2, 0.5, 0.9], "alpha": [0.1, 0.3, 0.6]}
_PUSH: dict[str, list[Any]] = {"mu": [0.1, 0.3]}
_SHOT_WEIGHTS: Grid = {"rho": [0.5, 0.9], "alpha": [0.1, 0.5, 0.9], **_PUSH}
_SAE: Grid = {"lam": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]}
_ESZSL: Grid = {"gamma": [0.1, 10.0, 1.0], "lam": [0.1, 1.0], "negative": [0.0, -1.0]}
_EXEMPLARS: Grid = {"gamma": [0.25, 0.5, 1.0], "ridge": [0.01, 0.03, 0.1, 0.3]}
_PULL_LITTLE: dict[str, list[Any]] = {"alpha": [0.01, 0.1, 0.03], "rho": [0.5, 0.9]}
_NO_SHOTS = 1e6  # worth of a prototype that outweighs any number of shots


def _on_top(push: dict[str, list[Any]] | None = None, **fixed: Any) -> ZeroShotModel:
    """Return the paper's model on recommended features; its ridge is chosen without synthesis."""
    return ZeroShotModel(
        fixed, {**_PULL_LITTLE, **(push or {}), "n_neighbors": [3, 8]}, "recommended"
    )


def _exemplars(preset: Preset) -> ZeroShotModel:
    """Return kernel ridge regression of class means on prototypes."""
    return ZeroShotModel({"kernel": "rbf"}, _EXEMPLARS, preset, classifier=ExemplarRegression)


ZERO_SHOT: dict[str, ZeroShotModel | AnyShotModel] = {
    "FPL": ZeroShotModel({"direction": "forward"}, _RIDGES),
    "RPL": ZeroShotModel({"direction": "reverse"}, _RIDGES, calibrates=True),
    "BPL0": ZeroShotModel({"synthesis": None}, {}, calibrates=True),
    "BPL1": ZeroShotModel({"competition": None}, _PULL),
    "BPL": ZeroShotModel({}, {**_PULL, **_PUSH}, calibrates=True),
    "BPL, unscaled": ZeroShotModel({"scaling": None}, {**_PULL, **_PUSH}),
    "without ambiguity handling": ZeroShotModel({"competition": "assigned"}, _PULL),
    "minimum entropy": ZeroShotModel({"competition": "entropy"}, {"alpha": _PULL["alpha"]}),
    "SAE (F to S)": ZeroShotModel({"direction": "feature-to-semantic"}, _SAE, classifier=SAE),
    "SAE (S to F)": ZeroShotModel({"direction": "semantic-to-feature"}, _SAE, classifier=SAE),
    "ESZSL": ZeroShotModel({}, _ESZSL, classifier=ESZSL),
    "exemplars": _exemplars("paper"),
    "RPL, recommended features": ZeroShotModel(
        {"direction": "reverse"}, _RIDGES, "recommended", calibrates=True
    ),
    "BPL0, recommended features": ZeroShotModel(
        {"synthesis": None}, _RIDGES, "recommended", calibrates=True
    ),
    "ESZSL, recommended features": ZeroShotModel({}, _ESZSL, "recommended", classifier=ESZSL),
    "exemplars, recommended features": _exemplars("recommended"),
    "recommended": AnyShotModel({"candidates": "all"}),
    "BPL1, unscaled, recommended features": _on_top(competition=None, scaling=None),
    "BPL, recommended features": _on_top(_PUSH),
    "BPL, unscaled, recommended features": _on_top(_PUSH, scaling=None),
    "assigned, unscaled, recommended features": _on_top(competition="assigned", scaling=None),
}
FEW_SHOT: dict[str, FewShotModel | AnyShotModel] = {
    "BPL (SFSP1)": FewShotModel({"synthesis": "support"}, _SHOT_WEIGHTS),
    "BPL (SFSP2)": FewShotModel({"synthesis": "base"}, _SHOT_WEIGHTS),
    "BPL (novel)": FewShotModel({"synthesis": "support", "base": None}, _SHOT_WEIGHTS),
    "NN": FewShotModel({"reference": "sample"}, {}, is_baseline=True),
    "nearest mean": FewShotModel({"reference": "mean"}, {}, is_baseline=True),
    "shots alone": FewShotModel({"reference": "mean"}, {}, is_baseline=True, preset="recommended"),
    "prototype alone": AnyShotModel({"n_shots": 1, "worth": _NO_SHOTS}),
    "recommended": AnyShotModel({"n_shots": 1}),
}


def model_of(key: Key) -> ZeroShotModel | FewShotModel | AnyShotModel:
    """Return the model of a run; the same name may stand for one of each kind."""
    return ZERO_SHOT[key.model] if is_zero_shot(key.protocol) else FEW_SHOT[key.model]
