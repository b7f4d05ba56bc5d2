"""The models that the experiments compare: what is fixed of each, and what is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from ..core import BaseClasses, Prototypes
from ..estimators import FewShotClassifier, NearestSupport, ZeroShotClassifier

Grid = dict[str, list[Any]]

_RIDGES: Grid = {"beta": [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}
_PULL: Grid = {"rho": [0.2, 0.5, 0.9], "alpha": [0.1, 0.3, 0.6]}
_PUSH: Grid = {**_PULL, "mu": [0.1, 0.3]}
_SHOT_WEIGHTS: Grid = {"rho": [0.5, 0.9], "alpha": [0.1, 0.5, 0.9], "mu": [0.1, 0.3]}


@dataclass(frozen=True)
class ZeroShotModel:
    """A zero-shot classifier on unit-length features and prototypes (the `paper` preset).

    Attributes
    ----------
    fixed : dict
        Parameters of `ZeroShotClassifier`.
    grid : dict
        Parameters to choose on training classes.
    is_random : bool
        Whether the seed matters.
    """

    fixed: dict[str, Any]
    grid: Grid
    is_random: bool = False

    def build(self, prototypes: Prototypes, seed: int, **chosen: Any) -> ZeroShotClassifier:
        """Return the estimator."""
        parameters = {**self.fixed, **chosen}
        return ZeroShotClassifier(prototypes.normalized(), random_state=seed, **parameters)


@dataclass(frozen=True)
class FewShotModel:
    """A few-shot classifier on unit-length features and prototypes.

    Attributes
    ----------
    fixed : dict
        Parameters of `FewShotClassifier`, or of `NearestSupport` for a baseline.
    grid : dict
        Parameters to choose on validation classes.
    is_baseline : bool
        Whether it does without prototypes and base classes.
    """

    fixed: dict[str, Any]
    grid: Grid
    is_baseline: bool = False

    @property
    def from_zero(self) -> bool:
        """Whether it can do without a shot: base classes and prototypes are all it needs."""
        return not self.is_baseline and self.fixed.get("base", "given") is not None

    def build(self, prototypes: Prototypes, base: BaseClasses, **chosen: Any) -> BaseEstimator:
        """Return the estimator."""
        if self.is_baseline:
            return NearestSupport(**self.fixed)
        return FewShotClassifier(prototypes, **{"base": base, **self.fixed, **chosen})


ZERO_SHOT: dict[str, ZeroShotModel] = {
    "FPL": ZeroShotModel({"direction": "forward"}, _RIDGES),
    "RPL": ZeroShotModel({"direction": "reverse"}, _RIDGES),
    "BPL0": ZeroShotModel({"synthesis": None}, {}),
    "BPL1": ZeroShotModel({"competition": None}, _PULL, is_random=True),
    "BPL": ZeroShotModel({}, _PUSH, is_random=True),
    "BPL, unscaled": ZeroShotModel({"scaling": None}, _PUSH, is_random=True),
    "without ambiguity handling": ZeroShotModel({"competition": "assigned"}, _PULL, is_random=True),
    "minimum entropy": ZeroShotModel(
        {"competition": "entropy"}, {"alpha": _PULL["alpha"]}, is_random=True
    ),
}
FEW_SHOT: dict[str, FewShotModel] = {
    "BPL (SFSP1)": FewShotModel({"synthesis": "support"}, _SHOT_WEIGHTS),
    "BPL (SFSP2)": FewShotModel({"synthesis": "base"}, _SHOT_WEIGHTS),
    "BPL (novel)": FewShotModel({"synthesis": "support", "base": None}, _SHOT_WEIGHTS),
    "NN": FewShotModel({"reference": "sample"}, {}, is_baseline=True),
    "nearest mean": FewShotModel({"reference": "mean"}, {}, is_baseline=True),
}


def thinned(grid: Grid) -> Grid:
    """Return the first and the middle value of every parameter: a grid for quick runs."""
    return {name: sorted({values[0], values[len(values) // 2]}) for name, values in grid.items()}
