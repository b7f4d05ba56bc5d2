"""The models that the experiments compare: what is fixed of each, and what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    make : callable
        Takes prototypes, base classes and chosen parameters.
    grid : dict
        Parameters to choose on validation classes.
    from_zero : bool
        Whether it can do without a shot.
    """

    make: Callable[..., BaseEstimator]
    grid: Grid
    from_zero: bool = False


def _competitive(**fixed: Any) -> Callable[..., BaseEstimator]:
    def make(prototypes: Prototypes, base: BaseClasses, **chosen: Any) -> BaseEstimator:
        return FewShotClassifier(prototypes, **{"base": base, **fixed, **chosen})

    return make


def _baseline(make: Callable[[], BaseEstimator]) -> Callable[..., BaseEstimator]:
    def ignore(prototypes: Prototypes, base: BaseClasses) -> BaseEstimator:  # noqa: ARG001
        return make()

    return ignore


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
    "BPL (SFSP1)": FewShotModel(_competitive(synthesis="support"), _SHOT_WEIGHTS, from_zero=True),
    "BPL (SFSP2)": FewShotModel(_competitive(synthesis="base"), _SHOT_WEIGHTS, from_zero=True),
    "BPL (novel)": FewShotModel(_competitive(synthesis="support", base=None), _SHOT_WEIGHTS),
    "NN": FewShotModel(_baseline(NearestSupport), {}),
    "nearest mean": FewShotModel(_baseline(partial(NearestSupport, "mean")), {}),
}


def thinned(grid: Grid) -> Grid:
    """Return the first and the middle value of every parameter: a grid for quick runs."""
    return {name: sorted({values[0], values[len(values) // 2]}) for name, values in grid.items()}
