"""The models by name: the paper's, peers, and those that we recommend."""

from __future__ import annotations

from typing import Any

from ..peers.zsl import ESZSL, SAE
from ..presets.zero_shot import REGRESSION
from .models import FewShotModel, Grid, ZeroShotModel

_RIDGES: Grid = {"beta": [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}
_PULL: dict[str, list[Any]] = {"rho": [0.2, 0.5, 0.9], "alpha": [0.1, 0.3, 0.6]}
_PUSH: Grid = {**_PULL, "mu": [0.1, 0.3]}
_SHOT_WEIGHTS: Grid = {"rho": [0.5, 0.9], "alpha": [0.1, 0.5, 0.9], "mu": [0.1, 0.3]}

# Quick runs take the first and the middle value: hence the order of some of these.
_SAE: Grid = {"lam": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]}
_ESZSL: Grid = {"gamma": [0.1, 10.0, 1.0], "lam": [0.1, 1.0], "negative": [0.0, -1.0]}
_EXEMPLARS: Grid = {"gamma": [0.25, 0.5, 1.0], "beta": [0.01, 0.03, 0.1, 0.3]}
_EXEMPLAR_FORM = {"direction": "reverse", "weight_per": "class", "kernel": "rbf"}
_SEMANTICS: dict[str, list[Any]] = {
    "beta": [0.01, 0.03, 0.1, 0.3],
    "prototype_transformer__power": [0.5, 0.7, 1.0],
    "prototype_transformer__norm": ["l2", None],
}
_RECOMMENDED: Grid = [
    {"kernel": ["linear"], **_SEMANTICS},
    {"kernel": ["rbf"], "gamma": [0.25, 0.5, 1.0], **_SEMANTICS},
]
_TOP_PULL: dict[str, list[Any]] = {"alpha": [0.01, 0.1, 0.03], "rho": [0.5, 0.9]}
_TOP_NEIGHBORS: dict[str, list[Any]] = {"n_neighbors": [3, 8]}
_FUSION: Grid = {"gamma": [0.5, 1.0, 2.0], "beta": [0.03, 0.1, 0.3]}
_NO_SHOTS = 1e9  # what a prototype is worth where shots are to count for nothing


def _on_top(push: dict[str, list[Any]] | None = None, **changed: Any) -> ZeroShotModel:
    """Return the recommended model with synthesis, its kernel and ridge as chosen without it."""
    return ZeroShotModel(
        {**REGRESSION, "synthesis": "perturb", **changed},
        {**_TOP_PULL, **(push or {}), **_TOP_NEIGHBORS},
        is_random=True,
        preset="recommended",
        extends="recommended",
    )


def _few_shot(fusion: Any, **options: Any) -> FewShotModel:
    """Return the recommended few-shot model, whose shots act through `fusion` alone."""
    fixed = {**REGRESSION, "gamma": 1.0, "beta": 0.1, "fusion": fusion}
    return FewShotModel(fixed, _FUSION, preset="recommended", **options)


ZERO_SHOT: dict[str, ZeroShotModel] = {
    "FPL": ZeroShotModel({"direction": "forward"}, _RIDGES),
    "RPL": ZeroShotModel({"direction": "reverse"}, _RIDGES, calibrates=True),
    "BPL0": ZeroShotModel({"synthesis": None}, {}, calibrates=True),
    "BPL1": ZeroShotModel({"competition": None}, _PULL, is_random=True),
    "BPL": ZeroShotModel({}, _PUSH, is_random=True, calibrates=True),
    "BPL, unscaled": ZeroShotModel({"scaling": None}, _PUSH, is_random=True),
    "without ambiguity handling": ZeroShotModel({"competition": "assigned"}, _PULL, is_random=True),
    "minimum entropy": ZeroShotModel(
        {"competition": "entropy"}, {"alpha": _PULL["alpha"]}, is_random=True
    ),
    "SAE (F to S)": ZeroShotModel({"direction": "feature-to-semantic"}, _SAE, classifier=SAE),
    "SAE (S to F)": ZeroShotModel({"direction": "semantic-to-feature"}, _SAE, classifier=SAE),
    "ESZSL": ZeroShotModel({}, _ESZSL, classifier=ESZSL),
    "exemplars": ZeroShotModel(_EXEMPLAR_FORM, _EXEMPLARS),
    "RPL, recommended features": ZeroShotModel(
        {"direction": "reverse"}, _RIDGES, preset="recommended", calibrates=True
    ),
    "BPL0, recommended features": ZeroShotModel(
        {"synthesis": None}, _RIDGES, preset="recommended", calibrates=True
    ),
    "ESZSL, recommended features": ZeroShotModel(
        {}, _ESZSL, preset="recommended", classifier=ESZSL
    ),
    "exemplars, recommended features": ZeroShotModel(
        _EXEMPLAR_FORM, _EXEMPLARS, preset="recommended"
    ),
    "recommended": ZeroShotModel(
        dict(REGRESSION), _RECOMMENDED, preset="recommended", calibrates=True
    ),
    "recommended + BPL1, unscaled": _on_top(competition=None, scaling=None),
    "recommended + BPL": _on_top({"mu": [0.1, 0.3]}),
    "recommended + BPL, unscaled": _on_top({"mu": [0.1, 0.3]}, scaling=None),
    "recommended + assigned, unscaled": _on_top(competition="assigned", scaling=None),
}
FEW_SHOT: dict[str, FewShotModel] = {
    "BPL (SFSP1)": FewShotModel({"synthesis": "support"}, _SHOT_WEIGHTS),
    "BPL (SFSP2)": FewShotModel({"synthesis": "base"}, _SHOT_WEIGHTS),
    "BPL (novel)": FewShotModel({"synthesis": "support", "base": None}, _SHOT_WEIGHTS),
    "NN": FewShotModel({"reference": "sample"}, {}, is_baseline=True),
    "nearest mean": FewShotModel({"reference": "mean"}, {}, is_baseline=True),
    "shots alone": FewShotModel({"reference": "mean"}, {}, is_baseline=True, preset="recommended"),
    "prototype alone": _few_shot(_NO_SHOTS, zero_shot=""),
    "recommended": _few_shot("auto", zero_shot="recommended"),
}
