"""The models that the experiments compare, by name: fixed parameters, grids, preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from zonkey.anyshot.choice import preprocessing, prototype_transformer
from zonkey.anyshot.classifier import AnyShotClassifier
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.nearest_support import NearestSupport
from zonkey.bpl.zero_shot import ZeroShotClassifier
from zonkey.optional import require_package
from zonkey.preprocessing import FeatureNormalizer
from zonkey.prototypes import Prototypes

from ...peers import fsl, zsl
from ..experiments import is_zero_shot
from ..records import Key
from . import end_to_end

Preset = Literal["paper", "recommended", "raw"]  # raw: the model scales features itself
Base = Literal["moments", "samples"]  # of base classes
Grid = dict[str, list[Any]] | list[dict[str, list[Any]]]

CLASSIFY = "classify"  # the last step of every pipeline
_TRAINING = "training__"  # of the names of parameters that a `Training` has
DEVICE: ContextVar[str | None] = ContextVar("device", default=None)  # of the run in progress


@dataclass(frozen=True)
class ZeroShotModel:
    """A zero-shot classifier behind the preprocessing of a preset."""

    fixed: dict[str, Any]
    grid: Grid  # to choose from, on training classes
    preset: Preset = "paper"
    classifier: type[Any] = ZeroShotClassifier
    calibrates: bool = True  # whether held-out training classes choose the penalty of seen ones
    is_transductive: bool = False  # whether it learns by `fit_transductive` only

    def build(
        self, prototypes: Prototypes, seed: int, *, seen: np.ndarray | None = None, **chosen: Any
    ) -> Pipeline:
        """Return the pipeline; its last step `classify` is the classifier.

        The transformation of prototypes is learned from the classes `seen`; None: all.
        """
        given = self.fixed | {"prototypes": prepare_prototypes(prototypes, self.preset, seen)}
        for name, value in (("random_state", seed), (DEVICE.name, DEVICE.get())):
            if value is not None and parameter_name(self.classifier, name) is not None:
                given[name] = value
        classifier = set_by_record(self.classifier(), {**given, **chosen})
        return Pipeline([*feature_steps(self.preset).steps, (CLASSIFY, classifier)])

    @property
    def uses_torch(self) -> bool:
        """Whether torch trains it, on a given device."""
        return parameter_name(self.classifier, DEVICE.name) is not None

    def record(self) -> dict[str, Any]:
        """Return the settings of a run that describe the model."""
        return {
            "model": self.fixed,
            "preset": self.preset,
            "classifier": self.classifier.__name__,
            "calibrates": self.calibrates,
            **({"is_transductive": True} if self.is_transductive else {}),
        }


@dataclass(frozen=True)
class FewShotModel:
    """A few-shot classifier on features and prototypes that a preset has transformed."""

    fixed: dict[str, Any]
    grid: Grid  # to choose from, on validation classes
    preset: Preset = "paper"
    classifier: type[Any] = FewShotClassifier
    walks: bool = True  # whether the search goes beyond the grid

    @cached_property
    def _known(self) -> set[str]:
        return {*self.classifier().get_params(deep=False)}

    @property
    def base(self) -> Base | None:
        """The form of base classes that it learns from; None if it needs none."""
        if "base" not in self._known or ("base" in self.fixed and self.fixed["base"] is None):
            return None
        return "moments" if issubclass(self.classifier, FewShotClassifier) else "samples"

    @property
    def from_zero(self) -> bool:
        """Whether it can predict without a shot, from base classes and prototypes."""
        return self.base == "moments"

    @property
    def is_trained(self) -> bool:
        """Whether it is trained on base classes and stopped early on validation classes."""
        return bool(getattr(self.classifier, "stops_early", False))

    @property
    def is_transductive(self) -> bool:
        """Whether it learns from the unlabeled queries, by `adapt`."""
        return bool(getattr(self.classifier, "is_transductive", False))

    @property
    def uses_torch(self) -> bool:
        """Whether torch trains it, on a given device."""
        return parameter_name(self.classifier, DEVICE.name) is not None

    def build(self, prototypes: Prototypes, base: Any, **chosen: Any) -> BaseEstimator:
        """Return the estimator; it gets prototypes, base and device if it has such parameters."""
        given = {"prototypes": prototypes, "base": base}
        given = {name: value for name, value in given.items() if name in self._known}
        if self.uses_torch and DEVICE.get() is not None:
            given[DEVICE.name] = DEVICE.get()
        return set_by_record(self.classifier(), {**given, **self.fixed, **chosen})

    def record(self) -> dict[str, Any]:
        """Return the settings of a run that describe the model."""
        name = self.classifier.__name__
        found = {"model": self.fixed, "preset": self.preset, "classifier": name}
        return {**found, **({"is_transductive": True} if self.is_transductive else {})}


@dataclass(frozen=True)
class AnyShotModel:
    """`AnyShotClassifier` on raw features; it chooses its own parameters instead of a grid."""

    fixed: dict[str, Any]

    grid: ClassVar[Grid] = {}
    preset: ClassVar[Preset] = "recommended"
    calibrates: ClassVar[bool] = True
    from_zero: ClassVar[bool] = True
    uses_torch: ClassVar[bool] = False

    def build(
        self, prototypes: Prototypes, seed: int, *, seen: np.ndarray | None = None, **chosen: Any
    ) -> Pipeline:
        """Return a pipeline without preprocessing; `chosen` are parameters as in a record.

        `seen` is ignored: the classifier transforms prototypes itself.
        """
        del seen
        # Records name candidates only if they are others than the paper's.
        parameters = {"candidates": "unseen", **self.fixed, **_from_record(chosen)}
        parameters["random_state"] = seed
        classifier = AnyShotClassifier(prototypes, **parameters)
        return Pipeline([("raw", "passthrough"), (CLASSIFY, classifier)])

    def read_choice(self, fitted: AnyShotClassifier) -> dict[str, Any]:
        """Return the parameters that a fitted classifier has chosen, for a record."""
        best = {name: v for name, v in fitted.best_params_.items() if name not in self.fixed}
        steps, transformer = best.pop("preprocessing"), best.pop("prototype_transformer")
        found = {
            "power": steps["power"].power,
            "shrinkage": steps["whiten"].shrinkage,
            "prototype_power": transformer.power,
            "prototype_norm": transformer.norm,
            **best,
        }
        return {name: _round_value(value) for name, value in found.items()}

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


def _round_value(value: Any) -> Any:
    """Round numbers: the other digits depend on the machine."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def feature_steps(preset: Preset) -> Pipeline:
    """Return the unfitted preprocessing of features."""
    if preset == "recommended":
        return preprocessing()
    return Pipeline([("unit", FeatureNormalizer() if preset == "paper" else "passthrough")])


def prepare_prototypes(
    prototypes: Prototypes, preset: Preset, seen: np.ndarray | None = None
) -> Prototypes:
    """Return transformed prototypes; the transformation is learned from `seen`, or from all."""
    if preset == "raw":
        return prototypes
    if preset == "paper":
        return prototypes.normalized()
    known = prototypes if seen is None else prototypes.subset(seen)
    transformer = prototype_transformer().fit(known.matrix)
    return Prototypes(prototypes.labels, transformer.transform(prototypes.matrix))


def parameter_name(classifier: type[Any], name: str) -> str | None:
    """Return the parameter that a record names: its own, or one of its training; None: neither."""
    known = classifier().get_params()
    return next((full for full in (name, f"{_TRAINING}{name}") if full in known), None)


def set_by_record(model: Any, parameters: Mapping[str, Any]) -> Any:
    """Set parameters by their names in records and grids, which do not say "training"."""
    names = {name: parameter_name(type(model), name) or name for name in parameters}
    return model.set_params(**{names[name]: value for name, value in parameters.items()})


def prefix_names(classifier: type[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of the classifier, named as in records, under their names in a pipeline."""
    return {
        f"{CLASSIFY}__{parameter_name(classifier, name) or name}": value
        for name, value in parameters.items()
    }


def as_dicts(grid: Grid) -> list[dict[str, list[Any]]]:
    """Return a grid as scikit-learn's list of dicts, without empty ones."""
    return [part for part in (grid if isinstance(grid, list) else [grid]) if part]


def sample_grid(grid: Grid, n_points: int) -> Grid:
    """Return a grid of `n_points` of its points, drawn without replacement; all if there are fewer.

    The draw depends on the number of points alone: models with the same grid get the same ones.
    """
    points = list(ParameterGrid(as_dicts(grid))) if as_dicts(grid) else []
    if len(points) <= n_points:
        return grid
    drawn = np.random.default_rng(0).choice(len(points), n_points, replace=False)
    return [{name: [value] for name, value in points[i].items()} for i in sorted(drawn.tolist())]


def sensitivity_grid(*, quick: bool) -> Grid:
    """Return the points whose scores show the sensitivity; every other value for a quick look."""
    return {name: values[:: 2 if quick else 1] for name, values in SENSITIVITY.items()}


def move_to_device(X: Any) -> Any:
    """Return an array on the device of the run, which is the host by default."""
    name = DEVICE.get()
    if name is None:
        return X
    return require_package("torch", "A run on another device").asarray(X, device=name)


# The catalog. Grids are where a search begins: it walks on along every parameter that is a number.

# The paper searches (0, 1). Shares are tried in even steps, the weight alpha near 0 as well.
_UNIT: list[Any] = [0.1, 0.3, 0.5, 0.7, 0.9]
_WEIGHTS: list[Any] = [0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9]
_RIDGES: dict[str, list[Any]] = {
    "beta": [0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
}
_PULL: dict[str, list[Any]] = {"rho": _UNIT, "alpha": _WEIGHTS}
_PUSH: dict[str, list[Any]] = {"mu": _UNIT}
_BPL: dict[str, list[Any]] = {**_PULL, **_PUSH}
SENSITIVITY: dict[str, list[Any]] = {**_BPL, "alpha": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.9]}
_ENTROPY: Grid = {**_PULL, "step_size": [1.0, 100.0, 10000.0], "max_iter": [10, 30, 100]}
# Support and synthesized samples are few beside those of base classes: weights near 1 matter. All
# combinations of a few values: points drawn from a finer grid may miss large alpha with small mu.
_SHOTS: dict[str, list[Any]] = {"rho": [0.3, 0.7], "alpha": [0.3, 0.9, 0.99], "mu": [0.1, 0.5]}
# Few base samples have little weight of their own, so subsets leave out small alpha. Every episode
# has base classes of its own: a trial takes seconds, and the search gets few points.
_SUBSETS: Grid = {
    "alpha": [0.9, 0.99], "base_samples_per_class": [1, 5], "rho": [0.7], "mu": [0.1],
}  # fmt: skip
_SAE: Grid = {
    "direction": ["feature-to-semantic", "semantic-to-feature"],
    "lam": [0.1, 1.0, 10.0],
    "reduction": [None, 0.3, 3.0],  # of features of unit length
}
_ESZSL: Grid = {"gamma": [0.1, 1.0, 10.0], "lam": [0.1, 1.0], "negative": [0.0, -1.0]}
_DIPL: Grid = {"alpha": [0.1, 0.3, 0.6], "beta": [0.01, 0.1, 1.0, 10.0]}
_BATCHES: dict[str, list[Any]] = {"batch_size": [32, 128]}
# Other systems: the class, and what its publication tunes.
_PEERS: dict[str, tuple[type[Any], Grid]] = {
    "DAP": (zsl.DAP, {"ridge": [0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.6, 1.0, 3.0, 10.0, 30.0,
                                100.0]}),
    "ConSE": (zsl.ConSE, {"n_top": [3, 5, 10, 30], "ridge": [0.1, 0.3, 1.0]}),
    "SSE": (zsl.SSE, {"gamma": [0.1, 0.3, 1.0, 3.0], "lam": [1e-4, 1e-3, 1e-2]}),
    "DeViSE": (zsl.DeViSE, {"learning_rate": [0.025, 0.05, 0.1, 0.2, 0.4, 0.8], **_BATCHES}),
    "SJE": (zsl.SJE, {"learning_rate": [2.5, 5.0, 10.0, 20.0, 40.0, 80.0], **_BATCHES}),
    "ALE": (zsl.ALE, {"learning_rate": [1.25, 2.5, 5.0, 10.0, 20.0, 40.0], **_BATCHES}),
    "LATEM": (zsl.LATEM, {"n_matrices": [2, 4],
                          "learning_rate": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0]}),
    "ESZSL": (zsl.ESZSL, _ESZSL),
    "SynC": (zsl.SynC, {"sigma": [0.7, 1.0, 1.3, 1.7], "lam": [1.0, 3.0, 10.0]}),
    "SAE": (zsl.SAE, _SAE),
    "EXEM": (zsl.EXEM, {"gamma": [0.1, 0.3, 1.0], "C": [3.0, 10.0], "standardize": [True, False]}),
    "CMT": (zsl.CMT, {"n_hidden": [128, 512, 1024], "learning_rate": [3e-4, 1e-3, 3e-3, 1e-2]}),
    "DEM": (zsl.DEM, {"n_hidden": [700, 1600], "weight_decay": [1e-5, 1e-4, 1e-3],
                      "learning_rate": [3e-4, 1e-3]}),
    "VZSL": (zsl.VZSL, {"lam": [0.8, 0.9, 1.0], "reconstruction": [1.0, 10.0],
                        "n_latent": [50, 100]}),
    "SP-AEN": (zsl.SPAEN, {"margin": [0.1, 0.2], "reconstruction": [1.0, 10.0],
                           "adversarial": [0.1, 1.0, 3.0]}),
    "CVAE": (zsl.CVAE, {"n_latent": [20, 50, 100], "learning_rate": [3e-4, 1e-3],
                        "n_hidden": [512, 2048]}),
    "GAN+ALE": (zsl.FCLSWGAN, {"cls_weight": [0.01, 0.1, 1.0], "learning_rate": [2e-4, 5e-4],
                               "n_synthetic": [50, 150]}),
    # Few features make small errors, beside which the published weights are large.
    "CADA-VAE": (zsl.CADAVAE, {"beta": [0.0025, 0.025, 0.25], "delta": [0.8, 8.13],
                               "scaling": ["each", "all"]}),
    "TF-VAEGAN": (zsl.TFVAEGAN, {"gan_weight": [1.0, 10.0], "cycle_weight": [0.01, 0.1, 0.3],
                                 "scaling": ["each", "all"]}),
}  # fmt: skip
_EXEMPLARS: Grid = {"gamma": [0.25, 0.5, 1.0], "ridge": [0.01, 0.03, 0.1, 0.3]}
_PULL_LITTLE: dict[str, list[Any]] = {"alpha": [0.01, 0.03, 0.1], "rho": [0.5, 0.9]}
_PUSH_LITTLE: dict[str, list[Any]] = {"mu": [0.1, 0.3]}
_NO_SHOTS = 1e6  # worth of a prototype that outweighs any number of shots


def _build_on_top(push: dict[str, list[Any]] | None = None, **fixed: Any) -> ZeroShotModel:
    """Return the paper's model on recommended features; its ridge is chosen without synthesis."""
    grid = {**_PULL_LITTLE, **(push or {}), "n_neighbors": [3, 8]}
    return ZeroShotModel(fixed, grid, "recommended", calibrates=False)


def _exemplars(preset: Preset) -> ZeroShotModel:
    """Return kernel ridge regression of class means on prototypes."""
    return ZeroShotModel({"kernel": "rbf"}, _EXEMPLARS, preset, classifier=zsl.ExemplarRegression)


def _alternative(competition: str, grid: Grid, **fixed: Any) -> ZeroShotModel:
    """Return an alternative to the paper's competition; generalized tables have none."""
    return ZeroShotModel({"competition": competition, **fixed}, grid, calibrates=False)


ZERO_SHOT: dict[str, ZeroShotModel | AnyShotModel] = {
    "FPL": ZeroShotModel({"direction": "forward"}, _RIDGES),
    "RPL": ZeroShotModel({"direction": "reverse"}, _RIDGES),
    "BPL0": ZeroShotModel({"synthesis": None}, {}),
    "BPL1": ZeroShotModel({"competition": None}, _PULL),
    "BPL": ZeroShotModel({}, _BPL),
    "BPL, as printed": ZeroShotModel({"guard": False}, _BPL),
    "BPL1, unscaled": ZeroShotModel({"competition": None, "scaling": None}, _PULL),
    "BPL, unscaled": ZeroShotModel({"scaling": None}, _BPL),
    "BPL, unscaled, as printed": ZeroShotModel({"scaling": None, "guard": False}, _BPL),
    "BPL, ridge chosen": ZeroShotModel({}, {**_BPL, **_RIDGES}),
    "BPL, per neighbor": ZeroShotModel({"synthetic_per": "neighbor"}, _BPL),
    "without ambiguity handling": _alternative("assigned", _PULL),
    "without ambiguity handling, unscaled": _alternative("assigned", _PULL, scaling=None),
    "minimum entropy": _alternative("entropy", _ENTROPY),
    "minimum entropy, unscaled": _alternative("entropy", _ENTROPY, scaling=None),
    **{name: ZeroShotModel({}, grid, classifier=kind) for name, (kind, grid) in _PEERS.items()},
    "DIPL": ZeroShotModel({}, _DIPL, classifier=zsl.DIPL, calibrates=False, is_transductive=True),
    "exemplars": _exemplars("paper"),
    "RPL, recommended features": ZeroShotModel({"direction": "reverse"}, _RIDGES, "recommended"),
    "BPL0, recommended features": ZeroShotModel({"synthesis": None}, _RIDGES, "recommended"),
    "ESZSL, recommended features": ZeroShotModel({}, _ESZSL, "recommended", classifier=zsl.ESZSL),
    "exemplars, recommended features": _exemplars("recommended"),
    "recommended": AnyShotModel({"candidates": "all"}),
    "BPL1, unscaled, recommended features": _build_on_top(competition=None, scaling=None),
    "BPL, recommended features": _build_on_top(_PUSH_LITTLE),
    "BPL, unscaled, recommended features": _build_on_top(_PUSH_LITTLE, scaling=None),
    "assigned, unscaled, recommended features": _build_on_top(competition="assigned", scaling=None),
}


def _shots(grid: Grid = _SHOTS, **fixed: Any) -> FewShotModel:
    """Return the paper's few-shot model."""
    return FewShotModel({"synthesis": "support", **fixed}, grid)


def _draw_base(**fixed: Any) -> FewShotModel:
    """Return the paper's few-shot model with base samples that each episode draws anew."""
    return FewShotModel({"synthesis": "support", **fixed}, _SUBSETS, walks=False)


def _build_nearest(reference: str, preset: Preset = "paper") -> FewShotModel:
    return FewShotModel({"reference": reference}, {}, preset, NearestSupport)


# Learning rates below the published ones: most systems begin near nearest class means.
_RATES: dict[str, list[Any]] = {"learning_rate": [3e-5, 1e-4, 3e-4, 1e-3]}
_MAML: Grid = {"n_steps": [5, 10], "inner_learning_rate": [0.003, 0.01, 0.03],
               "learning_rate": [1e-4, 1e-3]}  # fmt: skip
# As many clusters, steps and synthetic samples as in the authors' code, on given features.
_LSL_AS_PUBLISHED = {"n_clusters": 100, "n_steps": 120_000, "n_synthetic": 5, "max_iter": 90}
_PPA_AS_PUBLISHED = {"n_batches": 250, "max_iter": 50, "n_iter_no_change": None}
# Other few-shot systems: the class, fixed parameters, and what its publication tunes.
_SHOT_PEERS: dict[str, tuple[type[Any], dict[str, Any], Grid]] = {
    "SimpleShot": (fsl.SimpleShot, {}, {}),
    "LSL": (fsl.LSL, {}, {"sgm": [None, 0.02], "max_iter": [1, 3, 10],
                          "weight_decay": [1e-3, 1e-2]}),
    "LSL, published size": (fsl.LSL, _LSL_AS_PUBLISHED, {}),
    "PPA": (fsl.PPA, {}, {"mean_weight": [0.1, 0.3, 0.5, 0.9],
                          "learning_rate": [1e-4, 3e-4, 1e-3]}),
    "PPA, published size": (fsl.PPA, _PPA_AS_PUBLISHED, {}),
    "Prototypical Net": (fsl.PrototypicalNetwork, {}, {**_RATES, "n_way": [None, 10, 20]}),
    "Matching Net": (fsl.MatchingNetwork, {}, {
        "full_context": [True, False], "learning_rate": [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3]}),
    "Relation Net": (fsl.RelationNetwork, {}, {**_RATES, "n_hidden": [256, 512, 1024]}),
    "mAP-SSVM": (fsl.MAPSSVM, {}, {**_RATES, "ap_weight": [1.0, 3.0, 10.0]}),
    "MAML": (fsl.MAML, {}, _MAML),
    "MAML, first order": (fsl.MAML, {"first_order": True}, _MAML),
    "Meta-Learn LSTM": (fsl.MetaLearnerLSTM, {}, {"n_steps": [5, 12], "n_hidden": [10, 20],
                                                  "learning_rate": [3e-4, 1e-3, 3e-3]}),
    "SNAIL": (fsl.SNAIL, {}, {"n_hidden": [64, 128], "n_filters": [16, 64],
                              "learning_rate": [3e-5, 1e-4, 1e-3]}),
    "distribution calibration": (fsl.DistributionCalibration, {}, {"C": [0.001, 0.01, 0.1, 1.0],
                                                                   "n_neighbors": [1, 2, 4]}),
    "GDA": (fsl.GaussianDiscriminant, {}, {"alpha": [0.03, 0.1, 0.3, 1.0],
                                           "shrinkage": [None, 0.5, 0.9]}),
    "LP++": (fsl.LPPlusPlus, {}, {"text_scale": [2.5, 10.0, 25.0, 250.0],
                                  "n_steps": [10, 30, 100]}),
    "Tip-Adapter": (fsl.TipAdapter, {}, {"alpha": [100.0, 300.0, 1000.0, 3000.0],
                                         "beta": [1.0, 3.0, 5.5]}),
    "PT-MAP": (fsl.PTMAP, {}, {"priors": ["uniform", None], "sharpness": [5.0, 10.0, 20.0],
                               "step_size": [0.2, 0.4]}),
    "LaplacianShot": (fsl.LaplacianShot, {}, {"n_neighbors": [2, 3, 5],
                                              "smoothness": [0.1, 0.3, 0.7, 1.0]}),
    "TIM": (fsl.TIM, {"solver": "adm"}, {"temperature": [5.0, 10.0, 15.0, 20.0],
                                         "conditional_weight": [0.03, 0.1, 0.3]}),
    "alpha-TIM": (fsl.TIM, {}, {"alpha": [2.0, 3.0, 5.0, 7.0], "temperature": [5.0, 10.0, 15.0]}),
    "BD-CSPN": (fsl.BDCSPN, {}, {"temperature": [0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0,
                                                 10.0, 30.0]}),
}  # fmt: skip
# Systems that are trained on pictures. Learning rates are published, or usual.
_END_TO_END: dict[str, tuple[type[Any], Grid]] = {
    "nearest mean, end to end": (end_to_end.ClassifierEndToEnd, {}),
    "Prototypical Net, end to end": (end_to_end.PrototypicalEndToEnd, {}),
    "Matching Net, end to end": (end_to_end.MatchingEndToEnd, {}),
    "Relation Net, end to end": (end_to_end.RelationEndToEnd, {}),
    "MAML, end to end": (end_to_end.MAMLEndToEnd, {}),
}
FEW_SHOT: dict[str, FewShotModel | AnyShotModel] = {
    "BPL (SFSP1)": _shots(),
    "BPL (SFSP1), as printed": _shots(guard=False),
    "BPL (SFSP1), unscaled": _shots(scaling=None),
    "BPL (SFSP1), unscaled, as printed": _shots(scaling=None, guard=False),
    "BPL (SFSP1), sampled base": _draw_base(),
    "BPL (SFSP1), sampled base, unscaled": _draw_base(scaling=None),
    "BPL (SFSP2)": _shots(synthesis="base"),
    "BPL (SFSP2), unscaled": _shots(synthesis="base", scaling=None),
    "BPL (novel)": _shots(base=None),
    "NN": _build_nearest("sample"),
    "nearest mean": _build_nearest("mean"),
    "shots alone": _build_nearest("mean", "recommended"),
    **{
        name: FewShotModel(fixed, grid, "raw", kind)
        for name, (kind, fixed, grid) in _SHOT_PEERS.items()
    },
    **{name: FewShotModel({}, grid, "raw", kind) for name, (kind, grid) in _END_TO_END.items()},
    "prototype alone": AnyShotModel({"n_shots": 1, "worth": _NO_SHOTS}),
    "recommended": AnyShotModel({"n_shots": 1}),
}


def model_of(key: Key) -> ZeroShotModel | FewShotModel | AnyShotModel:
    """Return the model of a run; one model of each kind may have the same name."""
    return ZERO_SHOT[key.model] if is_zero_shot(key.protocol) else FEW_SHOT[key.model]
